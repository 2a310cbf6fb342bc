"""How far the dimensions of a block reach: the bounds that follow from `cdiv` and `range`, and a proof for the rest.

The rule itself is stated in `access`, which uses this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from baco.compiler.language.builder import Builder
from baco.compiler.language.forms import Atom, CeilingQuotient, Form, TooLargeError
from baco.compiler.language.values import AxisTerm, BlockLayout

Bounds = Mapping[int, Sequence[Form]]
#: Sums of bounds, one of every dimension, that are looked at.
_MOST_COMBINATIONS = 1 << 12


def derived_bound(b: Builder, layout: BlockLayout, dimension: int) -> tuple[BlockLayout, Form] | None:
    """The bound on the index in the block along `dimension` that the program implies, if any.

    Returns:
        The layout with everything that moves this dimension in its `start`, and the bound: elements i < bound are
        inside.
    """
    axis = layout.axes[dimension]
    bound = _bound(b, axis.start, axis.size)
    if bound is not None:
        return layout, bound
    # A pointer that was moved as a whole: its distance in elements of this dimension.
    for moved in (_named_distance(layout.rest, axis), _numeric_distance(b, layout, dimension)):
        if moved is None or moved.is_zero:
            continue
        bound = _bound(b, moved, axis.size)
        if bound is not None:
            axes = {**layout.axes, dimension: AxisTerm(axis.coefficient, axis.start + moved, axis.size)}
            rest = layout.rest - axis.coefficient * moved
            return replace(layout, axes=axes, rest=rest), bound
    return None


def _named_distance(rest: Form, axis: AxisTerm) -> Form | None:
    """The part of `rest` that is a multiple of the coefficient by its names, divided by it."""
    if not any(True for _ in axis.coefficient.atoms()):
        return rest.divided_by(axis.coefficient) if axis.coefficient.terms == {(): 1} else None
    quotients = [Form({term: c}).divided_by(axis.coefficient) for term, c in rest.terms.items()]
    return sum((q for q in quotients if q is not None), Form())


def _numeric_distance(b: Builder, layout: BlockLayout, dimension: int) -> Form | None:
    """The same by value, where only one dimension could be meant."""
    axis = layout.axes[dimension]
    scale = axis.coefficient.value
    if scale == 0:
        return None
    twins = [
        other
        for d, other in layout.axes.items()
        if d != dimension and other.coefficient.value == scale and other.size.value == axis.size.value
    ]
    if twins:
        return None
    terms = {term: c // scale for term, c in layout.rest.numeric.terms.items() if term and c % scale == 0}
    return Form(terms)


def _bound(b: Builder, start: Form, size: Form) -> Form | None:
    """The bound on i if start + i counts elements of something that is cut into blocks of `size`."""
    for term, coefficient in start.terms.items():
        if len(term) == 1 and coefficient == 1 and term[0].kind == "loop":
            _, end, step = term[0].operands
            if _alike(step, size):
                return end - Form.of(term[0])
    blocks = Form()
    for term, coefficient in start.terms.items():
        quotient = Form({term: coefficient}).divided_by(size)
        if quotient is not None and not quotient.fixed:
            blocks = blocks + quotient
    if blocks.is_zero:
        return None
    extent = _counted_extent(b, blocks, size)
    return extent - blocks * size if extent is not None else None


def _alike(left: Form, right: Form) -> bool:
    """The same by name; by value where one of them is a plain number."""
    if left.same(right):
        return True
    plain = not any(True for _ in left.atoms()) or not any(True for _ in right.atoms())
    return plain and left.fixed and right.fixed and left.value == right.value


def _counted_extent(b: Builder, blocks: Form, size: Form) -> Form | None:
    """X, if `blocks` counts the blocks of `size` that X is cut into."""
    atom = next(iter(blocks.terms))[0] if len(blocks.terms) == 1 else None
    single = isinstance(atom, Atom) and blocks.same(Form.of(atom))
    if single and atom is not None:
        count = atom.operands[1] if atom.kind in ("mod", "loop") else None
        if count is not None and len(count.terms) == 1:
            divisor = next(iter(count.terms))
            whole = len(divisor) == 1 and divisor[0].kind == "cdiv" and count.same(Form.of(divisor[0]))
            if whole and _alike(divisor[0].operands[1], size):
                return divisor[0].operands[0]
        if atom.kind == "loop":
            return None
        factors = _grid_factors(b, atom)
        if len(factors) == 1 and factors[0][1] == size.value:
            return _named_extent(b, factors[0][0], size)
    return _extent_by_count(b, blocks if single else None, size)


def _grid_factors(b: Builder, atom: Atom) -> list[tuple[int, int]]:
    """The quotients (dividend, divisor) whose product the atom counts, as far as the grid tells; [] if it does not.

    A program id counts what its axis was given as; the program id // cdiv(X, B) counts the rest.
    """
    if atom.kind == "program":
        given = b.grid[atom.operands[0].value]
        return list(given.factors) if isinstance(given, CeilingQuotient) else []
    if atom.kind != "floordiv" or len(atom.operands[0].terms) != 1 or len(atom.operands[1].terms) != 1:
        return []
    (dividend, divisor) = (next(iter(form.terms)) for form in atom.operands)
    if len(dividend) != 1 or not atom.operands[0].same(Form.of(dividend[0])):
        return []
    factors = _grid_factors(b, dividend[0])
    for quotient in divisor:
        known = (quotient.operands[0].value, quotient.operands[1].value) if quotient.kind == "cdiv" else None
        if known not in factors:
            return []
        factors.remove(known)
    return factors


def _named_extent(b: Builder, dividend: int, size: Form) -> Form:
    """The dividend of a quotient of the grid, by its name in the kernel if it has one."""
    for quotient in b.quotients:
        if _alike(quotient.operands[1], size) and quotient.operands[0].value == dividend:
            return quotient.operands[0]
    return Form.of(dividend)


def _extent_by_count(b: Builder, blocks: Form | None, size: Form) -> Form | None:
    """The X of the only cdiv(X, size) in the kernel that fits the number of values of `blocks`."""
    factors = {factor for given in b.grid if isinstance(given, CeilingQuotient) for factor in given.factors}
    fitting: dict[int, Form] = {}
    for quotient in b.quotients:
        dividend, divisor = quotient.operands
        if quotient in b.loop_ends or not _alike(divisor, size):
            continue
        if factors and (dividend.value, divisor.value) not in factors:
            continue
        if blocks is not None and (blocks.low != 0 or blocks.high + 1 != quotient.low):
            continue
        fitting[dividend.value] = dividend
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def check_inside(
    b: Builder,
    what: str,
    name: str,
    array_size: int,
    layout: BlockLayout,
    lows: Bounds,
    highs: Bounds,
    free: Iterable[int],
) -> None:
    """Reports an access that may leave the array.

    Args:
        what: "load" or "store", `name`, `array_size`: of the array argument, for the message and the limit.
        lows, highs: bounds on the index in the block, per dimension.
        free: dimensions about which an arbitrary mask decides; they are not checked.
    """
    gathered = {dimension for gather in layout.gathers for dimension in gather.dimensions}
    if set(free) & (set(layout.axes) | gathered) or any(gather.source == "data" for gather in layout.gathers):
        return
    kinds = {atom.kind for atom in _atoms(layout, lows, highs) if atom.low != atom.high}
    if "memory" in kinds:
        return  # offsets that are data cannot be checked here
    if not all(gather.known for gather in layout.gathers):
        b.report(b.error(f"how far this {what} reaches in `{name}` is not known", "give mask="))
        return
    unlimited = []
    for dimension, axis in sorted(layout.axes.items()):
        size = axis.size.value
        if any(bound.high <= 0 for bound in highs.get(dimension, ())):
            return  # never anything in memory
        if any(bound.low >= size for bound in lows.get(dimension, ())):
            return
        if dimension not in lows and dimension not in highs and size > 1:
            unlimited.append(dimension)
    low = max(form.low for form in _extremes(layout, lows, highs, greatest=False))
    high = min(form.high for form in _extremes(layout, lows, highs, greatest=True))
    if (low >= 0 and high < array_size) or ("carried" in kinds and not unlimited):
        return
    where = f"element {low} of" if low < 0 else f"element {high} of"
    if "carried" in kinds:
        where = "any element relative to"
    dimensions = ", ".join(map(str, unlimited))
    hint = (
        f"no extent follows for dimension {dimensions} of the block: cut it by baco.cdiv or range, give mask=, "
        "or use baco.make_block_ptr"
        if unlimited
        else "the sizes and strides given do not fit the array, or give mask="
    )
    b.report(b.error(f"this {what} may reach {where} `{name}`, which has {array_size} elements", hint))


def _reached(axis: AxisTerm, bound: Form, before: int) -> Form:
    """A limit on coefficient * i for elements i < bound (`before` = 1) or i >= bound (0), on the side of the bound."""
    atom = next(iter(bound.terms), ())
    if len(bound.terms) == 1 and len(atom) == 1 and atom[0].kind == "cdiv" and bound.same(Form.of(atom[0])):
        distance, divisor = atom[0].operands
        factor = axis.coefficient.divided_by(divisor) or axis.coefficient.numeric.divided_by(divisor.numeric)
        if factor is not None:
            return factor * (distance - Form.of(before))  # divisor * i < distance, or >= distance
    return axis.coefficient * (bound - Form.of(before))


def _extremes(layout: BlockLayout, lows: Bounds, highs: Bounds, *, greatest: bool) -> Iterable[Form]:
    """Offsets that no element exceeds (`greatest`), or that none falls short of.

    Each dimension is bounded by its size and by the bounds given; which of them helps depends on what cancels in the
    sum, so all combinations are formed.
    """
    choices = []
    for dimension, axis in layout.axes.items():
        if (axis.coefficient.value > 0) == greatest:
            ends = [_reached(axis, form, 1) for form in (axis.size, *highs.get(dimension, ()))]
        else:
            ends = [_reached(axis, form, 0) for form in (Form(), *lows.get(dimension, ()))]
        choices.append([axis.coefficient * axis.start + end for end in ends])
    for one in layout.gathers:
        end = one.high if (one.coefficient.value > 0) == greatest else one.low
        choices.append([one.coefficient * Form.of(end)])
    if math.prod(map(len, choices)) > _MOST_COMBINATIONS:
        raise TooLargeError("there are too many bounds on this access")
    for combination in product(*choices):
        yield sum(combination, layout.rest)


def _atoms(layout: BlockLayout, lows: Bounds, highs: Bounds) -> Iterable[Atom]:
    """All that the place of the block depends on."""
    yield from layout.rest.origins()
    for axis in layout.axes.values():
        yield from axis.start.origins()
    for bounds in (lows, highs):
        for forms in bounds.values():
            for form in forms:
                yield from form.origins()


def emit_bounds(b: Builder, shape: Sequence[int], bounds: Bounds, *, high: bool) -> list[SSAValue]:
    """The bound of every dimension, between 0 and its size; [] if none of them excludes anything.

    Args:
        high: whether they are upper bounds (the least counts) or lower ones (the greatest does).
    """
    needed = {}
    for dimension, forms in bounds.items():
        size = shape[dimension]
        useful = [form for form in forms if (form.low < size if high else form.high > 0)]
        if useful:
            needed[dimension] = useful
    if not needed:
        return []
    result = []
    for dimension, size in enumerate(shape):
        if dimension not in needed:
            result.append(b.emit_constant(size if high else 0, IndexType()))
            continue
        result.append(_clamped(b, needed[dimension], size, high))
    return result


def _clamped(b: Builder, forms: Sequence[Form], size: int, high: bool) -> SSAValue:
    keep, limit = (arith.MinSIOp, arith.MaxSIOp) if high else (arith.MaxSIOp, arith.MinSIOp)
    value = b.emit_index(forms[0])
    for form in forms[1:]:
        value = b.emit(keep(value, b.emit_index(form)))
    low, high_value = min(form.low for form in forms), max(form.high for form in forms)
    near, far = (size, 0) if high else (0, size)
    if (high_value > size) if high else (low < 0):
        value = b.emit(keep(value, b.emit_constant(near, IndexType())))
    if (low < 0) if high else (high_value > size):
        value = b.emit(limit(value, b.emit_constant(far, IndexType())))
    return value
