"""Random operators on rows that lie next to each other, for the fit of the host's cycles (`baco.bench.fit.host`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco.bench.fit.host_sketch import HostSketch
from baco.compiler.ops.arithmetic import fixed_point
from baco.compiler.ops.elementwise import Gate, Map
from baco.compiler.ops.floating import RealTop
from baco.compiler.ops.operator import IntegerTensor, Role
from baco.compiler.ops.rows import NormalisationBySums, Softmax
from baco.compiler.ops.views import View
from baco.compiler.row_functions import exponentials


def _normalise_by(s: HostSketch) -> None:
    rows, columns = s.size(1, 60), s.size(8, 1000)
    x = s.random.integers(-128, 128, (rows, columns), dtype=np.int8)
    wide = x.astype(np.int32)
    s.add(
        NormalisationBySums, s.value(x.shape, "output"), input=s.value(x.shape, "input", x),
        sums=s.value((rows,), "input", wide.sum(1, dtype=np.int32)),
        squares=s.value((rows,), "input", (wide * wide).sum(1, dtype=np.int32)),
        gain=s.table(2**13, 2**14, (columns,), "int32"), offset=s.table(-(2**10), 2**10, (columns,), "int32"),
        epsilon=columns**2, shift=21, count=columns,
    )  # fmt: skip


def _softmax_of_neighbours(s: HostSketch) -> None:
    length = s.size(1, 15) if s.random.random() < 0.4 else s.size(16, 700)
    shape = (s.size(4, 100), length // 8 * 8 if length > 15 and s.random.random() < 0.5 else length)
    s.add(
        Softmax, s.value(shape, "output"), input=s.value(shape),
        table=s.value((256,), "constant", exponentials(0.05)), numerator=2**24 * 127, mask=None,
    )  # fmt: skip


def _masked_softmax_of_neighbours(s: HostSketch) -> None:
    shape = (s.size(4, 100), 8 * s.size(1, 40) if s.random.random() < 0.5 else s.size(1, 300))
    shared = np.tril(np.ones((shape[0], shape[1]), np.int8), int(s.random.integers(0, shape[1])))
    s.add(
        Softmax, s.value(shape, "output"), input=s.value(shape),
        table=s.value((256,), "constant", exponentials(0.05)), numerator=2**24 * 127,
        mask=s.value(shape, "input", shared),
    )  # fmt: skip


def _map_of_columns(s: HostSketch) -> None:
    rows, width = s.size(8, 200), 64 * s.size(2, 24)
    columns = 32 * s.size(1, 4) if s.random.random() < 0.5 else s.size(8, 100)
    source, target = (s.value((rows, width), role) for role in ("input", "output"))
    box = (0, 0), (rows, columns), (1, 1)
    s.add(Map, target.sliced(*box), input=source.sliced(*box), table=s.table(-128, 128, (256,)))


def _gate(s: HostSketch) -> None:
    rows, width = s.size(1, 40), 8 * s.size(1, 100)
    shape = (rows, width if s.random.random() < 0.5 else s.size(8, width))

    def view(role: Role) -> View:
        return s.value((rows, width), role).sliced((0, 0), shape, (1, 1))

    make = s.turned if s.random.random() < 0.5 else None
    left, right, output = (
        view(role) if make is None else make(shape, role) for role in ("input", "input", "output")
    )
    s.add(Gate, output, left=left, right=right, rescale=fixed_point(0.007), table=s.table(-128, 128, (256,)))


def _largest_numbers(s: HostSketch) -> None:
    rows, columns = s.size(1, 40), s.size(8, 1000)
    kept = min(s.size(1, 20), columns)
    numbers = s.value((rows, columns), "input", s.random.normal(size=(rows, columns)).astype(np.float32))
    target = s.value((rows, kept), "output")
    s.values[target.value] = IntegerTensor(target.value, target.shape, "int32", role="output")
    s.add(RealTop, target, input=numbers, smallest=bool(s.random.integers(2)))


ROW_KINDS: tuple[Callable[[HostSketch], None], ...] = (
    *(_normalise_by, _softmax_of_neighbours, _map_of_columns, _masked_softmax_of_neighbours),
    *(_gate, _largest_numbers),
)
