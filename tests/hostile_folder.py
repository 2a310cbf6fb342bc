"""A current folder that somebody else filled."""

import sys
from pathlib import Path


def hostile_folder(place: Path) -> tuple[Path, Path]:
    """A folder with a file for every module of the standard library, and the file in which each of them that is run
    leaves its name."""
    folder, trace = place / "hostile", place / "executed"
    folder.mkdir()
    trace.write_text("")
    for name in sorted(sys.stdlib_module_names - set(sys.builtin_module_names)):
        (folder / f"{name}.py").write_text(
            f"open({str(trace)!r}, 'a').write({name!r} + ' ')\nraise SystemExit('executed')\n"
        )
    (folder / "sitecustomize.py").write_text(f"open({str(trace)!r}, 'a').write('sitecustomize ')\n")
    # matplotlib's settings: a colour, and an end that no text file has
    (folder / "matplotlibrc").write_bytes(b"figure.facecolor: red\ntext.usetex: True\n\xff\xfe\n")
    return folder, trace
