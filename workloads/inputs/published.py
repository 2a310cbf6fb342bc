"""Layer tables as published tools have them: SCALE-Sim topologies, Timeloop problems, ZigZag workloads, MAESTRO networks.

Heights and widths of outputs, where a format has those of inputs, are reckoned: floor((input - kernel) / stride) + 1.
As in `baco.workloads.problem`, R slides along the width (P) and S along the height (Q).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from baco.common.document import YamlDoc
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import decode_text, read_input
from baco.common.numbers import whole_number
from baco.common.table import TableRow, read_rows
from baco.common.text import file_label, name_problem
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from baco.workloads.options import LARGEST
from baco.workloads.problem import Problem
from baco.workloads.shapes import window_count

__all__ = [
    "is_published_csv",
    "is_published_yaml",
    "load_maestro",
    "load_published_csv",
    "load_published_yaml",
]

_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class _Layer:
    """One layer: its problem is made when its place is known, so that errors name it."""

    name: str
    where: Location
    problem: Callable[[], Problem]


def _network(path: str, rest: str | None, layers: Sequence[_Layer], name: str | None = None) -> Network:
    label = name or file_label(path)
    if rest not in (None, label):
        raise InputError(
            f"no network '{rest}' in this table: it holds '{label}' alone", location=Location(path)
        )
    if not layers:
        raise InputError("the table holds no layer", location=Location(path))
    builder = GraphBuilder(label, source=path)
    used: set[str] = set()
    for index, layer in enumerate(layers):
        problem = name_problem(layer.name) if layer.name else None
        if problem:
            raise InputError(f"the layer's name {problem}", location=layer.where)
        own = layer.name or f"layer{index}"
        unique, number = own, 1
        while unique in used:
            number += 1
            unique = f"{own}~{number}"
        used.add(unique)
        try:
            builder.layer(layer.problem(), unique)
        except InputError as error:
            raise InputError(error.message, location=layer.where, hint=error.hint) from None
    return builder.build()


def _outputs(what: str, size: int, kernel: int, stride: int) -> int:
    count = window_count(size, kernel, stride, (0, 0))
    if count < 1:
        raise InputError(f"a filter of {kernel} does not fit into an input {what} of {size}")
    return count


# SCALE-Sim

_TRAILING = re.compile(r"[ \t]*,[ \t,]*(?=\r?$)", re.MULTILINE)
#: Column of SCALE-Sim's tables -> key.
_CONVOLUTION = {
    "ifmapheight": "height",
    "ifmapwidth": "width",
    "filterheight": "s",
    "filterwidth": "r",
    "channels": "c",
    "numfilter": "k",
    "numfilters": "k",
    "strides": "stride",
    "stride": "stride",
    "strideheight": "stride_h",
    "stridewidth": "stride_w",
    "stridesheight": "stride_h",
    "strideswidth": "stride_w",
}
_PRODUCT = {"m": "m", "n": "n", "k": "k"}
_NAMES = frozenset(("layer", "layername", "layers", "name"))
#: Columns that say nothing of a layer's size.
_IGNORED = frozenset(("sparsitysupport", "nmsparsity", "sparsityratio"))


def _key(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def is_published_csv(text: str) -> bool:
    """Whether a CSV text begins as one of SCALE-Sim's topologies does."""
    first = next((line for line in text.splitlines() if line.strip(" \t,")), "")
    keys = [_key(field) for field in first.split(",")]
    if "type" in keys or "network" in keys:
        return False
    return "ifmapheight" in keys or (keys[0] in _NAMES - {"name"} and {"m", "n", "k"} <= set(keys))


def load_published_csv(path: str, text: str, rest: str | None) -> Network:
    """SCALE-Sim's topology of convolutions (sizes of the padded input) or of products (M x K times K x N).

    Raises InputError with line and column of what is wrong.
    """
    layers: list[_Layer] = []
    header: list[str] = []
    for row in read_rows(_TRAILING.sub("", text), path):
        if not header:
            header = [_key(field) for field in row.fields]
            _check_header(path, row, header)
            continue
        values: dict[str, int] = {}
        name = ""
        for place, (key, field) in enumerate(zip(header, row.fields, strict=True)):
            where = Location(path, row.line, row.column(place))
            if key in _NAMES:
                name = field.strip()
                continue
            if key in _IGNORED:
                continue
            own = _CONVOLUTION.get(key) or _PRODUCT[key]
            values[own] = whole_number(key, field.strip(), least=1, most=LARGEST, location=where)
        make = _scale_sim_convolution if "height" in values else _scale_sim_product
        layers.append(_Layer(name, Location(path, row.line), lambda make=make, values=values: make(values)))  # type: ignore[misc]
    return _network(path, rest, layers)


def _check_header(path: str, row: TableRow, header: Sequence[str]) -> None:
    kinds = _CONVOLUTION if "ifmapheight" in header else _PRODUCT
    for place, key in enumerate(header):
        if key not in kinds and key not in _NAMES and key not in _IGNORED:
            raise InputError(
                f"unknown column '{row.fields[place].strip()[:60]}'",
                location=Location(path, row.line, row.column(place)),
                hint=did_you_mean(key, [*kinds, "layer"]),
            )
    found = {kinds.get(key) for key in header}
    wanted = {"height", "width", "s", "r", "c", "k"} if kinds is _CONVOLUTION else {"m", "n", "k"}
    missing = [next(name for name, key in kinds.items() if key == one) for one in sorted(wanted - found)]
    if missing:
        raise InputError(f"missing column {', '.join(missing)}", location=Location(path, row.line))


def _scale_sim_convolution(v: Mapping[str, int]) -> Problem:
    stride_h = v.get("stride_h", v.get("stride", 1))
    stride_w = v.get("stride_w", v.get("stride", stride_h))
    return Problem(
        R=v["r"],
        S=v["s"],
        P=_outputs("width", v["width"], v["r"], stride_w),
        Q=_outputs("height", v["height"], v["s"], stride_h),
        C=v["c"],
        K=v["k"],
        stride_w=stride_w,
        stride_h=stride_h,
    )


def _scale_sim_product(v: Mapping[str, int]) -> Problem:
    return Problem(P=v["m"], C=v["k"], K=v["n"])


# Timeloop (CoSA, DOSA) and ZigZag

_TIMELOOP = {
    **{name: name for name in ("R", "S", "P", "Q", "C", "K", "N")},
    "Wstride": "stride_w",
    "Hstride": "stride_h",
    "Wdilation": "dilation_w",
    "Hdilation": "dilation_h",
    "G": "groups",
}


def is_published_yaml(doc: YamlDoc) -> bool:
    """Whether a YAML document is one of Timeloop's problems or a workload of ZigZag."""
    if isinstance(doc.data, dict):
        return "problem" in doc.data
    return bool(
        isinstance(doc.data, list)
        and doc.data
        and isinstance(doc.data[0], dict)
        and "equation" in doc.data[0]
    )


def load_published_yaml(path: str, doc: YamlDoc, rest: str | None) -> Network:
    """One layer as Timeloop has it, or all of a ZigZag workload.

    Raises InputError with line and column of what is wrong.
    """
    if isinstance(doc.data, dict):
        return _network(path, rest, [_timeloop(doc)])
    return _network(path, rest, [_zigzag(doc, index) for index in range(len(doc.data))])


def _integer(doc: YamlDoc, at: tuple[str | int, ...], value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(
            f"must be a whole number from 1 to {LARGEST}, not {str(value)[:40]}", location=doc.location(at)
        )
    return value


def _timeloop(doc: YamlDoc) -> _Layer:
    problem = doc.data["problem"]
    if not isinstance(problem, dict):
        raise InputError("must be a mapping of keys to values", location=doc.location(("problem",)))
    at: tuple[str | int, ...] = (
        ("problem", "instance") if isinstance(problem.get("instance"), dict) else ("problem",)
    )
    given = problem["instance"] if len(at) == 2 else problem
    shape = problem.get("shape", "")
    name = str(shape.get("name", "") if isinstance(shape, dict) else shape)
    numbers: dict[str, int] = {}
    others = {"shape", "name", "version", "densities", "data-spaces", "instance"}
    product = "M" in given
    known = {"M": "P", "K": "C", "N": "K", "B": "groups", "H": "groups"} if product else _TIMELOOP
    for key, value in given.items():
        if key in others:
            continue
        if key not in known:
            raise InputError(
                f"unknown dimension '{key}'",
                location=doc.location((*at, key), key=True),
                hint=did_you_mean(key, [*known]),
            )
        numbers[known[key]] = _integer(doc, (*at, key), value)
    if "depthwise" in name.lower() or (not product and "K" not in given and "C" in given):
        numbers["groups"] = numbers.pop("C", 1)
    elif not product and not {"C", "K"} <= given.keys():
        raise InputError("a layer needs at least C and K, or M, K and N", location=doc.location(at))
    return _Layer("", doc.location(at), lambda: Problem(**numbers))


_RELATION = re.compile(
    r"(?P<input>i[xy])=(?:(?P<stride>\d+)\*)?(?P<out>o[xy])\+(?:(?P<dilation>\d+)\*)?f[xy]"
)
_ZIGZAG = {"B": "N", "K": "K", "C": "C", "OY": "Q", "OX": "P", "FY": "S", "FX": "R", "G": "groups"}


def _zigzag(doc: YamlDoc, index: int) -> _Layer:
    at = (index,)
    layer = doc.data[index]
    if not isinstance(layer, dict):
        raise InputError("a layer must be a mapping of keys to values", location=doc.location(at))
    sizes = layer.get("loop_dim_size")
    if isinstance(layer.get("loop_dims"), list) and isinstance(layer.get("loop_sizes"), list):
        if len(layer["loop_dims"]) != len(layer["loop_sizes"]):
            raise InputError("loop_dims and loop_sizes differ in length", location=doc.location(at))
        sizes = dict(zip(map(str, layer["loop_dims"]), layer["loop_sizes"], strict=True))
    if not isinstance(sizes, dict):
        raise InputError("a layer needs loop_dims and loop_sizes", location=doc.location(at))
    numbers: dict[str, int] = {}
    letters = _letters(str(layer.get("equation", "")), {str(key).upper() for key in sizes})
    for key, value in sizes.items():
        own = letters.get(str(key).upper())
        if own is None:
            raise InputError(
                f"unknown dimension '{key}'",
                location=doc.location(at),
                hint=did_you_mean(str(key), [*_ZIGZAG]),
            )
        numbers[own] = numbers.get(own, 1) * _integer(doc, at, value)
    for relation in layer.get("dimension_relations") or []:
        found = _RELATION.fullmatch(str(relation).replace(" ", ""))
        if found is None:
            raise InputError(f"'{str(relation)[:40]}' is no relation of windows", location=doc.location(at))
        side = "w" if found["input"] == "ix" else "h"
        numbers[f"stride_{side}"] = int(found["stride"] or 1)
        numbers[f"dilation_{side}"] = int(found["dilation"] or 1)
    return _Layer(str(layer.get("name", "") or ""), doc.location(at), lambda: Problem(**numbers))


def _letters(equation: str, dims: set[str]) -> dict[str, str]:
    """Dimension of a layer -> bound. Products with other letters are told from where these stand in the equation."""
    if dims <= _ZIGZAG.keys():
        return _ZIGZAG
    found = re.findall(r"([A-Za-z])((?:\[\w+\])+)", equation)
    if len(found) != 3:
        return _ZIGZAG
    output, left, right = ({one.upper() for one in re.findall(r"\w+", indices)} for _, indices in found)
    letters = {}
    for one in dims:
        if one not in output:
            letters[one] = "C"
        elif one in left and one in right:
            letters[one] = "groups"
        else:
            letters[one] = "P" if one in left else "K"
    return letters


# MAESTRO

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
    place = 0
    while place < len(tokens):
        word, line = tokens[place]
        if word == "Network" and place + 1 < len(tokens):
            name = tokens[place + 1][0]
            place += 2
        elif word == "Layer" and place + 1 < len(tokens):
            end = _block_end(path, tokens, place)
            layers.append(_maestro_layer(path, tokens[place + 1][0], line, tokens[place + 2 : end]))
            place = end
        else:
            place += 1
    if not name and not layers:
        raise InputError(
            "this is no network of MAESTRO: it names no Network and no Layer", location=Location(path)
        )
    return _network(path, rest, layers, name or None)


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


def _maestro_layer(path: str, name: str, line: int, tokens: Sequence[tuple[str, int]]) -> _Layer:
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

    def problem() -> Problem:
        if "M" in wanted:
            return Problem(P=v["M"], C=v["K"], K=v["N"])
        if kind == "TRCONV":
            raise InputError(
                "transposed convolutions have no loops of their own here", hint="write their phases as CONV"
            )
        across, down = stride.get("X", 1), stride.get("Y", 1)
        bounds = {
            "R": v.get("S", 1),
            "S": v.get("R", 1),
            "P": _outputs("width", v.get("X", v.get("S", 1)), v.get("S", 1), across),
            "Q": _outputs("height", v.get("Y", v.get("R", 1)), v.get("R", 1), down),
            "N": v.get("N", 1),
            "stride_w": across,
            "stride_h": down,
        }
        if kind == "DSCONV":
            return Problem(**bounds, groups=v["C"])
        return Problem(**bounds, C=v["C"], K=v["K"], groups=v.get("G", 1))

    return _Layer(name, where, problem)
