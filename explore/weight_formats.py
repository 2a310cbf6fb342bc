"""Accuracy as an objective: which layers of a network have weights of 4 bits, or which format the elements of its array have, what that
loses, and what the best design then costs.

Formats are chosen by a list of sensitivities: every layer alone has weights of 4 bits, which tells what noise it adds to that of all in 8
bits for each byte that it saves; layers then follow one another, least noise a byte first, from all weights in 8 bits to all in 4. Noise tells
layers apart where answers on a few hundred samples do not. Where a space searches formats of elements (`DesignSpace.formats`), each of floating
point is one choice more. What is judged of each choice are answers, in the integers that its program
computes; each is then searched as a study of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.common.errors import InfeasibleError, InputError
from baco.common.files import atomic_write
from baco.compiler.network.quantiser import Quantiser

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.network.accuracy import ModelAccuracy
    from baco.exploration.space import DesignSpace
    from baco.workloads.inputs.samples import SampleSet
    from baco.workloads.network import Network

#: Files of the front, in the folder of the study that is chosen.
FRONT_FILE, FRONT_PICTURE = "formats.json", "formats.svg"
#: Choices that are searched at most.
MOST = 6


@dataclass(frozen=True)
class FormatChoice:
    """Formats of all layers, and what they lose.

    Attributes:
        quantiser: with the names of the layers whose weights have 4 bits, or with how an array adds up floating point.
        layers: whose weights may have 4 bits.
        weight_bytes: of these layers in main memory.
        accuracy: of the network in these numbers.
    """

    quantiser: Quantiser
    layers: int
    weight_bytes: float
    accuracy: ModelAccuracy

    @property
    def label(self) -> str:
        """In a few words."""
        if self.quantiser.floats:
            return self.quantiser.floats.form
        count = len(self.quantiser.int4_layers)
        if count in (0, self.layers):
            return "int4" if count else "int8"
        return f"int4 in {count} of {self.layers} layers"

    @property
    def words(self) -> str:
        """What has this format."""
        return self.label if self.quantiser.floats else f"{self.label} weights"

    @property
    def folder(self) -> str:
        """Name of its study's."""
        if self.quantiser.floats:
            return self.quantiser.floats.form
        return f"int4-{len(self.quantiser.int4_layers)}-of-{self.layers}"


@dataclass(frozen=True)
class FormatPoint:
    """A choice with the best design that was found for it.

    Attributes:
        value: of the objective beside accuracy.
        machine: the design, in words.
        on_front: whether no other choice is at least as good in both, and better in one.
        chosen: whether its study is that of the folder.
    """

    choice: FormatChoice
    value: float
    machine: str
    on_front: bool = False
    chosen: bool = False


class WeightFormats:
    """A network whose layers may have weights of 4 bits: it is calibrated, and run in floating point, once for all choices.

    Args:
        network: that is quantised.
        samples: ranges are taken from the first of them, and choices judged on the others (`AccuracyJudge`).
        quantiser: all else about the numbers.

    Attributes:
        quantiser: with all weights in 8 bits.
        sizes: weights of every operator that has trained ones, by its name, in order.

    Raises InputError for a network whose numbers are whole already, and as `AccuracyJudge`.
    """

    def __init__(self, network: Network, samples: SampleSet, quantiser: Quantiser) -> None:
        from baco.compiler.network.accuracy import AccuracyJudge
        from baco.compiler.network.quantise import Calibration

        self.quantiser = replace(quantiser, weight_format="int8", int4_layers=())
        self._calibration = Calibration(network, samples.inputs, quantiser=self.quantiser)
        self._judge = AccuracyJudge(network, samples, quantiser=self.quantiser)
        whole, halves = (
            self._calibration.integers(replace(self.quantiser, weight_format=form)).constants
            for form in ("int8", "int4")
        )
        kept = {op.name: f"{op.name}.weight" for op in network.operators if f"{op.name}.weight" in whole}
        self.sizes = {
            name: whole[weight].size
            for name, weight in kept.items()
            if (whole[weight] != halves[weight]).any()
        }
        if not self.sizes:
            raise InputError(
                f"accuracy is traded by formats of trained weights, and {network.name} has none that could be chosen",
                hint="give a model in floating point, with its weights",
            )

    def with_int4(self, names: Iterable[str]) -> Quantiser:
        """How the network is quantised where these layers have weights of 4 bits."""
        return replace(self.quantiser, int4_layers=tuple(sorted(names)))

    def accuracy(self, names: Iterable[str]) -> ModelAccuracy:
        """Of the network with weights of 4 bits in these layers, its operators left out. Raises InputError as `AccuracyJudge`."""
        return self._judge.measure(self._calibration.integers(self.with_int4(names)), operators=False)

    def weight_bytes(self, names: Iterable[str]) -> float:
        """Of all weights in main memory, where these layers' are packed."""
        return sum(self.sizes.values()) - sum(self.sizes[name] for name in names) / 2


def added_noise(snr_db: float, before_db: float) -> float:
    """Power of the noise that comes to what is there before, in parts of the signal's; 0 where there is less than before."""
    return max(0.0, 10 ** (-snr_db / 10) - 10 ** (-before_db / 10))


def nested_choices(sizes: dict[str, int], noise: dict[str, float], most: int = MOST) -> list[tuple[str, ...]]:
    """Names of the layers with weights of 4 bits, of every choice: none, more and more by noise a byte saved, all; where there are more
    choices than `most`, those that save about the same from one to the next."""
    order = sorted(sizes, key=lambda name: (noise[name] / sizes[name], name))
    every = [tuple(order[:count]) for count in range(len(order) + 1)]
    if len(every) <= most:
        return every
    total, kept, saved = sum(sizes.values()), [every[0]], 0
    for names in every[1:-1]:
        saved += sizes[names[-1]]
        if saved * (most - 1) >= total * len(kept) and len(kept) < most - 1:
            kept.append(names)
    return [*kept, every[-1]]


def format_choices(
    network: Network,
    samples: SampleSet,
    quantiser: Quantiser,
    bound: float | None = None,
    say: Callable[[str], None] = lambda text: None,
    floats: Sequence[Accelerator] = (),
    integers: bool = True,
) -> list[FormatChoice]:
    """Choices of formats with what they lose, int8 first; those that lose more than the bound are left out.

    Args:
        quantiser: all else about the numbers.
        floats: arrays of floating point to choose from.
        integers: whether those of integers are chosen from, too.
        bound: largest loss (`ModelAccuracy.loss`).
        say: told what is going on.

    Raises InputError as `WeightFormats`; InfeasibleError where every choice loses more than the bound.
    """
    found = _integer_choices(network, samples, quantiser, say) if integers else []
    for machine in floats:
        say(f"measuring the accuracy of {machine.input_format}")
        found.append(float_choice(network, samples, quantiser, machine))
    kept = [one for one in found if bound is None or one.accuracy.loss <= bound]
    if not kept:
        least = min(found, key=lambda one: one.accuracy.loss)
        raise InfeasibleError(
            f"{least.words} lose {least.accuracy.loss:.2%} of accuracy, and all others more: the bound is {bound:.2%}",
            hint="raise the bound, or give a quantised model with scales of channels (baco.quantise(weight_scales='channel'))",
        )
    return kept


def float_choice(
    network: Network, samples: SampleSet, quantiser: Quantiser, machine: Accelerator
) -> FormatChoice:
    """The network in an array's floating point. Raises InputError as `AccuracyJudge`."""
    from baco.compiler.network.accuracy import AccuracyJudge
    from baco.compiler.network.quantise import quantise

    own = Quantiser(calibration=quantiser.calibration, equalisation=quantiser.equalisation).on(machine)
    numbers = quantise(network, samples.inputs, quantiser=own)
    accuracy = AccuracyJudge(network, samples, quantiser=own).measure(numbers, operators=False)
    sizes = [weights.nbytes for name, weights in numbers.constants.items() if name.endswith(".weight")]
    return FormatChoice(own, 0, float(sum(sizes)), accuracy)


def _integer_choices(
    network: Network, samples: SampleSet, quantiser: Quantiser, say: Callable[[str], None]
) -> list[FormatChoice]:
    """int8, and weights of 4 bits in more and more layers."""
    formats = WeightFormats(network, samples, quantiser)
    known: dict[frozenset[str], ModelAccuracy] = {}

    def accuracy(names: Sequence[str]) -> ModelAccuracy:
        key = frozenset(names)
        if key not in known:
            say(f"measuring the accuracy of int4 weights in {len(key)} of {len(formats.sizes)} layers")
            known[key] = formats.accuracy(key)
        return known[key]

    whole = accuracy([]).near.snr_db
    noise = {name: added_noise(accuracy([name]).near.snr_db, whole) for name in formats.sizes}
    return [
        FormatChoice(
            formats.with_int4(names), len(formats.sizes), formats.weight_bytes(names), accuracy(names)
        )
        for names in nested_choices(formats.sizes, noise)
    ]


def space_of_choice(space: DesignSpace, choice: FormatChoice) -> DesignSpace:
    """The space of the accelerators that compute in a choice's formats: of its floating point, or of integers, which load weights of
    4 bits two a byte where it has any.

    Raises InputError where the timing is the original Gemmini's, which has no such loads.
    """
    if choice.quantiser.floats:
        return space.of_format(choice.quantiser.floats.form)
    space = replace(space, formats=())
    if not choice.quantiser.int4_layers:
        return space
    if space.base.timing == "gemmini":
        raise InputError(
            "the original Gemmini loads no weights of 4 bits: accuracy trades for nothing there",
            hint="leave --timing out",
        )
    features = space.base.features.model_copy(update={"packed_weights": True})
    return replace(space, base=space.base.replace(features=features))


def judged(points: Sequence[FormatPoint]) -> list[FormatPoint]:
    """The points with `on_front` and `chosen`: that of the least value, of equal ones what loses less."""
    pairs = [(one.value, one.choice.accuracy.loss) for one in points]
    best = pairs.index(min(pairs))
    return [
        replace(
            one,
            chosen=number == best,
            on_front=not any(a <= value and b <= loss and (a, b) != (value, loss) for a, b in pairs),
        )
        for number, (one, (value, loss)) in enumerate(zip(points, pairs, strict=True))
    ]


def write_front(folder: Path, metric: str, points: Sequence[FormatPoint]) -> None:
    """`formats.json` and its picture in the folder of a study. Raises StorageError."""
    rows: list[dict[str, Any]] = []
    for one in points:
        accuracy = one.choice.accuracy
        rows.append(
            {
                "weights": one.choice.label,
                "int4_layers": list(one.choice.quantiser.int4_layers),
                "weight_bytes": one.choice.weight_bytes,
                metric: one.value,
                "accelerator": one.machine,
                "loss": accuracy.loss,
                "right": accuracy.integers,
                "agreeing": accuracy.agreeing,
                "deviation": accuracy.deviation,
                "snr_db": accuracy.near.snr_db,
                "evidence": accuracy.evidence,
                "on_front": one.on_front,
                "chosen": one.chosen,
                "study": f"formats/{one.choice.folder}",
            }
        )
    atomic_write(folder / FRONT_FILE, json.dumps(rows, indent=1) + "\n")
    atomic_write(folder / FRONT_PICTURE, _picture(metric, points))


def front_lines(metric: str, points: Sequence[FormatPoint]) -> list[str]:
    """A line for each choice."""
    lines = []
    for one in points:
        accuracy = one.choice.accuracy
        share = accuracy.agreeing if accuracy.integers is None else accuracy.integers
        what = "as in floating point" if accuracy.integers is None else "right"
        marks = [*(["on the front"] if one.on_front else []), *(["chosen"] if one.chosen else [])]
        lines.append(
            f"{one.choice.words}: {share:.2%} {what} (loss {accuracy.loss:.2%} ± {accuracy.deviation:.2%}, "
            f"{accuracy.near.snr_db:.1f} dB), {metric} {one.value:.5g}, {one.machine}{': ' * bool(marks)}{', '.join(marks)}"
        )
    return lines


def _picture(metric: str, points: Sequence[FormatPoint]) -> bytes:
    from baco.common.figure import drawing, figure_bytes, figure_text, new_figure

    with drawing({"svg.hashsalt": "formats"}):
        figure = new_figure(6.0, 3.6)
        axes = figure.add_subplot()
        for one in points:
            at = 100 * one.choice.accuracy.loss, one.value
            axes.errorbar(
                *at,
                xerr=100 * one.choice.accuracy.deviation,
                fmt="o" if one.on_front else "x",
                color="C0" if one.on_front else "0.6",
            )
            axes.annotate(
                figure_text(one.choice.label), at, xytext=(6, 6), textcoords="offset points", fontsize=8
            )
        axes.set_xlabel("loss of accuracy, % (bars: one standard deviation)")
        axes.set_ylabel(figure_text(metric))
        axes.set_ylim(bottom=0)
        return figure_bytes(figure, "svg", dpi=100, metadata={"Date": None})
