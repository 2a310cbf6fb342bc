"""The code of the tutorial page runs, in order, as it stands."""

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial-kernels.md"


def test_every_block_of_code_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 8
    # Kernels are compiled from their source, so the page becomes a file.
    path = tmp_path / "tutorial.py"
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # where studies go
    spec = importlib.util.spec_from_file_location("tutorial", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
