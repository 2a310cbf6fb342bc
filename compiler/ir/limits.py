"""How much a text of the IR may hold: bounds far above what programs need, checked before anything is built.

The text of a network's program has some 200 kB and 3,000 operations. Reading, checking and transforming a text within
these bounds takes seconds; without them, a line is enough to ask for any amount of time and memory.
"""

from __future__ import annotations

import math
import re

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, ShapedType
from xdsl.dialects.llvm import LLVMArrayType
from xdsl.ir import Attribute

from baco.common.errors import InputError, Location
from baco.compiler.main_memory import MOST_BYTES
from baco.workloads.tensor import MOST_RANK

MOST_TEXT_BYTES = 1 << 22
_MOST_TOKENS = 1 << 19
#: Characters of a name, digits of a number.
_MOST_NAME, _MOST_DIGITS = 1000, 40
MOST_OPERATIONS = 1 << 14
#: Deeper nesting, of regions or of attributes, than any program needs would exhaust Python's stack.
MOST_NESTED = 100
#: Blocks of a region that branches go between.
MOST_BLOCKS = 2000
#: Types and attributes, aliases written out.
MOST_ATTRIBUTES = 1 << 18
#: Elements of a constant.
MOST_CONSTANTS = 1 << 20
#: Names and numbers in an expression of an affine map.
MOST_AFFINE_TERMS = 100
#: Bits of an integer type.
_WIDEST = 64

_OPEN, _CLOSE = frozenset("([{<"), frozenset(")]}>")
#: Comments, whole strings (as the parser knows them, in linear time), arrows, brackets, quotes that begin nothing, words.
_TOKEN = re.compile(
    r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|->|[()\[\]{}<>"]|[^\s()\[\]{}<>",:=+*?|/-]+'
)
_LONG_NUMBER = re.compile(rf"[0-9][0-9a-fA-Fx.]*?[0-9a-fA-F]{{{_MOST_DIGITS}}}")


def check_tokens(text: str, name: str) -> None:
    """Raises InputError, with the place, for what the parser would take for ever, or too much memory, to find out.

    Args:
        name: of the file, for messages.
    """
    if len(text) > MOST_TEXT_BYTES:
        raise InputError(
            f"the text has {len(text):,} characters, more than the {MOST_TEXT_BYTES:,} allowed",
            location=Location(name),
        )
    depth = 0
    for count, found in enumerate(_TOKEN.finditer(text), 1):
        token = found[0]
        fault = hint = None
        if token == '"':
            fault = "the string that begins here is not closed, or has an unknown escape"
            hint = 'a string ends on its line; escapes are \\n, \\t, \\", \\\\ and two hexadecimal digits'
        elif token in _OPEN or token in _CLOSE:
            depth += 1 if token in _OPEN else -1
            if depth > MOST_NESTED:
                fault = f"the text is nested too deeply, more than {MOST_NESTED} brackets deep"
        elif token[0] not in '"/-':
            fault = _fault_of_word(token)
        if count > _MOST_TOKENS:
            fault = f"the text has more than {_MOST_TOKENS:,} words and brackets"
        if fault:
            raise InputError(fault, location=place(text, name, found.start()), hint=hint)


def _fault_of_word(word: str) -> str | None:
    if not word.isascii():
        character = next(one for one in word if not one.isascii())
        return f"the character {character!a} stands outside of strings and comments"
    if len(word) > _MOST_NAME:
        return f"a word of {len(word):,} characters, more than the {_MOST_NAME:,} allowed"
    if len(word) > _MOST_DIGITS and _LONG_NUMBER.match(word):
        return f"a number of more than {_MOST_DIGITS} digits"
    return None


def place(text: str, name: str, position: int) -> Location:
    """Line and column of a position in the text of a file."""
    before = text[: max(0, min(position, len(text)))]
    return Location(name, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def type_beyond_limits(kind: Attribute) -> str | None:
    """What about a type is beyond what programs can have, None if nothing is."""
    if isinstance(kind, IntegerType):
        width = kind.width.data
        return None if 1 <= width <= _WIDEST else f"an integer type has 1 to {_WIDEST} bits, not {width}"
    if isinstance(kind, LLVMArrayType):
        sizes = [kind.size.data]
    elif isinstance(kind, ShapedType):
        sizes = [size for size in kind.get_shape() if size != DYNAMIC_INDEX]
        if kind.get_num_dims() > MOST_RANK:
            return f"a type has at most {MOST_RANK} dimensions, not {kind.get_num_dims()}"
    else:
        return None
    if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_BYTES:
        return f"a type of more than the {MOST_BYTES:,} elements that a program can reach"
    return None
