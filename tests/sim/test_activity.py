"""Activity counted from commands: by hand for small streams, by a separate count for random ones, on both engines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import GARBAGE, is_garbage, local_address_bits
from baco.sim.cosim.run import random_stream
from baco.sim.engines.base import run_job
from baco.sim.job import Job, Recording, Simulation
from baco.sim.trace import LogEntry, read_log
from tests.machines import PLAIN, SMALL, UNITS, WHOLE
from tests.sim.harness_helpers import BASE, command

ACCUMULATOR, ACCUMULATE, READ_FULL = 1 << 31, 1 << 30, 1 << 29
ENGINES = ("functional", "rtl")
#: Sides and dataflows that random streams are counted on.
RANDOM = (SMALL, PLAIN, WHOLE)


def play(
    folder: Path, text: str, engine: str, accelerator: Accelerator = SMALL
) -> tuple[Simulation, list[LogEntry]]:
    """A stream's result, and its commands in program order."""
    stream, log = folder / "stream.txt", folder / f"{engine}.csv"
    stream.write_text(text)
    result = run_job(Job(accelerator, stream=stream, recording=Recording(log=log)), engine=engine)
    entries = [one for one in read_log(log).entries if one.unit != "front"]
    return result, sorted(entries, key=lambda one: one.allocated) if engine == "rtl" else entries


def counts(accelerator: Accelerator = SMALL, **values: int) -> dict[str, int]:
    """All counts of an accelerator, those not named 0."""
    names = "macs array_macs stationary_words accumulator_read_words accumulator_write_words"
    names += " scratchpad_read_bytes scratchpad_write_bytes dram_read_bytes dram_write_bytes"
    if accelerator.features.row_functions:
        names += " table_elements softmax_elements normalisation_elements product_elements"
    if accelerator.features.normalizations:
        names += " variance_elements exponential_elements layer_norm_elements i_gelu_elements"
        names += " integer_softmax_elements"
    return dict.fromkeys(names.split(), 0) | values


def configured(**execute: int) -> str:
    """Plain settings: rows of 16 bytes, blocks of a load 4 rows apart."""
    text = command("CONFIG_EX", **{"dataflow": 1, "a_stride": 1, "c_stride": 1} | execute)
    for state in range(3):
        text += command("CONFIG_LD", state=state, pixel_repeats=1, block_stride=4, stride=16)
    return text + command("CONFIG_ST", stride=16)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_weight_stationary_product_by_hand(tmp_path: Path, engine: str) -> None:
    """3 x 2 times 2 x 4 at dim 4, then the same weights again on sums that are there."""
    text = configured()
    text += command("MVIN", address=BASE, local=0, cols=2, rows=3)
    text += command("MVIN2", address=BASE + 64, local=8, cols=4, rows=2)
    for accumulate, name, weights in ((0, "PRELOADED", 8), (ACCUMULATE, "ACCUMULATED", GARBAGE)):
        target = ACCUMULATOR | accumulate
        text += command("PRELOAD", bd=weights, bd_cols=4, bd_rows=2, c=target, c_cols=4, c_rows=3)
        text += command(f"COMPUTE_{name}", a=0, a_cols=2, a_rows=3, bd=GARBAGE, bd_cols=4, bd_rows=3)
    text += command("MVOUT", address=BASE + 128, local=ACCUMULATOR, cols=4, rows=3) + "fence\n"
    result, _ = play(tmp_path, text, engine)
    assert result.activity == counts(
        macs=2 * 3 * 2 * 4,
        array_macs=2 * 3 * 16,
        stationary_words=2 * 4,
        accumulator_write_words=2 * 3 * 4,
        accumulator_read_words=3 * 4 + 3 * 4,  # to accumulate, to store
        scratchpad_write_bytes=(3 + 2) * 4,
        scratchpad_read_bytes=2 * 3 * 4 + 2 * 4,  # A twice, the weights once
        dram_read_bytes=3 * 2 + 2 * 4,
        dram_write_bytes=3 * 4,
    )
    assert result.macs == result.activity["macs"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_output_stationary_product_by_hand(tmp_path: Path, engine: str) -> None:
    """2 x 3 times 3 x 4 with a bias from the scratchpad into the scratchpad; A passes the transposer, 4 rows at a time."""
    text = configured(dataflow=0)
    text += command("MVIN", address=BASE, local=0, cols=3, rows=2)
    text += command("MVIN", address=BASE + 64, local=4, cols=4, rows=3)
    text += command("MVIN", address=BASE + 128, local=8, cols=4, rows=2)
    text += command("PRELOAD", bd=8, bd_cols=4, bd_rows=2, c=12, c_cols=4, c_rows=2)
    text += command("COMPUTE_PRELOADED", a=0, a_cols=3, a_rows=2, bd=4, bd_cols=4, bd_rows=3)
    text += command("MVOUT", address=BASE + 256, local=12, cols=4, rows=2) + "fence\n"
    result, _ = play(tmp_path, text, engine)
    assert result.activity == counts(
        macs=2 * 3 * 4,
        array_macs=4 * 16,
        stationary_words=2 * 4,
        scratchpad_write_bytes=(2 + 3 + 2 + 2) * 4,
        scratchpad_read_bytes=(2 + 3 + 2 + 2) * 4,
        dram_read_bytes=2 * 3 + 3 * 4 + 2 * 4,
        dram_write_bytes=2 * 4,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_moves_by_hand(tmp_path: Path, engine: str) -> None:
    """Wide and repeated loads, a replicated bias, raw and pooled stores, a copy inside."""
    text = configured()
    text += command("MVIN", address=BASE, local=0, cols=10, rows=3)  # blocks of 4, 4 and 2 columns
    text += command("CONFIG_LD", state=1, pixel_repeats=2, block_stride=4, stride=16)
    text += command("MVIN2", address=BASE, local=17, cols=2, rows=3)  # rows 17..19, and again from 16..18
    text += command("MVIN2", address=BASE, local=0, cols=2, rows=1)  # nothing is below row 0
    text += command("CONFIG_LD", state=2, pixel_repeats=1, block_stride=4, stride=0)
    text += command("MVIN3", address=BASE, local=ACCUMULATOR, cols=4, rows=4)
    text += command("MVIN3", address=BASE, local=ACCUMULATOR | ACCUMULATE, cols=3, rows=4)
    text += command("MVIN", address=0, local=20, cols=4, rows=4)  # zeros come from nowhere
    text += command("MVOUT", address=BASE + 256, local=ACCUMULATOR | READ_FULL, cols=4, rows=2)
    text += command("MVOUT_SPAD", destination=32, destination_stride=1, local=ACCUMULATOR, cols=3, rows=2)
    # windows of 2 x 2, a step apart, over 2 x 2 pixels with a row and a column of padding
    text += command("CONFIG_ST", stride=16, pool_stride=1, pool_size=2, upad=1, lpad=1, pool_out_dim=2,
                    porows=2, pocols=2, orows=2, ocols=2)  # fmt: skip
    text += command("MVOUT", address=BASE + 512, local=ACCUMULATOR, cols=4, rows=4) + "fence\n"
    result, _ = play(tmp_path, text, engine)
    inside = 1 + 2 + 2 + 4  # of each window's elements, those on the image
    assert result.activity == counts(
        accumulator_write_words=2 * 4 * 4,
        accumulator_read_words=4 * 4 + 2 * 4 + 2 * 4 + inside * 4,
        scratchpad_write_bytes=(3 * 3 + 2 * 3 + 1 + 4 + 2) * 4,
        dram_read_bytes=3 * 10 + 3 * 2 + 2 + 4 * 4 + 3 * 4,
        dram_write_bytes=2 * 16 + 4 * 4,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_of_rows_by_hand(tmp_path: Path, engine: str) -> None:
    """A table on the way out, a softmax and a normalisation of three rows of two blocks each, a product of two, wide and inner
    stores."""
    text = configured() + command("LOAD_TABLE", table=ACCUMULATOR)
    text += command("CONFIG_FUNCTION", function=1)
    text += command("MVOUT", address=BASE, local=0, cols=3, rows=2)
    text += command("MVOUT", address=BASE + 64, local=ACCUMULATOR | READ_FULL, cols=3, rows=2)
    text += command("MVOUT_SPAD", destination=40, destination_stride=1, local=0, cols=3, rows=1)
    text += command("CONFIG_FUNCTION", function=2, parameter=1 << 20)
    text += command("MVOUT", address=BASE + 128, local=8, cols=7, rows=3)
    text += command("CONFIG_FUNCTION", function=3, shift=12, parameter=ACCUMULATOR | 4)
    text += command("MVOUT", address=BASE + 192, local=ACCUMULATOR | 16, cols=7, rows=3)
    text += command("CONFIG_FUNCTION", function=3, product=1, shift=12, parameter=ACCUMULATOR | 4)
    text += command("MVOUT", address=BASE + 256, local=8, cols=5, rows=2) + "fence\n"
    result, _ = play(tmp_path, text, engine, UNITS)
    assert result.activity == counts(
        UNITS,
        table_elements=3 * 4,
        softmax_elements=3 * 8,
        normalisation_elements=3 * 8,
        product_elements=2 * 8,
        scratchpad_read_bytes=2 * 4 + 4 + 3 * (3 * 8) + 2 * 8,  # softmax: largest, sum, results
        scratchpad_write_bytes=4,
        # table, raw store; elements for the statistics and for the results, gains and offsets; right operand
        accumulator_read_words=128 + 2 * 4 + 3 * (3 * 8) + 2 * 8,
        dram_write_bytes=2 * 3 + 2 * 3 * 4 + 2 * 3 * 7 + 2 * 5,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_normaliser_commands_by_hand(tmp_path: Path, engine: str) -> None:
    """Statistics of rows of two blocks, which leave main memory alone, then each kind of results; a raw store."""

    def store(norm: int, rows: int) -> str:
        return command("MVOUT", address=BASE, local=ACCUMULATOR | norm << 26, cols=7, rows=rows)

    text = configured() + "".join(store(norm, 2) for norm in range(1, 8)) + store(0, 3)
    text += command("MVOUT", address=BASE + 64, local=ACCUMULATOR | READ_FULL, cols=3, rows=2)
    for activation, rows in ((2, 1), (3, 2), (0, 3)):
        text += command("CONFIG_ST", stride=16, activation=activation)
        text += command("CONFIG_NORM", activation_msb=int(activation == 0), stats_id=1)
        text += command("CONFIG_NORM", set_stats_id_only=1, activation_msb=1)
        text += store(0, rows)
    result, _ = play(tmp_path, text + "fence\n", engine, UNITS)
    assert result.activity == counts(
        UNITS,
        variance_elements=2 * (2 * 8),
        exponential_elements=2 * (2 * 8),
        layer_norm_elements=8,
        i_gelu_elements=2 * 8,
        integer_softmax_elements=3 * 8,
        accumulator_read_words=7 * (2 * 8) + 3 * 8 + 2 * 4 + (1 + 2 + 3) * 8,
        dram_write_bytes=3 * 7 + 2 * 3 * 4 + (1 + 2 + 3) * 7,
    )


class Separate:
    """Counts what commands do from their descriptions in the instruction set, one rule a line."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator, self.dim = accelerator, accelerator.dim
        self.row_mask = (1 << local_address_bits(accelerator) + 1) - 1  # the bit above is the garbage bit
        self.found: Counter[str] = Counter()
        self.loads: dict[int, dict[str, int]] = {
            n: {"repeats": 1, "stride": 0, "shrink": 0, "packed": 0} for n in range(3)
        }
        self.execute = {"ws": "OS" not in accelerator.dataflows, "ta": 0, "tb": 0}
        self.store: dict[str, int] = {}
        self.stale_zero = False
        self.function = ""

    def real(self, operand: dict[str, int]) -> bool:
        return not operand["garbage"] and operand["rows"] > 0 and operand["cols"] > 0

    def operand(self, value: int) -> dict[str, int]:
        address = value & 0xFFFFFFFF
        return {
            "address": address,
            "garbage": int(is_garbage(address, local_address_bits(self.accelerator))),
            "cols": value >> 32 & 0xFFFF,
            "rows": value >> 48,
            "row": address & self.row_mask,
        }

    def add(self, one: LogEntry) -> None:
        d, found = self.dim, self.found
        rs1, rs2 = one.rs1, one.rs2
        if one.name == "CONFIG_LD":
            state = rs1 >> 3 & 3
            self.loads[state] = {"repeats": max(1, rs1 >> 8 & 255), "stride": rs2, "shrink": rs1 >> 2 & 1}
            self.loads[state]["apart"] = rs1 >> 16 & 0xFFFF
            self.loads[state]["packed"] = rs1 >> 5 & self.accelerator.features.packed_weights
        elif one.name == "CONFIG_EX" and not rs1 >> 7 & 1:
            flows = self.accelerator.dataflows
            self.execute = {
                "ws": bool(rs1 >> 2 & 1) if len(flows) == 2 else "WS" in flows,
                "ta": rs1 >> 8 & 1,
                "tb": rs1 >> 9 & 1,
            }
        elif one.name == "CONFIG_ST":
            names = {"step": (4, 2), "size": (6, 2), "up": (8, 2), "left": (10, 2), "porows": (32, 8),
                     "pocols": (40, 8), "orows": (48, 8), "ocols": (56, 8)}  # fmt: skip
            self.store = {name: rs1 >> at & (1 << width) - 1 for name, (at, width) in names.items()}
        elif one.name in ("MVIN", "MVIN2", "MVIN3"):
            state = self.loads[{"MVIN": 0, "MVIN2": 1, "MVIN3": 2}[one.name]]
            to = self.operand(rs2)
            size = 4 if to["address"] & ACCUMULATOR and not state["shrink"] else 1
            if rs1:
                row = -(-to["cols"] // 2) if state["packed"] and size == 1 else to["cols"] * size
                found["dram_read_bytes"] += (to["rows"] if state["stride"] else 1) * row
            for block in range(-(-to["cols"] // d)):
                for row in range(to["rows"]):
                    if to["address"] & ACCUMULATOR:
                        found["accumulator_write_words"] += d
                        found["accumulator_read_words"] += d * bool(to["address"] & ACCUMULATE)
                        continue
                    at, half = (
                        to["row"] + row + block * state.get("apart", 0),
                        self.accelerator.scratchpad_rows // 2,
                    )
                    for copy in range(state["repeats"]):
                        same_half = at < half or at - copy >= half
                        found["scratchpad_write_bytes"] += d * (at - copy >= 0 and same_half)
        elif one.name in ("MVOUT", "MVOUT_SPAD"):
            self.stored(one)
        elif one.name == "CONFIG_FUNCTION":
            names = ("", "table", "softmax", "product" if rs1 >> 9 & 1 else "normalisation")
            self.function = names[rs1 & 3]
        elif one.name == "LOAD_TABLE":
            found["accumulator_read_words"] += 256 * 2 // 4
        elif one.name == "PRELOAD":
            self.moved, self.result = self.operand(rs1), self.operand(rs2)
        elif one.name.startswith("COMPUTE"):
            self.computed(one)

    def stored(self, one: LogEntry) -> None:
        d, found, s = self.dim, self.found, self.store
        source = self.operand(one.rs2)
        accumulator = source["address"] & ACCUMULATOR
        size = 4 if accumulator and source["address"] & READ_FULL else 1
        written, reads = source["rows"], source["rows"] * -(-source["cols"] // d)
        if one.name == "MVOUT_SPAD":
            found["scratchpad_write_bytes"] += reads * d
            written = 0
        elif s.get("step"):
            windows = [(y, x) for y in range(s["porows"]) for x in range(s["pocols"])]
            written = len(windows)
            reads = sum(
                0 <= y * s["step"] + dy - s["up"] < s["orows"] and 0 <= x * s["step"] + dx - s["left"] < s["ocols"]
                for y, x in windows
                for dy in range(s["size"])
                for dx in range(s["size"])
            )  # fmt: skip
        elif s.get("size"):
            written = reads = s["orows"] * s["ocols"]
        if self.function and size == 1:
            found[f"{self.function}_elements"] += reads * d
            found["accumulator_read_words"] += reads * d * (self.function in ("normalisation", "product"))
            reads *= {"table": 1, "softmax": 3, "normalisation": 2, "product": 1}[self.function]
        found["dram_write_bytes"] += written * source["cols"] * size
        found["accumulator_read_words" if accumulator else "scratchpad_read_bytes"] += reads * d

    def computed(self, one: LogEntry) -> None:
        d, found, ws = self.dim, self.found, self.execute["ws"]
        a, other, c, moved = self.operand(one.rs1), self.operand(one.rs2), self.result, self.moved
        wide = c if ws else other
        if not a["garbage"] and not wide["garbage"]:
            found["macs"] += a["rows"] * a["cols"] * wide["cols"]
        new = one.name == "COMPUTE_PRELOADED"
        if ws:
            self.stale_zero = not self.real(moved) if new else self.stale_zero
        idle = ws and self.stale_zero
        fed = self.real(a) and not idle
        kept = self.real(c)
        steps = max(a["rows"] * (not a["garbage"]), c["rows"] * kept) if ws else 0
        if not ws and not a["garbage"] and not other["garbage"]:
            steps = min(a["cols"], other["rows"])
        turned_a = fed and bool(self.execute["ta"]) == ws
        turned_b = not ws and self.execute["tb"] and self.real(other)
        steps = d if turned_a or turned_b else max(1, steps)
        found["array_macs"] += steps * d * d
        reads = 0
        if fed:
            stored = a["cols"] if self.execute["ta"] else a["rows"]
            reads += stored if turned_a else min(stored, steps)
        if self.real(other):
            stored = other["cols"] if not ws and self.execute["tb"] else other["rows"]
            reads += stored if turned_b else min(stored, steps)
        if new and self.real(moved):
            stored = moved["cols"] if ws and self.execute["tb"] else moved["rows"]
            reads += stored
            found["stationary_words"] += stored * d
        found["scratchpad_read_bytes"] += reads * d
        if kept and c["address"] & ACCUMULATOR:
            found["accumulator_write_words"] += c["rows"] * d
            found["accumulator_read_words"] += c["rows"] * d * bool(c["address"] & ACCUMULATE)
        elif kept:
            found["scratchpad_write_bytes"] += c["rows"] * d


def stream_text(accelerator: Accelerator, index: int) -> str:
    """A random legal stream of co-simulation, as the harness plays it."""
    items: list[Any] = random_stream(accelerator, 11, index).items
    return "".join(
        "fence\n" if one is None else f"cmd {one.funct:x} {one.rs1:x} {one.rs2:x}\n" for one in items
    )


@pytest.mark.parametrize("accelerator", RANDOM, ids=("both", "OS", "functions"))
def test_random_streams_on_both_engines(tmp_path: Path, accelerator: Accelerator) -> None:
    """The engines execute the same commands, each unit in the same order, and count what a separate count finds."""
    seen: Counter[str] = Counter()
    for index in range(80):
        if index >= 12 and set(seen) == set(counts(accelerator)):  # functions of rows are in few streams
            break
        text = stream_text(accelerator, index)
        results = {}
        for engine in ENGINES:
            results[engine], entries = play(tmp_path, text, engine, accelerator)
            separate = Separate(accelerator)
            for one in entries:
                separate.add(one)
            assert results[engine].activity == counts(accelerator, **separate.found), (engine, index)
        assert results["rtl"].activity == results["functional"].activity
        assert results["rtl"].unrolled == results["functional"].unrolled
        seen.update({name: 1 for name, value in results["rtl"].activity.items() if value})
    assert set(seen) == set(counts(accelerator))  # every count is exercised


def test_first_and_last_cycle(tmp_path: Path) -> None:
    """Work begins with the first command and ends before the fence lets the host on."""
    result, _ = play(
        tmp_path, configured() + command("MVIN", address=BASE, local=0, cols=4, rows=4) + "fence\n", "rtl"
    )
    assert result.cycles is not None
    first, last = (
        result.counters[f"accelerator_{name}"] for name in ("first_command_cycle", "last_work_cycle")
    )
    assert first == 0
    assert result.counters["accelerator_busy_cycles"] <= last + 1 <= result.cycles
    assert (
        last > result.counters["memory_read_latency_sum_cycles"] // 4
    )  # the load's own requests came and went
