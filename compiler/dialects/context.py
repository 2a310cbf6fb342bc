"""Every dialect that the compiler reads, writes and transforms, in one context."""

from __future__ import annotations

import functools
import importlib

from xdsl.context import Context
from xdsl.ir import Dialect

#: Where each dialect is, `module:name`, by its prefix in the text.
_DIALECTS: dict[str, str] = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "arith": "xdsl.dialects.arith:Arith",
    "baco": "baco.compiler.dialects.baco:Baco",
    "bufferization": "xdsl.dialects.bufferization:Bufferization",
    "cf": "xdsl.dialects.cf:Cf",
    "func": "xdsl.dialects.func:Func",
    "instgem": "baco.compiler.dialects.instgem:InstGem",
    "linalg": "xdsl.dialects.linalg:Linalg",
    "llvm": "xdsl.dialects.llvm:LLVM",
    "math": "xdsl.dialects.math:Math",
    "memref": "xdsl.dialects.memref:MemRef",
    "scf": "xdsl.dialects.scf:Scf",
    "tensor": "xdsl.dialects.tensor:Tensor",
}


def all_dialects() -> Context:
    """A context that knows them all; a dialect's Python is imported when the text first uses it."""
    context = Context()
    for name, place in _DIALECTS.items():
        if name == "builtin":
            context.load_dialect(_load(place))
        else:
            context.register_dialect(name, functools.partial(_load, place))
    return context


def _load(place: str) -> Dialect:
    module, name = place.split(":")
    dialect: Dialect = getattr(importlib.import_module(module), name)
    return dialect
