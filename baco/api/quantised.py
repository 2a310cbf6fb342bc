"""`baco.quantise`: a network in integers, with what that loses on the user's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from baco.api.argument_types import checked
from baco.api.sources import NetworkSource
from baco.api.sources import network as load_network
from baco.common.errors import InputError, did_you_mean
from baco.common.shown import shown_html
from baco.compiler.network.quantiser import Quantiser

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from baco.compiler.network.accuracy import ModelAccuracy
    from baco.compiler.network.graph import QuantisedNetwork
    from baco.workloads.inputs.samples import NetworkData, SampleSet
    from baco.workloads.network import Network


@dataclass(frozen=True, eq=False)
class QuantisedModel:
    """A network whose numbers have been chosen on data: `baco.explore`, `baco.compile` and `baco.run` take it.

    Attributes:
        network: in floating point, as it was given.
        samples: its data.
        quantiser: how scales are chosen.
    """

    network: Network
    samples: SampleSet = field(repr=False)
    quantiser: Quantiser
    _integers: QuantisedNetwork = field(repr=False)

    @cached_property
    def accuracy(self) -> ModelAccuracy:
        """How right the integers are on the samples that ranges were not taken from (on all, where those are the fewer): `integers`
        and `floats` are shares of right answers by the labels (None without), `loss` the difference, `agreeing` the share of answers
        that are the float model's, `near` how near the output is (`snr_db`, `cosine`), `evidence` what that was measured on.

        Raises InputError for labels that do not fit what the network says.
        """
        from baco.compiler.network.accuracy import measure_accuracy

        return measure_accuracy(self.network, self._integers, self.samples, quantiser=self.quantiser)

    def report(self) -> pd.DataFrame:
        """How near integers are to floating point over the judged samples, a row for each input and operator whose result is in
        memory, in order, the output last.

        Columns: `operator`, `snr_db` (signal to noise), `cosine`, `error` (largest difference, as a part of the largest magnitude), `saturated`
        (share of elements beyond the range).
        """
        import pandas as pd

        columns = ("snr_db", "cosine", "error", "saturated")
        rows = [*self.accuracy.operators, self.accuracy.near]
        cells = [[one.name, *(getattr(one, name) for name in columns)] for one in rows]
        return pd.DataFrame(cells, columns=["operator", *columns])

    def outputs(self, data: NetworkData | None = None) -> list[dict[str, np.ndarray[Any, Any]]]:
        """What the integers compute, in real numbers by the names of the outputs, sample by sample.

        Args:
            data: as for `baco.quantise`; by default the samples.

        Raises InputError for data that does not fit.
        """
        from baco.compiler.network.accuracy import integer_runs
        from baco.compiler.network.quantise import names_outside
        from baco.workloads.inputs.samples import read_samples

        samples = self.samples
        if data is not None:
            samples = read_samples(data, self.network, names_outside(self.network)[0])
        names = list(self._integers.outputs)
        return [dict(zip(names, one, strict=True)) for one in integer_runs(self._integers, samples)]

    def __repr__(self) -> str:
        return f"<QuantisedModel {self.network.name}: {'; '.join(self.accuracy.sentences())}>"

    def _repr_html_(self) -> str:
        facts = [("int8", one) for one in self.accuracy.sentences()]
        table = self.report()
        return shown_html(
            f"{self.network.name} in integers", facts, list(table.columns), table.round(4).to_numpy().tolist()
        )


@checked()
def quantise(
    model: NetworkSource,
    data: NetworkData,
    *,
    observer: str = "mse",
    scales: str = "float",
    bias_correction: bool = True,
    calibration: int = 128,
    weight_format: str = "int8",
    weight_scales: str = "tensor",
    equalisation: bool = False,
    int4_layers: Sequence[str] = (),
    weight_rounding: str = "nearest",
) -> QuantisedModel:
    """A network in int8, its numbers chosen on data, to be measured, explored, compiled and run.

    Args:
        model: as `baco.network` takes it.
        data: arrays by input, each with samples along a first axis before the input's shape (in place of one that is 1), and
            `label`, the class of every sample, if there are labels; a .npz file of them, or a folder of such files; or anything that
            gives these one after the other: dicts, or pairs of arrays and labels as torch's loaders do.
        observer: where scales of activations between convolutions end: `mse` the least squared error, `min-max` the largest magnitude,
            `percentile` all but one number in ten thousand, `entropy` the least information lost. Inputs, outputs and what a softmax, a
            normalisation or a matrix product reads keep their whole range.
        scales: any (`float`), or `power-of-two`.
        bias_correction: biases take back what rounded weights add to sums on average.
        calibration: samples that ranges are taken from at most, the first ones.
        weight_format: of trained weights: `int8`, or `int4`, which lie two a byte where an accelerator has the feature `packed_weights`, and
            are stored as int8 else.
        weight_scales: one for all weights of a layer (`tensor`), or one for each `channel` of its output, which machines with
            `requantization` apply on the way out and the host core else.
        equalisation: channels of neighbouring layers are brought to like ranges first, by powers of two: the float model stays the same.
        int4_layers: names of layers whose weights are int4 where those of others are int8.
        weight_rounding: `nearest`, or `compensated`: one after the other, those still to come taking back what rounded ones add to sums of
            the samples (as GPTQ does; 4 bits gain most).

    Raises InputError for a network that cannot be run, data that does not fit, and choices that there are not.
    """
    from baco.compiler.network.quantise import names_outside
    from baco.compiler.network.quantise import quantise as in_integers
    from baco.workloads.inputs.samples import read_samples

    network = load_network(model)
    known = [op.name for op in network.operators]
    for name in int4_layers:
        if name not in known:
            raise InputError(f"the network has no operator '{name}'", hint=did_you_mean(name, known))
    quantiser = Quantiser(
        observer,  # type: ignore[arg-type]
        scales,  # type: ignore[arg-type]
        bias_correction,
        calibration,
        weight_format,  # type: ignore[arg-type]
        weight_scales,  # type: ignore[arg-type]
        equalisation,
        tuple(int4_layers),
        weight_rounding,  # type: ignore[arg-type]
    )
    samples = read_samples(data, network, names_outside(network)[0])
    integers = in_integers(network, samples.inputs, quantiser=quantiser)
    return QuantisedModel(network, samples, quantiser, integers)
