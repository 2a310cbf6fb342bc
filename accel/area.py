"""Area of an accelerator in mm2, fitted to the published Accelergy/CACTI/Aladdin areas.

The law is a sum of three parts, each of which the published data determine separately:

    area = element * dim^2                      multipliers and registers of the array
         + dim * accumulator(E)                 one two-bank memory of E = KiB * 256 / dim words a column
         + scratchpad(B) + wiring * dim * B     one memory of B bytes; a row of it is dim bytes wide

`accumulator` and `scratchpad` are continuous piecewise linear laws whose knots and slopes lie in
`area.json`. A scratchpad of fewer than 64 rows takes the room of one with 64 (so the memory generator behind
the data has it). No slope is negative, and accumulator(E)/E never rises, so that the area never falls when
any argument grows, even as a larger array spreads the same accumulator over more columns. Beyond the data
(above 2 MiB) the last slopes continue. `python -m baco.bench.fit.area PATH` refits the coefficients.

The published areas vary in these three values only. What else a configuration decides enters as a difference
to the reference, which has the defaults everywhere else, so that the reference keeps the area of the law:

* Banks. Each bank more costs `AreaLaw.bank_bit_mm2` for every bit of a row. A memory of fewer banks costs the
  law's area times the ratio of what its cells and its banks cost, cells at the law's last slope. Either way the
  area never falls as a capacity grows.
* Logic. `baco.accel.structure_law` says how many registers, multipliers, adders and multiplexers more or fewer
  there are. They cost their cells in a public 45 nm library (`CELLS_UM2`), times the one factor that makes what
  a published element consists of (`PUBLISHED_ELEMENT`) cost `element`.
* Functions of rows. Every element that leaves in a cycle looks up its own copy of the table: a memory of one bank, with
  the bits' cost of a bank of the accumulator's and cells at its last slope. The rest of the units is logic, as above.
* The dataflow of the reference is the configuration's own, or both where that is output-stationary only. So
  weight-stationary arrays and those with both dataflows have the same area, though the latter hold 48 register
  bits an element more: searches and published comparisons use both for the same law.

The published areas have no control logic to take away from, and small designs would end below zero. So a logic
difference d < 0 multiplies the area A by 1 / (1 - d / A), which is A + d for small d and always positive. Since
the reference's control logic is saved but was never charged, the area of arrays that have much less of it than
the reference may fall as `dim` grows; who needs a bound over several sides must look at each of them.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, TypeVar, cast

import numpy as np

from baco.accel.structure_law import Configuration, structure_law, terms

#: A Python number, numpy array or torch tensor: the law is plain arithmetic.
Number = TypeVar("Number")

#: Rows below which the memory generator behind the published areas no longer shrinks a scratchpad.
MIN_SCRATCHPAD_ROWS = 64

#: Cell areas in um2 for one of each quantity of the structure law. Source: Nangate 45 nm Open Cell Library for
#: FreePDK45, drive strength X1: DFF 4.522, AND2 1.064, FA (full adder) 4.256, MUX2 1.862; a partial product is
#: an AND gate and a full adder. Only their ratios matter, see `logic_scale`.
CELLS_UM2 = {
    "register_bits": 4.522,
    "partial_products": 1.064 + 4.256,
    "adder_bits": 4.256,
    "multiplexer_bits": 1.862,
}
#: What an element is in the published areas: a multiplier of 8 x 8 bits, an adder of 32 and a weight register.
PUBLISHED_ELEMENT = {"register_bits": 8, "partial_products": 64, "adder_bits": 32, "multiplexer_bits": 0}
#: Banks and word width, bits, of one column's accumulator in the published designs.
_LAW_BANKS, _LAW_WORD_BITS = 2, 32
#: The table of functions of rows.
TABLE_ENTRIES, TABLE_BITS = 256, 16
#: Fields of a configuration that decide its structure.
_STRUCTURAL = tuple(name for name, value in vars(Configuration).items() if isinstance(value, property))
#: They alone: what is equal in these has the same logic.
_Structure: Any = namedtuple("_Structure", _STRUCTURAL)  # type: ignore[misc]
#: Width of a main-memory address.
_ADDRESS_BITS = 40
#: Words of a memory that is almost all periphery, see `AreaLaw.bank_bit_mm2`.
_PERIPHERY_WORDS = 64


@dataclass(frozen=True)
class AreaLaw:
    """Coefficients of the law above.

    Attributes:
        element_mm2: area per processing element.
        accumulator_knots: words per column at which the slope changes, ascending; the first segment
            starts at 0 and the last has no end.
        accumulator_slopes: mm2 per word, one more than there are knots.
        scratchpad_knots: likewise, bytes.
        scratchpad_slopes: mm2 per byte.
        wiring_mm2: mm2 per byte of capacity and byte of row width.
    """

    element_mm2: float
    accumulator_knots: tuple[float, ...]
    accumulator_slopes: tuple[float, ...]
    scratchpad_knots: tuple[float, ...]
    scratchpad_slopes: tuple[float, ...]
    wiring_mm2: float

    def array_mm2(self, dim: Number) -> Number:
        """Area of the array."""
        side: Any = dim
        return cast(Number, self.element_mm2 * side * side)

    def accumulator_mm2(self, dim: Number, accumulator_kib: Number) -> Number:
        """Area of the accumulator memories of all columns."""
        side: Any = dim
        capacity: Any = accumulator_kib
        words = capacity * 256 / side
        return cast(Number, side * _piecewise(words, self.accumulator_knots, self.accumulator_slopes))

    @property
    def bank_bit_mm2(self) -> float:
        """What a bank costs besides its cells, mm2 for each bit of a word.

        Taken from the accumulator's memories of `_PERIPHERY_WORDS` words: up to there the law hardly grows,
        as they are all periphery. Their cells are taken away at the last slope, which is that of cells alone.
        """
        least = _piecewise(_PERIPHERY_WORDS, self.accumulator_knots, self.accumulator_slopes)
        besides = least - _PERIPHERY_WORDS * self.accumulator_slopes[-1]
        return float(besides / (_LAW_BANKS * _LAW_WORD_BITS))

    def accumulator_in_banks_mm2(
        self, dim: Number, accumulator_kib: Number, banks: int, reference_banks: int
    ) -> Number:
        """Area of the accumulator in `banks` banks, where the law's is in `reference_banks`."""
        side: Any = dim
        capacity: Any = accumulator_kib
        cells = capacity * 256 * self.accumulator_slopes[-1]
        law = self.accumulator_mm2(side, capacity)
        return cast(Number, _in_banks(law, cells, self.bank_bit_mm2 * 32 * side, banks, reference_banks))

    def scratchpad_in_banks_mm2(
        self, dim: Number, scratchpad_kib: Number, banks: int, reference_banks: int
    ) -> Number:
        """Area of the scratchpad in `banks` banks, likewise."""
        side: Any = dim
        capacity: Any = scratchpad_kib
        cells = capacity * 1024 * self.scratchpad_slopes[-1]
        law = self.scratchpad_mm2(side, capacity)
        return cast(Number, _in_banks(law, cells, self.bank_bit_mm2 * 8 * side, banks, reference_banks))

    def scratchpad_mm2(self, dim: Number, scratchpad_kib: Number) -> Number:
        """Area of the scratchpad."""
        side: Any = dim
        capacity: Any = scratchpad_kib
        least = side * MIN_SCRATCHPAD_ROWS
        size = least + _positive(capacity * 1024 - least)
        law = _piecewise(size, self.scratchpad_knots, self.scratchpad_slopes)
        return cast(Number, law + self.wiring_mm2 * side * size)

    def tables_mm2(self, lanes: Number) -> Number:
        """Area of the tables of functions of rows: a memory of one bank for every element that leaves in a cycle."""
        count: Any = lanes
        words = TABLE_ENTRIES * TABLE_BITS / _LAW_WORD_BITS
        return cast(Number, count * (TABLE_BITS * self.bank_bit_mm2 + words * self.accumulator_slopes[-1]))

    def __call__(self, dim: Number, accumulator_kib: Number, scratchpad_kib: Number) -> Number:
        """Area in mm2; see `area_mm2`."""
        array: Any = self.array_mm2(dim)
        accumulator: Any = self.accumulator_mm2(dim, accumulator_kib)
        return cast(Number, array + accumulator + self.scratchpad_mm2(dim, scratchpad_kib))


def _in_banks(law: Any, cells: Any, bank: Any, banks: int, reference_banks: int) -> Any:
    """Area of a memory in some number of banks, mm2.

    Args:
        law: its area in `reference_banks` banks. cells, bank: what all its cells and one bank cost.
    """
    if banks >= reference_banks:
        return law + (banks - reference_banks) * bank
    return law * (cells + banks * bank) / (cells + reference_banks * bank)


def _positive(x: Any) -> Any:
    """max(x, 0) by arithmetic that numbers, arrays and tensors share; its derivative at 0 is 1/2."""
    return (x + abs(x)) / 2


def _piecewise(x: Any, knots: tuple[float, ...], slopes: tuple[float, ...]) -> Any:
    """Integral from 0 to x of the slopes between 0, the knots and infinity.

    Written so that a derivative taken exactly at a knot (capacities are mostly powers of two, as the knots
    are) is the mean of the slopes beside it.
    """
    total = slopes[0] * x
    for knot, before, after in zip(knots, slopes[:-1], slopes[1:], strict=True):
        total = total + (after - before) * _positive(x - knot)
    return total


def _load() -> AreaLaw:
    text = resources.files(__package__).joinpath("area.json").read_text(encoding="utf-8")
    coefficients: dict[str, Any] = json.loads(text)["coefficients"]
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in coefficients.items()}
    return AreaLaw(**values)


#: The law with the committed coefficients.
AREA = _load()


def area_mm2(dim: Number, accumulator_kib: Number, scratchpad_kib: Number) -> Number:
    """Area of an accelerator with 8-bit inputs and 32-bit accumulation, in mm2.

    Args:
        dim: array side. accumulator_kib, scratchpad_kib: capacities in KiB. Python numbers, numpy arrays or
            torch tensors of any one broadcastable shape; relaxed (fractional) values are accepted.

    Returns:
        The area, with the shape of the arguments; differentiable for torch (its derivative jumps at knots).

    The mean error against the published areas is stated, with cross-validation, in `area.json`; see the
    module's text for the law and its source.
    """
    return AREA(dim, accumulator_kib, scratchpad_kib)


@cache
def logic_scale() -> float:
    """What the library's cells are multiplied by: published area of an element over that of its cells.

    0.75; between processes of 45 and 40 nm, areas shrink to (40 / 45)^2 = 0.79.
    """
    return float(AREA.element_mm2 / _cells_mm2(PUBLISHED_ELEMENT))


def _cells_mm2(counts: Mapping[str, Any]) -> Any:
    return sum(area * counts[name] for name, area in CELLS_UM2.items()) * 1e-6


@cache
def _prices() -> dict[str, float]:
    """What one of each term of the structure law costs, mm2."""
    law = structure_law().coefficients
    names = dict.fromkeys(name for factors in law.values() for name in factors)
    return {
        name: logic_scale() * _cells_mm2({quantity: law[quantity].get(name, 0.0) for quantity in CELLS_UM2})
        for name in names
    }


def arbiter_counts(units: int, dma_bits: int, reads: int, writes: int) -> dict[str, float]:
    """Of a system's arbiter (accel/rtl/baco_memory_arbiter.v), by quantity of the structure law.

    Args:
        units: that have a memory port.
        dma_bits: width of the ports.
        reads, writes: requests and beats that its queues hold.

    What selects one of several words is made of gates there, and counted as the multiplexers that they replace.
    """
    queues = reads * (units + 8) + writes * units
    counters = sum(2 * max(1, (depth - 1).bit_length()) + depth.bit_length() for depth in (reads, writes))
    selected = (_ADDRESS_BITS + 3) + (_ADDRESS_BITS + dma_bits + dma_bits // 8) + _ADDRESS_BITS
    return {
        "register_bits": queues + counters + 2 * (units + 1) + 8 + _ADDRESS_BITS,
        "partial_products": 0,
        "adder_bits": 2 * _ADDRESS_BITS + 8 + 2 * counters,
        "multiplexer_bits": queues + (units - 1) * selected,
    }


def adapter_counts(unit_bits: int, dma_bits: int, reads: int, beats: int, writes: int) -> dict[str, float]:
    """As `arbiter_counts` of what is between a port and a wider one (accel/rtl/baco_memory_adapter.v).

    Args:
        unit_bits, dma_bits: width of both.
        reads, beats, writes: requests, beats of the wider port, and of writes that its queues hold.
    """
    lane = (dma_bits // unit_bits).bit_length() - 1
    queues = reads * (lane + 8) + beats * dma_bits + writes * lane
    counters = sum(
        2 * max(1, (depth - 1).bit_length()) + depth.bit_length() for depth in (reads, beats, writes)
    )
    held = dma_bits + dma_bits // 8 + _ADDRESS_BITS - (dma_bits // 8).bit_length() + 1 + 2 * lane + 2
    pending = (writes * dma_bits // unit_bits).bit_length()
    return {
        "register_bits": queues + counters + held + pending + 8,
        "partial_products": 0,
        "adder_bits": _ADDRESS_BITS + 16 + 2 * (counters + pending),
        "multiplexer_bits": queues + dma_bits + (dma_bits - unit_bits),
    }


def cells_mm2(counts: Mapping[str, float], um2: Mapping[str, float] | None = None) -> float:
    """Area of counts by quantity, mm2, where one of each takes `um2`; by default as the published areas have it."""
    if um2 is None:
        return float(logic_scale() * _cells_mm2(counts))
    return sum(area * counts[name] for name, area in um2.items()) * 1e-6


def _logic_mm2(configuration: Configuration, reference: Configuration, dim: Any) -> Any:
    """What the logic of a configuration costs more than that of another, mm2, with the shape of `dim`."""
    one, other = (
        _Structure(*(getattr(of, name) for name in _STRUCTURAL)) for of in (configuration, reference)
    )
    if one == other:
        return 0.0
    return _by_side(
        lambda sides: _difference(one, other, sides), lambda side: _logic_of(one, other, side), dim
    )


@lru_cache(maxsize=65_536)
def _logic_of(configuration: Any, reference: Any, side: float) -> float:
    """`_logic_mm2` of one side."""
    return float(_difference(configuration, reference, side))


def _difference(configuration: Any, reference: Any, dim: Any) -> Any:
    one, other = terms(configuration, dim), terms(reference, dim)
    return sum(price * (one[name] - other[name]) for name, price in _prices().items())


@cache
def term_prices(um2: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    """What one of each term of the structure law costs, mm2, where one of each quantity costs `um2`."""
    law = structure_law().coefficients
    names = dict.fromkeys(name for factors in law.values() for name in factors)
    return tuple(
        (name, sum(area * law[quantity].get(name, 0.0) for quantity, area in um2) * 1e-6) for name in names
    )


def priced_mm2(configuration: Configuration, dim: Any, prices: tuple[tuple[str, float], ...]) -> Any:
    """What all the logic of a configuration costs, mm2, with the shape of `dim`, at prices of `term_prices`."""
    one = _Structure(*(getattr(configuration, name) for name in _STRUCTURAL))
    return _by_side(lambda side: _priced(one, side, prices), lambda side: _kept_price(one, side, prices), dim)


def _priced(configuration: Any, dim: Any, prices: tuple[tuple[str, float], ...]) -> Any:
    values = terms(configuration, dim)
    return sum(price * values[name] for name, price in prices if price)


@lru_cache(maxsize=65_536)
def _kept_price(configuration: Any, side: float, prices: tuple[tuple[str, float], ...]) -> float:
    return float(_priced(configuration, side, prices))


def _by_side(of: Callable[[Any], Any], kept: Callable[[float], float], dim: Any) -> Any:
    """`of` a side; `kept`, the same remembered, where sides are numbers."""
    if isinstance(dim, int | float):
        return kept(float(dim))
    if isinstance(dim, np.ndarray):  # few different sides, and the same ones again and again
        sides, place = np.unique(dim, return_inverse=True)
        return np.array([kept(side) for side in sides.tolist()])[place].reshape(dim.shape)
    return of(dim)


#: Of silicon, in the order in which their areas are added.
_BLOCKS = ("array", "accumulator", "scratchpad", "tables")


def configured_area_mm2(
    configuration: Configuration,
    reference: Configuration,
    dim: Number,
    accumulator_kib: Number,
    scratchpad_kib: Number,
) -> Number:
    """Area of accelerators that have everything but their sizes from a configuration, in mm2.

    Args:
        configuration: what is built, with 8-bit inputs and 32-bit accumulation.
        reference: what `area_mm2` stands for; the result is exactly its where nothing differs.
        dim, accumulator_kib, scratchpad_kib: as for `area_mm2`.

    Returns:
        The area, with the shape of the sizes; positive, differentiable for torch.
    """
    blocks = _blocks_mm2(configuration, reference, dim, accumulator_kib, scratchpad_kib)
    area: Any = sum(blocks[1:], blocks[0])
    logic = _logic_mm2(configuration, reference, dim)
    added = _positive(logic)
    return cast(Number, area / (1 + (added - logic) / area) + added)


def configured_blocks_mm2(
    configuration: Configuration,
    reference: Configuration,
    dim: float,
    accumulator_kib: float,
    scratchpad_kib: float,
) -> dict[str, float]:
    """`configured_area_mm2` by block: the array, both memories, tables of row functions, and the logic that a configuration
    has more than the reference (what it has less is taken from all the others alike). Blocks that are not there are left out."""
    blocks = _blocks_mm2(configuration, reference, dim, accumulator_kib, scratchpad_kib)
    logic = float(_logic_mm2(configuration, reference, dim))
    added = float(_positive(logic))
    kept = 1 / (1 + (added - logic) / sum(blocks))
    found = {name: float(one) * kept for name, one in zip(_BLOCKS, blocks, strict=False)} | {"logic": added}
    return {name: value for name, value in found.items() if value}


def _blocks_mm2(
    configuration: Configuration,
    reference: Configuration,
    dim: Any,
    accumulator_kib: Any,
    scratchpad_kib: Any,
) -> list[Any]:
    """Areas in the order of `_BLOCKS`, the last only where it is there."""
    found = [
        AREA.array_mm2(dim),
        AREA.accumulator_in_banks_mm2(
            dim, accumulator_kib, configuration.accumulator_banks, reference.accumulator_banks
        ),
        AREA.scratchpad_in_banks_mm2(
            dim, scratchpad_kib, configuration.scratchpad_banks, reference.scratchpad_banks
        ),
    ]
    if configuration.features.row_functions:
        found.append(AREA.tables_mm2(terms(configuration, dim)["lanes"]))
    return found
