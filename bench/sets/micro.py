"""Small systematic programs: one thing is varied at a time, for fitting physical constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.exploration.task_layers import result_scale
from baco.workloads.problem import DIMS, Problem

_INNER = "RSCPQNK"
_OUTPUT_STATIONARY, _WEIGHT_STATIONARY, _INPUT_STATIONARY = "RSCPQNK", "PQNRSCK", "KRSPQCN"
_SINGLE, _DOUBLE = (1, 1, 1), (2, 2, 2)


@dataclass(frozen=True)
class MicroProgram:
    """One program.

    Attributes:
        what: the thing that is varied and its value.
    """

    what: str
    layer: Layer
    mapping: Mapping


def probes(accelerator: Accelerator, *, all_of_them: bool = True) -> Iterator[MicroProgram]:
    """The programs for an accelerator; without `all_of_them` those that ports, memory and queues show in.

    Some may be more than the accelerator holds.
    """
    d = accelerator.dim
    for style, copies in (("macro", _DOUBLE), ("explicit", (2, 2, 1))):
        yield from _tiles(d, style, copies, all_of_them)
        yield from _convolutions(d, style, copies, all_of_them)
    if all_of_them:
        yield from _sizes(d)
        yield from _output_stationary(d)
        yield from _on_the_way(d)
        yield from _copies(d)
        yield from _narrow(d)
        yield from _vectors(d)


def _product(
    p: int, c: int, k: int, *, groups: int = 1, bias: bool = False, raw: bool = False, relu: bool = False
) -> Layer:
    problem = Problem(P=p, C=c, K=k, groups=groups)
    return Layer(problem, bias=bias, relu=relu, scale=None if raw else result_scale(problem))


def _mapped(
    layer: Layer,
    dim: int,
    tile: dict[str, int],
    *,
    order: str = _OUTPUT_STATIONARY,
    copies: tuple[int, int, int] = _DOUBLE,
    dataflow: Dataflow = "WS",
    rows: int | None = None,
    columns: int | None = None,
) -> Mapping:
    """A tile (in elements; the whole where nothing is said) in the scratchpad and the accumulator, moved along the DRAM
    loops: what runs at level 0 and 1 as macros have it."""
    p = layer.problem
    bounds = dict(zip(DIMS, p.bounds, strict=True))
    spread = "C" if dataflow == "WS" else "P"
    lanes = {spread: rows or min(bounds[spread], dim), "K": columns or min(p.K, dim)}
    inner = "PQN" if dataflow == "WS" else "RSC"
    levels: list[dict[str, int]] = [{}, {}, {}, {}]
    for name in DIMS:
        part = -(-min(tile.get(name, bounds[name]), bounds[name]) // lanes.get(name, 1))
        levels[0 if name in inner else 1][name] = part
        levels[3][name] = -(-bounds[name] // (part * lanes.get(name, 1)))
    temporal = tuple(tuple(level.get(name, 1) for name in DIMS) for level in levels)
    return Mapping(
        dataflow, lanes[spread], lanes["K"], temporal, (_INNER, _INNER, _INNER, order), copies
    )  # fmt: skip


def _tiles(d: int, style: str, copies: tuple[int, int, int], all_of_them: bool) -> Iterator[MicroProgram]:
    """One product, cut in tiles of several sizes and visited in several orders."""
    layer = _product(16 * d, 8 * d, 8 * d)
    base = {"P": 4 * d, "C": 4 * d, "K": 4 * d}
    sizes = {"P": (d, 2 * d, 8 * d, 16 * d), "C": (d, 2 * d, 8 * d), "K": (d, 2 * d, 8 * d)}
    yield MicroProgram(f"{style} tile", layer, _mapped(layer, d, base, copies=copies))
    for name, values in sizes.items():
        for value in values if all_of_them else values[:2]:
            mapping = _mapped(layer, d, base | {name: value}, copies=copies)
            yield MicroProgram(f"{style} tile {name}{value}", layer, mapping)
    orders = {"weight": _WEIGHT_STATIONARY, "input": _INPUT_STATIONARY, "inner K": "RSCKPQN"}
    for name, order in orders.items():
        if all_of_them or name == "inner K":
            yield MicroProgram(
                f"{style} order {name}", layer, _mapped(layer, d, base, order=order, copies=copies)
            )


def _sizes(d: int) -> Iterator[MicroProgram]:
    """One tile of several sizes, by macro and by explicit moves."""
    for style, copies in (("macro", _DOUBLE), ("explicit", _SINGLE)):
        for name in "PCK":
            for factor in (0.5, 1, 2, 8):
                size = {"P": 4 * d, "C": 4 * d, "K": 4 * d} | {name: max(1, int(factor * d))}
                layer = _product(size["P"], size["C"], size["K"])
                mapping = _mapped(layer, d, {}, copies=copies)
                yield MicroProgram(f"{style} whole {name}{size[name]}", layer, mapping)
        layer = _product(4 * d, 4 * d, 4 * d)
        for groups in (2, 4):
            batch = replace(layer, problem=replace(layer.problem, groups=groups))
            batch = Layer(batch.problem, scale=layer.scale)
            yield MicroProgram(f"{style} groups {groups}", batch, _mapped(batch, d, {}, copies=copies))


def _convolutions(
    d: int, style: str, copies: tuple[int, int, int], all_of_them: bool
) -> Iterator[MicroProgram]:
    """Convolutions of several windows, strides and tiles."""

    def made(side: int, kernel: int, stride: int = 1, dilation: int = 1, c: int = 2 * d, k: int = 2 * d,
             padded: bool = True) -> Layer:  # fmt: skip
        p = Problem(R=kernel, S=kernel, P=side, Q=side, C=c, K=k, stride_w=stride, stride_h=stride,
                    dilation_w=dilation, dilation_h=dilation)  # fmt: skip
        pad = dilation * (kernel - 1) // 2 if padded else 0
        image = (side * stride, side * stride) if padded else None
        return Layer(p, image=image, padding=(pad, pad), bias=True, relu=True, scale=result_scale(p))

    base = {"Q": 7, "K": d, "C": d}
    layer = made(14, 3)
    yield MicroProgram(f"{style} conv", layer, _mapped(layer, d, base, copies=copies))
    for rows in (1, 2, 14) if all_of_them else (2,):
        yield MicroProgram(
            f"{style} conv rows {rows}", layer, _mapped(layer, d, base | {"Q": rows}, copies=copies)
        )
    if not all_of_them:
        return
    for columns in (3, 7):
        tile = base | {"P": columns}
        yield MicroProgram(f"{style} conv columns {columns}", layer, _mapped(layer, d, tile, copies=copies))
    tile = {"Q": 7}
    yield MicroProgram(f"{style} conv whole channels", layer, _mapped(layer, d, tile, copies=copies))
    yield MicroProgram(
        f"{style} conv weights stay",
        layer,
        _mapped(layer, d, base, order="RSC" + "PQNK", copies=copies),
    )
    others = {
        "1x1": made(14, 1),
        "5x5": made(14, 5),
        "stride 2": made(14, 3, 2),
        "1x1 stride 2": made(14, 1, 2),
        "dilated": made(14, 3, 1, 2),
        "unpadded": made(14, 3, padded=False),
        "7x7 first": made(28, 7, 2, c=3),
        "small image": made(4, 3),
        "wide": made(56, 3, c=d, k=d),
    }
    for name, other in others.items():
        yield MicroProgram(f"{style} conv {name}", other, _mapped(other, d, base, copies=copies))


def _output_stationary(d: int) -> Iterator[MicroProgram]:
    """The other dataflow."""
    layer = _product(16 * d, 8 * d, 8 * d)
    for rows, c, k in ((4, 4, 4), (1, 4, 4), (8, 4, 4), (4, 1, 4), (4, 8, 4), (4, 4, 1), (4, 4, 8)):
        tile = {"P": rows * d, "C": c * d, "K": k * d}
        for copies in (_SINGLE, (2, 2, 1)):
            mapping = _mapped(layer, d, tile, dataflow="OS", copies=copies)
            yield MicroProgram(f"OS tile P{rows} C{c} K{k} copies {copies}", layer, mapping)
    for kernel, rows in ((3, 2), (3, 7), (1, 7), (5, 7)):
        p = Problem(R=kernel, S=kernel, P=14, Q=14, C=2 * d, K=2 * d)
        pad = (kernel - 1) // 2
        conv = Layer(p, image=(14, 14), padding=(pad, pad), bias=True, scale=result_scale(p))
        tile = {"Q": rows, "K": d, "C": d}
        yield MicroProgram(f"OS conv {kernel} rows {rows}", conv, _mapped(conv, d, tile, dataflow="OS"))


def _on_the_way(d: int) -> Iterator[MicroProgram]:
    """Bias, raw results, ReLU; sums that go through main memory."""
    for style, copies in (("macro", _DOUBLE), ("explicit", (2, 2, 1))):
        for name in ("bias", "raw", "relu"):
            layer = _product(
                16 * d, 4 * d, 8 * d, bias=name == "bias", raw=name == "raw", relu=name == "relu"
            )
            tile = {"P": 4 * d, "K": 4 * d}
            yield MicroProgram(f"{style} {name}", layer, _mapped(layer, d, tile, copies=copies))
        thin = _product(32 * d, d, 8 * d, bias=True)
        for columns in (2 * d, 8 * d):
            mapping = _mapped(thin, d, {"P": 4 * d, "K": columns}, copies=copies)
            yield MicroProgram(f"{style} thin {columns}", thin, mapping)
    layer = _product(8 * d, 8 * d, 4 * d)
    for copies in (_SINGLE, (2, 2, 1)):
        for depth in (2 * d, 4 * d):
            mapping = _mapped(layer, d, {"P": 4 * d, "C": depth}, order="PQNKRSC", copies=copies)
            yield MicroProgram(f"sums through memory {depth} copies {copies}", layer, mapping)


def _copies(d: int) -> Iterator[MicroProgram]:
    """Every combination of single and double buffers."""
    layer = _product(16 * d, 8 * d, 8 * d, bias=True)
    for w in (1, 2):
        for i in (1, 2):
            for o in (1, 2):
                mapping = _mapped(layer, d, {"P": 4 * d, "C": 4 * d, "K": 4 * d}, copies=(w, i, o))
                yield MicroProgram(f"copies {w}{i}{o}", layer, mapping)


def _narrow(d: int) -> Iterator[MicroProgram]:
    """Parts of the array, and sizes that are no multiples of its side."""
    layer = _product(8 * d, 4 * d, 4 * d)
    for used in (d // 2, d // 4):
        for rows, columns in ((used, None), (None, used)):
            mapping = _mapped(layer, d, {"P": 4 * d}, copies=(2, 2, 1), rows=rows, columns=columns)
            yield MicroProgram(f"lanes {rows} {columns}", layer, mapping)
    for p, c, k in ((8 * d + 1, 4 * d, 4 * d), (8 * d, 4 * d + 1, 4 * d), (8 * d, 4 * d, 4 * d + 1), (8 * d - 3, 3 * d - 1, 3 * d + 1)):  # fmt: skip
        odd = _product(p, c, k)
        for style, copies in (("macro", _DOUBLE), ("explicit", (2, 2, 1))):
            mapping = _mapped(odd, d, {"P": 4 * d, "K": 2 * d, "C": 2 * d}, copies=copies)
            yield MicroProgram(f"{style} odd {p} {c} {k}", odd, mapping)


def _vectors(d: int) -> Iterator[MicroProgram]:
    """Matrix times vector: weights are used once."""
    for c, k in ((16, 16), (32, 16), (16, 32)):
        layer = _product(1, c * d, k * d, bias=True)
        for style, copies in (("macro", _DOUBLE), ("explicit", (2, 2, 1))):
            for depth in (4, 16):
                mapping = _mapped(layer, d, {"C": depth * d, "K": 4 * d}, copies=copies)
                yield MicroProgram(f"{style} vector {c}x{k} depth {depth}", layer, mapping)
