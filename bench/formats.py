"""Which layers have weights of 4 bits: the list of sensitivities that `explore` follows, against every choice there is and other searches.

The networks are small enough (`baco.bench.digits`) that all choices are measured, in the integers that their programs compute: so the
true front of noise and bytes is known, and each search is judged by the part of what that front dominates that its own choices do.
"""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import optuna
from annotated_types import Interval

from baco.bench.digits import NETWORKS, write_digits
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.compiler.network.quantise import names_outside
from baco.compiler.network.quantiser import Quantiser
from baco.exploration.weight_formats import MOST, WeightFormats, added_noise, nested_choices
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import read_samples

#: Names of the layers with weights of 4 bits.
Choice = frozenset[str]
#: Individuals in a generation of NSGA-II: several generations in as many measurements as the list takes.
_POPULATION = 6


@dataclass(frozen=True)
class Judged:
    """A choice of formats, measured.

    Attributes:
        int4: layers with weights of 4 bits, sorted.
        weight_bytes: of all layers, in main memory.
        snr_db: signal to noise of the output.
        right: share of the test set.
    """

    int4: tuple[str, ...]
    weight_bytes: float
    snr_db: float
    right: float


@dataclass(frozen=True)
class FormatNetwork:
    """All choices of a network.

    Attributes:
        name: of it.
        model: digest of its file.
        sizes: weights of each layer.
        choices: that are measured.
    """

    name: str
    model: str
    sizes: dict[str, int]
    choices: list[Judged]


def run(
    *,
    networks: Sequence[str] = NETWORKS,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 20,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Weights of 4 bits by a list of sensitivities, against all choices, random ones and NSGA-II at equal measurements.

    Args:
        networks (--network): repeatable; those of `baco.bench.digits`.
        seeds (COUNT): searches of each kind that draws.
        out: folder for formats.md and formats.json; choices that it holds of the same model are not measured again.

    Returns a row for each network: its choices, and shares of the front by search.
    """
    check_names(networks, NETWORKS, "network", "network")
    files = ResultFiles(out, "formats", page)
    before = {row["network"]["model"]: row["network"]["choices"] for row in files.before() or []}
    rows: list[dict[str, Any]] = []
    for name in networks:
        with tempfile.TemporaryDirectory() as folder:
            model, data = write_digits(Path(folder), network=name)
            digest = sha256(model.read_bytes()).hexdigest()
            known = {
                frozenset(one["int4"]): Judged(**{**one, "int4": tuple(one["int4"])})
                for one in before.get(digest, [])
            }
            found = FormatNetwork(name, digest, *_measured(model, data, known, say))
        rows.append({"network": found, "searches": searches(found, seeds)})
        files.keep(rows)
    return rows


def _measured(
    model: Path, data: Path, known: Mapping[Choice, Judged], say: Say
) -> tuple[dict[str, int], list[Judged]]:
    network = load_network(str(model))
    samples = read_samples(data, network, names_outside(network)[0])
    formats, found = WeightFormats(network, samples, Quantiser()), []
    layers = sorted(formats.sizes)
    every = [some for count in range(len(layers) + 1) for some in itertools.combinations(layers, count)]
    for number, names in enumerate(every, 1):
        one = known.get(frozenset(names))
        if one is None:
            judged = formats.accuracy(names)
            assert judged.integers is not None
            one = Judged(names, formats.weight_bytes(names), judged.near.snr_db, judged.integers)
        found.append(one)
        say(f"{network.name}, {number} of {len(every)} choices: {one.snr_db:.1f} dB")
    return formats.sizes, found


def dominated(points: Iterable[tuple[float, float]]) -> float:
    """Part of the unit square that points dominate, where less is better in both."""
    area, lowest = 0.0, 1.0
    for x, y in sorted(points):
        if x < 1 and y < lowest:
            area += (1 - x) * (lowest - max(y, 0.0))
            lowest = max(y, 0.0)
    return area


def searches(found: FormatNetwork, seeds: int) -> list[dict[str, Any]]:
    """What each search comes to: measurements, and the part of what the true front dominates (mean, least and most of the seeds).

    Bytes go from all weights in 4 bits to all in 8, noise from that of the least noisy choice to that of all in 4 bits, in dB.
    """
    by_choice = {frozenset(judged.int4): judged for judged in found.choices}
    few, many = by_choice[frozenset(found.sizes)], by_choice[frozenset()]
    most_db = max(judged.snr_db for judged in found.choices)

    def share(choices: Iterable[Choice]) -> float:
        return dominated(place(by_choice[choice]) for choice in choices) / whole

    def place(judged: Judged) -> tuple[float, float]:
        return (
            (judged.weight_bytes - few.weight_bytes) / (many.weight_bytes - few.weight_bytes),
            (most_db - judged.snr_db) / (most_db - few.snr_db),
        )

    whole = dominated(map(place, found.choices))
    listed, measured = _listed(found.sizes, by_choice, None)
    budget = len(measured)
    short, _ = _listed(found.sizes, by_choice, MOST)
    stepwise, steps = _stepwise(found.sizes, by_choice)
    rows = [
        ("list of sensitivities", budget, [share(listed)]),
        (f"list of sensitivities, {MOST} choices kept", budget, [share(short)]),
        ("list, all that was measured for it", budget, [share(measured)]),
        ("the least noise a byte, measured again at each step", steps, [share(stepwise)]),
    ]
    drawn: list[tuple[str, Callable[[int, int], Iterable[Choice]]]] = [
        ("random choices", lambda count, seed: _drawn([*by_choice], count, seed)),
        ("NSGA-II", lambda count, seed: _nsga2(found.sizes, by_choice, count, seed)),
    ]
    for name, search in drawn:
        for count in sorted({budget, min(4 * budget, len(by_choice))}):
            shares = [share(search(count, seed)) for seed in range(seeds)]
            rows.append((name, count, shares))
    return [
        {
            "search": name,
            "measurements": count,
            "share": statistics.mean(shares),
            "least": min(shares),
            "most": max(shares),
        }
        for name, count, shares in rows
    ]


def _listed(
    sizes: dict[str, int], by_choice: Mapping[Choice, Judged], most: int | None
) -> tuple[list[Choice], set[Choice]]:
    """The choices of `explore`'s list, `most` of them, and what is measured to make it."""
    whole = by_choice[frozenset()].snr_db
    noise = {name: added_noise(by_choice[frozenset([name])].snr_db, whole) for name in sizes}
    chosen = [*map(frozenset, nested_choices(sizes, noise, most or len(sizes) + 1))]
    return chosen, {*chosen, *(frozenset([name]) for name in sizes)}


def _stepwise(sizes: dict[str, int], by_choice: Mapping[Choice, Judged]) -> tuple[list[Choice], int]:
    """From all in 8 bits, always the layer with the least noise a byte beside those before; how many measurements that takes."""
    chosen: list[Choice] = [frozenset()]
    measured = {frozenset[str]()}
    while len(chosen[-1]) < len(sizes):
        rest = sorted(set(sizes) - chosen[-1])
        measured |= {chosen[-1] | {name} for name in rest}
        before = by_choice[chosen[-1]].snr_db
        noise = {
            name: added_noise(by_choice[chosen[-1] | {name}].snr_db, before) / sizes[name] for name in rest
        }
        chosen.append(chosen[-1] | {min(rest, key=noise.__getitem__)})
    return chosen, len(measured)


def _drawn(choices: Sequence[Choice], count: int, seed: int) -> list[Choice]:
    return random.Random(seed).sample(choices, count)


def _nsga2(
    sizes: Mapping[str, int], by_choice: Mapping[Choice, Judged], count: int, seed: int
) -> set[Choice]:
    """Choices that Optuna's NSGA-II measures until there are `count` different ones, all in 8 and all in 4 bits given to it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(population_size=_POPULATION, seed=seed)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    for bits in (False, True):
        study.enqueue_trial(dict.fromkeys(sizes, bits))
    found: set[Choice] = set()
    for _ in range(100 * count):  # a generation repeats what its parents were
        trial = study.ask()
        one = frozenset(name for name in sizes if trial.suggest_categorical(name, [False, True]))
        found.add(one)
        study.tell(trial, [by_choice[one].weight_bytes, by_choice[one].snr_db])
        if len(found) == count:
            break
    return found


def page(rows: Sequence[dict[str, Any]]) -> str:
    """As Markdown."""
    parts = []
    for row in rows:
        network: FormatNetwork = row["network"]
        front = _front(network.choices)
        parts += [
            f"## {network.name}: {len(network.sizes)} layers, {len(network.choices)} choices",
            table(
                row["searches"],
                {
                    "search": lambda one: one["search"],
                    "choices measured": lambda one: one["measurements"],
                    "of what the front dominates, %": _spread,
                },
            ),
            "The front:",
            table(
                front,
                {
                    "weights of 4 bits in": lambda one: ", ".join(one.int4) or "none",
                    "bytes of weights": lambda one: f"{one.weight_bytes:,.0f}",
                    "signal to noise, dB": lambda one: f"{one.snr_db:.1f}",
                    "right, %": lambda one: f"{100 * one.right:.2f}",
                },
            ),
        ]
    return page_of(
        "Weights of 4 bits: which layers",
        "Networks of `python -m baco.bench.digits`, every choice of formats measured on 797 images. Share: the part of what the true front"
        " of bytes and noise dominates that the choices of a search do, where bytes go from all weights in 4 bits to all in 8 and noise"
        " (dB) from the least to that of all in 4; mean, and least to most, over seeds. `baco bench formats --out results` makes this page.",
        *parts,
    )


def _spread(one: Mapping[str, Any]) -> str:
    mean = f"{100 * one['share']:.1f}"
    return (
        mean
        if one["least"] == one["most"]
        else f"{mean} ({100 * one['least']:.1f} to {100 * one['most']:.1f})"
    )


def _front(choices: Iterable[Judged]) -> list[Judged]:
    found: list[Judged] = []
    for one in sorted(choices, key=lambda one: (one.weight_bytes, -one.snr_db)):
        if not found or one.snr_db > found[-1].snr_db:
            found.append(one)
    return found[::-1]
