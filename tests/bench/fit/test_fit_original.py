"""Fitting the profile of the original's timing: cycles made from known constants, and the tables of its judgement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.bench.fit import original
from baco.bench.fit.original import ProfileConstants, cross_validation_text, fit_profile, predict
from baco.bench.timing import TimedProgram, timing_accuracy
from baco.compiler.latency.model import constants
from baco.compiler.styles.macros.pipeline import PIPELINES
from baco.compiler.styles.macros.runs import CONSTANTS

ORIGINAL = load_accelerator("gemmini-default").replace(timing="gemmini")
COMMITTED = ProfileConstants(CONSTANTS["gemmini"], constants("gemmini"), PIPELINES)
LAYERS = ("P64 C64 K64", "P128 C64 K32", "P32 C128 K64", "P96 C32 K96", "P256 C16 K64")


def _programs() -> list[TimedProgram]:
    """Products in macros of several sizes, and one of each in explicit code; what they take is not known yet."""
    found = []
    for layer in LAYERS:
        schedules = [f"loop_ws {tile} order jik keep B" for tile in ("1,1,1", "2,2,2", "4,2,1")]
        schedules.append("explicit L3[WIO] K2 - L2[WI] N1 K16X - L1[O] K2 C4 C16X - L0[W] P32 buffers 2,2,2")
        if layer != LAYERS[0]:
            schedules.pop()  # the mapping is that of one layer
        else:
            schedules[-1] = (
                "explicit L3[WIO] K2 P2 - L2[WI] N1 K16X - L1[O] K2 C4 C16X - L0[W] P32 buffers 2,2,2"
            )
        for schedule in schedules:
            style = schedule.split()[0]
            text = f"{layer} scale 0.001"
            found.append(
                TimedProgram("random", f"{len(found)}.elf", style, text, "", 10_000, 1, schedule, 600, 2_000)
            )
    return found


@pytest.mark.slow
def test_finds_what_made_the_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles that other constants give are met by the constants fitted to them, and not by those before."""
    monkeypatch.setattr(
        original, "_MACRO_STARTS", original._MACRO_STARTS[:1]
    )  # one fit is quicker than three
    made = replace(
        COMMITTED,
        macro=replace(COMMITTED.macro, start=700.0, host_ws=150.0),
        pipelines=PIPELINES | {"loop_ws": replace(PIPELINES["loop_ws"], start=900.0, host=150.0)},
    )
    programs = predict(_programs(), ORIGINAL, made)
    measured = [
        replace(one, measured=round(one.predicted), predicted=None) for one in programs if one.predicted
    ]
    assert len(measured) == len(_programs())
    errors = {}
    for name, known in (("before", COMMITTED), ("after", fit_profile(measured, ORIGINAL))):
        found = timing_accuracy(predict(measured, ORIGINAL, known))
        errors[name] = found.predicted["random, loop_ws"].mean_absolute_error
    assert errors["after"] < errors["before"] / 2
    assert errors["after"] < 0.08


def test_tables_of_what_was_predicted() -> None:
    programs = [
        TimedProgram("random", f"{n}.elf", "loop_ws", f"P{n}", "", 1000, 1000, "s", 0, 0, 1000.0 + 100 * sign)
        for n, sign in enumerate((1, -1, 1, 1))
    ]
    one = timing_accuracy(programs)
    assert one.predicted["random"].mean_absolute_error == pytest.approx(0.1)
    assert one.predicted["random"].bias == pytest.approx(0.05)
    assert one.parts["random"].mean_absolute_error == 0
    assert "| random | 4 |" in one.text(0)
    text = cross_validation_text([one, one])
    assert "| 10.0% | 10.0% | +5.0% |" in text
    assert np.char.count(text, "\n") == 3
