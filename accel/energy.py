"""Energy per operation and access: the constants of the reference model, and the laws they enter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

#: A Python number, numpy array or torch tensor: the laws are plain arithmetic.
Number = TypeVar("Number")


@dataclass(frozen=True)
class RowFunctionWork:
    """What accel/rtl/baco_functions.v does for an element on the way out, in all passes.

    Attributes:
        products: bits of one operand times bits of the other, added up over the multiplications.
        lookups: entries of the table.
    """

    products: int
    lookups: int


#: Functions of rows: a softmax's exponential times the row's inverse; a normalisation's square, its element times the row's
#: factor, and that times the gain; a product's factor likewise, and the other operand.
ROW_FUNCTIONS = {
    "table": RowFunctionWork(products=0, lookups=1),
    "softmax": RowFunctionWork(products=16 * 16, lookups=2),
    "normalisation": RowFunctionWork(products=8 * 8 + 8 * 28 + 20 * 16, lookups=0),
    "product": RowFunctionWork(products=8 * 28 + 20 * 16, lookups=0),
}
#: What accel/rtl/baco_normalizer.v multiplies for an element: bits of one operand times bits of the other, added up. A square
#: or one multiplication of the exponential's three or of I-GELU's two is of 32 bits, a product of float32 of 24. A layer norm
#: is a difference; its one product is that by the store's scale, as of any result.
NORMALISATIONS = {
    "variance": 32 * 32,
    "exponential": 3 * 32 * 32,
    "layer_norm": 0,
    "i_gelu": 2 * 32 * 32,
    "integer_softmax": 3 * 32 * 32 + 24 * 24,
}
#: The multiplication in `EnergyTable.mac_pj`: bits times bits.
_MAC_PRODUCTS = 8 * 8
#: Capacity of a lane's table, KiB, and bytes of an entry.
_TABLE_KIB, _ENTRY_BYTES = 0.5, 2
#: Bytes of a row of it.
_TABLE_LANES = 2.0
#: Energy of an instruction of the host core, pJ: Zaruba and Benini, "The Cost of Application-Class Processing" (TVLSI 2019),
#: report up to 40 Gop/(s W) for a 64-bit in-order RISC-V core in 22 nm.
INSTRUCTION_PJ = 25.0
#: Energies of operations in 45 nm at 0.9 V, pJ: M. Horowitz, "Computing's Energy Problem" (ISSCC 2014): a product of 8 bits and a sum of
#: 32 bits of integers; a sum of float32, and a product of float16, whose multiplier is 11 x 11 bits.
_INTEGER_PRODUCT_PJ, _INTEGER_SUM_PJ, _FLOAT_SUM_PJ, _HALF_PRODUCT_PJ = 0.2, 0.1, 0.9, 1.1
#: Constants that the published table lacks, and what it stands for in their place.
_ADDITIONS = {
    "leakage_mw_per_mm2": 0.0,
    "clock_pj_per_mm2": 0.0,
    "memory_mw_per_gb_s": 0.0,
    "instruction_pj": INSTRUCTION_PJ,
}
#: Two clocks (MHz) of a processor and the supplies (V) that they need: the slowest and the fastest operating point of the OMAP4430
#: (Cortex-A9 in 45 nm, the node of `baco.accel.area`) in Linux 2.6.39 to 3.3, arch/arm/mach-omap2/opp4xxx_data.c.
_SUPPLIES = ((300.0, 1.025), (1008.0, 1.375))
#: The slowest and the fastest clock (MHz) between which supplies are published ones.
SUPPLY_CLOCKS = _SUPPLIES[0][0], _SUPPLIES[1][0]


def supply_volts(mhz: float) -> float:
    """The supply that a clock needs, V; see `EnergyTable.at_clock`."""
    (slow, low), (fast, high) = _SUPPLIES
    return low + (high - low) * (mhz - slow) / (fast - slow)


class EnergyLaw:
    """Energy of what is counted, pJ: of operations in the array, of accesses of memories, of bytes of main memory.

    Published constants (`EnergyTable`) are one; in a technology whose figures of switching are known,
    `baco.accel.switched_energy.SwitchedEnergy` is another (`Accelerator.energy_law` says which).
    """

    if TYPE_CHECKING:  # fields of the one, properties of the other

        @property
        def mac_pj(self) -> float:
            """Of a multiply-accumulate."""

        @property
        def register_pj(self) -> float:
            """Of an access of a register of the array; 0 where multiplications have it."""

        @property
        def dram_pj(self) -> float:
            """Of a byte of main memory."""

        @property
        def instruction_pj(self) -> float:
            """Of an instruction of the host core."""

        @property
        def static(self) -> bool:
            """Whether silicon, or the memory interface, takes energy that does nothing."""

    def array_terms(self, macs: Any, accesses: Any, dim: Any) -> tuple[Any, Any]:
        """Energy of multiply-accumulates, and of the registers of an array of side `dim`, whose accesses are one a multiplication
        and one for every stationary word; numbers, arrays or tensors that broadcast."""
        raise NotImplementedError

    def array_pj(self, macs: Any, stationary: Any, dim: Any) -> Any:
        """`array_terms` together, of multiplications and stationary words."""
        raise NotImplementedError

    def accumulator_pj(self, accumulator_kib: Any, dim: Any) -> Any:
        """Of an access of a word of the accumulator; arguments and result of any one broadcastable shape."""
        raise NotImplementedError

    def scratchpad_pj(self, scratchpad_kib: Any, dim: Any) -> Any:
        """Of an access of an element of the scratchpad, likewise."""
        raise NotImplementedError

    def function_pj(self, function: str) -> float:
        """Energy in pJ that one of `ROW_FUNCTIONS` takes for an element on the way out, accesses of its memories apart.

        Derived from the energy of a multiply-accumulate: multiplications take energy as the bits of their operands next to
        `mac_pj`, the addition in which stands for theirs; an entry of a lane's table takes what as many bytes of a
        scratchpad of its capacity do. A row's quotients and root, a bit a cycle, are left
        out: their subtractions are those of about 11 (softmax) and 46 multiplications (normalisation) a row.
        """
        work = ROW_FUNCTIONS[function]
        lookup = _ENTRY_BYTES * self.scratchpad_pj(_TABLE_KIB, _TABLE_LANES)
        return float(self.mac_pj * work.products / _MAC_PRODUCTS + lookup * work.lookups)

    def normalisation_pj(self, work: str) -> float:
        """Energy in pJ that one of `NORMALISATIONS` takes for an element: as `function_pj`, of its multiplications."""
        return self.mac_pj * NORMALISATIONS[work] / _MAC_PRODUCTS

    def with_memories(
        self,
        pj: Any,
        accumulator_words: Any,
        scratchpad_words: Any,
        *,
        accumulator_kib: Any,
        scratchpad_kib: Any,
        dim: Any,
    ) -> Any:
        """An energy and that of accesses of the local memories; numbers, arrays or tensors that broadcast."""
        accumulator = self.accumulator_pj(accumulator_kib, dim) * accumulator_words
        return pj + accumulator + self.scratchpad_pj(scratchpad_kib, dim) * scratchpad_words


class EnergyTable(BaseModel, EnergyLaw):
    """Energy constants, in pJ but for leakage, which is a power.

    Source of the defaults: method specification section 3, which gives the constants of the published Timeloop
    evaluation to the digits needed to reproduce it (thesis Table 6.3 prints them rounded).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    mac_pj: float = Field(
        0.5608, ge=0, description="pJ per multiply-accumulate (thesis Table 6.3 prints 0.561)"
    )
    register_pj: float = Field(
        0.48746, ge=0, description="pJ per access of a register of the array (Table 6.3 prints 0.487)"
    )
    accumulator_base_pj: float = Field(
        1.94, ge=0, description="pJ per accumulator access, part that is independent of capacity (Table 6.3)"
    )
    accumulator_pj_per_kib: float = Field(
        0.1005, ge=0, description="pJ per accumulator access and KiB of the column's memory (Table 6.3)"
    )
    scratchpad_base_pj: float = Field(
        0.49, ge=0, description="pJ per scratchpad access, part that is independent of capacity (Table 6.3)"
    )
    scratchpad_pj_per_kib: float = Field(
        0.02513, ge=0, description="pJ per scratchpad access and KiB of capacity (Table 6.3 prints 0.025)"
    )
    dram_pj: float = Field(100.0, ge=0, description="pJ per DRAM access of one word (Table 6.3)")
    leakage_mw_per_mm2: float = Field(
        0.0, ge=0, description="mW of leakage of each mm2 (Table 6.3 has none, 0; docs/models.md has sources)"
    )
    clock_pj_per_mm2: float = Field(
        0.0, ge=0, description="pJ of clock of each mm2 and cycle, busy or idle (likewise 0 in Table 6.3)"
    )
    memory_mw_per_gb_s: float = Field(
        0.0, ge=0, description="mW of the memory interface for each GB/s, busy or idle (0 in Table 6.3)"
    )
    instruction_pj: float = Field(
        INSTRUCTION_PJ, ge=0, description="pJ of an instruction of the host core (not in Table 6.3)"
    )

    @model_serializer(mode="wrap")
    def _without_additions(self, handler: SerializerFunctionWrapHandler) -> dict[str, float]:
        # a table without what the published one lacks is written, and hashed, as that
        values: dict[str, float] = handler(self)
        return {name: value for name, value in values.items() if value != _ADDITIONS.get(name)}

    @property
    def static(self) -> bool:
        """Whether silicon, or the memory interface, takes energy that does nothing."""
        return self.leakage_mw_per_mm2 > 0 or self.clock_pj_per_mm2 > 0 or self.memory_mw_per_gb_s > 0

    def at_clock(self, mhz: float, of_mhz: float) -> EnergyTable:
        """The constants with another clock, and with the supply V that it needs; this table is of a clock of `of_mhz`.

        V is linear in the clock between two published operating points (`_SUPPLIES`), and so beyond them. Whatever switches takes
        energy as V squared, leakage is a power that goes as V, and main memory and its interface have a supply of their own. The
        area is left as it is: it is the supply that makes silicon faster, as between the operating points of one chip.
        """
        ratio = supply_volts(mhz) / supply_volts(of_mhz)
        own = ("dram_pj", "memory_mw_per_gb_s")
        scaled = {
            name: value * (1.0 if name in own else ratio if name == "leakage_mw_per_mm2" else ratio * ratio)
            for name, value in ((name, getattr(self, name)) for name in type(self).model_fields)
        }
        return EnergyTable(**scaled)

    def of_elements(self, fraction_bits: int | None, bits: int) -> EnergyTable:
        """The table of an array that multiplies floating point of so many bits, of which some are a fraction's, and adds up float32; or
        integers (no fraction) with sums of 32 bits.

        No published table has such an array, so this is assumed: a multiply-accumulate takes `mac_pj` times the ratio that Horowitz' figures of one
        have, a product's taken as those of float16, or of int8, by the square of what its multiplier has of bits (16 times int8's 0.2 pJ is
        3.2 where int32's is 3.1). Registers are taken as those of int8. An access of the scratchpad is one of an element, of as many bytes
        as it has.
        """
        if fraction_bits is None:
            operations = _INTEGER_PRODUCT_PJ * (bits / 8) ** 2 + _INTEGER_SUM_PJ
        else:
            operations = _HALF_PRODUCT_PJ * ((1 + fraction_bits) / 11) ** 2 + _FLOAT_SUM_PJ
        usual = _INTEGER_PRODUCT_PJ + _INTEGER_SUM_PJ
        scratchpad = ("scratchpad_base_pj", "scratchpad_pj_per_kib")
        return self.model_copy(
            update={name: getattr(self, name) * bits / 8 for name in scratchpad}
            | {"mac_pj": self.mac_pj * operations / usual}
        )

    def static_pj_per_cycle(self, area_mm2: Number, clock_mhz: float) -> Number:
        """Energy in pJ that silicon takes in every cycle, whatever it does: leakage, which is a power (mW / MHz is nJ
        a cycle), and the clock. The result has the shape of the area."""
        area: Any = area_mm2
        return cast(Number, area * (self.leakage_mw_per_mm2 * 1e3 / clock_mhz + self.clock_pj_per_mm2))

    def memory_pj_per_cycle(self, bytes_per_cycle: Number) -> Number:
        """Energy in pJ that the memory interface takes in every cycle for being there: a GB/s is a byte a cycle of 1 GHz, so
        that the clock cancels out. The result has the shape of the argument."""
        return cast(Number, self.memory_mw_per_gb_s * cast(Any, bytes_per_cycle))

    def accumulator_pj(self, accumulator_kib: Number, dim: Number) -> Number:
        """Energy of one accumulator access in pJ; arguments and result of any one broadcastable shape.

        Every column of the array has its own memory, hence the capacity divided by `dim`.
        """
        capacity: Any = accumulator_kib
        return cast(Number, self.accumulator_base_pj + self.accumulator_pj_per_kib * capacity / dim)

    def scratchpad_pj(self, scratchpad_kib: Number, dim: Any = 1) -> Number:
        """Energy of one scratchpad access in pJ, whatever the array's side; the result has the shape of the capacity."""
        capacity: Any = scratchpad_kib
        return cast(Number, self.scratchpad_base_pj + self.scratchpad_pj_per_kib * capacity)

    def array_terms(self, macs: Any, accesses: Any, dim: Any = 1) -> tuple[Any, Any]:
        """See `EnergyLaw.array_terms`; whatever the array's side."""
        return self.mac_pj * macs, self.register_pj * accesses

    def array_pj(self, macs: Any, stationary: Any, dim: Any = 1) -> Any:
        """See `EnergyLaw.array_pj`."""
        return macs * (self.mac_pj + self.register_pj) + stationary * self.register_pj
