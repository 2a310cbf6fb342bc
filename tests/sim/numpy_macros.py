"""LOOP_WS and LOOP_CONV_WS as whole-matrix formulas (ISA specification, sections 7 and 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.sim.normaliser import INV_STDDEV, INV_SUM_EXP, MAX, MEAN, Normaliser

if TYPE_CHECKING:
    from tests.sim.numpy_gemmini import ExecuteState, GemminiConfig, LoadState, StoreState


def bits(value: int, high: int, low: int) -> int:
    return (value >> low) & ((1 << (high - low + 1)) - 1)


def wrap(x: np.ndarray, width: int) -> np.ndarray:
    half = 1 << (width - 1)
    return (x + half) % (2 * half) - half


class LoopMacros:
    """The loop unrollers of NumpyGemmini; their state is two slots and the accumulator half of each phase."""

    config: GemminiConfig
    dim: int
    sp: np.ndarray
    acc: np.ndarray
    weights: np.ndarray
    ex: ExecuteState
    ld: list[LoadState]
    st: StoreState
    normaliser: Normaliser

    if TYPE_CHECKING:

        def read(self, addresses: np.ndarray, size: int) -> np.ndarray: ...
        def write(self, addresses: np.ndarray, values: np.ndarray, size: int) -> None: ...
        def scaled_load(self, values: np.ndarray, state: LoadState, wide: bool) -> np.ndarray: ...
        def narrowed(self, values: np.ndarray) -> np.ndarray: ...
        def by_table(self, values: np.ndarray) -> np.ndarray: ...

    def reset_macros(self) -> None:
        self.slots: list[dict[int, tuple[int, int]]] = [{}, {}]  # LOOP_WS: funct -> (rs1, rs2)
        self.conv_slots: list[dict[int, tuple[int, int]]] = [{}, {}]
        self.slot = self.conv_slot = self.conv_half = 0
        self.halves = {"load": 0, "compute": 0, "store": 0}

    def macro(self, funct: int, rs1: int, rs2: int) -> None:
        if funct == 8:
            self.loop_ws(rs1, rs2)
        elif funct == 15:
            self.loop_conv(rs1, rs2)
        elif 16 <= funct <= 21:
            self.conv_slots[self.conv_slot][funct] = (rs1, rs2)
        elif funct != 25:
            self.slots[self.slot][funct] = (rs1, rs2)

    # LOOP_WS

    def blocked(self, start: int, rows: int, cols: int, block_cols: int) -> tuple[np.ndarray, np.ndarray]:
        """Local (row, column) of every element of a matrix kept as dim x dim blocks in row-major order."""
        r, c = np.mgrid[0:rows, 0:cols]
        row = start + (r // self.dim * block_cols + c // self.dim) * self.dim + r % self.dim
        return row, c % self.dim

    def loop_ws(self, rs1: int, rs2: int) -> None:
        dim, slot, c = self.dim, self.slots[self.slot], self.config
        (pads, sizes), (a, b), (d, out) = slot[9], slot[10], slot[11]
        (a_pitch, b_pitch), (d_pitch, out_pitch) = slot[12], slot[13]
        resadd = bits(rs2, 2, 2)
        BI, BJ, BK = bits(sizes, 15, 0), bits(sizes, 31, 16), 0 if resadd else bits(sizes, 47, 32)
        M, N, D = BI * dim - bits(pads, 15, 0), BJ * dim - bits(pads, 31, 16), BK * dim - bits(pads, 47, 32)
        accumulate, full, low_d = bits(rs1, 0, 0), bits(rs1, 1, 1), bits(rs1, 2, 2)
        a_t, b_t = bits(rs2, 0, 0), bits(rs2, 1, 1)
        skip_a, skip_b, skip_d, skip_ex, skip_st = (bits(rs2, n, n) for n in range(3, 8))
        to_spad = bits(rs2, 9, 9)
        half, acc_half = c.scratchpad_rows // 2, c.accumulator_rows // 2

        own_a, own_b = slot.get(24, (self.slot * half, (self.slot + 1) * half))
        own_a, own_b = own_a % 2**32, own_b % 2**32
        b_id, a_id = bits(rs1, 17, 16), bits(rs1, 19, 18)
        a_start = (a_id - 1) * half if a_id else own_a
        b_start = (b_id * half if b_id else own_b) - BK * BJ * dim
        advance = bits(rs2, 8, 8) if to_spad else out != 0
        starts = {name: value * acc_half for name, value in self.halves.items()}
        self.halves["load"] ^= int(out != 0 and not skip_d)
        self.halves["compute"] ^= int(bool(advance) and not skip_ex)
        self.halves["store"] ^= int(bool(advance) and not skip_st)

        def element(base: int, pitch: int, rows: int, cols: int, size: int) -> np.ndarray:
            r, k = np.mgrid[0:rows, 0:cols]
            return base + (r * pitch + k) * size

        if resadd:
            assert not d
            starts["store"] = self.slot * acc_half
            at = self.blocked(starts["store"], M, N, BJ)
            if a and not skip_a:
                self.acc[at] = self.scaled_load(self.read(element(a, a_pitch, M, N, 1), 1), self.ld[0], False)
            if b and not skip_b:
                term = self.scaled_load(self.read(element(b, b_pitch, M, N, 1), 1), self.ld[1], False)
                self.acc[at] = wrap(self.acc[at] + term, 32)
        else:
            if d and not skip_d:
                size = 1 if low_d else 4
                value = self.read(element(d, d_pitch, M, N, size), size)
                self.acc[self.blocked(starts["load"], M, N, BJ)] = self.scaled_load(
                    value, self.ld[2], not low_d
                )
            a_at = self.blocked(a_start, D, M, BI) if a_t else self.blocked(a_start, M, D, BK)
            b_at = self.blocked(b_start, N, D, BK) if b_t else self.blocked(b_start, D, N, BJ)
            if a and not skip_a:
                value = self.read(element(a, a_pitch, *a_at[0].shape, 1), 1)
                self.sp[a_at] = self.scaled_load(value, self.ld[0], False)
            if b and not skip_b:
                value = self.read(element(b, b_pitch, *b_at[0].shape, 1), 1)
                self.sp[b_at] = self.scaled_load(value, self.ld[1], False)
            if not skip_ex:
                if to_spad:  # the computation then ignores the half numbers
                    a_at = (a_at[0] - a_start + own_a, a_at[1])
                    b_at = (b_at[0] - b_start + own_b - BK * BJ * dim, b_at[1])
                A = self.sp[a_at].T if a_t else self.sp[a_at]
                B = self.sp[b_at].T if b_t else self.sp[b_at]
                at = self.blocked(starts["compute"], M, N, BJ)
                total = self.acc[at] if accumulate else np.zeros((M, N), np.int64)
                for k in range(0, D, dim):  # every pass of the array wraps its partial sums
                    total = total + wrap(A[:, k : k + dim] @ B[k : k + dim], c.partial_sum_bits)
                self.acc[at] = wrap(total, 32)
                last = B[(BK - 1) * dim :, (BJ - 1) * dim :]
                self.weights = np.zeros((dim, dim), np.int64)
                self.weights[: last.shape[0], : last.shape[1]] = last
        self.slot ^= 1
        if skip_st or not (out or to_spad):
            return
        values = self.acc[self.blocked(starts["store"], M, N, BJ)]
        act = bits(rs1, 10, 8)
        if act in (2, 4):
            self.write(element(out, out_pitch, M, N, 1), self.by_table(self.normalised(values, act)), 1)
            return
        if not to_spad:
            self.normaliser.leave()
        if to_spad:
            self.sp[self.blocked(bits(rs2, 63, 32), M, N, BJ)] = self.by_table(self.narrowed(values))
        elif full:
            self.write(element(out, out_pitch, M, N, 4), values, 4)
        else:
            self.write(element(out, out_pitch, M, N, 1), self.by_table(self.narrowed(values)), 1)

    def normalised(self, values: np.ndarray, act: int) -> np.ndarray:
        """Rows of int32 with their statistics taken before: rows of a block in turn in two slots."""
        result = np.zeros_like(values)
        for r, row in enumerate(values):
            self.normaliser.slot = r % self.dim % 2
            for command in (MEAN, INV_STDDEV) if act == 2 else (MAX, INV_SUM_EXP):
                self.normaliser.take(row, command)
            self.normaliser.leave()
            result[r] = self.narrowed(row)
        return result

    # LOOP_CONV_WS

    def conv_fields(self, rs1: int, rs2: int) -> dict[str, Any]:
        """Every field of a run by its name in the specification."""
        s = self.conv_slots[self.conv_slot]
        layout = {
            16: ("out_channels 63 48, in_channels 47 32, in_row_dim 31 16, batch_size 15 0",
                 "padding 63 56, stride 55 48, out_col_dim 47 32, pool_out_row_dim 31 16, out_row_dim 15 0"),
            17: ("kernel_dim 63 48, pool_out_col_dim 47 32, pool_size 31 16, pool_stride 15 8",
                 "batches 63 48, porows 47 32, pocols 31 16, ochs 15 0"),
            18: ("krows 63 48, kcols 47 32, ichs 31 16, lpad 15 0",
                 "rpad 63 48, upad 47 32, dpad 31 24, plpad 23 16, in_col_dim 15 0"),
            19: ("orows 63 48, pupad 31 21, kernel_dilation 9 0",
                 "in_stride 63 48, weight_stride 47 32, out_stride 31 16, ocols 15 0"),
            20: ("weights 63 0", "output 63 0"),
            21: ("bias 63 0", "input 63 0"),
        }  # fmt: skip
        f: dict[str, Any] = {}
        registers = [
            (value, text) for n, texts in layout.items() for value, text in zip(s[n], texts, strict=True)
        ]
        run = (
            "no_bias 0 0, wrot180 1 1, out1203 2 2, w1203 3 3, w0132 4 4, in3120 5 5, dw 6 6, pixels 15 8, b_id 17 16, a_id 19 18",
            "no_pool 0 0, ds 1 1, dilated 2 2, act 4 3",
        )
        for value, text in [*registers, (rs1, run[0]), (rs2, run[1])]:
            for item in text.split(","):
                name, high, low = item.split()
                f[name] = bits(value, int(high), int(low))
        c = self.config
        if not c.training_convs:
            f.update(wrot180=0, out1203=0, w1203=0, w0132=0, in3120=0, dilated=0)
        if not c.depthwise_convs:
            f["dw"] = 0
        f["pixels"] = max(1, f["pixels"]) if c.first_layer else 1
        if not c.max_pool:
            f["no_pool"] = 1
        return f

    def loop_conv(self, rs1: int, rs2: int) -> None:
        f, dim, c = self.conv_fields(rs1, rs2), self.dim, self.config
        half, acc_half = c.scratchpad_rows // 2, c.accumulator_rows // 2
        ceil = lambda n: -(-n // dim)  # noqa: E731
        dil, stride, kd = f["dilated"], f["stride"], f["kernel_dilation"]
        und = lambda x: (x + 1) // 2 if dil else x  # noqa: E731
        B, R, C, ich, och = f["batches"], f["orows"], f["ocols"], f["ichs"], f["ochs"]
        krows, kcols = f["krows"], f["kcols"]
        top, bottom, left, right = und(f["upad"]), und(f["dpad"]), und(f["lpad"]), und(f["rpad"])
        inner_rows = und(R * stride + krows + (kd - 1) * (krows - 1) - 1 - f["upad"] - f["dpad"])
        inner_cols = und(C * stride + kcols + (kd - 1) * (kcols - 1) - 1 - f["lpad"] - f["rpad"])
        step = 2 if f["ds"] else 1
        H, W = (inner_rows + top + bottom) // step, (inner_cols + left + right) // step
        a_half = f["a_id"] - 1 if f["a_id"] else self.conv_slot
        b_half = f["b_id"] - 1 if f["b_id"] else self.conv_slot

        # Where every element of the padded input, the weights and the output lives.
        b, r, x, q = np.mgrid[0:B, 0:H, 0:W, 0:ich]
        if f["in3120"]:
            in_row, in_col = a_half * half + ((b // dim * ich + q) * H + r) * W + x, b % dim
        else:
            in_row, in_col = a_half * half + ((q // dim * B + b) * H + r) * W + x, q % dim
        kr, kc, wi, wo = np.mgrid[0:krows, 0:kcols, 0:ich, 0:och]
        if f["w0132"]:
            w_start = (b_half + 1) * half - ceil(ich) * krows * kcols * och
            w_row, w_col = w_start + ((wi // dim * krows + kr) * kcols + kc) * och + wo, wi % dim
        else:
            w_start = (b_half + 1) * half - ceil(och) * krows * kcols * ich
            w_row, w_col = w_start + ((wo // dim * krows + kr) * kcols + kc) * ich + wi, wo % dim
        ob, orow, ocol, oc = np.mgrid[0:B, 0:R, 0:C, 0:och]
        out_row = self.conv_half * acc_half + ((oc // dim * B + ob) * R + orow) * C + ocol
        out_at = (out_row, oc % dim)

        plain = type(self.ld[0])
        if f["bias"]:
            self.acc[out_at] = 0 if f["no_bias"] else self.read(f["bias"] + 4 * oc, 4)
            self.ld[2] = plain(block_stride=B * R * C)
        if f["weights"]:
            k, inc, outc = f["kernel_dim"], f["in_channels"], f["out_channels"]
            element, pitch = ((kr * k + kc) * inc + wi) * f["weight_stride"] + wo, f["weight_stride"]
            if f["dw"]:
                element, pitch = kr * k + kc, 1
            elif f["w1203"]:
                element, pitch = (wi * k * k + kr * k + kc) * outc + wo, k * k * outc
            elif f["w0132"]:
                element, pitch = ((kr * k + kc) * outc + wo) * inc + wi, inc
            self.sp[w_row, w_col] = self.read(f["weights"] + element, 1)
            self.ld[1] = plain(block_stride=krows * kcols * (och if f["w0132"] else ich), stride=pitch)
        if f["input"]:
            ir, ic = r * step - top, x * step - left
            inside = (ir >= 0) & (ir < inner_rows) & (ic >= 0) & (ic < inner_cols)
            if f["in3120"]:
                element = ((q * f["in_row_dim"] + ir) * f["in_col_dim"] + ic) * B + b
                pitch = f["batch_size"]
                assert pitch == B or W == 1
            else:
                element = ((b * f["in_row_dim"] + ir) * f["in_col_dim"] + ic) * f["in_stride"] + q
                pitch = f["in_stride"] << f["ds"]
            values = np.where(
                inside, self.read(np.where(inside, f["input"] + element, self.base_address()), 1), 0
            )
            for p in range(f["pixels"]):
                kept = in_row - p >= a_half * half
                self.sp[(in_row - p)[kept], (in_col + p * ich)[kept]] = values[kept]
            block = (ich if f["in3120"] else B) * H * W
            self.ld[0] = plain(block_stride=block, repeats=f["pixels"], stride=pitch)

        image, kernel = self.sp[in_row, in_col], self.sp[w_row, w_col]
        if f["wrot180"]:
            kernel = kernel[::-1, ::-1]
        total = self.acc[out_at]
        o_r, o_c = np.arange(R), np.arange(C)
        for y in range(krows):
            rows = (und(o_r * stride + y * kd)) // step
            row_on = (y * kd + o_r - f["upad"]) % 2 == 0 if dil else np.full(R, True)
            for x0 in range(0, kcols, f["pixels"]):
                for i0 in range(0, ich, dim):
                    pass_sum = np.zeros_like(total)
                    for xk in range(x0, min(x0 + f["pixels"], kcols)):
                        cols = (und(o_c * stride + xk * kd)) // step
                        col_on = (xk * kd + o_c - f["lpad"]) % 2 == 0 if dil else np.full(C, True)
                        patch = image[:, np.minimum(rows, H - 1)][
                            :, :, np.minimum(cols, W - 1), i0 : i0 + dim
                        ]
                        term = patch @ kernel[y, xk, i0 : i0 + dim]
                        pass_sum += term * (row_on[:, None] & col_on[None, :])[None, :, :, None]
                    total = wrap(total + wrap(pass_sum, c.partial_sum_bits), 32)
        self.acc[out_at] = total
        if f["in3120"]:
            self.ex.stride_a, self.ex.stride_c = H * W, R * C
        self.conv_slot ^= 1
        if f["output"]:
            self.conv_half ^= 1
            self.conv_store(f, self.by_table(self.narrowed(total)) if f["no_pool"] else total)

    def base_address(self) -> int:
        """Any readable address, for lanes that are masked."""
        return int(getattr(self, "base", 0))

    def conv_store(self, f: dict[str, Any], values: np.ndarray) -> None:
        if f["no_pool"]:
            self.normaliser.leave()
        else:
            self.st.relu, self.st.stride = f["act"] == 1 and self.config.activations, f["out_stride"]
            self.st.mode, self.st.activation = "rows", f["act"]
            scaled = self.by_table(self.narrowed(values))
            size, stride = f["pool_size"], f["pool_stride"]
            pr, pc, wr, wc = np.ogrid[: f["porows"], : f["pocols"], :size, :size]
            r, x = pr * stride + wr - f["pupad"], pc * stride + wc - f["plpad"]
            inside = (r >= 0) & (r < f["orows"]) & (x >= 0) & (x < f["ocols"])
            windows = scaled[:, np.where(inside, r, 0), np.where(inside, x, 0)]
            values = np.where(inside[None, ..., None], windows, 0).max(axis=(3, 4))
        b, r, x, q = np.mgrid[tuple(slice(0, n) for n in values.shape)]
        if not f["no_pool"]:
            element = ((b * f["pool_out_row_dim"] + r) * f["pool_out_col_dim"] + x) * f["out_stride"] + q
        elif f["out1203"]:
            element = ((r * f["out_col_dim"] + x) * f["batch_size"] + b) * f["out_channels"] + q
        else:
            element = ((b * f["out_row_dim"] + r) * f["out_col_dim"] + x) * f["out_stride"] + q
        self.write(f["output"] + element, values, 1)
