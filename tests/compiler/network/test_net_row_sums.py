"""Normalisations whose rows the accelerator adds up by products, against the integer reference."""

import numpy as np
import pytest

from baco.compiler.network.row_sums import sums_of_rows
from baco.compiler.ops.rows import Normalisation, NormalisationBySums
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import normalise
from tests.compiler.network.net_sketch import Sketch, check


def add(s: Sketch, elements: np.ndarray, *, width: int = 0, centre: bool = True, epsilon: int = 900) -> None:
    """A normalisation of rows, of which `width` elements lie from one row to the next."""
    rows, columns = elements.shape
    whole = np.zeros((rows, max(width, columns)), np.int8)
    whole[:, :columns] = elements
    source = s.value(whole.shape, "input", whole)
    gain, offset = (
        s.value((columns,), "constant", s.random.integers(-(2**15), 2**15, columns, np.int32))
        for _ in range(2)
    )
    s.add(
        Normalisation, s.value(elements.shape, "output"),
        input=View(source.value, elements.shape, (whole.shape[1], 1)), gain=gain.expanded(elements.shape),
        offset=offset.expanded(elements.shape), axes=1, centre=centre, epsilon=epsilon,
        shift=int(s.random.integers(18, 32)),
    )  # fmt: skip


def test_rows_that_the_accelerator_adds_up() -> None:
    """Rows that fill groups and others, parts of wider rows, with and without a mean, extremes."""
    s = Sketch(np.random.default_rng(3))
    for rows, columns, width in ((8, 512, 0), (9, 520, 528), (3, 1400, 1408), (17, 256, 0)):
        random = s.random.integers(-128, 128, (rows, columns))
        alone = np.full((rows, columns), 3)
        alone[rows // 2, columns // 2] = -128
        for elements in (random, np.full_like(random, -128), np.full_like(random, 127), alone):
            add(s, elements, width=width, centre=bool(s.random.integers(2)))
    program = check(s)
    by_sums = [step for step in program.lowered.steps if step.function == "net_normalise_by"]
    assert len(by_sums) == len(s.operators)


def test_rows_that_conflict_in_a_cache() -> None:
    """Rows a power of two apart, which go line by line, whole lines and others, and the same with a limited element in a row."""
    s = Sketch(np.random.default_rng(6))
    for columns, width in ((2048, 0), (640, 2048), (600, 2048), (64, 4096)):
        elements = s.random.integers(-128, 128, (8, columns))
        add(s, elements, width=width, centre=bool(s.random.integers(2)))
        elements[3] = 0
        elements[3, 5] = -128
        add(s, elements, width=width, centre=False, epsilon=40000)
    check(s)


def test_an_offset_for_all_elements() -> None:
    """RMS norm's offset, and a gain likewise: rows go as those with an offset for each element do, by products and side by side."""
    s = Sketch(np.random.default_rng(7))
    for rows, columns in ((8, 512), (8, 96), (3, 40), (17, 256)):
        shape = (rows, columns)
        gain = s.value((columns,), "constant", s.random.integers(-(2**15), 2**15, columns, np.int32))
        one = s.value((1,), "constant", s.random.integers(1, 2**13, 1, np.int32)).expanded(shape)
        source = s.value(shape, "input", s.random.integers(-128, 128, shape, np.int8))
        for gains in (gain.expanded(shape), one):
            s.add(
                Normalisation, s.value(shape, "output"), input=source, gain=gains, offset=one, axes=1, centre=False,
                epsilon=900, shift=24,
            )  # fmt: skip
    program = check(s)
    works = [step.work for step in program.lowered.steps if step.work is not None]
    assert "net_normalise strided" not in {work.variant for work in works}
    assert any(work.variant == "net_normalise_by" for work in works)


def test_few_elements_are_left_to_the_host() -> None:
    s = Sketch(np.random.default_rng(4))
    add(s, s.random.integers(-128, 128, (4, 100)))
    program = check(s)
    assert {step.function for step in program.lowered.steps} == {"net_normalise", "net_check"}


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize(("rows", "dim"), [(16, 16), (5, 4), (3, 16), (40, 8)])
def test_the_parts_are_the_whole(rows: int, dim: int, centre: bool) -> None:
    """The operators of the parts by numpy give what the normalisation gives."""
    random, columns = np.random.default_rng(5), 1400
    shape = (rows, columns)
    x = random.integers(-128, 128, shape, np.int8)
    gain, offset = random.integers(-(2**15), 2**15, (2, columns), np.int32)
    op = Normalisation(
        "norm", (), dense("y", shape), dense("x", shape), dense("gain", (columns,)).expanded(shape),
        dense("offset", (columns,)).expanded(shape), 1, centre, 77, 20,
    )  # fmt: skip
    parts = sums_of_rows(op, dim, ("ones", "sums", "squares"))
    assert parts is not None
    data = {
        "x": x, "gain": gain, "offset": offset, "y": np.zeros(shape, np.int8), "ones": np.ones(columns, np.int8),
        "sums": np.zeros(parts.sums, np.int32), "squares": np.zeros(parts.squares, np.int32),
    }  # fmt: skip
    for part in (*parts.products, parts.rest):
        part.output.write(data[part.output.value], part.compute(lambda view: view.read(data[view.value])))
    assert isinstance(parts.rest, NormalisationBySums)
    wanted = normalise(x, gain, offset, 20, 77, centre=centre)
    assert np.array_equal(data["y"], wanted)
