"""All searches by name: the main one, and a sampler a file."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from baco.common.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from baco.exploration.samplers.sampler import Sampler
    from baco.exploration.search.searcher import Searcher, SearchSetup


#: name -> (module, class, one-line description). A new sampler is one file and one line here.
SEARCHERS: dict[str, tuple[str, str, str]] = {
    "gradient": (
        "baco.exploration.samplers.descent",
        "GradientSearch",
        "one loop: local search and exact combination, with the reference model gradient descent too (default)",
    ),
    "local": (
        "baco.exploration.search.local_search",
        "LocalSearch",
        "the same without gradient descent in any case",
    ),
    "random": (
        "baco.exploration.samplers.random",
        "RandomSampler",
        "random mappings, hardware inferred (one loop)",
    ),
    "bayesian": (
        "baco.exploration.samplers.tpe",
        "TpeSampler",
        "Bayesian optimisation over hardware, random mappings inside (Optuna)",
    ),
    "genetic": (
        "baco.exploration.samplers.nsga2",
        "GeneticSampler",
        "genetic algorithm over hardware and mappings (Optuna)",
    ),
    "two-loop": (
        "baco.exploration.samplers.two_loop",
        "TwoLoopSampler",
        "random hardware x random mappings (published baseline)",
    ),
    "evolution": (
        "baco.exploration.samplers.evolution",
        "EvolutionSampler",
        "evolution of mappings, hardware inferred (in the style of Ansor)",
    ),
    "dosa": (
        "baco.exploration.samplers.dosa",
        "DosaSampler",
        "plain gradient descent in the style of DOSA (published baseline)",
    ),
    "dosa-published": (
        "baco.exploration.samplers.dosa",
        "PublishedDosaSampler",
        "the same, a gradient step of all layers counted as one sample, as published",
    ),
}
#: Samplers of users, by module and name.
_OWN: dict[str, type[Sampler]] = {}


def adopt_sampler(kind: object) -> str:
    """The name by which studies know a user's sampler from now on: its module and name. Raises InputError for what is none."""
    from baco.exploration.samplers.sampler import Sampler

    if not isinstance(kind, type):
        raise InputError(
            f"sampler must be a class, not {type(kind).__name__}",
            hint="pass the class itself, not an instance",
        )
    if not issubclass(kind, Sampler):
        raise InputError(
            f"{kind.__name__} is no sampler", hint=f"derive it: class {kind.__name__}(baco.Sampler)"
        )
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InputError(
            f"{kind.__name__} has no method '{missing}'", hint="a sampler defines ask, and tell if it learns"
        )
    name = f"{kind.__module__}:{kind.__qualname__}"
    _OWN[name] = kind
    return name


def check_searcher(name: str) -> None:
    """Raises InputError for a name that no search has."""
    if name in SEARCHERS or name in _OWN:
        return
    if ":" in name:
        raise InputError(f"the sampler '{name}' is not known here", hint="pass its class: sampler=...")
    raise InputError(f"unknown searcher '{name}'", hint=did_you_mean(name, SEARCHERS))


def can_be_asked(name: str) -> bool:
    """Whether a search is a sampler's, whose proposals somebody else may judge."""
    from baco.exploration.samplers.sampler import Sampler

    if name in _OWN:
        return True
    module, cls, _ = SEARCHERS.get(name, ("", "", ""))
    return bool(module) and issubclass(getattr(importlib.import_module(module), cls), Sampler)


def groups_itself(name: str) -> bool:
    """Whether a search asks `SearchSetup.grouping`, once it has begun; others want to know of groups before."""
    if name not in SEARCHERS:
        return False
    module, cls, _ = SEARCHERS[name]
    return hasattr(getattr(importlib.import_module(module), cls), "group")


def make_searcher(name: str, setup: SearchSetup) -> Searcher:
    """The search registered as `name`, or that of kernels where the set-up has blocks; PyTorch has `one_thread` then. Raises
    InputError for an unknown name.
    """
    from baco.common.tensors import one_thread  # loads PyTorch

    one_thread()
    if setup.blocks:
        from baco.exploration.search.blocks import BlockSearch

        return BlockSearch(setup)
    from baco.exploration.samplers.sampler import SampledSearch, Sampler

    check_searcher(name)
    kind: Any = _OWN.get(name)
    if kind is None:
        module, cls, _ = SEARCHERS[name]
        kind = getattr(importlib.import_module(module), cls)
    if issubclass(kind, Sampler):
        return SampledSearch(setup, kind)
    if setup.space.settings:
        from baco.exploration.search.local_search import LocalSearch
        from baco.exploration.search.settings import SettingsSearch

        # descent is worth nothing here (docs/how-good-is-the-search.md)
        return SettingsSearch(setup, LocalSearch)
    found: Searcher = kind(setup)
    return found
