"""Operators on the host core: the C functions against the integer reference, on random views."""

from collections.abc import Callable

import numpy as np
import pytest

from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Addition, BinaryTable, Conversion, Fill, Map, Multiplication
from baco.compiler.ops.images import AveragePool, MaxPool, MaxPositions, Resize
from baco.compiler.ops.lookup import Embedding, OneHot, Rotation, Take, Unpool
from baco.compiler.ops.rows import ArgMax, Normalisation, Reduction, Softmax, TermSum, TopK
from baco.compiler.ops.views import View
from tests.compiler.network.net_sketch import Sketch, check
from tests.seeds import seeds, some


def shape(s: Sketch, least: int = 1, most: int = 4, size: int = 9) -> tuple[int, ...]:
    return tuple(int(n) for n in s.random.integers(1, size, s.random.integers(least, most + 1)))


def table(s: Sketch, sizes: tuple[int, ...]) -> View:
    return s.either(sizes, "constant")


def map_(s: Sketch) -> None:
    n = shape(s)
    s.add(
        Map,
        s.either(n, "output"),
        input=s.either(n),
        table=table(s, (256,)) if s.random.random() < 0.6 else None,
    )


def fill(s: Sketch) -> None:
    s.add(Fill, s.either(shape(s), "output"), constant=int(s.random.integers(-128, 128)))


def multiplication(s: Sketch) -> None:
    n = shape(s)
    rescale = FixedPoint(int(s.random.integers(-(2**31) + 1, 2**31)), int(s.random.integers(30, 44)))
    s.add(Multiplication, s.either(n, "output"), left=s.either(n), right=s.either(n), rescale=rescale)


def binary_table(s: Sketch) -> None:
    n = shape(s)
    s.add(BinaryTable, s.either(n, "output"), left=s.either(n), right=s.either(n), table=table(s, (256, 256)))


def addition(s: Sketch) -> None:
    n = shape(s)
    scales = {
        name: float(np.float32(s.random.normal(0, 1))) for name in ("left_scale", "right_scale", "scale")
    }
    relu = bool(s.random.integers(2))
    s.add(Addition, s.either(n, "output"), left=s.either(n), right=s.either(n), relu=relu, **scales)


def softmax(s: Sketch) -> None:
    n = shape(s, size=20)
    exponentials = np.rint(65535 * np.exp(-0.04 * np.arange(256))).astype(np.int32)
    mask = None
    if s.random.random() < 0.5:
        mask = s.strided(n, "constant", s.random.integers(0, 2, n, dtype=np.int8))
    s.add(
        Softmax, s.either(n, "output"), input=s.either(n), table=s.value((256,), "constant", exponentials),
        numerator=int(2 ** s.random.uniform(20, 40)), mask=mask,
    )  # fmt: skip


def normalisation(s: Sketch) -> None:
    n = shape(s, size=14)
    axes = int(s.random.integers(1, len(n) + 1))
    fits = tuple(size if s.random.random() < 0.7 else 1 for size in n)
    s.add(
        Normalisation, s.either(n, "output"), input=s.either(n),
        gain=s.strided(fits, "constant", s.random.integers(-(2**15), 2**15, fits, dtype=np.int32)).expanded(n),
        offset=s.strided(fits, "constant", s.random.integers(-(2**15), 2**15, fits, dtype=np.int32)).expanded(n),
        axes=axes, centre=bool(s.random.integers(2)), epsilon=int(s.random.integers(0, 2000)),
        shift=int(s.random.integers(7, 32)),
    )  # fmt: skip


def reduction(s: Sketch) -> None:
    n = shape(s)
    axes = int(s.random.integers(1, len(n) + 1))
    s.add(
        Reduction, s.either(n[: len(n) - axes], "output"), input=s.either(n),
        function=str(s.random.choice(["sum", "max", "min"])), axes=axes,
        rescale=FixedPoint(int(s.random.integers(1, 2**31)), int(s.random.integers(31, 36))),
    )  # fmt: skip


def argmax(s: Sketch) -> None:
    n = shape(s, size=20)
    out = s.value(n[:-1], "output", np.zeros(n[:-1], np.int32))
    flags = s.random.integers(0, 2, 2)
    s.add(ArgMax, out, input=s.either(n), last=bool(flags[0]), smallest=bool(flags[1]))


def embedding(s: Sketch) -> None:
    n, rows, features = shape(s), 7, int(s.random.integers(1, 9))
    indices = s.strided(n, "constant", s.random.integers(-9, 9, n, dtype=np.int32))
    s.add(Embedding, s.either((*n, features), "output"), indices=indices, table=table(s, (rows, features)))


def windows(s: Sketch) -> tuple[tuple[int, int], ...]:
    """Image size, kernel, stride, padding, dilation, size of the result: every window meets the image."""
    random = s.random
    while True:
        image, kernel, stride, padding, dilation = (
            (int(a), int(b))
            for a, b in (
                random.integers(low, high, 2) for low, high in ((2, 11), (1, 5), (1, 4), (0, 3), (1, 3))
            )
        )
        size = tuple(
            (image[i] + 2 * padding[i] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(2)
        )
        if min(size) > 0 and all(padding[i] < kernel[i] and padding[i] < image[i] for i in range(2)):
            return image, kernel, stride, padding, dilation, (size[0], size[1])


def max_pool(s: Sketch) -> None:
    while True:
        image, kernel, stride, padding, dilation, size = windows(s)
        inside = [
            any(0 <= q * stride[i] + t * dilation[i] - padding[i] < image[i] for t in range(kernel[i]))
            for i in range(2)
            for q in range(size[i])
        ]
        if all(inside):
            break
    s.add(
        MaxPool, s.either((2, *size, 5), "output"), input=s.either((2, *image, 5)),
        kernel=kernel, stride=stride, padding=padding, dilation=dilation,
    )  # fmt: skip


def average_pool(s: Sketch) -> None:
    image, kernel, stride, padding, _, _ = windows(s)
    size = tuple((image[i] + 2 * padding[i] - kernel[i]) // stride[i] + 1 for i in range(2))
    if min(size) < 1:
        return
    factor = s.strided(size, "constant", s.random.integers(1, 2**20, size, dtype=np.int32))
    s.add(
        AveragePool, s.either((2, *size, 5), "output"), input=s.either((2, *image, 5)), factor=factor, shift=22,
        kernel=kernel, stride=stride, padding=padding,
    )  # fmt: skip


def resize(s: Sketch) -> None:
    image, size = s.random.integers(1, 8, 2), s.random.integers(1, 12, 2)
    tables = []
    for i in range(2):
        entries = np.stack(
            [s.random.integers(0, image[i], size[i]), s.random.integers(0, image[i], size[i]),
             s.random.integers(0, 2**11 + 1, size[i])], axis=1,
        ).astype(np.int32)  # fmt: skip
        tables.append(s.strided(entries.shape, "constant", entries))
    s.add(
        Resize, s.either((2, int(size[0]), int(size[1]), 3), "output"),
        input=s.either((2, int(image[0]), int(image[1]), 3)), rows=tables[0], columns=tables[1],
    )  # fmt: skip


def rotation(s: Sketch) -> None:
    n = (*shape(s, 0, 3), 2 * int(s.random.integers(1, 6)))
    half = (*n[:-1], n[-1] // 2)
    angles = s.random.normal(0, 3, half)
    cosine, sine = (
        s.strided(half, "constant", np.rint(127 * f(angles)).astype(np.int8)) for f in (np.cos, np.sin)
    )
    s.add(
        Rotation, s.either(n, "output"), input=s.either(n), cosine=cosine, sine=sine,
        interleaved=bool(s.random.integers(2)), scale=float(np.float32(s.random.uniform(0.5, 1.5) / 127)),
    )  # fmt: skip


def positions(s: Sketch, n: tuple[int, ...], low: int, high: int, role: str = "constant") -> View:
    return s.strided(n, role, s.random.integers(low, high, n, dtype=np.int32))


def wide(s: Sketch, n: tuple[int, ...]) -> View:
    return s.value(n, "output", np.zeros(n, np.int32))


def conversion(s: Sketch) -> None:
    n, scale = shape(s), float(np.float32(2 ** s.random.uniform(-6, 1)))
    if s.random.random() < 0.5:
        s.add(Conversion, s.either(n, "output"), input=positions(s, n, -300, 4000), scale=scale)
    else:
        s.add(Conversion, wide(s, n), input=s.either(n), scale=scale)


def top(s: Sketch) -> None:
    n = shape(s, size=20)
    out = wide(s, (*n[:-1], int(s.random.integers(1, n[-1] + 1))))
    s.add(TopK, out, input=s.either(n), smallest=bool(s.random.integers(2)))


def take(s: Sketch) -> None:
    n, size = shape(s), int(s.random.integers(1, 9))
    indices = positions(s, n, -10, 10)
    if s.random.random() < 0.5:
        s.add(Take, s.either(n, "output"), input=s.either((*n[:-1], size)), indices=indices)
    else:
        s.add(Take, wide(s, n), input=positions(s, (*n[:-1], size), -(10**6), 10**6), indices=indices)


def one_hot(s: Sketch) -> None:
    n, depth = shape(s, most=3), int(s.random.integers(1, 9))
    on, off = (int(x) for x in s.random.integers(-128, 128, 2))
    s.add(OneHot, s.either((*n, depth), "output"), indices=positions(s, n, -10, 10), on=on, off=off)


def max_positions(s: Sketch) -> None:
    image, kernel, stride, padding, dilation, size = windows(s)
    steps = tuple(int(x) for x in s.random.integers(0, 1000, 4))
    s.add(
        MaxPositions, wide(s, (2, *size, 5)), input=s.either((2, *image, 5)), kernel=kernel, stride=stride,
        padding=padding, dilation=dilation, steps=steps,
    )  # fmt: skip


def unpool(s: Sketch) -> None:
    n, size = shape(s), int(s.random.integers(1, 200))
    indices = positions(s, n, -size - 3, size + 3)
    s.add(Unpool, s.either((size,), "output"), input=s.either(n), indices=indices)


def term_sum(s: Sketch) -> None:
    n = shape(s)
    axes = int(s.random.integers(1, len(n) + 1))
    terms = s.value((256,), "constant", s.random.integers(-(2**40), 2**40, 256))
    limits = s.value((255,), "constant", np.sort(s.random.integers(-(2**42), 2**42, 255)))
    s.add(
        TermSum,
        s.either(n[: len(n) - axes], "output"),
        input=s.either(n),
        terms=terms,
        limits=limits,
        axes=axes,
    )


OPERATORS: dict[str, Callable[[Sketch], None]] = {
    "map": map_,
    "fill": fill,
    "multiplication": multiplication,
    "binary table": binary_table,
    "addition": addition,
    "softmax": softmax,
    "normalisation": normalisation,
    "reduction": reduction,
    "argmax": argmax,
    "embedding": embedding,
    "max pool": max_pool,
    "average pool": average_pool,
    "resize": resize,
    "rotation": rotation,
    "conversion": conversion,
    "top": top,
    "take": take,
    "one hot": one_hot,
    "positions of maxima": max_positions,
    "unpool": unpool,
    "sum of terms": term_sum,
}


@pytest.mark.parametrize("count", some(1, [10, 25]))
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_random_views(name: str, count: int) -> None:
    sketch = Sketch(np.random.default_rng(list(name.encode())))
    for _ in range(count):
        OPERATORS[name](sketch)
    check(sketch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6, of=20))
def test_all_operators_on_random_views(seed: int) -> None:
    sketch = Sketch(np.random.default_rng(seed))
    for _ in range(300):
        OPERATORS[str(sketch.random.choice(list(OPERATORS)))](sketch)
    check(sketch)


def test_long_reductions_of_neighbours() -> None:
    """Sums of eight elements at a time: whole and partial groups, more than 256 of them, extremes, every alignment."""
    s = Sketch(np.random.default_rng(11))
    for size, channels in ((20, 64), (3, 192), (17, 200), (16, 128), (5, 63), (23, 65)):
        for fill in (None, -128, 127):
            shape = (1, size, size, channels)
            data = None if fill is None else np.full(shape, fill, np.int8)
            image = s.value(shape, "input", data)
            for function in ("sum", "max", "min") if fill is None else ("sum",):
                s.add(
                    Reduction, s.value((1, channels), "output"), input=image.transposed((0, 3, 1, 2)),
                    function=function, axes=2, rescale=FixedPoint(2**30 // size**2, 30),
                )  # fmt: skip
        # channels of a wider image, from any offset
        wide = s.value((1, size, size, channels + 13))
        part = View(wide.value, (1, channels, size, size), (0, 1, size * (channels + 13), channels + 13), 5)
        s.add(Reduction, s.value((1, channels), "output"), input=part, function="sum", axes=2,
              rescale=FixedPoint(2**30 // size**2, 30))  # fmt: skip
    check(s)


def test_long_rows() -> None:
    """Rows beyond what is kept of a softmax, and of every remainder; normalised ones with an element far from the rest."""
    s = Sketch(np.random.default_rng(12))
    exponentials = np.rint(65535 * np.exp(-0.04 * np.arange(256))).astype(np.int32)
    for length in (1, 3, 4, 7, 255, 256, 257, 258, 260, 1023, 1024, 1033, 1100):
        for numerator in (2**24 * 127, 2**28 * 127):  # the second one beyond 127
            s.add(
                Softmax, s.either((3, length), "output"), input=s.either((3, length)),
                table=s.value((256,), "constant", exponentials), numerator=numerator,
            )  # fmt: skip
        s.add(Map, s.either((2, length), "output"), input=s.either((2, length)), table=table(s, (256,)))
    for length, epsilon, alone in (
        (700, 0, 127),
        (20_000, 1, -128),
        (20_000, 2**40, 127),
        (70_000, 2**60, 5),
    ):
        row = np.full((1, length), 3, np.int8)
        row[0, length // 2] = alone
        s.add(
            Normalisation, s.value((1, length), "output"), input=s.value((1, length), "input", row),
            gain=s.value((1,), "constant", np.array([900], np.int32)).expanded((1, length)),
            offset=s.value((1,), "constant", np.array([-77], np.int32)).expanded((1, length)),
            axes=1, centre=alone != 5, epsilon=epsilon, shift=14,
        )  # fmt: skip
    check(s)


def test_softmaxes_of_neighbours_from_any_byte_on() -> None:
    """Eight elements at a time: every offset within eight bytes, rising, falling and equal elements, both signs."""
    s = Sketch(np.random.default_rng(13))
    table = s.value((256,), "constant", np.rint(65535 * np.exp(-0.1 * np.arange(256))).astype(np.int32))
    for number, length in enumerate((1, 7, 8, 15, 23, 24, 25, 40, 63, 64, 129)):
        width = length + 3
        rows = [
            s.random.integers(low, high, (9, width)) for low, high in ((-128, 128), (-128, -60), (0, 128))
        ]
        rows += [np.sort(rows[0]), -1 - np.sort(rows[0]), np.full((9, width), (-128, 127, -1, 0)[number % 4])]
        for elements in rows:
            wide = s.value((9, width), "input", elements.astype(np.int8))
            target = s.value((9, length), "output")
            part = View(wide.value, (9, length), (width, 1), number % 3)
            numerator = int(s.random.choice([2**24 * 127, 2**27 * 127]))
            s.add(Softmax, target, input=part, table=table, numerator=numerator, mask=None)
    check(s)


def test_masked_softmaxes_of_neighbours() -> None:
    """Rows of fewer and more than eight, longer than what is kept; masks of none, of all, causal and random, of each row or shared,
    of ones and of any other number, as computed masks are; the largest and the smallest elements masked or not."""
    s = Sketch(np.random.default_rng(15))
    table = s.value((256,), "constant", np.rint(65535 * np.exp(-0.1 * np.arange(256))).astype(np.int32))
    for rows, length in ((6, 1), (8, 8), (5, 7), (9, 17), (4, 40), (2, 1030)):
        shape = (rows, length)
        random, causal = s.random.integers(0, 2, shape, np.int8), np.tril(np.ones(shape, np.int8))
        other = random * s.random.choice([-128, -2, 3, 127], shape).astype(np.int8)
        for mask in (random, causal, np.zeros_like(random), np.ones_like(random), random[:1], other):
            elements = s.random.integers(-128, 128, shape, np.int8)
            elements[0], elements[1 % rows], elements[-1] = (
                np.where(random[0], -3, 127),
                np.where(random[0], 127, -128),
                -128,
            )
            taken = s.value(mask.shape, "constant", mask).expanded(shape)
            numerator = int(s.random.choice([2**24 * 127, 2**27 * 127]))
            s.add(
                Softmax, s.value(shape, "output"), input=s.value(shape, "input", elements), table=table,
                numerator=numerator, mask=taken,
            )  # fmt: skip
    check(s)


def test_normalisations_of_rows_side_by_side() -> None:
    """More and fewer rows than go together, parts of wider rows, extremes; one row whose elements have to be limited."""
    s = Sketch(np.random.default_rng(14))
    for rows, length in ((1, 5), (7, 64), (8, 3), (9, 66), (16, 1), (17, 31), (24, 130)):
        shape, width = (rows, length), length + 5
        elements = s.random.integers(-128, 128, (rows, width))
        spread = s.random.integers(-3, 4, (rows, width))
        equal = np.full((rows, width), -128)
        equal[rows // 2] = 127
        alone = spread.copy()
        alone[rows // 2] = 5
        alone[rows // 2, length // 2] = 6
        for data, epsilon in ((elements, 900), (spread, 1), (equal, length**2), (alone, 0), (elements, 0)):
            for centre in (True, False):
                wide = s.value((rows, width), "input", data.astype(np.int8))
                gain, offset = (
                    s.value((length,), "constant", s.random.integers(-(2**15), 2**15, length, np.int32))
                    for _ in range(2)
                )
                s.add(
                    Normalisation, s.value(shape, "output"), input=View(wide.value, shape, (width, 1), 2),
                    gain=gain.expanded(shape), offset=offset.expanded(shape), axes=1, centre=centre,
                    epsilon=epsilon, shift=int(s.random.integers(7, 32)),
                )  # fmt: skip
    check(s)


@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1, 1), (2047, 21), (-2047, 20), (1, 15), (2**31 - 1, 44), (-(2**31) + 1, 46), (2**31 - 1, 62), (0, 1)]
)  # fmt: skip
def test_every_product_of_two_elements_is_rescaled_exactly(multiplier: int, shift: int) -> None:
    s = Sketch(np.random.default_rng(0))
    left, right = np.meshgrid(np.arange(-128, 128, dtype=np.int8), np.arange(-128, 128, dtype=np.int8))
    operands = {
        "left": s.value(left.shape, "constant", left),
        "right": s.value(left.shape, "constant", right),
    }
    s.add(Multiplication, s.value(left.shape, "output"), rescale=FixedPoint(multiplier, shift), **operands)
    check(s)
