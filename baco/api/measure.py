"""Measuring designs of a result on the Verilog of their own accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.argument_types import checked
from baco.api.result import Result
from baco.common.door import argument
from baco.common.errors import BacoError, InputError, Location

if TYPE_CHECKING:
    from baco.exploration.measure.measured_study import MeasuredOutcome, Watch
    from baco.exploration.measure.session import ValidationProgress as ValidationProgress
    from baco.exploration.studies.interruption import Ended
    from baco.exploration.studies.samples import WorkloadData


_REMARKS: dict[Ended, str] = {
    "time": "The validation reached its time limit: what was not measured is estimated, or still predicted.",
    "interrupted": "The validation was interrupted; `baco validate` continues it.",
}


@checked()
def validate(
    study: Result | str | Path,
    *,
    best: int = 5,
    spread: int = 2,
    baseline: bool = False,
    workers: int | None = None,
    executor: str = "local",
    address: str | None = None,
    cycle_limit: float | None = None,
    time_limit: float | None = None,
    fusion: bool = True,
    data: WorkloadData | None = None,
    progress: ValidationProgress | bool | None = None,
) -> Result:
    """Compile the best designs of a study to whole programs, run them on their own Verilog, compare what every operator writes.

    Designs become *measured*, *failed* (an output was wrong: that is a mistake in baco) or *infeasible* (they cannot be
    compiled), see the column `status` of `Result.designs`. Every measurement is kept as it is finished; the same call
    continues an interrupted validation. A kernel that was explored in this session is one program: that is run on the best
    design, and `Result.kernel` has its measured cycles.

    Args:
        study: a result, or the folder of a study.
        best: how many designs, the best by the objective first.
        spread: how many more along the front.
        baseline: measure Gemmini's default machine too.
        workers: simulations side by side; by default one a processor.
        executor, address: who runs them: `local` processes, or `ray`, on this machine or on a cluster that runs already
            (`HOST:PORT` or `auto`).
        cycle_limit: simulated cycles of a design: layers are measured one by one, those that matter most, and the rest is
            estimated. None: whole programs, as far as networks can become such.
        time_limit: seconds; what is not finished then is estimated.
        fusion: operators run as one unit where that is predicted to be better.
        data: samples of the network's inputs, see `explore`, in place of those that the study has.
        progress: True or False for a line a layer; by default there are lines in terminals and notebooks.

    Returns the result of the study with what was measured (`study` itself, if it is one).
    Raises InputError for options that mean nothing, InfeasibleError for a study without any feasible design,
    StorageError for one that is damaged or being written, BacoError for a kernel whose results are wrong.
    """
    from baco.api.kernels import kernel_verdict
    from baco.display.console import chosen_display
    from baco.display.validation import make_display
    from baco.exploration.executors.executor_choice import ExecutorChoice
    from baco.exploration.measure.session import ValidationOptions, validate_file

    result = study if isinstance(study, Result) else Result(study)
    options = ValidationOptions(
        best, spread, ExecutorChoice(executor, workers, address), cycle_limit, time_limit, fusion
    )
    kernel = result.explored
    if kernel is None:
        display = chosen_display(progress, make_display)
        outcome = validate_file(result.path, options, baseline=baseline, data=data, progress=display)
        if outcome.ended in _REMARKS:
            result.notes = (*result.notes, _REMARKS[outcome.ended])
        result.reload()
    elif data is not None:
        raise InputError("only networks have samples", location=Location(argument("data")))
    else:
        found = kernel_verdict(
            kernel.search, kernel.work, result.best.accelerator, result.folder, simulate=True
        )
        if found.wrong:
            raise BacoError(f"the kernel is wrong on the best design: {found.wrong[0]}")
        result.kernel = found
    return result


@checked()
def measure(
    study: Result | str | Path,
    cycles: float,
    *,
    workers: int | None = None,
    executor: str = "local",
    address: str | None = None,
    engine: str = "rtl",
    learned: bool = False,
    progress: Watch | bool | None = None,
) -> MeasuredOutcome:
    """Search on with measurements, for a budget of simulated cycles: measure what promises most, learn from it, and look
    for better designs with what was learned.

    Args:
        study: a result, which shows what was measured afterwards, or the folder of a study.
        cycles: to simulate, in all.
        workers: simulations side by side; by default one a processor.
        executor, address: who runs them, see `validate`.
        engine: what counts the cycles of layers while designs are compared: `rtl`, each accelerator's Verilog, or `timed`, the
            model of our units in time, which needs no Verilog to be built; the winner is measured on its Verilog with
            either.
        learned: let the learned residual say what to expect before anything is measured. It predicts single mappings
            better, but searches have not ended lower by it.
        progress: True or False for a line a layer and a round; by default there are lines in terminals and notebooks.

    Returns what was measured first, and the best measured design. Raises as `validate` does, and InputError for a study
    of the reference model, whose designs are no programs.
    """
    from baco.display.console import chosen_display
    from baco.display.measured import MeasuredDisplay
    from baco.exploration.executors.executor_choice import ExecutorChoice
    from baco.exploration.measure.measured_study import measure_study
    from baco.sim.engines.base import cycle_engine

    result = study if isinstance(study, Result) else Result(study)
    watch = chosen_display(progress, lambda: MeasuredDisplay(cycles))
    workers_of = ExecutorChoice(executor, workers, address)
    found = measure_study(
        result.path, cycles, engine=workers_of, counted_by=cycle_engine(engine), learned=learned, watch=watch
    )
    result.reload()
    return found
