"""`baco.compare`: several studies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.argument_types import checked
from baco.api.result import Result
from baco.api.study import load_study
from baco.common.errors import InputError
from baco.exploration.space.points import units_of

if TYPE_CHECKING:
    import pandas as pd

    from baco.exploration.candidate import Cost


@checked()
def compare(studies: Sequence[Result | str | Path]) -> pd.DataFrame:
    """The best designs of several studies, a row each.

    Columns: `study` (its folder), `networks`, `objective`, `space`, `search`, `cost_model`, `seed`, `samples`,
    `seconds`, `source` (predicted or measured), `technology`, `clock_mhz`, `dim`, `dataflow`, `units`, `scratchpad_kib`, `accumulator_kib`, `latency_cycles`,
    `latency_ms`, `energy_uj`, `edp_uj_cycles`, `edp_js`, `area_mm2`, `front` (designs on it), and `ratio`: the objective over the least of the
    table, among studies of the same networks and objective as the row's.

    Ratios compare what was measured with what was measured, and predictions with predictions of the same cost model:
    others would be differences between models. Likewise figures of different technologies are not compared; within one, latencies of
    different clocks are by their time.

    Raises InputError for less than one study, and as `load_study` does.
    """
    import pandas as pd

    if not studies:
        raise InputError("there is nothing to compare", hint="name folders of studies")
    found = [study if isinstance(study, Result) else load_study(study) for study in studies]
    scores = [result.objective.scalar(_timed(result)) for result in found]
    kinds = [_kind(result) for result in found]
    least = {kind: min(s for s, other in zip(scores, kinds, strict=True) if other == kind) for kind in kinds}
    rows = []
    for result, score, kind in zip(found, scores, kinds, strict=True):
        best, search = result.best, result.data.search
        rows.append(
            {
                "study": str(result.folder),
                "networks": ", ".join(result.networks),
                "objective": str(result.objective),
                "space": search.space_name,
                "search": search.searcher,
                "cost_model": search.cost_model,
                "seed": search.seed,
                "samples": result.samples,
                "seconds": result.seconds,
                "source": best.cost.source,
                "technology": best.accelerator.technology,
                "clock_mhz": best.accelerator.clock_mhz,
                "dim": best.accelerator.dim,
                "dataflow": best.accelerator.dataflow,
                "units": units_of(best.accelerator),
                "scratchpad_kib": best.accelerator.scratchpad_kib,
                "accumulator_kib": best.accelerator.accumulator_kib,
                "latency_cycles": best.cost.latency_cycles,
                "latency_ms": best.cost.latency_cycles / (best.accelerator.clock_mhz * 1e3),
                "energy_uj": best.cost.energy_uj,
                "edp_uj_cycles": best.cost.edp,
                "edp_js": best.cost.edp_js(best.accelerator.clock_mhz),
                "area_mm2": best.cost.area_mm2,
                "front": len(result.front),
                "ratio": score / least[kind] if least[kind] else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def _kind(one: Result) -> tuple[object, ...]:
    """What studies must share for their objectives to be compared."""
    work = tuple((task.network, task.problem, task.count) for task in one.data.tasks)
    source = one.best.cost.source
    model = one.cost_model if source == "predicted" else ""
    silicon = one.best.accelerator.technology
    return work, one.objective.metrics[0], one.data.search.whole, source, model, silicon


def _timed(one: Result) -> Cost:
    """The cost of its best design with delays in nanoseconds."""
    return replace(one.best.cost, clock_mhz=one.best.accelerator.clock_mhz)
