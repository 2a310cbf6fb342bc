"""How near measured programs are to the user's model, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from baco.compiler.network.agreement import Agreement
from baco.exploration.measure.measured_design import Design


def _agreements(designs: Sequence[Design]) -> dict[str, Agreement]:
    """By network: all designs compute the same."""
    return {
        program.network: program.measured.agreement
        for one in designs
        for program in one.programs
        if program.measured is not None and program.measured.agreement is not None
    }


def agreement_sentences(designs: Sequence[Design]) -> list[str]:
    """The output of every network that is furthest from the model, in a sentence each."""
    found = []
    for network, near in _agreements(designs).items():
        if near.outputs:
            worst = min(near.outputs, key=lambda one: one.snr_db)
            inputs = "random inputs" if near.random else "the given inputs"
            found.append(
                f"On {inputs} the integers of {network} agree with {near.evidence}: {worst.name}, {worst}."
            )
    return found
