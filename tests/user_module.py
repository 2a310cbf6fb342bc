"""A module of a file, as users import theirs."""

import importlib.util
from pathlib import Path
from types import ModuleType


def user_module(path: Path, text: str) -> ModuleType:
    """Write the text into a file and import it by the file's name."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
