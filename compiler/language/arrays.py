"""Arrays that a kernel is launched on, as flat buffers: numpy and torch CPU arrays, views included."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from baco.compiler.language.dtypes import BY_NAME, Dtype
from baco.compiler.language.source import KernelError
from baco.compiler.language.translate import ArrayAt

Array = np.ndarray[Any, Any]
_DTYPES = ", ".join(BY_NAME)


def as_array(name: str, thing: object) -> Array | None:
    """The argument as a numpy array that shares its memory; None if it is no array.

    Raises:
        KernelError: it is an array that kernels cannot use; `name` is its parameter.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        if thing.device.type != "cpu":
            raise KernelError(
                f"argument `{name}` is on {thing.device}", hint="move it to the CPU: tensor.cpu()"
            )
        if thing.layout != torch.strided or thing.is_complex() or thing.is_quantized:
            raise KernelError(
                f"argument `{name}` is no plain tensor", hint="kernels take dense tensors of numbers"
            )
        if str(thing.dtype).removeprefix("torch.") not in BY_NAME:
            raise KernelError(f"argument `{name}` has elements {thing.dtype}", hint=f"kernels take {_DTYPES}")
        kind = BY_NAME[str(thing.dtype).removeprefix("torch.")]
        if not kind.floating:
            array: Array = thing.detach().numpy()
            return array
        # numpy has no such types but those of ml_dtypes, which torch does not know
        codes: Array = thing.detach().view(getattr(torch, kind.numpy.name)).numpy()
        return codes.view(np.dtype(getattr(ml_dtypes, kind.name, kind.name)))
    return thing if isinstance(thing, np.ndarray) else None


@dataclass(frozen=True)
class FlatBuffer:
    """A run of memory that arguments lie in.

    Attributes:
        names: of the arguments, the first names the buffer.
        dtype: of the elements.
        memory: a view of all of it, one-dimensional; of floating point the codes.
    """

    names: tuple[str, ...]
    dtype: Dtype
    memory: Array

    @property
    def size(self) -> int:
        return int(self.memory.size)

    @property
    def writeable(self) -> bool:
        return bool(self.memory.flags.writeable)


def flatten(arrays: Mapping[str, Array]) -> tuple[list[FlatBuffer], dict[str, ArrayAt]]:
    """The buffers that arrays lie in, and each array's place; arrays that overlap share a buffer.

    Raises:
        KernelError: an array is empty, has an element type or strides that kernels do not take, or overlaps one of
            another type.
    """
    spans = {name: _span(name, array) for name, array in arrays.items()}
    order = sorted(spans, key=lambda name: (spans[name][0], -spans[name][1]))
    groups: list[list[str]] = []
    end = -1
    for name in order:
        first, last = spans[name]
        if groups and first < end:
            groups[-1].append(name)
        else:
            groups.append([name])
        end = max(end, last)
    # Buffers in the order of the parameters, whatever the addresses are: the same launch gives the same program.
    position = {name: index for index, name in enumerate(arrays)}
    groups = sorted(
        (sorted(group, key=position.__getitem__) for group in groups), key=lambda g: position[g[0]]
    )
    buffers: list[FlatBuffer] = []
    places: dict[str, ArrayAt] = {}
    for group in groups:
        buffer, start = _join(group, arrays, spans)
        for name in group:
            places[name] = ArrayAt(len(buffers), (spans[name][0] - start) // buffer.memory.itemsize)
        buffers.append(buffer)
    return buffers, places


def _span(name: str, array: Array) -> tuple[int, int]:
    """First byte and end of the memory of an array."""
    if array.dtype.name not in BY_NAME or not array.dtype.isnative:
        raise KernelError(
            f"argument `{name}` has elements {array.dtype}", hint=f"kernels take arrays of {_DTYPES}"
        )
    if array.size == 0:
        raise KernelError(f"argument `{name}` has the shape {array.shape}, so it has no elements")
    strides = [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    if any(stride < 0 or stride % array.itemsize for stride in strides):
        raise KernelError(
            f"argument `{name}` is stored backwards or between elements (strides {array.strides} bytes)",
            hint="pass numpy.ascontiguousarray(array)",
        )
    first = array.__array_interface__["data"][0]
    last = sum(
        stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
    return first, first + last + array.itemsize


def _join(
    group: Sequence[str], arrays: Mapping[str, Array], spans: Mapping[str, tuple[int, int]]
) -> tuple[FlatBuffer, int]:
    """The buffer of arrays that overlap, and its address."""
    first = min(group, key=lambda name: spans[name][0])
    start, end = spans[first][0], max(spans[name][1] for name in group)
    base = arrays[first]
    for name in group:
        other = arrays[name]
        if other.dtype != base.dtype or (spans[name][0] - start) % base.itemsize:
            raise KernelError(
                f"arguments `{first}` ({base.dtype}) and `{name}` ({other.dtype}) overlap in memory",
                hint="pass a copy of one of them",
            )
    if all(arrays[name].flags.writeable for name in group):
        base = max((arrays[name] for name in group), key=lambda array: array is arrays[first])
    else:
        base = base.view()
        base.flags.writeable = False
    kind = BY_NAME[base.dtype.name]
    base = base.view(kind.numpy)
    memory = np.lib.stride_tricks.as_strided(
        base, ((end - start) // base.itemsize,), (base.itemsize,), writeable=base.flags.writeable
    )
    return FlatBuffer(tuple(group), kind, memory), start
