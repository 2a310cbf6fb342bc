"""What code a result depends on, from the import graph: keys of results that are kept must change with it."""

from __future__ import annotations

import ast
import functools
from importlib import resources
from pathlib import Path

from baco.common.errors import OWN_PACKAGE
from baco.common.provenance import stable_hash

#: Above the package, through which everything of ours is found.
_ROOT = Path(str(resources.files("baco"))).parent


@functools.cache
def code_hash(*modules: str, without: tuple[str, ...] = ()) -> str:
    """Hash of the source of modules and of all of ours that they import, inside functions and by name too, with the data
    files beside them. Raises ModuleNotFoundError for a name that none of our packages has.

    Args:
        without: modules, and data files by such a name, that the result does not depend on, though something imports them.
    """
    for name in modules:
        if _path(name) is None:
            raise ModuleNotFoundError(name)
    paths = [path for name in modules_behind(*modules) if (path := _path(name)) is not None]
    folders = {path.parent for path in paths}
    data = [
        file
        for folder in folders
        for file in folder.iterdir()
        if file.is_file() and file.suffix not in (".py", ".pyc", ".md")
    ]
    left_out = {_ROOT.joinpath(*name.split(".")) for name in without}
    files = sorted(path for path in {*paths, *data} if path.with_suffix("") not in left_out)
    return stable_hash({str(path.relative_to(_ROOT)): path.read_bytes().hex() for path in files})


def modules_behind(*modules: str) -> frozenset[str]:
    """Names of our modules that these import, directly or not, themselves included."""
    found: set[str] = set()
    open_ = list(modules)
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += _imports(name) - found
    return frozenset(found)


@functools.cache
def _imports(module: str) -> frozenset[str]:
    path = _path(module)
    assert path is not None
    parts = module.split(".")
    # the front door itself names everything, and loads none of it before it is asked
    found = {".".join(parts[:n]) for n in range(2, len(parts))}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value
        ):  # registered by name
            names = [node.value]
        found |= {name for name in names if _path(name) is not None}
    return frozenset(found)


@functools.cache
def _path(module: str) -> Path | None:
    """The file of one of our modules; None for anything else."""
    parts = module.split(".")
    if parts[0] != OWN_PACKAGE or not all(part.isidentifier() for part in parts):
        return None
    place = _ROOT.joinpath(*parts)
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None
