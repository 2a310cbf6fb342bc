"""What is between an accelerator's memory port and the wider one of a system (`accel/rtl/baco_memory_adapter.v`)."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.config import Accelerator
from baco.accel.system import System
from baco.accel.verilog.generate import ADDRESS_BITS

#: Name of its module.
ADAPTER = "baco_memory_adapter"


def port_widths(dma_bits: int) -> dict[str, int]:
    """Values of what widths of ports are said by."""
    return {"ADDR_BITS": ADDRESS_BITS, "DMA_BITS": dma_bits, "DMA_BITS/8": dma_bits // 8}


def adapter_parameters(system: System, accelerator: Accelerator) -> dict[str, int]:
    """Of the one before an accelerator of a system."""
    depths = {name.upper(): depth for name, depth in system.adapter_depths(accelerator).items()}
    widths = {"UNIT_BITS": accelerator.dma_bits, "DMA_BITS": system.dma_bits}
    return {"ADDR_BITS": ADDRESS_BITS, **widths, **depths}


def adapter_pins(inside: Mapping[str, str], outside: Mapping[str, str]) -> dict[str, str]:
    """Its ports by the signals of the accelerator's, and of the wider one."""
    return {f"unit_{name}": signal for name, signal in inside.items()} | dict(outside)
