"""Energy of what was counted while commands ran: with the constants of the reference model (`baco.accel.energy`), or in a
technology whose figures of switching are known, from what switched in RTL."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.config import Accelerator
from baco.accel.energy import NORMALISATIONS, ROW_FUNCTIONS
from baco.accel.switching_figures import SwitchingFigures
from baco.accel.technology import known_figures, technology
from baco.common.errors import InputError
from baco.sim.job import Simulation

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
    law, macs, dim = accelerator.energy_law, activity["macs"], float(accelerator.dim)
    accumulated = activity["accumulator_read_words"] + activity["accumulator_write_words"]
    of_scratchpad = activity["scratchpad_read_bytes"] + activity["scratchpad_write_bytes"]
    moved = activity["dram_read_bytes"] + activity["dram_write_bytes"]
    terms = (
        *law.array_terms(macs, macs + activity["stationary_words"], dim),
        accumulated * law.accumulator_pj(float(accelerator.accumulator_kib), dim),
        of_scratchpad / accelerator.element_bytes * law.scratchpad_pj(float(accelerator.scratchpad_kib), dim),
        moved * law.dram_pj,
    )
    return dict(zip(ENERGY_TERMS, terms, strict=True)) | _units_energy(activity, accelerator)


def _units_energy(activity: Mapping[str, int], accelerator: Accelerator) -> dict[str, float]:
    """Of functions of rows and the normaliser, where they are there."""
    law, found = accelerator.energy_law, {}
    if accelerator.features.row_functions:
        found["functions"] = sum(
            activity[f"{name}_elements"] * law.function_pj(name) for name in ROW_FUNCTIONS
        )
    if accelerator.features.normalizations:
        found["normalisations"] = sum(
            activity[f"{name}_elements"] * law.normalisation_pj(name) for name in NORMALISATIONS
        )
    return found


def static_energy(cycles: float, accelerator: Accelerator) -> dict[str, float]:
    """Leakage and clock in pJ over measured cycles, as a further term; none where the energy law has no static part."""
    return {"static": accelerator.static_pj(cycles)} if accelerator.energy_law.static else {}


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
    return sum(measured_energy(result, accelerator, result.cycles or 0).values()) * 1e-6


def energy_source(accelerator: Accelerator) -> str:
    """Where energies of an accelerator come from, measured and predicted ones, and what is assumed, in words."""
    figures, table = known_figures(accelerator.technology), accelerator.energy
    assumed = (
        f"main memory is assumed to take {table.dram_pj:g} pJ a byte (published evaluation, thesis Table 6.3: 100) and the host core"
        f" {table.instruction_pj:g} pJ an instruction"
    )
    if accelerator.input_format != "integer" and figures is None:
        ratio = accelerator.energy_law.mac_pj / table.mac_pj
        assumed += f"; a multiply-accumulate of {accelerator.input_format} is assumed to take {ratio:.3g} times one of int8 (Horowitz, ISSCC 2014)"
    if figures is None:
        return (
            f"energy: what was counted in the run (predicted: what the model counts) times the constants of the published evaluation;"
            f" {assumed}"
        )
    if accelerator.input_format != "integer":
        ratio = technology(accelerator.technology).float_macs[accelerator.input_format]
        return (
            f"energy: what was counted in the run (predicted: what the model counts) times figures of {accelerator.technology} before layout;"
            f" a multiply-accumulate of {accelerator.input_format} takes {ratio:.3g} times one of int8 with numbers that are usual, as"
            f" netlists do; {assumed}"
        )
    return (
        f"energy: what switched in the run in RTL (predicted: what the model counts) times figures of {accelerator.technology} before"
        f" layout, which are {figures.error:.1%} off against gate level, clock apart; {assumed}"
    )


def measured_energy(result: Simulation, accelerator: Accelerator, cycles: float) -> dict[str, float]:
    """Energy in pJ of a run and its main memory by what takes it, `static` included.

    In a technology with figures of switching, of a run in RTL: `array`, `accumulator`, `scratchpad` and `control` from what
    switched, `static` the clock and leakage, and `dram` main memory by the energy table, with the way of its bytes through the
    accelerator. Else `counted_energy` and `static_energy`.

    Args:
        cycles: that it is said to take.
    """
    activity, figures = counted_activity(result), known_figures(accelerator.technology)
    integers = accelerator.input_format == "integer"
    if figures is None or not integers or "array_sum_bits" not in result.counters:
        return counted_energy(activity, accelerator) | static_energy(cycles, accelerator)
    found = switched_energy(result, accelerator, figures)
    del found["clock"]
    moved = activity["dram_read_bytes"] + activity["dram_write_bytes"]
    found["dram"] = found.pop("moves") + accelerator.energy.dram_pj * moved
    return found | _units_energy(activity, accelerator) | static_energy(cycles, accelerator)


def switched_energy(
    result: Simulation, accelerator: Accelerator, figures: SwitchingFigures
) -> dict[str, float]:
    """Energy of the accelerator in pJ from what switched in a run of its RTL, in a technology: `clock`, `array` with its real
    operands, `accumulator`, `scratchpad`, `moves`, the way of bytes from and to main memory, and `control`, that of commands. Leakage, main memory and
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
        "accumulator": (figures.accumulator_pj(accelerator) / dim + figures.accumulated_word) * accumulated,
        "scratchpad": figures.scratchpad_pj(accelerator) * scratchpad_rows,
        "moves": figures.moved_byte * (activity["dram_read_bytes"] + activity["dram_write_bytes"]),
        "control": figures.command * sum((*result.commands.values(), *result.unrolled.values())),
    }
