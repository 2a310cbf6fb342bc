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
    from baco.accel.config import (
        Accelerator,
    )
    from baco.api.compare import (
        compare,
    )
    from baco.api.cost import (
        CostTree,
        cost,
    )
    from baco.api.expressions import (
        expression,
    )
    from baco.api.hardware import (
        verilog,
    )
    from baco.api.kernels import (
        KernelVerdict,
    )
    from baco.api.layers import (
        conv,
        gemm,
    )
    from baco.api.measure import (
        measure,
        validate,
    )
    from baco.api.programs import (
        Compiled,
        Run,
        compile,
        run,
    )
    from baco.api.result import (
        Result,
    )
    from baco.api.simulate import (
        evaluate,
        evaluate_tiles,
        simulate,
        trace,
    )
    from baco.api.sources import (
        accelerator,
        network,
        networks,
    )
    from baco.api.space import (
        Space,
    )
    from baco.api.study import (
        Study,
        explore,
        load_study,
    )
    from baco.common.errors import (
        BacoError,
        InfeasibleError,
        InputError,
        StorageError,
    )
    from baco.compiler.mapping.nest import (
        Mapping,
    )
    from baco.exploration.report.why import (
        Explanation,
    )
    from baco.exploration.samplers.sampler import (
        Answer,
        Asked,
        Sampler,
        SamplerProblem,
    )
    from baco.language import (
        Config,
        KernelError,
        advance,
        arange,
        autotune,
        broadcast_to,
        cast,
        cdiv,
        const,
        do_bench,
        dot,
        expand_dims,
        full,
        int8,
        int16,
        int32,
        jit,
        load,
        make_block_ptr,
        max,
        maximum,
        min,
        minimum,
        num_programs,
        program_id,
        requantise,
        requantize,
        softmax,
        static_range,
        store,
        sum,
        trans,
        uint8,
        use,
        where,
        zeros,
    )
    from baco.workloads.network import (
        Network,
    )

    __version__: str

#: Where each name is defined.
_HOMES = {
    "Accelerator": "baco.accel.config",
    "CostTree": "baco.api.cost",
    "compare": "baco.api.compare",
    "cost": "baco.api.cost",
    "explore": "baco.api.study",
    "expression": "baco.api.expressions",
    "verilog": "baco.api.hardware",
    "KernelVerdict": "baco.api.kernels",
    "conv": "baco.api.layers",
    "gemm": "baco.api.layers",
    "measure": "baco.api.measure",
    "validate": "baco.api.measure",
    "Compiled": "baco.api.programs",
    "Run": "baco.api.programs",
    "compile": "baco.api.programs",
    "run": "baco.api.programs",
    "Result": "baco.api.result",
    "Space": "baco.api.space",
    "Study": "baco.api.study",
    "load_study": "baco.api.study",
    "evaluate": "baco.api.simulate",
    "evaluate_tiles": "baco.api.simulate",
    "simulate": "baco.api.simulate",
    "trace": "baco.api.simulate",
    "accelerator": "baco.api.sources",
    "network": "baco.api.sources",
    "networks": "baco.api.sources",
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
__all__ = [
    "Accelerator",
    "Answer",
    "Asked",
    "BacoError",
    "Compiled",
    "Config",
    "CostTree",
    "Explanation",
    "InfeasibleError",
    "InputError",
    "KernelError",
    "KernelVerdict",
    "Mapping",
    "Network",
    "Result",
    "Run",
    "Sampler",
    "SamplerProblem",
    "Space",
    "StorageError",
    "Study",
    "__version__",
    "accelerator",
    "advance",
    "arange",
    "autotune",
    "broadcast_to",
    "cast",
    "cdiv",
    "compare",
    "compile",
    "const",
    "conv",
    "cost",
    "do_bench",
    "dot",
    "evaluate",
    "evaluate_tiles",
    "expand_dims",
    "explore",
    "expression",
    "full",
    "gemm",
    "int8",
    "int16",
    "int32",
    "jit",
    "load",
    "load_study",
    "make_block_ptr",
    "max",
    "maximum",
    "measure",
    "min",
    "minimum",
    "network",
    "networks",
    "num_programs",
    "program_id",
    "requantise",
    "requantize",
    "run",
    "simulate",
    "softmax",
    "static_range",
    "store",
    "sum",
    "trace",
    "trans",
    "uint8",
    "use",
    "validate",
    "verilog",
    "where",
    "zeros",
]


def __getattr__(name: str) -> object:
    """Loads a name when it is asked for."""
    import importlib

    if name == "__version__":
        from importlib import metadata

        value: object = metadata.version("baco")
    elif name in __all__:
        value = getattr(importlib.import_module(_HOMES.get(name, "baco.language")), name)
    else:
        raise AttributeError(f"module 'baco' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
