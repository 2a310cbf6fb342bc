"""A command stream under construction: what has been drawn, how the accelerator is configured, where memory may be used."""

from __future__ import annotations

import random
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.accel.isa import IDENTITY_SCALE, Command, command_named, encode
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, Item, Stream, group_items

ACCUMULATOR, ACCUMULATE, READ_FULL = 1 << 31, 1 << 30, 1 << 29
_REGIONS = 3
REGION_BYTES = MEMORY_BYTES // _REGIONS
ADDRESS_BITS = 64
LOADS = ("MVIN", "MVIN2", "MVIN3")
#: Float32 bits: 1, 1/2, 1/4, 2.5, -1/2, next to 1 on both sides, the least subnormal, 0.01, infinities, not a number.
SCALES = (
    *(IDENTITY_SCALE, IDENTITY_SCALE, IDENTITY_SCALE, 0x3F000000, 0x3E800000, 0x40200000, 0xBF000000),
    *(0x3F7FFFFF, 0x3F800001, 0x00000001, 0x3C23D70A, 0x37800000, 0x7F800000, 0xFF800000, 0x7FC00000),
)


@dataclass
class LoadSettings:
    shrink: int = 0
    repeats: int = 1
    block_stride: int = 0
    stride: int = 0
    block_format: int = 0


@dataclass
class ProductSettings:
    ws: bool = True
    transpose_a: int = 0
    transpose_b: int = 0
    stride_a: int = 1
    stride_c: int = 1


@dataclass
class StoreSettings:
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


class StreamBuilder:
    """Builds one stream, command by command, from a seed.

    Attributes:
        base: where main memory begins.
        items: what has been generated.
        fresh: the array holds nothing of the present dataflow that may be accumulated on.
        shared: regions that others read, too, and nobody writes, counted from `base` on.
    """

    def __init__(self, accelerator: Accelerator, seed: str, base: int = BASE) -> None:
        self.random = random.Random(seed)
        self.base = base
        self.accelerator = accelerator
        self.features = accelerator.features
        self.dim = accelerator.dim
        self.element = accelerator.element_bytes
        self.ws, self.os = "WS" in accelerator.dataflows, "OS" in accelerator.dataflows
        self.sp_rows, self.acc_rows = accelerator.scratchpad_rows, accelerator.accumulator_rows
        self.items: list[Item] = []
        self.ld = [LoadSettings() for _ in LOADS]
        self.powers = 0  # columns whose powers were loaded
        self.ex = ProductSettings(ws=self.ws)
        self.st = StoreSettings()
        self.function, self.parameters = 0, 0  # of stores; accumulator row of gains and offsets
        self.activation = 0  # of stores; 2 layer norm, 3 I-GELU, 4 softmax
        self.apart = self.dim  # softmax: rows from one block to the next
        self.product = False  # source rows are multiplied by those from there on
        self.fresh, self.taken = True, False
        self.sources, self.targets = [0, 1], [2]
        self.shared: list[int] = []
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
        if self.base != BASE:
            settings["base"] = self.base
        return Stream(name, group_items(self.items), settings)

    def packs(self) -> int:
        """Whether memory is to hold elements of 4 bits; what is read is then less than of int8, where the stream says."""
        features = self.features
        return self.random.getrandbits(1) if features.packed_weights or features.block_weights else 0

    def block_format(self) -> int:
        """What a load state is to say of blocks of elements."""
        return self.random.choice((0, 0, 1, 1, 2, 3)) if self.features.block_weights else 0

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
        return self._address(self.sources + self.shared, extent, below)

    def target(self, extent: int) -> int:
        """An address that may be written, as `source`."""
        return self._address(self.targets, extent, 0)

    def _address(self, regions: list[int], extent: int, below: int) -> int:
        assert extent + below < REGION_BYTES, (extent, below)
        r = self.random
        offset = r.randint(below, REGION_BYTES - extent)
        if r.random() < 0.5 and offset % 64 <= offset - below:
            offset -= offset % 64
        return self.base + r.choice(regions) * REGION_BYTES + offset

    def row(self, accumulator: bool, reach: int) -> int | None:
        """First of `reach` rows that exist, mostly the ones used before; None when the memory is too small."""
        most = (self.acc_rows if accumulator else self.sp_rows) - reach
        if most < 0:
            return None
        r = self.random
        if r.random() < self.heat:
            return min(most, self.hot[accumulator] + r.randrange(self.window))
        return r.choice((0, most, r.randint(0, most), r.randint(0, most), r.randint(0, most)))
