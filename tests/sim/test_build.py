"""Building simulators: the cache, missing tools, what is said when a tool fails."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness_helpers import stub_verilog

import sim.build
import sim.toolchain
from common.cache import KEEP_SECONDS, Cache, cache_folder
from common.errors import InputError, StorageError
from sim.build import BuildError, functional_simulator, rtl_simulator
from sim.toolchain import Toolchain, toolchain


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACO_CACHE", "/own/place")
    assert cache_folder() == Path("/own/place")
    monkeypatch.delenv("BACO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/baco")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/baco")


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").write_text("content")

    first = cache.entry("key", make)
    assert (first / "file").read_text() == "content"
    assert cache.entry("key", make) == first == cache.find("key")
    assert len(made) == 1
    assert cache.find("other") is None


def test_entries_asked_for_at_once_are_made_once_and_others_side_by_side(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []
    together = threading.Barrier(2, timeout=20)

    def make(folder: Path) -> None:
        made.append(folder)
        together.wait()  # passes only if both keys are being made at the same time

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda i: Cache(tmp_path).entry(f"key{i % 2}", make), range(8)))
    assert len(made) == 2
    assert {path.name for path in paths} == {"key0", "key1"}
    assert cache.find("key0")


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("")
        raise BuildError("no")

    cache = Cache(tmp_path)
    with pytest.raises(BuildError):
        cache.entry("key", make)
    assert cache.find("key") is None
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".lock")]
    assert cache.entry("key", lambda _: None).is_dir()


def test_what_nobody_uses_goes(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, used = (cache.entry(key, lambda _: None) for key in ("old", "used"))
    long_ago = time.time() - KEEP_SECONDS - 10
    for path in (old, used):
        os.utime(path, (long_ago, long_ago))
    assert cache.find("used")
    cache.entry("new", lambda _: None)
    assert not old.exists()
    assert used.exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below"):
        with pytest.raises(StorageError, match="cache of built programs") as caught:
            Cache(folder).entry("key", lambda _: None)
        assert "BACO_CACHE" in str(caught.value)


def test_the_second_build_is_the_first_one(tmp_path: Path) -> None:
    said: list[str] = []
    first = rtl_simulator(stub_verilog(128), toolchain(), report=said.append)
    said.clear()
    assert rtl_simulator(stub_verilog(128), toolchain(), report=said.append) == first
    assert said == []
    assert os.access(first, os.X_OK)
    # sources and intermediate files are not kept
    assert {path.name for path in first.parent.iterdir()} == {"simulator"}
    assert functional_simulator(toolchain()) != first
    # what a file says of itself makes no other circuit
    renamed = f"// Accelerator other\n`define BACO_CONFIG_HASH 64'h1\n{stub_verilog(128)}"
    assert rtl_simulator(renamed, toolchain(), report=said.append) == first
    assert said == []


def test_a_change_of_the_harness_leaves_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the harness is compiled again."""
    first = rtl_simulator(stub_verilog(64), toolchain())
    sources = sim.build._sources()
    changed = sources | {"rtl.cpp": sources["rtl.cpp"] + "// changed\n"}
    monkeypatch.setattr(sim.build, "_sources", lambda: changed)
    said: list[str] = []
    second = rtl_simulator(stub_verilog(64), toolchain(), report=said.append)
    assert second != first
    assert os.access(second, os.X_OK)
    assert said == []  # neither translated nor compiled


def test_verilog_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="Verilator failed") as caught:
        rtl_simulator("module baco_accelerator(; endmodule", toolchain(), cache_=Cache(tmp_path))
    assert "syntax error" in str(caught.value)


def test_missing_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tools of the kind 'sytem'"):
        toolchain("sytem")
    monkeypatch.setattr(sim.toolchain.shutil, "which", lambda _: None)
    sim.toolchain._find.cache_clear()
    try:
        with pytest.raises(InputError, match=r"C\+\+ compiler is missing") as caught:
            toolchain("system")
        assert "BACO_TOOLS" in str(caught.value)
    finally:
        sim.toolchain._find.cache_clear()
    without = Toolchain("package", "", "", ("c++",), {})
    with pytest.raises(InputError, match="Verilator is missing"):
        rtl_simulator("", without)


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
