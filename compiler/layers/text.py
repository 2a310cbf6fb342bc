"""Layers as one line of text, and back: for keys, tables and data sets.

R3 S3 P56 Q56 C64 K64 stride 2x2 image 112x112 padding 1x1 bias relu scale 0.001953125
"""

from __future__ import annotations

from baco.accel.input_format import INPUT_FORMATS
from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.layers.weight_blocks import WeightBlocks
from baco.workloads.problem import DIMS, Problem

#: Tensors whose layout a text may name.
_LAYOUTS = ("input", "weight", "output")


def layer_text(layer: Layer) -> str:
    """A layer as one line; layouts of tensors that are not dense at the end."""
    p = layer.problem
    plain = Layer(p, layer.image, layer.padding, weights_transposed=layer.weights_transposed)
    words = [f"{name}{bound}" for name, bound in zip(DIMS, p.bounds, strict=True) if bound > 1] or ["P1"]
    for name, pair in (
        ("stride", (p.stride_h, p.stride_w)),
        ("dilation", (p.dilation_h, p.dilation_w)),
    ):
        if pair != (1, 1):
            words += [name, _pair(pair)]
    if p.groups > 1:
        words += ["groups", str(p.groups)]
    if layer.image != Layer(p, padding=layer.padding).image:
        words += ["image", _pair(layer.size)]
    if layer.padding != (0, 0):
        words += ["padding", _pair(layer.padding)]
    words += ["bias"] * layer.bias
    if layer.residual_scale is not None:
        words += ["residual", repr(layer.residual_scale)]
    words += ["relu"] * layer.relu
    words += ["raw"] if layer.scale is None else ["scale", repr(layer.scale)]
    if (pool := layer.pooling) is not None:
        words += ["pool", f"{pool.size},{pool.stride},{pool.padding},{pool.rows},{pool.columns}"]
    words += ["transposed"] * layer.weights_transposed
    words += ["int4"] * (layer.weight_bits == 4)
    words += [layer.elements] if layer.elements != "integer" else []
    if layer.weight_blocks is not None:
        words += ["blocks", f"{layer.weight_blocks.form},{layer.weight_blocks.columns}"]
    for name in _LAYOUTS:
        layout: Layout = getattr(layer, name)
        if layout != getattr(plain, name):
            words += [name, f"{layout.pitch},{layout.group}"]
    return " ".join(words)


def parse_layer(text: str) -> Layer:
    """What `layer_text` wrote. Raises InputError."""
    try:
        return _parse_layer(text.split())
    except (ValueError, KeyError, StopIteration) as error:
        raise InputError(
            f"'{text}' is no layer", hint="write it like 'P128 C64 K64 bias scale 0.01'"
        ) from error


def _parse_layer(words: list[str]) -> Layer:
    bounds: dict[str, int] = {}
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest = iter(words)
    for word in rest:
        if word in ("bias", "relu", "raw", "transposed", "int4", *INPUT_FORMATS[1:]):
            flags.add(word)
        elif word in (
            "stride",
            "dilation",
            "groups",
            "image",
            "padding",
            "residual",
            "scale",
            "pool",
            "blocks",
            *_LAYOUTS,
        ):
            values[word] = next(rest)
        elif word[0] in DIMS and word[1:].isdecimal() and word[0] not in bounds:
            bounds[word[0]] = int(word[1:])
        else:
            raise ValueError(word)
    stride, dilation = (_numbers(values.get(name, "1x1")) for name in ("stride", "dilation"))
    problem = Problem(
        **bounds,
        stride_h=stride[0], stride_w=stride[1], dilation_h=dilation[0], dilation_w=dilation[1],
        groups=int(values.get("groups", "1")),
    )  # fmt: skip
    pool = Pooling(*(int(one) for one in values["pool"].split(","))) if "pool" in values else None
    return Layer(
        problem,
        image=_numbers(values["image"]) if "image" in values else None,
        padding=_numbers(values.get("padding", "0x0")),
        bias="bias" in flags,
        residual_scale=float(values["residual"]) if "residual" in values else None,
        relu="relu" in flags,
        scale=None if "raw" in flags else float(values["scale"]),
        pooling=pool,
        weights_transposed="transposed" in flags,
        weight_bits=4 if "int4" in flags else 8,
        weight_blocks=_blocks(values["blocks"]) if "blocks" in values else None,
        elements=next((form for form in INPUT_FORMATS if form in flags), "integer"),
        **{name: Layout(*map(int, values[name].split(","))) for name in _LAYOUTS if name in values},
    )


def _blocks(text: str) -> WeightBlocks:
    form, columns = text.split(",")
    return WeightBlocks(form, int(columns))  # type: ignore[arg-type]


def _pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]}x{pair[1]}"


def _numbers(text: str) -> tuple[int, int]:
    first, second = text.split("x")
    return int(first), int(second)
