"""What of a module may reach Clang: names, linkage, alignment, intrinsics and inline assembly that programs need.

A module can be anybody's text, and assembly can do more than compute: `.incbin` reads files of this machine, `.rept` and
`.fill` take any amount of memory. So these are lists of what is allowed; everything else is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from baco.common.errors import InputError
from baco.compiler.ir.location import location_of

#: Bits of the widest integer; wider ones take LLVM time and memory without bound.
WIDEST = 64
#: Largest alignment, bytes: that of a page.
_MOST_ALIGNED = 4096
_MOST_CHARACTERS = 1000
#: Types that can stand in the name of an intrinsic.
_NAMED_TYPES = {"i": ("i1", "i8", "i16", "i32", "i64"), "f": ("f32", "f64")}
_LINKAGES = ("external", "internal", "private")


@dataclass(frozen=True)
class _Signature:
    """Types of an intrinsic, by their positions among those at the end of its name; its result is the first.

    Attributes:
        kinds: of the types in the name, each an integer (i) or a float (f).
        arguments: position of each argument's type.
    """

    kinds: str
    arguments: tuple[int, ...]


#: Intrinsics by their names without types.
_INTRINSICS: Mapping[str, _Signature] = {
    "llvm.expect": _Signature("i", (0, 0)),
    "llvm.fptosi.sat": _Signature("if", (1,)),
    "llvm.fptoui.sat": _Signature("if", (1,)),
    "llvm.maxnum": _Signature("f", (0, 0)),
    "llvm.minnum": _Signature("f", (0, 0)),
    **{f"llvm.{name}": _Signature("f", (0,)) for name in ("ceil", "fabs", "floor", "roundeven", "sqrt")},
}

#: An instruction that programs issue: an accelerator command, or one without operands.
_INSTRUCTION = (
    r"(?:\.insn r CUSTOM_3, 0x[0-7], (?:\d|[1-9]\d|1[01]\d|12[0-7]), (?:x0|\$\d), (?:x0|\$\d), (?:x0|\$\d)"
    r"|fence|nop|unimp)"
)
#: A place of the program that gets a symbol, an instruction, or both.
_ASSEMBLY = re.compile(rf"(?:\.globl ([A-Za-z_]\w*)\n\1:(?: {_INSTRUCTION}| ?)|{_INSTRUCTION})", re.ASCII)
_CONSTRAINTS = re.compile(r"(?:(?:=r|r|~\{memory\})(?:,(?!$)|$))*")


def refused(op: Operation, reason: str, hint: str | None = None) -> InputError:
    """The error, located at the operation, of what has no place in a program."""
    return InputError(f"{op.name} {reason}", location=location_of(op), hint=hint)


def symbol(name: str, op: Operation) -> str:
    """The name of a function or global, which must be of printable characters and none of LLVM's own names."""
    if not name or len(name) > _MOST_CHARACTERS or not name.isprintable():
        raise refused(op, f"has a name that no symbol can have, '{_short(name)}'")
    if name.startswith("llvm."):
        raise refused(op, f"uses the name '{_short(name)}', which is one of LLVM's own")
    return name


def linkage(attribute: llvm.LinkageAttr, op: Operation) -> str:
    """The linkage, one of external, internal and private."""
    text = attribute.linkage.data
    if text not in _LINKAGES:
        raise refused(op, f"cannot have the linkage '{_short(text)}'", "allowed: " + ", ".join(_LINKAGES))
    return text


def alignment(attribute: Attribute | None, op: Operation) -> int | None:
    """Bytes: a power of two up to that of a page, None without an attribute."""
    if attribute is None:
        return None
    assert isinstance(attribute, IntegerAttr)
    value = attribute.value.data
    if not 1 <= value <= _MOST_ALIGNED or value & (value - 1):
        raise refused(op, f"has an alignment that is no power of two from 1 to {_MOST_ALIGNED}")
    return value


def intrinsic(op: llvm.CallIntrinsicOp) -> str:
    """The whole name of the intrinsic that is called, whose types are those of the call."""
    name = op.intrin.data
    base = next((known for known in _INTRINSICS if name.startswith(known + ".")), None)
    if base is None:
        allowed = "allowed: " + ", ".join(sorted(_INTRINSICS))
        raise refused(op, f"calls '{_short(name)}', which programs do not", allowed)
    signature, types = _INTRINSICS[base], name[len(base) + 1 :].split(".")
    known = len(types) == len(signature.kinds) and all(
        one in _NAMED_TYPES[kind] for one, kind in zip(types, signature.kinds, strict=True)
    )
    wanted = [types[at] for at in signature.arguments] if known else []
    given = [str(argument.type) for argument in op.args]
    if not known or given != wanted or op.ress is None or str(op.ress.type) != types[0]:
        raise refused(op, f"calls '{_short(name)}' with other types than it has")
    return name


def assembly(op: llvm.InlineAsmOp) -> tuple[str, str]:
    """Text and constraints of inline assembly, in one of the forms that programs consist of."""
    text, constraints = op.asm_string.data, op.constraints.data
    if not _ASSEMBLY.fullmatch(text):
        raise refused(
            op,
            f"holds assembly that programs do not consist of, '{_short(text)}'",
            "allowed: '.insn r CUSTOM_3, FUNCT3, FUNCT7, RD, RS1, RS2' with x0 or $0 to $9 as registers,"
            " fence, nop, unimp, and '.globl NAME' with 'NAME:' on the next line",
        )
    if not _CONSTRAINTS.fullmatch(constraints):
        raise refused(
            op,
            f"has the constraints '{_short(constraints)}'",
            "allowed: =r, r and ~{memory}, separated by commas",
        )
    names = constraints.split(",")
    if (
        names.count("=r") != (op.res is not None)
        or names.count("r") != len(op.operands_)
        or "=r" in names[1:]
    ):
        raise refused(op, "has other operands or results than its constraints name", "first =r, then r")
    registers = names.count("r") + names.count("=r")
    if any(int(number) >= registers for number in re.findall(r"\$(\d)", text)):
        raise refused(op, "names an operand that it does not have")
    return text, constraints


def _short(text: str) -> str:
    return ascii(text[:60])[1:-1] + ("..." if len(text) > 60 else "")
