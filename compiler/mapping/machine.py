"""Machines: what mappings and their analyses need to know of hardware, as data.

A machine is a stack of memories around an array. Where one level fans out to several instances of the level inside it,
there is an *axis* of the array. A *dataflow* is a way to use array and memories (`baco.accel.dataflows`): which dimensions run along
each axis, which loops may run at each level and which tensors stay there.

Every accelerator of ours gives one (`machine_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import ConfigDict

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, DataflowRule
from baco.common.errors import InputError, did_you_mean
from baco.compiler.mapping.contraction import DATA_TYPES, Access

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ArrayAxis:
    """One direction in which a level fans out to instances of the level inside it (level 0: to the multipliers)."""

    __pydantic_config__ = _STRICT
    level: int
    size: int

    def __post_init__(self) -> None:
        if self.level < 0 or self.size < 1:
            raise InputError(f"an axis of {self.size} instances inside level {self.level} is none")


@dataclass(frozen=True)
class Level:
    """One memory; capacities and rates are those of one instance.

    Attributes:
        name: for messages and tables.
        words: capacity shared by all it keeps, None without a limit.
        parts: capacity of single tensors in words, where the memory is divided.
        word_bits: bits of a word: an element takes as many whole words as it needs. None: one, whatever its type.
        row_words: words of a row. The last dimension of every tile is padded to whole rows.
        banks: of the memory.
        ports: accesses a bank can serve in a cycle.
        access_pj: energy of an access of one word.
        words_per_cycle, reads_per_cycle, writes_per_cycle: None where they never bind.
    """

    __pydantic_config__ = _STRICT
    name: str
    words: int | None = None
    parts: Mapping[str, int] | None = None
    word_bits: int | None = None
    row_words: int = 1
    banks: int = 1
    ports: int = 1
    access_pj: float = 0.0
    words_per_cycle: float | None = None
    reads_per_cycle: float | None = None
    writes_per_cycle: float | None = None

    def __post_init__(self) -> None:
        sizes = (self.words, self.word_bits, self.row_words, self.banks, self.ports)
        rates = (self.words_per_cycle, self.reads_per_cycle, self.writes_per_cycle)
        if any(one is not None and not one > 0 for one in (*sizes, *rates)) or self.access_pj < 0:
            raise InputError(f"sizes and rates of level '{self.name}' must be more than 0")

    def element_words(self, access: Access) -> int:
        """Words of one element of a tensor."""
        return 1 if self.word_bits is None else -(-access.bits // self.word_bits)


@dataclass(frozen=True)
class Machine:
    """Hardware as mappings see it; `baco.compiler.mapping.machines` reads it from files.

    Attributes:
        name: for messages.
        levels: memories, innermost first; the last is main memory.
        axes: of the arrays, and of instances of memories further out.
        dataflows: that the arrays can run, by name.
        data_types: that the multipliers take.
        arrays: how many can work on different operators at the same time; the axes say how many instances there are.
        dma_words_per_cycle: words that move between main memory and the chip in a cycle.
        mac_pj: energy of a multiply-accumulate.
        transfer_cycles: that moving one tile of one tensor to or from main memory takes beside its words.
        pass_cycles: that the array takes beside a pass's iterations, to fill and to drain.
        copies: of tiles that pipelines of passes hold.
        running_softmax: whether it has code (and units) for softmaxes whose rows come in blocks (`baco.compiler.mapping.rows`).
        reuses_blocks: whether what a pass needs is not brought again where the pass before left it.
    """

    __pydantic_config__ = _STRICT
    name: str
    levels: tuple[Level, ...]
    axes: tuple[ArrayAxis, ...]
    dataflows: Mapping[str, DataflowRule]
    data_types: tuple[str, ...] = ("int8",)
    arrays: int = 1
    dma_words_per_cycle: float = 8.0
    mac_pj: float = 0.0
    transfer_cycles: float = 0.0
    pass_cycles: float = 0.0
    copies: int = 2
    reuses_blocks: bool = True
    running_softmax: bool = False

    def __post_init__(self) -> None:
        if len(self.levels) < 2:
            raise InputError(f"machine '{self.name}' needs a memory on chip and main memory")
        if any(axis.level >= len(self.levels) for axis in self.axes):
            raise InputError(f"an axis of machine '{self.name}' lies inside a level that it has not")
        for name in set(self.data_types) - set(DATA_TYPES):
            raise InputError(f"unknown data type '{name}'", hint=did_you_mean(name, DATA_TYPES))
        if min(self.arrays, self.copies) < 1 or not self.dma_words_per_cycle > 0:
            raise InputError(f"machine '{self.name}' needs arrays, copies and a rate of its main memory")
        if min(self.transfer_cycles, self.pass_cycles, self.mac_pj) < 0:
            raise InputError(f"cycles and energies of machine '{self.name}' cannot be less than 0")

    @cached_property
    def multipliers(self) -> int:
        """Multiply-accumulates a cycle at most."""
        product = 1
        for axis in self.axes:
            product *= axis.size
        return product

    def dataflow(self, name: str) -> DataflowRule:
        """One of its dataflows. Raises InputError for another one."""
        if name not in self.dataflows:
            raise InputError(
                f"machine '{self.name}' has no dataflow '{name}'", hint=did_you_mean(name, self.dataflows)
            )
        return self.dataflows[name]


def machine_of(accelerator: Accelerator) -> Machine:
    """The machine that an accelerator is.

    Registers, the accumulator's memory of one column, the scratchpad, main memory: the levels of `nest.Mapping`.
    Accumulator words are as wide as its elements, so that whatever it holds takes one word; the scratchpad counts bytes.
    Energies are those of `Accelerator.energy_law`.
    """
    a, table = accelerator, accelerator.energy_law
    return Machine(
        a.name,
        (
            Level("registers", word_bits=None, access_pj=table.register_pj),
            Level(
                "accumulator",
                a.accumulator_rows,
                word_bits=a.accumulator_bits,
                banks=a.accumulator_banks,
                access_pj=float(table.accumulator_pj(float(a.accumulator_kib), float(a.dim))),
                words_per_cycle=2.0,
            ),
            Level(
                "scratchpad",
                a.scratchpad_rows * a.dim * a.input_bits // 8,
                word_bits=8,
                row_words=a.dim * a.input_bits // 8,
                banks=a.scratchpad_banks,
                access_pj=float(table.scratchpad_pj(float(a.scratchpad_kib), float(a.dim))),
                words_per_cycle=2.0 * a.dim,
            ),
            Level(
                "main memory", word_bits=8, access_pj=table.dram_pj, words_per_cycle=a.dram_bytes_per_cycle
            ),
        ),
        (ArrayAxis(1, a.dim), ArrayAxis(2, a.dim)),
        {name: DATAFLOWS[name] for name in a.dataflows},
        (f"int{a.input_bits}",),
        dma_words_per_cycle=min(a.dram_bytes_per_cycle, a.dma_bits / 8),
        mac_pj=table.mac_pj,
    )
