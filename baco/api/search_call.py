"""A search as the call of `baco.explore` that reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from baco.common.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from baco.api.preparation import PreparedSearch
    from baco.exploration.space import DesignSpace
    from baco.workloads.network import Workload


def call_of(made: PreparedSearch) -> str:
    """The call that reproduces a search, as Python."""
    kernel = made.kernel
    names = [_metric(one) for one in made.objective.metrics]
    given = {
        "space": written_space(made.space),
        "samples": made.samples,
        "time_limit": made.time_limit,
        "seed": made.seed,
        "search": made.search if kernel is None and ":" not in made.search else None,
        "cost_model": made.cost_model,
        "whole": None if made.whole or kernel is not None else False,
    }
    plain = not any(made.objective.functions)
    objective = (
        repr(str(made.objective)) if plain else names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    )
    options = ", ".join(
        [
            f"objective={objective}",
            *(f"{name}={value!r}" for name, value in given.items() if value is not None),
        ]
    )
    if ":" in made.search:
        options += f", sampler={made.search.partition(':')[2]}"
    return f"baco.explore({_networks(made.workload) if kernel is None else kernel.call()}, {options})"


def written_space(space: DesignSpace) -> str | dict[str, Any]:
    """A space as an argument: a name or a file, or what differs from `gemmini`."""
    from baco.common.yaml import parse_yaml
    from baco.exploration.space import load_space
    from baco.exploration.space.in_technology import IDLE

    name = space.name if space.doc is None else space.doc.name
    for source in (space.name, name):
        try:
            if load_space(source).space_hash == space.space_hash:
                return source
        except (InputError, InfeasibleError):
            continue
    own, usual = (parse_yaml(one.to_yaml(), "space").data for one in (space, load_space("gemmini")))
    if own["technology"] != usual["technology"]:
        # what spaces in it would assume of idle silicon is said
        fixed, idle = (
            own.setdefault("fixed", {}),
            {name: getattr(space.base.energy, name) for name in sorted(IDLE)},
        )
        fixed["energy"] = idle | fixed.get("energy", {})
    own.setdefault("units", ["row_functions" if space.base.features.row_functions else "none"])
    return {key: value for key, value in own.items() if usual.get(key) != value and key != "name"}


def _metric(name: str) -> str:
    """A metric as an argument: a function by its name."""
    from baco.exploration.objective import FunctionMetric

    return name.removesuffix("()") if isinstance(name, FunctionMetric) else repr(name)


def _networks(mix: Workload) -> str:
    """One network, or several with their weights, as Python."""
    names = [one.source if one.source != "built-in" else _spec(one.name, one.options) for one in mix.networks]
    return repr(names[0] if len(names) == 1 else dict(zip(names, mix.weights, strict=True)))


def _spec(name: str, options: Mapping[str, int | str]) -> str:
    return name + (":" + ",".join(f"{key}={value}" for key, value in options.items()) if options else "")
