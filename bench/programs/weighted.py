"""Ansor's learned cost: boosted trees that learn the throughput of programs, fast programs weighing more.

Source: Ansor, section 5.2: loss(f, P, y) = y (sum over statements s of f(s) - y)^2, y the throughput of program P over that of the
best program of its graph. A layer is one statement here, so that the loss is a weighted squared error, which scikit-learn's trees
descend. `python -m baco.bench.programs.weighted` shows how well it orders programs that it has not seen.
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
from baco.compiler.styles.registry import realise
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.protocol import Floats
from baco.exploration.samplers.evolution import LayerSearch


def weighted_trees(x: Floats, y: Floats, seed: int = 0, **options: Any) -> Any:
    """scikit-learn's regressor of throughputs y (P,) from features x (P, F); deterministic in the seed. Raises InputError without
    scikit-learn.

    Args:
        options: of the regressor.
    """
    try:
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError:
        raise InputError(
            "learning needs scikit-learn", hint="install it: pip install 'baco[learn]'"
        ) from None
    chosen = {"n_estimators": 150, "max_depth": 6, "min_samples_leaf": 5, "max_features": 0.3} | options
    trees = GradientBoostingRegressor(init="zero", random_state=seed, learning_rate=0.1, **chosen)
    return trees.fit(np.nan_to_num(x, nan=-1e9), y, sample_weight=y)


def _scores(trees: Any, x: Floats) -> Floats:
    """Predicted throughputs (P,)."""
    return np.asarray(trees.predict(np.nan_to_num(x, nan=-1e9)))


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
    known = [shape for shape in read_shapes() if shape.table]
    rows, cycles, graphs = [], [], []
    for number, place in enumerate(shapes):
        search = LayerSearch(Layer(known[place].problem), accelerator, begin="sampling")
        mappings = search.drawn(each, seed + number)
        layers = [search.flat] * len(mappings)
        styles = [realise(search.flat, mapping, accelerator).style for mapping in mappings]
        features, _ = described(layers, mappings, [accelerator] * len(mappings), styles)
        rows.append(features.flat[:, : features.names.index("predicted")])
        predicted = predict_layers(layers, mappings, accelerator)
        cycles.append(np.array([float(prediction.cycles) for prediction in predicted]))
        graphs.append(np.full(len(mappings), number))
    return np.concatenate(rows), np.concatenate(cycles), np.concatenate(graphs)


def own_samples(shapes: Sequence[int], each: int, seeds: int, share: float = 0.8) -> list[dict[str, float]]:
    """Pairwise accuracy and recall of 30, mean over operators, on the programs not learned from; a row a seed."""
    found = []
    for seed in range(seeds):
        x, cycles, graphs = sampled(shapes, each, 1000 * seed)
        y = throughputs(cycles, graphs)
        learned = np.random.default_rng(seed).random(len(y)) < share
        test = ~learned
        scores = _scores(weighted_trees(x[learned], y[learned], seed), x[test])
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
            trees = weighted_trees(train.features.flat[:, :columns], y, seed)
            scores = _scores(trees, test.features.flat[:, :columns])
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
