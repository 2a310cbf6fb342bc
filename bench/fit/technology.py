"""Measure a technology that comes with baco: `python -m baco.bench.fit.technology NAME --liberty FILE… [--memories FILE…]`.

Netlists are kept in `results/technologies/NAME.json`, written after each design, so that a stopped run goes on; the laws go to
`accel/technologies/NAME.json`. For the clock one to ten minutes of a core for each new design, for area seconds where its modules are known.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import resources
from pathlib import Path

from baco.accel.synthesis.report import GOALS
from baco.accel.technologies.measuring import DESIGNS, fit_technology, measure
from baco.accel.technology import technology, technology_names
from baco.common.errors import BacoError
from baco.common.files import atomic_write


def main(arguments: list[str] | None = None) -> int:
    """Measure, fit, print the errors."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.fit.technology", description=main.__doc__)
    parser.add_argument("name")
    parser.add_argument("--liberty", type=Path, nargs="+", required=True, help="the standard cells")
    parser.add_argument("--memories", type=Path, nargs="*", default=[], help="memory macros")
    parser.add_argument("--optimise", choices=GOALS, default="clock", help="what netlists are made for")
    parser.add_argument("--designs", type=int, default=len(DESIGNS), help="the first ones only")
    parser.add_argument(
        "--results", type=Path, default=Path("results/technologies"), help="folder of netlists"
    )
    folder = Path(str(resources.files("baco.accel").joinpath("technologies")))
    parser.add_argument("--out", type=Path, default=folder, help="folder of technologies")
    options = parser.parse_args(arguments)
    if options.results.resolve() == options.out.resolve():
        parser.error("--results and --out are one folder, and both write NAME.json: give two")
    kept = options.results / f"{options.name}.json"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        found = measure(
            options.liberty,
            options.memories,
            kept,
            designs=options.designs,
            optimise=options.optimise,
            progress=_tell,
        )
        law = fit_technology(options.name, found, options.liberty, options.memories)
        if options.name in technology_names():  # what switches is measured by itself
            law = law.model_copy(update={"switching": technology(options.name).switching})
        atomic_write(options.out / f"{options.name}.json", law.to_json())
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(law.errors, indent=2))
    return 0


def _tell(done: int, of: int, what: str) -> None:
    print(f"{done} of {of} designs: {what}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
