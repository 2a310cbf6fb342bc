"""The explanation of a design in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baco.exploration.explain.hardware_steps import PARAMETERS, HardwareStep
from baco.exploration.explain.steps import Neighbour, Neighbours
from baco.exploration.explain.trade_offs import TradeOff
from baco.exploration.objective import metric_word
from baco.exploration.report.units import share, significant
from baco.exploration.space.constraints import UNITS

#: A ratio from here on is a factor and no percentage, and one as near to 1 as this is called the same.
_FACTOR, _SAME = 2.0, 0.0005


def ratio_words(name: str, ratio: float) -> str:
    """A ratio of costs: `9% more EDP`, `2.8 × the area`, `the same energy`."""
    what = metric_word(name)
    if ratio >= _FACTOR:
        return f"{significant(ratio, 2)} × the {what}"
    if abs(ratio - 1) < _SAME:
        return f"the same {what}"
    return f"{share(abs(ratio - 1), 1.0)} {'more' if ratio > 1 else 'less'} {what}"


def value_words(parameter: str, value: float) -> str:
    """A value of a parameter with its unit."""
    if parameter == "dim":
        return f"{value:g} × {value:g}"
    return f"{value:,g} {PARAMETERS[parameter][1]}".strip()


def step_words(step: HardwareStep) -> str:
    """A step: `scratchpad 256 to 128 KiB`, with what had to change besides."""
    name = step.parameter
    if name == "row_functions":
        return "with row functions" if step.way == "up" else "without row functions"
    before = f"{step.before:,g}" if name != "dim" else value_words(name, step.before)
    words = f"{PARAMETERS[name][0]} {before} to {value_words(name, step.after)}"
    also = ", ".join(
        f"{PARAMETERS[one][0]} {value_words(one, after)}" for one, (_, after) in step.also.items()
    )
    return f"{words} (with {also})" if also else words


def best_steps(near: Neighbours) -> str:
    """The step that gains most, the one that gains most in the space, and one that saves area for little."""
    parts = []
    gain, inside = near.best(), near.best(inside=True)
    if gain is not None and gain.ratios[near.metric] < 1 - _SAME:
        parts.append(_stepped(gain, near))
    if inside is None or inside.ratios[near.metric] >= 1 - _SAME:
        parts.append("none in the space gains")
    elif inside is not gain:
        parts.append(_stepped(inside, near))
    smaller = _smaller(near)
    if smaller is not None and smaller is not gain and smaller is not inside:
        parts.append(_stepped(smaller, near))
    return "; ".join(parts)


def _stepped(one: Neighbour, near: Neighbours) -> str:
    remark = f" ({_outside(one)})" if _outside(one) else ""
    names = [near.metric, *(name for name in ("area",) if name != near.metric)]
    costs = " and ".join(ratio_words(name, one.ratios[name]) for name in names)
    return f"{step_words(one.step)}: {costs}{remark}"


def _smaller(near: Neighbours) -> Neighbour | None:
    """The step that saves at least a twentieth of the area for the least loss."""
    found = [
        neighbour
        for neighbour in near.steps
        if neighbour.found is not None and neighbour.ratios["area"] <= 0.95
    ]
    return min(found, key=lambda neighbour: neighbour.ratios[near.metric], default=None)


def alternative_text(one: TradeOff, metrics: Sequence[str]) -> str:
    """`49% less area for 7% more EDP (#12)`; the objective is named too where it is something else."""
    pays = [one.pays]
    if metrics[0] not in (one.pays, one.gains):
        pays.insert(0, metrics[0])
    cost = " and ".join(ratio_words(name, one.ratios[name]) for name in pays)
    knee = "the knee: " if one.knee else ""
    return f"{knee}{ratio_words(one.gains, one.ratios[one.gains])} for {cost} (#{one.design})"


def against_words(name: str, ratios: Mapping[str, float]) -> str:
    """Costs against a baseline: `7.95 × less EDP`."""
    ratio = ratios[name]
    if 0 < ratio <= 1 / _FACTOR:
        return f"{significant(1 / ratio)} × less {metric_word(name)}"
    return ratio_words(name, ratio)


def step_remark(one: Neighbour) -> str:
    """What else is to be said of a step."""
    parts = [part for part in (_outside(one), _free(one)) if part]
    if one.found is not None and one.found.broken:
        broken = (
            f"{path} {value:.4g} {UNITS[path.rsplit('.', 1)[-1]]} (bound {bound:.4g})"
            for path, (value, bound) in one.found.broken.items()
        )
        parts.append(f"breaks {', '.join(broken)}")
    return "; ".join([*parts, *([one.reason] if one.reason else [])])


def _outside(one: Neighbour) -> str:
    return "" if one.step.inside or one.found is None else "outside the space"


def _free(one: Neighbour) -> str:
    """Main memory's interface has no area and no energy of its own unless a space says so."""
    if one.step.parameter != "memory_gb_s" or one.found is None:
        return ""
    machine = one.found.accelerator
    counted = machine.memory_mm2_per_gb_s or machine.energy.memory_mw_per_gb_s
    return "" if counted else "its interface costs nothing here"
