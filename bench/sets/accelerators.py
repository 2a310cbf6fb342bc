"""The accelerators of the measured sets (`accelerators.yaml`): small to large, with narrow and wide ports, slow and fast memory.

No configuration is in two sets. Of `micro` there is one a side, and at side 16 others that differ in one thing each; groups share a
pass (`packed`) only where weights stay.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import yaml

from baco.accel.config import Accelerator

#: Sets of measurements: to fit physical constants, to train what learns, to test; to fit and to test with several groups
#: at once; many schedules of one layer on one accelerator, to learn which of them is faster.
SetName = Literal["micro", "train", "test", "packed", "packed-test", "ranking"]
SETS: tuple[SetName, ...] = ("micro", "train", "test", "packed", "packed-test", "ranking")


@cache
def accelerators_of(name: SetName) -> dict[str, Accelerator]:
    """The accelerators of a set by name."""
    text = resources.files(__package__).joinpath("accelerators.yaml").read_text(encoding="utf-8")
    return {label: Accelerator(name=label, **values) for label, values in yaml.safe_load(text)[name].items()}
