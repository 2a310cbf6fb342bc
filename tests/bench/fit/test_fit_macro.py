"""Fitting the constants of the macros' cycles."""

import json
from dataclasses import replace

import numpy as np
import pytest

from baco.bench.fit.macro import MacroSample, fit_macro, main, samples_of
from baco.bench.sets.dataset import read_dataset
from baco.compiler.styles.macros import runs
from baco.compiler.styles.macros.cycles import MacroConstants

CONSTANTS = runs.CONSTANTS["baco"]


def _micro() -> list[MacroSample]:
    return list(samples_of(read_dataset("micro")).values())


@pytest.mark.slow
def test_finds_what_made_the_cycles():
    """Cycles that the formulas give with other constants lead back to about these cycles."""
    made = replace(CONSTANTS, start=CONSTANTS.start * 1.3, switch=CONSTANTS.switch * 1.5)
    samples = []
    for sample in _micro():
        cycles = (sample.errors(made) + 1) * sample.cycles
        samples.append(replace(sample, cycles=cycles))
    before = np.abs(np.concatenate([sample.errors(CONSTANTS) for sample in samples])).mean()
    found = fit_macro(samples)
    after = np.abs(np.concatenate([sample.errors(found) for sample in samples])).mean()
    assert after < before / 2
    assert after < 0.02


def test_command(tmp_path, capsys):
    place = tmp_path / "constants.json"
    main(["micro", "--out", str(place)])
    found = MacroConstants(**json.loads(place.read_text())["baco"])
    printed = capsys.readouterr().out
    assert "micro loop_conv: " in printed
    assert "written to" in printed
    errors = np.concatenate([one.errors(found) for one in _micro()])
    committed = np.concatenate([one.errors(CONSTANTS) for one in _micro()])
    assert np.abs(errors).mean() < np.abs(committed).mean()


def test_committed_constants():
    """On what they were fitted to, errors are small and cancel out."""
    for name in ("micro", "train"):
        for sample in samples_of(read_dataset(name)).values():
            errors = sample.errors(CONSTANTS)
            assert np.abs(errors).mean() < 0.1
            assert abs(errors.mean()) < 0.03
