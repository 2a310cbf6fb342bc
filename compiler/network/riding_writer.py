"""Writes the code of a product and of the addition to its results, a part of them later."""

from __future__ import annotations

from dataclasses import dataclass, replace

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.network.riding_plan import RiddenProduct, RidingPlan


@dataclass(frozen=True)
class _Piece:
    """A piece by its iterations of both loops, and the address at which the product of its iteration of the outer one is kept."""

    outer: Number
    inner: Number
    kept: Number


class RidingWriter:
    """Where the scratchpad has four banks, nothing is written where a pass reads, and a pass reads each operand from another one: what
    stays is in the first; of what passes by, the part in use and the next one are in the second and third, in turns, and a piece of the
    product that comes back is where the next one is; what is added is in the last. Results of pieces and sums take turns in both halves
    of the accumulator."""

    def __init__(self, e: Emitter, ride: RiddenProduct, accelerator: Accelerator) -> None:
        self.e, self.ride, self.plan = e, ride, RidingPlan.of(ride, accelerator)
        self.dim = accelerator.dim
        (self.input, self.weight, self.bias, self.kept, self.identity, self.added, self.sums,
         self.product_scale, self.added_scale, self.scale) = e.arguments  # fmt: skip
        self.quarter = accelerator.scratchpad_rows // 4
        self.tile = self.plan.wide * self.dim
        self.ones, self.added_at = 4 * self.quarter - self.dim, 3 * self.quarter
        self.half = accelerator.accumulator_rows // 2

    def write(self) -> None:
        """The whole of it."""
        e, plan = self.e, self.plan
        e.command("config_ex", dataflow=1)
        e.command("config_ld", state=2, block_stride=self.dim, stride=self.dim)
        e.command("mvin3", address=self.identity, local=self.ones, cols=self.dim, rows=self.dim)
        e.command("config_ld", state=2, block_stride=self.dim, stride=0)
        self._begin()
        length, size = plan.length, plan.length * plan.kept_unit
        here, there = e.variable(self.kept), e.variable(e.add(self.kept, size))
        with e.loop(length) as outer, e.loop(plan.inner) as inner:
            self._piece(_Piece(outer, inner, e.add(self.kept, e.mul(outer, plan.kept_unit))), None)
        e.fence()
        with e.loop(plan.parts, 1, hint="part") as part:
            first, kept, before = e.mul(part, length), there.get(), here.get()
            self._load_operands(_Piece(e.sub(first, length), 0, before), first, e.mul(first, plan.inner))
            with e.loop(length) as at, e.loop(plan.inner) as inner:
                own = e.mul(at, plan.kept_unit)
                outer = e.add(first, at)
                piece = _Piece(outer, inner, e.add(kept, own))
                self._piece(piece, _Piece(e.sub(outer, length), inner, e.add(before, own)))
            here.set(kept)
            there.set(before)
            e.fence()
        self._rest(plan.outer - length, here.get())

    def _rest(self, begin: int, kept: Number) -> None:
        """The additions to the last part."""
        e, plan = self.e, self.plan
        self._load_operands(_Piece(begin, 0, kept), begin, begin * plan.inner)
        with e.loop(plan.length) as at, e.loop(plan.inner) as inner:
            piece = _Piece(e.add(at, begin), inner, e.add(kept, e.mul(at, plan.kept_unit)))
            turn = e.add(e.mul(piece.outer, plan.inner), inner)
            after = self._following(piece)
            after = replace(after, outer=e.min(after.outer, plan.outer - 1))
            self._load_operands(after, after.outer, e.add(turn, 1))
            self._add(piece, piece.outer, turn)

    def _begin(self) -> None:
        """What the first piece needs."""
        e, plan = self.e, self.plan
        self._configure_rows()
        self._configure_weights()
        self._load_rows(0)
        with e.loop(plan.blocks) as block:
            self._load_weights(0, block)
        for n in range(plan.wide):
            self._load_bias(0, n, 0)

    # ---------------------------------------------------------------- pieces

    def _piece(self, piece: _Piece, before: _Piece | None) -> None:
        """A piece, and the addition to one of the part before, if there is any."""
        e, plan, dim = self.e, self.plan, self.dim
        outer, inner = piece.outer, piece.inner
        chunk, group = self._place(piece)
        turn = e.add(e.mul(outer, plan.inner), inner)
        results = self._slot(turn)
        after = self._following(piece)
        following = self._place(after)[1]
        if not plan.weights_stay:
            following = e.min(following, plan.groups - 1)
        more = e.compare("slt", outer, plan.outer - 1)
        weights, rows = self._weights_at(group), self._rows_at(chunk)
        if before is not None:
            # of the last piece of a part it is none that may be read yet, and comes once more behind the wait
            self._load_operands(self._following(before), after.outer, e.add(turn, 1))
        for block in range(plan.wide):
            for k in range(plan.blocks):
                new = not self.ride.bias and k == 0
                by = e.add(weights, (block * plan.blocks + k) * dim)
                c = e.local(e.add(results, block * dim), accumulator=True, accumulate=not new)
                array_pass(e, dim, PassWeights(by, dim, dim), dim, a=e.add(rows, k * dim), c=c)
            if block == 0:
                self._fetch(outer, inner, more)
                if before is None:
                    self._keep(outer, inner)
            self._load_bias(following, block, e.add(turn, 1))
        e.command(
            "config_st",
            stride=plan.kept_pitch,
            acc_scale=self.product_scale,
            activation=int(self.ride.product_relu),
        )
        self._store(self._kept_at(piece), chunk, results)
        if before is not None:
            self._add(before, outer, turn)

    def _following(self, piece: _Piece) -> _Piece:
        """The next piece."""
        e, unit = self.e, self.plan.kept_unit
        last = e.compare("eq", piece.inner, self.plan.inner - 1)
        return _Piece(
            e.add(piece.outer, e.select(last, 1, 0)),
            e.select(last, 0, e.add(piece.inner, 1)),
            e.add(piece.kept, e.select(last, unit, 0)),
        )

    def _fetch(self, outer: Number, inner: Number, more: Condition) -> None:
        """Of the next iteration of the outer loop, what a piece brings."""
        e, plan = self.e, self.plan
        after = e.add(outer, 1)
        if plan.weights_stay:
            with e.when(e.both(more, e.compare("eq", inner, 0)), rarely=True):
                self._configure_rows()
                self._load_rows(after)
            return
        first = e.mul(inner, plan.together)
        with e.when(e.both(more, e.compare("slt", first, plan.blocks)), rarely=True):
            self._configure_weights()
            for n in range(plan.together):
                self._load_weights(after, e.add(first, n))

    def _keep(self, outer: Number, inner: Number) -> None:
        """Of what stays, what the next piece of the first iteration of the outer loop needs."""
        e, plan = self.e, self.plan
        some = e.both(e.compare("eq", outer, 0), e.compare("slt", inner, plan.inner - 1))
        with e.when(some, rarely=True):
            if not plan.weights_stay:
                self._load_rows(e.add(inner, 1))
                return
            for block in range(plan.blocks):
                self._load_weights(e.add(inner, 1), block)

    def _add(self, piece: _Piece, beside: Number, turn: Number) -> None:
        """The addition to a piece whose operands have been asked for."""
        e, dim = self.e, self.dim
        chunk, group = self._place(piece)
        product_at, added_at = self._operands_at(beside, turn)
        sums = e.add(self._slot(turn), 2 * self.tile)
        for block in range(self.plan.wide):
            below = block * dim
            target = e.local(e.add(sums, below), accumulator=True)
            a, d = e.add(product_at, below), e.add(added_at, below)
            array_pass(e, dim, PassWeights(self.ones, dim, dim), dim, a=a, c=target, d=d, new=block == 0)
        e.command(
            "config_st", stride=self.ride.pitches[3], acc_scale=self.scale, activation=int(self.ride.relu)
        )
        pitch = self.ride.pitches[3]
        address = e.add(self.sums, e.mul(chunk, dim * pitch), e.mul(group, MOVE_BYTES))
        self._store(address, chunk, sums)

    # ---------------------------------------------------------------- places

    def _place(self, piece: _Piece) -> tuple[Number, Number]:
        """(chunk of rows, group of columns) of a piece."""
        return (piece.outer, piece.inner) if self.plan.weights_stay else (piece.inner, piece.outer)

    def _kept_at(self, piece: _Piece) -> Number:
        """Address of a piece of the product while it is kept in main memory."""
        step = MOVE_BYTES if self.plan.weights_stay else self.dim * MOVE_BYTES
        return self.e.add(piece.kept, self.e.mul(piece.inner, step))

    def _slot(self, turn: Number) -> Number:
        """First accumulator row of a piece: four take turns, neighbours in different halves."""
        e = self.e
        return e.add(e.mul(e.mod(turn, 2), self.half), e.mul(e.mod(e.div(turn, 2), 2), self.tile))

    def _rows_at(self, chunk: Number) -> Number:
        """Scratchpad row of a chunk of the product's rows."""
        rows = self.plan.blocks * self.dim
        return self._turns(chunk, 0) if self.plan.weights_stay else self.e.mul(chunk, rows)

    def _weights_at(self, group: Number) -> Number:
        """Scratchpad row of a group of columns of the weights."""
        rows = self.plan.blocks * self.tile
        return self.e.mul(group, rows) if self.plan.weights_stay else self._turns(group, 0)

    def _operands_at(self, beside: Number, turn: Number) -> tuple[Number, Number]:
        """Scratchpad rows of a piece of the product that comes back and of what is added to it.

        Args:
            beside: iteration of the outer loop during which they are added.
        """
        e = self.e
        slot = e.mul(e.mod(turn, 2), self.tile)
        return e.add(self._turns(beside, 1), self.quarter - 2 * self.tile, slot), e.add(slot, self.added_at)

    def _turns(self, outer: Number, by: int) -> Number:
        """First row of the bank of what passes by in an iteration of the outer loop, or (`by` 1) in the next one."""
        e = self.e
        return e.add(e.mul(e.mod(e.add(outer, by), 2), self.quarter), self.quarter)

    def _height(self, chunk: Number) -> Number:
        """Rows of a chunk."""
        e, dim = self.e, self.dim
        if self.ride.rows % dim == 0:
            return dim
        return e.min(dim, e.sub(self.ride.rows, e.mul(chunk, dim)))

    # ---------------------------------------------------------------- moves

    def _configure_rows(self) -> None:
        self.e.command("config_ld", state=0, block_stride=self.dim, stride=self.ride.pitches[0])

    def _configure_weights(self) -> None:
        distance = self.plan.blocks * self.dim
        self.e.command("config_ld", state=1, block_stride=distance, stride=self.ride.pitches[1])

    def _configure_added(self) -> None:
        e, dim = self.e, self.dim
        e.command("config_ld", state=0, block_stride=dim, stride=self.plan.kept_pitch)
        e.command("config_ld", state=1, block_stride=dim, stride=self.ride.pitches[2], scale=self.added_scale)

    def _load_operands(self, piece: _Piece, beside: Number, turn: Number) -> None:
        """A piece of the product that has been stored, and what is added to it."""
        e, pitch = self.e, self.ride.pitches[2]
        chunk, group = self._place(piece)
        product_at, added_at = self._operands_at(beside, turn)
        rows = self._height(chunk)
        self._configure_added()
        e.command("mvin", address=self._kept_at(piece), local=product_at, cols=MOVE_BYTES, rows=rows)
        address = e.add(self.added, e.mul(chunk, self.dim * pitch), e.mul(group, MOVE_BYTES))
        e.command("mvin2", address=address, local=added_at, cols=MOVE_BYTES, rows=rows)

    def _load_rows(self, chunk: Number) -> None:
        """A chunk of the product's rows."""
        e, plan, dim = self.e, self.plan, self.dim
        base = e.add(self.input, e.mul(chunk, dim * self.ride.pitches[0]))
        for first in range(0, self.ride.depth, MOVE_BYTES):
            columns = min(MOVE_BYTES, self.ride.depth - first)
            local = e.add(self._rows_at(chunk), first // dim * dim)
            e.command("mvin", address=e.add(base, first), local=local, cols=columns, rows=self._height(chunk))
        assert plan.blocks * dim == self.ride.depth

    def _load_weights(self, group: Number, block: Number) -> None:
        """A block of depth of a group of columns."""
        e, dim = self.e, self.dim
        address = e.add(self.weight, e.mul(block, dim * self.ride.pitches[1]), e.mul(group, MOVE_BYTES))
        local = e.add(self._weights_at(group), e.mul(block, dim))
        e.command("mvin2", address=address, local=local, cols=MOVE_BYTES, rows=dim)

    def _load_bias(self, group: Number, block: int, turn: Number) -> None:
        """What a block of a piece begins with."""
        if not self.ride.bias:
            return
        e, dim = self.e, self.dim
        address = e.add(self.bias, e.mul(group, 4 * MOVE_BYTES), 4 * block * dim)
        local = e.local(e.add(self._slot(turn), block * dim), accumulator=True)
        e.command("mvin3", address=address, local=local, cols=dim, rows=dim)

    def _store(self, address: Number, chunk: Number, row: Number) -> None:
        local = self.e.local(row, accumulator=True)
        self.e.command("mvout", address=address, local=local, cols=MOVE_BYTES, rows=self._height(chunk))
