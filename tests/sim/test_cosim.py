"""RTL, functional model and numpy model agree on random legal command streams; what does not is found and shortened."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import fields, replace
from importlib import resources
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matmul_stream import ProductStream
from numpy_gemmini import GemminiConfig, NumpyGemmini

from accel.config import Accelerator, Features
from accel.isa import IDENTITY_SCALE, Command, encode
from baco.main import run as baco
from common.errors import InputError
from sim.cosim.accelerators import random_accelerator
from sim.cosim.campaign import run_campaign
from sim.cosim.minimise import minimise
from sim.cosim.run import Simulator, random_stream
from sim.cosim.stream import BASE, MEMORY_BYTES, Stream, group_items, parse_stream
from sim.job import Job
from sim.run import run_job

#: Everything on, and the partial sums of Gemmini; small memories.
WHOLE = Accelerator(
    name="whole", dim=4, scratchpad_kib=1, accumulator_kib=1, partial_sum_bits=20, tile_rows=2, dma_bits=64,
    features=Features(mvin_scale_acc=True),
)  # fmt: skip
#: Few of everything: queues and stations of one entry, one bank, half of the features.
SCARCE = Accelerator(
    name="scarce", dim=8, dataflow="WS", scratchpad_kib=2, accumulator_kib=2, scratchpad_banks=1,
    accumulator_banks=1, dma_bits=32, dma_max_bytes=8, dma_requests=1, load_queue=1, execute_queue=1,
    store_queue=1, load_entries=1, execute_entries=2, store_entries=1, counters=1,
    features=Features(training_convs=False, first_layer=False, max_pool=False, mvin_scale=False, preload_d=False),
)  # fmt: skip
#: Nothing but products: the smallest array.
PLAIN = Accelerator(
    name="plain", dim=2, dataflow="OS", scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=8,
    accumulator_banks=4, dma_bits=128, dma_max_bytes=128, counters=0, partial_sum_bits=32,
    features=Features(loop_ws=False, loop_conv=False, activations=False, accumulator_scale=False),
)  # fmt: skip
STREAMS = {"whole": 260, "scarce": 140, "plain": 100}


@pytest.fixture(scope="module")
def whole() -> Simulator:
    return Simulator(WHOLE)


@pytest.mark.parametrize("accelerator", [WHOLE, SCARCE, PLAIN], ids=lambda one: one.name)
def test_random_streams(accelerator: Accelerator) -> None:
    (result,) = run_campaign([accelerator], STREAMS[accelerator.name], seed=0, shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == STREAMS[accelerator.name]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_streams_on_25_configurations() -> None:
    accelerators = [random_accelerator(2, number) for number in range(25)]
    results = list(run_campaign(accelerators, 400, seed=2, shorten=False))
    failures = [(one.stream.name, one.outcome.describe()) for result in results for one in result.failures]
    assert failures == []
    assert sum(result.streams for result in results) == 10_000


def memory_contents(seed: int) -> np.ndarray:
    """What sim/cpp/cosim.h says about the key `data`."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, MEMORY_BYTES + 1, dtype=np.uint64) + np.uint64(seed)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return ((z ^ z >> np.uint64(31)) >> np.uint64(56)).astype(np.uint8)


def numpy_digest(accelerator: Accelerator, stream: Stream) -> str:
    """CRC-32 of main memory, scratchpad and raw accumulator as the numpy model leaves them."""
    flags = {name: getattr(accelerator.features, name) for name in Features.model_fields}
    flags |= {"ws": "WS" in accelerator.dataflows, "os": "OS" in accelerator.dataflows}
    known = {one.name for one in fields(GemminiConfig)}
    values = {name: getattr(accelerator, name) for name in known if hasattr(accelerator, name)}
    config = GemminiConfig(**values, **{name: flag for name, flag in flags.items() if name in known})
    memory = memory_contents(int(stream.settings["data"]))
    model = NumpyGemmini(config, memory, BASE)
    for item in stream.items:
        if item is not None:
            model.execute(*item)
    contents = model.memory.tobytes()
    contents += model.sp.astype(np.int8).tobytes() + model.acc.astype("<i4").tobytes()
    return f"{zlib.crc32(contents):08x}"


@pytest.mark.parametrize("accelerator", [WHOLE, SCARCE, PLAIN], ids=lambda one: one.name)
def test_numpy_model_agrees(accelerator: Accelerator) -> None:
    streams = [random_stream(accelerator, 1, index) for index in range(40)]
    for stream, outcome in zip(streams, Simulator(accelerator).play(streams), strict=True):
        assert outcome.kind == "same", outcome.describe()
        assert outcome.digest == numpy_digest(accelerator, stream), stream.name


def play_products(accelerator: Accelerator, stream: ProductStream, folder: Path) -> None:
    path = folder / "products"
    path.write_text(stream.text())
    stream.check(run_job(Job(accelerator=accelerator, stream=path), engine="rtl").memory_dumps)


@pytest.mark.parametrize("ws", [True, False], ids=["weight-stationary", "output-stationary"])
def test_every_shape_at_dim_4(ws: bool, tmp_path: Path) -> None:
    stream = ProductStream(4, seed=int(ws))
    for m, n, k in product(range(1, 10), repeat=3):
        stream.product(m, n, k, ws)
    assert len(stream.expected) == 729
    play_products(WHOLE, stream, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dim", [8, 16])
def test_sample_of_shapes(dim: int, tmp_path: Path) -> None:
    accelerator = WHOLE.replace(dim=dim, scratchpad_kib=16, accumulator_kib=16)
    stream = ProductStream(dim, seed=dim)
    for index in range(500):
        m, n, k = (int(x) for x in stream.random.integers(1, 2 * dim + 2, 3))
        stream.product(m, n, k, ws=index % 2 == 0)
    play_products(accelerator, stream, tmp_path)


def broken_sources(folder: Path) -> Path:
    """The Verilog without the wait of a write for older reads of the same rows by other units."""
    sources = folder / "rtl"
    shutil.copytree(str(resources.files("accel") / "rtl"), sources)
    path = sources / "baco_reservation.v"
    text = path.read_text()
    assert text.count("? op_write[i] || e_write[e][j]") == 1
    path.write_text(text.replace("? op_write[i] || e_write[e][j]", "? e_write[e][j]"))
    return sources


def test_planted_bug_is_found_and_shortened(tmp_path: Path, whole: Simulator) -> None:
    broken = Simulator(WHOLE, sources=broken_sources(tmp_path))
    streams = [random_stream(WHOLE, 0, index) for index in range(60)]
    failed = [stream for stream, outcome in zip(streams, broken.play(streams), strict=True) if outcome.failed]
    # the same bug shows in streams of plain commands, which can be cut further than macros
    plain = [stream for stream in failed if not {8, 15} & {item.funct for item in stream.items if item}]
    assert len(failed) > len(plain) > 0
    small = minimise(plain[0], broken)
    assert small.outcome.failed
    assert 4 * len(small.stream.items) <= len(plain[0].items)
    # what is left needs no more than a read and a write behind it, and both models agree on it in sound hardware
    assert small.divergence is not None
    assert small.divergence.index == len(small.stream.groups) - 1
    assert "in RTL" in small.divergence.describe()
    assert [outcome.kind for outcome in whole.play([small.stream])] == ["same"]
    assert minimise(plain[0], broken).stream.text() == small.stream.text()
    with pytest.raises(ValueError, match="does not fail"):
        minimise(small.stream, whole)


def test_streams_come_from_their_seed_alone() -> None:
    text = random_stream(WHOLE, 3, 5).text()
    assert random_stream(WHOLE.replace(name="other"), 3, 5).text() == text
    assert random_stream(WHOLE, 3, 6).text() != text != random_stream(WHOLE, 4, 5).text()
    assert random_accelerator(1, 2).config_hash == random_accelerator(1, 2).config_hash
    stream = parse_stream(random_stream(WHOLE, 3, 5).text(comments=True), "a file")
    assert stream.text() == text
    assert stream.groups == random_stream(WHOLE, 3, 5).groups


def test_streams_cover_every_command_and_setting() -> None:
    items = [item for index in range(150) for item in random_stream(WHOLE, 0, index).items]
    expected = {None, *range(26), 126}
    assert {None if item is None else item.funct for item in items} == expected


CONFIG_EX = encode("CONFIG_EX", dataflow=1, a_stride=1, c_stride=1)
CONFIG_OS = encode("CONFIG_EX", dataflow=0, a_stride=1, c_stride=1)
CONFIG_LD = encode("CONFIG_LD", pixel_repeats=1, block_stride=4, scale=IDENTITY_SCALE, stride=4)
CONFIG_ST = encode("CONFIG_ST", stride=4, acc_scale=IDENTITY_SCALE)


def load(address: int, local: int) -> Command:
    return encode("MVIN", address=address, local=local, cols=4, rows=4)


def preload(b: int, c: int, c_cols: int = 4) -> Command:
    return encode("PRELOAD", bd=b, bd_cols=4, bd_rows=4, c=c, c_cols=c_cols, c_rows=4)


def compute(a: int, bd: int, kind: str = "PRELOADED") -> Command:
    return encode(f"COMPUTE_{kind}", a=a, a_cols=4, a_rows=4, bd=bd, bd_cols=4, bd_rows=4)


ACC = 1 << 31
NOWHERE = 2**32 - 1
STORE = encode("MVOUT", address=BASE, local=0, cols=4, rows=4)
ILLEGAL = {
    "used before its CONFIG": [load(BASE, 0)],
    "read and written without a fence": [CONFIG_LD, CONFIG_ST, load(BASE, 0), STORE],
    "touched before its COMPUTE": [CONFIG_EX, CONFIG_LD, preload(0, ACC), load(BASE, 2), compute(8, 12)],
    "overwrites operands of its own COMPUTE": [CONFIG_EX, preload(0, 10), compute(8, 16)],
    "before a COMPUTE_PRELOADED": [CONFIG_EX, preload(0, ACC), compute(8, 12, "ACCUMULATED")],
    "they have left it as the result before": [
        *(CONFIG_OS, preload(0, ACC), compute(8, 12)),
        *(preload(0, ACC), compute(8, 12, "ACCUMULATED")),
    ],
    "the PRELOAD before it has had no COMPUTE": [CONFIG_EX, preload(0, ACC), preload(4, ACC), compute(8, 12)],
    "stands between a PRELOAD and its COMPUTE": [CONFIG_EX, preload(0, ACC), CONFIG_EX, compute(8, 12)],
    "overlaps its source": [CONFIG_ST, encode("MVOUT_SPAD", destination=2, destination_stride=1, local=0, cols=4, rows=4)],
    "another CONFIG_EX": [
        *(CONFIG_OS, CONFIG_ST, encode("CONFIG_LD", block_stride=4), encode("CONFIG_LD", block_stride=4, state=1)),
        *(encode("CONFIG_LD", block_stride=4, state=2), encode("LOOP_WS_CONFIG_BOUNDS", i=1, j=1, k=1)),
        *(encode("LOOP_WS_CONFIG_ADDRS_AB"), encode("LOOP_WS_CONFIG_ADDRS_DC"), encode("LOOP_WS_CONFIG_STRIDES_AB")),
        *(encode("LOOP_WS_CONFIG_STRIDES_DC"), encode("LOOP_WS")),
    ],
    "not defined": [Command(99, 0, 0)],
    "beyond the scratchpad": [CONFIG_LD, load(BASE, 254)],
}  # fmt: skip


def test_illegal_streams_are_told_apart(whole: Simulator) -> None:
    streams = [Stream(f"s{n}", group_items(items), {"data": 1}) for n, items in enumerate(ILLEGAL.values())]
    for text, outcome in zip(ILLEGAL, whole.play(streams), strict=True):
        assert outcome.kind == "illegal", (text, outcome)
        assert text in outcome.text


def test_fences_and_other_rows_make_them_legal(whole: Simulator) -> None:
    legal = [
        [CONFIG_LD, CONFIG_ST, load(BASE, 0), None, STORE],
        [CONFIG_EX, CONFIG_LD, preload(0, ACC), load(BASE, 4), compute(8, 12)],
        [CONFIG_OS, preload(0, ACC), compute(8, 12), preload(0, ACC), compute(8, 12)],
        # sums that no result was taken from, be it that C has no columns
        [CONFIG_OS, preload(0, NOWHERE), compute(8, 12), preload(0, ACC), compute(8, 12, "ACCUMULATED")],
        [
            CONFIG_OS,
            preload(0, ACC, 0),
            compute(8, 12),
            CONFIG_OS,
            preload(0, ACC),
            compute(8, 12, "ACCUMULATED"),
        ],
    ]
    streams = [Stream(f"s{n}", group_items(items), {"data": 1}) for n, items in enumerate(legal)]
    assert [outcome.kind for outcome in whole.play(streams)] == ["same"] * len(legal)


def test_weights_of_zeros(tmp_path: Path) -> None:
    """PRELOAD of garbage: zeros until other weights come into use, whatever the array holds."""
    plan = [("PRELOADED", True), ("PRELOADED", False), ("ACCUMULATED", False), ("ACCUMULATED", True),
            ("PRELOADED", True), ("PRELOADED", False), ("PRELOADED", True), ("ACCUMULATED", False)]  # fmt: skip
    a, b, d = np.random.default_rng(3).integers(-128, 128, (3, 4, 4))
    items = [CONFIG_EX, CONFIG_LD, *(load(BASE + 16 * n, 4 * n) for n in range(3))]
    for n, (kind, weights) in enumerate(plan):
        items += [preload(4 if weights else NOWHERE, ACC | 4 * n), compute(0, 8, kind)]
    items.append(encode("CONFIG_ST", stride=16, acc_scale=IDENTITY_SCALE))
    raw = ACC | 1 << 29
    items += [
        encode("MVOUT", address=BASE + 64 * (n + 1), local=raw | 4 * n, cols=4, rows=4) for n in range(8)
    ]
    matrices = np.stack([a, b, d]).astype(np.int8).tobytes().hex()
    lines = [f"cmd {item.funct:x} {item.rs1:x} {item.rs2:x}" for item in items]
    path = tmp_path / "zeros"
    path.write_text(
        "\n".join([f"write {BASE:x} {matrices}", *lines, "fence", f"dump {BASE + 64:x} 200"]) + "\n"
    )
    for engine in ("functional", "rtl"):
        (dump,) = run_job(Job(accelerator=WHOLE, stream=path), engine=engine).memory_dumps
        found = np.frombuffer(dump, "<i4").reshape(8, 4, 4)
        used = np.zeros((4, 4), np.int64)
        for n, (kind, weights) in enumerate(plan):
            if kind == "PRELOADED":
                used = b * weights
            assert (found[n] == a @ used + d).all(), (engine, n)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cmd 2 0\n", "expected 'cmd"),
        ("fence\ncmd x 0 0\n", "f:2: the function code .x. is not hexadecimal"),
        ("stream a colour=3\n", "'colour' is no setting"),
        ("stream a\nfence\nstream b\n", "f:3: expected"),
    ],
)
def test_malformed_stream_files(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_stream(text, "f")


def test_command_plays_a_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration, good, bad = (tmp_path / name for name in ("whole.yaml", "good", "bad"))
    configuration.write_text(WHOLE.to_yaml())
    good.write_text(random_stream(WHOLE, 0, 0).text())
    bad.write_text(replace(random_stream(WHOLE, 0, 0), groups=((load(BASE, 0),),)).text())
    assert baco("baco", ["cosim", "-a", str(configuration), "--stream", str(good)]) == 0
    assert "no difference" in capsys.readouterr().out
    assert baco("baco", ["cosim", "-a", str(configuration), "--stream", str(bad)]) == 2
    assert "the stream is not legal" in capsys.readouterr().err
    assert baco("baco", ["cosim", "--stream", str(good)]) == 2
    assert (
        baco("baco", ["cosim", "-a", str(configuration), "--streams", "3", "-o", str(tmp_path / "out")]) == 0
    )
    assert "3 streams on 1 configurations: 0 mismatches" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
