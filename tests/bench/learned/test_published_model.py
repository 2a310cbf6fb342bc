"""Counts, law and cross-validation of the published FPGA measurements."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from baco.bench.learned.laws import ResourceLaw, fit_law
from baco.bench.learned.published import PublishedModel, cross_validated, measured_cycles
from baco.bench.learned.published_counts import (
    CONVOLUTION,
    FEATURES,
    PRODUCT,
    convolution_counts,
    product_counts,
    raw_features,
)
from baco.bench.learned.published_timing import unfitted_cycles
from baco.bench.learned.scores import group_numbers, grouped_folds, pairwise_accuracy, scores
from baco.common.errors import InputError
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.mapping_rows import read_mapping_table
from baco.main import run
from baco.workloads.problem import Problem

ROWS = Path(__file__).parents[4] / "shared" / "data" / "gemmini-firesim.csv.gz"
needs_rows = pytest.mark.skipif(not ROWS.exists(), reason="needs the published rows in ../shared/data")


def named(resources: dict[str, tuple[str, ...]], counts: np.ndarray) -> dict[str, float]:
    return dict(zip((e for events in resources.values() for e in events), counts.tolist(), strict=True))


def brute_force_convolution(p: Problem, tile: dict[str, int], rows: int, columns: int) -> dict[str, int]:
    """Every pass of every tile, one after the other."""
    passes = pass_rows = weight_bytes = results = 0
    for _ in range(-(-p.P // tile["P"]) * -(-p.Q // tile["Q"])):
        for k in range(0, p.K, tile["K"]):
            for _c in range(0, p.C, tile["C"]):
                weight_bytes += tile["C"] * tile["K"] * tile["R"] * tile["S"]
                for _block in range(tile["C"] // rows * (tile["K"] // columns) * tile["R"] * tile["S"]):
                    for _q in range(tile["Q"]):
                        for start in range(0, tile["P"], 16):
                            passes += 1
                            pass_rows += min(16, tile["P"] - start)
            results += tile["P"] * tile["Q"] * (tile["K"] // columns) + 0 * k
    return {"passes": passes, "pass_rows": pass_rows, "weight_bytes": weight_bytes, "result_rows": results}


def test_convolution_counts_against_going_through_all_tiles() -> None:
    p = Problem(R=3, S=3, P=36, Q=36, C=32, K=64)
    mapping = parse_mapping("L3[WIO] C2 K4 P2 Q3 - L2[WI] N1 K8X - L1[O] C4 K2 R3 S3 Q12 C4X - L0[W] P18")
    mapping.check(p)
    found = named(CONVOLUTION, convolution_counts(p, mapping))
    expected = brute_force_convolution(p, mapping.tile(2), 4, 8)
    assert {name: found[name] for name in expected} == expected
    assert found["pass_rows"] * 4 * 8 == p.macs
    assert found["tiles"] == 2 * 4 * 2 * 3


def test_images_count_as_squares() -> None:
    text = "L3[WIO] K4 - L2[WI] N1 K16X - L1[O] C4 Q3 C16X - L0[W] P30"
    flat = named(CONVOLUTION, convolution_counts(Problem(P=30, Q=3, R=3, C=64, K=64), parse_mapping(text)))
    square = text.replace("K4 ", "K4 Q10 ")
    whole = named(
        CONVOLUTION, convolution_counts(Problem(P=30, Q=30, R=3, C=64, K=64), parse_mapping(square))
    )
    assert flat["pass_rows"] == whole["pass_rows"]
    assert flat["tiles"] == whole["tiles"] == 40


def test_product_units_cover_the_product() -> None:
    p = Problem(P=100, C=96, K=40)
    mapping = parse_mapping("L3[WIO] P4 K5 C3 - L2[WI] N1 K8X - L1[O] C4 P25 C8X - L0[W] N1")
    found = named(PRODUCT, product_counts(p, mapping))
    assert (
        found["tiles"] == 4 * 5 * 3
    )  # units of 8: 13 rows in tiles of 4, 5 columns in tiles of 1, 12 deep in tiles of 4
    assert found["units"] == found["tiles"] * 4 * 1 * 4
    assert found["waiting_units"] == found["tiles"] * 2 * 1 * 2
    assert found["one"] == pytest.approx(1)


def test_features_are_named_and_finite() -> None:
    p = Problem(R=3, S=3, P=8, Q=8, C=16, K=16)
    mapping = parse_mapping("L3[WIO] N1 - L2[WI] N1 K16X - L1[O] R3 S3 Q8 C16X - L0[W] P8")
    found = raw_features([p, p], [mapping, mapping])
    assert found.shape == (2, len(FEATURES))
    assert np.isfinite(found).all()
    assert found[0, FEATURES.index("tile C")] == pytest.approx(np.log(16))


def test_the_law_lies_between_the_busiest_resource_and_the_sum() -> None:
    law = ResourceLaw({"a": ("x", "y"), "b": ("z",)})
    law.costs, law.power = np.array([1.0, 2.0, 3.0]), 3.0
    counts = np.array([[1.0, 2.0, 4.0], [0.0, 5.0, 0.0]])
    assert law.busy(counts) == pytest.approx(np.array([[5.0, 10.0], [12.0, 0.0]]), abs=1e-6)
    assert law.predict(counts) == pytest.approx([(5**3 + 12**3) ** (1 / 3), 10.0], abs=1e-6)


def test_the_law_finds_the_costs_that_made_the_data() -> None:
    rng = np.random.default_rng(0)
    truth = ResourceLaw({"a": ("x", "y"), "b": ("z",)})
    truth.costs, truth.power = np.array([1.5, 0.3, 4.0]), 4.0
    counts = np.exp(rng.uniform(0, 9, (400, 3)))
    found = ResourceLaw(truth.resources)
    fit_law(found, counts, truth.predict(counts))
    assert found.costs == pytest.approx(truth.costs, rel=0.05)
    assert found.power == pytest.approx(4, rel=0.1)


def test_scores_are_those_of_scipy_and_of_hand() -> None:
    rng = np.random.default_rng(1)
    measured = np.exp(rng.normal(size=200))
    predicted = measured * np.exp(0.3 * rng.normal(size=200))
    found = scores(predicted, measured)
    assert found.spearman == pytest.approx(float(spearmanr(predicted, measured).statistic))
    by_hand = scores(np.array([110.0, 80.0, 100.0]), np.array([100.0, 100.0, 100.0]))
    assert (by_hand.mean_percent, by_hand.median_percent) == pytest.approx((10, 10))
    assert by_hand.bias_percent == pytest.approx(-10 / 3)
    tasks = np.array([0, 0, 0, 1])
    # pairs of task 0: (1, 2) right, (1, 3) wrong, (2, 3) equal measurements
    assert pairwise_accuracy(np.array([1.0, 2, 0.5, 9]), np.array([5.0, 6, 6, 1]), tasks) == pytest.approx(50)


def test_folds_keep_groups_together_and_cover_all() -> None:
    groups = group_numbers(["b", "a", "b", "c", "a", "d", "e"])
    assert groups.tolist() == [1, 0, 1, 2, 0, 3, 4]
    folds = list(grouped_folds(groups, 3, seed=1))
    assert np.sum(folds, axis=0).tolist() == [1] * 7
    for test in folds:
        assert not set(groups[test]) & set(groups[~test])
    assert [f.tolist() for f in grouped_folds(groups, 3, seed=1)] == [f.tolist() for f in folds]


def table_of(path: Path, rows: int, *, measured: bool = True) -> Path:
    """A synthetic table: matrix products of several shapes in random tiles, cycles from a made-up law."""
    rng = np.random.default_rng(0)
    lines = ["mapping.mapping,arch.meshX,arch.mem1_entries,arch.mem2_entries,"]
    lines[0] += ",".join(f"prob.{d}" for d in "RSPQCKN") + ",prob.Wstride,prob.Hstride"
    lines[0] += ",target.cycle" * measured
    for _ in range(rows):
        p, c, k = (2 ** int(n) for n in rng.integers(0, 4, 3))
        a, b = (2 ** int(n) for n in rng.integers(2, 5, 2))
        x, y = (2 ** int(n) for n in rng.integers(0, 3, 2))
        mapping = f"L3[WIO] C{c} K{k} - L2[WI] N1 K{a}X - L1[O] C{x} K{y} C{b}X - L0[W] P{16 * p}"
        shape = [1, 1, 16 * p, 1, c * x * b, k * y * a, 1, 1, 1]
        cycles = 200 * c * k + 5 * c * x * k * y * p * 16 + 2 * c * x * b * k
        row = [mapping, 16, 1024, 65536, *shape] + [cycles] * measured
        lines.append(",".join(map(str, row)))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_without_cycles_or_with_few_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no measured cycles"):
        measured_cycles(read_mapping_table(table_of(tmp_path / "a.csv", 5, measured=False)))
    with pytest.raises(InputError, match="too few"):
        cross_validated(read_mapping_table(table_of(tmp_path / "b.csv", 5)))


def test_the_command_learns_from_one_table_and_predicts_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, rows = table_of(tmp_path / "train.csv", 150), table_of(tmp_path / "rows.csv", 60)
    out = tmp_path / "out.csv"
    line = ["model", "evaluate", "--rows", str(rows), "--train", str(train), "--out", str(out), "--json"]
    assert run("baco", line) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["predictors"]["law + residual"]["spearman"] > 0.97
    assert report["predictors"]["law + residual"]["median_percent"] < 15
    written = out.read_text().splitlines()
    assert len(written) == 61
    assert written[0].endswith("target.cycle,predicted.cycle")


@needs_rows
def test_published_rows_by_the_original_s_timing_unfitted() -> None:
    table = read_mapping_table(ROWS)
    found = scores(unfitted_cycles(table.problems, table.mappings), measured_cycles(table))
    assert found.spearman is not None
    assert found.spearman > 0.95
    assert abs(found.bias_percent) < 10


def test_unfitted_cycles_of_a_tile_that_the_array_bounds() -> None:
    """A convolution that keeps the array busy takes the cycles of its passes, and little more for its tiles."""
    p = Problem(R=3, S=3, P=32, Q=32, C=64, K=64)
    mapping = parse_mapping("L3[WIO] K2 Q2 - L2[WI] N1 K16X - L1[O] C4 K2 R3 S3 Q16 C16X - L0[W] P32")
    mapping.check(p)
    (cycles,) = unfitted_cycles([p], [mapping])
    assert p.macs / 256 <= cycles <= p.macs / 256 + 4 * 200


def test_a_missing_table_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baco", ["model", "evaluate", "--rows", str(tmp_path / "none.csv")]) == 2
    assert "Traceback" not in capsys.readouterr().err


@needs_rows
def test_published_rows_of_shapes_never_seen() -> None:
    table = read_mapping_table(ROWS)
    shapes = group_numbers(table.problems)
    cycles = measured_cycles(table)
    test = np.flatnonzero(next(iter(grouped_folds(shapes, 4, seed=3))))
    learn = np.setdiff1d(np.arange(len(table)), test)
    model = PublishedModel(seed=0, members=2)
    model.fit([table.problems[i] for i in learn], [table.mappings[i] for i in learn], cycles[learn])
    predicted, _, deviation = model.predict(
        [table.problems[i] for i in test], [table.mappings[i] for i in test]
    )
    found = scores(predicted, cycles[test])
    assert found.spearman is not None
    assert found.spearman >= 0.95
    assert found.median_percent <= 25
    error = np.abs(np.log(predicted / cycles[test]))
    sure = deviation < np.median(deviation)
    assert np.median(error[sure]) < np.median(error[~sure])


@needs_rows
@pytest.mark.slow
def test_published_rows_cross_validated_by_shape() -> None:
    found = cross_validated(read_mapping_table(ROWS))[0].predictors["law + residual"]
    assert found.rows == 1567
    assert found.spearman is not None
    assert found.spearman >= 0.95
    assert found.median_percent <= 25
