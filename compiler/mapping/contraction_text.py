"""Contractions as text: what any operator computes, in a line.

    O[n,q,p,k] += I[n, q*2 + s - 1, p*2 + r - 1, c] * W[s,r,c,k]

Indices are sums of iterations, multiples of them and whole numbers. What is not in the output is summed up. With one
tensor on the right its elements are summed up; one that stands there twice is multiplied by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, Sum, variable

_ACCESS = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*")
_TERM = re.compile(r"(?:(\d{1,9})(?:\*([A-Za-z_]\w*))?|([A-Za-z_]\w*)(?:\*(\d{1,9}))?)")
_EXAMPLE = "write it like 'O[m,n] += A[m,k] * B[k,n]'"


def parse_contraction(text: str, extents: Mapping[str, int], name: str = "") -> Contraction:
    """The contraction that a text describes, with int8 operands and int32 sums.

    Args:
        extents: how often each iteration runs; they are the loop nest, outermost first.
        name: of the operator.

    Raises InputError for text of another form and for iterations without extent.
    """
    left, arrow, right = text.partition("+=")
    if not arrow:
        raise InputError(f"'{text}' is no sum of products", hint=_EXAMPLE)
    output = _access(left, text, "int32")
    inputs = tuple(_access(part, text, "int8") for part in _factors(right))
    if len(inputs) > 2:
        raise InputError(f"'{text}' multiplies {len(inputs)} tensors", hint="two at most")
    used = {one for access in (output, *inputs) for one in access.variables}
    for iteration in sorted(used - set(extents)):
        raise InputError(
            f"nothing says how often '{iteration}' of '{text}' runs", hint=f"give {iteration}=..."
        )
    for iteration in extents:
        if iteration not in used:
            raise InputError(f"'{text}' has no iteration '{iteration}'")
    if len(inputs) == 2:
        return Contraction(dict(extents), output, inputs, name=name)
    return Contraction(dict(extents), output, inputs, "sum", name)


def tensor_shapes(
    contraction: Contraction, given: Mapping[str, Sequence[int]] | None = None
) -> dict[str, tuple[int, ...]]:
    """Extents of every stored tensor: those given, else what the indices from 0 on reach.

    Elements outside count as zero, but the output must hold all of its elements. Raises InputError for shapes that do
    not fit.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    given = given or {}
    for tensor in given:
        contraction.access(tensor)
    for access in contraction.accesses:
        reach = tuple(
            index_range(access, axis, contraction.extents)[1] + 1 for axis in range(len(access.indices))
        )
        shape = tuple(int(extent) for extent in given.get(access.operand, shapes.get(access.operand, reach)))
        if len(shape) != len(reach) or min(shape, default=1) < 1:
            raise InputError(
                f"{access.operand} has {len(reach)} dimensions of at least 1, not the shape {shape}"
            )
        shapes[access.operand] = shape
    output = contraction.output
    for axis, extent in enumerate(shapes[output.operand]):
        low, high = index_range(output, axis, contraction.extents)
        if low < 0 or high >= extent:
            raise InputError(
                f"{output} reaches from {low} to {high} in a dimension of {extent}",
                hint="the output must hold all of its elements",
            )
    return shapes


def index_range(access: Access, place: int, extents: Mapping[str, int]) -> tuple[int, int]:
    """Smallest and largest index in a dimension of a tensor."""
    index = access.indices[place]
    ends = dict.fromkeys(extents, 0)
    low = high = int(index.evaluate(ends))
    for name, factor in access.coefficients[place].items():
        step = factor * (extents[name] - 1)
        low, high = low + min(step, 0), high + max(step, 0)
    return low, high


def _factors(text: str) -> list[str]:
    """Parts between multiplication signs that are outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "*" and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _access(text: str, whole: str, data_type: str) -> Access:
    found = _ACCESS.fullmatch(text)
    if found is None:
        raise InputError(f"'{text.strip()}' in '{whole}' is no tensor with indices", hint=_EXAMPLE)
    inside = found[2].strip()
    indices = tuple(_index(part, whole) for part in inside.split(",")) if inside else ()
    return Access(found[1], indices, data_type)


def _index(text: str, whole: str) -> Expression:
    """A sum of terms, which signs separate."""
    total: Expression = Sum(())
    signs = re.split(r"([+-])", text.replace(" ", ""))
    if signs and not signs[0]:  # begins with a sign
        signs = signs[1:]
    else:
        signs = ["+", *signs]
    if len(signs) < 2 or len(signs) % 2:
        raise InputError(f"'{text.strip()}' in '{whole}' is no index", hint="write it like 'q*2 + s - 1'")
    for sign, term in zip(signs[::2], signs[1::2], strict=True):
        one = _TERM.fullmatch(term)
        if one is None:
            raise InputError(
                f"'{term or text.strip()}' in '{whole}' is no index", hint="write it like 'q*2 + s - 1'"
            )
        number, behind, name, factor = one.groups()
        sense = -1 if sign == "-" else 1
        if name is not None or behind is not None:
            total = total + variable(name or behind) * (sense * int(factor or number or 1))
        else:
            total = total + sense * int(number)
    return total
