"""Layer tables as published tools have them: SCALE-Sim topologies and Timeloop problems.

Heights and widths of outputs, where a format has those of inputs, are reckoned: floor((input - kernel) / stride) + 1.
As in `baco.workloads.problem`, R slides along the width (P) and S along the height (Q).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from baco.common.document import YamlDoc
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import whole_number
from baco.common.table import TableRow, read_rows
from baco.workloads.inputs.layers import TableLayer, layer_integer, network_of_layers, outputs_of_window
from baco.workloads.network import Network
from baco.workloads.options import LARGEST
from baco.workloads.problem import Problem

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
    "strideh": "stride_h",
    "stridew": "stride_w",
    "batchsize": "n",
    "batch": "n",
}
_PRODUCT = {"m": "m", "n": "n", "k": "k"}
_NAMES = frozenset(("layer", "layername", "layers", "name"))
#: Columns that say nothing of a layer's size.
_IGNORED = frozenset(
    (
        *("sparsitysupport", "nmsparsity", "sparsityratio", "sparsity", "type", "layertype", "maccycles"),
        *("ifmapoffset", "filteroffset", "ofmapoffset"),
    )
)


def _key(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def is_published_csv(text: str) -> bool:
    """Whether a CSV text begins as one of SCALE-Sim's topologies does."""
    first = next((line for line in text.splitlines() if line.strip(" \t,")), "")
    keys = [_key(field) for field in first.split(",")]
    if "ifmapheight" in keys:
        return True
    if "type" in keys or "network" in keys:
        return False
    return keys[0] in _NAMES - {"name"} and {"m", "n", "k"} <= set(keys)


def load_published_csv(path: str, text: str, rest: str | None) -> Network:
    """SCALE-Sim's topology of convolutions (sizes of the padded input) or of products (M x K times K x N).

    Raises InputError with line and column of what is wrong.
    """
    layers: list[TableLayer] = []
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
        layers.append(TableLayer(name, Location(path, row.line), partial(make, values)))
    return network_of_layers(path, rest, layers)


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
        P=outputs_of_window("width", v["width"], v["r"], stride_w),
        Q=outputs_of_window("height", v["height"], v["s"], stride_h),
        C=v["c"],
        K=v["k"],
        N=v.get("n", 1),
        stride_w=stride_w,
        stride_h=stride_h,
    )


def _scale_sim_product(v: Mapping[str, int]) -> Problem:
    return Problem(P=v["m"], C=v["k"], K=v["n"])


# Timeloop (CoSA, DOSA)

_TIMELOOP = {
    **{name: name for name in ("R", "S", "P", "Q", "C", "K", "N")},
    "Wstride": "stride_w",
    "Hstride": "stride_h",
    "Wdilation": "dilation_w",
    "Hdilation": "dilation_h",
    "G": "groups",
}


def is_timeloop(doc: YamlDoc) -> bool:
    """Whether a YAML document is one of Timeloop's problems."""
    return isinstance(doc.data, dict) and "problem" in doc.data


def load_timeloop(path: str, doc: YamlDoc, rest: str | None) -> Network:
    """One layer as Timeloop has it. Raises InputError with line and column of what is wrong."""
    return network_of_layers(path, rest, [_timeloop(doc)])


def _timeloop(doc: YamlDoc) -> TableLayer:
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
        numbers[known[key]] = layer_integer(value, doc.location((*at, key)))
    if "depthwise" in name.lower() or (not product and "K" not in given and "C" in given):
        numbers["groups"] = numbers.pop("C", 1)
    elif not product and not {"C", "K"} <= given.keys():
        raise InputError("a layer needs at least C and K, or M, K and N", location=doc.location(at))
    return TableLayer("", doc.location(at), lambda: Problem(**numbers))
