"""Published figures that ours stand beside (`published.yaml`)."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

_TABLES: dict[str, Any] = yaml.safe_load(
    resources.files(__package__).joinpath("published.yaml").read_text(encoding="utf-8")
)
OPERATOR_RATIOS: dict[str, dict[str, float]] = _TABLES["operators"]
NETWORK_LARGEST: dict[str, float] = _TABLES["largest"]
ABLATION: dict[str, float] = _TABLES["ablation"]
ACCURACY: dict[str, float] = _TABLES["accuracy"]
