"""Where a result comes from: versions, seed, configuration hash, command line, time, platform."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Any

from baco.common.processes import processors
from baco.common.text import shell_word

#: Distributions whose version can change a result.
_DISTRIBUTIONS = ("baco", "numpy", "onnx", "optuna", "pandas", "pydantic", "scipy", "torch")


def canonical_json(obj: Any) -> str:
    """JSON text that is equal for equal values: keys sorted, no spaces, ASCII, whole floats as integers.

    Raises TypeError for values that JSON does not have, ValueError for NaN and infinities.
    """
    return json.dumps(_canonical(obj), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(obj: Any) -> Any:
    if isinstance(obj, dict):
        if any(not isinstance(key, str) for key in obj):
            raise TypeError("only text keys have a canonical form")
        return {key: _canonical(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return [_canonical(value) for value in obj]
    # 16 and 16.0 are the same setting, whichever way YAML, JSON or Python wrote it
    if isinstance(obj, float) and math.isfinite(obj) and obj.is_integer() and abs(obj) < 2**53:
        return int(obj)
    return obj


def stable_hash(obj: Any) -> str:
    """First 16 hexadecimal digits of the SHA-256 of `canonical_json(obj)`.

    The same on every platform, in every process, for any order of keys.
    """
    return hashlib.sha256(canonical_json(obj).encode("ascii")).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that determine results, read without importing them.

    A package that is not installed is absent.
    """
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    """Which every Verilog file, study and report says: 15 ms to read."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Provenance:
    """What is needed to reproduce a result.

    Attributes:
        versions: as `versions()` gives them.
        seed: of all randomness.
        configuration_hash: `stable_hash` of everything that was configured.
        command: the command line, quoted for a POSIX shell.
        started: UTC time in ISO 8601, seconds resolution.
        platform: operating system, machine and processor count.
    """

    versions: dict[str, str]
    seed: int
    configuration_hash: str
    command: str
    started: str
    platform: dict[str, str | int] = field(default_factory=dict)

    @classmethod
    def now(cls, *, seed: int, configuration_hash: str, command: str | None = None) -> Provenance:
        """The record of a run that starts now; `command` defaults to this process's command line."""
        return cls(
            versions=versions(),
            seed=seed,
            configuration_hash=configuration_hash,
            command=command if command is not None else command_line(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            platform=platform_record(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def command_line(arguments: list[str] | None = None) -> str:
    """A command line that can be pasted into a shell; the program by its name, without its folder."""
    program, *rest = arguments if arguments is not None else sys.argv
    name = program.replace("\\", "/").rsplit("/", 1)[-1]
    return " ".join(map(shell_word, ["baco" if name == "__main__.py" else name, *rest]))


def platform_record() -> dict[str, str | int]:
    """System, machine and the number of processors this process may use; nothing that names a person."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": processors(),
    }
