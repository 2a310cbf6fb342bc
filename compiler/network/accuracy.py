"""How right a network's integers are on data: measured in the integers that its programs compute, with labels or against the float model.

Every element of every run is what a program gives on the accelerator (`baco.compiler.network.reference`); runs go side by side, on
all processors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from baco.common.errors import InputError
from baco.compiler.network.agreement import Comparison, TensorAgreement, comparable_tensors
from baco.compiler.network.calibrate import calibrate
from baco.compiler.network.float_graph import FloatGraph, output_tensors
from baco.compiler.network.format_graph import FormatGraph, float_format
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise_inputs, runnable
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference_runs
from baco.workloads.inputs.samples import LABEL, SampleSet
from baco.workloads.network import Network

Arrays = Mapping[str, np.ndarray]
#: Runs go side by side as long as all their values take no more than so many bytes, and no more than so many of them.
_BYTES, _RUNS = 1 << 27, 8
#: Dimensions of a result of images: classes are their channels, else the last dimension.
_IMAGES = 4


@dataclass(frozen=True)
class ModelAccuracy:
    """How right the integers of a network are.

    Attributes:
        samples: that were judged.
        unseen: whether ranges were taken from other samples than these.
        answers: how many classes were told in them: more than one a sample where it holds several images.
        integers, floats: share of the answers that are the labels', in integers and in floating point; None without labels.
        agreeing: share of the answers in integers that are those in floating point.
        output: that answers are taken from, the first: the class with the largest number.
        near: how near that output is to the same in floating point, over all samples.
        operators: the same of inputs and operators whose results are in memory, in order.
        numbers: what the network computes in: integers, or a format of floating point.
    """

    samples: int
    unseen: bool
    answers: int
    integers: float | None
    floats: float | None
    agreeing: float
    output: str
    near: TensorAgreement
    operators: tuple[TensorAgreement, ...] = field(default=(), repr=False)
    numbers: str = "integers"

    @property
    def loss(self) -> float:
        """Share of right answers that integers lose; without labels, of answers that are not the float model's."""
        if self.integers is None or self.floats is None:
            return 1 - self.agreeing
        return self.floats - self.integers

    @property
    def deviation(self) -> float:
        """Standard deviation of `integers` (else of `agreeing`) by how many answers there were."""
        share = self.agreeing if self.integers is None else self.integers
        return math.sqrt(share * (1 - share) / self.answers)

    @property
    def evidence(self) -> str:
        """What it was measured on, in words."""
        kind = "labelled samples" if self.integers is not None else "samples without labels"
        seen = "that ranges were not taken from" if self.unseen else "that ranges were taken from"
        return f"{self.samples:,} {kind} {seen}"

    def sentences(self) -> list[str]:
        """In words: how right, and how near to the float model."""
        found = []
        if self.integers is not None and self.floats is not None:
            found.append(
                f"{100 * self.integers:.2f} % right in {self.numbers} (± {100 * self.deviation:.2f}), {100 * self.floats:.2f} % in "
                f"floating point, on {self.evidence}"
            )
        near = f"{100 * self.agreeing:.2f} % of the answers are the float model's"
        where = "" if found else f", on {self.evidence}"
        db = f"signal to noise {self.near.snr_db:.1f} dB, cosine {self.near.cosine:.4f}"
        return [*found, f"{near}, {db}{where}"]

    def to_dict(self) -> dict[str, Any]:
        """Plain, for JSON: without the operators."""
        plain = asdict(self)
        del plain["operators"]
        if self.numbers == "integers":
            del plain["numbers"]
        return plain | {"loss": self.loss, "deviation": self.deviation, "evidence": self.evidence}


def integer_runs(
    quantised: QuantisedNetwork,
    samples: SampleSet,
    judge: Callable[[int, Arrays], Any] | None = None,
) -> list[Any]:
    """Run a network in integers on samples, side by side on all processors; what `judge` says of each, in order.

    Args:
        judge: is told the number of a sample and the elements of all values of its run, from any thread; without it, the result is
            the outputs in real numbers.

    Raises InputError for samples that do not fit.
    """
    shared = {value.name for value in quantised.values.values() if value.role == "constant"}
    size = sum(
        math.prod(value.shape) * np.dtype(value.dtype).itemsize
        for value in quantised.values.values()
        if value.name not in shared
    )
    count = max(1, min(_RUNS, _BYTES // max(size, 1)))

    def outputs(number: int, values: Arrays) -> list[np.ndarray]:
        return [quantised.read_output(name, values) for name in quantised.outputs]

    say = judge or outputs

    def runs(start: int) -> list[Any]:
        inputs = [quantise_inputs(quantised, sample) for sample in samples.inputs[start : start + count]]
        values = reference_runs(quantised, inputs)
        return [
            say(start + run, {name: x if name in shared else x[run] for name, x in values.items()})
            for run in range(len(inputs))
        ]

    # a thread each: torch's own would wait for one another, and add floating-point numbers up in another order
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return [outputs for found in pool.map(runs, range(0, len(samples), count)) for outputs in found]
    finally:
        torch.set_num_threads(threads)


class AccuracyJudge:
    """A network in floating point on the samples that its integers are judged on, for one quantisation of it or for many.

    Judged are the samples that ranges were not taken from; all where those are the fewer. What the network says of them in floating
    point is computed once.

    Args:
        network, quantiser, seed, layers: as `baco.compiler.network.quantise.quantise` was told, on the first of `samples`; other
            formats of weights are judged alike.

    Raises InputError for a network that cannot be run.
    """

    def __init__(
        self,
        network: Network,
        samples: SampleSet,
        *,
        quantiser: Quantiser = DEFAULT,
        seed: int = 0,
        layers: int | None = None,
    ) -> None:
        self._numbers = quantiser.floats.form if quantiser.floats else "integers"
        self._samples, self._unseen = _judged(samples, quantiser.calibration)
        parameters = Parameters(network.source, seed)
        self._graph = FloatGraph(runnable(network, parameters, layers, quantiser), parameters)
        #: First outputs in floating point, by number of the sample.
        self._floats: dict[int, np.ndarray] = {}

    def measure(self, quantised: QuantisedNetwork, *, operators: bool = True) -> ModelAccuracy:
        """How right its integers are.

        Args:
            operators: compare every operator's results, too, for which the network runs in floating point anew.

        Raises InputError for labels that do not fit what the network says, and for a network without such an output.
        """
        compared = comparable_tensors(quantised) if operators else {}
        output = next(iter(quantised.outputs))

        def judge(number: int, values: Arrays) -> tuple[np.ndarray, np.ndarray, dict[str, Comparison]]:
            """Outputs in floating point and in integers, and what compares every operator's."""
            pairs: dict[str, Comparison] = {}

            def observe(name: str, floats: np.ndarray) -> None:
                if name in compared:
                    view, largest = compared[name]
                    pairs[name] = Comparison()
                    pairs[name].add(floats, quantised.read(view, values), largest)

            if operators or number not in self._floats:
                self._floats[number] = self._graph.run(self._samples[number], observe)[0]
            return self._floats[number], np.asarray(quantised.read_output(output, values)), pairs

        found = integer_runs(quantised, self._samples, judge)
        whole = Comparison()
        sums: dict[str, Comparison] = {name: Comparison() for name in compared}
        for floats, integers, pairs in found:
            whole.add(floats, integers.astype(np.float64))
            for name, agreement in pairs.items():
                sums[name].merge(agreement)
        said = np.stack([_answers(floats) for floats, _, _ in found])
        meant = np.stack([_answers(integers) for _, integers, _ in found])
        right: list[float | None] = [None, None]
        if self._samples.labels is not None:
            labels = _fitting(self._samples.labels, found[0][0], said)
            right = [float(np.mean(classes == labels)) for classes in (meant, said)]
        return ModelAccuracy(
            len(self._samples),
            self._unseen,
            said.size,
            right[0],
            right[1],
            float(np.mean(said == meant)),
            output,
            whole.agreement(output),
            tuple(agreement.agreement(name) for name, agreement in sums.items() if agreement.elements),
            self._numbers,
        )


def measure_accuracy(
    network: Network,
    quantised: QuantisedNetwork,
    samples: SampleSet,
    *,
    quantiser: Quantiser = DEFAULT,
    seed: int = 0,
    layers: int | None = None,
) -> ModelAccuracy:
    """How right `quantised` is, operators included: `AccuracyJudge` for one quantisation. Raises as that."""
    judge = AccuracyJudge(network, samples, quantiser=quantiser, seed=seed, layers=layers)
    return judge.measure(quantised)


@dataclass(frozen=True)
class FormatAccuracy:
    """How right a network is whose products read numbers of another format (`baco.compiler.network.format_graph`).

    Attributes:
        form: name of the format.
        samples, unseen: as of `ModelAccuracy`.
        right: share of the answers that are the labels'; None without.
        agreeing: share of the answers that are those in floating point.
        near: how near the first output is to the same in floating point, over all samples.
    """

    form: str
    samples: int
    unseen: bool
    right: float | None
    agreeing: float
    near: TensorAgreement


def format_accuracy(
    network: Network,
    form: str,
    samples: SampleSet,
    *,
    calibration: int = DEFAULT.calibration,
    seed: int = 0,
    layers: int | None = None,
) -> FormatAccuracy:
    """How right a network is with operands of a floating-point or block format, on the samples that `AccuracyJudge` judges.

    Args:
        form: name of the format, one of `baco.accel.number_formats.FORMATS`.
        calibration: samples that the units of activations are taken from at most, the first ones.

    Raises InputError for other formats, for labels that do not fit, and for transposed convolutions.
    """
    judged, unseen = _judged(samples, calibration)
    parameters = Parameters(network.source, seed)
    network = runnable(network, parameters, layers)
    ranges = calibrate(network, parameters, samples.inputs[:calibration], "min-max")
    floats = FloatGraph(network, parameters)
    stored = FormatGraph(network, parameters, float_format(form), ranges.largest)
    whole, said, meant = Comparison(), [], []
    for number in range(len(judged)):
        wanted, given = floats.run(judged[number])[0], stored.run(judged[number])[0]
        whole.add(wanted, given)
        said.append(_answers(wanted))
        meant.append(_answers(given))
    classes, theirs = np.stack(meant), np.stack(said)
    right = None
    if judged.labels is not None:
        right = float(np.mean(classes == _fitting(judged.labels, wanted, theirs)))
    agreeing = float(np.mean(classes == theirs))
    near = whole.agreement(output_tensors(network)[0].name)
    return FormatAccuracy(form, len(judged), unseen, right, agreeing, near)


def _judged(samples: SampleSet, calibration: int) -> tuple[SampleSet, bool]:
    """The samples behind those that ranges are taken from, and that they are; all where those are the fewer."""
    unseen = len(samples) >= 2 * calibration
    return (samples[calibration:] if unseen else samples), unseen


def _answers(output: np.ndarray) -> np.ndarray:
    """The classes that an output tells, flat: its largest numbers' positions, or what a model that tells them itself says."""
    if output.dtype.kind in "iub" or not output.ndim:
        return output.reshape(-1)
    axis = 1 if output.ndim == _IMAGES else -1
    return np.asarray(output.argmax(axis).reshape(-1))


def _fitting(labels: np.ndarray, output: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Labels like answers [samples, answers of a sample]. Raises InputError where they are not."""
    flat = labels.reshape(len(labels), -1)
    if flat.shape != answers.shape:
        raise InputError(
            f"'{LABEL}' has {flat.shape[1]} for every sample, and the network's first output {output.shape} tells"
            f" {answers.shape[1]} classes"
        )
    classes = output.shape[1 if output.ndim == _IMAGES else -1] if output.ndim else 1
    if output.dtype.kind == "f" and int(labels.max(initial=0)) >= classes:
        raise InputError(
            f"'{LABEL}' reaches {int(labels.max())}, and the network's first output tells {classes} classes",
            hint="classes count from 0",
        )
    return flat
