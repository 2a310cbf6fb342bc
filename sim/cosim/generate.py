"""Random legal command streams: loads, products, stores and configurations (ISA specification, sections 4 to 6).

Every choice leans towards edges (sizes 1 and DIM, the same few rows again and again), since that is where hardware
and model part. Main memory is three regions; between two fences each is only read or only written, so that loads
and stores need no further fences (section 9). What else must not be done is listed in accel/isa/legality: a stream
that is refused, or that races, is a mistake here.
"""

from __future__ import annotations

from collections.abc import Callable

from baco.accel.isa import GARBAGE, IDENTITY_SCALE
from baco.sim.cosim.builder import (
    ACCUMULATE,
    ACCUMULATOR,
    ADDRESS_BITS,
    LOADS,
    REGION_BYTES,
    SCALES,
    LoadSettings,
    ProductSettings,
    Rows,
)
from baco.sim.cosim.stores import StoreGenerator

_COMPUTE_PRELOADED = 4
#: Products that put known values into both of an element's registers, and one more for what they left of the unknown.
_PRODUCTS = 3


class Generator(StoreGenerator):
    """Builds one stream, command by command, from a seed."""

    #: How often a result goes into rows of operands of its product.
    in_place = 0.2

    # ---------------------------------------------------------------- loads

    def config_ld(self, number: int | None = None) -> None:
        """CONFIG_LD of a random state."""
        r, dim = self.random, self.dim
        number = r.randrange(3) if number is None else number
        repeats = r.choice((0, 1, 1, 1, r.randint(1, dim)))
        stride = r.choice((0, dim, r.randint(1, 200), 4 * dim, (1 << ADDRESS_BITS) - r.randint(1, 40)))
        block_stride = r.choice((dim, dim, r.randint(dim, 3 * dim)))
        shrink, block_format = r.getrandbits(1), self.block_format()
        self.emit("CONFIG_LD", shrink=shrink, state=number, pixel_repeats=repeats, block_stride=block_stride,
                  scale=r.choice(SCALES), stride=stride, packed=self.packs(), block_format=block_format)  # fmt: skip
        self.ld[number] = LoadSettings(
            shrink, max(1, repeats) if self.features.first_layer else 1, block_stride, stride, block_format
        )

    def mvin(self, apart: tuple[Rows, ...] = ()) -> bool:
        """A load, unless it does not fit or touches rows of `apart`."""
        r, dim = self.random, self.dim
        number = r.randrange(3)
        state = self.ld[number]
        if state.block_format and state.repeats > 1:
            return False
        accumulator = r.random() < 0.4 and state.repeats == 1 and not state.block_format
        size = 4 if accumulator and not state.shrink else self.element
        rows = self.size(dim)
        if state.repeats > 1:
            if state.repeats > dim:
                return False
            cols = self.size(dim // state.repeats)
        else:
            cols = self.size(max(64, self.accelerator.dma_max_bytes, 4 * dim) // size)
            if r.random() < 0.5:
                cols = min(cols, dim)
            if cols <= dim and self.chance(0.2):
                rows = r.randint(1, 255)
        if state.block_format and r.random() < (0.3 if self.powers else 1.0):
            rows, brings_powers = 1, True
        elif state.block_format:
            cols, brings_powers = min(cols, self.powers), False
        else:
            brings_powers = False
        reach = rows + (cols - 1) // dim * state.block_stride
        first = self.row(accumulator, reach)
        if first is None:
            return False
        touched = Rows(accumulator, max(0, first - state.repeats + 1), first + reach)
        if any(touched.meets(rows_) for rows_ in apart):
            return False
        negative = state.stride >> (ADDRESS_BITS - 1)
        extent = ((1 << ADDRESS_BITS) - state.stride if negative else state.stride) * (rows - 1)
        span = cols * size
        if extent + span >= REGION_BYTES:
            return False
        address = self.source(span, extent) if negative else self.source(extent + span)
        flags = ACCUMULATOR | (ACCUMULATE if r.getrandbits(1) else 0) if accumulator else 0
        self.emit(
            LOADS[number],
            address=0 if r.random() < 0.1 else address,
            local=flags | first | (ACCUMULATE if brings_powers else 0),
            cols=cols,
            rows=rows,
        )
        if brings_powers:
            self.powers = cols
        return True

    # ---------------------------------------------------------------- products

    def config_ex(self, ws: bool | None = None) -> None:
        """CONFIG_EX, sometimes of the strides only."""
        r = self.random
        stride_a, stride_c = r.choice((1, 1, 2, 3)), r.choice((1, 1, 2))
        if ws is None and r.random() < 0.2:
            self.emit("CONFIG_EX", set_only_strides=1, a_stride=stride_a, c_stride=stride_c,
                      dataflow=r.getrandbits(1), a_transpose=r.getrandbits(1))  # fmt: skip
            self.ex.stride_a, self.ex.stride_c = stride_a, stride_c
            return
        if ws is None or not (self.ws and self.os):
            ws = r.random() < 0.5 if self.ws and self.os else self.ws
        transposes = r.choice(((0, 0), (0, 0), (1, 0), (0, 1)) if ws else ((0, 0), (0, 0), (1, 0), (1, 1)))
        self.write_config_ex(ws, transposes, stride_a, stride_c, activation=r.getrandbits(1))

    def write_config_ex(
        self, ws: bool, transposes: tuple[int, int], stride_a: int, stride_c: int, activation: int = 0
    ) -> None:
        """CONFIG_EX of everything."""
        r = self.random
        bit = int(ws) if self.ws and self.os else r.getrandbits(1)
        self.emit("CONFIG_EX", dataflow=bit, activation=activation, a_transpose=transposes[0], b_transpose=transposes[1],
                  a_stride=stride_a, acc_scale=r.choice(SCALES), in_shift=r.choice((0, 0, 1, 4, 9, 31)),
                  c_stride=stride_c)  # fmt: skip
        self.fresh |= ws != self.ex.ws
        self.ex = ProductSettings(ws, *transposes, stride_a, stride_c)

    def _operand(
        self, rows: int, cols: int, stride: int, transposed: int, missing: float
    ) -> tuple[int, Rows]:
        """Local address word of an operand in the scratchpad or of none, and its rows."""
        stored = cols if transposed else rows
        reach = max(1, (stored - 1) * stride + 1)
        first = None if self.chance(missing) else self.row(False, reach)
        if first is None:
            return GARBAGE, Rows()
        return first, Rows(False, first, first + reach)

    def matmul(self) -> None:
        """PRELOAD and COMPUTE, sometimes with other commands between."""
        r, dim, ex = self.random, self.dim, self.ex
        m, k, n = self.size(dim), self.size(dim), self.size(dim)
        if r.random() < 0.03:
            m = 0
        a, a_rows = self._operand(m, k, ex.stride_a, ex.transpose_a, 0.05)
        k_b = k if r.random() < 0.8 else self.size(dim)
        b, b_rows = self._operand(k_b, n, 1, ex.transpose_b, 0.3)
        m_d, n_d = (m, n) if r.random() < 0.7 else (self.size(dim), self.size(dim))
        d, d_rows = self._operand(m_d, n_d, 1, 0, 0.4)
        rows, cols = (m, n) if m and r.random() < 0.5 else (self.size(dim), self.size(dim))
        # weight-stationary, results leave while later rows of these are still read
        streamed = [(d, 1, m_d)] if ex.ws else []
        if ex.ws and not ex.transpose_a:
            streamed.append((a, ex.stride_a, m))
        c, c_rows = self._result(rows, cols, streamed, (a_rows, b_rows, d_rows))
        first = (b, n, k_b) if ex.ws else (d, n_d, m_d)
        second = (d, n_d, m_d) if ex.ws else (b, n, k_b)
        stationary = b_rows if ex.ws else d_rows
        preloaded = self.fresh or (self.taken and not ex.ws) or r.random() < 0.6
        self.emit("PRELOAD", bd=first[0], bd_cols=first[1], bd_rows=first[2], c=c, c_cols=cols, c_rows=rows)
        if r.random() < 0.15:
            self.between((stationary, c_rows))
        self.emit("COMPUTE_PRELOADED" if preloaded else "COMPUTE_ACCUMULATED",
                  a=a, a_cols=k, a_rows=m, bd=second[0], bd_cols=second[1], bd_rows=second[2])  # fmt: skip
        self.fresh, self.taken = False, c != GARBAGE

    def _result(
        self, rows: int, cols: int, streamed: list[tuple[int, int, int]], operands: tuple[Rows, ...]
    ) -> tuple[int, Rows]:
        """Local address word of a result, often in the rows of an operand, or of none, and its rows.

        streamed: word, stride and number of rows of operands whose later rows it must not fall on.
        """
        r, stride = self.random, self.ex.stride_c
        reach = (rows - 1) * stride + 1
        places = [one for one in operands if one.past > one.first]
        near = self.features.write_to_scratchpad and bool(places) and self.chance(self.in_place)
        accumulator = not near and (r.random() < 0.6 or not self.features.write_to_scratchpad)
        if near:
            shift = r.choice((0, 0, 0, r.randint(-self.dim, 0), r.randint(-self.dim, self.dim)))
            first = max(0, min(self.sp_rows - reach, r.choice(places).first + shift))
        else:
            drawn = None if r.random() < 0.15 else self.row(accumulator, reach)
            if drawn is None:
                return GARBAGE, Rows()
            first = drawn
        if not accumulator and any(
            first + i * stride == at + j * apart
            for at, apart, count in streamed
            if at != GARBAGE
            for j in range(min(count, rows))
            for i in range(j)
        ):
            return GARBAGE, Rows()
        flags = ACCUMULATOR | (ACCUMULATE if r.getrandbits(1) else 0) if accumulator else 0
        return flags | first, Rows(accumulator, first, first + reach)

    def between(self, apart: tuple[Rows, ...]) -> None:
        """Commands that may stand between a PRELOAD and its COMPUTE: nothing of what it names is touched."""
        actions: list[Callable[[], object]] = [
            self.front,
            self.config_ld,
            self.config_st,
            lambda: self.mvin(apart),
        ]
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(actions)()

    # ---------------------------------------------------------------- the rest

    def front(self) -> None:
        """A command that no unit executes."""
        r = self.random
        kind = r.randrange(6)
        if kind == 0:
            self.emit("FLUSH", skip=r.getrandbits(1))
        elif kind == 1:
            self.emit("CLKGATE_EN", enable=1)
        else:
            self.emit("COUNTER_OP", reset=self.chance(0.1), leave_snapshot=self.chance(0.2), take_snapshot=self.chance(0.2),
                      configure=self.chance(0.4), index=r.randrange(8), event=r.randrange(45),
                      external=self.chance(0.3))  # fmt: skip

    def initialise(self, *, whole: bool = False) -> None:
        """Configure everything and put data into both memories: all of small ones (or `whole` ones), the busiest rows of others."""
        r, dim = self.random, self.dim
        for number in range(3):
            self.config_ld(number)
        self.config_ex(ws=self.ws)
        self.config_st()
        wide = max(64, self.accelerator.dma_max_bytes, 4 * dim)
        for accumulator, rows in ((False, self.sp_rows), (True, self.acc_rows)):
            blocks = wide // (dim * (4 if accumulator else self.element))
            self.emit(
                "CONFIG_LD",
                state=0,
                pixel_repeats=1,
                block_stride=dim,
                scale=IDENTITY_SCALE,
                stride=r.randint(1, 200),
            )
            first, past = 0, rows
            if rows > 16 * dim * blocks and not whole:
                first = max(0, self.hot[accumulator] // dim * dim - dim)
                past = min(rows, first + 16 * dim * blocks)
            for row in range(first, past, dim * blocks):
                many = min(blocks, max(1, (past - row) // dim))
                cols = many * dim
                count = min(dim, past - row)
                extent = (count - 1) * 200 + cols * 4
                self.emit(
                    "MVIN",
                    address=self.source(extent),
                    local=row | (ACCUMULATOR if accumulator else 0),
                    cols=cols,
                    rows=count,
                )
        self.config_ld(0)

    def initialise_units(self) -> None:
        """Write every register of the array, by products whose results go to the accumulator's first rows, the table and scales."""
        dim = self.dim
        for weights_stay in [True] * self.ws + [False] * self.os:
            self.write_config_ex(weights_stay, (0, 0), 1, 1)
            for _ in range(_PRODUCTS):
                whole = {"cols": dim, "rows": dim}
                operand = {f"bd_{name}": size for name, size in whole.items()}
                result = {f"c_{name}": size for name, size in whole.items()}
                self.emit("PRELOAD", bd=0, c=ACCUMULATOR, **operand, **result)
                self.emit("COMPUTE_PRELOADED", a=0, bd=0, a_cols=dim, a_rows=dim, **operand)
        self.config_ex(ws=self.ws)
        self.load_table()
        if self.features.requantization:
            self.set_scales(0)

    def ordinary(self, count: int) -> None:
        """`count` random loads, products, stores, configurations; now and then a fence."""
        r = self.random
        actions: list[Callable[[], object]] = []
        for action, weights in (
            (self.config_ld, (1, 2)), (self.mvin, (2, 6)), (self.config_ex, (0, 1)), (self.matmul, (2, 6, 10)),
            (self.config_st, (1,)), (self.mvout, (1, 4)), (self.mvout_spad, (0, 1)), (self.front, (0, 1)),
            (self.fence, (0, 0, 1)),
        ):  # fmt: skip
            actions += [action] * r.choice(weights)
        if self.features.row_functions:
            actions += [self.config_function, self.mvout]
        if self.features.requantization:
            actions += [self.config_output, self.mvout]
        if self.features.normalizations:
            actions += [self.config_norm, self.normalise, self.normalise, self.mvout, self.mvout]
        for _ in range(count):
            r.choice(actions)()

    def products(self, count: int) -> None:
        """`count` actions, most of them products whose results overwrite operands, of their own and of others; some of them
        many times in a row."""
        r = self.random
        self.in_place = 0.9
        actions: list[Callable[[], object]] = [
            self.config_ld,
            self.mvin,
            self.config_st,
            self.mvout,
            self.fence,
        ]
        actions += [self.config_ex] * 2 + [self.matmul] * 10
        for _ in range(count):
            start = len(self.items)
            r.choice(actions)()
            made = self.items[start:]
            if len(made) == 2 and made[1] is not None and made[1].funct == _COMPUTE_PRELOADED:
                self.items += made * r.choice((0, 0, 0, 1, 2, 9))
