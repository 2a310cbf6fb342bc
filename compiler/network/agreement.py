"""How near the integers of a network are to the model they were made from: operator by operator, and at its outputs.

The integer reference shares the mistakes of the import, so that being equal to it says nothing about the user's model. Two
comparisons do: the network in floating point with an evaluator that is not ours (`Network.judge`), which nothing but the
order of float sums may tell apart, and the integers with the same, which rounding to 8 bits does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.parameters import Parameters
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.views import View
from baco.workloads.network import Network

Arrays = Mapping[str, np.ndarray]

#: Least signal to noise, dB, of integers that rounding explains. Rounding adds q**2 / 12 to each tensor, q its largest number
#: / 127: of numbers whose largest is 4 standard deviations that is 41 dB, and 30 dB less after 1,000 tensors in a row that
#: all pass it on. Below 10 dB (noise a third as large as the signal) something else is lost.
LEAST_DB = 10.0
#: The same where weights are numbers of MXFP4, which round a third of a power of two away: 18 and 9 dB of two small networks, whose answers
#: are still right to 97 and 94 %.
LEAST_FOUR_BITS_DB = 3.0
#: The same of floating point against another evaluator: what the order of sums leaves is beyond 80 dB.
LEAST_FLOAT_DB = 40.0
#: The same for a model that rounds to 8 bits itself: where it rounds otherwise, one step of its own.
LEAST_ROUNDED_DB = 15.0
#: Share of whole numbers (indices) that must be equal: real numbers that nearly tie may fall either way.
LEAST_EQUAL = 0.9
#: Signal to noise where nothing differs, and, negative, where nothing is left of the signal.
MOST_DB = 300.0
#: Share of a tensor's elements beyond its range from which on results are to be doubted.
MUCH_SATURATED = 0.01
#: The same of random inputs, whose largest numbers differ from those of the random sample that ranges were taken from.
MUCH_SATURATED_AT_RANDOM = 0.1
#: How many operators a report names.
WORST = 5


@dataclass(frozen=True)
class TensorAgreement:
    """How near a tensor in integers is to the same in floating point.

    Attributes:
        name: of the operator, input or output.
        snr_db: signal to noise, dB: from -300, where there is no signal, to 300, where all is equal.
        cosine: of the angle between both, as vectors.
        error: largest difference, as a part of the largest magnitude.
        saturated: share of elements beyond the range that the integers have.
        equal: share of equal elements, of whole numbers (indices); None for real ones.
        same: share of elements that are the same of those that a model which is quantised already can give; None for other models.
        steps: how many of its steps the others are apart at most.
    """

    name: str
    snr_db: float
    cosine: float
    error: float
    saturated: float = 0.0
    equal: float | None = None
    same: float | None = None
    steps: int | None = None

    def __str__(self) -> str:
        if self.same is not None and self.snr_db < MOST_DB:
            return (
                f"{100 * self.same:.4g} % of the model's whole numbers are the same, others at most {self.steps} steps apart, "
                f"signal to noise {self.snr_db:.1f} dB"
            )
        if self.equal is not None:
            return f"{100 * self.equal:.4g} % of the whole numbers are equal"
        if self.snr_db >= MOST_DB:
            return "all is equal"
        return (
            f"signal to noise {self.snr_db:.1f} dB, cosine {self.cosine:.4f}, "
            f"largest error {100 * self.error:.3g} % of the range"
        )


@dataclass(frozen=True)
class Agreement:
    """A network's integers beside the model.

    Attributes:
        judge: the evaluator of the model; empty where none could be asked.
        reason: why not.
        operators: inputs and operators whose results are in memory, against floating point, in order.
        outputs: against the evaluator's, or against floating point without one.
        problems: in words, why results are not those of the model.
        random: whether the inputs, and the ranges, are.
        doubts: in words, what rounding to 8 bits does not explain on inputs that are random, as the ranges are.
    """

    judge: str
    reason: str
    operators: tuple[TensorAgreement, ...]
    outputs: tuple[TensorAgreement, ...]
    problems: tuple[str, ...] = ()
    random: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def saturated(self) -> dict[str, float]:
        """Share of the elements beyond the range, by input and operator; those without any left out."""
        return {one.name: one.saturated for one in self.operators if one.saturated}

    @property
    def doubtful(self) -> dict[str, float]:
        """Those of `saturated` of which too much is beyond its range."""
        most = MUCH_SATURATED_AT_RANDOM if self.random else MUCH_SATURATED
        return {name: share for name, share in self.saturated.items() if share > most}

    @property
    def evidence(self) -> str:
        """Whose results these were compared with, in words."""
        return self.judge or f"the network in floating point ({self.reason})"

    def summary(self) -> list[str]:
        """Each output in words, with who says so."""
        return [f"{one.name} against {self.evidence}: {one}" for one in self.outputs]

    @property
    def worst(self) -> list[TensorAgreement]:
        """Inputs and operators, those with the most noise first; those without any left out."""
        noisy = [operator for operator in self.operators if operator.snr_db < MOST_DB]
        return sorted(noisy, key=lambda operator: operator.snr_db)

    def shortened(self) -> Agreement:
        """With the operators that count: the worst few, and those much of which saturated."""
        kept = {operator.name for operator in self.worst[:WORST]} | set(self.doubtful)
        return replace(
            self, operators=tuple(operator for operator in self.operators if operator.name in kept)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain, for JSON."""
        return asdict(self) | {"saturated": self.saturated, "warning": self.warning()}

    def warning(self) -> str | None:
        """Loud words about what saturated and what else is to be doubted; None where nothing is."""
        words = []
        worst = sorted(self.doubtful.items(), key=lambda item: -item[1])
        if worst:
            listed = ", ".join(f"{name} ({100 * share:.3g} % of its elements)" for name, share in worst[:4])
            more = f" and {len(worst) - 4} more" if len(worst) > 4 else ""
            words.append(f"SATURATED: beyond the range that it was calibrated for: {listed}{more}")
        if self.doubts:
            words.append(f"DOUBTFUL, on random inputs: {'; '.join(self.doubts)}")
        return ". ".join(words) or None


class Comparison:
    """Sums over pairs of tensors, in floating point and in integers, from which their agreement follows.

    Attributes:
        elements: of all pairs.
    """

    def __init__(self) -> None:
        self._signal = self._noise = self._found = self._both = 0.0
        self._top = self._worst = 0.0
        self.elements = self._finite = self._beyond = self._equal = 0
        self._whole = True

    def add(self, floats: np.ndarray, found: np.ndarray, largest: float | None = None) -> None:
        """One more pair; elements that are not finite in both do not count, `largest` as for `compare_tensors`."""
        self._whole &= floats.dtype.kind in "iub" and found.dtype.kind in "iub"
        self.elements += floats.size
        self._equal += int(np.count_nonzero(floats == found))
        wanted, given = (x.astype(np.float64).reshape(-1) for x in (floats, found))
        finite = np.isfinite(wanted)
        wanted, given = wanted[finite], given[finite]
        difference = np.abs(wanted - given)
        self._finite += wanted.size
        self._signal += float((wanted**2).sum())
        self._noise += float((difference**2).sum())
        self._found += float((given**2).sum())
        self._both += float(wanted @ given)
        self._top = max(self._top, float(np.abs(wanted).max(initial=0.0)))
        self._worst = max(self._worst, float(difference.max(initial=0.0)))
        if largest is not None:
            self._beyond += int(np.count_nonzero(np.abs(wanted) > largest))

    def merge(self, other: Comparison) -> None:
        """All pairs of another, too."""
        self._whole &= other._whole
        for name, value in vars(other).items():
            if name in ("_top", "_worst"):
                setattr(self, name, max(getattr(self, name), value))
            elif name != "_whole":
                setattr(self, name, getattr(self, name) + value)

    def agreement(self, name: str) -> TensorAgreement:
        """Of all pairs."""
        signal, noise, top = self._signal, self._noise, self._top
        if noise == 0:
            snr = MOST_DB
        elif not signal or not math.isfinite(noise):
            snr = -MOST_DB
        else:
            snr = min(MOST_DB, max(-MOST_DB, 10 * math.log10(signal / noise)))
        norms = math.sqrt(signal * self._found)
        cosine = self._both / norms if norms else float(noise == 0)
        error = self._worst / top if top else float(noise > 0)
        beyond = self._beyond / self._finite if self._finite else 0.0
        equal = self._equal / self.elements if self._whole and self.elements else None
        return TensorAgreement(name, snr, cosine, error, beyond, equal)


def compare_tensors(
    name: str, floats: np.ndarray, found: np.ndarray, largest: float | None = None
) -> TensorAgreement:
    """Agreement of `found` with `floats`; elements that are not finite in both do not count.

    Args:
        largest: magnitude from which on the integers saturate.
    """
    comparison = Comparison()
    comparison.add(floats, found, largest)
    return comparison.agreement(name)


def comparable_tensors(quantised: QuantisedNetwork) -> dict[str, tuple[View, float | None]]:
    """Inputs and operators whose results are in memory as int8: how they lie there, and the magnitude from which on they saturate."""
    written = {op.sources[-1] for op in quantised.operators if _writes(quantised, op)} | set(quantised.inputs)
    found: dict[str, tuple[View, float | None]] = {}
    for name, view in quantised.tensors.items():
        value = quantised.values[view.value]
        if name in written and name not in quantised.whole and value.coded:
            # What a quantised model cuts off is cut off in both.
            found[name] = view, 128 * value.scale if value.encoding is None else None
    return found


def agreement(
    network: Network,
    parameters: Parameters,
    quantised: QuantisedNetwork,
    inputs: Arrays,
    values: Arrays,
    *,
    random: bool = False,
) -> Agreement:
    """Compare what a run wrote with the model.

    Args:
        network: as it is run (`baco.compiler.network.quantise.runnable`).
        parameters: elements of its parameters, as it was quantised with.
        inputs: of the run, in real numbers, by the network's names.
        values: elements of all values, the outputs as they were computed.
        random: the inputs are: what rounding does not explain is then a doubt, for a model may need other ones (a mask of
            zeros and ones).
    """
    operators: list[TensorAgreement] = []
    compared = comparable_tensors(quantised)

    def observe(name: str, floats: np.ndarray) -> None:
        view, largest = compared.get(name, (None, None))
        if view is not None and view.value in values:
            operators.append(compare_tensors(name, floats, quantised.read(view, values), largest))

    floats = FloatGraph(network, parameters).run(inputs, observe)
    names = list(quantised.outputs)
    found = [quantised.read_output(name, values) for name in names]
    # Whole numbers of a quantised model are near to others, unlike positions.
    found = [
        x.astype(np.float64) if name in quantised.whole else x for name, x in zip(names, found, strict=True)
    ]
    judge, reason, wanted = "", "nothing else evaluates this network", floats
    problems: list[str] = []
    doubts: list[str] = []
    if quantised.random and network.judge is not None:
        reason = "the model gives no values for some of its weights"
    elif network.judge is not None:
        try:
            judge, wanted = network.judge(inputs)
            reason = ""
        except ValueError as error:
            reason = str(error)
    if judge and len(wanted) != len(floats):
        problems.append(f"{judge} has {len(wanted)} outputs, the network {len(floats)}")
        judge, wanted = "", floats
    if judge:
        least = LEAST_ROUNDED_DB if _rounds(network) else LEAST_FLOAT_DB
        for name, theirs, ours, integers in zip(names, wanted, floats, found, strict=True):
            mistake, lost = _problems(name, judge, theirs, ours, integers, (least, _least(quantised)))
            problems += [mistake] if mistake else []
            doubts += [lost] if lost else []
    outputs = tuple(
        _in_steps(
            compare_tensors(name, np.asarray(theirs).reshape(integers.shape), integers),
            theirs,
            integers,
            quantised,
        )
        for name, theirs, integers in zip(names, wanted, found, strict=True)
        if np.asarray(theirs).size == integers.size
    )
    if not random:
        problems, doubts = [*problems, *doubts], []
    return Agreement(judge, reason, tuple(operators), outputs, tuple(problems), random, tuple(doubts))


def _in_steps(
    found: TensorAgreement, theirs: np.ndarray, integers: np.ndarray, quantised: QuantisedNetwork
) -> TensorAgreement:
    """The same in steps of the model's own, of an output that it rounds itself."""
    step = quantised.step(found.name)
    if step is None:
        return found
    apart = np.abs(np.rint((np.asarray(theirs, np.float64).reshape(integers.shape) - integers) / step))
    return replace(found, same=float(np.mean(apart == 0)), steps=int(apart.max(initial=0)))


def _writes(quantised: QuantisedNetwork, op: IntegerOperator) -> bool:
    """Whether the last of the operators that it stands for is what it writes, and no step on the way there."""
    view = quantised.tensors.get(op.sources[-1])
    return view is not None and view.value == op.output.value


def _least(quantised: QuantisedNetwork) -> float:
    """Signal to noise that rounding explains, dB."""
    four_bits = any(value.blocks == "mxfp4" for value in quantised.values.values())
    return LEAST_FOUR_BITS_DB if four_bits else LEAST_DB


def _problems(
    name: str,
    judge: str,
    theirs: np.ndarray,
    ours: np.ndarray,
    integers: np.ndarray,
    least: tuple[float, float],
) -> tuple[str, str]:
    """(How an output differs in floating point, how it does in integers beyond rounding): empty where it does not. `least`: signal to
    noise, dB, of both."""
    if theirs.shape != ours.shape:
        return f"output '{name}' has the shape {ours.shape}, by {judge} {theirs.shape}", ""
    in_floats = compare_tensors(name, theirs, ours)
    if _worse(in_floats, least[0]):
        return f"output '{name}' is not the model's even in floating point, by {judge}: {in_floats}", ""
    in_integers = compare_tensors(name, theirs, integers)
    if not _worse(in_integers, least[1]):
        return "", ""
    beyond = "is further from the model's than rounding explains"
    return "", f"output '{name}' {beyond}, by {judge}: {in_integers}"


def _worse(found: TensorAgreement, least: float) -> bool:
    return found.snr_db < least if found.equal is None else found.equal < LEAST_EQUAL


def _rounds(network: Network) -> bool:
    """Whether the model quantises activations itself."""
    return any(
        op.semantics is not None
        and (op.semantics.function == "quantise" or op.semantics.attributes.get("requantises"))
        for op in network.operators
    )
