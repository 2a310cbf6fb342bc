"""Energy of what was counted while commands ran, with the constants of the reference model (`baco.accel.energy`)."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.config import Accelerator
from baco.accel.energy import NORMALISATIONS, ROW_FUNCTIONS
from baco.accel.switching_figures import SwitchingFigures
from baco.common.errors import InputError
from baco.sim.job import Simulation

__all__ = [
    "ENERGY_TERMS",
    "counted_activity",
    "counted_energy",
    "energy_uj",
    "static_energy",
    "switched_energy",
]

#: Of what was counted on every accelerator. What silicon takes besides is `static_energy`.
ENERGY_TERMS = ("mac", "registers", "accumulator", "scratchpad", "dram")


def counted_energy(activity: Mapping[str, int], accelerator: Accelerator) -> dict[str, float]:
    """Energy in pJ by `ENERGY_TERMS`, and of `functions` of rows and `normalisations` where the
    accelerator has them.

    Args:
        activity: counts of `baco.sim.job.Simulation.activity`. Words as in the reference model (method specification,
            section 3): registers are accessed once a multiplication and once for every stationary word moved in;
            the accumulator in 32-bit words, the scratchpad and DRAM in bytes. A row of a local memory is one access
            of all its words, since all its columns are clocked.
        accelerator: its energy table and capacities.
    """
    table = accelerator.energy
    accesses = {
        "mac": activity["macs"],
        "registers": activity["macs"] + activity["stationary_words"],
        "accumulator": activity["accumulator_read_words"] + activity["accumulator_write_words"],
        "scratchpad": activity["scratchpad_read_bytes"] + activity["scratchpad_write_bytes"],
        "dram": activity["dram_read_bytes"] + activity["dram_write_bytes"],
    }
    unit = {
        "mac": table.mac_pj,
        "registers": table.register_pj,
        "accumulator": table.accumulator_pj(float(accelerator.accumulator_kib), float(accelerator.dim)),
        "scratchpad": table.scratchpad_pj(float(accelerator.scratchpad_kib)),
        "dram": table.dram_pj,
    }
    found = {name: accesses[name] * unit[name] for name in ENERGY_TERMS}
    if accelerator.features.row_functions:
        found["functions"] = sum(
            activity[f"{name}_elements"] * table.function_pj(name) for name in ROW_FUNCTIONS
        )
    if accelerator.features.normalizations:
        found["normalisations"] = sum(
            activity[f"{name}_elements"] * table.normalisation_pj(name) for name in NORMALISATIONS
        )
    return found


def static_energy(cycles: float, accelerator: Accelerator) -> dict[str, float]:
    """Leakage and clock in pJ over measured cycles, as a further term; none where the energy table has no static part."""
    return {"static": accelerator.static_pj(cycles)} if accelerator.energy.static else {}


def counted_activity(result: Simulation) -> dict[str, int]:
    """What a simulation counted, for `counted_energy`.

    Bytes of DRAM are those that its channel moved, where an engine has one: what commands ask for is less where rows do
    not begin and end with the channel's bursts.
    """
    moved = {"dram_read_bytes": result.dram_read_bytes, "dram_write_bytes": result.dram_write_bytes}
    return result.activity | {name: count for name, count in moved.items() if count is not None}


def energy_uj(result: Simulation, accelerator: Accelerator) -> float | None:
    """Energy of the accelerator and its main memory in µJ; None from simulators that do not count what it takes."""
    if not result.activity:
        return None
    terms = counted_energy(counted_activity(result), accelerator)
    return sum((terms | static_energy(result.cycles or 0, accelerator)).values()) * 1e-6


def switched_energy(
    result: Simulation, accelerator: Accelerator, figures: SwitchingFigures
) -> dict[str, float]:
    """Energy of the accelerator in pJ from what switched in a run of its RTL, in a technology: `clock`, `array` with its real
    operands, `accumulator`, `scratchpad`, and `control`, the path of commands and of what moves. Leakage, main memory and
    units for functions of rows and the normaliser are not in it.

    Raises InputError for a run that did not count it: of another engine than `rtl`.
    """
    counters, activity, dim = result.counters, result.activity, accelerator.dim
    if "array_sum_bits" not in counters or result.cycles is None:
        raise InputError(
            f"the engine {result.engine} does not count what switches", hint="run it in the engine rtl"
        )
    scratchpad_rows = (activity["scratchpad_read_bytes"] + activity["scratchpad_write_bytes"]) / dim
    accumulated = activity["accumulator_read_words"] + activity["accumulator_write_words"]
    operands = (
        figures.a * counters["array_a_bits"]
        + figures.weight * counters["array_weight_bits"]
        + figures.multiplier * counters["array_multiplier_bits"]
        + figures.element * counters["array_cycles"] * dim
    )
    return {
        "clock": figures.clock_pj(accelerator) * result.cycles,
        "array": operands * dim
        + figures.product * counters["array_product_bits"]
        + figures.total * counters["array_sum_bits"],
        "accumulator": figures.accumulator_pj(accelerator) * accumulated / dim,
        "scratchpad": figures.scratchpad_pj(accelerator) * scratchpad_rows,
        "control": figures.command * sum((*result.commands.values(), *result.unrolled.values()))
        + figures.moved_byte * (activity["dram_read_bytes"] + activity["dram_write_bytes"])
        + figures.accumulated_word * accumulated,
    }
