"""LOOP_CONV_WS written out: the commands it stands for, phase by phase, straight from section 8 of the ISA.

Nothing here is shared with the hardware or the functional model: every address is a closed formula of the loop
indices, where the hardware adds up steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.gemmini.config import GemminiConfig

#: (funct, rs1, rs2)
Command = tuple[int, int, int]

CONFIG, MVIN2, MVIN, MVOUT, COMPUTE_PRELOADED, COMPUTE_ACCUMULATED, PRELOAD, MVIN3 = 0, 1, 2, 3, 4, 5, 6, 14
RUN = 15
PHASES = ("bias", "weights", "input", "execute", "store")

GARBAGE = 0xFFFFFFFF
_ACC, _ACCUMULATE = 1 << 31, 1 << 30
_ONE = 0x3F800000  # bits of float32 1.0
_KEEP_SCALE = 0xFFFFFFFF
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


#: Fields of the registers rs1 and rs2 by function code, with their highest and lowest bits.
_REGISTERS = {
    16: ("out_channels 63 48, in_channels 47 32, in_row_dim 31 16, batch_size 15 0",
         "padding 63 56, stride 55 48, out_col_dim 47 32, pool_out_row_dim 31 16, out_row_dim 15 0"),
    17: ("kernel_dim 63 48, pool_out_col_dim 47 32, pool_size 31 16, pool_stride 15 8",
         "batches 63 48, porows 47 32, pocols 31 16, pochs 15 0"),
    18: ("krows 63 48, kcols 47 32, kchs 31 16, lpad 15 0",
         "rpad 63 48, upad 47 32, dpad 31 24, plpad 23 16, in_col_dim 15 0"),
    19: ("orows 63 48, pupad 31 21, kernel_dilation 9 0",
         "in_stride 63 48, weight_stride 47 32, out_stride 31 16, ocols 15 0"),
    20: ("weights 63 0", "output 63 0"),
    21: ("bias 63 0", "input 63 0"),
    RUN: ("no_bias 0 0, wrot180 1 1, trans_output_1203 2 2, trans_weight_1203 3 3, trans_weight_0132 4 4,"
          "trans_input_3120 5 5, dw 6 6, max_pixels_per_row 15 8, b_spad_id 17 16, a_spad_id 19 18",
          "no_pool 0 0, downsample 1 1, input_dilated 2 2, activation 4 3, weights_packed 5 5"),
}  # fmt: skip


@dataclass(frozen=True)
class LoopConv:
    """One loop: every field of the configuration commands and of the run command, by its name in section 8."""

    batch_size: int = 1
    in_row_dim: int = 1
    in_col_dim: int = 1
    in_channels: int = 1
    out_channels: int = 1
    out_row_dim: int = 1
    out_col_dim: int = 1
    pool_out_row_dim: int = 1
    pool_out_col_dim: int = 1
    stride: int = 1
    padding: int = 0
    kernel_dim: int = 1
    kernel_dilation: int = 1
    pool_size: int = 0
    pool_stride: int = 0
    pool_padding: int = 0
    batches: int = 1
    porows: int = 1
    pocols: int = 1
    pochs: int = 1
    krows: int = 1
    kcols: int = 1
    kchs: int = 1
    lpad: int = 0
    rpad: int = 0
    upad: int = 0
    dpad: int = 0
    plpad: int = 0
    prpad: int = 0
    pupad: int = 0
    pdpad: int = 0
    orows: int = 1
    ocols: int = 1
    in_stride: int = 1
    weight_stride: int = 1
    out_stride: int = 1
    weights: int = 0
    output: int = 0
    bias: int = 0
    input: int = 0
    no_bias: bool = False
    wrot180: bool = False
    trans_output_1203: bool = False
    trans_weight_1203: bool = False
    trans_weight_0132: bool = False
    trans_input_3120: bool = False
    dw: bool = False
    no_pool: bool = True
    downsample: bool = False
    input_dilated: bool = False
    activation: int = 0
    a_spad_id: int = 0
    b_spad_id: int = 0
    max_pixels_per_row: int = 1
    weights_packed: bool = False

    @classmethod
    def of_registers(cls, registers: dict[int, tuple[int, int]]) -> LoopConv:
        """The loop that six configuration commands and the run command, by function code, describe."""
        found: dict[str, int] = {}
        for funct, texts in _REGISTERS.items():
            for value, text in zip(registers[funct], texts, strict=True):
                for item in text.split(","):
                    name, high, low = item.split()
                    found[name] = value >> int(low) & (1 << int(high) - int(low) + 1) - 1
        return cls(**found)  # type: ignore[arg-type]

    def commands(self) -> list[Command]:
        """The six configuration commands and the run command."""
        s = self
        flags = [
            s.no_bias,
            s.wrot180,
            s.trans_output_1203,
            s.trans_weight_1203,
            s.trans_weight_0132,
            s.trans_input_3120,
            s.dw,
        ]
        run1 = sum(int(flag) << i for i, flag in enumerate(flags))
        run1 |= s.max_pixels_per_row << 8 | s.b_spad_id << 16 | s.a_spad_id << 18
        run2 = (
            s.no_pool | s.downsample << 1 | s.input_dilated << 2 | s.activation << 3 | s.weights_packed << 5
        )
        return [
            (
                16,
                s.out_channels << 48 | s.in_channels << 32 | s.in_row_dim << 16 | s.batch_size,
                s.padding << 56
                | s.stride << 48
                | s.out_col_dim << 32
                | s.pool_out_row_dim << 16
                | s.out_row_dim,
            ),
            (
                17,
                s.kernel_dim << 48
                | s.pool_out_col_dim << 32
                | s.pool_size << 16
                | s.pool_stride << 8
                | s.pool_padding,
                s.batches << 48 | s.porows << 32 | s.pocols << 16 | s.pochs,
            ),
            (
                18,
                s.krows << 48 | s.kcols << 32 | s.kchs << 16 | s.lpad,
                s.rpad << 48 | s.upad << 32 | s.dpad << 24 | s.plpad << 16 | s.in_col_dim,
            ),
            (
                19,
                s.orows << 48 | s.prpad << 32 | s.pupad << 21 | s.pdpad << 10 | s.kernel_dilation,
                s.in_stride << 48 | s.weight_stride << 32 | s.out_stride << 16 | s.ocols,
            ),
            (20, s.weights, s.output),
            (21, s.bias, s.input),
            (RUN, run1, run2),
        ]


def _sized(rows: int, cols: int, address: int) -> int:
    return (rows & 0xFFFF) << 48 | (cols & 0xFFFF) << 32 | (address & _M32)


def _at(base: int, offset: int) -> int:
    """Main memory address; offsets wrap at 32 bits."""
    return (base + (offset & _M32)) & _M64


def _config_ld(state: int, stride: int, block_stride: int, pixel_repeats: int = 1) -> Command:
    return (
        CONFIG,
        _ONE << 32 | (block_stride & 0xFFFF) << 16 | pixel_repeats << 8 | state << 3 | 1,
        stride & _M32,
    )


def _blocks(channels: int, dim: int) -> int:
    return -(-channels // dim)


@dataclass
class Expander:
    """Expands the loops of one program in order: the halves of the memories alternate from loop to loop."""

    machine: GemminiConfig
    slot: int = 0
    acc_half: int = 0

    def expand(self, loop: LoopConv) -> dict[str, list[Command]]:
        """The commands of each phase, in the order of section 8; absent phases are empty."""
        phases = _Expansion(self.machine, loop, self.slot, self.acc_half).phases()
        self.slot ^= 1
        self.acc_half ^= loop.output != 0
        return phases


class _Expansion:
    def __init__(self, machine: GemminiConfig, loop: LoopConv, slot: int, acc_half: int) -> None:
        m, s = machine, loop
        self.m, self.s = m, s
        self.size = m.element_bytes
        self.nb = max(1, m.dma_max_bytes // (m.dim * self.size))
        self.nb_acc = max(1, m.dma_max_bytes // (4 * m.dim))
        train = m.training_convs
        self.wrot180 = s.wrot180 and train
        self.out_1203 = s.trans_output_1203 and train
        self.w_1203 = s.trans_weight_1203 and train
        self.w_0132 = s.trans_weight_0132 and train
        self.in_3120 = s.trans_input_3120 and train
        self.dilated = s.input_dilated and train
        self.dw = s.dw and m.depthwise_convs
        self.pack = (s.max_pixels_per_row or 1) if m.first_layer else 1
        self.no_pool = s.no_pool or not m.max_pool
        self.ds = int(s.downsample)

        und = self.und
        dkrows = s.krows + (s.kernel_dilation - 1) * (s.krows - 1)
        dkcols = s.kcols + (s.kernel_dilation - 1) * (s.kcols - 1)
        irows = s.orows * s.stride + dkrows - 1
        icols = s.ocols * s.stride + dkcols - 1
        self.rows_inside = und(irows - s.upad - s.dpad)
        self.cols_inside = und(icols - s.lpad - s.rpad)
        if self.dilated:
            irows = self.rows_inside + und(s.upad) + und(s.dpad)
            icols = self.cols_inside + und(s.lpad) + und(s.rpad)
        self.irows, self.icols = irows >> self.ds, icols >> self.ds

        self.acc = acc_half * (m.accumulator_rows // 2)
        a_half = slot if s.a_spad_id == 0 else s.a_spad_id - 1
        b_half = slot if s.b_spad_id == 0 else s.b_spad_id - 1
        self.input_row0 = a_half * (m.scratchpad_rows // 2)
        weights_rows = (
            _blocks(s.kchs, m.dim) * s.kcols * s.krows * s.pochs
            if self.w_0132
            else _blocks(s.pochs, m.dim) * s.kcols * s.krows * s.kchs
        )
        self.weights_row0 = (b_half + 1) * (m.scratchpad_rows // 2) - weights_rows

    def und(self, length: int) -> int:
        return (length + 1) // 2 if self.dilated else length

    def phases(self) -> dict[str, list[Command]]:
        s = self.s
        return {
            "bias": self.bias() if s.bias else [],
            "weights": self.weights() if s.weights else [],
            "input": self.input() if s.input else [],
            "execute": self.execute(),
            "store": self.store() if s.output else [],
        }

    # ---- local rows

    def output_row(self, b: int, orow: int, ocol: int, och: int) -> int:
        s = self.s
        block = och // self.m.dim
        return (
            self.acc + block * s.batches * s.orows * s.ocols + b * s.orows * s.ocols + orow * s.ocols + ocol
        )

    def weights_row(self, kr: int, kc: int, kch: int, och: int) -> int:
        s, dim = self.s, self.m.dim
        if self.w_0132:
            block, rows, channel = kch // dim, s.pochs, och
        else:
            block, rows, channel = och // dim, s.kchs, kch
        return (
            self.weights_row0 + block * s.krows * s.kcols * rows + kr * s.kcols * rows + kc * rows + channel
        )

    def input_row(self, b: int, row: int, col: int, ich: int) -> int:
        """`row` and `col` include the padding and come before downsampling."""
        s, dim = self.s, self.m.dim
        image = self.irows * self.icols
        pixel = (row >> self.ds) * self.icols + (col >> self.ds)
        if self.in_3120:
            return self.input_row0 + (b // dim) * s.kchs * image + ich * image + pixel
        return self.input_row0 + (ich // dim) * s.batches * image + b * image + pixel

    # ---- phases

    def bias(self) -> list[Command]:
        s, dim = self.s, self.m.dim
        out = [_config_ld(2, 0, s.batches * s.orows * s.ocols)]
        for b in range(s.batches):
            for orow in range(s.orows):
                for ocol in range(0, s.ocols, dim):
                    for och in range(0, s.pochs, self.nb_acc * dim):
                        rows = min(dim, s.ocols - ocol)
                        cols = min(self.nb_acc * dim, s.pochs - och)
                        address = 0 if s.no_bias else _at(s.bias, och * 4)
                        row = _ACC | self.output_row(b, orow, ocol, och)
                        out.append((MVIN3, address, _sized(rows, cols, row)))
        return out

    def weights(self) -> list[Command]:
        s, dim, kd = self.s, self.m.dim, self.s.kernel_dim
        wide = self.nb * dim
        if self.dw:
            stride = 1
        elif self.w_1203:
            stride = kd * kd * s.out_channels
        elif self.w_0132:
            stride = s.in_channels
        else:
            stride = s.weight_stride
        block = s.krows * s.kcols * (s.pochs if self.w_0132 else s.kchs)
        shift = int(s.weights_packed and self.m.packed_weights)
        name, rs1, rs2 = _config_ld(1, (stride * self.size & _M32) >> shift, block)
        out = [(name, rs1 | shift << 5, rs2)]
        och_step, kch_step = (dim, wide) if self.w_0132 else (wide, dim)
        for och in range(0, s.pochs, och_step):
            for kr in range(s.krows):
                for kc in range(s.kcols):
                    for kch in range(0, s.kchs, kch_step):
                        if self.dw:
                            offset = kr * kd + kc
                        elif self.w_1203:
                            offset = (kch * kd * kd + kr * kd + kc) * s.out_channels + och
                        elif self.w_0132:
                            offset = ((kr * kd + kc) * s.out_channels + och) * s.in_channels + kch
                        else:
                            offset = ((kr * kd + kc) * s.in_channels + kch) * s.weight_stride + och
                        outs, ins = min(och_step, s.pochs - och), min(kch_step, s.kchs - kch)
                        rows, cols = (outs, ins) if self.w_0132 else (ins, outs)
                        row = self.weights_row(kr, kc, kch, och)
                        out.append(
                            (
                                MVIN2,
                                _at(s.weights, (offset * self.size & _M32) >> shift),
                                _sized(rows, cols, row),
                            )
                        )
        return out

    def input(self) -> list[Command]:
        s, dim, ds = self.s, self.m.dim, self.ds
        image = self.irows * self.icols
        wide = self.nb * dim
        stride = (s.batch_size if self.in_3120 else s.in_stride) << ds
        out = [_config_ld(0, stride * self.size, image * (s.kchs if self.in_3120 else s.batches), self.pack)]
        up, left = self.und(s.upad), self.und(s.lpad)
        r_end, c_end = self.rows_inside + self.und(s.dpad), self.cols_inside + self.und(s.rpad)
        for b in range(0, s.batches, wide if self.in_3120 else 1):
            for r in range(-up, r_end, 1 + ds):
                c = -left
                while c < c_end:
                    if c < 0:
                        run = min(dim, -c)
                    elif c >= self.cols_inside:
                        run = min(dim, c_end - c)
                    else:
                        run = min(dim << ds, self.cols_inside - c)
                    padding = not (0 <= r < self.rows_inside and 0 <= c < self.cols_inside)
                    for ich in range(0, s.kchs, 1 if self.in_3120 else wide):
                        pixel = (r * s.in_col_dim) + c
                        if self.in_3120:
                            offset = (ich * s.in_row_dim * s.in_col_dim + pixel) * s.batches + b
                            cols = min(wide, s.batches - b)
                        else:
                            offset = (b * s.in_row_dim * s.in_col_dim + pixel) * s.in_stride + ich
                            cols = min(wide, s.kchs - ich)
                        row = self.input_row(b, r + up, c + left, ich)
                        address = 0 if padding else _at(s.input, offset * self.size)
                        out.append((MVIN, address, _sized(run >> ds, cols, row)))
                    c += run
        return out

    def execute(self) -> list[Command]:
        s, dim, dilated = self.s, self.m.dim, self.dilated
        out: list[Command] = []
        if self.in_3120:
            a_stride, c_stride = self.irows * self.icols, s.orows * s.ocols
            out.append((CONFIG, (a_stride & 0xFFFF) << 16 | 1 << 7, (c_stride & 0xFFFF) << 48))
        for och in range(0, s.pochs, dim):
            for kr in range(s.krows):
                for kc in range(0, s.kcols, self.pack):
                    for kch in range(0, s.kchs, dim):
                        new_weights = True
                        for b in range(0, s.batches, dim if self.in_3120 else 1):
                            for orow in range(s.orows):
                                if dilated and (kr * s.kernel_dilation + orow - s.upad) % 2:
                                    continue
                                ocol = 0
                                while ocol < s.ocols:
                                    if dilated and (kc * s.kernel_dilation + ocol - s.lpad) % 2:
                                        ocol += 1
                                        continue
                                    out += self._multiply(och, kr, kc, kch, b, orow, ocol, new_weights)
                                    new_weights = False
                                    ocol += 1 if self.in_3120 else dim << dilated
        return out

    def _multiply(
        self, och: int, kr: int, kc: int, kch: int, b: int, orow: int, ocol: int, new_weights: bool
    ) -> list[Command]:
        s, dim = self.s, self.m.dim
        i = min(dim, s.batches - b)
        if not self.in_3120:
            i = self.und(min(dim << self.dilated, s.ocols - ocol))
        j = min(dim, s.pochs - och)
        k = min(self.pack, s.kcols - kc) * min(dim, s.kchs - kch)
        row = self.und(orow * s.stride + kr * s.kernel_dilation)
        col = self.und(ocol * s.stride + kc * s.kernel_dilation)
        a = self.input_row(b, row, col, kch)
        kr_, kc_ = (s.krows - 1 - kr, s.kcols - 1 - kc) if self.wrot180 else (kr, kc)
        weights = self.weights_row(kr_, kc_, kch, och) if new_weights else GARBAGE
        c = _ACC | _ACCUMULATE | self.output_row(b, orow, ocol, och)
        compute = COMPUTE_PRELOADED if new_weights else COMPUTE_ACCUMULATED
        return [
            (PRELOAD, _sized(k, j, weights), _sized(i, j, c)),
            (compute, _sized(i, k, a), _sized(i, j, GARBAGE)),
        ]

    def store(self) -> list[Command]:
        s, dim = self.s, self.m.dim
        if not self.no_pool:
            return self._store_pooled()
        out = []
        for b in range(s.batches):
            for orow in range(s.orows):
                for ocol in range(0, s.ocols, dim):
                    for och in range(0, s.pochs, dim):
                        if self.out_1203:
                            pixel = (orow * s.out_col_dim + ocol) * s.batch_size + b
                            offset = pixel * s.out_channels + och
                        else:
                            pixel = (b * s.out_row_dim + orow) * s.out_col_dim + ocol
                            offset = pixel * s.out_stride + och
                        rows, cols = min(dim, s.ocols - ocol), min(dim, s.pochs - och)
                        row = _ACC | self.output_row(b, orow, ocol, och)
                        out.append((MVOUT, _at(s.output, offset * self.size), _sized(rows, cols, row)))
        return out

    def _store_pooled(self) -> list[Command]:
        s, dim = self.s, self.m.dim
        off = (CONFIG, 2 | s.activation << 2, _KEEP_SCALE << 32 | s.out_stride * self.size)
        pool = (s.pool_stride & 3) << 4 | (s.pool_size & 3) << 6 | (s.pupad & 3) << 8 | (s.plpad & 3) << 10
        pool |= (s.pool_out_col_dim & 255) << 24 | (s.porows & 255) << 32 | (s.pocols & 255) << 40
        pool |= (s.orows & 255) << 48 | (s.ocols & 255) << 56
        out = [(CONFIG, off[1] | pool, off[2])]
        for b in range(s.batches):
            for och in range(0, s.pochs, dim):
                offset = b * s.pool_out_row_dim * s.pool_out_col_dim * s.out_stride + och
                rows, cols = min(dim, s.ocols), min(dim, s.pochs - och)  # the number of rows has no effect
                row = _ACC | self.output_row(b, 0, 0, och)
                out.append((MVOUT, _at(s.output, offset * self.size), _sized(rows, cols, row)))
        return [*out, off]
