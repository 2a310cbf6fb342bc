"""The programs of a design: whole networks as they were measured, or one ELF file a layer with the result it must have."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco.common.errors import InfeasibleError
from baco.common.files import atomic_write, output_folder
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.layers.text import layer_text
from baco.exploration.accuracy import keep_accuracy, kept_accuracy
from baco.exploration.measure.compare import best_measured
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.program_job import compile_plan
from baco.exploration.objective import Objective
from baco.sim.energy import energy_source

#: What was measured of the best design.
_MEASURED = "measured.json"
#: Names of programs.
_NAME = r"\d{3,}-[A-Za-z0-9._-]{1,60}\.elf"


def write_best(designs: Sequence[Design], objective: Objective, out: Path) -> list[Path]:
    """Write the whole programs of the best measured design into `out`/best, each with its plan; nothing where the best one
    was measured layer by layer, or not at all.

    `accuracy.json` says what the networks lose in integers on the study's data, where it has any. `measured.json` has cycles and energy of each, predicted and measured, with the error. `plan.json` says all that `baco compile --network best/plan.json` needs to make `program.elf` again, byte for byte.
    Of several networks each has files of its own (`program-NAME.elf`). Raises StorageError.
    """
    best = best_measured(designs, objective)
    folder = output_folder(out, "best")
    for pattern in ("plan*.json", "program*.elf", "accuracy.json", _MEASURED):  # those of an earlier best
        for old in folder.glob(pattern):
            old.unlink(missing_ok=True)
    paths: list[Path] = []
    for one in best.programs if best else ():
        assert one.plan is not None  # it was measured
        suffix = (
            ""
            if best and len(best.programs) == 1
            else "-" + re.sub(r"[^A-Za-z0-9._-]+", "_", one.network)[:60]
        )
        kept = replace(one.plan, data=one.plan.data and one.plan.data.seen_from(folder))
        for name, content in (
            (f"plan{suffix}.json", kept.text),
            (f"program{suffix}.elf", compile_plan(one.plan).program.elf),
        ):
            atomic_write(folder / name, content)
            paths.append(folder / name)
    accuracy = kept_accuracy(out)
    if best is not None and best.programs and accuracy.networks:
        paths.append(keep_accuracy(folder, accuracy))
    if best is not None and best.programs:
        atomic_write(folder / _MEASURED, json.dumps(_measured(best), indent=1) + "\n")
        paths.append(folder / _MEASURED)
    return paths


def _measured(design: Design) -> dict[str, Any]:
    """What was predicted and measured of each program, how far they are apart, and where energies come from."""
    programs = {}
    for one in design.programs:
        assert one.measured is not None  # all were
        rows = (
            ("cycles", one.predicted_cycles, one.measured.cycles, one.ratio),
            ("energy_pj", one.predicted_energy_pj, one.measured.energy_pj, one.energy_ratio),
        )
        programs[one.network] = {
            name: {"predicted": guess, "measured": found, "error": None if ratio is None else ratio - 1}
            for name, guess, found, ratio in rows
        }
    return {"design": design.name, "energy_source": energy_source(design.accelerator), "programs": programs}


def write_programs(design: Design, out: Path) -> list[Path]:
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
    for number, (one, task) in enumerate(zip(design.layers, design.tasks, strict=True)):
        if one.schedule is None:
            raise InfeasibleError(f"{design.name}, {task.name}: {design.reason or one.reason}")
        tensors = draw_tensors(one.layer, 0)
        program = layer_program(
            one.layer,
            one.schedule,
            design.accelerator,
            tensors,
            expected=layer_result(one.layer, tensors, design.accelerator.dim),
        )
        label = re.sub(r"[^A-Za-z0-9._-]+", "_", task.operators[0] if task.operators else "layer")[:60]
        path = folder / f"{number:03d}-{label}.elf"
        atomic_write(path, program.elf)
        paths.append(path)
        lines.append(
            f"{path.name}: {task.count:g} runs of {layer_text(one.layer)}\n    {one.schedule.text}\n"
        )
    head = (
        f"{design.name}: one program for each unique layer, with random tensors; exit code 0 when its result is right.\n"
        "Run one on the Verilog of the accelerator: baco simulate NAME.elf --accelerator ../accelerator.yaml\n\n"
    )
    atomic_write(folder / "README.txt", head + "".join(lines))
    return paths
