"""MAESTRO's networks: layers with the sizes of their padded inputs; dataflows are left out.

As in `baco.workloads.problem`, R slides along the width (P) and S along the height (Q); MAESTRO's R is the filter's height.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from baco.common.errors import InputError, Location
from baco.common.files import decode_text, read_input
from baco.common.numbers import whole_number
from baco.workloads.inputs.layers import TableLayer, network_of_layers, outputs_of_window
from baco.workloads.network import Network
from baco.workloads.options import LARGEST
from baco.workloads.problem import Problem
from baco.workloads.shapes import transposed_phases

_MOST_BYTES = 16 << 20
#: Of a transposed convolution: it has as many problems as its square.
_MOST_STRIDE = 32
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|[{}:,;]|[^\s{}:,;]+", re.DOTALL)


def load_maestro(path: str, rest: str | None = None) -> Network:
    """A network of MAESTRO: layers with `Type`, `Stride` and `Dimensions` (sizes of the padded input), dataflows left out.

    Raises InputError with the line of what is wrong.
    """
    text = decode_text(read_input(path, limit_bytes=_MOST_BYTES), path)
    tokens = [
        (match[0], text.count("\n", 0, match.start()) + 1)
        for match in _TOKEN.finditer(text)
        if not match[0].startswith(("//", "/*"))
    ]
    name, layers = "", []
    constants: dict[str, str] = {}
    position = 0
    while position < len(tokens):
        word, line = tokens[position]
        if word == "Network" and position + 1 < len(tokens):
            name = tokens[position + 1][0]
            position += 2
        elif word == "Layer" and position + 1 < len(tokens):
            end = _block_end(path, tokens, position)
            inner = [(constants.get(one, one), at) for one, at in tokens[position + 2 : end]]
            layers.append(_maestro_layer(path, tokens[position + 1][0], line, inner))
            position = end
        elif word == "Constant" and position + 2 < len(tokens):
            constants[tokens[position + 1][0]] = tokens[position + 2][0]
            position += 3
        else:
            position += 1
    if not name and not layers:
        raise InputError(
            "this is no network of MAESTRO: it names no Network and no Layer", location=Location(path)
        )
    return network_of_layers(path, rest, layers, name or None)


def _block_end(path: str, tokens: Sequence[tuple[str, int]], start: int) -> int:
    """Behind the brace that closes the block that begins after `start`."""
    depth = 0
    for place in range(start, len(tokens)):
        if tokens[place][0] == "{":
            depth += 1
        elif tokens[place][0] == "}":
            depth -= 1
            if depth == 0:
                return place + 1
    raise InputError("the block that begins here is not closed", location=Location(path, tokens[start][1]))


def _maestro_layer(path: str, name: str, line: int, tokens: Sequence[tuple[str, int]]) -> TableLayer:
    where = Location(path, line)
    words = [word for word, _ in tokens]
    kind = ""
    values: dict[str, dict[str, int]] = {"Stride": {}, "Dimensions": {}}
    for place, word in enumerate(words):
        if word == "Type" and words[place + 1 : place + 2] == [":"]:
            kind = words[place + 2].upper() if place + 2 < len(words) else ""
        if word in values:
            place += 1 + (words[place + 1 : place + 2] == [":"])
            inner = words[place + 1 : words.index("}", place)] if "}" in words[place:] else []
            for key, number in zip(inner, inner[2:], strict=False):
                if inner[inner.index(key) + 1 : inner.index(key) + 2] == [":"] and key.isalpha():
                    at = Location(path, tokens[place][1])
                    values[word][key.upper()] = whole_number(key, number, least=1, most=LARGEST, location=at)
    v, stride = values["Dimensions"], values["Stride"]
    if kind in ("GEMM", "FC") and "M" in v:
        wanted: Sequence[str] = ("M", "N", "K")
    else:
        wanted = ("C",) if kind == "DSCONV" else ("K", "C")
    missing = [key for key in wanted if key not in v]
    if missing:
        raise InputError(f"the layer '{name}' has no {' and '.join(missing)}", location=where)

    def problems() -> Problem | list[Problem]:
        if "M" in wanted:
            return Problem(P=v["M"], C=v["K"], K=v["N"])
        if kind == "TRCONV":
            return _transposed(v, stride)
        across, down = stride.get("X", 1), stride.get("Y", 1)
        bounds = {
            "R": v.get("S", 1),
            "S": v.get("R", 1),
            "P": outputs_of_window("width", v.get("X", v.get("S", 1)), v.get("S", 1), across),
            "Q": outputs_of_window("height", v.get("Y", v.get("R", 1)), v.get("R", 1), down),
            "N": v.get("N", 1),
            "stride_w": across,
            "stride_h": down,
        }
        if kind == "DSCONV":
            return Problem(**bounds, groups=v["C"])
        return Problem(**bounds, C=v["C"], K=v["K"], groups=v.get("G", 1))

    return TableLayer(name, where, problems)


def _transposed(v: Mapping[str, int], stride: Mapping[str, int]) -> Problem | list[Problem]:
    """A transposed convolution of an image of Y x X, without padding: of the filter's own stride unless one is given, so that its
    taps are outputs of their own; else one problem for each phase of the output."""
    taps, sizes = (v.get("R", 1), v.get("S", 1)), (v.get("Y", 1), v.get("X", 1))
    steps = (stride.get("Y", taps[0]), stride.get("X", taps[1]))
    common = {"C": v["C"], "N": v.get("N", 1)}
    if steps == taps:
        return Problem(P=sizes[1], Q=sizes[0], K=v["K"] * taps[0] * taps[1], **common)
    if max(steps) > _MOST_STRIDE:
        raise InputError(f"a stride of {max(steps)} is too large")
    down, across = (
        transposed_phases((size - 1) * step + tap, tap, step, 0)
        for size, step, tap in zip(sizes, steps, taps, strict=True)
    )
    return [
        Problem(R=x.taps, S=y.taps, P=x.outputs, Q=y.outputs, K=v["K"], **common)
        for y in down
        for x in across
    ]
