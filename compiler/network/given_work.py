"""What calls of the host's C functions for models that are quantised already have to do (`host/quantised.c`, `host/floating.c`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from baco.compiler.network.elementary import UNARY
from baco.compiler.network.floating import ROWS
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


def _requantise(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(5)
    extent, *steps = words.take(6)
    given = [n for n in range(5) if words.places[n] is not None]
    sizes = (4, 4, 4, 4, 1)
    loops = [
        OperandWalk(
            words.places[n],
            (*extents, extent),
            tuple(sizes[n] * s for s in (*strides[n], steps[n])),
            sizes[n],
        )
        for n in given
    ]
    rows = math.prod(extents)
    plain = len(given) == 3 and steps[0] == steps[4] == 1
    variant = f"{function} {'dense' if plain else 'corrected' if len(given) > 3 else 'strided'}"
    return HostWork(variant, counted(rows=rows, elements=rows * extent), line_misses(loops))


def _row_sums(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(2)
    extent, step = words.take(2)
    rows = math.prod(extents)
    lines = line_misses([OperandWalk(words.places[0], (*extents, extent), (*strides[0], step))])
    lines += line_misses([OperandWalk(words.places[1], extents, tuple(4 * one for one in strides[1]), 4)])
    return HostWork(function, counted(rows=rows, elements=rows * extent), lines)


def _by_element(operands: Sequence[int], sizes: Sequence[int], kinds: Sequence[str] = ()) -> WorkReader:
    """Functions whose time is one of rows and of elements, each operand walked over alike.

    Args:
        operands: which of the call's places the walk goes over.
        sizes: of their elements, bytes.
        kinds: names of what the word behind the steps numbers.
    """

    def read(function: str, words: Words) -> HostWork:
        extents, strides = words.walk(len(operands))
        extent, *steps = words.take(1 + len(operands))
        kind = f" {kinds[words.one()]}" if kinds else ""
        loops = [
            OperandWalk(
                words.places[operand],
                (*extents, extent),
                tuple(one * sizes[n] for one in (*strides[n], steps[n])),
                sizes[n],
            )
            for n, operand in enumerate(operands)
        ]
        rows = math.prod(extents)
        return HostWork(function + kind, counted(rows=rows, elements=rows * extent), line_misses(loops))

    return read


def _real_products(function: str, words: Words) -> HostWork:
    extents, strides = words.walk(3)
    rows, columns, depth = words.take(3)
    left, right, target = words.take(2), words.take(2), words.take(2)
    order = (*extents, rows, columns, depth)
    steps = ((left[0], 0, left[1]), (0, right[1], right[0]), (*target, 0))
    loops = [
        OperandWalk(words.places[n], order, tuple(4 * one for one in (*strides[n], *steps[n])), 4)
        for n in range(3)
    ]
    results = math.prod(extents) * rows * columns
    return HostWork(function, counted(results=results, macs=results * depth), line_misses(loops))


def _real_convolution(function: str, words: Words) -> HostWork:
    images, rows, columns, groups, outs, ins, taps_h, taps_w = words.take(8)
    height, width = words.take(2)
    words.take(6)
    source, weight, target = ([4 * one for one in words.take(4)] for _ in range(3))
    results = images * rows * columns * groups * outs
    lines = OperandWalk(0, (images, height, width, groups * ins), tuple(source), 4).lines(0)
    lines += OperandWalk(1, (taps_h, taps_w, ins, groups * outs), tuple(weight), 4).lines(0)
    lines += OperandWalk(2, (images, rows, columns, groups * outs), tuple(target), 4).lines(0)
    taps = results * taps_h * taps_w
    return HostWork(function, counted(results=results, taps=taps, macs=taps * ins), lines)


def _real_images(function: str, words: Words) -> HostWork:
    """Windows and resampling: every result reads so many elements."""
    images, rows, columns, channels, height, width = words.take(6)
    source, target = ([4 * one for one in words.take(4)] for _ in range(2))
    taps = math.prod(words.take(2)) if function == "net_float_window" else 4
    lines = OperandWalk(0, (images, height, width, channels), tuple(source), 4).lines(0)
    lines += OperandWalk(1, (images, rows, columns, channels), tuple(target), 4).lines(0)
    results = images * rows * columns * channels
    return HostWork(function, counted(results=results, taps=results * taps), lines)


#: Function -> how its work is read.
GIVEN: dict[str, WorkReader] = {
    "net_window_average": pooled,
    "net_requantise": _requantise,
    "net_row_sums": _row_sums,
    "net_scaled_pair": elementwise((0, 1, 3)),
    "net_scaled_softmax": _by_element((0, 2), (1, 1)),
    "net_float_decode": _by_element((0, 2), (1, 4)),
    "net_float_encode": _by_element((0, 1), (4, 1)),
    "net_float_unary": _by_element((0, 1), (4, 4), tuple(UNARY)),
    "net_float_binary": _by_element((0, 1, 2), (4, 4, 4)),
    "net_float_select": _by_element((0, 1, 2, 3), (4, 4, 4, 4)),
    "net_float_scale": _by_element((0, 1, 2, 3, 4), (4, 4, 4, 4, 4)),
    "net_float_rows": _by_element((0, 1), (4, 4), ROWS),
    "net_float_products": _real_products,
    "net_float_convolve": _real_convolution,
    "net_float_window": _real_images,
    "net_float_resize": _real_images,
}
