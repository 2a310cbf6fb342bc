"""What tests of validation share: small studies, and measurements that are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from baco.accel.presets import load_accelerator
from baco.exploration.executors.tasks import Executor, Finished, Progress
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem

#: Array and memories of `tests.sim.harness_helpers.SMALL`, whose simulator other tests build as well.
SIZES = {"dim": (4,), "scratchpad_kib": (16,), "accumulator_kib": (8,)}
#: Those of `tests.machines.GEMMINI`, built before all tests.
PUBLISHED = {"dim": (16,), "scratchpad_kib": (256,), "accumulator_kib": (64,)}


def products(count: int, name: str = "products") -> Workload:
    """A network of so many different small matrix products; the first runs twice."""
    operators = tuple(
        Operator(
            f"product{i}",
            "layer",
            (f"x{i}",),
            Tensor(f"y{i}", (1,)),
            Problem(P=8 + i, C=8, K=8),
            repeat=2 if i == 0 else 1,
        )
        for i in range(count)
    )
    return Workload.of([Network(name, (), operators)])


def small_space(**sizes: tuple[int, ...]) -> DesignSpace:
    """One accelerator of side 4, or what `sizes` allow."""
    return DesignSpace(
        name="small",
        rules="gemmini",
        base=load_accelerator("gemmini-default"),
        dataflows=("WS", "OS"),
        double_buffer=False,
        **{**SIZES, **sizes},
    )


def explored(
    folder: Path, workload: Workload | None = None, samples: int = 40, **sizes: tuple[int, ...]
) -> Path:
    """The file of a study that a short random search made, by the reference model."""
    run_exploration(
        workload or products(3),
        small_space(**sizes),
        Objective.parse("edp"),
        "random",
        samples,
        seed=1,
        out=folder,
        cost_model="reference",
    )
    return folder / FILE_NAME


def made_up(job: MeasurementJob) -> Measurement:
    """Two cycles and three picojoules a multiplication."""
    macs = job.layer.problem.macs
    terms = dict.fromkeys(("mac", "registers", "accumulator", "scratchpad", "dram"), 0.6 * macs)
    return Measurement(
        "measured",
        cycles=2 * macs,
        program_cycles=2 * macs + 50,
        counters={
            "accelerator_mesh_cycles": macs,
            "accelerator_load_busy_cycles": macs // 2,
            "accelerator_store_busy_cycles": macs // 4,
            "accelerator_busy_cycles": 2 * macs - macs // 2,
            "memory_channel_busy_cycles": macs // 8,
        },
        energy_pj=3.0 * macs,
        energy_terms_pj=terms,
        config_hash=job.accelerator.config_hash,
        seconds=0.0,
    )


def fake_measuring(
    measure: Callable[[MeasurementJob], Measurement] = made_up, log: list[str] | None = None
) -> Callable[..., list[Measurement]]:
    """Takes the place of `baco.exploration.executors.tasks.gather`; `log` gets the names of jobs measured."""

    def gather(
        executor: Executor,
        jobs: Sequence[MeasurementJob],
        store: MeasurementStore,
        progress: Progress[MeasurementJob, Measurement] | None = None,
    ) -> list[Measurement]:
        found = []
        for number, job in enumerate(jobs):
            result = store.get(job.key)
            if result is None:
                result = measure(job)
                store.put(job.key, result)
                if log is not None:
                    log.append(job.name)
            found.append(result)
            if progress:
                progress(number + 1, len(jobs), Finished(number, job, result, "", 0.0))
        return found

    return gather
