"""A current folder that somebody else filled."""

import subprocess
import sys
from pathlib import Path


def hostile_folder(place: Path) -> tuple[Path, Path]:
    """A folder with a file for every module of the standard library, and the file in which each of them that is run
    leaves its name. Only those are left out that `python -m` itself loads before it looks for the module that it is to run."""
    code = "import runpy, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    folder, trace = place / "hostile", place / "executed"
    folder.mkdir()
    trace.write_text("")
    for name in sorted(sys.stdlib_module_names - set(sys.builtin_module_names) - set(loaded.split())):
        (folder / f"{name}.py").write_text(
            f"open({str(trace)!r}, 'a').write({name!r} + ' ')\nraise SystemExit('executed')\n"
        )
    (folder / "sitecustomize.py").write_text(f"open({str(trace)!r}, 'a').write('sitecustomize ')\n")
    # matplotlib's settings: a colour, and an end that no text file has
    (folder / "matplotlibrc").write_bytes(b"figure.facecolor: red\ntext.usetex: True\n\xff\xfe\n")
    return folder, trace
