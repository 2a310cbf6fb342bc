"""What `baco bench` and `baco model` offer: functions whose parameters, and what docstrings say of them, are the options.

A row is the module, its function, and the function there that makes text of what that returns ("" where that has a `text()`).
"""

from __future__ import annotations

__all__ = ["BENCH", "MODEL"]

BENCH = {
    "model": ("baco.bench.model", "bench_model", "values_text"),
    "paper": ("baco.bench.paper.run", "paper", "paper_text"),
    "search": ("baco.bench.search", "bench_search", ""),
    "executors": ("baco.bench.executors", "bench_executors", "executors_page"),
    "importance": ("baco.bench.importance", "bench_importance", ""),
    "optimality": ("baco.bench.optimality", "bench_optimality", "optimality_text"),
    "rtl": ("baco.bench.rtl.rtl", "bench_rtl", "report_text"),
    "compiler": ("baco.bench.compiler", "bench_compiler", "report_text"),
    "programs": ("baco.bench.whole_programs", "whole_programs", "whole_programs_table"),
    "fusion": ("baco.bench.fusion", "fusion", "fusion_table"),
    "chains": ("baco.bench.chains", "chains", "chains_page"),
    "kernels": ("baco.bench.attention", "all_kernels", "all_kernels_page"),
    "pipelining": ("baco.bench.pipelining", "bench_pipelining", "pipelining_page"),
    "intrinsics": ("baco.bench.intrinsics.run", "bench_intrinsics", "intrinsics_page"),
    "trees": ("baco.bench.trees", "trees", "trees_page"),
    "sketches": ("baco.bench.programs.sketches", "bench_sketches", "sketches_page"),
    "defaults": ("baco.bench.programs.defaults", "bench_defaults", "defaults_page"),
    "directions": ("baco.bench.directions", "bench_directions", "directions_page"),
    "guided": ("baco.bench.learned.guided", "run", "page"),
    "measurements": ("baco.bench.sets.collect", "collect", "values_text"),
    "timing": ("baco.bench.fit.original", "judged_timing", ""),
    "latency": ("baco.bench.latency", "bench_latency", "report_text"),
    "loop": ("baco.bench.measured", "bench_loop", "report_text"),
}
MODEL = {
    "train": ("baco.bench.learned.residuals", "train", ""),
    "evaluate": ("baco.bench.learned.residuals", "evaluate", ""),
    "compare": ("baco.bench.learned.residuals", "compare", "comparison_text"),
    "transfer": ("baco.bench.learned.residuals", "transfer", ""),
}
