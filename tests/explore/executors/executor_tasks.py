"""Tasks and a shelf for tests of executors; what was begun and ended is told in a file."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco.common.errors import InputError
from baco.common.files import atomic_write
from baco.common.locks import Claims
from baco.exploration.executors.tasks import Need
from baco.exploration.measure.measurement import Measurement
from baco.sim.job import SimulationError


@dataclass(frozen=True)
class Square:
    """A number squared, after a while.

    Attributes:
        log: gets the lines `begin N` and `end N`.
        kills: file that counts how often this task shall end its process, one line less each time.
        wrong: raise an error of users.
    """

    n: int
    seconds: float = 0.0
    log: Path | None = None
    kills: Path | None = None
    wrong: bool = False
    needs: tuple[Need, ...] = ()
    name: str = "square"
    salt: str = ""

    @property
    def key(self) -> str:
        # a worker has another process id: what depends on it is another key there
        return f"{self.n}{os.getpid() if self.salt == 'process' else ''}"

    def run(self) -> dict[str, Any]:
        self._tell("begin")
        if self.kills is not None and self.kills.read_text():
            self.kills.write_text(self.kills.read_text()[1:])
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        if self.wrong:
            raise InputError(f"{self.n} is wrong", hint="choose another")
        self._tell("end")
        return {"square": self.n**2, "by": os.getpid()}

    def _tell(self, what: str) -> None:
        if self.log is not None:
            with open(self.log, "a", encoding="ascii") as file:
                file.write(f"{what} {self.n}\n")


@dataclass(frozen=True)
class MadeUp:
    """A measurement of nothing, after a while; made twice, it is another one."""

    n: int
    wait: float
    needs: tuple[Need, ...] = ()

    @property
    def name(self) -> str:
        return f"job {self.n}"

    @property
    def key(self) -> str:
        return str(self.n)

    def run(self) -> Measurement:
        time.sleep(self.wait)
        return Measurement("measured", cycles=1, energy_pj=1.0, seconds=time.time())


class FolderShelf:
    """Results as JSON files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._claims = Claims(folder / "claims")

    def __reduce__(self) -> tuple[type[FolderShelf], tuple[Path]]:
        return FolderShelf, (self.folder,)

    def get(self, key: str) -> dict[str, Any] | None:
        path = self.folder / f"{key}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, key: str, value: dict[str, Any]) -> dict[str, Any]:
        if self.get(key) is None:
            atomic_write(self.folder / f"{key}.json", json.dumps(value))
        return self.get(key) or value

    def claim(self, key: str) -> bool:
        return self._claims.claim(key)

    def release(self, key: str) -> None:
        self._claims.release(key)


def hang(message: str) -> None:
    """Raise an error whose constructor asks for more than a message."""
    raise SimulationError(message, kind="stall", console="so far", record={"cycle": 7}, hint="wait")
