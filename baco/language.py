"""The names of the block language, for `import baco`, and the engines that run kernels."""

from __future__ import annotations

from compiler.language.autotune import Config, autotune
from compiler.language.dtypes import int8, int16, int32, uint8
from compiler.language.jit import jit, use
from compiler.language.names import const
from compiler.language.primitives import PRIMITIVES
from compiler.language.source import KernelError

advance = PRIMITIVES["advance"]
arange = PRIMITIVES["arange"]
broadcast_to = PRIMITIVES["broadcast_to"]
cast = PRIMITIVES["cast"]
cdiv = PRIMITIVES["cdiv"]
dot = PRIMITIVES["dot"]
expand_dims = PRIMITIVES["expand_dims"]
full = PRIMITIVES["full"]
load = PRIMITIVES["load"]
make_block_ptr = PRIMITIVES["make_block_ptr"]
maximum = PRIMITIVES["maximum"]
minimum = PRIMITIVES["minimum"]
num_programs = PRIMITIVES["num_programs"]
program_id = PRIMITIVES["program_id"]
requantise = PRIMITIVES["requantise"]
requantize = PRIMITIVES["requantize"]
static_range = PRIMITIVES["static_range"]
store = PRIMITIVES["store"]
trans = PRIMITIVES["trans"]
where = PRIMITIVES["where"]
zeros = PRIMITIVES["zeros"]

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
