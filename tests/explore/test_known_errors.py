"""The errors that reports show are those measured, and those that the documentation names."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from baco.exploration.known_errors import known_errors

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"


def kept(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


@pytest.mark.parametrize("model", ["instruction", "reference"])
def test_errors_of_layers_are_those_of_the_measured_set(model: Any) -> None:
    found = known_errors(model)
    rows = {
        row["quantity"]: row
        for row in kept("paper/accuracy.json")["rows"]
        if (row["model"], row["stratum"]) == (model, "all")
    }
    for metric, quantity in (("latency", "cycles"), ("energy", "energy")):
        assert rows[quantity]["rows"] == 1120
        assert 100 * found[metric].mean == pytest.approx(rows[quantity]["mean_percent"], abs=0.06)
        assert 100 * (found[metric].bias or 0.0) == pytest.approx(rows[quantity]["bias_percent"], abs=0.3)
    cycles = kept("latency-model.json")["models"][model]
    assert found["latency"].mean == pytest.approx(cycles["mean_absolute_error"], abs=6e-4)
    assert found["latency"].bias == pytest.approx(cycles["bias"], abs=6e-4)


def test_the_error_of_whole_programs_is_that_of_the_programs_measured() -> None:
    ones = [
        one for row in kept("whole-programs.json") for one in (row["baseline"], row["mappings"], *row["best"])
    ]
    ratios = [one["predicted_cycles"] / one["cycles"] - 1 for one in ones]
    found = known_errors("instruction", whole=True)["latency"]
    assert f"{len(ratios)} whole programs of {len(kept('whole-programs.json'))} networks" in found.subject
    assert found.mean == pytest.approx(statistics.mean(map(abs, ratios)), abs=6e-4)
    assert found.bias == pytest.approx(statistics.mean(ratios), abs=6e-4)


def test_the_error_of_energies_in_a_technology_is_that_of_what_switches() -> None:
    rows = kept("energy.json")
    ratios = [
        sum(row["predicted"]["typical"][part] for part in ("clock", "rest"))
        / (row["clock"] + sum(row["switched"].values()))
        - 1
        for row in rows
    ]
    found = known_errors("instruction", silicon="ihp-sg13g2")["energy"]
    assert f"{len(rows)} whole programs" in found.subject
    assert found.mean == pytest.approx(statistics.mean(map(abs, ratios)), abs=6e-4)
    assert found.bias == pytest.approx(statistics.mean(ratios), abs=6e-4)


def test_pages_name_the_same_errors() -> None:
    page, models = (
        (DOCS / "how-true-are-predictions.md").read_text("utf-8"),
        (DOCS / "models.md").read_text("utf-8"),
    )
    alone = known_errors("instruction")
    assert f"mean error {alone['latency'].mean:.1%}, bias {alone['latency'].bias:+.1%}" in page.replace(
        "\n", " "
    )
    assert f"0.998, {alone['energy'].mean:.1%}, {alone['energy'].bias:+.1%}" in page.replace("\n", " ")
    original = known_errors("instruction", whole=True, timing="gemmini")["latency"]
    (row,) = (line for line in page.splitlines() if line.startswith("| random | 180 |") and "10.0%" in line)
    assert row.split("|")[7].strip() == f"{original.mean:.1%}"
    reference = known_errors("reference")
    assert f"| cycles, all | 0.68 | 62% | {int(100 * reference['latency'].mean)}% |" in models
    assert f"| energy, all | 0.85 | 42% | {reference['energy'].mean:.0%} |" in models
    assert f"{alone['area'].mean:.1%} in ten-fold cross-validation" in models


def test_products_may_be_wrong_in_both_factors() -> None:
    found = known_errors("instruction", whole=True)
    assert found["edp"].mean == pytest.approx(1.016 * 1.051 - 1)
    assert found["edap"].mean == pytest.approx(1.016 * 1.051 * 1.025 - 1)
