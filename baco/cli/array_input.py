"""Arrays as the command line describes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from baco.common.errors import InputError, did_you_mean
from baco.common.numbers import WHOLE
from baco.compiler.codegen.buffer import Buffer
from baco.workloads.inputs.arrays import load_array
from baco.workloads.tensor import MOST_RANK

_BUFFER = re.compile(rf"([a-z]+[0-9]{{1,2}})\[((?: *{WHOLE} *(?:,|(?=\])))*)\](?::([a-z]+))?")
_BUFFER_HINT = "write NAME=int8[64,64], NAME=int8[64,64]:output or NAME=FILE.npy"


def described_buffer(text: str) -> Buffer:
    """The buffer that `--arg NAME=VALUE` describes, without content unless a file gives it."""
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
    if len(shape) > MOST_RANK:
        raise InputError(f"--arg: an array of {len(shape)} dimensions is more than the {MOST_RANK} allowed")
    return Buffer(name, shape, dtype, role or "inout")  # type: ignore[arg-type]


def named_files(
    option: str, texts: Sequence[str], known: Collection[str], kind: str = "array"
) -> dict[str, Path]:
    """Files by name from an option's NAME=FILE. Raises InputError for a malformed one and an unknown name of that kind."""
    files = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise InputError(f"{option} takes NAME=FILE, not '{text}'")
        if name not in known:
            raise InputError(f"{option}: there is no {kind} '{name}'", hint=did_you_mean(name, list(known)))
        files[name] = Path(file)
    return files
