"""Options written behind a network's name: `llama2_7b:seq=2048,phase=decode`, `model.onnx:batch=4`."""

from __future__ import annotations

from baco.common.errors import InputError

#: Extents and counts above this are typing errors, not networks.
LARGEST = 2**31 - 1
#: The option that names a file of code, which is run (`baco.workloads.onnx.table`).
CODE_OPTION = "operators"


def split_options(text: str, spec: str) -> dict[str, str]:
    """`a=1,b=x` as a dict. Raises InputError naming the faulty part of `spec`."""
    options: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise InputError(
                f"'{part.strip()}' in '{spec}' is not an option", hint="write NAME=VALUE,NAME=VALUE"
            )
        if name in options:
            raise InputError(f"'{spec}' gives the option '{name}' twice")
        options[name] = value
    return options
