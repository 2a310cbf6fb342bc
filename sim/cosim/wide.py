"""Random legal streams that use the width of registers: strides of all bits, configuration that is written over, counters of
every event.

Where local memories are large, loops are long. What hardware keeps of a command may be wider than what the memory of a stream lets matter. A stride of any size is legal where a
single row moves; configuration of a loop is legal whatever it says until the loop begins.
"""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.accel.isa import IDENTITY_SCALE, Command
from baco.sim.cosim.builder import ACCUMULATOR, LOADS, SCALES, LoadSettings
from baco.sim.cosim.macros import MacroGenerator
from baco.sim.cosim.stream import BASE, Stream

#: Function codes that only write registers of an unroller, which everything writes again before a loop begins.
_LOOP_WS, _LOOP_CONV = (10, 11, 12, 13), (16, 17, 18, 19, 20, 21)
_EVENTS, _EXTERNAL = 45, 8
#: Rows of a scratchpad in which loops can be long.
_LONG_ROWS = 4096


def wide_stream(accelerator: Accelerator, seed: int, index: int, base: int = BASE) -> Stream:
    """As `random_stream`, of commands whose registers take values of all widths."""
    name = f"{accelerator.config_hash}-{seed}-wide-{index}"
    generator = _WideGenerator(accelerator, name, base)
    generator.initialise()
    r = generator.random
    actions = [generator.far_load, generator.far_store, generator.written_over, generator.far_product]
    if accelerator.scratchpad_rows >= _LONG_ROWS:
        actions += [generator.long_loop] * 4
    if accelerator.counters:
        actions += [generator.counters] * 2
    for _ in range(r.randint(4, 12)):
        r.choice(actions)()
        if r.random() < 0.3:
            generator.mixed(1)
        else:
            generator.ordinary(r.randint(1, 4))
    return generator.stream(name)


class _WideGenerator(MacroGenerator):
    """Adds actions of wide values to a generator's."""

    def _any(self, bits: int) -> int:
        """All bits alike, a single one, or random ones."""
        r = self.random
        return r.choice(
            (0, (1 << bits) - 1, 1 << r.randrange(bits), r.getrandbits(bits), r.getrandbits(bits))
        )

    def far_load(self) -> None:
        """One row with a stride and a distance of blocks that nothing else would survive."""
        r, dim = self.random, self.dim
        number = r.randrange(3)
        stride, apart, shrink = self._any(64), self._any(16), r.getrandbits(1)
        self.emit("CONFIG_LD", shrink=shrink, state=number, pixel_repeats=1, block_stride=apart,
                  scale=r.choice((*SCALES, r.getrandbits(32))), stride=stride, packed=self.packs())  # fmt: skip
        self.ld[number] = LoadSettings(shrink, 1, apart, stride)
        accumulator = r.getrandbits(1)
        first = self.row(bool(accumulator), 1)
        if first is not None:
            self.emit(LOADS[number], address=self.source(4 * dim), local=first | accumulator * ACCUMULATOR,
                      cols=self.size(dim), rows=1)  # fmt: skip
        self.config_ld(number)

    def far_store(self) -> None:
        """One row with a stride of any size, and whatever the rows hold."""
        f, dim = self.features, self.dim
        self.write_config_st(self._any(32), scale=self.random.choice((*SCALES, self.random.getrandbits(32))))
        accumulator = f.read_small_width and self.chance(0.7)
        first = self.row(accumulator, 1)
        if first is not None:
            self.emit("MVOUT", address=self.target(4 * dim), local=first | accumulator * ACCUMULATOR,
                      cols=self.size(dim), rows=1)  # fmt: skip
        self.write_config_st(dim, scale=IDENTITY_SCALE)

    def far_product(self) -> None:
        """Products of one row whose operands are any distance apart."""
        ws = self.random.random() < 0.5 if self.ws and self.os else self.ws
        self.write_config_ex(ws, (0, 0), self._any(16), self._any(16), activation=self.random.getrandbits(1))
        for _ in range(2):
            self.matmul_row()
        self.config_ex(ws=ws)

    def matmul_row(self) -> None:
        """A product whose operand and result are one row each."""
        dim = self.dim
        a, b, c = self.row(False, 1), self.row(False, dim), self.row(True, 1)
        if a is None or b is None or c is None:
            return
        none = (1 << 32) - 1
        first, second = (b, none) if self.ex.ws else (none, b)
        self.emit("PRELOAD", bd=first, bd_cols=dim, bd_rows=dim, c=ACCUMULATOR | c, c_cols=dim, c_rows=1)
        self.emit("COMPUTE_PRELOADED", a=a, a_cols=dim, a_rows=1, bd=second, bd_cols=dim, bd_rows=dim)
        self.fresh, self.taken = False, True

    def written_over(self) -> None:
        """Configuration of loops of random bits, and behind it a loop with its own."""
        f, r = self.features, self.random
        codes = _LOOP_WS * f.loop_ws + _LOOP_CONV * f.loop_conv
        for _ in range(2):
            self.items += [Command(code, self._any(64), self._any(64)) for code in codes]
            if f.loop_ws:
                blocks = {name: self._any(16) for name in ("i", "j", "k")}
                pads = {f"pad_{name}": r.randrange(self.dim) for name in blocks}
                self.emit("LOOP_WS_CONFIG_BOUNDS", **pads, **blocks)
        self.mixed(1)

    def long_loop(self) -> None:
        """A loop that is as long in one direction as local memories allow."""
        self.longest = self.sp_rows // 2
        self.mixed(1)
        self.longest = 0

    def counters(self) -> None:
        """Counters of some events, work, and what they came to, in and out of a snapshot."""
        r, some = self.random, min(self.accelerator.counters, 8)
        for index in range(some):
            external = r.getrandbits(1)
            self.emit("COUNTER_OP", configure=1, index=index, external=external,
                      event=r.randrange(_EXTERNAL) if external else r.randrange(_EVENTS))  # fmt: skip
        self.ordinary(r.randint(2, 10))
        self.emit("COUNTER_OP", index=r.randrange(some), take_snapshot=r.getrandbits(1))
        self.ordinary(r.randint(1, 4))
        for _ in range(8):
            self.emit(
                "COUNTER_OP", index=r.randrange(8), leave_snapshot=self.chance(0.1), reset=self.chance(0.1)
            )
