"""RTL, functional model and numpy model agree on random legal command streams; what does not is found and shortened."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import IDENTITY_SCALE, encode
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.exploration.cosim import run_campaign
from baco.exploration.executors.executor_choice import LOCAL
from baco.main import run as baco
from baco.sim.cosim.accelerators import random_accelerator
from baco.sim.cosim.convolution import draw_tile
from baco.sim.cosim.minimise import minimise
from baco.sim.cosim.run import Simulator, in_place_stream, random_stream
from baco.sim.cosim.stream import BASE, Stream, parse_stream
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import NORMAL, PLAIN, SCARCE, WHOLE
from tests.sim.cosim_streams import (
    ACC,
    CONFIG_EX,
    CONFIG_LD,
    NOWHERE,
    broken_sources,
    compute,
    faulty_sources,
    load,
    numpy_model,
    preload,
    synthesised_sources,
)
from tests.sim.matmul_stream import ProductStream

DEFAULT = load_accelerator("gemmini-default")
#: Of each machine, and as many as many times with the slow tests.
STREAMS = {"whole": 33, "normal": 20, "scarce": 8, "plain": 15}
EFFORT = pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
TWICE = pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def whole() -> Simulator:
    return Simulator(WHOLE)


@EFFORT
@pytest.mark.parametrize("accelerator", [WHOLE, NORMAL, SCARCE, PLAIN], ids=lambda one: one.name)
def test_random_streams(accelerator: Accelerator, times: int) -> None:
    count = times * STREAMS[accelerator.name]
    (result,) = run_campaign([accelerator], count, seed=0, shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


@pytest.mark.parametrize(
    "accelerator", [WHOLE, pytest.param(SCARCE, marks=pytest.mark.slow)], ids=lambda one: one.name
)
def test_what_synthesis_reads_does_the_same(accelerator: Accelerator, tmp_path: Path) -> None:
    streams = [random_stream(accelerator, 2, index) for index in range(15)]
    streams += [in_place_stream(accelerator, 2, index) for index in range(5)]
    same_as_synthesised(accelerator, streams, tmp_path)


def same_as_synthesised(accelerator: Accelerator, streams: Sequence[Stream], folder: Path) -> None:
    """What synthesis reads takes the same cycles and leaves the same memory."""
    outcomes = Simulator(accelerator, sources=synthesised_sources(folder), brief=True).play(streams)
    assert [outcome.describe() for outcome in outcomes if outcome.failed] == []
    assert outcomes == Simulator(accelerator).play(streams)


def sees_fault(accelerator: Accelerator, fault: tuple[str, str, str], folder: Path) -> bool:
    """Whether one of 150 random streams fails on Verilog with a fault (`faulty_sources`)."""
    simulator = Simulator(accelerator, sources=faulty_sources(folder, fault), brief=True)
    batches = ([random_stream(accelerator, 0, first + n) for n in range(15)] for first in range(0, 150, 15))
    return any(outcome.failed for streams in batches for outcome in simulator.play(streams))


@TWICE
@pytest.mark.parametrize("accelerator", [WHOLE, NORMAL, SCARCE, PLAIN, DEFAULT], ids=lambda one: one.name)
def test_values_of_all_widths(accelerator: Accelerator, times: int) -> None:
    """Strides, configuration of loops that is written over, counters of every event; in large local memories, long loops."""
    count = times * {"gemmini-default": 3, "scarce": 5}.get(accelerator.name, 10)
    (result,) = run_campaign([accelerator], count, seed=0, kind="wide", shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


def test_long_tiles_are_long_in_every_direction() -> None:
    drawn = [draw_tile(Random(seed), DEFAULT, 4096) for seed in range(3000)]
    tiles = [tile for tile in drawn if tile is not None]
    longest = {
        name: max(getattr(tile, name) for tile in tiles)
        for name in ("batch", "ichs", "ochs", "orows", "ocols", "kernel", "stride", "kernel_dilation")
    }
    assert {name for name, most in longest.items() if most > 20} == set(longest)
    assert {name for name, most in longest.items() if most > 250} >= {
        "batch",
        "ichs",
        "ochs",
        "orows",
        "ocols",
    }


@EFFORT
@pytest.mark.parametrize("accelerator", [WHOLE, SCARCE, PLAIN, DEFAULT], ids=lambda one: one.name)
def test_products_in_place(accelerator: Accelerator, times: int) -> None:
    """Results over operands of their own product, of those before and behind it, in both dataflows."""
    count = times * {"gemmini-default": 2, "scarce": 5}.get(accelerator.name, 15)
    (result,) = run_campaign([accelerator], count, seed=0, kind="in place", shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


@pytest.mark.parametrize("accelerator", [WHOLE, SCARCE, PLAIN], ids=lambda one: one.name)
def test_products_in_place_as_numpy_has_them(accelerator: Accelerator) -> None:
    streams = [in_place_stream(accelerator, 1, index) for index in range(10)]
    for stream, outcome in zip(streams, Simulator(accelerator).play(streams), strict=True):
        assert outcome.kind == "same", outcome.describe()
        assert outcome.digest == numpy_digest(accelerator, stream), stream.name


def overwrites_itself(stream: Stream) -> int:
    """How many products of a stream have results in rows of their own A."""
    pairs = zip(stream.items, stream.items[1:], strict=False)
    products = [(one, two) for one, two in pairs if one and two and one.funct == 6 and two.funct in (4, 5)]
    count = 0
    for one, two in products:
        c, a = (word & 0xFFFFFFFF for word in (one.rs2, two.rs1))
        rows = one.rs2 >> 48 & 0xFFFF
        count += not c >> 31 and c <= a < c + rows
    return count


def test_streams_in_place_are_in_place() -> None:
    streams = [in_place_stream(PLAIN, 2, index) for index in range(20)]
    assert sum(map(overwrites_itself, streams)) > 100


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_streams_in_place() -> None:
    """Sides of 2 to 16 with few and many banks, pipelined tiles of all sizes, one dataflow or both."""
    accelerators = [DEFAULT, *(random_accelerator(9, number) for number in (0, 1, 2, 3, 4, 5, 7, 8, 10))]
    results = list(run_campaign(accelerators, 1_000, seed=9, kind="in place", engine=LOCAL, shorten=False))
    failures = [(one.stream.name, one.outcome.describe()) for result in results for one in result.failures]
    assert failures == []
    assert sum(result.streams for result in results) == 10_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_streams_on_25_configurations() -> None:
    accelerators = [random_accelerator(2, number) for number in range(25)]
    results = list(run_campaign(accelerators, 400, seed=2, engine=LOCAL, shorten=False))
    failures = [(one.stream.name, one.outcome.describe()) for result in results for one in result.failures]
    assert failures == []
    assert sum(result.streams for result in results) == 10_000


def numpy_digest(accelerator: Accelerator, stream: Stream) -> str:
    """CRC-32 of main memory, scratchpad and raw accumulator as the numpy model leaves them."""
    model = numpy_model(accelerator, stream)
    contents = model.memory.tobytes()
    contents += (
        model.sp.astype(f"<i{accelerator.element_bytes}").tobytes() + model.acc.astype("<i4").tobytes()
    )
    return f"{zlib.crc32(contents):08x}"


@TWICE
@pytest.mark.parametrize("accelerator", [WHOLE, NORMAL, SCARCE, PLAIN], ids=lambda one: one.name)
def test_numpy_model_agrees(accelerator: Accelerator, times: int) -> None:
    count = times * (8 if accelerator is SCARCE else 20)
    streams = [random_stream(accelerator, 1, index) for index in range(count)]
    same_as_numpy(accelerator, streams)


def same_as_numpy(accelerator: Accelerator, streams: Sequence[Stream]) -> None:
    """Every stream leaves the memory that numpy's model leaves."""
    for stream, outcome in zip(streams, Simulator(accelerator).play(streams), strict=True):
        assert outcome.kind == "same", outcome.describe()
        assert outcome.digest == numpy_digest(accelerator, stream), stream.name


def play_products(accelerator: Accelerator, stream: ProductStream, folder: Path) -> None:
    path = folder / "products"
    path.write_text(stream.text())
    stream.check(run_job(Job(machine=accelerator, stream=path), engine="rtl").memory_dumps)


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


def test_planted_bug_is_found_and_shortened(tmp_path: Path, whole: Simulator) -> None:
    broken = Simulator(WHOLE, sources=broken_sources(tmp_path), brief=True)
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
    expected = {None, *range(30), 126}
    assert {None if item is None else item.funct for item in items} == expected


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
        (dump,) = run_job(Job(machine=WHOLE, stream=path), engine=engine).memory_dumps
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
    configuration, good, bad = (tmp_path / name for name in ("plain.yaml", "good", "bad"))
    configuration.write_text(PLAIN.to_yaml())
    good.write_text(random_stream(PLAIN, 0, 0).text())
    early = encode("MVIN", address=BASE, local=0, cols=2, rows=2)
    bad.write_text(replace(random_stream(PLAIN, 0, 0), groups=((early,),)).text())
    assert baco("baco", ["cosim", "-a", str(configuration), "--stream", str(good)]) == 0
    assert "no difference" in capsys.readouterr().out
    assert baco("baco", ["cosim", "-a", str(configuration), "--stream", str(bad)]) == 0
    assert "no difference: refused, used before its configuration: MVIN " in capsys.readouterr().out
    assert baco("baco", ["cosim", "--stream", str(good)]) == 2
    assert (
        baco("baco", ["cosim", "-a", str(configuration), "--streams", "3", "-o", str(tmp_path / "out")]) == 0
    )
    assert "3 streams on 1 configurations: 0 mismatches" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
