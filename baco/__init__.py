"""baco: hardware/software co-design exploration for Gemmini-compatible accelerators.

`import baco` gives

* the exploration: `explore` searches, `load_study` reads what was found, `validate` and `measure` simulate designs on
  their own Verilog, `compare` sets studies side by side;
* programs: `compile` and `run` for layers (`gemm`, `conv`), tensor expressions (`expression`), networks and launches of kernels;
* what goes in: `network`, `networks`, `accelerator`, `Accelerator`;
* the block language: `@baco.jit` kernels, launched by `kernel[grid](arrays...)`.

Names are loaded when they are first used, so that importing baco takes no time. Errors that a user can cause are
`BacoError`s.
"""

import os
import sys

# `python -m baco` looks for modules in the current folder first, where anything may lie. This is the first file of ours
# that it reads, and both modules above are loaded by then (`__future__` need not be). Started from a source tree, that is the folder it needs.
_own_folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and os.path.realpath(sys.path[0]) != _own_folder:
    del sys.path[0]
del os, sys

TYPE_CHECKING = False  # type checkers know the name without an import
if TYPE_CHECKING:
    from typing import Any

    from baco import language as language
    from baco.accel.config import Accelerator
    from baco.api.comparison import compare
    from baco.api.cost import CostTree, cost
    from baco.api.expressions import expression
    from baco.api.hardware import hand_over, synthesise, verilog
    from baco.api.kernels import KernelVerdict
    from baco.api.layers import conv, gemm
    from baco.api.measure import measure, validate
    from baco.api.pipelines import TensorPipeline, TensorPipelineRun, pipeline
    from baco.api.programs import Compiled, Run, run
    from baco.api.programs import compile as compile
    from baco.api.quantised import QuantisedModel, quantise
    from baco.api.result import Result
    from baco.api.simulation import evaluate, evaluate_tiles, simulate, trace
    from baco.api.sources import accelerator, network, networks
    from baco.api.space import Space
    from baco.api.study import Study, explore, load_study
    from baco.api.system_search import FoundSystems, search_systems
    from baco.api.systems import PlannedNetworks, ProfiledLayers, plan, profile_layers
    from baco.api.trials import Trial
    from baco.common.errors import BacoError, InfeasibleError, InputError, StorageError
    from baco.compiler.mapping.nest import Mapping
    from baco.exploration.report.why import Explanation
    from baco.exploration.samplers.sampler import Answer, Asked, Sampler, SamplerProblem
    from baco.language import Config, KernelError, autotune, cdiv, const, do_bench, jit, use
    from baco.workloads.network import Network

    __version__: str

#: Where each name is defined.
_HOMES = {
    "use": "baco.language",
    "jit": "baco.language",
    "do_bench": "baco.language",
    "const": "baco.language",
    "cdiv": "baco.language",
    "autotune": "baco.language",
    "KernelError": "baco.language",
    "Config": "baco.language",
    "Accelerator": "baco.accel.config",
    "CostTree": "baco.api.cost",
    "compare": "baco.api.comparison",
    "cost": "baco.api.cost",
    "explore": "baco.api.study",
    "expression": "baco.api.expressions",
    "hand_over": "baco.api.hardware",
    "synthesise": "baco.api.hardware",
    "verilog": "baco.api.hardware",
    "KernelVerdict": "baco.api.kernels",
    "conv": "baco.api.layers",
    "gemm": "baco.api.layers",
    "measure": "baco.api.measure",
    "validate": "baco.api.measure",
    "TensorPipeline": "baco.api.pipelines",
    "TensorPipelineRun": "baco.api.pipelines",
    "pipeline": "baco.api.pipelines",
    "Compiled": "baco.api.programs",
    "Run": "baco.api.programs",
    "compile": "baco.api.programs",
    "run": "baco.api.programs",
    "QuantisedModel": "baco.api.quantised",
    "quantise": "baco.api.quantised",
    "Result": "baco.api.result",
    "Space": "baco.api.space",
    "Study": "baco.api.study",
    "load_study": "baco.api.study",
    "Trial": "baco.api.trials",
    "evaluate": "baco.api.simulation",
    "evaluate_tiles": "baco.api.simulation",
    "simulate": "baco.api.simulation",
    "trace": "baco.api.simulation",
    "accelerator": "baco.api.sources",
    "network": "baco.api.sources",
    "networks": "baco.api.sources",
    "FoundSystems": "baco.api.system_search",
    "search_systems": "baco.api.system_search",
    "PlannedNetworks": "baco.api.systems",
    "ProfiledLayers": "baco.api.systems",
    "profile_layers": "baco.api.systems",
    "plan": "baco.api.systems",
    "BacoError": "baco.common.errors",
    "InfeasibleError": "baco.common.errors",
    "InputError": "baco.common.errors",
    "StorageError": "baco.common.errors",
    "Explanation": "baco.exploration.report.why",
    "Mapping": "baco.compiler.mapping.nest",
    "Asked": "baco.exploration.samplers.sampler",
    "Answer": "baco.exploration.samplers.sampler",
    "Sampler": "baco.exploration.samplers.sampler",
    "SamplerProblem": "baco.exploration.samplers.sampler",
    "Network": "baco.workloads.network",
}
#: What `from baco import *` gives: without names of Python's own (`compile`), and without those that mean something in kernels
#: alone, which `baco.language` has.
__all__ = [
    "Accelerator",
    "Answer",
    "Asked",
    "BacoError",
    "Compiled",
    "Config",
    "CostTree",
    "Explanation",
    "FoundSystems",
    "InfeasibleError",
    "InputError",
    "KernelError",
    "KernelVerdict",
    "Mapping",
    "Network",
    "PlannedNetworks",
    "ProfiledLayers",
    "QuantisedModel",
    "Result",
    "Run",
    "Sampler",
    "SamplerProblem",
    "Space",
    "StorageError",
    "Study",
    "TensorPipeline",
    "TensorPipelineRun",
    "Trial",
    "__version__",
    "accelerator",
    "autotune",
    "cdiv",
    "compare",
    "const",
    "conv",
    "cost",
    "do_bench",
    "evaluate",
    "evaluate_tiles",
    "explore",
    "expression",
    "gemm",
    "hand_over",
    "jit",
    "load_study",
    "measure",
    "network",
    "networks",
    "pipeline",
    "plan",
    "profile_layers",
    "quantise",
    "run",
    "search_systems",
    "simulate",
    "synthesise",
    "trace",
    "use",
    "validate",
    "verilog",
]


def __getattr__(name: str) -> "Any":
    """Loads a name when it is asked for."""
    import importlib

    if name == "__version__":
        from importlib import metadata

        value: Any = metadata.version("baco")
    elif name == "language":
        value = importlib.import_module("baco.language")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif not name.startswith("_") and hasattr(language := importlib.import_module("baco.language"), name):
        value = getattr(language, name)
    else:
        raise AttributeError(f"module 'baco' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, "language", *(name for name in globals() if name.startswith("__"))})
