"""Random legal runs of LOOP_WS and LOOP_CONV_WS on top of `random_program`."""

from __future__ import annotations

from tests.sim.random_program import BASE, INPUT_BYTES, ONE, OUTPUT, OUTPUT_BYTES, SCALES, Program


def ceil(n: int, m: int) -> int:
    return -(-n // m)


class LoopProgram(Program):
    """A program whose next actions may be loop macros; every run comes with its full configuration."""

    def input_at(self, extent: int) -> int:
        """A main-memory address with `extent` readable bytes behind it (never the null address)."""
        assert extent < INPUT_BYTES, extent
        return BASE + self.random.randrange(INPUT_BYTES - extent)

    def output_at(self, extent: int) -> int:
        assert extent < OUTPUT_BYTES, extent
        return OUTPUT + self.random.randrange(OUTPUT_BYTES - extent)

    def load(self, state: int, stride: int, shrink: int = 0, scale: int = ONE) -> None:
        self.cmd(0, 1 | shrink << 2 | state << 3 | 1 << 8 | self.dim << 16 | scale << 32, stride)

    def matmul_shape(self) -> tuple[int, int, int]:
        """Blocks (BI, BJ, BK) that fit half of both memories."""
        r, dim, c = self.random, self.dim, self.config
        while True:
            BI, BJ, BK = (r.choice((1, 1, 2, 3, 4, 5)) for _ in range(3))
            if (
                BI * BK + BK * BJ
            ) * dim <= c.scratchpad_rows // 2 and BI * BJ * dim <= c.accumulator_rows // 2:
                return BI, BJ, BK

    def loop_ws(self, spad_only: bool = True) -> None:
        """One product tile, sometimes several that accumulate, with any flags that keep it legal."""
        r, dim, c = self.random, self.dim, self.config
        BI, BJ, BK = self.matmul_shape()
        pads = [r.choice((0, 0, r.randrange(dim))) for _ in range(3)]
        M, N, D = BI * dim - pads[0], BJ * dim - pads[1], BK * dim - pads[2]
        a_t, b_t = r.choice(((0, 0), (1, 0), (0, 1)))
        full = r.getrandbits(1) if c.read_full_width else 0
        if not c.read_small_width:
            full = 1
        low_d = r.getrandbits(1)
        a_pitch, b_pitch = (M if a_t else D) + r.randrange(9), (D if b_t else N) + r.randrange(9)
        d_pitch, c_pitch = r.choice((0, N, N + r.randrange(9))), N + r.randrange(9)
        self.config_ex(ws=True, strides=False, transposes=(a_t, b_t))
        self.load(0, a_pitch, scale=r.choice(SCALES))
        self.load(1, b_pitch, scale=r.choice(SCALES))
        self.load(2, d_pitch * (1 if low_d else 4), shrink=low_d, scale=r.choice(SCALES))
        self.config_st(plain=True, stride=c_pitch * (4 if full else 1))
        a = self.input_at((D if a_t else M) * a_pitch + a_pitch)
        b = self.input_at((N if b_t else D) * b_pitch + b_pitch)
        for _ in range(r.randint(1, 3)):
            to_spad = spad_only and c.read_small_width and r.random() < 0.15
            d = self.input_at((M * d_pitch + N) * 4) if r.random() < 0.5 else 0
            out = self.output_at((M * c_pitch + N) * 4) if r.random() < 0.7 else 0
            ids = r.choice((0, 0, 1, 2, 0x5, 0xA, 0x4, 0x8, 0x9))  # b_spad_id, a_spad_id << 2
            self.cmd(9, pads[2] << 32 | pads[1] << 16 | pads[0], BK << 32 | BJ << 16 | BI)
            # a null operand is what the rows already hold
            self.cmd(10, 0 if r.random() < 0.15 else a, 0 if r.random() < 0.15 else b)
            self.cmd(11, d, out)
            self.cmd(12, a_pitch, b_pitch)
            self.cmd(13, d_pitch, c_pitch)
            if r.random() < 0.2:
                self.cmd(25, 0, 0)
            flags = a_t | b_t << 1
            target = 0
            if r.random() < 0.2 or 24 in self.model.ws.slots[self.model.ws.slot].payload:
                self.place(BI * BK * dim, BK * BJ * dim)
                ids = 0
            if to_spad and BI * BJ * dim <= c.scratchpad_rows:
                flags |= r.getrandbits(1) << 8 | 1 << 9
                target = r.randrange(c.scratchpad_rows - BI * BJ * dim + 1)
            for skip in range(3, 8):
                flags |= (r.random() < 0.07) << skip
            raw = full and not flags >> 9 & 1
            self.cmd(8, r.getrandbits(1) | raw << 1 | low_d << 2 | ids << 16, flags | target << 32)
        self.fresh = True

    def place(self, a_rows: int, b_rows: int) -> None:
        """SPAD_AB: A and B of the slot to be filled anywhere, apart."""
        rows, r = self.config.scratchpad_rows, self.random
        if r.getrandbits(1):
            start = r.randint(0, rows - a_rows - b_rows)
            end = r.randint(start + a_rows + b_rows, rows)
        else:
            end = r.randint(b_rows, rows - a_rows)
            start = r.randint(end, rows - a_rows)
        self.cmd(24, start, end)

    def resadd(self) -> None:
        """C = A + B, element by element."""
        r, dim, c = self.random, self.dim, self.config
        BI, BJ, _ = self.matmul_shape()
        pads = [r.choice((0, r.randrange(dim))) for _ in range(2)]
        M, N = BI * dim - pads[0], BJ * dim - pads[1]
        a_pitch, b_pitch, c_pitch = (N + r.randrange(9) for _ in range(3))
        self.load(0, a_pitch, shrink=1, scale=r.choice(SCALES))
        self.load(1, b_pitch, shrink=1, scale=r.choice(SCALES))
        full = 0 if c.read_small_width else 1
        self.config_st(plain=True, stride=c_pitch * (4 if full else 1))
        self.fence()
        for _ in range(r.randint(1, 3)):
            self.cmd(9, pads[1] << 16 | pads[0], r.randrange(3) << 32 | BJ << 16 | BI)
            self.cmd(10, self.input_at(M * a_pitch + N), self.input_at(M * b_pitch + N))
            self.cmd(11, 0, self.output_at((M * c_pitch + N) * 4))
            self.cmd(12, a_pitch, b_pitch)
            self.cmd(13, 0, c_pitch)
            self.cmd(8, full << 1, 1 << 2)
        self.fence()

    def loop_conv(self) -> None:
        """One convolution tile, perhaps split over input channels; geometry is drawn until it fits."""
        c = self.config
        if not c.read_small_width:
            return
        for _ in range(200):
            if self.try_conv():
                self.fresh = True
                return

    def try_conv(self) -> bool:
        r, dim, c = self.random, self.dim, self.config
        kind = r.choice(("plain", "plain", "pool", "first", "down", "dw", "rot", "w1203", "w0132", "out1203", "in3120", "dilated"))  # fmt: skip
        if kind in ("rot", "w1203", "w0132", "out1203", "in3120", "dilated") and not c.training_convs:
            return False
        if kind == "dw" and not c.depthwise_convs:
            return False
        kernel = 1 if kind == "down" else r.randint(1, 3)
        stride = {"down": 2, "dilated": 1}.get(kind, r.randint(1, 2))
        kd = r.choice((1, 1, 2)) if kind in ("plain", "dilated") else 1
        batch = r.randint(1, 2 * dim if kind == "in3120" and dim < 8 else 3)
        ichs = 1 if kind == "dw" else r.randint(1, max(1, dim // 2) if kind == "first" else 2 * dim)
        ochs = 1 if kind == "dw" else r.randint(1, 2 * dim)
        orows, ocols = r.randint(1, 5), r.choice((r.randint(1, 6), r.randint(1, dim + 3)))
        pooled = kind == "pool" and c.max_pool
        dk = kernel + (kd - 1) * (kernel - 1)
        dilated = int(kind == "dilated")
        und = lambda x: (x + 1) // 2 if dilated else x  # noqa: E731
        rows, cols = orows * stride + dk - 1, ocols * stride + dk - 1
        pad = lambda n: 0 if kind == "down" else r.randint(0, min(n, 2))  # noqa: E731
        up, left = pad(dk - 1), pad(dk - 1)
        down, right = pad(dk - 1) + (0 if kind == "down" else r.randint(0, stride - 1)), pad(dk - 1)
        inner_rows, inner_cols = und(rows - up - down), und(cols - left - right)
        if rows - up - down < 1 or cols - left - right < 1:
            return False
        ds = int(kind == "down")
        h, w = inner_rows + und(up) + und(down), inner_cols + und(left) + und(right)
        image = (h >> ds) * (w >> ds)
        in_rows = (ceil(batch, dim) * ichs if kind == "in3120" else ceil(ichs, dim) * batch) * image
        w_rows = kernel * kernel * (ceil(ichs, dim) * ochs if kind == "w0132" else ceil(ochs, dim) * ichs)
        if in_rows + w_rows > c.scratchpad_rows // 2:
            return False
        if ceil(ochs, dim) * batch * orows * ocols > c.accumulator_rows // 2:
            return False
        pixels = min(kernel, dim // ichs, r.randint(1, 3)) if kind == "first" and ichs <= dim else 1

        in_channels, out_channels = ichs + r.randrange(4), ochs + r.randrange(4)
        in_row_dim, in_col_dim = inner_rows + r.randrange(2), inner_cols + r.randrange(2)
        out_row_dim, out_col_dim = orows + r.randrange(2), ocols + r.randrange(2)
        if kind == "in3120":
            ocols_limit = 1
            if stride * ocols_limit > 65535:
                return False
        in_stride, weight_stride, out_stride = (
            n + r.randrange(3) for n in (in_channels, out_channels, out_channels)
        )
        pool_size, pool_stride = r.randint(1, 3), r.randint(1, 3)
        pool_up, pool_left = r.randint(0, pool_size - 1), r.randint(0, pool_size - 1)
        porows = (orows + pool_up - pool_size) // pool_stride + 1 + r.randint(0, 1)
        pocols = (ocols + pool_left - pool_size) // pool_stride + 1 + r.randint(0, 1)
        if pooled and (porows < 1 or pocols < 1):
            return False
        pool_rows, pool_cols = max(porows, 1) + r.randrange(2), max(pocols, 1) + r.randrange(2)
        extents = (
            batch * in_row_dim * in_col_dim * max(in_stride, 1) * (1 if kind != "in3120" else ichs),
            kernel * kernel * max(in_channels, ichs) * max(weight_stride, out_channels) + 4 * dim,
            batch * (out_row_dim + pool_rows) * (out_col_dim + pool_cols) * out_stride + ochs,
        )
        if extents[0] >= INPUT_BYTES or extents[1] >= INPUT_BYTES or extents[2] >= OUTPUT_BYTES:
            return False

        t_in, t_w0132 = int(kind == "in3120"), int(kind == "w0132")
        self.cmd(
            0, 1 << 2 | t_in << 8 | t_w0132 << 9 | (stride >> ds) << 16 | ONE << 32, (2 if dilated else 1) << 48
        )  # fmt: skip
        if t_in and t_w0132:
            return False
        activation = r.getrandbits(1)
        store = batch * out_channels if kind == "out1203" else out_stride
        self.cmd(0, 2 | activation << 2, store | r.choice(SCALES) << 32)
        parts = r.randint(1, 2)
        for part in range(parts):
            out = self.output_at(extents[2]) if part == parts - 1 else 0
            bias = self.input_at(4 * ochs) if part == 0 or r.random() < 0.2 else 0
            self.cmd(16, out_channels << 48 | in_channels << 32 | in_row_dim << 16 | batch,
                     stride << 48 | out_col_dim << 32 | pool_rows << 16 | out_row_dim)  # fmt: skip
            self.cmd(17, kernel << 48 | pool_cols << 32 | pool_size << 16 | pool_stride << 8,
                     batch << 48 | porows % 65536 << 32 | pocols % 65536 << 16 | ochs)  # fmt: skip
            self.cmd(18, kernel << 48 | kernel << 32 | ichs << 16 | left,
                     right << 48 | up << 32 | down << 24 | pool_left << 16 | in_col_dim)  # fmt: skip
            self.cmd(
                19,
                orows << 48 | pool_up << 21 | kd,
                in_stride << 48 | weight_stride << 32 | out_stride << 16 | ocols,
            )
            self.cmd(20, self.input_at(extents[1]), out)
            self.cmd(21, bias, self.input_at(extents[0]))
            flags = (
                r.getrandbits(1) | int(kind == "rot") << 1 | int(kind == "out1203") << 2 | int(kind == "w1203") << 3
                | t_w0132 << 4 | t_in << 5 | int(kind == "dw") << 6 | pixels << 8 | r.choice((0, 0, 5, 10)) << 16
            )  # fmt: skip
            self.cmd(15, flags, int(not pooled) | ds << 1 | dilated << 2 | activation << 3)
        return True

    def mixed(self, count: int, mvout_spad: bool = True) -> None:
        """`count` actions: runs of the unrollers that are built, between ordinary commands."""
        c = self.config
        actions = [] if not (c.loop_ws and c.ws) else [self.loop_ws, self.loop_ws, self.resadd]
        if c.loop_conv and c.ws:
            actions += [self.loop_conv, self.loop_conv]
        for _ in range(count):
            self.random.choice(actions)()
            if self.random.random() < 0.3:
                self.ordinary(10, mvout_spad)
