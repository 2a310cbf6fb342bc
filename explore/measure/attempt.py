"""What every measurement on the RTL is, of a layer or of a whole program: tried, compared, counted, timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.exploration.measure.measurement import Measurement
from baco.sim.energy import counted_activity, measured_energy
from baco.sim.job import Simulation, SimulationError


class WrongResultError(Exception):
    """A program ended, but not as it should."""


def attempt(accelerator: Accelerator, work: Callable[[], Measurement]) -> Measurement:
    """What `work` measures, with its wall time; what fails or is infeasible is a result, too."""
    start = time.perf_counter()
    try:
        measurement = work()
    except InfeasibleError as error:
        measurement = Measurement("infeasible", error.message)
    except SimulationError as error:
        measurement = Measurement("failed", f"{error.kind}: {error.message}")
    except WrongResultError as error:
        measurement = Measurement("failed", str(error))
    return replace(measurement, config_hash=accelerator.config_hash, seconds=time.perf_counter() - start)


def check_exit(result: Simulation) -> None:
    """Raises WrongResultError for a program that ended with an error."""
    if result.exit_code:
        raise WrongResultError(f"the program ended with exit code {result.exit_code}")


def counted(
    result: Simulation,
    accelerator: Accelerator,
    cycles: int,
    host_pj: float | None = None,
    **more: Any,
) -> Measurement:
    """The measurement of a simulation whose results were right.

    Args:
        cycles: that it is said to take.
        host_pj: energy of the host core, where it counts.
        more: other fields.
    """
    assert result.cycles is not None
    counters = dict(result.counters) | {"host_instructions": result.instructions or 0}
    counters |= {f"command_{name}": count for name, count in result.commands.items()}
    counters |= {f"unrolled_{name}": count for name, count in result.unrolled.items()}
    terms = measured_energy(result, accelerator, cycles)
    if host_pj is not None:
        terms["host"] = host_pj
    return Measurement(
        status="measured",
        cycles=cycles,
        program_cycles=result.cycles,
        counters=counters,
        activity=counted_activity(result),
        energy_pj=sum(terms.values()),
        energy_terms_pj=terms,
        **more,
    )
