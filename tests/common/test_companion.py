"""A second process for work that nobody waits for: what is asked is the same with it and without."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from baco.common import companion as rooms
from baco.common.companion import ask, companion
from baco.common.errors import InputError
from baco.common.numbers import real_number

#: Says whether what it asks for is done elsewhere.
_SCRIPT = """
import os
from baco.common.companion import ask, companion
with companion():
    there = ask(os.getpid)
    for _ in range(200):
        if there.begun:
            break
        __import__("time").sleep(0.05)
    print(there.get() != os.getpid())
"""


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "processors", lambda: 2)


def begun(answer: "rooms.Pending[object]") -> None:
    """Wait until a companion is at it."""
    late = time.monotonic() + 60
    while not answer.begun:
        assert time.monotonic() < late
        time.sleep(0.01)


@pytest.mark.usefixtures("two_processors")
def test_a_companion_works_elsewhere_and_gives_the_same() -> None:
    with companion(["json"]):
        where = ask(os.getpid)
        begun(where)
        counted = ask(Counter, "mississippi" * 100_000)
        begun(counted)
        assert where.get() != os.getpid()
        assert where.get() == where.get()
        assert counted.get() == Counter("mississippi" * 100_000)
        pid = where.get()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ask(os.getpid).get() == os.getpid()


@pytest.mark.usefixtures("two_processors")
def test_what_a_companion_has_not_begun_is_done_here() -> None:
    with companion():
        slow = ask(time.sleep, 60)
        begun(slow)
        assert ask(os.getpid).get() == os.getpid()


@pytest.mark.usefixtures("two_processors")
def test_a_companion_that_dies_leaves_the_work_to_us() -> None:
    with companion():
        where = ask(os.getpid)
        begun(where)
        slow = ask(time.sleep, 0.01)
        os.kill(where.get(), signal.SIGKILL)
        assert slow.get() is None
        assert ask(os.getpid).get() == os.getpid()


@pytest.mark.usefixtures("two_processors")
def test_errors_are_those_of_the_work_itself() -> None:
    with companion():
        answer = ask(real_number, "a bound", "none")
        begun(answer)
        with pytest.raises(InputError, match="a bound"):
            answer.get()
        with pytest.raises(InputError, match="here"):
            ask(real_number, "a bound", "none").get(lambda: real_number("here", "none"))


@pytest.mark.usefixtures("two_processors")
def test_work_that_cannot_be_sent_is_done_here() -> None:
    with companion():
        assert ask(lambda: 7).get() == 7
        assert ask(threading.Lock().acquire, False).get() is True


def test_there_is_none_on_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "processors", lambda: 1)
    with companion():
        answer = ask(os.getpid)
        assert not answer.begun
        assert answer.get() == os.getpid()


@pytest.mark.skipif(rooms.processors() < 2, reason="one processor has no companions")
@pytest.mark.parametrize("how", ["file", "code"])
def test_a_script_needs_no_guard(how: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT)
    arguments = ["script.py"] if how == "file" else ["-P", "-c", _SCRIPT]
    if how == "code":
        (tmp_path / "pickle.py").write_text("raise SystemExit('a file of the user')")
    found = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout == "True\n", found.stderr
