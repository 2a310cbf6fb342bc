"""Contractions in other words: the same sums, with iterations that an array can run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, Sum, as_sum, variable


def as_products(contraction: Contraction, ones: str) -> Contraction:
    """A sum of elements as products with a tensor of ones, of the shape of what is summed up."""
    if contraction.body != "sum" or len(contraction.inputs) != 1:
        return contraction
    factor = Access(ones, tuple(variable(name) for name in contraction.reduction))
    return replace(contraction, inputs=(*contraction.inputs, factor), body="products")


def gathered(contraction: Contraction) -> Contraction:
    """Transposed convolutions as ordinary ones, one for each phase of the output.

    An output index p*f + r, to whose elements several iterations add, becomes u*f + r_phase: with r = f*r_tap + r_phase
    and u = p + r_tap the sum over r_tap reads p = u - r_tap, and r elsewhere, in the other tensors; outside they hold
    zeros. Nothing else is changed.

    Raises InputError for other sums in an index of the output.
    """
    for place, index in enumerate(contraction.output.coefficients):
        if len(index) < 2:
            continue
        slow = max(index, key=lambda name: abs(index[name]))
        (fast,) = (name for name in index if name != slow) if len(index) == 2 else (None,)
        factor = index[slow]
        others = [form for at, form in enumerate(contraction.output.coefficients) if at != place]
        if fast is None or index[fast] != 1 or factor < 1 or any({slow, fast} & set(form) for form in others):
            raise InputError(
                f"{contraction} adds to elements of its output in a way that is no transposed convolution",
                hint="write an index of the output as one iteration, or as p*2 + r",
            )
        if factor >= contraction.extents[fast]:
            continue  # every iteration has an element of its own
        return gathered(_gathered_at(contraction, slow, fast, factor))
    return contraction


def _gathered_at(contraction: Contraction, slow: str, fast: str, factor: int) -> Contraction:
    tap, phase = f"{fast}_tap", f"{fast}_phase"
    taps = math.ceil(contraction.extents[fast] / factor)
    extents = {}
    for name, extent in contraction.extents.items():
        if name == slow:
            extents[name] = extent + taps - 1
        elif name == fast:
            extents |= {tap: taps, phase: min(factor, extent)}
        else:
            extents[name] = extent
    # taps run backwards, so that windows slide forwards
    new_fast = variable(tap) * -factor + (taps - 1) * factor + variable(phase)
    inside = {slow: variable(slow) + variable(tap) - (taps - 1), fast: new_fast}
    outside = {slow: variable(slow), fast: variable(phase)}
    return replace(
        contraction,
        extents=extents,
        output=_substituted(contraction.output, outside),
        inputs=tuple(_substituted(access, inside) for access in contraction.inputs),
    )


def rising(contraction: Contraction) -> Contraction:
    """With every summed iteration running backwards that the first index which adds it to others subtracts."""
    for name in contraction.reduction:
        indices = [index for access in contraction.inputs for index in access.coefficients if name in index]
        window = next((index for index in indices if len(index) > 1), indices[0])
        if window[name] < 0:
            backwards = {name: variable(name) * -1 + (contraction.extents[name] - 1)}
            contraction = replace(
                contraction, inputs=tuple(_substituted(access, backwards) for access in contraction.inputs)
            )
    return contraction


def _substituted(access: Access, by: dict[str, Expression]) -> Access:
    change: Callable[[str], Expression] = lambda name: by.get(name, variable(name))  # noqa: E731
    indices = []
    for index in access.indices:
        total: Expression = Sum((), as_sum(index).constant)
        for term, factor in as_sum(index).terms:
            total = total + change(str(term)) * factor
        indices.append(total)
    return replace(access, indices=tuple(indices))
