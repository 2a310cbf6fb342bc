"""Verilog of a SoC: a core (`baco.accel.verilog.core`), an accelerator, and one AXI4 port for the memory of both."""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.accel.verilog.core import core_folder, core_verilog
from baco.accel.verilog.generate import check_rtl, source_text, verilog
from baco.accel.verilog.source import instantiated_modules
from baco.common.errors import InfeasibleError

#: Name of the top module of a SoC.
SOC_TOP = "baco_soc"
#: What flattens the core's ports, in SystemVerilog.
_CORE = "baco_core"
#: The core's own words.
_LEAST_DMA_BITS = 64


def check_soc(accelerator: Accelerator) -> None:
    """Raises InfeasibleError for an accelerator of which there is no SoC, InputError without the core's package."""
    check_rtl(accelerator)
    if accelerator.dma_bits < _LEAST_DMA_BITS:
        raise InfeasibleError(
            f"no SoC can be built of accelerator '{accelerator.name}': dma_bits must be at least {_LEAST_DMA_BITS},"
            f" not {accelerator.dma_bits}, the core's words"
        )
    core_folder()


def soc_verilog(accelerator: Accelerator) -> str:
    """A SoC as one self-contained file of SystemVerilog: the core, the accelerator, what connects them.

    Raises as `check_soc`, and InputError for another version of the core's package.
    """
    check_soc(accelerator)
    own = verilog(accelerator)
    there = {*instantiated_modules(own), "baco_accelerator"}
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in there or name in found:
            return
        found[name] = source_text(f"{name}.{'sv' if name == _CORE else 'v'}")
        for child in instantiated_modules(found[name]):
            visit(child)

    visit(SOC_TOP)
    return "\n".join([core_verilog(), own, *found.values()])
