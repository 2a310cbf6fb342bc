"""What the model of the original's macros takes their runs to send: against the commands in logs of the timed model."""

import random
from pathlib import Path

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.bench.alternatives import alternatives
from baco.bench.choice_gaps import drawn_layers
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.layers.text import parse_layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.command_stream import ACCUMULATOR, MacroRun, Move, stream_cycles
from baco.compiler.styles.macros.sent_commands import macro_runs_of
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.cost.evaluate import spearman
from baco.sim.engines.program import run_program
from baco.sim.job import Recording
from baco.sim.trace import read_log
from baco.sim.trace.log import LogEntry
from tests.seeds import seeds

MACHINE = load_accelerator("gemmini-default").replace(timing="gemmini")
_PHASES = {"MVIN": "inputs", "MVIN2": "weights", "MVIN3": "sums", "MVOUT": "stores"}
_ROWS, _FLAG = 0x1FFFFFFF, 1 << 31

LAYERS = [
    ("P50 C40 K40 residual 1.0 scale 0.5", "loop_ws 2,2,2 order ijk keep B"),
    ("P33 C100 K90 bias relu scale 0.001", "loop_ws 1,5,6 order jik keep A"),
    ("P40 C70 K20 groups 3 raw", "loop_ws 2,1,4 order ijk"),
    ("P20 C40 K36 transposed scale 0.001", "loop_ws 2,2,3 order ijk keep AB"),
    ("R3 S3 P10 Q9 C20 K40 stride 2x2 bias scale 0.001", "loop_conv 1,4,5,32,3,3,16 order nqpksrc keep input"),
    ("R3 S3 P10 Q10 C3 K20 image 10x10 padding 1x1 scale 0.001", "loop_conv 1,10,4,20,3,3,3 order nqpksrc 3 pixels a row"),
    ("R3 S3 P10 Q10 C8 K16 groups 3 image 10x10 padding 1x1 relu scale 0.001", "loop_conv 1,5,10,16,1,3,8 order knqpsrc"),
    ("P8 Q8 C20 K40 stride 2x2 image 16x16 scale 0.001", "loop_conv 1,8,4,32,1,1,20 order nqpksrc downsample"),
]  # fmt: skip


def _log(layer: Layer, schedule: LoopWsSchedule | LoopConvSchedule, path: Path) -> tuple[list[LogEntry], int]:
    """Commands of the units in the order in which they came to the station, and cycles from the first command to the last work."""
    program = layer_program(layer, schedule, MACHINE, draw_tensors(layer, 0))
    _, result = run_program(program, engine="rtl", recording=Recording(log=path))
    count = result.counters
    cycles = count["accelerator_last_work_cycle"] + 1 - count["accelerator_first_command_cycle"]
    entries = [entry for entry in read_log(path).entries if entry.unit != "front"]
    return sorted(entries, key=lambda entry: entry.allocated), cycles


def _local(word: int) -> int:
    return (word & _ROWS) + (ACCUMULATOR if word & _FLAG else 0)


def _moved(move: Move, named: int) -> tuple[int, int, int]:
    """The local row that the command names, so many behind the first, rows in memory, and bytes of one."""
    return move.first + named, move.rows, move.size


def _logged(entry: LogEntry, raw: bool) -> tuple[int, int, int]:
    rows, columns = entry.rs2 >> 48, entry.rs2 >> 32 & 0xFFFF
    words = raw and entry.name in ("MVIN3", "MVOUT")
    return _local(entry.rs2 & 0xFFFFFFFF), rows, columns * (4 if words else 1)


@pytest.mark.parametrize(("layer", "schedule"), LAYERS)
def test_the_commands_are_those_of_the_macros(layer: str, schedule: str, tmp_path: Path) -> None:
    """Moves of every phase in their order, with local rows, rows and bytes; passes with rows, and whether weights come in."""
    problem, how = parse_layer(layer), parse_schedule(schedule)
    assert isinstance(how, LoopWsSchedule | LoopConvSchedule)
    entries, _ = _log(problem, how, tmp_path / "log")
    runs = list(macro_runs_of(problem, how, MACHINE))
    addends_are_words = problem.residual_scale is None
    for name, phase in _PHASES.items():
        logged = [entry for entry in entries if entry.name == name]
        raw = problem.scale is None if name == "MVOUT" else addends_are_words
        # copies of a pixel that is repeated lie below the row that is named
        named = how.pixels - 1 if phase == "inputs" and isinstance(how, LoopConvSchedule) else 0
        sent = [move for run in runs for move in getattr(run, phase)]
        if phase == "sums" and addends_are_words:
            # a bias is one row, written to many
            assert [_logged(entry, raw)[::2] for entry in logged] == [_moved_once(move) for move in sent]
        else:
            assert [_logged(entry, raw) for entry in logged] == [_moved(move, named) for move in sent]
    passes = [one for run in runs for one in run.passes]
    preloads = [entry for entry in entries if entry.name == "PRELOAD"]
    computes = [entry for entry in entries if entry.name.startswith("COMPUTE")]
    assert [_local(entry.rs2 & ~(1 << 30) & 0xFFFFFFFF) for entry in preloads] == [
        one.results[0] for one in passes
    ]
    assert [entry.name == "COMPUTE_PRELOADED" for entry in computes] == [one.fresh for one in passes]
    assert [(_local(entry.rs1 & 0xFFFFFFFF), entry.rs1 >> 48) for entry in computes] == [
        (one.inputs[0], one.rows) for one in passes
    ]  # fmt: skip


def _moved_once(move: Move) -> tuple[int, int]:
    return move.first, move.size


def _cycles(runs: list[MacroRun], style: str) -> float:
    bank_rows = MACHINE.scratchpad_rows // MACHINE.scratchpad_banks
    return stream_cycles(runs, MachineRates.of(MACHINE), MACHINE.accumulator_rows // 2, bank_rows, style)


@pytest.mark.parametrize("seed", seeds(1, of=4))
def test_schedules_of_small_layers_are_ranked(seed: int, tmp_path: Path) -> None:
    """Of an addition, a grouped and a strided layer drawn at random, as the timed model of the original ranks them."""
    kinds = ("addition", "grouped", "3x3 strided")
    layers = {kind: layer for kind, layer in drawn_layers(120, 31 + seed) if kind in kinds}
    for kind in kinds:
        layer, said, took = layers[kind], [], []
        options = [
            one
            for one in alternatives(layer, MACHINE, 40, seed)
            if isinstance(one, LoopWsSchedule | LoopConvSchedule)
        ]
        random.Random(seed).shuffle(options)
        for schedule in options:
            runs = list(macro_runs_of(layer, schedule, MACHINE))
            if sum(map(len, runs)) > 3000 or len(took) == 8:
                continue
            said.append(_cycles(runs, schedule.style))
            took.append(_log(layer, schedule, tmp_path / "log")[1])
        if len(set(took)) > 4:
            rank = spearman(np.array(said), np.array(took, dtype=float))
            assert rank is not None
            assert rank > 0.8, (kind, layer)
