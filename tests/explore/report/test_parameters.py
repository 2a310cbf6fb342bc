"""What a report says of the hardware's parameters, and what it calls a tie."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from baco.exploration.breakdown import DesignCosts
from baco.exploration.candidate import Cost
from baco.exploration.known_errors import known_errors
from baco.exploration.report import ReportData
from baco.exploration.report.notable import tied_indices
from baco.exploration.report.page import page_html
from baco.exploration.report.parameters import hardware_parameters, parameter_importance
from baco.exploration.report.summary import summary
from tests.explore import report_helpers as helpers
from tests.explore.report.test_report_page import Engine


def grid(noise: float = 0.0) -> tuple[ReportData, dict[str, float]]:
    """A report of one design for each of 60 accelerators, whose costs follow a law; and the shares of variance by parameter."""
    data = helpers.report_data(candidates=4, layers=2)
    base, costs = data.candidates[0], data.costs[0]
    assert costs is not None
    chance = np.random.default_rng(3)
    points = list(itertools.product((4, 8, 16, 32, 64), (16, 64, 256, 1024), ("WS", "OS", "both")))
    parts = [
        {
            "dim": -0.8 * math.log(dim) + 0.3 * (math.log(dim) - 2.5) ** 2,
            "scratchpad_kib": -0.1 * math.log(size),
            "dataflow": {"WS": 0.0, "OS": 0.5, "both": -0.2}[flow],
        }
        for dim, size, flow in points
    ]
    candidates, all_costs = [], []
    for (dim, size, flow), part in zip(points, parts, strict=True):
        machine = base.accelerator.replace(
            dim=dim, scratchpad_kib=size, dataflow=flow, name=f"{dim}-{size}-{flow}"
        )
        factor = math.exp(math.fsum(part.values()) / 2 + noise * chance.normal())
        own = scaled(costs, factor)
        cost = Cost(own.cycles, own.energy_pj, machine.area_mm2)
        candidates.append(replace(base, accelerator=machine, cost=cost, objective=cost.edp))
        all_costs.append(own)
    best = min(candidates, key=lambda one: one.objective)
    found = replace(
        data,
        candidates=candidates,
        best=best,
        costs=all_costs,
        details={},
        search=replace(data.search, cost_model="instruction"),
    )
    variance = {key: float(np.var([part[key] for part in parts])) for key in parts[0]}
    return found, {key: value / sum(variance.values()) for key, value in variance.items()}


def scaled(costs: DesignCosts, factor: float) -> DesignCosts:
    """All cycles and energies times a factor."""

    def times(one: object) -> object:
        terms = {name: value * factor for name, value in one.energy_terms_pj.items()}  # type: ignore[attr-defined]
        return replace(one, cycles=one.cycles * factor, energy_terms_pj=terms)  # type: ignore[attr-defined, type-var]

    return replace(costs, layers=tuple(map(times, costs.layers)), beside=tuple(map(times, costs.beside)))  # type: ignore[arg-type]


def test_importance_is_the_share_of_variance_of_an_additive_law() -> None:
    data, shares = grid()
    found = parameter_importance(data)
    assert found is not None
    assert found.accelerators == 60
    assert found.explained == pytest.approx(1, abs=1e-9)
    assert list(found.shares) == sorted(shares, key=lambda key: -shares[key])
    for key, share in shares.items():
        assert found.shares[key] == pytest.approx(share, rel=1e-9)
    noisy = parameter_importance(grid(noise=0.3)[0])
    assert noisy is not None
    assert 0.3 < noisy.explained < 0.95


def test_of_few_or_equal_designs_importance_says_nothing() -> None:
    few = helpers.report_data(candidates=4)
    assert parameter_importance(few) is None
    assert "Too few accelerators" in Engine(page_html(few)).text("importance-hint")
    data, _ = grid()
    equal = [replace(one, objective=7.0) for one in data.candidates]
    assert parameter_importance(replace(data, candidates=equal, best=equal[0])) is None


def test_parameters_are_those_in_which_designs_differ() -> None:
    data, _ = grid()
    found = {one.key: one for one in hardware_parameters(data)}
    assert list(found) == ["dim", "dataflow", "scratchpad_kib"]
    assert found["dim"].numeric
    assert not found["dataflow"].numeric
    assert found["dim"].values == [one.accelerator.dim for one in data.candidates]


def test_the_page_draws_every_accelerator_in_every_picture() -> None:
    data, _ = grid()
    engine = Engine(page_html(data))
    engine.change("every-mapping", "on")
    circles = "elements['slices'].children.map((picture) => picture.all((e) => (e.getAttribute('class') || '').startsWith('dot-')).length)"
    assert engine.get(circles) == [60, 60, 60]
    lines = "elements['parallel'].all((e) => (e.getAttribute('class') || '').startsWith('line-')).length"
    assert engine.get(lines) == 60
    assert engine.get("elements['importance'].children.length") == 3
    # a filter holds for them, too, and a click chooses
    engine.change("filter-dim", "8")
    kept = sum(one.accelerator.dim == 8 for one in data.candidates)
    assert engine.get(lines) == kept + 1  # and the best
    engine.do(
        "elements['parallel'].all((e) => (e.getAttribute('class') || '').startsWith('line-'))[0].fire('click')"
    )
    assert int(engine.get("document.body.dataset.shown")) != data.best_index


def test_ties_are_within_the_known_error_of_the_best() -> None:
    data, _ = grid()
    error = known_errors("instruction")["edp"].mean
    edp = [one.cost.edp for one in data.candidates]
    least = min(edp)
    expected = sorted(
        (i for i, value in enumerate(edp) if least < value <= least * (1 + error)), key=edp.__getitem__
    )
    assert tied_indices(data) == expected
    written = summary(data)
    assert written["ties"] == expected
    assert written["known_errors"]["edp"]["mean"] == error
    content = json.loads(json.dumps(written))
    assert "Predicted cycles are off by 9.6% in the mean" in content["text"]
    # the reference model is no forecast
    assert tied_indices(replace(data, search=replace(data.search, cost_model="reference"))) == []


def test_predicted_figures_carry_their_error() -> None:
    data, _ = grid()
    engine = Engine(page_html(data))
    panel = engine.text("design")
    assert "cycles ± 9.6%" in panel
    assert "mm² ± 2.5%" in panel
    assert "cycles 9.6% (1,120 random mappings" in engine.text("errors-hint")
    cards = engine.text("cards")
    assert "predicted ± 9.6%" in cards
