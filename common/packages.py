"""Files of installed Python packages that are programs of their own."""

from __future__ import annotations

import functools
import importlib.util
import os
from importlib import metadata
from pathlib import Path

from baco.common.errors import InputError


def package_file(package: str, *parts: str) -> Path | None:
    """A file of an installed package; None where there is no such package or file."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder, *parts)
        if path.is_file():
            return path
    return None


def zig_program() -> Path | None:
    """The `zig` of the package `ziglang`: Clang and LLD for many machines."""
    return package_file("ziglang", "zig.exe" if os.name == "nt" else "zig")


@functools.cache
def zig_version() -> str:
    """Version of the installed package. Raises InputError when it is missing."""
    try:
        return metadata.version("ziglang")
    except metadata.PackageNotFoundError:
        raise InputError(
            "the package 'ziglang' is missing, which compiles programs", hint="install it with pip"
        ) from None
