"""What calls of the host's C functions have to do, as far as their time depends on it: elements, rows, cache lines.

Read from the parameters that `baco.compiler.network.host_calls` writes; the order of words is that of the comments in the
C files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from baco.compiler.host_core import LINE_BYTES, SETS, WAYS
from baco.compiler.network.given_work import GIVEN
from baco.compiler.network.host_walks import (
    HostWork,
    OperandWalk,
    Words,
    WorkReader,
    counted,
    elementwise,
    line_misses,
    pooled,
)

#: Results that net_reduce advances together (host/rows.c).
_TOTALS = 64
#: Exponentials that net_softmax keeps of a row.
_KEPT = 256


def host_work(function: str, words: Sequence[int], places: Sequence[object]) -> HostWork | None:
    """The work of a call; None for a function that nothing is known of.

    Args:
        words: the parameters.
        places: for each operand something that is the same for operands in the same memory; None where there is none.
    """
    read = _FUNCTIONS.get(function)
    return None if read is None else read(function, Words(words, places))


def _same_size(count: int) -> Callable[[Words], Sequence[int]]:
    return lambda words: [words.one()] * count


def _softmax(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(3)
    extent, *steps = words.take(4)
    source, _, mask, target = words.places
    rows = math.prod(extents)
    used = [(source, 0), (target, 1)] + ([(mask, 2)] if mask is not None else [])
    loops = [OperandWalk(place, (*extents, extent), (*strides[n], steps[n])) for place, n in used]
    dense = steps[0] == steps[1] == 1
    variant = f"{function} {'masked' if mask is not None else 'dense' if dense else 'strided'}"
    # elements beyond those whose exponentials are kept, and those that no four are left for
    late = max(0, extent - _KEPT)
    amounts = counted(rows=rows, elements=rows * extent, late=rows * late, rest=rows * (extent % 4))
    return HostWork(variant, amounts, line_misses(loops))


def _normalise(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(4)
    inner, within = words.walk(4)
    extent, *steps = words.take(5)
    rows, parts = math.prod(extents), math.prod(inner)
    sizes = (1, 4, 4, 1)
    loops = [
        OperandWalk(
            words.places[n],
            (*extents, *inner, extent),
            tuple(one * sizes[n] for one in (*strides[n], *within[n], steps[n])),
            sizes[n],
        )
        for n in range(4)
    ]
    variant = f"{function} {'dense' if all(step == 1 for step in steps) else 'strided'}"
    amounts = counted(rows=rows, parts=rows * parts, elements=rows * parts * extent)
    return HostWork(variant, amounts, line_misses(loops))


def _reduce(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    many, from_step, to_step = words.take(3)
    inner, (within,) = words.walk(1)
    extent, step, kind = words.take(3)
    outer, parts = math.prod(extents), math.prod(inner)
    results, quick = (
        outer * many,
        0.0,
    )  # quick: the share of the results that are summed eight elements at a time
    if from_step == 1 and many > 1:
        groups = outer * -(-many // _TOTALS)
        lanes = min(many, _TOTALS)
        order: tuple[int, ...] = (*extents, groups // outer, *inner, extent, lanes)
        source = OperandWalk(words.places[0], order, (*strides[0], lanes, *within, step, 1))
        visits, variant = groups * parts * extent, "together"
        at = words.places[0][1] if isinstance(words.places[0], tuple) else 0
        aligned = all(one % 8 == 0 for one in (at, *strides[0], *within, step))
        if kind == 0 and aligned:
            quick = many // _TOTALS * _TOTALS / many
    else:
        order = (*extents, many, *inner, extent)
        source = OperandWalk(words.places[0], order, (*strides[0], from_step, *within, step))
        visits, variant = results * parts, "single"
    target = OperandWalk(words.places[1], (*extents, many), (*strides[1], to_step))
    elements = results * parts * extent
    amounts = counted(
        results=results, visits=visits, elements=elements * (1 - quick), quick_elements=elements * quick
    )
    kinds = ("sum", "largest", "smallest")
    return HostWork(
        f"{function} {variant} {kinds[kind]}", amounts, line_misses([source]) + line_misses([target])
    )


def _argmax(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    extent, step = words.take(2)
    rows = math.prod(extents)
    source = OperandWalk(words.places[0], (*extents, extent), (*strides[0], step))
    target = OperandWalk(words.places[1], extents, tuple(4 * one for one in strides[1]), 4)
    return HostWork(
        function, counted(rows=rows, elements=rows * extent), line_misses([source]) + line_misses([target])
    )


def _resize(function: str, words: Words) -> HostWork:
    images, rows, columns, channels, height, width = words.take(6)
    source, target = words.take(4), words.take(4)
    lines = OperandWalk(0, (images, height, width, channels), tuple(source)).lines(0)
    lines += OperandWalk(1, (images, rows, columns, channels), tuple(target)).lines(0)
    pixels = images * rows * columns
    return HostWork(function, counted(pixels=pixels, elements=pixels * channels), lines)


def _embed(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    features, from_step, to_step, entries, row_step = words.take(5)
    rows = math.prod(extents)
    # indices are scattered: every row of the table comes anew, unless all of them stay in the cache
    each = OperandWalk(0, (features,), (from_step,)).lines(0)
    lines = each * (min(rows, entries) if entries * each <= SETS * WAYS // 2 else rows)
    lines += line_misses([OperandWalk(2, (*extents, features), (*strides[1], to_step))])
    lines += OperandWalk(1, extents, tuple(4 * one for one in strides[0]), 4).lines(0)
    dense = from_step == to_step == 1
    aligned = row_step % 8 == 0 and all(one % 8 == 0 for one in strides[1])
    variant = "words" if dense and aligned else "bytes" if dense else "strided"
    return HostWork(f"{function} {variant}", counted(rows=rows, elements=rows * features), lines)


def _rotate(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(4)
    pairs, *steps = words.take(5)
    rows = math.prod(extents)
    loops = [OperandWalk(words.places[n], (*extents, pairs), (*strides[n], steps[n])) for n in range(4)]
    lines = line_misses(loops) + line_misses(loops[:1]) + line_misses(loops[3:])
    variant = f"{function} {'dense' if all(step == 1 for step in steps[:4]) else 'strided'}"
    return HostWork(variant, counted(rows=rows, elements=rows * pairs), lines)


def _matmul(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(3)
    rows, columns, depth = words.take(3)
    left, right, target = words.take(2), words.take(2), words.take(2)
    order = (*extents, rows, columns, depth)
    loops = [
        OperandWalk(words.places[0], order, (*strides[0], left[0], 0, left[1])),
        OperandWalk(words.places[1], order, (*strides[1], 0, right[1], right[0])),
        OperandWalk(words.places[3], order, (*strides[2], target[0], target[1], 0)),
    ]
    results = math.prod(extents) * rows * columns
    return HostWork(function, counted(results=results, macs=results * depth), line_misses(loops))


def _convolve(function: str, words: Words) -> HostWork:
    images, rows, columns, groups, outs, ins, taps_h, taps_w = words.take(8)
    height, width = words.take(2)
    words.take(6)
    source, weight, target = words.take(4), words.take(4), words.take(4)
    results = images * rows * columns * groups * outs
    lines = OperandWalk(0, (images, height, width, groups * ins), tuple(source)).lines(0)
    lines += OperandWalk(1, (taps_h, taps_w, ins, groups * outs), tuple(weight)).lines(0)
    lines += OperandWalk(2, (images, rows, columns, groups * outs), tuple(target)).lines(0)
    taps = results * taps_h * taps_w
    return HostWork(function, counted(results=results, taps=taps, macs=taps * ins), lines)


def _check(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(1)
    extent, step, size = words.take(3)
    rows = math.prod(extents)
    found = OperandWalk(1, (*extents, extent), tuple(one * size for one in (*strides[0], step)), size)
    lines = line_misses([found]) + rows * extent * size / LINE_BYTES
    return HostWork(f"{function} {size}", counted(rows=rows, elements=rows * extent), lines)


def _convert(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    extent, *steps = words.take(3)
    sizes = (4, 1) if words.one() else (1, 4)
    loops = [
        OperandWalk(
            words.places[n],
            (*extents, extent),
            tuple(sizes[n] * s for s in (*strides[n], steps[n])),
            sizes[n],
        )
        for n in range(2)
    ]
    rows = math.prod(extents)
    return HostWork(function, counted(rows=rows, elements=rows * extent), line_misses(loops))


def _top(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    extent, step, wanted, to_step = words.take(4)
    rows = math.prod(extents)
    lines = line_misses([OperandWalk(words.places[0], (*extents, extent), (*strides[0], step))])
    target = (*(4 * one for one in strides[1]), 4 * to_step)
    lines += line_misses([OperandWalk(words.places[1], (*extents, wanted), target, 4)])
    return HostWork(function, counted(rows=rows, elements=rows * extent), lines)


def _take(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(3)
    size, extent, from_step, index_step, to_step, nbytes = words.take(6)
    rows = math.prod(extents)
    sizes = (nbytes, 4, nbytes)
    inner = ((size, from_step), (extent, index_step), (extent, to_step))
    lines = 0.0
    for n, (count, step) in enumerate(inner):
        walk = OperandWalk(
            words.places[n], (*extents, count), tuple(sizes[n] * s for s in (*strides[n], step)), sizes[n]
        )
        # no more elements of the input are read than there are indices
        lines += min(line_misses([walk]), rows * extent)
    return HostWork(function, counted(rows=rows, elements=rows * extent), lines)


def _one_hot(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    extent, step = words.take(2)
    rows = math.prod(extents)
    lines = OperandWalk(0, extents, tuple(4 * one for one in strides[0]), 4).lines(0)
    lines += line_misses([OperandWalk(1, (*extents, extent), (*strides[1], step))])
    return HostWork(function, counted(rows=rows, elements=rows * extent), lines)


def _max_positions(function: str, words: Words) -> HostWork:
    images, rows, columns, channels, height, width = words.take(6)
    source, target = words.take(4), words.take(4)
    kernel = words.take(2)
    results = images * rows * columns * channels
    lines = OperandWalk(0, (images, height, width, channels), tuple(source)).lines(0)
    steps = tuple(4 * one for one in target)
    lines += OperandWalk(1, (images, rows, columns, channels), steps, 4).lines(0)
    amounts = counted(results=results, rows=results * kernel[0], taps=results * kernel[0] * kernel[1])
    return HostWork(function, amounts, lines)


def _unpool(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    size, step = words.take(2)
    lines = line_misses([OperandWalk(words.places[0], extents, strides[0])])
    lines += line_misses([OperandWalk(words.places[1], extents, tuple(4 * one for one in strides[1]), 4)])
    lines += 2 * OperandWalk(2, (size,), (step,)).lines(0)
    return HostWork(function, counted(filled=size, elements=math.prod(extents)), lines)


def _term_sum(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    inner, (within,) = words.walk(1)
    extent, step = words.take(2)
    results, parts = math.prod(extents), math.prod(inner)
    source = OperandWalk(words.places[0], (*extents, *inner, extent), (*strides[0], *within, step))
    tables = 256 * 8 / LINE_BYTES + 8  # of the limits a search touches one in each of its steps
    lines = line_misses([source]) + line_misses([OperandWalk(words.places[3], extents, strides[1])])
    amounts = counted(results=results, parts=results * parts, elements=results * parts * extent)
    variant = f"{function} {'dense' if step == 1 else 'strided'}"
    return HostWork(variant, amounts, lines + min(tables, results * parts * extent))


_FUNCTIONS: dict[str, WorkReader] = {
    "net_map": elementwise((0, 2), tables=256),
    "net_copy": elementwise((0, 1), _same_size(2)),
    "net_fill": elementwise((0,), _same_size(1)),
    "net_add": elementwise((0, 1, 3)),
    "net_multiply": elementwise((0, 1, 2)),
    "net_binary_table": elementwise((0, 1, 3)),
    "net_softmax": _softmax,
    "net_normalise": _normalise,
    "net_reduce": _reduce,
    "net_argmax": _argmax,
    "net_max_pool": pooled,
    "net_average_pool": pooled,
    "net_resize": _resize,
    "net_embed": _embed,
    "net_rotate": _rotate,
    "net_matmul": _matmul,
    "net_convolve": _convolve,
    "net_check": _check,
    "net_convert": _convert,
    "net_top": _top,
    "net_take": _take,
    "net_one_hot": _one_hot,
    "net_max_positions": _max_positions,
    "net_unpool": _unpool,
    "net_term_sum": _term_sum,
    **GIVEN,
}
