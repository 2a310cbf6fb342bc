"""baco: hardware/software co-design exploration for Gemmini-compatible accelerators.

`import baco` gives the block language: `@baco.jit` kernels, launched by `kernel[grid](arrays...)`. Its names are
loaded when they are first used, so that the command line starts without them.
"""

from __future__ import annotations

import os
import sys

# `python -m baco` looks for modules in the current folder first, where anything may lie. This is the first file of ours
# that it reads, and both modules above are loaded by then. Started from a source tree, that is the folder it needs.
_own_folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and os.path.realpath(sys.path[0]) != _own_folder:
    del sys.path[0]

TYPE_CHECKING = False  # type checkers know the name without an import
if TYPE_CHECKING:
    from baco.language import (
        Config,
        KernelError,
        advance,
        arange,
        autotune,
        broadcast_to,
        cast,
        cdiv,
        const,
        dot,
        expand_dims,
        full,
        int8,
        int16,
        int32,
        jit,
        load,
        make_block_ptr,
        maximum,
        minimum,
        num_programs,
        program_id,
        requantise,
        requantize,
        static_range,
        store,
        trans,
        uint8,
        use,
        where,
        zeros,
    )

__all__ = [
    "Config",
    "KernelError",
    "advance",
    "arange",
    "autotune",
    "broadcast_to",
    "cast",
    "cdiv",
    "const",
    "dot",
    "expand_dims",
    "full",
    "int8",
    "int16",
    "int32",
    "jit",
    "load",
    "make_block_ptr",
    "maximum",
    "minimum",
    "num_programs",
    "program_id",
    "requantise",
    "requantize",
    "static_range",
    "store",
    "trans",
    "uint8",
    "use",
    "where",
    "zeros",
]


def __getattr__(name: str) -> object:
    """Loads the block language when one of its names is asked for."""
    import importlib

    if name not in __all__:
        raise AttributeError(f"module 'baco' has no attribute '{name}'")
    value = getattr(importlib.import_module("baco.language"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
