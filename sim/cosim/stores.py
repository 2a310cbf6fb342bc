"""Random stores: rows, pooling and the 1-D mode, requantisation, functions of rows, normaliser commands (ISA specification, 4.3, 4.4 and 5)."""

from __future__ import annotations

from baco.accel.isa import IDENTITY_SCALE, KEEP_SCALE
from baco.sim.cosim.builder import (
    ACCUMULATOR,
    READ_FULL,
    REGION_BYTES,
    SCALES,
    LoadSettings,
    Rows,
    StoreSettings,
    StreamBuilder,
)

#: float32 bits of what sums of products are scaled by.
_SMALL = (0x3C23D70A, 0x3B03126F, 0xBA83126F, 0x39D1B717)


class StoreGenerator(StreamBuilder):
    """A stream that gets stores."""

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
        self.activation = r.randrange(4 if self.features.normalizations else 2)
        self.emit("CONFIG_ST", activation=self.activation, pool_stride=r.randint(1, 3) if mode == "pooled" else 0,
                  pool_size=r.randint(1, 3), upad=r.randint(0, 1), lpad=r.randint(0, 1), pool_out_dim=across,
                  porows=porows, pocols=pocols, orows=orows, ocols=ocols, stride=stride,
                  acc_scale=r.choice((*SCALES, KEEP_SCALE)))  # fmt: skip
        if not self.features.max_pool:
            mode = "gathered"
        last = (porows, pocols) if mode == "pooled" else (orows, ocols)
        self.st = StoreSettings(mode, stride, orows * ocols, (last[0] - 1) * across + last[1])

    def write_config_st(self, stride: int, activation: int = 0, scale: int | None = None) -> None:
        """CONFIG_ST without pooling, for stores that are no functions of whole rows."""
        r = self.random
        if self.function >= 2:
            self.write_config_function(r.getrandbits(1))
        self.emit("CONFIG_ST", activation=activation, stride=stride,
                  acc_scale=r.choice((*SCALES, KEEP_SCALE)) if scale is None else scale)  # fmt: skip
        self.st = StoreSettings("rows", stride)
        self.activation = activation

    def write_results(self, stride: int, *, scale: int | None = None) -> int:
        """CONFIG_ST as `write_config_st` with an activation that is drawn and returned."""
        r = self.random
        activation = r.getrandbits(1)
        if self.features.normalizations and r.random() < 0.6:
            activation = r.choice((2, 3, 4))
        self.write_config_st(stride, activation=activation & 3, scale=scale)
        if activation == 4:
            self._write_constants(1)
        return activation

    def config_output(self) -> None:
        """CONFIG_OUTPUT, before or after new scales of some columns."""
        r = self.random
        if self.chance(0.5):
            self.set_scales()
        low, high = (r.choice((-128, -128, r.randint(-128, 127))), r.choice((127, 127, r.randint(-128, 127))))
        zero = r.choice((0, -128, 127, r.randint(-128, 127)))
        self.emit(
            "CONFIG_OUTPUT", by_column=r.getrandbits(1), zero=zero & 255, low=low & 255, high=high & 255
        )
        if self.chance(0.3):
            self.set_scales()

    def set_scales(self, first: int | None = None) -> None:
        """SET_SCALES of some columns, some of which are not there; of all from `first` on."""
        r = self.random
        columns = r.sample(range(256), 1 + r.randrange(3)) if first is None else range(first, self.dim, 2)
        for column in columns:
            near = column % self.dim if first is None and self.chance(0.8) else column
            scale, other = (r.choice((*SCALES, r.getrandbits(32), *_SMALL)) for _ in range(2))
            self.emit("SET_SCALES", column=near, scales=scale | other << 32)

    def config_norm(self) -> None:
        """CONFIG_NORM: of the statistics slot alone, or of everything."""
        r = self.random
        if r.random() < 0.6:
            self.emit("CONFIG_NORM", stats_id=r.getrandbits(1), set_stats_id_only=1, activation_msb=r.getrandbits(1),
                      q_const=r.getrandbits(32), qb=r.getrandbits(32), qc=r.getrandbits(32))  # fmt: skip
            return
        softmax = self.activation in (0, 4) and r.random() < 0.7
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
            self.ld[0] = LoadSettings(1, 1, dim, cols)
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
        if self.chance(0.5):
            self.load_table()
        self.write_config_function(self.random.choice((0, 1, 2, 3, 3)))

    def load_table(self) -> None:
        """From some rows, where there are functions of rows and as many rows as it needs."""
        table_rows = max(1, 128 // self.dim)
        if self.features.row_functions and table_rows <= self.acc_rows:
            row = self.random.randrange(self.acc_rows - table_rows + 1)
            self.emit("LOAD_TABLE", table=ACCUMULATOR | row)

    def write_config_function(self, function: int) -> None:
        """CONFIG_FUNCTION with random settings."""
        r, dim = self.random, self.dim
        self.function, self.product = function, function == 3 and self.chance(0.4)
        self.parameters = r.randrange(self.acc_rows // 2 + 1 if self.product else self.acc_rows)
        parameter = ACCUMULATOR | self.parameters
        if self.function != 3:
            parameter = r.choice((r.getrandbits(32), 127 << 24, r.getrandbits(20), 0))
        apart = r.choice((0, 0, 1, r.randint(1, dim), r.randint(1, 255)))
        self.apart = (apart if function == 2 else 0) or dim
        self.emit("CONFIG_FUNCTION", apart=apart, function=self.function, centre=r.getrandbits(1), causal=r.getrandbits(1),
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
        reach = rows + (blocks - 1) * self.apart
        first = self.row(accumulator, reach)
        if self.product and first is not None:  # what it is multiplied by exists as well
            first = min(first, self.acc_rows - self.parameters - reach)
            if first < 0:
                return
        extent = self.st.stride * (rows - 1) + cols * self.element
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
        rows = self.size(dim)
        most = (
            1
            if full or st.mode != "rows"
            else max(64, self.accelerator.dma_max_bytes, 4 * dim) // (dim * self.element)
        )
        blocks = self.size(most) if r.random() < 0.5 else 1
        if blocks == 1 and st.mode == "rows" and norm == 0 and self.chance(0.2):
            rows = r.randint(1, 255)
        cols = (blocks - 1) * dim + self.size(dim)
        reach = rows + (blocks - 1) * dim if st.mode == "rows" else st.rows
        first = self.row(accumulator, reach)
        pixels = rows if st.mode == "rows" else st.pixels
        extent = st.stride * (pixels - 1) + cols * (4 if full else self.element)
        if first is None or extent >= REGION_BYTES:
            return
        flags = (ACCUMULATOR if accumulator else 0) | (READ_FULL if full else 0) | norm << 26
        self.emit("MVOUT", address=self.target(extent), local=flags | first, cols=cols, rows=rows)

    def mvout_spad(self) -> None:
        """MVOUT_SPAD: rows to the scratchpad, through a table or softmaxed if that is configured."""
        r, dim = self.random, self.dim
        if self.st.mode != "rows" or self.function == 3:
            return
        accumulator = r.random() < 0.6 and self.features.read_small_width
        accumulator &= self.activation < 2 or self.function < 2
        blocks = r.choice((1, r.randint(1, 12)))
        rows, cols = self.size(dim), (blocks - 1) * dim + self.size(dim)
        if blocks == 1 and self.function < 2 and self.chance(0.3):
            rows = r.randint(1, 255)
        stride = r.choice((1, 1, 2, 3)) if blocks == 1 else 1
        span, reach = (
            (blocks - 1) * (self.apart if self.function == 2 else dim) + rows,
            (blocks - 1) * dim + (rows - 1) * stride + 1,
        )
        source, target = self.row(accumulator, span), self.row(False, reach)
        if source is None or target is None:
            return
        if Rows(accumulator, source, source + span).meets(Rows(False, target, target + reach)):
            return
        self.emit("MVOUT_SPAD", destination=target, destination_stride=stride,
                  local=source | (ACCUMULATOR if accumulator else 0), cols=cols, rows=rows)  # fmt: skip
