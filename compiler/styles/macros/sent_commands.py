"""The commands that runs of the loop macros stand for (sections 7 and 8 of the instruction set), as far as their cycles depend on them.

As `sim/cpp/functional_loop_ws.cpp` and `functional_loop_conv.cpp` make them, of the runs that `baco.compiler.styles.macros.loop_ws` and
`loop_conv` write.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.command_stream import ACCUMULATOR, MacroRun, Move, Pass
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import check_loop_ws
from baco.compiler.styles.macros.reuse import Reuse, plan_reuse


def macro_runs_of(
    layer: Layer, schedule: LoopWsSchedule | LoopConvSchedule, accelerator: Accelerator
) -> Iterator[MacroRun]:
    """All runs of a layer, in their order. Raises InfeasibleError if it cannot be carried out."""
    if isinstance(schedule, LoopWsSchedule):
        return _Products(layer, schedule, accelerator).runs()
    return _Convolutions(layer, schedule, accelerator).runs()


def _kept(reuse: Reuse | None, at: dict[str, int], half: int) -> tuple[bool, int]:
    """Whether a run loads an operand, and into which half of the scratchpad; `half`: where nothing stays."""
    if reuse is None:
        return True, half
    ordinal = 0
    for trip in reuse.relevant:
        ordinal = ordinal * trip.count + at[trip.name]
    return not any(at[trip.name] for trip in reuse.others), ordinal % 2


class _Products:
    def __init__(self, layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator) -> None:
        product = check_loop_ws(layer, schedule, accelerator)
        self.layer, self.dim = layer, accelerator.dim
        self.width = max(1, accelerator.dma_max_bytes // self.dim)
        self.scratchpad, self.accumulator = (
            accelerator.scratchpad_rows // 2,
            accelerator.accumulator_rows // 2,
        )
        sizes = (product.rows, product.columns, product.depth)
        self.sizes = dict(zip("ijk", sizes, strict=True))
        self.blocks = dict(zip("ijk", product.blocks(self.dim), strict=True))
        tile = (schedule.i, schedule.j, schedule.k)
        self.tile = {axis: min(part, self.blocks[axis]) for axis, part in zip("ijk", tile, strict=True)}
        trips = {axis: -(-self.blocks[axis] // self.tile[axis]) for axis in "ijk"}
        self.loops = [Trip("g", layer.problem.groups), *(Trip(axis, trips[axis]) for axis in schedule.order)]
        self.trips = trips
        self.keep_a = plan_reuse(self.loops, "gik") if schedule.keep_a else None
        self.keep_b = plan_reuse(self.loops, "gjk") if schedule.keep_b else None

    def runs(self) -> Iterator[MacroRun]:
        half, of_results = 0, 0
        for place in itertools.product(*(range(trip.count) for trip in self.loops)):
            at = {trip.name: number for trip, number in zip(self.loops, place, strict=True)}
            last = at["k"] == self.trips["k"] - 1
            yield self._run(at, half, ACCUMULATOR + of_results * self.accumulator, last)
            half, of_results = 1 - half, of_results ^ last

    def _run(self, at: dict[str, int], half: int, results: int, last: bool) -> MacroRun:
        dim, run = self.dim, MacroRun()
        base = {axis: at[axis] * self.tile[axis] * dim for axis in "ijk"}
        count = {axis: min(self.tile[axis], self.blocks[axis] - at[axis] * self.tile[axis]) for axis in "ijk"}
        i, j, k = (range(count[axis]) for axis in "ijk")
        rows = {axis: min(count[axis] * dim, self.sizes[axis] - base[axis]) for axis in "ijk"}
        loads_a, half_a = _kept(self.keep_a, at, half)
        loads_b, half_b = _kept(self.keep_b, at, half)
        a, b = half_a * self.scratchpad, (half_b + 1) * self.scratchpad - len(k) * len(j) * dim

        def size(axis: str, first: int, blocks: int = 1) -> int:
            return min(blocks * dim, rows[axis] - first * dim)

        def at_b(depth: int, column: int) -> int:
            turned = self.layer.weights_transposed
            return b + (column * len(k) + depth if turned else depth * len(j) + column) * dim

        if at["k"] == 0:
            run.sums = list(self._sums(at["g"], base, results, rows))
        if loads_a:
            pitch = self.layer.input.pitch
            for depth in k[:: self.width]:
                wide = min(self.width, len(k) - depth)
                for row in i:
                    local = a + (row * len(k) + depth) * dim
                    start = at["g"] * self.layer.input.group + (base["i"] + row * dim) * pitch
                    lines = size("i", row)
                    run.inputs.append(
                        Move(local, local + (wide - 1) * dim + lines, "A", start + base["k"] + depth * dim, pitch, lines,
                             size("k", depth, wide))
                    )  # fmt: skip
        if loads_b:
            run.weights = list(self._weights(at["g"], base, (count["k"], count["j"]), rows, at_b))
        run.inputs_a_step = (len(i), self.width)
        turned = self.layer.weights_transposed
        run.weights_a_step = (len(j), self.width) if turned else (-(-len(j) // self.width), 1)
        for depth, column, row in itertools.product(k, j, i):
            first, weights = results + (row * len(j) + column) * dim, at_b(depth, column)
            local = a + (row * len(k) + depth) * dim
            lines = size("i", row)
            run.passes.append(
                Pass(row == 0, lines, (first, first + lines), (weights, weights + dim) if row == 0 else (0, 0),
                     (local, local + lines), self._before(run.inputs, depth, row, len(i)),
                     self._before_b(run.weights, depth, column, len(j)))
            )  # fmt: skip
        if last:
            self._stores(run, at["g"], base, results, rows, (len(i), len(j), len(k)))
        return run

    def _before(self, loads: list[Move], depth: int, place: int, each: int) -> int:
        """Loads that are sent before a pass: a wide one of the first block of a part says that it is there, of the others the part."""
        if not loads:
            return 0
        part, inside = divmod(depth, self.width)
        return min(len(loads), (part + 1) * each if inside else part * each + place + 1)

    def _before_b(self, loads: list[Move], depth: int, column: int, columns: int) -> int:
        if self.layer.weights_transposed or not loads:
            return self._before(loads, depth, column, columns)
        return min(len(loads), depth * -(-columns // self.width) + column // self.width + 1)

    def _sums(self, group: int, base: dict[str, int], results: int, rows: dict[str, int]) -> Iterator[Move]:
        layer, dim = self.layer, self.dim
        residual = layer.residual_scale is not None
        if not residual and not layer.bias:
            return
        width = self.width if residual else max(1, self.width // 4)
        columns, pitch = -(-rows["j"] // dim), layer.output.pitch
        for column in range(0, columns, width):
            wide = min(width, columns - column)
            size = min(wide * dim, rows["j"] - column * dim)
            for row in range(-(-rows["i"] // dim)):
                lines = min(dim, rows["i"] - row * dim)
                first = results + (row * columns + column) * dim
                last = first + (wide - 1) * dim + lines
                if residual:
                    start = group * layer.output.group + (base["i"] + row * dim) * pitch
                    scaled = 1 if layer.residual_scale == 1.0 else dim // 4
                    yield Move(
                        first, last, "D", start + base["j"] + column * dim, pitch, lines, size, copies=scaled
                    )
                else:
                    start = 4 * (group * layer.problem.K + base["j"] + column * dim)
                    yield Move(first, last, "D", start, 0, 1, 4 * size, copies=lines, words=True)

    def _weights(
        self, group: int, base: dict[str, int], blocks: tuple[int, int], rows: dict[str, int], at_b: object
    ) -> Iterator[Move]:
        assert callable(at_b)
        layer, dim, width = self.layer, self.dim, self.width
        pitch, start = layer.weight_steps.pitch, group * layer.weight_steps.group
        turned = layer.weights_transposed
        for depth in range(0, blocks[0], width if turned else 1):
            for column in range(0, blocks[1], 1 if turned else width):
                wide = min(width, blocks[0] - depth if turned else blocks[1] - column)
                depths = min((wide if turned else 1) * dim, rows["k"] - depth * dim)
                columns = min((1 if turned else wide) * dim, rows["j"] - column * dim)
                lines, size = (columns, depths) if turned else (depths, columns)
                y, x = base["k"] + depth * dim, base["j"] + column * dim
                if turned:
                    y, x = x, y
                first = at_b(depth, column)
                yield Move(first, first + (wide - 1) * dim + lines, "B", start + y * pitch + x, pitch, lines, size)  # fmt: skip

    def _stores(
        self, run: MacroRun, group: int, base: dict[str, int], results: int, rows: dict[str, int],
        blocks: tuple[int, int, int],
    ) -> None:  # fmt: skip
        layer, dim, (i, j, k) = self.layer, self.dim, blocks
        element, width = (4, 1) if layer.scale is None else (1, self.width)
        pitch = layer.output.pitch
        for column in range(0, j, width):
            wide = min(width, j - column)
            for row in range(i):
                lines = min(dim, rows["i"] - row * dim)
                first = results + (row * j + column) * dim
                start = (
                    group * layer.output.group + (base["i"] + row * dim) * pitch + base["j"] + column * dim
                )
                run.stores.append(
                    Move(first, first + (wide - 1) * dim + lines, "C", element * start, element * pitch, lines,
                         element * min(wide * dim, rows["j"] - column * dim), blocks=wide)
                )  # fmt: skip
                run.stores_after.append((k - 1) * j * i + (column + wide - 1) * i + row + 1)


class _Convolutions:
    def __init__(self, layer: Layer, schedule: LoopConvSchedule, accelerator: Accelerator) -> None:
        self.layer, self.plan, self.dim = (
            layer,
            plan_loop_conv(layer, schedule, accelerator),
            accelerator.dim,
        )
        self.width = max(1, accelerator.dma_max_bytes // self.dim) * self.dim
        self.scratchpad, self.accumulator = (
            accelerator.scratchpad_rows // 2,
            accelerator.accumulator_rows // 2,
        )

    def runs(self) -> Iterator[MacroRun]:
        plan, axes = self.plan, "g" + self.plan.order
        half, of_results = 0, 0
        for place in itertools.product(*(range(plan.trips[axis]) for axis in axes)):
            at = dict(zip(axes, place, strict=True))
            last = all(at[axis] == plan.trips[axis] - 1 for axis in "src")
            yield _ConvRun(self, at, half, ACCUMULATOR + of_results * self.accumulator).run(last)
            half, of_results = 1 - half, of_results ^ last


class _ConvRun:
    """A run, decoded: its part of the layer, and where it has it."""

    def __init__(self, of: _Convolutions, at: dict[str, int], half: int, results: int) -> None:
        self.of, self.at, self.results = of, at, results
        layer, plan, dim = of.layer, of.plan, of.dim
        p = layer.problem
        self.size = {
            axis: min(plan.tile[axis], plan.sizes[axis] - at[axis] * plan.tile[axis]) for axis in "nqpksrc"
        }
        self.start = {axis: at[axis] * plan.tile[axis] for axis in "nqpksrc"}
        row, self.rows = self._unpooled("q", p.Q)
        column, self.columns = self._unpooled("p", p.P)
        height, width = layer.size
        reach_down, reach_across = (
            count * plan.stride + (self.size[axis] - 1) * plan.dilation
            for count, axis in ((self.rows, "s"), (self.columns, "r"))
        )
        down, across = (
            first * stride + self.start[axis] * dilation - padding
            for first, stride, axis, dilation, padding in (
                (row, p.stride_h, "s", p.dilation_h, layer.padding[0]),
                (column, p.stride_w, "r", p.dilation_w, layer.padding[1]),
            )
        )
        self.y, self.up, below = _inside(down, reach_down, height)
        self.x, self.left, behind = _inside(across, reach_across, width)
        # the macro loads no more than its windows touch
        unused = plan.stride - 1 if plan.stride > 1 else 0
        self.image_rows = reach_down - plan.stride + 1 + unused
        self.image_columns = reach_across - plan.stride + 1 + unused
        self.inside_rows = self.image_rows - self.up - below
        self.inside_columns = self.image_columns - self.left - behind
        self.below, self.behind = below, behind
        self.shift = int(plan.downsample)
        self.image = (self.image_rows >> self.shift) * (self.image_columns >> self.shift)
        self.loads_inputs, half_inputs = _kept(plan.keep_input, at, half)
        self.loads_weights, half_weights = _kept(plan.keep_weights, at, half)
        self.input_block = self.size["n"] * self.image
        self.weight_block = self.size["s"] * self.size["r"] * self.size["c"]
        self.result_block = self.size["n"] * self.rows * self.columns
        self.inputs = half_inputs * of.scratchpad
        self.weights = (half_weights + 1) * of.scratchpad - -(-self.size["k"] // dim) * self.weight_block

    def _unpooled(self, axis: str, extent: int) -> tuple[int, int]:
        """First result before pooling along an axis, and how many."""
        pool = self.of.layer.pooling
        first, count = self.start[axis], self.size[axis]
        if pool is None:
            return first, count
        begin = first * pool.stride - pool.padding
        end = begin + (count - 1) * pool.stride + pool.size
        return max(begin, 0), min(end, extent) - max(begin, 0)

    def run(self, last: bool) -> MacroRun:
        run = MacroRun(passes=list(self._passes()))
        if not any(self.at[axis] for axis in "src"):
            run.sums = list(self._sums())
        if self.loads_weights:
            run.weights = list(self._load_weights())
        if self.loads_inputs:
            run.inputs = list(self._load_inputs())
        if last:
            run.stores = list(self._stores() if self.of.layer.pooling is None else self._pooled())
        return run

    def _places(self) -> Iterator[tuple[int, int, int, int]]:
        """Image, row, column and number of the results of a pass."""
        for image, row in itertools.product(range(self.size["n"]), range(self.rows)):
            for column in range(0, self.columns, self.of.dim):
                yield image, row, column, min(self.of.dim, self.columns - column)

    def _at(self, channel: int, image: int, row: int, column: int) -> int:
        pixel = (image * self.rows + row) * self.columns + column
        return self.results + channel // self.of.dim * self.result_block + pixel

    def _sums(self) -> Iterator[Move]:
        layer, dim = self.of.layer, self.of.dim
        step = max(dim, self.of.width // 4)
        for image, row, column, count in self._places():
            for channel in range(0, self.size["k"], step):
                size, first = min(step, self.size["k"] - channel), self._at(channel, image, row, column)
                start = 4 * (self.at["g"] * layer.problem.K + self.start["k"] + channel)
                if layer.bias:
                    yield Move(first, first + count, "D", start, 0, 1, 4 * size, copies=count, words=True)
                else:
                    yield Move(first, first + count, "", 0, 0, count, 4 * size, zeros=count)

    def _load_weights(self) -> Iterator[Move]:
        layer, dim, size, start = self.of.layer, self.of.dim, self.size, self.start
        p, steps = layer.problem, layer.weight_steps
        for channel in range(0, size["k"], self.of.width):
            wide = min(self.of.width, size["k"] - channel)
            for s, r in itertools.product(range(size["s"]), range(size["r"])):
                for depth in range(0, size["c"], dim):
                    lines = min(dim, size["c"] - depth)
                    first = self._weights_at(channel, s, r, depth)
                    row = ((start["s"] + s) * p.R + start["r"] + r) * p.C + start["c"] + depth
                    address = self.at["g"] * steps.group + row * steps.pitch + start["k"] + channel
                    last = first + (-(-wide // dim) - 1) * self.weight_block + lines
                    yield Move(first, last, "B", address, steps.pitch, lines, wide)

    def _weights_at(self, channel: int, s: int, r: int, depth: int) -> int:
        inside = (s * self.size["r"] + r) * self.size["c"] + depth
        return self.weights + channel // self.of.dim * self.weight_block + inside

    def _load_inputs(self) -> Iterator[Move]:
        layer, dim, pixels = self.of.layer, self.of.dim, self.of.plan.pixels
        pitch, columns = layer.input.pitch, self.inside_columns
        height, width = layer.size
        for image in range(self.size["n"]):
            for y in range(-self.up, self.inside_rows + self.below, 1 + self.shift):
                x = -self.left
                while x < columns + self.behind:
                    if x < 0:
                        count = min(-x, dim)
                    elif x >= columns:
                        count = min(columns + self.behind - x, dim)
                    else:
                        count = min(columns - x, dim << self.shift)
                    rows = count >> self.shift
                    for depth in range(0, self.size["c"], self.of.width):
                        size = min(self.of.width, self.size["c"] - depth)
                        first = self._input_at(image, y + self.up, x + self.left, depth)
                        last = first + (-(-size // dim) - 1) * self.input_block + rows
                        first -= pixels - 1
                        if 0 <= y < self.inside_rows and 0 <= x < columns:
                            pixel = ((self.start["n"] + image) * height + self.y + y) * width + self.x + x
                            address = (
                                self.at["g"] * layer.input.group + pixel * pitch + self.start["c"] + depth
                            )
                            yield Move(first, last, "A", address, pitch << self.shift, rows, size, copies=pixels)  # fmt: skip
                        else:
                            yield Move(first, last, "", 0, 0, rows, size, zeros=rows * -(-size // dim))
                    x += count

    def _input_at(self, image: int, y: int, x: int, depth: int) -> int:
        pixel = (y >> self.shift) * (self.image_columns >> self.shift) + (x >> self.shift)
        return self.inputs + depth // self.of.dim * self.input_block + image * self.image + pixel

    def _passes(self) -> Iterator[Pass]:
        plan, dim, size = self.of.plan, self.of.dim, self.size
        places = list(self._places())
        steps = [range(0, size[axis], step) for axis, step in (("k", dim), ("s", 1), ("r", plan.pixels), ("c", dim))]  # fmt: skip
        for channel, s, r, depth in itertools.product(*steps):
            lines = min(plan.pixels, size["r"] - r) * min(dim, size["c"] - depth)
            first = self._weights_at(channel, s, r, depth)
            weights = (first, first + lines)
            for number, (image, row, column, count) in enumerate(places):
                to = self._at(channel, image, row, column)
                y, x = row * plan.stride + s * plan.dilation, column * plan.stride + r * plan.dilation
                source = self._input_at(image, y, x, depth)
                fresh = number == 0
                yield Pass(fresh, count, (to, to + count), weights if fresh else (0, 0),
                           (source, source + count * (plan.stride >> self.shift)))  # fmt: skip

    def _address(self, image: int, row: int, column: int, channel: int) -> int:
        layer, pool = self.of.layer, self.of.layer.pooling
        p = layer.problem
        rows, columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
        pixel = (
            ((self.start["n"] + image) * rows + self.start["q"] + row) * columns + self.start["p"] + column
        )
        start = self.at["g"] * layer.output.group + self.start["k"]
        return start + pixel * layer.output.pitch + channel

    def _stores(self) -> Iterator[Move]:
        pitch = self.of.layer.output.pitch
        for image, row, column, count in self._places():
            for channel in range(0, self.size["k"], self.of.dim):
                first, size = (
                    self._at(channel, image, row, column),
                    min(self.of.dim, self.size["k"] - channel),
                )
                yield Move(first, first + count, "C", self._address(image, row, column, channel), pitch, count, size)  # fmt: skip

    def _pooled(self) -> Iterator[Move]:
        layer, pool = self.of.layer, self.of.layer.pooling
        assert pool is not None
        pitch, behind = layer.output.pitch, self.size["p"]
        for image in range(self.size["n"]):
            for channel in range(0, self.size["k"], self.of.dim):
                first, size = (
                    self._at(channel, image, 0, 0),
                    min(self.of.dim, self.size["k"] - channel),
                )
                # taken to read to the end of its bank
                yield Move(
                    first, self.results + self.of.accumulator, "C", self._address(image, 0, 0, channel), pitch,
                    self.size["q"] * behind, size, blocks=pool.size**2, wrap=(behind, pool.columns * pitch),
                )  # fmt: skip


def _inside(start: int, length: int, extent: int) -> tuple[int, int, int]:
    """Of a part of an axis: its first pixel in the image, and how many lie before and behind that."""
    before = min(max(-start, 0), length)
    behind = max(min(start + length - extent, length - before), 0)
    return max(start, 0), before, behind
