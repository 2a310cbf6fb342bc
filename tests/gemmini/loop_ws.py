"""What LOOP_WS commands stand for: an expansion into loads, products and stores, written from the specification.

Addresses are computed from block indices by multiplication, one block at a time; nothing is shared with the RTL.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

GARBAGE = 0xFFFFFFFF
MVIN2, MVIN, MVOUT, COMPUTE_PRELOADED, COMPUTE_ACCUMULATED, PRELOAD = 1, 2, 3, 4, 5, 6
LOOP_WS, BOUNDS, ADDRS_AB, ADDRS_DC, STRIDES_AB, STRIDES_DC = 8, 9, 10, 11, 12, 13
MVIN3, MVOUT_SPAD, SPAD_AB, SPAD_C = 14, 23, 24, 25
CONFIGS = (BOUNDS, ADDRS_AB, ADDRS_DC, STRIDES_AB, STRIDES_DC, SPAD_AB, SPAD_C)
#: The streams of a loop in the order in which a sequential machine would run them, and their function codes.
PHASES = {
    "d": (MVIN3,),
    "a": (MVIN,),
    "b": (MVIN2,),
    "ex": (PRELOAD, COMPUTE_PRELOADED, COMPUTE_ACCUMULATED),
    "st": (MVOUT, MVOUT_SPAD),
}

Rows = tuple[str, int, int]  # memory ("sp" or "acc"), first row, rows


class Raw(NamedTuple):
    funct: int
    rs1: int
    rs2: int


@dataclass(frozen=True)
class Command:
    """A command and the local rows that it reads and writes."""

    raw: Raw
    reads: tuple[Rows, ...] = ()
    writes: tuple[Rows, ...] = ()


def _bits(word: int, low: int, count: int) -> int:
    return word >> low & (1 << count) - 1


def _operand(rows: int, cols: int, address: int) -> int:
    return rows << 48 | cols << 32 | address


@dataclass
class Slot:
    """Configuration registers of a loop slot: raw payloads by function code, and where A starts and B ends."""

    payload: dict[int, tuple[int, int]] = field(default_factory=dict)
    a_start: int = 0
    b_end: int = 0


@dataclass
class LoopWs:
    """Both loop slots. `feed` takes the loop's commands in program order.

    Args:
        dim: side of a block.
        sp_rows, acc_rows: rows of the local memories.
        dma_max_bytes: largest memory request, which bounds the blocks that one load or store moves.
        packed_weights: whether B may have elements of 4 bits in memory.
        size: bytes of an element of A, B and C.
        gemmini_order: take all columns of C in one group, as Gemmini does; the commands are the same.
    """

    dim: int
    sp_rows: int
    acc_rows: int
    dma_max_bytes: int
    gemmini_order: bool = False
    packed_weights: bool = False
    size: int = 1
    slot: int = 0
    halves: dict[str, int] = field(default_factory=lambda: {"d": 0, "ex": 0, "st": 0})

    def __post_init__(self) -> None:
        half = self.sp_rows // 2
        self.slots = [Slot(a_start=0, b_end=half), Slot(a_start=half, b_end=2 * half)]
        self.nb = max(1, self.dma_max_bytes // (self.dim * self.size))
        self.nb_acc = max(1, self.dma_max_bytes // (4 * self.dim))

    def feed(self, raw: Raw) -> dict[str, list[Command]] | None:
        """The streams of commands that a LOOP_WS stands for, by phase; None for a configuration command."""
        slot = self.slots[self.slot]
        if raw.funct == SPAD_AB:
            slot.a_start, slot.b_end = _bits(raw.rs1, 0, 32), _bits(raw.rs2, 0, 32)
        if raw.funct != LOOP_WS:
            slot.payload[raw.funct] = (raw.rs1, raw.rs2)
            return None
        streams = _Loop(self, slot, raw).streams()
        self.slot ^= 1
        return streams


class _Loop:
    """One loop, its fields taken apart."""

    def __init__(self, machine: LoopWs, slot: Slot, raw: Raw) -> None:
        self.machine, self.dim, self.index = machine, machine.dim, machine.slot
        pads, bounds = slot.payload[BOUNDS]
        self.I, self.J, self.K = (_bits(bounds, 16 * n, 16) for n in range(3))
        self.pad_i, self.pad_j, self.pad_k = (_bits(pads, 16 * n, 16) % self.dim for n in range(3))
        self.a, self.b = slot.payload[ADDRS_AB]
        self.d, self.c = slot.payload[ADDRS_DC]
        self.a_stride, self.b_stride = slot.payload[STRIDES_AB]
        self.d_stride, self.c_stride = slot.payload[STRIDES_DC]
        self.accumulate, self.full_c, self.low_d = (bool(_bits(raw.rs1, n, 1)) for n in range(3))
        self.a_t, self.b_t, self.resadd = (bool(_bits(raw.rs2, n, 1)) for n in range(3))
        self.skip = {
            name: bool(_bits(raw.rs2, 3 + n, 1)) for n, name in enumerate(["a", "b", "d", "ex", "st"])
        }
        self.spad_only = bool(_bits(raw.rs2, 9, 1))
        self.b_shift = _bits(raw.rs2, 10, 1) if machine.packed_weights else 0
        self.c_spad = _bits(raw.rs2, 32, 32)
        half = machine.sp_rows // 2
        a_id, b_id = _bits(raw.rs1, 18, 2), _bits(raw.rs1, 16, 2)
        self.a_load = (a_id - 1) * half if a_id else slot.a_start
        self.b_load = (b_id * half if b_id else slot.b_end) - self.K * self.J * self.dim
        self.a_use = slot.a_start if self.spad_only else self.a_load
        self.b_use = slot.b_end - self.K * self.J * self.dim if self.spad_only else self.b_load
        change = {"d": self.c != 0}
        change["ex"] = change["st"] = bool(_bits(raw.rs2, 8, 1)) if self.spad_only else self.c != 0
        self.half = {name: n * (machine.acc_rows // 2) for name, n in machine.halves.items()}
        for name in machine.halves:
            machine.halves[name] ^= change[name] and not self.skip[name]
        if self.resadd:
            self.half["st"] = self.index * (machine.acc_rows // 2)

    def streams(self) -> dict[str, list[Command]]:
        found = {
            "d": self._load_d(),
            "a": self._load_a(),
            "b": self._load_b(),
            "ex": self._execute(),
            "st": self._store(),
        }
        return {name: [] if self.skip[name] else list(stream) for name, stream in found.items()}

    def _piece(
        self, row: int, col: int, step: int, rows: int, cols: int, pads: tuple[int, int]
    ) -> tuple[int, int, int]:
        """Elements of a column, elements of a row, and blocks of a piece of `step` blocks at (row, col)."""
        blocks = min(step, cols - col)
        high = self.dim - (pads[0] if row == rows - 1 else 0)
        wide = blocks * self.dim - (pads[1] if col + blocks == cols else 0)
        return high, wide, blocks

    def _memory(self, start: int, row: int, col: int, stride: int, size: int) -> int:
        offset = (row * stride + col) * self.dim * size % 2**32
        return (start + offset) % 2**64

    def _move(
        self, funct: int, address: int, flags: int, place: int, piece: tuple[int, int, int]
    ) -> tuple[Raw, Rows]:
        high, wide, blocks = piece
        raw = Raw(funct, address, _operand(high, wide, flags << 29 | place))
        rows = (blocks - 1) * self.dim + high
        return raw, ("acc" if flags & 4 else "sp", place, rows)

    def _load_d(self) -> Iterator[Command]:
        step = self.machine.nb if self.low_d else self.machine.nb_acc
        for j in range(0, self.J if self.d else 0, step):
            for i in range(self.I):
                piece = self._piece(i, j, step, self.I, self.J, (self.pad_i, self.pad_j))
                address = self._memory(self.d, i, j, self.d_stride, self.machine.size if self.low_d else 4)
                raw, rows = self._move(MVIN3, address, 4, self.half["d"] + (i * self.J + j) * self.dim, piece)
                yield Command(raw, writes=(rows,))

    def _load_a(self) -> Iterator[Command]:
        K, pad_k = (self.J, self.pad_j) if self.resadd else (self.K, self.pad_k)
        base = self.index * (self.machine.acc_rows // 2) if self.resadd else self.a_load
        nb = self.machine.nb
        if self.a_t:
            blocks = [(k, i) for k in range(K) for i in range(0, self.I, nb)]
            rows, cols, pads = K, self.I, (pad_k, self.pad_i)
        else:
            blocks = [(i, k) for k in range(0, K, nb) for i in range(self.I)]
            rows, cols, pads = self.I, K, (self.pad_i, pad_k)
        for row, col in blocks if self.a else []:
            address = self._memory(self.a, row, col, self.a_stride, self.machine.size)
            piece = self._piece(row, col, nb, rows, cols, pads)
            raw, local = self._move(
                MVIN, address, 4 if self.resadd else 0, base + (row * cols + col) * self.dim, piece
            )
            yield Command(raw, writes=(local,))

    def _groups(self) -> list[range]:
        step = max(self.J, 1) if self.machine.gemmini_order else self.machine.nb
        return [range(j, min(j + step, self.J)) for j in range(0, self.J, step)]

    def _load_b(self) -> Iterator[Command]:
        K, pad_k = (self.I, self.pad_i) if self.resadd else (self.K, self.pad_k)
        base = self.index * (self.machine.acc_rows // 2) if self.resadd else self.b_load
        nb = self.machine.nb
        if self.b_t:
            blocks = [(j, k) for group in self._groups() for k in range(0, K, nb) for j in group]
            rows, cols, pads = self.J, K, (self.pad_j, pad_k)
        else:
            blocks = [(k, j) for group in self._groups() for k in range(K) for j in group[::nb]]
            rows, cols, pads = K, self.J, (pad_k, self.pad_j)
        for row, col in blocks if self.b else []:
            offset = self._memory(0, row, col, self.b_stride, self.machine.size) >> self.b_shift
            address = (self.b + offset) % 2**64
            piece = self._piece(row, col, nb, rows, cols, pads)
            place = base + (row * cols + col) * self.dim
            raw, local = self._move(MVIN2, address, 6 if self.resadd else 0, place, piece)
            yield Command(raw, writes=(local,))

    def _execute(self) -> Iterator[Command]:
        if self.resadd:
            return
        dim = self.dim
        for group in self._groups():
            for k in range(self.K):
                for j in group:
                    for i in range(self.I):
                        m = dim - (self.pad_i if i == self.I - 1 else 0)
                        n = dim - (self.pad_j if j == self.J - 1 else 0)
                        d = dim - (self.pad_k if k == self.K - 1 else 0)
                        a = self.a_use + (k * self.I + i if self.a_t else i * self.K + k) * dim
                        b = self.b_use + (j * self.K + k if self.b_t else k * self.J + j) * dim
                        c = self.half["ex"] + (i * self.J + j) * dim
                        flags = 6 if self.accumulate or k > 0 else 4
                        c_rows = (("acc", c, m),)
                        weights = _operand(d, n, GARBAGE if i else b)
                        result = _operand(m, n, flags << 29 | c)
                        yield Command(
                            Raw(PRELOAD, weights, result),
                            reads=() if i else (("sp", b, n if self.b_t else d),),
                            writes=c_rows,
                        )
                        funct = COMPUTE_ACCUMULATED if i else COMPUTE_PRELOADED
                        yield Command(
                            Raw(funct, _operand(m, d, a), _operand(dim, dim, GARBAGE)),
                            reads=(("sp", a, d if self.a_t else m),),
                            writes=c_rows,
                        )

    def _store(self) -> Iterator[Command]:
        step = 1 if self.full_c or self.spad_only else self.machine.nb
        for j in range(0, self.J if self.c or self.spad_only else 0, step):
            for i in range(self.I):
                piece = self._piece(i, j, step, self.I, self.J, (self.pad_i, self.pad_j))
                block = (i * self.J + j) * self.dim
                if self.spad_only:
                    address = 1 << 32 | (self.c_spad + block) % 2**32
                else:
                    address = self._memory(
                        self.c, i, j, self.c_stride, 4 if self.full_c else self.machine.size
                    )
                raw, rows = self._move(
                    MVOUT_SPAD if self.spad_only else MVOUT,
                    address,
                    5 if self.full_c else 4,
                    self.half["st"] + block,
                    piece,
                )
                writes = (("sp", self.c_spad + block, piece[0]),) if self.spad_only else ()
                yield Command(raw, reads=(rows,), writes=writes)
