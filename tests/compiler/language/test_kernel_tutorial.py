"""The code of the tutorial page runs, in order, as it stands."""

import re
from pathlib import Path

import pytest

from tests.user_module import user_module

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial-kernels.md"


def test_every_block_of_code_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 8
    # Kernels are compiled from their source, so the page becomes a file.
    monkeypatch.chdir(tmp_path)  # where studies go
    user_module(tmp_path / "tutorial.py", "\n\n".join(blocks))
