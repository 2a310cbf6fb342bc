"""A module of a file, as users import theirs."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType


def user_module(path: Path, text: str, *, known: bool = False) -> ModuleType:
    """Write the text into a file and import it by the file's name; `known`: other code finds it by that name, too."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if known:
        sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def page_module(page: str, path: Path) -> ModuleType:
    """The file that a page of documentation has its reader write, at a path, as dataclasses and pickles want modules: known."""
    found = re.search(r"<<'EOF'\n(.*?)^EOF$", page, re.S | re.M)
    assert found is not None
    return user_module(path, found.group(1), known=True)
