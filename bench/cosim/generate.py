"""Random legal command streams: loads, products, stores and configurations (ISA specification, sections 4 to 6).

Every choice leans towards edges (sizes 1 and DIM, the same few rows again and again), since that is where hardware
and model part. Main memory is three regions; between two fences each is only read or only written, so that loads
and stores need no further fences (section 9). What else must not be done is listed in accel/isa/legality: a stream
that is refused, or that races, is a mistake here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from accel.config import Accelerator
from accel.isa import GARBAGE, IDENTITY_SCALE, KEEP_SCALE, Command, command_named, encode
from bench.cosim.stream import BASE, MEMORY_BYTES, Item, Stream, group_items

__all__ = ["Generator"]

ACCUMULATOR, ACCUMULATE, READ_FULL = 1 << 31, 1 << 30, 1 << 29
_REGIONS = 3
REGION_BYTES = MEMORY_BYTES // _REGIONS
_ADDRESS_BITS = 64
_LOADS = ("MVIN", "MVIN2", "MVIN3")
#: Float32 bits: 1, 1/2, 1/4, 2.5, -1/2, next to 1 on both sides, the least subnormal, 0.01, infinities, not a number.
SCALES = (
    *(IDENTITY_SCALE, IDENTITY_SCALE, IDENTITY_SCALE, 0x3F000000, 0x3E800000, 0x40200000, 0xBF000000),
    *(0x3F7FFFFF, 0x3F800001, 0x00000001, 0x3C23D70A, 0x37800000, 0x7F800000, 0xFF800000, 0x7FC00000),
)


@dataclass
class _LoadState:
    shrink: int = 0
    repeats: int = 1
    block_stride: int = 0
    stride: int = 0


@dataclass
class _ExecuteState:
    ws: bool = True
    transpose_a: int = 0
    transpose_b: int = 0
    stride_a: int = 1
    stride_c: int = 1


@dataclass
class _StoreState:
    mode: str = "rows"  # rows, pooled, gathered (1-D mode)
    stride: int = 0
    rows: int = 1  # held locally when not in mode rows
    pixels: int = 1  # largest output pixel index + 1


@dataclass(frozen=True)
class Rows:
    """Local rows [first, past) of one memory; empty when past <= first."""

    accumulator: bool = False
    first: int = 0
    past: int = 0

    def meets(self, other: Rows) -> bool:
        """Whether the two share a row."""
        return self.accumulator == other.accumulator and max(self.first, other.first) < min(
            self.past, other.past
        )


class Generator:
    """Builds one stream, command by command, from a seed.

    Attributes:
        items: what has been generated.
        fresh: the array holds nothing of the present dataflow that may be accumulated on.
    """

    def __init__(self, accelerator: Accelerator, seed: str) -> None:
        self.random = random.Random(seed)
        self.accelerator = accelerator
        self.features = accelerator.features
        self.dim = accelerator.dim
        self.ws, self.os = "WS" in accelerator.dataflows, "OS" in accelerator.dataflows
        self.sp_rows, self.acc_rows = accelerator.scratchpad_rows, accelerator.accumulator_rows
        self.items: list[Item] = []
        self.ld = [_LoadState() for _ in _LOADS]
        self.ex = _ExecuteState(ws=self.ws)
        self.st = _StoreState()
        self.function, self.parameters = 0, 0  # of stores; accumulator row of gains and offsets
        self.activation = 0  # of stores; 2 layer norm, 3 I-GELU, 4 softmax
        self.product = False  # source rows are multiplied by those from there on
        self.fresh, self.taken = True, False
        self.sources, self.targets = [0, 1], [2]
        r = self.random
        window = r.choice((2, 3, 5)) * self.dim
        self.window = window
        self.hot = {
            False: r.randrange(max(1, self.sp_rows - window)),
            True: r.randrange(max(1, self.acc_rows - window)),
        }
        self.heat = r.choice((0.0, 0.5, 0.9))
        self.noisy = r.random() < 0.3

    # ---------------------------------------------------------------- helpers

    def stream(self, name: str) -> Stream:
        """What has been generated, with random settings of memory and host."""
        r = self.random
        settings: dict[str, int | float] = {
            "data": r.getrandbits(48) | 1,
            "latency": r.choice((1, 3, 20, 60, 200)),
            "bandwidth": r.choice((1.0, 4.0, 8.0, 64.0)),
            "reads": r.choice((1, 2, 8, 256)),
            "writes": r.choice((1, 2, 32)),
            "stall": r.choice((0, 0, 10, 50)),
            "gap": r.choice((0, 0, 30, 90)),
            "seed": r.getrandbits(32),
        }
        return Stream(name, group_items(self.items), settings)

    def emit(self, command: str, **fields: int) -> None:
        """Append a command; now and then with random bits where none are defined."""
        made = encode(command, **fields)
        if self.noisy and self.random.random() < 0.3:
            known = [0, 0]
            for field in command_named(command).fields:
                known[field.register == "rs2"] |= field.mask << field.low
            if made.funct == 0:
                known[0] |= 3
            noise = [self.random.getrandbits(64) & ~mask for mask in known]
            made = Command(made.funct, made.rs1 | noise[0], made.rs2 | noise[1])
        self.items.append(made)

    def fence(self) -> None:
        """A fence; after it regions of memory may change their roles."""
        self.items.append(None)
        regions = list(range(_REGIONS))
        self.random.shuffle(regions)
        cut = self.random.choice((1, 2, 2))
        self.sources, self.targets = regions[:cut], regions[cut:]

    def size(self, most: int) -> int:
        """1..most, the ends more often."""
        r = self.random
        return r.choice((1, most, r.randint(1, most), r.randint(1, most)))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def source(self, extent: int, below: int = 0) -> int:
        """An address that may be read, `extent` bytes from it on and `below` bytes before it; any alignment."""
        return self._address(self.sources, extent, below)

    def target(self, extent: int) -> int:
        """An address that may be written, as `source`."""
        return self._address(self.targets, extent, 0)

    def _address(self, regions: list[int], extent: int, below: int) -> int:
        assert extent + below < REGION_BYTES, (extent, below)
        r = self.random
        offset = r.randint(below, REGION_BYTES - extent)
        if r.random() < 0.5 and offset % 64 <= offset - below:
            offset -= offset % 64
        return BASE + r.choice(regions) * REGION_BYTES + offset

    def row(self, accumulator: bool, reach: int) -> int | None:
        """First of `reach` rows that exist, mostly the ones used before; None when the memory is too small."""
        most = (self.acc_rows if accumulator else self.sp_rows) - reach
        if most < 0:
            return None
        r = self.random
        if r.random() < self.heat:
            return min(most, self.hot[accumulator] + r.randrange(self.window))
        return r.choice((0, most, r.randint(0, most), r.randint(0, most), r.randint(0, most)))

    # ---------------------------------------------------------------- loads

    def config_ld(self, number: int | None = None) -> None:
        """CONFIG_LD of a random state."""
        r, dim = self.random, self.dim
        number = r.randrange(3) if number is None else number
        repeats = r.choice((0, 1, 1, 1, r.randint(1, dim)))
        stride = r.choice((0, dim, r.randint(1, 200), 4 * dim, (1 << _ADDRESS_BITS) - r.randint(1, 40)))
        block_stride = r.choice((dim, dim, r.randint(dim, 3 * dim)))
        shrink = r.getrandbits(1)
        self.emit("CONFIG_LD", shrink=shrink, state=number, pixel_repeats=repeats, block_stride=block_stride,
                  scale=r.choice(SCALES), stride=stride)  # fmt: skip
        self.ld[number] = _LoadState(
            shrink, max(1, repeats) if self.features.first_layer else 1, block_stride, stride
        )

    def mvin(self, apart: tuple[Rows, ...] = ()) -> bool:
        """A load, unless it does not fit or touches rows of `apart`."""
        r, dim = self.random, self.dim
        number = r.randrange(3)
        state = self.ld[number]
        accumulator = r.random() < 0.4 and state.repeats == 1
        size = 4 if accumulator and not state.shrink else 1
        rows = self.size(dim)
        if state.repeats > 1:
            if state.repeats > dim:
                return False
            cols = self.size(dim // state.repeats)
        else:
            cols = self.size(max(64, self.accelerator.dma_max_bytes, 4 * dim) // size)
            if r.random() < 0.5:
                cols = min(cols, dim)
        reach = rows + (cols - 1) // dim * state.block_stride
        first = self.row(accumulator, reach)
        if first is None:
            return False
        touched = Rows(accumulator, max(0, first - state.repeats + 1), first + reach)
        if any(touched.meets(rows_) for rows_ in apart):
            return False
        negative = state.stride >> (_ADDRESS_BITS - 1)
        extent = ((1 << _ADDRESS_BITS) - state.stride if negative else state.stride) * (rows - 1)
        span = cols * size
        if extent + span >= REGION_BYTES:
            return False
        address = self.source(span, extent) if negative else self.source(extent + span)
        flags = ACCUMULATOR | (ACCUMULATE if r.getrandbits(1) else 0) if accumulator else 0
        self.emit(
            _LOADS[number],
            address=0 if r.random() < 0.1 else address,
            local=flags | first,
            cols=cols,
            rows=rows,
        )
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
        self.ex = _ExecuteState(ws, *transposes, stride_a, stride_c)

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
        streaming = d_rows if ex.ws else b_rows
        rows, cols = (m, n) if m and r.random() < 0.5 else (self.size(dim), self.size(dim))
        c, c_rows = self._result(rows, cols, (a_rows, streaming))
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

    def _result(self, rows: int, cols: int, apart: tuple[Rows, ...]) -> tuple[int, Rows]:
        r = self.random
        accumulator = r.random() < 0.6 or not self.features.write_to_scratchpad
        reach = (rows - 1) * self.ex.stride_c + 1
        first = None if r.random() < 0.15 else self.row(accumulator, reach)
        if first is None:
            return GARBAGE, Rows()
        taken = Rows(accumulator, first, first + reach)
        if any(taken.meets(other) for other in apart):
            return GARBAGE, Rows()
        flags = ACCUMULATOR | (ACCUMULATE if r.getrandbits(1) else 0) if accumulator else 0
        return flags | first, taken

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

    # ---------------------------------------------------------------- stores

    def config_st(self) -> None:
        """CONFIG_ST: rows, pooling or the 1-D mode."""
        r = self.random
        mode = r.choice(("rows", "rows", "rows", "pooled", "gathered"))
        stride = r.choice((self.dim, r.randint(1, 64), 4 * self.dim))
        if mode == "rows":
            self.write_results(stride)
            return
        orows, ocols = r.randint(1, 5), r.randint(1, 5)
        across, porows, pocols = r.randint(5, 8), r.randint(1, 3), r.randint(1, 3)
        self.activation = r.getrandbits(1)
        self.emit("CONFIG_ST", activation=self.activation, pool_stride=r.randint(1, 3) if mode == "pooled" else 0,
                  pool_size=r.randint(1, 3), upad=r.randint(0, 1), lpad=r.randint(0, 1), pool_out_dim=across,
                  porows=porows, pocols=pocols, orows=orows, ocols=ocols, stride=stride,
                  acc_scale=r.choice((*SCALES, KEEP_SCALE)))  # fmt: skip
        if not self.features.max_pool:
            mode = "gathered"
        last = (porows, pocols) if mode == "pooled" else (orows, ocols)
        self.st = _StoreState(mode, stride, orows * ocols, (last[0] - 1) * across + last[1])

    def write_config_st(self, stride: int, activation: int = 0, scale: int | None = None) -> None:
        """CONFIG_ST without pooling, for stores that are no functions of whole rows."""
        r = self.random
        if self.function >= 2:
            self.write_config_function(r.getrandbits(1))
        self.emit("CONFIG_ST", activation=activation, stride=stride,
                  acc_scale=r.choice((*SCALES, KEEP_SCALE)) if scale is None else scale)  # fmt: skip
        self.st = _StoreState("rows", stride)
        self.activation = activation

    def write_results(self, stride: int, *, plain: bool = False, scale: int | None = None) -> int:
        """CONFIG_ST as `write_config_st` with an activation that is drawn and returned; `plain`: none or ReLU."""
        r = self.random
        activation = r.getrandbits(1)
        if self.features.normalizations and not plain and r.random() < 0.6:
            activation = r.choice((2, 3, 4))
        self.write_config_st(stride, activation=activation & 3, scale=scale)
        if activation == 4:
            self._write_constants(1)
        return activation

    def config_norm(self) -> None:
        """CONFIG_NORM: of the statistics slot alone, or of everything."""
        r = self.random
        if r.random() < 0.6:
            self.emit("CONFIG_NORM", stats_id=r.getrandbits(1), set_stats_id_only=1, activation_msb=r.getrandbits(1),
                      q_const=r.getrandbits(32), qb=r.getrandbits(32), qc=r.getrandbits(32))  # fmt: skip
            return
        softmax = self.st.mode == "rows" and self.activation in (0, 4) and r.random() < 0.7
        self._write_constants(int(softmax))

    def _write_constants(self, activation_msb: int) -> None:
        """Constants as software has them for elements of some unit, or of nothing but chance."""
        r = self.random
        unit = r.choice((0.5, 0.05, 0.001, 1e-4))
        qln2 = int(0.693147 / unit)
        constants = (qln2, 65536 // max(1, qln2), int(1.353 / unit), int(0.96 / unit**2))
        if r.random() < 0.3:
            constants = (r.getrandbits(32), r.getrandbits(32), r.getrandbits(32), r.getrandbits(32))
        sign = -1 if r.random() < 0.5 else 1  # I-GELU's are negative
        for kind in r.choice(((0,), (1,), (0, 1), (1, 0))):
            self.emit("CONFIG_NORM", stats_id=r.getrandbits(1), activation_msb=activation_msb, q_const_type=kind,
                      q_const=constants[kind] & 0xFFFFFFFF, qb=sign * constants[2] & 0xFFFFFFFF,
                      qc=sign * constants[3] & 0xFFFFFFFF)  # fmt: skip
        self.activation = self.activation & 3 | activation_msb << 2

    def normalise(self) -> None:
        """A row's statistics and results as software orders them, of elements that do not overflow; now and then a pass is
        missing or comes twice, or another command comes between."""
        r, dim = self.random, self.dim
        cols = self.size(max(64, self.accelerator.dma_max_bytes, 4 * dim))
        first = self.row(True, (cols - 1) // dim * dim + 1)
        if first is None:
            return
        activation = r.choice((2, 4))
        self.write_config_st(
            cols, activation=activation & 3, scale=r.choice((IDENTITY_SCALE, 0x41200000, 0xC0400000))
        )
        if activation == 4:
            self._write_constants(1)
        if r.random() < 0.8:
            self.emit("CONFIG_LD", shrink=1, state=0, pixel_repeats=1, block_stride=dim, scale=IDENTITY_SCALE,
                      stride=cols)  # fmt: skip
            self.ld[0] = _LoadState(1, 1, dim, cols)
            self.emit("MVIN", address=self.source(cols), local=ACCUMULATOR | first, cols=cols, rows=1)
        for norm in (2, 4, 0) if activation == 2 else (5, 7, 0):
            if r.random() < 0.1:
                self.emit("CONFIG_NORM", stats_id=r.getrandbits(1), set_stats_id_only=1)
            for _ in range(r.choice((1, 1, 1, 1, 1, 1, 1, 1, 0, 2))):
                self.emit(
                    "MVOUT",
                    address=self.target(cols),
                    local=ACCUMULATOR | norm << 26 | first,
                    cols=cols,
                    rows=1,
                )

    def config_function(self) -> None:
        """CONFIG_FUNCTION, and now and then a new table."""
        r = self.random
        table_rows = max(1, 128 // self.dim)
        if self.chance(0.5) and table_rows <= self.acc_rows:
            self.emit("LOAD_TABLE", table=ACCUMULATOR | r.randrange(self.acc_rows - table_rows + 1))
        self.write_config_function(r.choice((0, 1, 2, 3, 3)))

    def write_config_function(self, function: int) -> None:
        """CONFIG_FUNCTION with random settings."""
        r, dim = self.random, self.dim
        self.function, self.product = function, function == 3 and self.chance(0.4)
        self.parameters = r.randrange(self.acc_rows // 2 + 1 if self.product else self.acc_rows)
        parameter = ACCUMULATOR | self.parameters
        if self.function != 3:
            parameter = r.choice((r.getrandbits(32), 127 << 24, r.getrandbits(20), 0))
        self.emit("CONFIG_FUNCTION", function=self.function, centre=r.getrandbits(1), causal=r.getrandbits(1),
                  shift=r.randint(7, 31) if function == 3 else r.randint(0, 15), product=int(self.product),
                  valid=r.choice((0, 1, r.randint(0, 3 * dim), 65535)), parameter=parameter,
                  epsilon=r.choice((0, 1, r.getrandbits(20), r.getrandbits(48))))  # fmt: skip

    def _mvout_rows(self) -> None:
        """A store whose rows are softmaxed or normalised."""
        r, dim = self.random, self.dim
        accumulator = self.features.read_small_width and r.random() < 0.7 and self.activation < 2
        rows = self.size(dim)
        blocks = r.choice((1, 2, 3, r.randint(1, 12)))
        if self.function == 3 and not self.product:
            blocks = min(blocks, self.acc_rows - self.parameters)
        cols = (blocks - 1) * dim + self.size(dim)
        reach = rows + (blocks - 1) * dim
        first = self.row(accumulator, reach)
        if self.product and first is not None:  # what it is multiplied by exists as well
            first = min(first, self.acc_rows - self.parameters - reach)
            if first < 0:
                return
        extent = self.st.stride * (rows - 1) + cols
        if first is not None and extent < REGION_BYTES:
            local = first | (ACCUMULATOR if accumulator else 0)
            self.emit("MVOUT", address=self.target(extent), local=local, cols=cols, rows=rows)

    def mvout(self) -> None:
        """A store of any kind that the accelerator has."""
        if self.function >= 2 and self.st.mode == "rows" and self.chance(0.8):
            self._mvout_rows()
            return
        r, dim, st, f = self.random, self.dim, self.st, self.features
        accumulator = r.random() < 0.7 and (f.read_full_width or f.read_small_width)
        full = accumulator and (not f.read_small_width or (f.read_full_width and r.random() < 0.4))
        if (st.mode == "pooled" and full) or (self.function >= 2 and not full):
            return
        norm = 0
        if accumulator and f.normalizations and st.mode == "rows" and self.function < 2 and r.random() < 0.6:
            norm, full = r.randrange(1, 8), False
        if full and self.activation >= 2:
            return
        rows = self.size(dim)
        most = 1 if full or st.mode != "rows" else max(64, self.accelerator.dma_max_bytes, 4 * dim) // dim
        blocks = self.size(most) if r.random() < 0.5 else 1
        cols = (blocks - 1) * dim + self.size(dim)
        reach = rows + (blocks - 1) * dim if st.mode == "rows" else st.rows
        first = self.row(accumulator, reach)
        pixels = rows if st.mode == "rows" else st.pixels
        extent = st.stride * (pixels - 1) + cols * (4 if full else 1)
        if first is None or extent >= REGION_BYTES:
            return
        flags = (ACCUMULATOR if accumulator else 0) | (READ_FULL if full else 0) | norm << 26
        self.emit("MVOUT", address=self.target(extent), local=flags | first, cols=cols, rows=rows)

    def mvout_spad(self) -> None:
        """MVOUT_SPAD: a copy into the scratchpad."""
        r, dim = self.random, self.dim
        if self.st.mode != "rows":
            return
        accumulator = r.random() < 0.6 and self.features.read_small_width and self.activation < 2
        rows, cols, stride = self.size(dim), self.size(dim), r.choice((1, 1, 2, 3))
        reach = (rows - 1) * stride + 1
        source, target = self.row(accumulator, rows), self.row(False, reach)
        if source is None or target is None:
            return
        if Rows(accumulator, source, source + rows).meets(Rows(False, target, target + reach)):
            return
        self.emit("MVOUT_SPAD", destination=target, destination_stride=stride,
                  local=source | (ACCUMULATOR if accumulator else 0), cols=cols, rows=rows)  # fmt: skip

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

    def initialise(self) -> None:
        """Configure everything and put data into both memories: all of small ones, the busiest rows of others."""
        r, dim = self.random, self.dim
        for number in range(3):
            self.config_ld(number)
        self.config_ex(ws=self.ws)
        self.config_st()
        wide = max(64, self.accelerator.dma_max_bytes, 4 * dim)
        for accumulator, rows in ((False, self.sp_rows), (True, self.acc_rows)):
            blocks = wide // (dim * (4 if accumulator else 1))
            self.emit(
                "CONFIG_LD",
                state=0,
                pixel_repeats=1,
                block_stride=dim,
                scale=IDENTITY_SCALE,
                stride=r.randint(1, 200),
            )
            first, past = 0, rows
            if rows > 16 * dim * blocks:
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
        if self.features.normalizations:
            actions += [self.config_norm, self.normalise, self.normalise, self.mvout, self.mvout]
        for _ in range(count):
            r.choice(actions)()
