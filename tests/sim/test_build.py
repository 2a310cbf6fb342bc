"""Building simulators: what is kept, missing tools, what is said when a tool fails."""

import os
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

import baco.common.viewer
import baco.sim.build
import baco.sim.toolchain
from baco.common.cache import Cache
from baco.common.errors import InputError, StorageError
from baco.sim.build import BuildError, functional_simulator, rtl_simulator
from baco.sim.toolchain import Toolchain, toolchain
from tests.sim.harness_helpers import stub_verilog


def test_the_second_build_is_the_first_one(tmp_path: Path) -> None:
    said: list[str] = []
    first = rtl_simulator(stub_verilog(128), toolchain(), report=said.append)
    said.clear()
    assert rtl_simulator(stub_verilog(128), toolchain(), report=said.append) == first
    assert said == []
    assert os.access(first, os.X_OK)
    # sources and intermediate files are not kept
    assert {path.name for path in first.parent.iterdir()} == {"simulator", "manifest.json"}
    assert functional_simulator(toolchain()) != first
    # what a file says of itself makes no other circuit
    renamed = f"// Accelerator other\n`define BACO_CONFIG_HASH 64'h1\n{stub_verilog(128)}"
    assert rtl_simulator(renamed, toolchain(), report=said.append) == first
    assert said == []


def test_a_change_of_the_harness_leaves_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the harness is compiled again."""
    first = rtl_simulator(stub_verilog(64), toolchain())
    sources = baco.sim.build._sources()
    changed = sources | {"rtl.cpp": sources["rtl.cpp"] + "// changed\n"}
    monkeypatch.setattr(baco.sim.build, "_sources", lambda: changed)
    said: list[str] = []
    second = rtl_simulator(stub_verilog(64), toolchain(), report=said.append)
    assert second != first
    assert os.access(second, os.X_OK)
    assert said == []  # neither translated nor compiled


def test_building_is_told_once_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even where nobody asked to be told, as long as somebody is looking."""
    monkeypatch.setattr(baco.sim.build, "_TOLD_SECONDS", 0.0)
    for flags in ("_FAST", "_SLOW"):  # of what is made here alone
        monkeypatch.setattr(baco.sim.build, flags, ("-O0",))
    monkeypatch.setattr(baco.common.viewer, "in_notebook", lambda: True)
    verilog = stub_verilog(64).replace("endmodule", f"wire unused_{uuid.uuid4().hex};\nendmodule", 1)
    rtl_simulator(verilog, toolchain())
    said = capsys.readouterr().err.splitlines()
    assert "once, then it is kept in" in said[0]
    assert Path(said[0].partition("kept in ")[2]).is_dir()
    (files,) = (
        int(one.split("(")[1].split()[0]) for one in said if one.startswith("compiling the accelerator (")
    )
    counted = [one for one in said if one.startswith("compiling the accelerator: ")]
    assert counted == [f"compiling the accelerator: {n} of {files} files" for n in range(1, files)]
    rtl_simulator(verilog, toolchain())
    monkeypatch.setattr(baco.common.viewer, "in_notebook", lambda: False)
    assert capsys.readouterr().err == ""


def test_a_header_that_was_compiled_is_no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be made, or cannot be read, files read the header themselves."""
    tools = toolchain()
    said: list[str] = []
    builder = baco.sim.build._Builder(tools, said.append, Cache())
    assert len(builder._precompiled("", ("-O0",))) == 2
    lost = replace(tools, compiler=("false",))
    assert baco.sim.build._Builder(lost, said.append, Cache())._precompiled("", ("-O0",)) == []
    monkeypatch.setattr(
        baco.sim.build._Builder, "_precompiled", lambda *_: ["-include-pch", "/nowhere/verilated.pch"]
    )
    verilog = stub_verilog(64).replace("endmodule", f"wire unused_{uuid.uuid4().hex};\nendmodule", 1)
    assert os.access(rtl_simulator(verilog, tools, brief=True, report=said.append), os.X_OK)


def test_verilog_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="Verilator failed") as caught:
        rtl_simulator("module baco_accelerator(; endmodule", toolchain(), cache_=Cache(tmp_path))
    assert "syntax error" in str(caught.value)


def test_missing_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tools of the kind 'sytem'"):
        toolchain("sytem")
    monkeypatch.setattr(baco.sim.toolchain.shutil, "which", lambda _: None)
    baco.sim.toolchain._find.cache_clear()
    try:
        with pytest.raises(InputError, match=r"C\+\+ compiler is missing") as caught:
            toolchain("system")
        assert "BACO_TOOLS" in str(caught.value)
    finally:
        baco.sim.toolchain._find.cache_clear()
    without = Toolchain("package", "", "", ("c++",), {})
    with pytest.raises(InputError, match="Verilator is missing"):
        rtl_simulator("", without)


@pytest.mark.slow
def test_a_cache_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a shell, nor make, nor a list of arguments in a file takes parts of it for anything else."""
    for flags in ("_FAST", "_SLOW"):
        monkeypatch.setattr(baco.sim.build, flags, ["-O0"])
    monkeypatch.setattr(baco.sim.build, "_CXX_FLAGS", [*baco.sim.build._CXX_FLAGS, "-O0"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BACO_CACHE", "$(touch pwned) `touch pwned` \n'a' \"b\" \\;#%${HOME} -o \u00e9")
    first = rtl_simulator(stub_verilog(128), toolchain())
    assert os.access(first, os.X_OK)
    assert [path.name for path in tmp_path.iterdir()] == [os.environ["BACO_CACHE"]]
    done = subprocess.run([first, "--stream"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "--stream lacks its value\n")


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    tool = tmp_path / "compiler"
    tool.write_text("#!/bin/sh\necho 'fatal error: /x.o: No space left on device' >&2\nexit 1\n")
    tool.chmod(0o755)
    tools = Toolchain("system", "", "", (str(tool),), {})
    with pytest.raises(StorageError, match="the disk is full"):
        functional_simulator(tools, cache_=Cache(tmp_path / "cache"))


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    tools = Toolchain("system", "", "", ("false",), {})
    with pytest.raises(BuildError, match=r"compiling .* failed \(exit code 1\)"):
        functional_simulator(tools, cache_=Cache(tmp_path / "cache"))
