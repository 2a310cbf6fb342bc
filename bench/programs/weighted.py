"""Ansor's learned cost: boosted trees on statements, whose sum over a program is its throughput, fast programs weighing more.

Source: Ansor, section 5.2: loss(f, P, y) = y (sum over statements s of f(s) - y)^2, y the throughput of program P over that of the
best program of its graph. `python -m baco.bench.programs.weighted` shows how well it orders programs that it has not seen.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.presets import load_accelerator
from baco.bench.learned.measured_set import measured_set
from baco.bench.learned.scores import pairwise_accuracy
from baco.bench.paper.shapes import read_shapes
from baco.bench.sets.dataset import read_dataset
from baco.common.errors import InputError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.text import style_of
from baco.compiler.styles.realise import realise
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.protocol import Floats
from baco.exploration.samplers.evolution import LayerSearch

__all__ = ["grow_weighted", "program_scores", "recall", "throughputs", "weighted_loss"]

OPTIONS = BoostingOptions("squared", trees=150, depth=6, rate=0.1, least=5, columns=0.3)


def weighted_loss(scores: Floats, y: Floats) -> float:
    """Mean of y (score - y)^2 over programs (P,)."""
    return float(np.mean(y * (scores - y) ** 2))


def program_scores(booster: Booster, x: Floats, program: NDArray[np.int64], count: int) -> Floats:
    """Scores (count,) of programs: sums over their statements, x (S, F) and the program of each (S,)."""
    found: Floats = np.bincount(program, booster.predict(x.astype(np.float32)), count).astype(np.float64)
    return found


def grow_weighted(
    booster: Booster, x: Floats, program: NDArray[np.int64], y: Floats, seed: int = 0
) -> list[float]:
    """Learn throughputs y (P,) of programs from their statements; the loss after every tree.

    A tree goes down the gradient: what a program's sum lacks is divided evenly among its statements. Raises InputError without
    scikit-learn.

    Args:
        x, program: (S, F) features, and (S,) which program a statement is of.
    """
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError:
        raise InputError(
            "learning needs scikit-learn", hint="install it: pip install 'baco[learn]'"
        ) from None
    o = booster.options
    x = x.astype(np.float32)
    statements = np.bincount(program, minlength=len(y)).astype(np.float64)
    booster.start = 0.0
    booster.allocate(o.trees)
    scores, losses = np.zeros(len(y)), []
    for number in range(o.trees):
        lacking = ((y - scores) / statements)[program]
        tree = DecisionTreeRegressor(
            max_depth=o.depth, min_samples_leaf=o.least, max_features=o.columns, random_state=seed + number
        ).fit(x, lacking, (y * statements)[program])
        _keep(booster, number, tree.tree_, 0, 0)
        scores += np.bincount(program, o.rate * tree.predict(x), len(y))
        losses.append(weighted_loss(scores, y))
    return losses


def _keep(booster: Booster, number: int, grown: Any, at: int, place: int) -> None:
    """Copy scikit-learn's node `at`, and what is below it, to a place of the complete tree."""
    inner = booster.threshold.shape[1]
    if place >= inner:
        booster.leaves[number, place - inner] = booster.options.rate * grown.value[at].item()
        return
    leaf = grown.children_left[at] < 0
    if not leaf:
        booster.feature[number, place] = grown.feature[at]
        least = np.float32(grown.threshold[at])  # the largest float32 below the threshold
        if least > grown.threshold[at]:
            least = np.nextafter(least, np.float32(-np.inf))
        booster.threshold[number, place] = least
        booster.missing[number, place] = bool(grown.missing_go_to_left[at])
    for side, child in ((1, grown.children_left[at]), (2, grown.children_right[at])):
        _keep(booster, number, grown, at if leaf else int(child), 2 * place + side)


def throughputs(cycles: Floats, graphs: NDArray[Any]) -> Floats:
    """Of programs, over that of the best one of the same graph, in (0, 1]."""
    best = np.full(int(graphs.max()) + 1, np.inf)
    np.minimum.at(best, graphs, cycles)
    found: Floats = best[graphs] / cycles
    return found


def recall(scores: Floats, y: Floats, k: int = 30) -> float:
    """Of the k fastest programs, those among the k that score best."""
    return len(set(np.argsort(-scores, kind="stable")[:k]) & set(np.argsort(-y, kind="stable")[:k])) / k


# -------------------------------------------------------------------- how well it orders programs


def sampled(shapes: Sequence[int], each: int, seed: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Random programs of published operators, by their place in the list: features (B, F) without any prediction, cycles of the
    analytical model (B,), and the operator (B,)."""
    accelerator = load_accelerator("gemmini-default")
    known = [one for one in read_shapes() if one.table]
    rows, cycles, graphs = [], [], []
    for number, place in enumerate(shapes):
        search = LayerSearch(Layer(known[place].problem), accelerator, begin="sampling")
        mappings = search.drawn(each, seed + number)
        layers = [search.flat] * len(mappings)
        styles = [style_of(realise(search.flat, one, accelerator)) for one in mappings]
        features, _ = described(layers, mappings, [accelerator] * len(mappings), styles)
        rows.append(features.flat[:, : features.names.index("predicted")])
        predicted = predict_layers(layers, mappings, accelerator)
        cycles.append(np.array([float(one.cycles) for one in predicted]))
        graphs.append(np.full(len(mappings), number))
    return np.concatenate(rows), np.concatenate(cycles), np.concatenate(graphs)


def own_samples(shapes: Sequence[int], each: int, seeds: int, share: float = 0.8) -> list[dict[str, float]]:
    """Pairwise accuracy and recall of 30, mean over operators, on the programs not learned from; a row a seed."""
    found = []
    for seed in range(seeds):
        x, cycles, graphs = sampled(shapes, each, 1000 * seed)
        y = throughputs(cycles, graphs)
        learned = np.random.default_rng(seed).random(len(y)) < share
        booster = Booster(OPTIONS)
        grow_weighted(booster, x[learned], np.arange(learned.sum()), y[learned], seed)
        test = ~learned
        scores = program_scores(booster, x[test], np.arange(test.sum()), int(test.sum()))
        each_recall = [
            recall(scores[graphs[test] == one], y[test][graphs[test] == one]) for one in range(len(shapes))
        ]
        pairs = pairwise_accuracy(-scores, 1 / y[test], graphs[test])
        found.append(
            {
                "programs learned from": int(learned.sum()),
                "programs ordered": int(test.sum()),
                "pairs in order, %": pairs or 0.0,
                "recall of 30": float(np.mean(each_recall)),
            }
        )
    return found


def measured_sets(seeds: int) -> dict[str, list[float]]:
    """Pairs of measured programs in order, %: by the analytical model, by these trees alone and with the model's terms among their
    features, learned on the set `train` and judged on `ranking`."""
    train, test = (measured_set(read_dataset(name)) for name in ("train", "ranking"))
    cut = train.features.names.index("predicted")
    tasks = train.groups, test.groups
    y = throughputs(train.cycles, np.unique(tasks[0], return_inverse=True)[1])
    found: dict[str, list[float]] = {"analytical": [], "trees": [], "trees on the analytical terms": []}
    for seed in range(seeds):
        found["analytical"].append(pairwise_accuracy(test.predicted, test.cycles, tasks[1]) or 0.0)
        for name, columns in (("trees", cut), ("trees on the analytical terms", None)):
            booster = Booster(OPTIONS)
            grow_weighted(booster, train.features.flat[:, :columns], np.arange(len(y)), y, seed)
            scores = program_scores(booster, test.features.flat[:, :columns], np.arange(len(test)), len(test))
            found[name].append(pairwise_accuracy(-scores, test.cycles, tasks[1]) or 0.0)
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=2500, help="programs of each operator")
    parser.add_argument("--operators", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    places = [
        n for n, one in enumerate(s for s in read_shapes() if s.table) if one.kind in ("GEMM", "Conv2D")
    ]
    chosen = random.Random(0).sample(places, given.operators)
    result = {
        "own samples": own_samples(chosen, given.each, given.seeds),
        "measured": measured_sets(given.seeds),
    }
    text = json.dumps(result, indent=1)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    _main()
