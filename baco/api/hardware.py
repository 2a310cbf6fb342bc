"""`baco.verilog`: an accelerator as hardware."""

from __future__ import annotations

from baco.api.sources import AcceleratorSource
from baco.api.sources import accelerator as find

__all__ = ["verilog"]


def verilog(accelerator: AcceleratorSource = "gemmini-default") -> str:
    """An accelerator as one self-contained Verilog file; its top module is `baco_accelerator`.

    Args:
        accelerator: as `baco.accelerator` takes it.

    Raises InputError for an accelerator that cannot be built.
    """
    from baco.accel.verilog.generate import verilog as text_of

    return text_of(find(accelerator))
