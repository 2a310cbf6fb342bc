"""What `baco bench` and `baco model` offer: functions whose parameters, and what docstrings say of them, are the options.

A row is the module, its function, and the function there that makes text of what that returns ("" where that has a `text()`).
"""

from __future__ import annotations

#: Modules of `baco.bench` with an experiment (`baco.bench.harness.experiment`), by command.
_EXPERIMENTS = {
    "model": "model",
    "paper": "paper.run",
    "search": "search",
    "executors": "executors",
    "importance": "importance",
    "optimality": "optimality",
    "rtl": "rtl.rtl",
    "compiler": "compiler",
    "programs": "whole_programs",
    "stock": "stock",
    "fusion": "fusion",
    "chains": "chains",
    "kernels": "kernels",
    "pipelining": "pipelining",
    "intrinsics": "intrinsics.run",
    "trees": "trees",
    "sketches": "programs.sketches",
    "defaults": "programs.defaults",
    "directions": "directions",
    "guided": "learned.guided",
    "measurements": "sets.collect",
    "timing": "fit.original",
    "choice": "choice_gaps",
    "latency": "latency",
    "loop": "loop",
    "quantised": "quantised_models",
    "formats": "formats",
    "technologies": "technologies",
    "pipelines": "pipelines.run",
    "port": "port",
    "systems": "systems",
    "plans": "system_plans",
    "soc": "rtl.soc",
}
BENCH = {name: (f"baco.bench.{module}", "run", "page") for name, module in _EXPERIMENTS.items()}
MODEL = {
    "train": ("baco.bench.learned.residuals", "train", ""),
    "evaluate": ("baco.bench.learned.residuals", "evaluate", ""),
    "compare": ("baco.bench.learned.residuals", "compare", "comparison_text"),
    "transfer": ("baco.bench.learned.residuals", "transfer", "transferred_text"),
}
