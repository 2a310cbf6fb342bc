"""Reports: what a study found, as files that people and programs can read."""

from baco.exploration.report.data import Baseline, CostBound, ReportData, SearchRecord
from baco.exploration.report.write import write_report

__all__ = ["Baseline", "CostBound", "ReportData", "SearchRecord", "write_report"]
