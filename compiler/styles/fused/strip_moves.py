"""Moves of a chain of convolutions strip by strip: rows of the first image, weights and zeros that come, results that leave."""

from __future__ import annotations

from collections.abc import Callable

from baco.compiler.ir.emit import Cell, Condition, Emitter, Number, parts
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.strip_placement import Image, StripWeights, is_depthwise
from baco.compiler.styles.fused.strips import MOST_ROWS

#: Rows of a load of weights at most: few, since the first ones that are there are multiplied while others come.
_WEIGHT_ROWS = 128


def clear(e: Emitter, image: Image, wide: int) -> None:
    """Zeros beside and above the rows of an image."""
    dim = image.dim
    if not image.left + image.right + image.start - image.zeros:
        return
    e.command("config_ld", state=1, stride=0, block_stride=image.pitch)

    def zeros(at: Number, rows: int, blocks: Number = 1) -> None:
        e.command("mvin2", address=0, local=at, cols=e.mul(blocks, dim), rows=rows)

    for rows, before, count in parts(image.start - image.zeros, MOST_ROWS):
        with e.loop(count, hint="zero") as n:
            zeros(e.add(image.zeros, e.mul(e.add(n, before), MOST_ROWS)), rows)
    for start, slots in image.pieces:
        if image.left:
            zeros(start, image.left)
        # what is right of a block of an image row lies before what is left of the next
        beside, blocks = image.left + image.right, slots * image.blocks - 1
        if beside and blocks:
            for together, before, count in parts(blocks, wide):
                with e.loop(count, hint="zero") as n:
                    block = e.mul(e.add(n, before), wide)
                    zeros(
                        e.add(start + image.left + image.width, e.mul(block, image.pitch)), beside, together
                    )
        if image.right:
            zeros(start + slots * image.slot - image.right, image.right)


class Arriving:
    """Rows of the first image on their way to the scratchpad, whose loads can be issued a few at a time."""

    def __init__(self, e: Emitter, layer: Layer, image: Image, address: Number, width: int) -> None:
        self._e, self._layer, self._image, self._address, self._width = e, layer, image, address, width
        # rows that are left, where the next one goes in the ring and where it comes from
        self._left, self._to, self._from = e.variable(0), e.variable(0), e.variable(address)

    def more(self, rows: Number) -> None:
        """Begin with so many rows that follow the last ones."""
        self._left.set(rows)

    @property
    def commands(self) -> int:
        """For a row."""
        image = self._image
        return sum(n for _, _, n in parts(image.channels, self._width)) * -(-image.width // MOST_ROWS)

    def skip(self, rows: int) -> None:
        """The first rows are there."""
        self._to.set(self._image.place(rows))
        self._from.set(self._e.add(self._address, rows * self._image.width * self._layer.input.pitch))

    def again(self, loaded: int) -> None:
        """To the next image, behind so many rows of this one."""
        image = self._image
        self._to.set(0)
        rest = (image.height - loaded) * image.width * self._layer.input.pitch
        self._from.set(self._e.add(self._from.get(), rest))

    def step(self, most: int) -> None:
        """So many rows, if so many are left."""
        for _ in range(most):
            with self._e.when(self._e.compare("ne", self._left.get(), 0)):
                self._move()

    def finish(self) -> None:
        """All rows that are left."""
        with self._e.loop(self._left.get(), hint="row"):
            self._move()

    def _move(self) -> None:
        e, image, pitch = self._e, self._image, self._layer.input.pitch
        row, address = self._to.get(), self._from.get()
        local = e.add(row, image.start + image.left)
        for columns, before, blocks in parts(image.channels, self._width):
            with e.loop(blocks, hint="column") as n:
                channel = e.mul(e.add(n, before), self._width)
                place = e.add(local, e.mul(e.add(n, before), self._width // image.dim * image.pitch))
                for pixels, left, runs in parts(image.width, MOST_ROWS):
                    with e.loop(runs, hint="pixel") as m:
                        x = e.mul(e.add(m, left), MOST_ROWS)
                        e.command(
                            "mvin",
                            address=e.add(address, e.mul(x, pitch), channel),
                            local=e.add(place, x),
                            cols=columns,
                            rows=pixels,
                        )
        self._to.set(next_row(e, image, row))
        self._from.set(e.add(address, image.width * pitch))
        self._left.set(e.sub(self._left.get(), 1))


class ArrivingWeights:
    """Weights of a convolution on their way to the scratchpad: a group of blocks comes while the one before is in use.

    Those that stay come in the first strip only; of streamed ones the first group comes for the next strip while the last one of a
    strip is in use.
    """

    def __init__(self, e: Emitter, layer: Layer, place: StripWeights, address: Number, dim: int) -> None:
        self._e, self._layer, self._place, self._address, self._dim = e, layer, place, address, dim
        p = layer.problem
        if is_depthwise(layer):  # diagonals lie one behind the other
            self._rows, self._pitch, self._columns = place.wide * place.rows, dim, dim
            self._all = place.blocks * place.rows
        else:
            self._rows, self._pitch, self._columns = place.rows, layer.weight.pitch, place.wide * dim
            self._all = p.K
        # rows that are left of the group, where they go and come from, its columns
        self._left, self._to, self._from, self._wide = (e.variable(0) for _ in range(4))
        # the block at whose beginning the next group begins to come; of streamed ones where the group in use lies
        self._at = e.variable(0)
        self._used: Cell | None = e.variable(place.starts[1]) if place.streamed else None

    @property
    def _loads(self) -> int:
        return -(-self._rows // _WEIGHT_ROWS)

    @property
    def few(self) -> bool:
        """Whether two loads bring them all, the first one those that are used first."""
        place = self._place
        return place.groups == 1 < place.blocks and self._loads == 1 and not is_depthwise(self._layer)

    def halves(self, between: Callable[[], None]) -> None:
        """All of `few` weights, and what is written `between` both loads."""
        place, address = self._place, self._address
        self._e.command("config_ld", state=1, stride=self._pitch, block_stride=place.rows)
        half = place.blocks // 2
        for block, columns in ((0, half * self._dim), (half, self._all - half * self._dim)):
            at = self._e.add(address, block * self._dim)
            self._e.command("mvin2", address=at, local=self.block(block), cols=columns, rows=place.rows)
            if not block:
                between()

    def begin(self, *, begun: bool = False) -> None:
        """The first load of the first group, unless it has `begun`."""
        self._start(0, begun)
        self._move(begun)

    def rest(self) -> None:
        """All loads of a group that are left."""
        with self._e.loop(self._e.ceil_div(self._left.get(), _WEIGHT_ROWS), hint="weights"):
            self._move()

    def step(self, row: int) -> None:
        """A few loads behind the passes of a row of the window, if some are left; of weights that stay behind the last row."""
        rows = self._layer.problem.S
        if self._place.groups > 1 and (self._place.streamed or row == rows - 1):
            for _ in range(-(-self._loads // (self._place.wide * (rows if self._place.streamed else 1)))):
                with self._e.when(self._e.compare("sgt", self._left.get(), 0), rarely=True):
                    self._move()

    def strip(self) -> None:
        """Before the first block of a strip."""
        if self._place.streamed:
            self._at.set(0)

    def enter(self, block: Number, again: Condition) -> None:
        """Before a block of results is begun: its group is there, and the next one begins to come; `again`: whether there is a
        strip behind this one."""
        e, place = self._e, self._place
        if place.groups == 1:
            return
        with e.when(e.compare("eq", self._at.get(), block), rarely=True):
            self.rest()
            behind = e.add(block, place.wide)
            inside = e.compare("slt", behind, place.blocks)
            if self._used is None:
                with e.when(inside):
                    self._start(behind)
                self._at.set(e.select(inside, behind, -1))
            else:
                self._used.set(self._other())
                self._at.set(behind)
                with e.when(inside):
                    self._start(behind)
                with e.when(e.both(again, e.compare("sge", behind, place.blocks))):
                    self._start(0)

    def block(self, block: Number) -> Number:
        """First scratchpad row of a block of results' weights."""
        e, place = self._e, self._place
        if self._used is not None:
            return e.add(self._used.get(), e.mul(e.mod(block, place.wide), place.rows))
        start: Number = place.starts[0]
        if place.split < place.groups:
            edge = place.split * place.wide
            start = e.select(e.compare("slt", block, edge), start, place.starts[1] - edge * place.rows)
        return e.add(start, e.mul(block, place.rows))

    def _other(self) -> Number:
        """Where the streamed group that is not in use lies."""
        assert self._used is not None
        return self._e.sub(sum(self._place.starts), self._used.get())

    def _start(self, block: Number, begun: bool = False) -> None:
        """The group that begins with a block."""
        e, place = self._e, self._place
        if not begun:
            e.command("config_ld", state=1, stride=self._pitch, block_stride=place.rows)
        if self._used is not None:
            self._to.set(self._other())
        else:
            self._to.set(self.block(block))
        if is_depthwise(self._layer):
            before = e.mul(block, place.rows)
            self._left.set(e.min(self._rows, e.sub(self._all, before)))
            self._from.set(e.add(self._address, e.mul(before, self._pitch)))
            self._wide.set(self._dim)
        else:
            before = e.mul(block, self._dim)
            self._left.set(self._rows)
            self._from.set(e.add(self._address, before))
            self._wide.set(e.min(self._columns, e.sub(self._all, before)))

    def _move(self, begun: bool = False) -> None:
        e, left, to, address = self._e, self._left.get(), self._to.get(), self._from.get()
        rows = e.min(_WEIGHT_ROWS, left)
        if not begun:
            e.command("mvin2", address=address, local=to, cols=self._wide.get(), rows=rows)
        self._left.set(e.sub(left, rows))
        self._to.set(e.add(to, rows))
        self._from.set(e.add(address, _WEIGHT_ROWS * self._pitch))


class Leaving:
    """A block of a convolution's results on its way: image rows into the ring of the next convolution, or runs of pixels to main
    memory, or (`inside`) to scratchpad rows. It keeps its place in variables, so that moves can be issued a few at a time."""

    def __init__(
        self, e: Emitter, layer: Layer, image: Image | None, dim: int, *, inside: bool = False
    ) -> None:
        self._e, self._layer, self._image, self._dim, self._inside = e, layer, image, dim, inside
        # moves or pixels that are left, where they lie; where they go: the ring's row and the block's in it, or the address
        self._left, self._from, self._row, self._to = (e.variable(0) for _ in range(4))
        # columns of a block, which are mostly known
        whole = layer.problem.K * layer.problem.groups % dim == 0
        self._columns: Cell | None = None if whole else e.variable(0)

    def moves(self, rows: int) -> int:
        """How many there are for so many image rows."""
        return rows if self._image is not None else -(-rows * self._layer.problem.P // MOST_ROWS)

    def start(
        self,
        output: Number,
        extent: tuple[Number, Number, Number],
        sums: Number,
        block: Number,
        row: Number = 0,
    ) -> None:
        """Begin with the sums of `extent`: image, first row and rows. The output is where all results go, or (`inside`) this
        block's; `row`: in the ring, of the first ones."""
        e, p, image = self._e, self._layer.problem, self._image
        number, first, rows = extent
        dim = self._dim
        if self._columns is not None:
            self._columns.set(block_columns(e, self._layer, block, dim))
        self._from.set(sums)
        if image is not None:
            self._left.set(rows)
            self._row.set(row)
            self._to.set(e.add(image.start + image.left, e.mul(block, image.pitch)))
            return
        self._left.set(e.mul(rows, p.P))
        if self._inside:
            self._to.set(output)
            return
        pixel = e.mul(e.add(e.mul(number, p.Q), first), p.P)
        self._to.set(e.add(output, e.mul(pixel, self._layer.output.pitch), e.mul(block, dim)))

    def step(self, most: int = 1, *, rarely: bool = False) -> None:
        """So many moves, if so many are left, be it `rarely`."""
        e = self._e
        for _ in range(most):
            with e.when(e.compare("ne", self._left.get(), 0), rarely=rarely):
                self._move()

    def finish(self) -> None:
        """All moves that are left."""
        step = 1 if self._image is not None else MOST_ROWS
        with self._e.loop(self._left.get(), step=step, hint="move"):
            self._move()

    def _move(self) -> None:
        e, image, left = self._e, self._image, self._left.get()
        start, columns = self._from.get(), self._dim if self._columns is None else self._columns.get()
        if image is not None:
            row = self._row.get()
            e.command(
                "mvout_spad",
                destination=e.add(row, self._to.get()),
                destination_stride=1,
                local=e.local(start, accumulator=True),
                cols=columns,
                rows=image.width,
            )
            self._row.set(next_row(e, image, row))
            self._from.set(e.add(start, image.width))
            self._left.set(e.sub(left, 1))
            return
        rows, target = e.min(MOST_ROWS, left), self._to.get()
        moved = {"local": e.local(start, accumulator=True), "cols": columns, "rows": rows}
        if self._inside:
            e.command("mvout_spad", destination=target, destination_stride=1, **moved)
        else:
            e.command("mvout", address=target, **moved)
        self._to.set(e.add(target, MOST_ROWS * (1 if self._inside else self._layer.output.pitch)))
        self._from.set(e.add(start, rows))
        self._left.set(e.sub(left, rows))


def next_row(e: Emitter, image: Image, row: Number, rows: int = 1) -> Number:
    """The scratchpad row in a ring at which an image row begins, from that of another one so many rows before it."""
    if rows % image.slots == 0:
        return row
    after = e.add(row, rows % image.slots * image.slot)
    if image.gap:
        between = e.compare("ult", e.sub(after, image.edge), image.gap)
        after = e.unless(between, e.add(after, image.gap), after)
    return e.unless(e.compare("sge", after, image.ring), e.sub(after, image.ring), after)


def block_columns(e: Emitter, layer: Layer, block: Number, dim: int) -> Number:
    """Results in a block of channels."""
    results = layer.problem.K * layer.problem.groups
    return dim if results % dim == 0 else e.min(dim, e.sub(results, e.mul(block, dim)))
