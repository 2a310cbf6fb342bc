"""How near quantised networks are to their models: `python -m baco.bench.agreements MODEL [MODEL=FILE.npz]...`, a row each.

Ranges are taken from the given inputs (arrays by the names of the network's inputs), which the network then runs on in exact
integers; without a file both are random, from different seeds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np

from baco.compiler.network.agreement import Agreement, agreement
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_inputs, runnable
from baco.compiler.network.reference import reference
from baco.workloads.expand import expand
from baco.workloads.inputs.load import load_network

_OTHER_SEED = 1_000_003
#: dB that an operator counts for at most in the mean.
_MOST_DB = 60.0


def agreement_of(spec: str, data: str = "") -> Agreement:
    """Of a network (file or name, with its options) in integers with its model; `data`: FILE.npz of its inputs.

    Raises BacoError for a network that cannot be run, or inputs that do not fit.
    """
    network = load_network(spec)
    samples = [dict(np.load(data))] if data else []
    quantised = quantise(network, samples)
    given = samples[0] if samples else random_inputs(expand(network), _OTHER_SEED)
    inputs = {name: given[name] for name in quantised.inputs}
    values = reference(quantised, quantise_inputs(quantised, inputs))
    parameters = Parameters(network.source)
    flat = runnable(network, parameters)
    return agreement(flat, parameters, quantised, inputs, values, random=not samples)


def agreements_table(models: Sequence[str]) -> str:
    """Markdown; every model as its specification, with `=FILE.npz` behind it where its inputs are given."""
    rows = ["| model | outputs, dB | operators on average, dB |", "|---|---|---|"]
    for model in models:
        spec, _, data = model.rpartition("=") if model.endswith(".npz") else (model, "", "")
        near = agreement_of(spec, data)
        outputs = ", ".join(f"{output.snr_db:.1f}" for output in near.outputs)
        mean = statistics.fmean(min(operator.snr_db, _MOST_DB) for operator in near.operators)
        rows.append(f"| `{spec}` | {outputs} | {mean:.1f} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(agreements_table(sys.argv[1:]))
