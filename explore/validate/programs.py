"""The programs of a design: one ELF file a layer, with random tensors and the result it must have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import InfeasibleError
from common.files import atomic_write, output_folder
from compiler.layer_program import layer_program
from compiler.layer_reference import draw_tensors, layer_result
from compiler.schedules.text import parse_layer, parse_schedule
from explore.validate.design import Design
from workloads.network import Task

__all__ = ["write_programs"]

#: Names of programs.
_NAME = r"\d{3,}-[A-Za-z0-9._-]{1,60}\.elf"


def write_programs(design: Design, tasks: Sequence[Task], out: Path) -> list[Path]:
    """Compile every layer of a design into `out`/best/programs, as it is measured; what an earlier call wrote there goes.

    Each program checks its own result: it ends with exit code 1 where an element is wrong. `README.txt` says how to run
    them. Raises InfeasibleError for a design that cannot be compiled, StorageError.
    """
    folder = output_folder(out, "best", "programs")
    for old in folder.iterdir():
        if re.fullmatch(_NAME, old.name):  # and nothing else that the user keeps there
            old.unlink(missing_ok=True)
    paths = []
    lines = []
    for number, (planned, task) in enumerate(zip(design.layers, tasks, strict=True)):
        if design.reason or planned.reason:
            raise InfeasibleError(f"{design.name}, {task.name}: {design.reason or planned.reason}")
        layer, schedule = parse_layer(planned.layer), parse_schedule(planned.schedule)
        tensors = draw_tensors(layer, 0)
        program = layer_program(
            layer, schedule, design.accelerator, tensors, expected=layer_result(layer, tensors)
        )
        label = re.sub(r"[^A-Za-z0-9._-]+", "_", task.operators[0] if task.operators else "layer")[:60]
        path = folder / f"{number:03d}-{label}.elf"
        atomic_write(path, program.elf)
        paths.append(path)
        lines.append(f"{path.name}: {task.count:g} runs of {planned.layer}\n    {planned.schedule}\n")
    head = (
        f"{design.name}: one program for each unique layer, with random tensors; exit code 0 when its result is right.\n"
        "Run one on the Verilog of the accelerator: baco simulate NAME.elf --accelerator ../accelerator.yaml\n\n"
    )
    atomic_write(folder / "README.txt", head + "".join(lines))
    return paths
