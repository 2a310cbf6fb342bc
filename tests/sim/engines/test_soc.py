"""A SoC in Verilog: the core's sources as they are patched, and programs on it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.accel.verilog import core
from baco.accel.verilog.core import PACKAGE, PATCHES, core_verilog, patched
from baco.accel.verilog.soc import SOC_TOP, soc_verilog
from baco.api.simulation import simulate
from baco.common.errors import InfeasibleError, InputError
from tests.machines import SMALL
from tests.sim.accel_programs import PROGRAMS, build_program, build_source

HAS_CORE = importlib.util.find_spec(PACKAGE) is not None


def runs(function: Callable[..., None]) -> Callable[..., None]:
    """A test that runs programs on the SoC of `SMALL`, whose simulator takes a minute of two processors, more where they are busy."""
    return pytest.mark.slow(pytest.mark.timeout(1800)(function))


needs_core = pytest.mark.skipif(not HAS_CORE, reason="the core's package is missing: pip install 'baco[soc]'")


def test_without_the_package_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(core, "PACKAGE", "no_such_package")
    program = tmp_path / "program.elf"
    program.write_bytes(b"")
    with pytest.raises(InputError, match="not installed") as caught:
        simulate(program, SMALL, engine="soc")
    assert caught.value.hint == "pip install 'baco[soc]'"


def test_a_patch_that_fits_no_more_is_named() -> None:
    patch = PATCHES[0]
    assert patched(patch.file, f"before {patch.old} behind", (patch,)) == f"before {patch.new} behind"
    for text, times in (("other", 0), (patch.old * 2, 2)):
        with pytest.raises(InputError, match=f"{patch.file} has {times} times what is to be replaced"):
            patched(patch.file, text, (patch,))


@needs_core
def test_every_patch_fits_the_package() -> None:
    text = core_verilog()
    for patch in PATCHES:
        assert patch.new in text
    assert "`include" not in text.replace('`include "l15.tmp.h"', "").replace('`include "define.tmp.h"', "")


@needs_core
def test_a_memory_port_narrower_than_the_core_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="dma_bits must be at least 64"):
        soc_verilog(load_accelerator("gemmini-default,dma_bits=32,dim=4"))


@needs_core
def test_one_text_has_all_of_it() -> None:
    text = soc_verilog(SMALL)
    for module in (
        SOC_TOP,
        "baco_core",
        "baco_cvxif",
        "baco_core_port",
        "baco_accelerator",
        "div_sqrt_top_mvp",
    ):
        assert text.count(f"\nmodule {module} ") == 1


@runs
@needs_core
@pytest.mark.parametrize("program", [*PROGRAMS, "core/instructions"])
def test_programs(program: str) -> None:
    elf = build_program(program, SMALL)
    wanted = simulate(elf, SMALL, engine="functional")
    result = simulate(elf, SMALL, engine="soc")
    assert result.exit_code == 0
    assert result.console == wanted.console
    assert result.console.endswith(": right\n")
    # what the core executes, but for loops in which it waits for the host-target interface
    assert result.instructions is not None
    assert wanted.instructions is not None
    assert 0 <= result.instructions - wanted.instructions < 1000


_SPECULATION = """
#include "accel.h"
#include "runtime.h"

// Commands behind a branch that is not taken, and behind a trap, never reach the accelerator; one with a result that nobody
// reads does.
static volatile int never;
int main(void) {
  for (int i = 0; i < 20; ++i) {
    if (never) __asm__ volatile(".insn r 0x7b, 3, 63, x0, x0, x0");
  }
  // opcode custom-0 is no instruction of this core
  __asm__ volatile(".insn r 0x0b, 3, 0, x0, x0, x0\\n.insn r 0x7b, 3, 63, x0, x0, x0");
  return 0;
}
"""


@runs
@needs_core
def test_commands_of_instructions_that_are_not_executed_are_dropped(tmp_path: Path) -> None:
    elf = build_source("speculation", _SPECULATION, SMALL, tmp_path)
    result = simulate(elf, SMALL, engine="soc")
    # the trap handler of these programs ends with 64 + cause; the core has executed no command
    assert result.exit_code == 64 + 2
    assert not result.commands
