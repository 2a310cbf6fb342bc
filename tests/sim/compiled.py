"""What tests compile with the compiler of the package index, kept in their cache by all that it was made from."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

#: Files beside the sources that they may include.
_INCLUDED = ("*.h", "*.ld", "*.S")


def compiled(
    language: str,
    sources: Iterable[Path],
    *,
    flags: Sequence[str] = (),
    folders: Iterable[Path] = (),
    written: Mapping[str, str] | None = None,
    script: Path | None = None,
) -> Path:
    """A program.

    Args:
        language: `cc` or `c++`.
        flags: for the compiler, without paths.
        folders: where headers are.
        written: texts of generated files by name, the headers first found; those of C++ are compiled as well.
        script: for the linker.
    """
    sources, folders, written = list(sources), list(folders), dict(written or {})
    key = hashlib.sha256(repr((importlib.metadata.version("ziglang"), language, *flags)).encode())
    included = [file for folder in folders for pattern in _INCLUDED for file in sorted(folder.glob(pattern))]
    for path in [*sources, *included, *([script] if script else [])]:
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in written.items():
        key.update(f"{name}\0{text}\0".encode())
    kept = Path(os.environ["BACO_CACHE"]) / "programs"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = kept / key.hexdigest()[:24]
    if target.exists():
        return target
    with open(kept / f"{target.name}.lock", "w") as lock, tempfile.TemporaryDirectory() as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if target.exists():
            return target
        for name, text in written.items():
            Path(scratch, name).write_text(text)
        parts = [*sources, *(Path(scratch, name) for name in written if name.endswith(".cpp"))]
        places = [f"-I{folder}" for folder in (scratch, *folders)] + ([f"-Wl,-T,{script}"] if script else [])
        partial = Path(scratch, "program")
        zig(language, *flags, *places, *parts, "-o", partial)
        made = kept / f"{target.name}.{os.getpid()}"
        made.write_bytes(partial.read_bytes())
        made.chmod(0o700)
        made.replace(target)
    return target


def zig(*arguments: str | Path) -> None:
    """Run the compiler; what it complains of fails the test."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
