"""Schedules of groups as one line of text, and back: for plans.

chain 16x512 weights of a group copies 2,1,2
strips 4 from 1
strips 4 from 1 streaming 1,3
merged 4,6,48 holds rows
"""

from __future__ import annotations

import re
from typing import Literal

from baco.common.errors import InputError
from baco.compiler.styles.fused.chain import ChainSchedule
from baco.compiler.styles.fused.merged import MergedSchedule
from baco.compiler.styles.fused.strips import StripSchedule

_CHAIN = re.compile(
    r"chain ([1-9]\d{0,8})x([1-9]\d{0,8}) weights of a (group|tile) copies ([12]),([12]),([12])"
)
_STRIPS = re.compile(
    r"strips ([1-9]\d{0,8})(?: from ([1-9]\d{0,8}))?(?: streaming ([1-9]\d{0,3}(?:,[1-9]\d{0,3}){0,15}))?"
)
_MERGED = re.compile(r"merged ([1-9]\d{0,8}),([1-9]\d{0,8}),([1-9]\d{0,8}) holds (rows|columns)")


def parse_group_schedule(text: str) -> ChainSchedule | StripSchedule | MergedSchedule:
    """What `str` of a schedule is. Raises InputError."""
    if strips := _STRIPS.fullmatch(text):
        streamed = sorted({int(one) - 1 for one in (strips[3] or "").split(",") if one})
        return StripSchedule(int(strips[1]), int(strips[2] or 1), tuple(streamed))
    if merged := _MERGED.fullmatch(text):
        holds: Literal["rows", "columns"] = "rows" if merged[4] == "rows" else "columns"
        return MergedSchedule(int(merged[1]), int(merged[2]), int(merged[3]), holds)
    found = _CHAIN.fullmatch(text)
    if found is None:
        raise InputError(
            f"'{text}' is no schedule of a group",
            hint="write it like 'strips 4 from 1' or 'chain 16x512 weights of a group copies 2,1,2'",
        )
    weights: Literal["group", "tile"] = "group" if found[3] == "group" else "tile"
    return ChainSchedule(int(found[1]), int(found[2]), weights, (int(found[4]), int(found[5]), int(found[6])))
