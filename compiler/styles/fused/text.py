"""Chains of products and their schedules as one line of text, and back: for plans.

P512 C64 K512 groups 12 scale 0.7390851 transposed > softmax > P512 C512 K64 groups 12 scale 0.7390851
chain 16x512 weights of a group copies 2,1,2
"""

from __future__ import annotations

import re
from typing import Literal

from common.errors import InputError
from compiler.schedules.text import layer_text, parse_layer
from compiler.styles.fused.chain import ChainSchedule, ProductChain

__all__ = ["chain_text", "parse_chain", "parse_chain_schedule"]

_SCHEDULE = re.compile(
    r"chain ([1-9]\d{0,8})x([1-9]\d{0,8}) weights of a (group|tile) copies ([12]),([12]),([12])"
)
_SOFTMAX = re.compile(r"softmax(?: causal (\d{1,9}))?")


def chain_text(chain: ProductChain) -> str:
    """A chain as one line."""
    between = [f"softmax causal {chain.causal}" if chain.causal is not None else "softmax"] * chain.softmax
    return " > ".join([layer_text(chain.first), *between, layer_text(chain.second)])


def parse_chain(text: str) -> ProductChain:
    """What `chain_text` wrote. Raises InputError."""
    first, *between, second = text.split(" > ") if " > " in text else [text, "", text]
    softmax = _SOFTMAX.fullmatch(between[0]) if len(between) == 1 else None
    if " > " not in text or len(between) > 1 or (between and softmax is None):
        raise InputError(
            f"'{text}' is no chain",
            hint="write it like 'P128 C64 K128 scale 0.5 > softmax > P128 C128 K64 scale 0.5'",
        )
    causal = int(softmax[1]) if softmax is not None and softmax[1] is not None else None
    return ProductChain(parse_layer(first), parse_layer(second), softmax is not None, causal)


def parse_chain_schedule(text: str) -> ChainSchedule:
    """What `str` of a schedule is. Raises InputError."""
    found = _SCHEDULE.fullmatch(text)
    if found is None:
        raise InputError(
            f"'{text}' is no schedule of a chain",
            hint="write it like 'chain 16x512 weights of a group copies 2,1,2'",
        )
    weights: Literal["group", "tile"] = "group" if found[3] == "group" else "tile"
    return ChainSchedule(
        int(found[1]),
        int(found[2]),
        weights,
        (int(found[4]), int(found[5]), int(found[6])),  # type: ignore[arg-type]
    )
