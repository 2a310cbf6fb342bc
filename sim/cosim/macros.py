"""Random legal runs of the loop macros LOOP_WS and LOOP_CONV_WS (ISA specification, sections 7 and 8)."""

from __future__ import annotations

import math

from baco.accel.isa import IDENTITY_SCALE
from baco.sim.cosim.builder import REGION_BYTES, SCALES
from baco.sim.cosim.convolution import ConvolutionTile, draw_tile
from baco.sim.cosim.generate import Generator

#: b_spad_id, a_spad_id: default halves, one operand in a named half, both in different ones or the same.
_SPAD_IDS = ((0, 0), (0, 0), (0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (2, 2), (2, 1), (1, 2))


class MacroGenerator(Generator):
    """A generator that also runs the unrollers which the accelerator has; every run gets its full configuration.

    A macro ends with all configuration that it or its set-up touched known to the generator again.
    """

    slot = 0
    placed = (False, False)  # slots for which LOOP_WS_CONFIG_SPAD_AB was given
    mode: str | None = None  # of LOOP_WS since the last fence
    longest = 0  # else one size of a loop is anything up to it

    def fence(self) -> None:
        """As `Generator.fence`."""
        super().fence()
        self.mode = None

    def mixed(self, count: int) -> None:
        """`count` actions: runs of the unrollers that there are, with ordinary commands between some."""
        r = self.random
        actions = []
        readable = self.features.read_small_width or self.features.read_full_width
        if self.ws and self.features.loop_ws and readable:
            actions += [self.loop_ws, self.loop_ws, self.resadd]
        if self.ws and self.features.loop_conv and self.features.read_small_width:
            actions += [self.loop_conv, self.loop_conv]
        for _ in range(count):
            if actions:
                r.choice(actions)()
            if r.random() < 0.4 or not actions:
                self.ordinary(r.randint(1, 12))

    # ---------------------------------------------------------------- set-up

    def _load_state(self, number: int, stride: int, shrink: int = 0) -> None:
        self.emit("CONFIG_LD", shrink=shrink, state=number, pixel_repeats=1, block_stride=self.dim,
                  scale=self.random.choice(SCALES), stride=stride, packed=self.packs())  # fmt: skip
        state = self.ld[number]
        state.shrink, state.repeats, state.block_stride, state.stride = shrink, 1, self.dim, stride
        state.block_format = 0

    def _blocks(self) -> tuple[int, int, int] | None:
        """Blocks I, J, K that fit half of both memories."""
        r, dim = self.random, self.dim
        for _ in range(50):
            sizes = [r.choice((1, 1, 2, 3, 4, 5)) for _ in range(3)]
            if self.longest:
                sizes[r.randrange(3)] = int(2 ** r.uniform(1, math.log2(self.longest)))
            i, j, k = sizes
            fits = (i * k + k * j) * dim <= self.sp_rows // 2 and i * j * dim <= self.acc_rows // 2
            if fits and max(i, j) * max(j, k) * dim * dim * 5 < REGION_BYTES:
                return i, j, k
        return None

    def _enter(self, mode: str) -> None:
        if self.mode not in (None, mode):
            self.fence()
        self.mode = mode

    # ---------------------------------------------------------------- LOOP_WS

    def loop_ws(self) -> None:
        """Products of one shape, one to three, that may accumulate on each other."""
        r, dim, f, element = self.random, self.dim, self.features, self.element
        blocks = self._blocks()
        if blocks is None:
            return
        i, j, k = blocks
        pad_i, pad_j, pad_k = (r.choice((0, 0, r.randrange(dim))) for _ in range(3))
        m, n, depth = i * dim - pad_i, j * dim - pad_j, k * dim - pad_k
        a_t, b_t = r.choice(((0, 0), (1, 0), (0, 1)))
        full = int(not f.read_small_width or (f.read_full_width and r.random() < 0.4))
        low_d = r.getrandbits(1)
        a_pitch, b_pitch = (m if a_t else depth) + r.randrange(9), (depth if b_t else n) + r.randrange(9)
        d_pitch, c_pitch = r.choice((0, n, n + r.randrange(9))), n + r.randrange(9)
        d_extent, c_extent = (m * d_pitch + n) * 4, (m * c_pitch + n) * (4 if full else element)
        # the last block of B is fetched whole
        a_extent, b_extent = (
            ((depth if a_t else m) * a_pitch + dim) * element,
            ((k * dim + dim) * max(b_pitch, 1) + j * dim * b_pitch) * element,
        )
        if max(a_extent, b_extent, c_extent, d_extent) >= REGION_BYTES:
            return
        self._enter("product")
        self.write_config_ex(True, (a_t, b_t), 1, 1, activation=r.getrandbits(1))
        self._load_state(0, a_pitch * element)
        self._load_state(1, b_pitch * element)
        self._load_state(2, d_pitch * (element if low_d else 4), low_d)
        self.write_results(c_pitch * (4 if full else element))
        a, b = self.source(a_extent), self.source(b_extent)
        for _ in range(r.randint(1, 3)):
            to_scratchpad = int(f.read_small_width and r.random() < 0.15 and i * j * dim <= self.sp_rows)
            self.emit("LOOP_WS_CONFIG_BOUNDS", pad_i=pad_i, pad_j=pad_j, pad_k=pad_k, i=i, j=j, k=k)
            # a null operand is what the rows already hold
            self.emit(
                "LOOP_WS_CONFIG_ADDRS_AB", a=0 if self.chance(0.15) else a, b=0 if self.chance(0.15) else b
            )
            self.emit("LOOP_WS_CONFIG_ADDRS_DC", d=self.source(d_extent) if r.random() < 0.5 else 0,
                      c=self.target(c_extent) if r.random() < 0.7 else 0)  # fmt: skip
            self.emit("LOOP_WS_CONFIG_STRIDES_AB", a_stride=a_pitch, b_stride=b_pitch)
            self.emit("LOOP_WS_CONFIG_STRIDES_DC", d_stride=d_pitch, c_stride=c_pitch)
            if r.random() < 0.1:
                self.emit("LOOP_WS_CONFIG_SPAD_C")
            b_id, a_id = r.choice(_SPAD_IDS)
            if r.random() < 0.15 or self.placed[self.slot]:
                self._place(i * k * dim, k * j * dim)
                b_id = a_id = 0
            skips = {f"skip_{phase}": int(r.random() < 0.07) for phase in ("a", "b", "d", "ex", "st")}
            act = self._act(bool(full or to_scratchpad))
            self.emit("LOOP_WS", ex_accumulate=r.getrandbits(1), full_c=full and not to_scratchpad, low_d=low_d, act=act,
                      b_spad_id=b_id, a_spad_id=a_id, a_transpose=a_t, b_transpose=b_t, spad_only=to_scratchpad,
                      inc_acc_addr=to_scratchpad & r.getrandbits(1), b_packed=self.packs(),
                      c_spad_addr=r.randint(0, self.sp_rows - i * j * dim) if to_scratchpad else 0, **skips)  # fmt: skip
            self.slot ^= 1
        self.fresh = True

    def _place(self, a_rows: int, b_rows: int) -> None:
        """A and B of the slot that is being filled anywhere, apart."""
        rows, r = self.sp_rows, self.random
        if r.getrandbits(1):
            start = r.randint(0, rows - a_rows - b_rows)
            end = r.randint(start + a_rows + b_rows, rows)
        else:
            end = r.randint(b_rows, rows - a_rows)
            start = r.randint(end, rows - a_rows)
        self.emit("LOOP_WS_CONFIG_SPAD_AB", a_start=start, b_end=end)
        placed = list(self.placed)
        placed[self.slot] = True
        self.placed = (placed[0], placed[1])

    def _act(self, plain: bool) -> int:
        """What LOOP_WS is to make of rows of results: mostly what is configured; `plain`: nothing."""
        if plain or not self.features.normalizations:
            return 0
        return (
            self.activation
            if self.activation in (2, 4) and self.chance(0.7)
            else self.random.choice((0, 2, 4))
        )

    def resadd(self) -> None:
        """C = A + B element by element, one to three tiles."""
        r, dim, f, element = self.random, self.dim, self.features, self.element
        blocks = self._blocks()
        if blocks is None:
            return
        i, j, _ = blocks
        pad_i, pad_j = (r.choice((0, r.randrange(dim))) for _ in range(2))
        m, n = i * dim - pad_i, j * dim - pad_j
        a_pitch, b_pitch, c_pitch = (n + r.randrange(9) for _ in range(3))
        full = int(not f.read_small_width or (f.read_full_width and r.random() < 0.3))
        extents = (
            (m * a_pitch + n) * element,
            (i * dim * b_pitch + n) * element,
            (m * c_pitch + n) * (4 if full else element),
        )
        if max(extents) >= REGION_BYTES:
            return
        self._enter("resadd")
        self._load_state(0, a_pitch * element, shrink=1)
        self._load_state(1, b_pitch * element, shrink=1)
        self.write_results(c_pitch * (4 if full else element))
        for _ in range(r.randint(1, 3)):
            self.emit("LOOP_WS_CONFIG_BOUNDS", pad_i=pad_i, pad_j=pad_j, i=i, j=j, k=0)
            self.emit("LOOP_WS_CONFIG_ADDRS_AB", a=self.source(extents[0]), b=self.source(extents[1]))
            self.emit("LOOP_WS_CONFIG_ADDRS_DC", d=0, c=self.target(extents[2]))
            self.emit("LOOP_WS_CONFIG_STRIDES_AB", a_stride=a_pitch, b_stride=b_pitch)
            self.emit("LOOP_WS_CONFIG_STRIDES_DC", d_stride=0, c_stride=c_pitch)
            self.emit("LOOP_WS", full_c=full, act=self._act(bool(full)), is_resadd=1, b_packed=self.packs())
            self.slot ^= 1

    # ---------------------------------------------------------------- LOOP_CONV_WS

    def loop_conv(self) -> None:
        """A convolution tile, perhaps in two parts that accumulate."""
        for _ in range(60):
            tile = draw_tile(self.random, self.accelerator, self.longest)
            if (
                tile is not None
                and max(tile.input_bytes, tile.weight_bytes, tile.output_bytes) < REGION_BYTES - 8
            ):
                self._run_conv(tile)
                return

    def _run_conv(self, t: ConvolutionTile) -> None:
        r, dim = self.random, self.dim
        self.write_config_ex(
            True, (t.trans_input_3120, t.trans_weight_0132), t.stride >> t.downsample, 2 if t.dilated else 1
        )
        activation = self.write_results(t.store_stride) & 3
        parts = r.randint(1, 2)
        for part in range(parts):
            self.emit("LOOP_CONV_WS_CONFIG_1", batch_size=t.batch, in_row_dim=t.in_row_dim, in_channels=t.in_channels,
                      out_channels=t.out_channels, out_row_dim=t.out_row_dim, pool_out_row_dim=t.pool_out_row_dim,
                      out_col_dim=t.out_col_dim, stride=t.stride)  # fmt: skip
            self.emit("LOOP_CONV_WS_CONFIG_2", pool_stride=t.pool_stride, pool_size=t.pool_size,
                      pool_out_col_dim=t.pool_out_col_dim, kernel_dim=t.kernel, pochs=t.ochs, pocols=t.pocols,
                      porows=t.porows, batches=t.batch)  # fmt: skip
            self.emit("LOOP_CONV_WS_CONFIG_3", lpad=t.lpad, kchs=t.ichs, kcols=t.kernel, krows=t.kernel,
                      in_col_dim=t.in_col_dim, plpad=t.plpad, dpad=t.dpad, upad=t.upad, rpad=t.rpad)  # fmt: skip
            self.emit("LOOP_CONV_WS_CONFIG_4", kernel_dilation=t.kernel_dilation, pupad=t.pupad, orows=t.orows,
                      ocols=t.ocols, out_stride=t.out_stride, weight_stride=t.weight_stride, in_stride=t.in_stride)  # fmt: skip
            last = part == parts - 1
            self.emit("LOOP_CONV_WS_CONFIG_5", weights=0 if part and self.chance(0.1) else self.source(t.weight_bytes),
                      output=self.target(t.output_bytes) if last else 0)  # fmt: skip
            bias = self.source(4 * t.ochs) if part == 0 or r.random() < 0.2 else 0
            self.emit(
                "LOOP_CONV_WS_CONFIG_6",
                bias=bias,
                input=0 if part and self.chance(0.1) else self.source(t.input_bytes),
            )
            b_id, a_id = r.choice(((0, 0), (0, 0), (1, 1), (2, 2), (1, 2), (2, 1)))
            self.emit("LOOP_CONV_WS", no_bias=r.getrandbits(1), wrot180=t.wrot180, trans_output_1203=t.trans_output_1203,
                      trans_weight_1203=t.trans_weight_1203, trans_weight_0132=t.trans_weight_0132,
                      trans_input_3120=t.trans_input_3120, dw=t.depthwise, max_pixels_per_row=t.pixels,
                      b_spad_id=b_id, a_spad_id=a_id, no_pool=1 - t.pooled, downsample=t.downsample,
                      input_dilated=t.dilated, activation=activation, weights_packed=self.packs())  # fmt: skip
        self.fresh = True
        # the macro leaves its own strides behind: configure what it touched anew
        for number in range(3):
            self._load_state(number, r.choice((0, dim, r.randint(1, 200))), r.getrandbits(1))
        self.write_results(r.choice((dim, r.randint(1, 64))), scale=IDENTITY_SCALE)
        if t.trans_input_3120:
            self.config_ex(ws=True)
