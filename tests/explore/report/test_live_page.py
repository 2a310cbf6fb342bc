"""The page that lives during a search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from baco.exploration.candidate import BatchSummary
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget
from baco.exploration.report import live
from baco.exploration.report.live import PROGRESS_PAGE, LivePage
from tests.explore.report.test_report_page import Page

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'"


class Listener:
    """Who else wants to know."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        self.heard.append(summary)

    def note(self, text: str) -> None:
        self.heard.append(text)


def summaries(count: int) -> list[BatchSummary]:
    return [
        BatchSummary(i, 24 * 10 * i, 0.5 * i, None if i < 2 else 1e9 / i, "descent") for i in range(count)
    ]


def page_of(folder: Path) -> Page:
    return Page((folder / PROGRESS_PAGE).read_text("utf-8"))


def refresh(page: Page) -> str | None:
    return next(
        (a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv") == "refresh"), None
    )


def test_it_shows_where_the_search_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_INTERVAL", 0.0)
    listener = Listener()
    page = LivePage(tmp_path, "resnet50", Objective.parse("edp"), listener)
    given = summaries(30)
    page.note("something to know")
    for number, summary in enumerate(given):
        page.update(summary, Budget(5000, None, 60.0, 24))
        found = page_of(tmp_path)
        assert refresh(found) == "3"
        assert f"{10 * number:,}of 5,000" in found.text.replace("Design points", "")
        data = json.loads(found.script("data"))
        assert data["history"]["samples"][-1] == summary.evaluations
    assert listener.heard == ["something to know", *given]
    assert "something to know" in found.text
    assert data["history"]["best"][-1] == pytest.approx(1e9 / 29, rel=1e-4)
    page.finish()
    ended = page_of(tmp_path)
    assert refresh(ended) == "2; url=report.html"
    assert [a.get("href") for tag, a in ended.tags if tag == "a"] == ["report.html"]
    assert len((tmp_path / PROGRESS_PAGE).read_bytes()) < 100_000  # no plotting library


def test_it_is_there_before_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first word on, in a folder that nobody has made yet; without a curve, which comes with the batches."""
    monkeypatch.setattr(live, "_INTERVAL", 0.0)
    listener = Listener()
    page = LivePage(tmp_path / "new", "resnet50", Objective.parse("edp"), listener)
    page.doing("fusion groups", 120, 500)
    found = page_of(tmp_path / "new")
    assert refresh(found) == "3"
    assert "fusion groups: 120 of 500" in found.text
    assert "preparing" in found.text
    assert json.loads(found.script("data"))["history"] == {"samples": [], "best": []}
    page.update(summaries(4)[3], Budget(5000, None, None, 24))
    assert "fusion groups" not in page_of(tmp_path / "new").text
    assert "searching" in page_of(tmp_path / "new").text


def test_the_page_and_the_words_load_neither_models_nor_tables(tmp_path: Path) -> None:
    """They are there at once: what takes seconds to load comes after them."""
    code = f"""
import sys
from pathlib import Path
from baco.display.progress import waiting
from baco.exploration.objective import Objective
from baco.exploration.report.live import LivePage
LivePage(Path({str(tmp_path)!r}), "net", Objective.parse("edp")).doing("loading")
print(*sorted({{"torch", "pandas", "scipy", "matplotlib", "xdsl"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert (tmp_path / PROGRESS_PAGE).exists()


def test_it_is_written_every_few_seconds_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [100.0], []
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(live, "atomic_write", lambda path, text: written.append(path))
    page = LivePage(tmp_path, "net", Objective.parse("latency"))
    for summary in summaries(100):
        page.update(summary, Budget(None, None, None, 3))
        clock[0] += 0.1
    assert len(written) == 5


def test_names_stay_text(tmp_path: Path) -> None:
    plain, hostile = tmp_path / "plain", tmp_path / "hostile"
    for folder, name in ((plain, "net"), (hostile, ATTACK)):
        folder.mkdir()
        page = LivePage(folder, name, Objective.parse("edp"))
        page.note(name)
        page.update(BatchSummary(0, 1, 0.0, 1.0, name), Budget(10, None, None, 1))
    assert page_of(hostile).tags == page_of(plain).tags
    assert ATTACK in page_of(hostile).text
    assert "<" not in page_of(hostile).script("data")
