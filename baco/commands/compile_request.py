"""What the command line asks to compile, and arrays as it describes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel.config import Accelerator
from baco.commands.layer_input import LayerOptions
from baco.commands.memory import check_memory
from common.errors import InputError, did_you_mean
from common.numbers import WHOLE
from compiler.codegen.buffer import Buffer

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.ir_text import Level

__all__ = ["Request", "Unit", "buffer_of", "load_array", "named_files", "random_array"]

_BUFFER = re.compile(rf"([a-z]+[0-9]{{1,2}})\[((?: *{WHOLE} *(?:,|(?=\])))*)\](?::([a-z]+))?")
_ITEM_BYTES = {f"{kind}{bits}": bits // 8 for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
#: What every version of numpy takes.
_MOST_DIMENSIONS = 32
_BUFFER_HINT = "write NAME=int8[64,64], NAME=int8[64,64]:output or NAME=FILE.npy"


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        source: FILE.mlir or KERNEL.py:FUNCTION; None for a layer.
        arguments: of --arg.
        compare: find out what the results must be.
        structured: begin a layer at the level `linalg`, not below.
        observe: sees the module after every pass.
    """

    source: str | None
    layer: LayerOptions
    accelerator: Accelerator
    level: Level | None = None
    entry: str | None = None
    arguments: Sequence[str] = ()
    grid: str | None = None
    seed: int = 0
    target: str = "gemmini"
    compare: bool = False
    structured: bool = False
    observe: Callable[[str, ModuleOp], None] | None = None


@dataclass(frozen=True)
class Unit:
    """Something to compile.

    Attributes:
        name: of the program.
        level: of the module.
        module: to be lowered.
        entry: its function that the program calls.
        buffers: its arguments; None where nothing describes them.
        requirement: least hardware that it runs on, where it is known.
        notes: what may be worth knowing, for people.
    """

    name: str
    level: Level
    module: ModuleOp
    entry: str
    buffers: tuple[Buffer, ...] | None
    requirement: Mapping[str, int] | None = None
    notes: tuple[str, ...] = ()


def buffer_of(text: str, index: int, seed: int) -> Buffer:
    """The buffer that `--arg NAME=VALUE` describes; random numbers where no file gives its content."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--arg: '{text}' is no argument", hint=_BUFFER_HINT)
    if value.endswith(".npy"):
        data = load_array(Path(value))
        return Buffer(name, data.shape, str(data.dtype), "inout", data)
    found = _BUFFER.fullmatch(value)
    if not found:
        raise InputError(f"--arg: '{value}' describes no array", hint=_BUFFER_HINT)
    dtype, sizes, role = found.groups()
    shape = tuple(int(one) for one in sizes.split(",") if one.strip())
    if len(shape) > _MOST_DIMENSIONS:
        raise InputError(
            f"--arg: an array of {len(shape)} dimensions is more than the {_MOST_DIMENSIONS} allowed"
        )
    if dtype in _ITEM_BYTES:
        check_memory("the arguments", math.prod(shape) * _ITEM_BYTES[dtype])
    empty = Buffer(name, shape, dtype, role or "inout")  # type: ignore[arg-type]
    if empty.role in ("output", "workspace"):
        return empty
    return Buffer(name, shape, dtype, empty.role, random_array(shape, dtype, seed, index))


def load_array(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """The array in a .npy file. Raises InputError for any other content; nothing is unpickled."""
    import io

    from baco.commands.memory import main_memory_bytes
    from common.errors import Location
    from common.files import read_input

    data = io.BytesIO(read_input(path, limit_bytes=main_memory_bytes()))
    here = Location(str(path))
    try:
        version = np.lib.format.read_magic(data)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read_header is None:
            raise ValueError(f"its format has the unknown version {version[0]}.{version[1]}")
        shape, _, dtype = read_header(data)
        # a header may claim any size: nothing is allocated for what is not there
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data.getbuffer()) - data.tell():
            raise ValueError("its content is not what its header says")
        data.seek(0)
        return np.lib.format.read_array(data, allow_pickle=False)
    except (ValueError, TypeError, EOFError, OSError, SyntaxError, RecursionError) as error:
        raise InputError(f"this is no array in a .npy file: {error}", location=here) from None


def named_files(option: str, texts: Sequence[str], buffers: Mapping[str, Buffer]) -> dict[str, Path]:
    """Files by buffer from an option's NAME=FILE. Raises InputError for a malformed one and an unknown buffer."""
    files = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise InputError(f"{option} takes NAME=FILE, not '{text}'")
        if name not in buffers:
            raise InputError(f"{option}: there is no array '{name}'", hint=did_you_mean(name, buffers))
        files[name] = Path(file)
    return files


def random_array(
    shape: tuple[int, ...], dtype: str, seed: int, index: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Random numbers: all of an 8-bit type, a few bits less of wider ones, so that sums stay exact."""
    random = np.random.default_rng((seed, index))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    if kind.itemsize > 1:
        least, most = max(int(least), -(1 << 12)), min(int(most), 1 << 12)
    return random.integers(least, most, shape, dtype=kind, endpoint=True)
