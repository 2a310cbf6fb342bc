"""Coverage of the Verilog: points are of the sources, machines add up, waivers say only what exists."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import IDENTITY_SCALE, encode
from baco.accel.verilog.elements import of_width
from baco.accel.verilog.generate import verilog, verilog_origins
from baco.common.errors import InputError
from baco.exploration import coverage as campaign
from baco.exploration.coverage import measure_coverage
from baco.main import run as baco
from baco.sim.cosim.run import Simulator
from baco.sim.cosim.stream import BASE, Stream, group_items
from baco.sim.coverage.machines import COVERED
from baco.sim.coverage.page import Coverage, Share
from baco.sim.coverage.points import CoveragePoint, expected_crosses, read_counts
from baco.sim.coverage.waivers import Waiver, check_waivers, load_waivers, source_line

RTL = Path(str(resources.files("baco.accel") / "rtl"))
PLAIN = next(one for one in COVERED if one.name == "plain")
TOGGLE = CoveragePoint("toggle", "baco_fifo.v", 24, "items[3][17]:0->1")


@pytest.fixture(scope="module")
def covered() -> Simulator:
    return Simulator(PLAIN, covered=True)


@pytest.mark.parametrize("accelerator", COVERED, ids=lambda one: one.name)
def test_each_generated_line_is_a_line_of_its_source(accelerator: Accelerator) -> None:
    lines, origins = verilog(accelerator).splitlines(), verilog_origins(accelerator)
    assert len(lines) == len(origins)
    bits = accelerator.input_bits
    sources = {path.name: of_width(path.read_text(), bits).splitlines() for path in RTL.glob("*.v")}
    for text, (file, number) in zip(lines, origins, strict=True):
        assert not file or sources[file][number - 1] == text
    inside = "".join(text for text, (file, _) in zip(lines, origins, strict=True) if file)
    assert inside.count("endmodule") == len({file for file, _ in origins if file})


#: What is around accelerators: the bus, which streams of commands do not go over, the arbiter of systems, and a SoC's core.
AROUND = (
    "axi4",
    "arbiter",
    "memory_adapter",
    "memory_gate",
    "core",
    "cvxif",
    "divide_root",
    "clock_gate",
    "soc",
)


def test_the_machines_together_have_all_of_the_verilog() -> None:
    """But for what is around accelerators."""
    built = {origin for one in COVERED for origin in verilog_origins(one)}
    for path in sorted(RTL.glob("*.v")):
        if any(part in path.name for part in AROUND):
            continue
        for number, text in enumerate(path.read_text().splitlines(), 1):
            directive = re.match(r"\s*`(ifdef|ifndef|else|endif)", text)
            inside_else = (path.name, number) not in built and directive is None
            assert not inside_else, f"{path.name}:{number} is in no machine: {text}"


@pytest.mark.slow  # building takes half a minute
def test_what_streams_reach_is_counted(covered: Simulator, tmp_path: Path) -> None:
    """Loads that meet no other traffic, from a memory that refuses nothing, and from one that takes a request at a time."""
    configuration = encode("CONFIG_LD", pixel_repeats=1, block_stride=2, scale=IDENTITY_SCALE, stride=2)
    flow = encode("CONFIG_EX", dataflow=0, a_stride=1, c_stride=1)
    loads = [encode("MVIN", address=BASE + 64 * n, local=2 * n, cols=2, rows=2) for n in range(8)]
    counts = []
    for name, reads in (("quiet", 256), ("busy", 1)):
        stream = Stream(
            name, group_items([flow, configuration, *loads]), {"data": 1, "latency": 60, "reads": reads}
        )
        (outcome,) = covered.play([stream], tmp_path / name)
        assert outcome.kind == "same"
        counts.append(read_counts(tmp_path / name, PLAIN))
    quiet, busy = counts
    assert cycles(quiet, "MVIN OS 0 1") == 0 < cycles(busy, "MVIN OS 0 1")
    assert cycles(quiet, "MVIN OS 0 0") > 0
    assert cycles(quiet, "COMPUTE_PRELOADED OS 0 0") == 0
    written = [
        point
        for point in quiet
        if point.kind == "branch" and "is_config && cmd_rs1[4:3]" in source_line(point)
    ]
    (taken,) = (quiet[point] for point in written if point.name.startswith("if"))
    assert taken == 1  # of three states, one is configured, once
    leaving = {
        point: quiet[point] for point in quiet if point.file == "baco_mesh.v" and point.signal == "out_c"
    }
    assert set(leaving.values()) <= {0}  # nothing multiplies


def cycles(counts: Counter[CoveragePoint], cross: str) -> int:
    return counts[CoveragePoint("cross", "", 0, cross)]


@pytest.mark.slow  # building takes half a minute
def test_the_command_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "_BATCH", 4)
    configuration = tmp_path / "plain.yaml"
    configuration.write_text(PLAIN.to_yaml())
    command = ["cosim", "-a", str(configuration), "--coverage", str(tmp_path / "out"), "--executor", "here"]
    assert baco("baco", [*command, "--json", "--streams", "4"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["streams"], first["mismatches"]) == (4, 0)
    assert 0 < first["lines"]["reached"] <= first["lines"]["points"]
    page = (tmp_path / "out" / "coverage.md").read_text()
    assert f"| lines | {first['lines']['reached']:,} of {first['lines']['points']:,} |" in page

    made = []
    usual = campaign._stream
    monkeypatch.setattr(campaign, "_stream", lambda *given: made.append(given[2]) or usual(*given))
    assert baco("baco", [*command, "--json", "--streams", "6"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert made == [4, 5]
    assert more["streams"] == 6
    assert more["toggles"]["reached"] > first["toggles"]["reached"]
    assert more["toggles"]["points"] == first["toggles"]["points"]


def test_coverage_and_other_kinds_of_streams_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert baco("baco", ["cosim", "--coverage", "out", "--power-up"]) == 2
    assert "--power-up and --coverage exclude each other" in capsys.readouterr().err


def test_a_point_is_waived_by_file_signal_bits_and_way() -> None:
    def waiver(**fields: object) -> Waiver:
        return Waiver(reason="a test of waivers", **fields)  # type: ignore[arg-type]

    assert (TOGGLE.signal, TOGGLE.bit) == ("items", 17)
    for matching in ({}, {"file": "baco_f*.v"}, {"bits": [17, 20]}, {"only": "0->1"}):
        assert waiver(signals=["it*"], **matching).matches(TOGGLE, "it*")
    for other in ({"file": "baco_load.v"}, {"bits": [18, 20]}, {"only": "1->0"}):
        assert not waiver(signals=["it*"], **other).matches(TOGGLE, "it*")
    cross = CoveragePoint("cross", "", 0, "MVIN OS 0 1")
    assert waiver(cross=["MVIN * 0 *"]).matches(cross, "MVIN * 0 *")
    assert not waiver(cross=["MVIN * 0 *"]).matches(TOGGLE, "MVIN * 0 *")
    for wrong in ({}, {"text": "if", "signals": ["a"]}, {"text": "if", "bits": [1, 2]}):
        with pytest.raises(ValueError, match=r"give one of text|bits are two numbers"):
            waiver(**wrong)


def test_waived_points_leave_the_figure_only_where_they_are_not_reached() -> None:
    other = TOGGLE._replace(name="items[3][17]:1->0")
    rest = TOGGLE._replace(name="items[3][4]:0->1")
    waiver = Waiver(reason="a test of waivers", signals=["items"], bits=[17, 17])
    coverage = Coverage(Counter({TOGGLE: 0, other: 3, rest: 0}), [waiver])
    assert coverage.share("toggle") == Share(reached=1, points=3, waived=1)
    assert coverage.share("toggle").percent == 50
    assert coverage.missing() == [rest]
    page = coverage.page(["What was played."])
    assert "baco_fifo.v:24: `items` [3][4] 0->1" in page
    assert "a test of waivers (1 points)" in page


def test_a_waiver_of_what_does_not_exist_is_an_error() -> None:
    waivers = [Waiver(reason="a test of waivers", signals=["items", "gone"])]
    with pytest.raises(InputError, match="1 waivers of coverage match nothing: 'gone'"):
        check_waivers([TOGGLE], waivers)


def test_waivers_name_what_the_sources_have() -> None:
    """Of each pattern, without building machines; the whole run asks for points."""
    crosses = {one.name for machine in COVERED for one in expected_crosses(machine)}
    for waiver in load_waivers():
        files = [path for path in RTL.glob("*.v") if path.match(waiver.file)]
        assert files, waiver.file
        text = "\n".join(path.read_text() for path in files)
        for pattern in waiver.patterns:
            if waiver.cross:
                words = pattern.split(" ")
                assert any(
                    all(a in ("*", b) for a, b in zip(words, name.split(" "), strict=True))
                    for name in crosses
                ), pattern
            elif waiver.text:
                assert pattern in text
            else:
                last = pattern.rpartition(".")[2].replace("*", r"\w*").replace("?", r"\w")
                assert re.search(rf"\b{last}\b", text), pattern


@pytest.mark.slow
def test_all_machines_reach_what_is_not_waived(tmp_path: Path) -> None:
    run = measure_coverage(COVERED, 500, 0, tmp_path, whole=True)
    assert not run.failures
    assert run.coverage.share("line").percent >= 99
    assert run.coverage.share("branch").percent >= 99
    assert run.coverage.share("toggle").percent >= 95
