"""How near measured programs are to the user's model: the table of the page, and sentences."""

from __future__ import annotations

from collections.abc import Sequence

from baco.common.page import html_table
from baco.common.text import html_text
from baco.compiler.network.agreement import MOST_DB, Agreement, TensorAgreement
from baco.exploration.measure.design import Design
from baco.exploration.report.units import significant

__all__ = ["agreement_html", "agreement_sentences"]

_HEADS = (
    *("Network", "Tensor", "Compared with", "Signal to noise, dB", "Cosine", "Largest error, % of the range"),
    "Beyond the range, %",
)
_HINT = (
    "How near the integers that a program computed are to the model they were made from, which another evaluator ran on the same"
    " inputs. Outputs are compared with that evaluator, operators with the network in floating point; these are the furthest ones."
)


def _agreements(designs: Sequence[Design]) -> dict[str, Agreement]:
    """By network: all designs compute the same."""
    return {
        program.network: program.measured.agreement
        for one in designs
        for program in one.programs
        if program.measured is not None and program.measured.agreement is not None
    }


def agreement_html(designs: Sequence[Design]) -> list[str]:
    """A table with the outputs and the worst operators of every network, and warnings; nothing where nothing was compared."""
    found = _agreements(designs)
    if not found:
        return []
    rows, warnings = [], []
    for network, near in found.items():
        rows += [_row(network, f"{one.name} (output)", near.evidence, one) for one in near.outputs]
        rows += [_row(network, one.name, "floating point", one) for one in near.worst]
        text = near.warning()
        if text is not None:
            warnings.append(
                f'<p class="warn" role="alert"><strong>{html_text(network)}</strong> {html_text(text)}</p>'
            )
    table = html_table(_HEADS, rows, numeric=range(3, 7), caption="Agreement with the user's model")
    return [f'<p class="hint">{html_text(_HINT)}</p>', table, *warnings]


def _row(network: str, name: str, evidence: str, one: TensorAgreement) -> tuple[str, ...]:
    if one.equal is not None:
        return network, name, evidence, "–", "–", f"{100 * one.equal:.4g} % of the whole numbers equal", "–"
    noise = "all is equal" if one.snr_db >= MOST_DB else significant(one.snr_db)
    shares = (f"{100 * share:.3g}" for share in (one.error, one.saturated))
    return network, name, evidence, noise, f"{one.cosine:.4f}", *shares


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
