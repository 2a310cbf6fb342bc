"""Reports: what a study found, as files that people and programs can read.

What reports are made of loads the compiler and the cost models; the page of a search that has just begun does not wait for
these, so names are loaded when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baco.exploration.report.data import Baseline, CostBound, ReportData, SearchRecord
    from baco.exploration.report.write import write_report

__all__ = ["Baseline", "CostBound", "ReportData", "SearchRecord", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "write" if name == "write_report" else "data"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
