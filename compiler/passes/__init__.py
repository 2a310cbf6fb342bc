"""Transformations of the IR: one pass a file, registered below by the name that pipelines and `baco opt` use."""

from __future__ import annotations

import importlib

from xdsl.passes import ModulePass

from baco.common.errors import InputError, did_you_mean

__all__ = ["PASSES", "pass_named", "summary_of"]

#: Where each pass is, `module:class`; imported when it is used. A new pass is one file and one line here.
_PLACES: dict[str, str] = {
    "baco-to-linalg": "baco.compiler.passes.baco_to_linalg:BacoToLinalg",
    "linalg-pipeline": "baco.compiler.passes.pipeline_loads:PipelineLoads",
    "linalg-to-instgem": "baco.compiler.passes.linalg_to_instgem:LinalgToInstGem",
    "instgem-elide-config": "baco.compiler.passes.elide_config:ElideConfig",
    "instgem-hoist-config": "baco.compiler.passes.hoist_config:HoistConfig",
    "instgem-to-llvm": "baco.compiler.passes.instgem_to_llvm:InstGemToLlvm",
    "lower-to-llvm": "baco.compiler.passes.lower_to_llvm:LowerToLlvm",
    # of xDSL
    "canonicalize": "xdsl.transforms.canonicalize:CanonicalizePass",
    "cse": "xdsl.transforms.common_subexpression_elimination:CommonSubexpressionElimination",
    "dce": "xdsl.transforms.dead_code_elimination:DeadCodeElimination",
    "licm": "xdsl.transforms.loop_invariant_code_motion:LoopInvariantCodeMotionPass",
}


#: What xDSL's own passes do.
_SUMMARIES = {
    "canonicalize": "Brings operations into their simplest form; folds constants.",
    "cse": "Computes equal expressions once.",
    "dce": "Removes operations without effect whose results nobody uses.",
    "licm": "Moves operations without effect out of loops that they do not depend on.",
}


#: Names of all passes.
PASSES: tuple[str, ...] = tuple(sorted(_PLACES))


def pass_named(name: str) -> type[ModulePass]:
    """The pass registered as `name`, imported now: most runs need few. Raises InputError for an unknown one."""
    if name not in _PLACES:
        raise InputError(f"there is no pass '{name}'", hint=did_you_mean(name, _PLACES))
    module, cls = _PLACES[name].split(":")
    found: type[ModulePass] = getattr(importlib.import_module(module), cls)
    return found


def summary_of(name: str) -> str:
    """What a pass does, in one sentence."""
    lines = (pass_named(name).__doc__ or "").strip().splitlines()
    return _SUMMARIES.get(name) or (lines[0] if lines else "")
