"""What the measured sets hold: row by row, from the set's name and the row's number alone.

No shape and no accelerator is in two sets, so that what is fitted on one can be tested on another. A random row is drawn
for the resource that it should wait for (by `baco.bench.sets.sample.guess`), the rare ones as often as the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from baco.accel.config import Accelerator
from baco.bench.sets.accelerators import SetName, accelerators_of
from baco.bench.sets.micro import probes
from baco.bench.sets.sample import Stratum, draw_mapping, draw_packed, guess, legal_schedule
from baco.bench.sets.shapes import draw_layer
from baco.common.errors import InfeasibleError
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import mapping_text, parse_mapping_text
from baco.compiler.schedules.schedule import ExplicitSchedule, Schedule
from baco.compiler.styles.packed import packed_layer
from baco.workloads.problem import Problem

#: Rows of each random set.
ROWS: dict[SetName, int] = {"train": 2200, "test": 1120, "packed": 300, "packed-test": 200, "ranking": 2080}
#: Cycles that a row is guessed to take: fewer to train on, since more of them are worth more.
_CYCLES: dict[SetName, tuple[float, float]] = {
    "train": (10e3, 0.4e6), "test": (50e3, 1.2e6), "packed": (10e3, 0.3e6), "packed-test": (20e3, 0.5e6),
    "ranking": (5e3, 0.35e6),
}  # fmt: skip
#: What rows wait for, in turn: what is rarely met among random mappings is asked for more often.
_TURNS: tuple[Stratum, ...] = (
    "compute", "issue", "store", "load", "issue", "load", "compute", "store", "issue", "load",
)  # fmt: skip
#: Kinds of layers that tend to wait for stores.
_STORING = ("expansion", "1x1", "depthwise", "grouped", "first", "product")
#: Rows in macro form, by what they should wait for: explicit moves seldom wait for the array, where passes are short,
#: or for stores; for macros the host issues next to nothing.
_MACRO_SHARE: dict[Stratum, float] = {"compute": 0.6, "load": 0.25, "store": 0.55, "issue": 0.0}
#: Sides of the array up to which explicit passes take the host longer than the array.
_SHORT_PASSES = 8
#: Of rows that should wait for stores, those whose results stay 32 bits wide.
_RAW_SHARE = 0.4
_ATTEMPTS, _MAPPINGS = 30, 8
#: Of mappings with several groups at once, so many are drawn for every other row, and the one kept that is guessed to be
#: fastest: searches end with such.
_CHOSEN = 24
#: Schedules of a layer on an accelerator in the set `ranking`, and what they are drawn as, in turn.
RANKED = 20
_RANKED_TURNS = ("any", "macro", "chosen", "any", "macro", "chosen", "any")
#: Sets of layers whose groups share a pass, and the set whose shapes they have.
_PACKED_SETS: dict[SetName, SetName] = {"packed": "train", "packed-test": "test"}
#: Of ten shapes, those in the test set.
_TEST_SHAPES = 4


@dataclass(frozen=True)
class Sample:
    """One row to be measured.

    Attributes:
        what: of a systematic set the thing that is varied, of a random one the resource it was drawn for, of packed and
            ranked ones whether its mapping is `any` (or any in `macro` form) or `chosen` among some.
    """

    index: int
    accelerator: Accelerator
    layer: Layer
    mapping: Mapping
    schedule: Schedule
    what: str


def samples(name: SetName, rows: int | None = None) -> Iterator[Sample]:
    """The first rows of a set, all of them by default. The same on every machine."""
    if name == "micro":
        found = _systematic()
        yield from (sample for sample in found if rows is None or sample.index < rows)
        return
    accelerators = list(accelerators_of(name).values())
    wanted = ROWS[name] if rows is None else rows
    if name == "ranking":
        yield from (sample for sample in _ranked(accelerators, -(-wanted // RANKED)) if sample.index < wanted)
        return
    for index in range(wanted):
        accelerator = accelerators[index % len(accelerators)]
        yield (_drawn_packed if name in _PACKED_SETS else _drawn)(name, index, accelerator)


def set_of_shape(problem: Problem) -> SetName:
    """The only set that may have a shape, of those that are neither packed nor ranked; `packed` and `ranking` have shapes
    of `train` and `packed-test` those of `test`."""
    if problem in _micro_shapes():
        return "micro"
    shape = [*problem.bounds, problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w]
    return "test" if int(stable_hash([*shape, problem.groups]), 16) % 10 < _TEST_SHAPES else "train"


@cache
def _micro_shapes() -> frozenset[Problem]:
    return frozenset(
        probe.layer.problem for one in accelerators_of("micro").values() for probe in probes(one)
    )


def _systematic() -> Iterator[Sample]:
    index = 0
    for name, accelerator in accelerators_of("micro").items():
        seen = set()
        for probe in probes(accelerator, all_of_them=name.startswith("micro-dim")):
            mapping = parse_mapping_text(mapping_text(probe.mapping))
            schedule = legal_schedule(probe.layer, mapping, accelerator)
            if schedule is None or (probe.layer, schedule) in seen:
                continue
            seen.add((probe.layer, schedule))
            yield Sample(index, accelerator, probe.layer, mapping, schedule, probe.what)
            index += 1


def _drawn(name: SetName, index: int, accelerator: Accelerator) -> Sample:
    r = random.Random(f"{name}-{index}")
    low, high = _CYCLES[name]
    wanted = _TURNS[(index // len(accelerators_of(name))) % len(_TURNS)]
    short = wanted in ("compute", "store") and accelerator.dim <= _SHORT_PASSES
    macro = short or r.random() < _MACRO_SHARE[wanted]
    fallback: Sample | None = None
    for attempt in range(10 * _ATTEMPTS):
        if attempt >= _ATTEMPTS and fallback is not None:
            break
        layer = _layer(r, name, accelerator, wanted, low, high)
        for _ in range(_MAPPINGS):
            drawn = draw_mapping(r, layer, accelerator, macro=macro, attempts=8)
            if drawn is None:
                break
            mapping, schedule = drawn
            expected = guess(layer, mapping, accelerator, macro=not isinstance(schedule, ExplicitSchedule))
            if not low <= expected.cycles <= high:
                continue
            fallback = Sample(index, accelerator, layer, mapping, schedule, wanted)
            if expected.stratum == wanted:
                return fallback
    if fallback is None:
        raise InfeasibleError(f"no row {index} of the set {name} can be drawn for {accelerator.name}")
    return fallback


def _drawn_packed(name: SetName, index: int, accelerator: Accelerator) -> Sample:
    r = random.Random(f"{name}-{index}")
    low, high = _CYCLES[name]
    chosen = index // len(accelerators_of(name)) % 2 == 1
    for _ in range(100 * _ATTEMPTS):
        cycles = low * (high / low) ** r.random()
        macs = cycles * 10 ** r.uniform(-1.0, 0.0) * accelerator.dim
        layer = draw_layer(r, macs, "packed")
        if set_of_shape(layer.problem) != _PACKED_SETS[name]:
            continue
        drawn = [draw_packed(r, layer, accelerator, attempts=8) for _ in range(_CHOSEN if chosen else 1)]
        guessed = [
            (guess(packed_layer(layer, schedule.packed), mapping, accelerator, macro=False).cycles, n)
            for n, (mapping, schedule) in enumerate(one for one in drawn if one)
        ]
        if guessed and low <= min(guessed)[0] <= high:
            mapping, schedule = [one for one in drawn if one][min(guessed)[1]]
            return Sample(index, accelerator, layer, mapping, schedule, "chosen" if chosen else "any")
    raise InfeasibleError(f"no row {index} of the set {name} can be drawn for {accelerator.name}")


def _ranked(accelerators: Sequence[Accelerator], groups: int) -> Iterator[Sample]:
    """`RANKED` different schedules of one layer on one accelerator after the other, accelerators in turn."""
    for group in range(groups):
        accelerator = accelerators[group % len(accelerators)]
        r = random.Random(f"ranking-{group}")
        for _ in range(100 * _ATTEMPTS):
            found = _schedules(r, _ranked_layer(r, accelerator), accelerator)
            if len(found) == RANKED:
                break
        else:
            raise InfeasibleError(f"no group {group} of the set ranking can be drawn for {accelerator.name}")
        for place, (layer, mapping, schedule, what) in enumerate(found):
            yield Sample(group * RANKED + place, accelerator, layer, mapping, schedule, what)


def _ranked_layer(r: random.Random, accelerator: Accelerator) -> Layer:
    """A layer that takes the array a part of the cycles that a row may take."""
    low, high = _CYCLES["ranking"]
    while True:
        work = low * (high / low) ** r.uniform(0.0, 0.7) * 10 ** r.uniform(-0.7, 0.0)
        layer = draw_layer(r, work * accelerator.dim**2)
        if set_of_shape(layer.problem) == "train":
            return layer


def _schedules(
    r: random.Random, layer: Layer, accelerator: Accelerator
) -> list[tuple[Layer, Mapping, Schedule, str]]:
    """Different schedules of a layer, in turn any, in macro form, and the one guessed to be fastest among some."""
    low, high = _CYCLES["ranking"]
    found: list[tuple[Layer, Mapping, Schedule, str]] = []
    seen = set()
    for attempt in range(6 * RANKED):
        what = _RANKED_TURNS[attempt % len(_RANKED_TURNS)]
        drawn: list[tuple[float, Mapping, Schedule]] = []
        macro = what == "macro" or (what == "chosen" and attempt % 2 == 1)
        for _ in range(_CHOSEN if what == "chosen" else 1):
            mapped = draw_mapping(r, layer, accelerator, macro=macro, attempts=_MAPPINGS)
            if mapped is not None:
                explicit = isinstance(mapped[1], ExplicitSchedule)
                drawn.append((guess(layer, mapped[0], accelerator, macro=not explicit).cycles, *mapped))
        if not drawn:
            continue
        cycles, mapping, schedule = min(drawn, key=lambda draw: draw[0])
        text = schedule.text
        if low <= cycles <= high and text not in seen:
            seen.add(text)
            found.append((layer, mapping, schedule, what))
            if len(found) == RANKED:
                break
    return found


def _layer(
    r: random.Random, name: SetName, accelerator: Accelerator, wanted: Stratum, low: float, high: float
) -> Layer:
    """A layer of the set whose array work is some part of the cycles aimed at."""
    while True:
        cycles = low * (high / low) ** r.random()
        part = 0.9 if wanted == "compute" else 10 ** r.uniform(-1.7, -0.2)
        kind = None
        if wanted == "store" and r.random() < 0.8:
            kind = r.choice(_STORING)
        elif wanted == "load" and r.random() < 0.3:
            kind = "vector"
        macs = cycles * part * accelerator.dim**2
        layer = draw_layer(r, macs, kind)
        if wanted == "store":  # a bias is four times as many bytes as the results it ends in
            raw = r.random() < _RAW_SHARE
            layer = replace(
                layer, bias=False, relu=layer.relu and not raw, scale=None if raw else layer.scale
            )
        if set_of_shape(layer.problem) == name:
            return layer
