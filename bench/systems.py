"""What searched systems are worth: for mixes of networks at the area of one 32 x 32 with its core, the best system of a search over systems beside the
best single array of a search with the same budget, and systems that people would choose by hand; all of them run."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.system import HOST, System
from baco.bench.harness.experiment import (
    FOLDER,
    ResultFiles,
    Say,
    check_names,
    median_place,
    page_of,
    silent,
    table,
)
from baco.common.errors import InfeasibleError
from baco.common.files import output_folder
from baco.compiler.network.quantise import quantise, quantise_inputs, sketch
from baco.compiler.network.reference import reference
from baco.exploration.executors.executor_choice import HERE
from baco.exploration.measure.program_job import other_inputs
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.systems.front_page import units_text
from baco.exploration.systems.measured import MeasuredPlan, replay_plan
from baco.exploration.systems.mix import Demand
from baco.exploration.systems.system_plan import plan_system
from baco.exploration.systems.system_search import SearchRecords, SystemSearch
from baco.exploration.systems.system_space import SystemSpace
from baco.exploration.systems.unit_profile import profile
from baco.workloads.inputs.load import load_network

#: Networks that run side by side, once each, and how often repeated blocks run at most.
MIXES: dict[str, tuple[tuple[str, ...], int | None]] = {
    "images": (("resnet18:image=112", "mobilenet_v2:image=112", "retinanet:image=64"), None),
    "faces": (("resnet18:image=112", "mobilenet_v2:image=112", "deepbench_face"), None),
    "transformers": (("bert_base:seq=64", "vit_b16:image=112", "deepbench_ocr"), 1),
}
#: Sides of arrays of systems by hand.
BY_HAND = ((32,), (16, 16), (16, 8, 8), (8, 8, 8))
#: Scratchpads and accumulators of systems by hand, KiB, the largest first: those of the published accelerator and smaller.
_MEMORIES = tuple((256 >> n, 64 >> n) for n in range(6))


def run(
    mixes: Sequence[str] = (),
    *,
    samples: PositiveInt = 100,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    seconds: Annotated[float, Interval(ge=0.1)] = 10.0,
    rtl: bool = False,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Searches over systems and over single arrays with the same budget, and systems by hand, at the area of one 32 x 32 with its core.

    Args:
        mixes (--mix, -m): repeatable; by default all.
        samples: budget of each search, in systems.
        seeds: searches of each, with seeds 0, 1, ...
        seconds: that solvers have for each plan.
        rtl: run systems' Verilog (minutes each to build), and let accelerators have row functions, of which there is no timed model.
        out: folder for systems.md and .json, and what searches computed: an interrupted benchmark goes on where it was.

    Raises InfeasibleError where nothing fits, and InputError for a mix that is not known.
    """
    check_names(mixes, MIXES, "mix", "mix")
    space, limit = area_of_one()
    engine = "rtl" if rtl else "timed"
    space = space if rtl else space.without_units()
    files = ResultFiles(out, "systems", page)
    rows: list[dict[str, Any]] = list(files.before() or [])
    done = {(row["mix"], row["kind"], row["seed"], row["samples"]) for row in rows}
    for mix in mixes or MIXES:
        for kind, seed, make in _asked(mix, space, limit, samples, seeds, seconds, out):
            key = (mix, kind, seed, samples)
            if key in done:
                continue
            say(f"{mix}: {kind}, seed {seed}")
            try:
                system, priced = make()
            except InfeasibleError as error:
                say(f"{mix}: {kind}: {error.message}")
                continue
            same = [row for row in rows if (row["mix"], row["hash"]) == (mix, system.config_hash)]
            known = same[0] if same else _row(_measured(mix, system, seconds, engine, say))
            own = {"priced": priced, "limit_mm2": limit, **dict(zip(_KEY, key, strict=True))}
            rows.append({**known, **own})
            files.keep(rows)
    return rows


_KEY = ("mix", "kind", "seed", "samples")
_SYSTEM, _ARRAY = "searched system", "searched single array"


def area_of_one() -> tuple[DesignSpace, float]:
    """The default space, and the area of a 32 x 32 of it with the published memories and its core."""
    space = load_space("gemmini")
    own = System.single(space.accelerator(32, 64, 256))
    return space, own.area_mm2 + own.cores_mm2


Made = tuple[System, int]


def _asked(
    mix: str, space: DesignSpace, limit: float, samples: int, seeds: int, seconds: float, out: Path
) -> Iterator[tuple[str, int, Callable[[], Made]]]:
    """(kind, seed, what chooses the system and says how many accelerators were priced)."""
    networks, layers = MIXES[mix]
    known = [sketch(load_network(name), layers) for name in networks]
    demands = [Demand()] * len(networks)
    records = output_folder(out / "systems") / f"{mix}.db"

    def searched(seed: int, most_units: int, most_hosts: int) -> Made:
        systems = SystemSpace(space.constrain(area_mm2=limit), most_units, most_hosts)
        with SearchRecords(records) as kept, HERE.executor() as executor:
            search = SystemSearch(known, demands, systems, seed=seed, executor=executor, records=kept)
            found = search.run(samples, seconds=seconds)
        return systems.system(found.best[0][0]), found.priced

    def by_hand(sides: Sequence[int]) -> Made:
        plans = {
            system: plan_system([profile(own, system) for own in known], demands, system, seconds=seconds)
            for system in _by_hand(space, sides, limit)
        }
        if not plans:
            raise InfeasibleError(f"arrays of {_sides(sides)} do not fit")
        return min(plans, key=lambda system: plans[system].timetable.makespan), len(plans)

    for seed in range(seeds):
        yield _SYSTEM, seed, lambda seed=seed: searched(seed, 4, 1)  # type: ignore[misc]
        yield _ARRAY, seed, lambda seed=seed: searched(seed, 1, 0)  # type: ignore[misc]
    for sides in BY_HAND:
        yield _sides(sides), 0, lambda sides=sides: by_hand(sides)  # type: ignore[misc]


def _sides(sides: Sequence[int]) -> str:
    return units_text([f"{side}x{side}" for side in sides])


def _by_hand(space: DesignSpace, sides: Sequence[int], limit: float) -> Iterator[System]:
    """Arrays with the largest memories of the published proportion that fit, the same in each: without row functions and with."""
    for units in space.units:
        for scratchpad, accumulator in _MEMORIES:
            if not all(space.legal(side, accumulator, scratchpad) for side in sides):
                continue
            own = [space.accelerator(side, accumulator, scratchpad, units) for side in sides]
            system = System.of((one.name, one) for one in own)
            if system.area_mm2 + system.cores_mm2 <= limit:
                yield system
                break


def _measured(mix: str, system: System, seconds: float, engine: str, say: Say) -> MeasuredPlan:
    """The networks with random numbers, planned and run. Raises AssertionError for a result that is not that of the integers."""
    names, layers = MIXES[mix]
    sources = [load_network(name) for name in names]
    integers = [quantise(source, layers=layers) for source in sources]
    profiles = [profile(own, system) for own in integers]
    plan = plan_system(profiles, [Demand()] * len(names), system, seconds=seconds)
    data = []
    for number, (source, own) in enumerate(zip(sources, integers, strict=True)):
        inputs = quantise_inputs(own, other_inputs(source, own, number))
        data.append((inputs, reference(own, inputs)))
    measured = replay_plan(plan, data, engine, report=say)
    if measured.wrong:
        raise AssertionError("; ".join(measured.wrong))
    return measured


def _row(measured: MeasuredPlan) -> dict[str, Any]:
    system = measured.plan.system
    return {
        "engine": measured.engine,
        "hash": system.config_hash,
        "units": units_text(
            [HOST if one.accelerator is None else one.accelerator.name for one in system.units]
        ),
        "area_mm2": system.area_mm2 + system.cores_mm2,
        "planned_ms": measured.plan.timetable.makespan * 1e-6,
        "measured_ms": measured.makespan_ns * 1e-6,
        "energy_uj": measured.plan.energy_pj * 1e-6,
        "operators": measured.checked,
    }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """By mix: medians of the searches, systems by hand, and how much faster the searched system is than the single array."""
    parts = []
    for mix, group in itertools.groupby(rows, key=lambda row: str(row["mix"])):
        of_mix = list(group)
        kinds = {row["kind"]: [one for one in of_mix if one["kind"] == row["kind"]] for row in of_mix}
        lines = []
        for kind, ones in kinds.items():
            middle = ones[median_place([one["measured_ms"] for one in ones])]
            lines.append({**middle, "kind": kind, "all": [one["measured_ms"] for one in ones]})
        lines.sort(key=lambda line: float(line["measured_ms"]))
        networks, layers = MIXES[mix]
        told = f"`{'`, `'.join(networks)}`" + ("" if layers is None else f", {layers} of the repeated blocks")
        told += f", {of_mix[0]['samples']} systems a search, {of_mix[0]['limit_mm2']:.1f} mm²"
        parts += [
            f"## {mix}: {told}",
            table(
                lines,
                {
                    "system": lambda line: line["kind"],
                    "units": lambda line: line["units"],
                    "area, mm²": lambda line: f"{line['area_mm2']:.1f}",
                    "planned, ms": lambda line: f"{line['planned_ms']:.3f}",
                    "measured, ms": lambda line: f"{line['measured_ms']:.3f}",
                    "by": lambda line: line["engine"],
                    "error": lambda line: f"{line['planned_ms'] / line['measured_ms'] - 1:+.1%}",
                    "all seeds, ms": lambda line: (
                        "" if len(line["all"]) == 1 else f"{min(line['all']):.3f} to {max(line['all']):.3f}"
                    ),
                    "energy, mJ": lambda line: f"{line['energy_uj'] / 1e3:.2f}",
                },
            ),
            _gain(kinds),
        ]
    return page_of(
        "Systems: searched, beside single arrays of the same area",
        "Whatever fits the area of one 32 x 32 with 256 + 64 KiB in the default space's technology, and its core (`System.cores_mm2`: "
        "assumed). Searches are for the least makespan; the seed of the median is shown. Memories of systems"
        " by hand are the largest of the published proportion that fit, the same in each."
        " Every result of every operator is that of the integers. Names: side, scratchpad and accumulator in KiB. Where accelerators may"
        " have row functions (`units` in names), Verilog runs; the timed model has none.",
        *parts,
    )


def _gain(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    if not {_SYSTEM, _ARRAY} <= set(kinds):
        return ""
    array, system = ([row["measured_ms"] for row in kinds[kind]] for kind in (_ARRAY, _SYSTEM))
    pairs = [before / after for before, after in zip(array, system, strict=False)]
    best = min(array) / max(system)
    mean = statistics.geometric_mean(pairs)
    return (
        f"The searched system is **{mean:.2f} times** as fast as the searched single array of the same seed, measured (geometric mean of"
        f" {len(pairs)} seed{'s' * (len(pairs) > 1)}, {min(pairs):.2f} to {max(pairs):.2f}); the worst system over the best array: {best:.2f}."
    )
