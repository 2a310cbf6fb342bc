"""Many layers in one program, or one on the numpy accelerator: each is compared with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.codegen.program import Buffer, build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer
from baco.sim.engines.program import run_program
from tests.compiler.ir.strict_machine import StrictMachine
from tests.compiler.layers.layer_oracle import draw_blocks, draw_tensors, read_blocks, run_layer, two_a_byte

#: What results hold where no layer writes.
FILL = 0x55


@dataclass(frozen=True)
class Case:
    """A layer and how it is carried out."""

    layer: Layer
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.schedule} of {self.layer}"


def wrong_layers(
    cases: Sequence[Case], accelerator: Accelerator, engine: str = "functional", seed: int = 0
) -> list[str]:
    """Run all cases in one program; a line for each whose results are not the oracle's."""
    random = np.random.default_rng(seed)
    data, results, scratch = _Arena(), _Arena(), _Arena()
    e = Emitter("layers", ["data", "results", "scratch"])
    base_data, base_results, base_scratch = e.arguments
    wanted = []
    for case in cases:
        layer = case.layer
        tensors = draw_tensors(layer, random)
        expected_of = tensors
        if layer.weight_bits == 4:
            tensors = {**tensors, "weight": two_a_byte(tensors["weight"])}
        if layer.weight_blocks is not None:
            stored = draw_blocks(layer, random)
            expected_of = {**tensors, "weight": read_blocks(layer, stored)}
            tensors = {**tensors, "weight": stored}
        places = {name: e.add(base_data, data.add(array.tobytes())) for name, array in tensors.items()}
        fill = int.from_bytes([FILL] * (layer.output_bits // 8))
        expected = run_layer(layer, expected_of, fill=fill, side=accelerator.dim)
        at = results.add(expected.tobytes())
        wanted.append((case, at, expected))
        spaces = {
            name: e.add(base_scratch, scratch.add(bytes(size)))
            for name, size in plan_layer(layer, case.schedule, accelerator).workspaces
        }
        operands = Operands(
            places["input"], places["weight"], e.add(base_results, at), places.get("bias", 0),
            places.get("residual", 0), spaces,
        )  # fmt: skip
        plan_layer(layer, case.schedule, accelerator).emit(e, operands)
        e.fence()
    start = np.full(results.size, FILL, np.int8)
    buffers = [
        Buffer("data", (data.size,), "int8", data=np.frombuffer(data.content(), np.int8)),
        Buffer("results", (results.size,), "int8", "inout", data=start),
        Buffer("scratch", (scratch.size,), "int8", "workspace"),
    ]
    outputs, result = run_program(build_program(e.finish(), "layers", buffers, accelerator), engine=engine)
    assert result.exit_code == 0, result.console
    found = outputs["results"]
    lines = []
    for case, at, expected in wanted:
        got = found[at : at + expected.nbytes].view(expected.dtype)
        differ = np.nonzero(got != expected)[0]
        if len(differ):
            n = differ[0]
            lines.append(f"{case}: {len(differ)} of {len(got)}, first [{n}] {got[n]}, not {expected[n]}")
    return lines


def right_on(
    machine: StrictMachine, accelerator: Accelerator, case: Case, random: np.random.Generator
) -> bool:
    """Run a case on the numpy accelerator that asserts hazards are avoided; whether it is right."""
    machine.gemmini.fence()  # what ran before
    layer, tensors = case.layer, draw_tensors(case.layer, random)
    wanted = run_layer(layer, tensors, fill=7)
    spaces = plan_layer(layer, case.schedule, accelerator).workspaces
    arrays = {**tensors, "output": np.full_like(wanted, 7)} | {
        name: np.zeros(size, np.int8) for name, size in spaces
    }
    places, end = {}, 64
    for name, array in arrays.items():
        places[name] = end
        machine.bytes[end : end + array.nbytes] = array.view(np.uint8)
        end += -(-array.nbytes // 64) * 64 + 64
    e = Emitter("layer", list(places))
    at = dict(zip(places, e.arguments, strict=True))
    extra = {name: at[name] for name, _ in spaces}
    operands = Operands(
        at["input"], at["weight"], at["output"], at.get("bias", 0), at.get("residual", 0), extra
    )
    plan_layer(layer, case.schedule, accelerator).emit(e, operands)
    (function,) = e.finish().ops
    machine.call(function, [machine.base + place for place in places.values()])
    got = machine.bytes[places["output"] : places["output"] + wanted.nbytes].view(wanted.dtype)
    return np.array_equal(got, wanted)


class _Arena:
    """Bytes one after another, each piece aligned and followed by room that macros may read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 64

    def add(self, content: bytes) -> int:
        """Where the piece begins."""
        at = self.size
        room = (len(content) + 127) // 64 * 64
        self._pieces.append(content.ljust(room, b"\x77"))
        self.size += room
        return at

    def content(self) -> bytes:
        """All of it."""
        return bytes(64) + b"".join(self._pieces)
