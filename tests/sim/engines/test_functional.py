"""The functional model against a numpy model written separately from the ISA specification."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from baco.sim.cosim.accelerators import random_accelerator
from baco.sim.cosim.run import random_stream
from baco.sim.cosim.stream import BASE as START
from baco.sim.cosim.stream import MEMORY_BYTES
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory
from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import ONE
from tests.seeds import seeds
from tests.sim.cosim_streams import memory_contents, numpy_model
from tests.sim.functional_bench import Outcome, driver, run

#: Main memory, and where results go.
BASE, SIZE = 0x80000000, 3 << 15
OUTPUT = BASE + (1 << 16)
GARBAGE = 0xFFFFFFFF
ACC, FULL = 1 << 31, 1 << 29


def operand(address: int, rows: int, cols: int) -> int:
    """The register value naming rows x cols elements at a local address word."""
    return address | cols << 32 | rows << 48


SMALL = GemminiConfig(dim=4, scratchpad_rows=128, accumulator_rows=64)


@pytest.mark.parametrize("number", seeds(5, of=200))
def test_random_streams_on_random_machines(number: int, tmp_path: Path) -> None:
    """Main memory afterwards, with features left out at random, macros among the commands."""
    accelerator = random_accelerator(5, number)
    for index in range(3):
        stream = random_stream(accelerator, 5, index)
        before = memory_contents(int(stream.settings["data"]))
        lines = [f"cmd {one.funct:x} {one.rs1:x} {one.rs2:x}" for one in stream.items if one is not None]
        path = tmp_path / "stream"
        path.write_text(
            "\n".join(
                (f"write {START:x} {before.tobytes().hex()}", *lines, f"dump {START:x} {MEMORY_BYTES:x}\n")
            )
        )
        job = Job(accelerator, stream=path, memory=MainMemory(size_bytes=MEMORY_BYTES))
        (dump,) = run_job(job, engine="functional").memory_dumps
        assert dump == numpy_model(accelerator, stream).memory.tobytes(), stream.name


def commands(*items: tuple[int, int, int]) -> str:
    return "".join(f"cmd {funct:x} {rs1 % 2**64:x} {rs2 % 2**64:x}\n" for funct, rs1, rs2 in items)


def config_ex(ws: int = 1, relu: int = 0, transposes: int = 0, shift: int = 0) -> tuple[int, int, int]:
    return 0, ws << 2 | relu << 3 | transposes << 8 | 1 << 16, shift | 1 << 48


def config_ld(stride: int, state: int = 0, scale: int = ONE, block_stride: int = 4) -> tuple[int, int, int]:
    return 0, 1 | state << 3 | 1 << 8 | block_stride << 16 | scale << 32, stride


def config_st(stride: int, scale: int = ONE, fields: int = 0) -> tuple[int, int, int]:
    return 0, 2 | fields, stride | scale << 32


def dumped(outcome: Outcome, dtype: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(outcome.output[-1].split()[2]), dtype)


def test_convolution_equals_the_textbook_loops(tmp_path: Path) -> None:
    """One whole layer, padded, strided, with bias and pooling, against loops over every index."""
    dim, h, w, ci, co, k, stride, pad = 4, 7, 6, 5, 6, 3, 2, 1
    rows, cols = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    config = GemminiConfig(dim=dim, scratchpad_rows=1024, accumulator_rows=256)
    numbers = np.random.default_rng(5)
    image = numbers.integers(-128, 128, (h, w, ci)).astype(np.int8)
    kernel = numbers.integers(-128, 128, (k, k, ci, co)).astype(np.int8)
    bias = numbers.integers(-1000, 1000, co).astype("<i4")
    answer = np.zeros((rows, cols, co), np.int64)
    for r in range(rows):
        for c in range(cols):
            for o in range(co):
                total = int(bias[o])
                for y in range(k):
                    for x in range(k):
                        ir, ic = r * stride + y - pad, c * stride + x - pad
                        if 0 <= ir < h and 0 <= ic < w:
                            total += sum(int(image[ir, ic, i]) * int(kernel[y, x, i, o]) for i in range(ci))
                # 2**-9 is exact in float32, so ties to even can be seen in integers
                low, rest = divmod(max(total, 0), 512)
                answer[r, c, o] = min(127, low + (rest > 256 or (rest == 256 and low % 2 == 1)))
    pooled = np.zeros((rows // 2, cols // 2, co), np.int64)
    for r in range(rows // 2):
        for c in range(cols // 2):
            pooled[r, c] = answer[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max(axis=(0, 1))

    places = {"image": BASE, "kernel": BASE + 0x1000, "bias": BASE + 0x2000}
    stream = "".join(
        f"write {places[name]:x} {data.tobytes().hex()}\n"
        for name, data in (("image", image), ("kernel", kernel), ("bias", bias))
    )
    down = (rows - 1) * stride + k - h - pad
    right = (cols - 1) * stride + k - w - pad
    # the unroller's image has stride - 1 rows more than the windows reach
    down, right = down + stride - 1, right + stride - 1
    loop = (
        (16, co << 48 | ci << 32 | h << 16 | 1, stride << 48 | cols << 32 | (rows // 2) << 16 | rows),
        (
            17,
            k << 48 | (cols // 2) << 32 | 2 << 16 | 2 << 8,
            1 << 48 | (rows // 2) << 32 | (cols // 2) << 16 | co,
        ),
        (18, k << 48 | k << 32 | ci << 16 | pad, right << 48 | pad << 32 | down << 24 | w),
        (19, rows << 48 | 1, ci << 48 | co << 32 | co << 16 | cols),
    )
    scale = 0x3B000000  # 2**-9
    for pool, expected in ((False, answer), (True, pooled)):
        text = stream + commands(
            (0, 1 << 2 | stride << 16 | ONE << 32, 1 << 48),
            config_st(co, scale, fields=1 << 2),
            *loop,
            (20, places["kernel"], OUTPUT),
            (21, places["bias"], places["image"]),
            (15, 0, (0 if pool else 1) | 1 << 3),
        )
        text += f"fence\ndump {OUTPUT:x} {expected.size:x}\n"
        outcome = run(config, text, tmp_path, base=BASE, size=SIZE)
        assert outcome.error is None
        assert dumped(outcome, "i1").tolist() == expected.ravel().tolist()


def test_matrix_product_in_tiles(tmp_path: Path) -> None:
    """Two halves of K accumulate in one half of the accumulator; macs and traffic are the useful ones."""
    dim, m, n, k = 4, 11, 9, 16
    config = GemminiConfig(dim=dim, scratchpad_rows=512, accumulator_rows=128)
    numbers = np.random.default_rng(7)
    a, b = (numbers.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    text = f"write {BASE:x} {a.tobytes().hex()}\nwrite {BASE + 4096:x} {b.tobytes().hex()}\n"
    text += commands(config_ex(), config_ld(k), config_ld(n, 1), config_ld(4 * n, 2), config_st(4 * n))
    for part in range(2):
        text += commands(
            (9, 3 << 16 | 1, 2 << 32 | 3 << 16 | 3),
            (10, BASE + part * 8, BASE + 4096 + part * 8 * n),
            (11, 0, OUTPUT if part else 0),
            (12, k, n),
            (13, 0, n),
            (8, part | 1 << 1, 0),
        )
    outcome = run(config, text + f"dump {OUTPUT:x} {4 * m * n:x}\n", tmp_path, base=BASE, size=SIZE)
    assert outcome.error is None
    assert dumped(outcome, "<i4").reshape(m, n).tolist() == (a.astype(int) @ b.astype(int)).tolist()
    assert outcome.statistics == {
        "macs": m * n * k,
        "bytes_read": m * k + k * n,
        "bytes_written": 4 * m * n,
    }


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (0x3F000000, [-64, -2, -2, 0, 0, 0, 0, 2, 2, 64]),  # 0.5: ties to even
        (0x3F7FFFFF, [-128, -5, -3, -1, 0, 0, 1, 3, 5, 127]),  # just below 1
        (0x7FC00000, [127] * 10),  # not a number
        (0xFF800000, [127, 127, 127, 127, 127, 127, -128, -128, -128, -128]),  # -infinity; 0 * inf is NaN
        (0x00000001, [0] * 10),  # the least subnormal
    ],
)
def test_load_scale(scale: int, expected: list[int], tmp_path: Path) -> None:
    config = GemminiConfig(dim=16, scratchpad_rows=64, accumulator_rows=32)
    values = np.array([-128, -5, -3, -1, 0, 0, 1, 3, 5, 127], np.int8)
    text = f"write {BASE:x} {values.tobytes().hex()}\n" + commands(
        config_ld(16, scale=scale),
        config_st(16),
        (2, BASE, operand(0, 1, 10)),
        (3, OUTPUT, operand(0, 1, 10)),
    )
    outcome = run(config, text + f"dump {OUTPUT:x} a\n", tmp_path, base=BASE, size=SIZE)
    assert dumped(outcome, "i1").tolist() == expected


def test_preload_of_garbage_means_zero_weights(tmp_path: Path) -> None:
    ones = np.ones(16, np.int8).tobytes().hex()
    text = f"write {BASE:x} {ones}\n" + commands(
        config_ex(), config_ld(4), config_st(16), (2, BASE, operand(0, 4, 4)),
        (6, operand(0, 4, 4), operand(ACC, 4, 4)), (4, operand(0, 4, 4), operand(GARBAGE, 4, 4)),
        (6, operand(GARBAGE, 4, 4), operand(ACC | 4, 4, 4)), (5, operand(0, 4, 4), operand(GARBAGE, 4, 4)),
        (6, operand(GARBAGE, 4, 4), operand(ACC | 8, 4, 4)), (4, operand(0, 4, 4), operand(0, 4, 4)),
        *((3, OUTPUT + 64 * n, operand(ACC | FULL | 4 * n, 4, 4)) for n in range(3)),
    )  # fmt: skip
    outcome = run(SMALL, text + f"dump {OUTPUT:x} c0\n", tmp_path, base=BASE, size=SIZE)
    assert dumped(outcome, "<i4").reshape(3, 16).tolist() == [[4] * 16, [4] * 16, [1] * 16]


def four(address: int, rows: int = 4, cols: int = 4) -> int:
    return operand(address, rows, cols)


SETUP = (config_ex(), config_ld(4), config_ld(4, 1), config_ld(4, 2), config_st(4))
NO_SMALL = {"read_small_width": False}
LOOP = ((9, 0, 1 << 32 | 1 << 16 | 1), (10, BASE, BASE), (11, 0, OUTPUT), (12, 4, 4), (13, 4, 4))
PAIR = ((6, four(0), four(ACC)), (4, four(0), four(GARBAGE)))
REJECTED: list[tuple[str, dict[str, bool], list[tuple[int, int, int]], int, str]] = [
    ("unknown", {}, [(99, 0, 0)], 1, "unknown command: breaks the rule that the function code is one of a command"),
    ("spike-fence", {}, [(127, 0, 0)], 1, "unknown command: breaks the rule that "),
    ("norm", {}, [(0, 3, 0)], 2, "CONFIG_NORM"),
    ("layernorm", {}, [(0, 2 | 2 << 2, 0)], 2, "CONFIG_ST: breaks the rule that activation is none or ReLU where normalizations are not built (activation = 2)"),
    ("no-loop", {"loop_ws": False}, [(9, 0, 0)], 2, "LOOP_WS_CONFIG_BOUNDS"),
    ("no-conv", {"loop_conv": False}, [(15, 0, 0)], 2, "LOOP_CONV_WS"),
    ("softmax-loop", {}, [*LOOP, (8, 4 << 8, 0)], 2, "LOOP_WS: breaks the rule that layer norm and softmax (act 2, 4) are built (act = 4)"),
    ("small-off", NO_SMALL, [(3, OUTPUT, four(ACC))], 2, "read_small_width"),
    ("full-off", {"read_full_width": False}, [(3, OUTPUT, four(ACC | FULL))], 2, "read_full_width"),
    ("ws-both", {}, [config_ex(transposes=3)], 3, "CONFIG_EX: breaks the rule that weight-stationary, A and B are not both transposed"),
    ("os-b", {}, [config_ex(ws=0, transposes=2)], 3, "output-stationary"),
    ("rows", {}, [(2, BASE, operand(0, 256, 4))], 4, "MVIN: breaks the rule that rows are 1 to 255 (rows = 256)"),
    ("rows-0", {}, [(1, BASE, operand(0, 0, 4))], 4, "MVIN2: breaks the rule that rows are 1 to 255 (rows = 0)"),
    ("rows-wide", {}, [(3, OUTPUT, operand(0, 5, 8))], 4, "MVOUT: breaks the rule that rows are 1 to DIM, of one block"),
    ("cols-0", {}, [(14, BASE, operand(0, 4, 0))], 4, "MVIN3: breaks the rule that cols are at least 1"),
    ("cols", {}, [(2, BASE, operand(0, 4, 65))], 4, "cols = 65"),
    ("overlap", {}, [config_ld(4, block_stride=2), (2, BASE, operand(0, 4, 8))], 4, "block_stride = 2"),
    ("raw-wide", {}, [(3, OUTPUT, operand(ACC | FULL, 4, 5))], 4, "raw, pooled and 1-D stores have at most DIM columns"),
    ("a-size", {}, [(6, four(0), four(ACC)), (4, operand(0, 4, 7), four(GARBAGE))], 4, "COMPUTE_PRELOADED: breaks the rule that operands have at most DIM rows and columns"),
    ("loop-size", {}, [(9, 0, 9 << 32 | 1 << 16 | 1), *LOOP[1:], (8, 0, 0)], 4, "LOOP_WS: breaks the rule that A and B do not overlap (a_rows = 36, b_rows = 36"),
    ("loop-acc", {}, [(9, 0, 1 << 32 | 3 << 16 | 3), *LOOP[1:], (8, 0, 0)], 4, "LOOP_WS: breaks the rule that C fits half of the accumulator (c_rows = 36, ACCUMULATOR_ROWS = 64)"),
    ("state-3", {}, [(0, 1 | 3 << 3, 0)], 5, "CONFIG_LD: breaks the rule that state is 0, 1 or 2 (state = 3)"),
    ("resadd-t", {}, [*LOOP, (8, 0, 5)], 5, "an addition has no D and transposes nothing"),
    ("resadd-d", {}, [*LOOP[:2], (11, BASE, 0), *LOOP[3:], (8, 0, 4)], 5, "an addition has no D and transposes nothing"),
    ("acc-operand", {}, [(6, four(ACC), four(GARBAGE))], 5, "PRELOAD: breaks the rule that the array reads from the scratchpad"),
    ("spad-off", {"write_to_scratchpad": False}, [(6, four(0), four(8))], 5, "PRELOAD: breaks the rule that results in the scratchpad are built"),
    ("spad-acc", {}, [(23, ACC, four(0))], 5, "MVOUT_SPAD: breaks the rule that the destination is in the scratchpad"),
    ("sp-end", {}, [(2, BASE, four(126))], 6, "MVIN: breaks the rule that the destination exists, whole (past = 130"),
    ("acc-end", {}, [(3, OUTPUT, four(ACC | 62))], 6, "MVOUT: breaks the rule that the source exists, whole (past = 66"),
    ("garbage", {}, [(2, BASE, four(GARBAGE))], 6, "the destination exists"),
    ("compute", {}, [(4, four(0), four(GARBAGE))], 7, "COMPUTE_PRELOADED: breaks the rule that a PRELOAD comes before it"),
    ("two-computes", {}, [*PAIR, PAIR[1]], 7, "COMPUTE_PRELOADED: breaks the rule that a PRELOAD comes before it"),
    ("accumulated", {}, [*PAIR, (5, *PAIR[1][1:])], 7, "COMPUTE_ACCUMULATED: breaks the rule that a PRELOAD comes before it"),
    ("two-preloads", {}, [PAIR[0], *PAIR], 7, "PRELOAD: breaks the rule that the PRELOAD before it has had its COMPUTE"),
    ("preload-loop", {}, [PAIR[0], *LOOP, (8, 0, 0)], 7, "LOOP_WS: breaks the rule that no PRELOAD waits for its COMPUTE"),
    ("config-between", {}, [PAIR[0], config_ex(), PAIR[1]], 7, "CONFIG_EX: breaks the rule that no PRELOAD waits for its COMPUTE"),
    ("strides-between", {}, [PAIR[0], (0, 1 << 7, 0), PAIR[1]], 7, "CONFIG_EX: breaks the rule that no PRELOAD waits for its COMPUTE"),
    ("taken", {}, [config_ex(ws=0), *PAIR, PAIR[0], (5, *PAIR[1][1:])], 8, "COMPUTE_ACCUMULATED: breaks the rule that the array holds weights, or sums that have not left it"),
    ("first", {}, [config_ex(ws=0), PAIR[0], (5, *PAIR[1][1:])], 8, "COMPUTE_ACCUMULATED: breaks the rule that the array holds weights, or sums that have not left it"),
    ("reconfigured", {}, [config_ex(ws=0), *PAIR, config_ex(ws=0), PAIR[0], (5, *PAIR[1][1:])], 8, "COMPUTE_ACCUMULATED: breaks the rule that the array holds weights, or sums that have not left it"),
    ("memory", {}, [(2, BASE - 8, four(0))], 15, "reads 4 bytes at 0x7ffffff8"),
    ("inside-loop", {}, [LOOP[0], (10, 8, BASE), *LOOP[2:], (8, 0, 0)], 15, "LOOP_WS: MVIN: reads"),
]  # fmt: skip


@pytest.mark.parametrize(("features", "items", "code", "text"), [case[1:] for case in REJECTED], ids=[c[0] for c in REJECTED])  # fmt: skip
def test_illegal_commands_are_rejected(
    features: dict[str, bool], items: list[tuple[int, int, int]], code: int, text: str, tmp_path: Path
) -> None:
    config = GemminiConfig(dim=4, scratchpad_rows=128, accumulator_rows=64, **features)
    # what follows the rejected command is ignored, and its error does not replace the first
    stream = commands(*SETUP, *items, (98, 0, 0), (3, OUTPUT, four(0)))
    outcome = run(
        config, f"fill {OUTPUT:x} 4 55\n{stream}dump {OUTPUT:x} 4\n", tmp_path, base=BASE, size=SIZE
    )
    assert outcome.error is not None
    assert outcome.error[0] == code
    assert text in outcome.error[1]
    assert outcome.output == [f"dump {OUTPUT:x} 55555555"]


@pytest.mark.parametrize(
    ("items", "code", "text"),
    [
        ([(2, 0, four(0))], 10, "MVIN: breaks the rule that a CONFIG_LD of state 0 has come before"),
        ([config_ld(4), (14, BASE, four(0))], 10, "MVIN3: breaks the rule that a CONFIG_LD of state 2"),
        ([(3, OUTPUT, four(0))], 10, "MVOUT: breaks the rule that a CONFIG_ST has come before"),
        ([(0, 1 << 7, 0), PAIR[0]], 10, "PRELOAD: breaks the rule that a CONFIG_EX of everything"),
        ([*SETUP[:-1], *LOOP, (8, 0, 0)], 10, "LOOP_WS: breaks the rule that the CONFIG_LD, CONFIG_EX"),
        ([*SETUP, *LOOP[:-1], (8, 0, 0)], 11, "LOOP_WS: breaks the rule that bounds, addresses and strides"),
        ([*SETUP, *LOOP, (8, 0, 0), *LOOP[1:], (8, 0, 0)], 11, "LOOP_WS: breaks the rule that bounds"),
        ([*SETUP, (15, 0, 0)], 11, "LOOP_CONV_WS: breaks the rule that all six configurations"),
    ],
)
def test_what_was_not_configured(
    items: list[tuple[int, int, int]], code: int, text: str, tmp_path: Path
) -> None:
    outcome = run(SMALL, commands(*items), tmp_path, base=BASE, size=SIZE)
    assert outcome.error is not None
    assert (outcome.error[0], outcome.error[1][: len(text)]) == (code, text)


def test_counters_follow_the_protocol(tmp_path: Path) -> None:
    """A counter is zero until its unit works, then grows with time; bytes are exact; 126 is COUNTER_OP."""
    reset, leave, take, configure = 1, 2, 4, 8

    def op(actions: int = 0, index: int = 0, event: int = 0, external: bool = False) -> tuple[int, int, int]:
        return 126, actions | index << 4 | event << 12 | external << 31, 0

    load, store = (2, BASE, four(0)), (3, OUTPUT, four(0))
    load_active, store_active, bytes_read = 9, 12, 4
    stream = commands(
        *SETUP,
        op(configure, 0, load_active),
        op(configure, 1, store_active),
        op(configure, 2, bytes_read, True),
        op(),  # idle
        load,
        *(op(0, 2), op(0, 1)),  # bytes; no store yet
        *(op(take), store, op(), op(0, 1)),  # the snapshot stays
        *(op(leave), op(), op(0, 1), op(0, 2)),  # live again
        *(op(configure, 0, load_active), op(), op(0, 1)),  # only the configured one is zero
        *(op(reset), op(0, 1), op(0, 2), load, op(), op(0, 2)),  # events stay selected
    )
    output = run(SMALL, stream, tmp_path, base=BASE, size=SIZE).output
    values = [int(line.split()[1], 16) for line in output]
    assert values[:6] == [0, 0, 0, 0, 16, 0]
    taken, then, no_store, left, live, stored, moved, before, anew, other = values[6:16]
    assert taken == then == left < live < before
    assert (no_store, anew, moved) == (0, 0, 16)
    assert 0 < stored < other
    final, *values = values[16:]
    assert final == 0
    assert values[:2] == [0, 0]
    assert (values[2] > 0, values[3:]) == (True, [16])
    none = GemminiConfig(dim=4, scratchpad_rows=128, accumulator_rows=64, counters=0)
    assert (
        run(none, commands(*SETUP, load, op(), op(take), op()), tmp_path, base=BASE, size=SIZE).output
        == ["response 0"] * 3
    )


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        ("cmd 2 0\n", "line 1: no rs2"),
        ("fence\ncmd 80 0 0\n", "line 2: function code 80 is too large"),
        ("cmd 2 0x10 0\n", "rs1 '0x10' is not hexadecimal"),
        ("write 80000000 123\n", "odd number of digits"),
        ("write 80000000 1g\n", "bytes are not hexadecimal"),
        ("wait\n", "'wait' is not an item"),
        ("fence now\n", "unexpected 'now'"),
        ("dump 0 4\n", "outside memory"),
    ],
)
def test_malformed_streams(stream: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(SMALL.lines())
    call = [str(driver()), str(tmp_path / "config"), f"{BASE:x}", f"{SIZE:x}"]
    done = subprocess.run(call, input=stream, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert text in done.stderr
