"""ZigZag's and Stream's workloads: layers as equations over loops, in YAML or as a dictionary of Python, which is read and never run."""

from __future__ import annotations

import ast
import re

from baco.common.document import YamlDoc
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import read_input_text
from baco.workloads.inputs.layers import TableLayer, layer_integer, network_of_layers
from baco.workloads.network import Network
from baco.workloads.problem import Problem


def is_zigzag(doc: YamlDoc) -> bool:
    """Whether a YAML document is a workload."""
    return bool(
        isinstance(doc.data, list)
        and doc.data
        and isinstance(doc.data[0], dict)
        and "equation" in doc.data[0]
    )


def load_zigzag(path: str, doc: YamlDoc, rest: str | None) -> Network:
    """All layers of a workload. Raises InputError with line and column of what is wrong."""
    layers = [_layer(layer, doc.location((index,))) for index, layer in enumerate(doc.data)]
    return network_of_layers(path, rest, layers)


def load_zigzag_python(path: str, rest: str | None) -> Network | None:
    """The same of `workload = {0: {...}, 1: {...}}`; None for other Python. `rest`: the name of the variable, or of the network.

    Raises InputError with the line of what is wrong.
    """
    text = read_input_text(path)
    if "loop_dim_size" not in text and "equation" not in text:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # whoever runs it says what is wrong
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if not names or (rest is not None and rest not in names):
            continue
        layers = _python_layers(path, node.value)
        if layers:
            return network_of_layers(path, None, layers)
    return None


def _python_layers(path: str, table: ast.Dict) -> list[TableLayer]:
    """Layers of a dictionary by number; none where it is another one."""
    layers = []
    for key, value in zip(table.keys, table.values, strict=True):
        where = Location(path, value.lineno, value.col_offset + 1)
        if not isinstance(value, ast.Dict):
            return []
        texts = [one.value for one in value.keys if isinstance(one, ast.Constant)]
        if "equation" not in texts:
            return []
        try:
            number, layer = ast.literal_eval(key) if key is not None else "", ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            raise InputError(
                "a layer must hold plain numbers and texts: nothing in it is run", location=where
            ) from None
        if str(layer["equation"]).strip() == "input":
            continue
        layers.append(_layer(layer, where, f"layer{number}"))
    return layers


_RELATION = re.compile(
    r"(?P<input>i[xy])=(?:(?P<stride>\d+)\*)?(?P<out>o[xy])\+(?:(?P<dilation>\d+)\*)?f[xy]"
)
_ZIGZAG = {"B": "N", "K": "K", "C": "C", "OY": "Q", "OX": "P", "FY": "S", "FX": "R", "G": "groups"}


def _layer(layer: object, where: Location, name: str = "") -> TableLayer:
    if not isinstance(layer, dict):
        raise InputError("a layer must be a mapping of keys to values", location=where)
    name = str(layer.get("name", "") or name)
    equation = str(layer.get("equation", ""))
    if not _is_product(equation):
        kind = str(layer.get("operator_type") or layer.get("type") or "Elementwise")
        return TableLayer(name, where, list, skipped=kind)
    sizes = layer.get("loop_dim_size")
    if isinstance(layer.get("loop_dims"), list) and isinstance(layer.get("loop_sizes"), list):
        if len(layer["loop_dims"]) != len(layer["loop_sizes"]):
            raise InputError("loop_dims and loop_sizes differ in length", location=where)
        sizes = dict(zip(map(str, layer["loop_dims"]), layer["loop_sizes"], strict=True))
    if not isinstance(sizes, dict):
        raise InputError("a layer needs loop_dims and loop_sizes", location=where)
    numbers: dict[str, int] = {}
    letters = _letters(equation, {str(key).upper() for key in sizes})
    for key, value in sizes.items():
        own = letters.get(str(key).upper())
        if own is None:
            raise InputError(
                f"unknown dimension '{key}'",
                location=where,
                hint=did_you_mean(str(key), [*_ZIGZAG]),
            )
        numbers[own] = numbers.get(own, 1) * layer_integer(value, where)
    for relation in layer.get("dimension_relations") or layer.get("equation_relations") or []:
        found = _RELATION.fullmatch(str(relation).replace(" ", ""))
        if found is None:
            raise InputError(f"'{str(relation)[:40]}' is no relation of windows", location=where)
        side = "w" if found["input"] == "ix" else "h"
        numbers[f"stride_{side}"] = int(found["stride"] or 1)
        numbers[f"dilation_{side}"] = int(found["dilation"] or 1)
    return TableLayer(name, where, lambda: Problem(**numbers))


def _is_product(equation: str) -> bool:
    """Whether an equation multiplies an input by weights of its channels, or another: poolings weigh their windows alone, and
    additions nothing."""
    found = re.findall(r"([A-Za-z]\w*)((?:\[\w+\])+)", equation)
    if len(found) != 3 or "*" not in equation:
        return False
    windows = {"fx", "fy"}
    return all(set(re.findall(r"\w+", indices.lower())) - windows for _, indices in found[1:])


def _letters(equation: str, dims: set[str]) -> dict[str, str]:
    """Dimension of a layer -> bound. Products with other letters are told from where these stand in the equation."""
    if dims <= _ZIGZAG.keys():
        return _ZIGZAG
    found = re.findall(r"([A-Za-z])((?:\[\w+\])+)", equation)
    if len(found) != 3:
        return _ZIGZAG
    output, left, right = ({letter.upper() for letter in re.findall(r"\w+", indices)} for _, indices in found)
    letters = {}
    for dim in dims:
        if dim not in output | left | right:
            continue
        if dim not in output:
            letters[dim] = "C"
        elif dim in left and dim in right:
            letters[dim] = "groups"
        else:
            letters[dim] = "P" if dim in left else "K"
    return letters
