"""Open dimensions of an ONNX model's inputs, and what a user gives for them.

`MODEL.onnx:x=1x3x48x192` gives the shape of an input, `dim.NAME=N` every dimension of a name, `dim.INPUT.AXIS=N` one dimension,
and `batch=N` all that are batches. Batches that are not given are 1.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import onnx

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import whole_number
from baco.workloads.options import LARGEST, split_options

#: Names of dimensions that say nothing: what stands first under one is a batch.
_UNNAMED = re.compile(r"(none|\?|-1|unk__\d+|dynamic_axes_\d+|(p2o\.)?DynamicDimension\.\d+)?", re.IGNORECASE)
#: Names of batches.
_BATCH = re.compile(r"n|b|bs|.*batch.*", re.IGNORECASE)
_SHAPE = re.compile(r"\d+(x\d+)*", re.IGNORECASE)
#: What a hint proposes for heights and widths of images, and for everything else.
_PIXELS, _LENGTH = 224, 128


@dataclass
class _Open:
    """A dimension without an extent."""

    tensor: str
    axis: int
    name: str
    dim: onnx.TensorShapeProto.Dimension

    @property
    def named(self) -> bool:
        """Whether its name tells it from others."""
        return _UNNAMED.fullmatch(self.name) is None

    @property
    def options(self) -> list[str]:
        """Options that give it an extent."""
        own = f"dim.{self.tensor}.{self.axis}"
        return [f"dim.{self.name}", own] if self.name else [own]

    def proposed(self, rank: int, own: tuple[int, int] | None) -> int:
        """An extent for a hint. `own`: height and width that the model names."""
        if rank == 4 and self.axis >= 2:
            return own[self.axis - 2] if own else _PIXELS
        # images come in batches, and recurrent states are layers × batch × numbers
        batch = (rank == 4 and self.axis == 0) or (rank == 3 and self.axis == 1 and not self.named)
        return 1 if batch else _LENGTH

    @property
    def label(self) -> str:
        """In messages."""
        return self.name if self.named else "?"


def fix_dimensions(
    path: str, model: onnx.ModelProto, constants: Container[str], rest: str | None
) -> dict[str, int | str]:
    """Give every dimension of every input a value; the chosen ones are returned.

    Raises InputError for options that the model has not, that contradict what it says, and naming all dimensions that are open.
    """
    inputs = [v for v in model.graph.input if v.name not in constants and v.type.HasField("tensor_type")]
    given = split_options(rest, f"{path}:{rest}") if rest is not None else {}
    open_ = _open_dimensions(inputs)
    result: dict[str, int | str] = {}
    shapes = _shapes(path, inputs, given, result)
    batches = {d.name for d in open_ if d.axis == 0 and d.named and _BATCH.fullmatch(d.name)}
    batches |= {d.name for d in open_ if d.named and "batch" in d.name.lower()}
    numbers = _numbers(path, open_, {k: v for k, v in given.items() if k not in shapes}, shapes)
    left: list[_Open] = []
    has_batch = taken = False
    for one in open_:
        is_batch = one.name in batches or (one.axis == 0 and not one.named)
        has_batch = has_batch or is_batch
        chosen = next((numbers[option] for option in reversed(one.options) if option in numbers), None)
        if one.tensor in shapes:
            chosen = shapes[one.tensor][one.axis]
        if chosen is None and is_batch:
            chosen, taken = numbers.get("batch", 1), True
        if chosen is None:
            left.append(one)
        else:
            one.dim.dim_value = chosen
    if left:
        raise _missing(path, model, inputs, left, [f"batch={numbers['batch']}"] if "batch" in numbers else [])
    if "batch" in numbers and not has_batch:
        raise InputError(
            "the batch size of this model is fixed",
            location=Location(path),
            hint="export it with a dynamic batch",
        )
    result |= numbers
    if taken:
        result.setdefault("batch", 1)
    return result


def _open_dimensions(inputs: Iterable[onnx.ValueInfoProto]) -> list[_Open]:
    found = []
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
                continue
            name = dim.dim_param
            if dim.dim_value < 0 and not name:
                dim.Clear()
            found.append(_Open(value.name, axis, name, dim))
    return found


def _shapes(
    path: str, inputs: Iterable[onnx.ValueInfoProto], given: Mapping[str, str], result: dict[str, int | str]
) -> dict[str, tuple[int, ...]]:
    """Whole shapes by input; they must agree with the extents that the model has."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in inputs:
        text = given.get(value.name)
        if text is None or (not _SHAPE.fullmatch(text)):
            continue
        extents = tuple(whole_number(value.name, n, least=1, most=LARGEST) for n in text.lower().split("x"))
        kind = value.type.tensor_type
        if not kind.HasField("shape"):
            for _ in extents:
                kind.shape.dim.add()
        known = [
            d.dim_value if d.WhichOneof("value") == "dim_value" and d.dim_value > 0 else None
            for d in kind.shape.dim
        ]
        if len(known) != len(extents) or any(k not in (None, n) for k, n in zip(known, extents, strict=True)):
            shown = "x".join("?" if k is None else str(k) for k in known)
            raise InputError(
                f"the input '{value.name}' cannot have the shape {text}: in the model it is {shown}",
                location=Location(path, node=value.name),
            )
        for dim, extent in zip(kind.shape.dim, extents, strict=True):
            dim.dim_value = extent
        shapes[value.name] = extents
        result[value.name] = text
    return shapes


def _numbers(
    path: str, open_: list[_Open], given: Mapping[str, str], shapes: Container[str]
) -> dict[str, int]:
    known = list(dict.fromkeys(["batch", *(option for one in open_ for option in one.options)]))
    tensors = list(dict.fromkeys(one.tensor for one in open_))
    numbers = {}
    for option, text in given.items():
        if option in tensors:
            raise InputError(
                f"the shape of '{option}' cannot be '{text}'",
                location=Location(path),
                hint=f"write {option}=1x3x48x192",
            )
        if option not in known:
            raise InputError(
                f"the model has no option '{option}'",
                location=Location(path),
                hint=did_you_mean(option, [*known, *tensors]),
            )
        numbers[option] = whole_number(option, text, least=1, most=LARGEST)
    return numbers


def _missing(
    path: str,
    model: onnx.ModelProto,
    inputs: Iterable[onnx.ValueInfoProto],
    left: list[_Open],
    given: list[str],
) -> InputError:
    """All open dimensions, and the complete line to type."""
    names = list(dict.fromkeys(dimension.tensor for dimension in left))
    own = _own_sizes(model)
    listed, options = [], []
    for value in inputs:
        if value.name not in names:
            continue
        dims = value.type.tensor_type.shape.dim
        missing = {dimension.axis: dimension for dimension in left if dimension.tensor == value.name}
        shown = [missing[i].label if i in missing else str(d.dim_value) for i, d in enumerate(dims)]
        listed.append(f"{value.name} ({' x '.join(shown)})")
        proposed = [
            missing[i].proposed(len(dims), own) if i in missing else d.dim_value for i, d in enumerate(dims)
        ]
        options.append(f"{value.name}={'x'.join(map(str, proposed))}")
    count = len(
        {dimension.name if dimension.named else f"{dimension.tensor}.{dimension.axis}" for dimension in left}
    )
    what = "a dimension" if count == 1 else f"{count} dimensions"
    return InputError(
        f"{what} of its inputs {'is' if count == 1 else 'are'} symbolic: {', '.join(listed)}",
        location=Location(path),
        hint=f"give the shape{'s' * (len(options) > 1)}: {path}:{','.join([*given, *options])}",
    )


def _own_sizes(model: onnx.ModelProto) -> tuple[int, int] | None:
    """Height and width that the model itself names, as exporters of detectors write them."""
    for entry in model.metadata_props:
        if entry.key in ("imgsz", "image_size", "input_size"):
            numbers = [int(n) for n in re.findall(r"\d+", entry.value)][-2:]
            if numbers and all(0 < n <= LARGEST for n in numbers):
                return numbers[0], numbers[-1]
    return None
