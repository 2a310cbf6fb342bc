"""What assistants may ask of baco: functions of the Python interface with plain values, on files below one folder.

`baco mcp` serves them by the Model Context Protocol. Every function takes and gives what JSON can say; paths are relative to the
folder, and one that leads out of it, by `..`, by links or by what a file names, is refused. No code of the folder is executed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.common.errors import InputError, Location
from baco.common.files import is_below, only_below

if TYPE_CHECKING:
    from baco.api.study import Study
    from baco.compiler.layers.layer import Layer


#: Designs of a front and rows of a table that are told at once.
_MOST_TOLD = 50
#: Longest search of one call, seconds: whoever waits for an answer gives up some time.
_MOST_SECONDS = 600.0


def _below(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of an assistant that reads files of its folder alone."""

    @functools.wraps(function)
    def call(self: Assistant, *args: Any, **kwargs: Any) -> Any:
        with only_below(self.folder):
            return function(self, *args, **kwargs)

    return call


class Assistant:
    """Functions on the files below a folder.

    Args:
        folder: is created when missing.

    Raises StorageError for a folder that cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        from baco.common.files import output_folder

        self.folder = Path(os.path.realpath(output_folder(folder)))

    @property
    def tools(self) -> list[Callable[..., Any]]:
        """The functions that are offered."""
        return [self.networks, self.explore, self.read_study, self.cost, self.compile, self.validate]

    def path(self, name: str) -> Path:
        """The path of a file or folder. Raises InputError for one that is not below the folder."""
        if not name or "\0" in name:
            raise InputError("this is no name of a file", location=Location(repr(name)))
        found = self.folder / name  # an absolute name stands for itself
        if not is_below(found, self.folder) or Path(os.path.realpath(found)) == self.folder:
            raise InputError(
                "this path leads out of the folder that is worked in",
                location=Location(name),
                hint="give a name below it, without '..'",
            )
        return found

    # ------------------------------------------------------------------ what is asked

    @_below
    def networks(self) -> list[str]:
        """Names of the built-in neural networks."""
        from baco.api.sources import networks

        return networks()

    @_below
    def explore(
        self,
        network: str,
        out: str,
        objective: str = "edp",
        space: str | dict[str, Any] = "gemmini",
        constraints: dict[str, float] | None = None,
        samples: int | None = None,
        seconds: float = 60.0,
        seed: int = 0,
        sampler: str = "gradient",
    ) -> dict[str, Any]:
        """Search for the best accelerators for a network, with a mapping for every layer. The same call again, with more
        seconds or samples, goes on.

        Args:
            network: a built-in name with options (bert_base:batch=4), or a file (model.onnx, table.yaml).
            out: folder of the study.
            objective: edp, latency, energy, area or edap; several, separated by commas, for their Pareto front.
            space: gemmini, reference, a YAML file, or the keys of such a file that differ from gemmini ({"dim": [8, 16]}).
            constraints: upper bounds: area_mm2, sram_kib, power_mw, latency_cycles, energy_uj.
            samples: budget in design points, all calls together.
            seconds: budget in seconds, all calls together, at most 600.
            seed: of all randomness.
            sampler: gradient, local, random, bayesian, genetic, two-loop, evolution, dosa or dosa-published.

        Returns the best design, the front, and how the search ended.
        """
        from baco.api.study import Study

        if not 0 < seconds <= _MOST_SECONDS:
            raise InputError(f"seconds must be from 0 to {_MOST_SECONDS:g}, not {seconds:g}")
        study = Study(
            self._network(network),
            self._file(space) if isinstance(space, str) else space,
            objective,
            constraints=constraints,
            seed=seed,
            sampler=sampler,
            out=self.path(out),
            resume=True,
        )
        study.optimize(samples, seconds, total=True, progress=False)
        study.report()
        return self._told(study)

    @_below
    def read_study(self, study: str, design: int | None = None) -> dict[str, Any]:
        """What a study holds: its best design and front, or one design's cost part by part.

        Args:
            study: its folder.
            design: number of a design, to see where its time and energy go.
        """
        found = self._study(study)
        if design is None:
            return self._told(found)
        tree = found.cost(design)
        return {"design": design, "area_mm2": tree.area_mm2, **_rows(tree)}

    @_below
    def cost(
        self,
        layer: dict[str, Any] | None = None,
        network: str | None = None,
        accelerator: str = "gemmini-default",
        mapping: str | None = None,
    ) -> dict[str, Any]:
        """What a layer or a network is predicted to cost on an accelerator, part by part, and where each figure comes from.

        Args:
            layer: sizes of a layer: {"gemm": [m, k, n]} or {"conv": [height, width, channels, outputs], "kernel": 3, "stride": 1,
                "padding": 1}, with bias, relu and groups if wanted.
            network: a network instead, as explore takes it.
            accelerator: a preset with what differs (gemmini-default,dim=32), a YAML file, or the folder of a study.
            mapping: of a layer: loops to carry it out by, as text; by default as the compiler chooses.
        """
        from baco.api.cost import cost

        tree = cost(self._work(layer, network), self._file(accelerator), mapping)
        return {"area_mm2": tree.area_mm2, **_rows(tree)}

    @_below
    def compile(
        self,
        out: str,
        layer: dict[str, Any] | None = None,
        network: str | None = None,
        accelerator: str = "gemmini-default",
        run: bool = False,
    ) -> dict[str, Any]:
        """Compile a layer or a whole network to one program (an ELF file), and simulate it if asked to.

        Args:
            out: file of the program.
            layer, network, accelerator: as of cost.
            run: simulate it and compare its results with integers, element by element.
        """
        from baco.api.programs import compile

        target = self.path(out)
        target.parent.mkdir(parents=True, exist_ok=True)
        built = compile(self._work(layer, network), self._file(accelerator))
        told: dict[str, Any] = {
            "program": os.path.relpath(built.save(target), self.folder),
            "bytes": len(built.elf),
            "accelerator": built.accelerator.name,
            "predicted_cycles": built.predicted_cycles,
            "macs": built.macs,
            "report": built.report[:_MOST_TOLD],
        }
        if run:
            done = built.run()
            told |= {
                "right": done.right,
                "wrong": list(done.wrong)[:_MOST_TOLD],
                "compared": list(done.compared),
            }
        return told

    @_below
    def validate(self, study: str, best: int = 1, seconds: float = 300.0) -> dict[str, Any]:
        """Run the best designs of a study as whole programs on their own Verilog: every output is compared, and cycles and energy
        are measured.

        Args:
            study: its folder.
            best: how many designs.
            seconds: what is not finished then is estimated; at most 600.
        """
        if not 0 < seconds <= _MOST_SECONDS:
            raise InputError(f"seconds must be from 0 to {_MOST_SECONDS:g}, not {seconds:g}")
        found = self._study(study)
        found.validate(best=best, spread=0, time_limit=seconds, progress=False)
        found.report()
        return self._told(found)

    # ------------------------------------------------------------------ what is given, what is told

    def _file(self, name: str) -> str:
        """A name as functions take it: of what comes with baco, or of a file or folder below the folder, with what follows it."""
        plain, comma, rest = name.partition(",")
        if os.sep not in plain and "." not in plain and not (self.folder / plain).exists():
            return name  # a preset, or unknown
        return f"{self.path(plain)}{comma}{rest}"

    def _network(self, spec: str) -> str:
        """A network as functions take it. Raises InputError for code."""
        from baco.workloads.inputs.load import network_names
        from baco.workloads.options import CODE_OPTION

        name, colon, rest = spec.partition(":")
        if name in network_names():
            return spec
        options = [part.partition("=")[0].strip() for part in rest.split(",")]
        if name.lower().endswith(".py") or CODE_OPTION in options:
            raise InputError(
                "code is not executed for assistants",
                location=Location(name),
                hint="export the model to ONNX",
            )
        return f"{self.path(name)}{colon}{rest}"

    def _work(self, layer: Mapping[str, Any] | None, network: str | None) -> Layer | str:
        """What is costed or compiled."""
        from baco.api.layers import conv, gemm

        if (layer is None) == (network is None):
            raise InputError("give a layer or a network")
        if network is not None:
            return self._network(network)
        options = dict(layer or {})
        for name, make in (("gemm", gemm), ("conv", conv)):
            if name in options:
                sizes = options.pop(name)
                if not isinstance(sizes, list) or len(sizes) != (3 if name == "gemm" else 4):
                    raise InputError(
                        f"{name} has {'m, k, n' if name == 'gemm' else 'height, width, channels, outputs'}"
                    )
                try:
                    return make(*sizes, **options)
                except TypeError as error:
                    raise InputError(f"this is no layer: {error}") from None
        raise InputError("a layer is a gemm or a conv", hint='{"gemm": [128, 64, 32]}')

    def _study(self, name: str) -> Study:
        from baco.api.study import load_study

        return load_study(self.path(name))

    def _told(self, study: Study) -> dict[str, Any]:
        """A study in plain values."""
        frame = study.frame()
        columns = [
            name for name in frame.columns if frame[name].dtype.kind in "biufO" and "mapping" not in name
        ]
        rows = frame[columns]
        front = rows[rows["front"]] if "front" in rows else rows
        return {
            "study": os.path.relpath(study.folder, self.folder),
            "ended": study.stopped,
            "samples": study.samples,
            "seconds": study.seconds,
            "objective": str(study.objective),
            "designs": len(frame),
            "best": _plain(rows.loc[study.data.best_index].to_dict()),
            "front": [
                _plain({"id": index, **row}) for index, row in front.head(_MOST_TOLD).to_dict("index").items()
            ],
            "report": os.path.relpath(study.folder / "report.html", self.folder),
        }


def _rows(tree: Any) -> dict[str, Any]:
    """A tree of costs in plain values, components of energy left out below parts of networks."""
    frame = tree.frame().drop(columns="source")
    if len(frame) > _MOST_TOLD:
        frame = frame[frame["kind"] != "component"]
    rows = [_plain(row) for row in frame.head(_MOST_TOLD).to_dict("records")]
    return {"parts": rows, "left_out": max(0, len(frame) - _MOST_TOLD), "sources": dict(tree.sources)}


def _plain(values: Mapping[Any, Any]) -> dict[str, Any]:
    """What JSON can say, without what is missing."""
    found = {}
    for name, value in values.items():
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, (str, bool, int)) or (
            isinstance(value, float) and value == value and abs(value) != float("inf")
        ):
            found[str(name)] = value
    return found
