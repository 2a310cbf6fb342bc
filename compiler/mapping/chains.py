"""Chains of operators by name and sizes, as the command line writes them."""

from __future__ import annotations

from collections.abc import Mapping

from baco.common.errors import InputError, Location, did_you_mean
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.dataflows import attention, convolutions
from baco.workloads.problem import Problem

#: Sizes of each kind of chain, and what they are unless given; None: they must be.
_SIZES: dict[str, dict[str, int | None]] = {
    "attention": {"heads": 1, "seq": None, "dim": None, "keys": 0},
    "convolutions": {
        "channels": None, "height": None, "width": None, "first": None, "second": None, "stride1": 1, "stride2": 1,
        "window1": 3, "window2": 3,
    },
}  # fmt: skip


def parse_chain(text: str) -> list[Contraction]:
    """The operators of `attention:heads=12,seq=512,dim=64` or
    `convolutions:channels=64,height=56,width=56,first=64,second=64,window1=1,window2=3`.

    Attention has `keys` (those of `seq` by default) to look at; convolutions have channels of the image and results of the
    first and of the second, square windows and as much padding as keeps an image of stride 1 as large as it is. Raises
    InputError for anything else.
    """
    kind, sizes = chain_sizes(text)
    if kind == "attention":
        return attention(sizes["heads"], sizes["seq"], sizes["dim"], sizes["keys"] or None)
    return _convolutions(sizes)


def chain_sizes(text: str) -> tuple[str, dict[str, int]]:
    """Kind and sizes of a chain. Raises as `parse_chain`."""
    kind, _, rest = text.partition(":")
    if kind not in _SIZES:
        raise InputError(
            f"there is no chain '{kind}'", location=Location("--chain"), hint=did_you_mean(kind, _SIZES)
        )
    sizes = dict(_SIZES[kind])
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in sizes:
            raise InputError(
                f"{kind} has no size '{name}'", location=Location("--chain"), hint=did_you_mean(name, sizes)
            )
        if not value.isdecimal() or not 1 <= int(value) <= 1 << 20:
            raise InputError(
                f"{name} is a whole number from 1 to {1 << 20}, not '{value}'", location=Location("--chain")
            )
        sizes[name] = int(value)
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise InputError(
            f"{kind} needs {', '.join(missing)}",
            location=Location("--chain"),
            hint=f"write it like {kind}:" + ",".join(f"{name}=8" for name in missing),
        )
    return kind, {name: value for name, value in sizes.items() if value is not None}


def _convolutions(sizes: Mapping[str, int]) -> list[Contraction]:
    q, p = (-(-sizes[name] // sizes["stride1"]) for name in ("height", "width"))
    window = sizes["window2"]
    rows, columns = -(-q // sizes["stride2"]), -(-p // sizes["stride2"])
    # the first one makes whatever windows of the second one cover, its padding included
    made = [(one - 1) * sizes["stride2"] + window for one in (rows, columns)]
    first = Problem(
        R=sizes["window1"], S=sizes["window1"], P=made[1], Q=made[0], C=sizes["channels"], K=sizes["first"],
        stride_w=sizes["stride1"], stride_h=sizes["stride1"],
    )  # fmt: skip
    second = Problem(
        R=window, S=window, P=columns, Q=rows, C=sizes["first"], K=sizes["second"],
        stride_w=sizes["stride2"], stride_h=sizes["stride2"],
    )  # fmt: skip
    return convolutions(first, second)
