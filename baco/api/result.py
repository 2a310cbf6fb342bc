"""`baco.Result`: what a search found, read from its study."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.api.argument_types import checked
from baco.common.errors import InfeasibleError, InputError, Location

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from baco.api.kernels import ExploredKernel, KernelVerdict
    from baco.exploration.candidate import Candidate
    from baco.exploration.objective import Objective
    from baco.exploration.report.data import ReportData
    from baco.exploration.report.why import Explanation
    from baco.exploration.studies.engine import Stopped


class Result:
    """A study: the designs that a search found, with their predicted and measured costs.

    Everything is read from the study's file when it is first asked for, and again after `validate` and `measure`. A
    *design* is an `baco.exploration.candidate.Candidate`: `accelerator` (a `baco.Accelerator`), `mappings` (one a task), `cost`
    (`latency_cycles`, `energy_uj`, `edp` in µJ·cycles, `area_mm2`, and `source`: `predicted` or `measured`).

    Attributes:
        path: the study's file.
        stopped: how the search ended: `budget` or `time` (used up), `converged` (nothing left to do) or `interrupted`;
            None for a study that was only read.
        notes: remarks of the search.
        explored: the kernel that was searched for, in the session that searches; else None.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        stopped: Stopped | None = None,
        notes: tuple[str, ...] = (),
        explored: ExploredKernel | None = None,
    ) -> None:
        self.path = study_file(Path(path))
        self.stopped = stopped
        self.notes = notes
        self.explored = explored

    @property
    def folder(self) -> Path:
        """Where the study lies, and its report when it is written."""
        return self.path.parent

    @cached_property
    def data(self) -> ReportData:
        """All that a report shows. Raises StorageError for a damaged study, InfeasibleError for one without designs."""
        return self._read()

    def _read(self) -> ReportData:
        from baco.exploration.report.study_report import report_data

        return report_data(self.path, stopped=self.stopped, notes=self.notes)

    # ------------------------------------------------------------------ designs

    @property
    def best(self) -> Candidate:
        """The design with the least objective; of several objectives, the first decides. Measured ones come first."""
        return self.data.best

    @property
    def front(self) -> list[Candidate]:
        """The Pareto front, ascending in the first of `front_metrics`."""
        from baco.exploration.report.notable import front_indices

        return [self.data.candidates[index] for index in front_indices(self.data)]

    @property
    def knee(self) -> Candidate:
        """The best compromise on the front: the nearest to the best values of all its metrics at once.

        Distances are in logarithms, each metric scaled to its range on the front. Where measuring left no design on the
        front, it is the best.
        """
        from baco.exploration.report.notable import knee_index

        index = knee_index(self.data)
        return self.best if index is None else self.data.candidates[index]

    @cached_property
    def kernel(self) -> KernelVerdict | None:
        """What came of a kernel that was explored: on the best design its block sizes, its predicted cycles, its program in
        `best/`, and once `validate` has run it there, its measured cycles. None for networks.

        Raises what compiling the kernel raises; StorageError where its files cannot be written or read.
        """
        from baco.api.kernels import kept_verdict, kernel_verdict

        if self.explored is None:
            return kept_verdict(self.best.accelerator, self.folder)
        asked, machine = self.explored, self.best.accelerator
        return kernel_verdict(asked.search, asked.work, machine, self.folder, simulate=False)

    @property
    def objective(self) -> Objective:
        """What was minimised."""
        return self.data.objective

    @property
    def front_metrics(self) -> tuple[str, ...]:
        """Axes of the front: the objectives if there are several, else latency, energy and area."""
        return self.objective.front_metrics

    @property
    def networks(self) -> list[str]:
        """Names of what was explored."""
        return [one.name for one in self.data.workload.networks]

    @property
    def cost_model(self) -> str:
        """What predicted: `instruction` or `reference`."""
        return self.data.search.cost_model

    @property
    def samples(self) -> float:
        """Design points that the search spent, all sessions."""
        return self.data.samples

    @property
    def seconds(self) -> float:
        """Search time, all sessions."""
        return self.data.seconds

    @property
    def proven_edp(self) -> float | None:
        """No design of the space has a lower EDP, µJ·cycles; None where that was not proven."""
        return self.data.proven_edp

    # ------------------------------------------------------------------ tables

    def frame(self) -> pd.DataFrame:
        """`designs()`."""
        return self.designs()

    def designs(self) -> pd.DataFrame:
        """All designs kept, a row each, with the columns of `candidates.parquet`.

        The index is the design's number, which `layers` and the report take. Columns are described on the page of
        formats.
        """
        from baco.exploration.report.tables import candidates_table

        found: pd.DataFrame = candidates_table(self.data).to_pandas()
        return found.set_index("id")

    @checked()
    def layers(self, design: int | Candidate | None = None) -> pd.DataFrame:
        """What a design's programs consist of, a row for each part: the layers first, one for each unique problem, then groups of
        operators that run as one unit, and operators that are no layers. The parts add up to the design's cost.

        Columns: `network`, `layer` (name of the part), `part` (`layer`, `group` or `operator`), `on` (`accelerator` or `host`),
        `group` (those that a layer runs in besides, with ` > ` between their members and `; ` between groups), `operators` (how many
        nodes of the graph it stands for), `count` (runs by itself), `problem`, `kind`, `macs` (of one run), `mapping`;
        `latency_cycles`, `energy_uj` (predicted, of one run), `share` (of the design's predicted cycles), `bottleneck` (a resource, or
        `group`, `operator`, `host` where none is known to limit), `style` (of the code, where the model tells); `measured_count`,
        `measured_cycles` and `measured_energy_uj` (of one run), missing where nothing was measured by itself. Of a layer that runs in
        groups alone, count is 0 and costs are missing. Where costs are of layers alone (`baco explore --cost-model reference`), what
        the host would do besides is left out.

        Args:
            design: a number of `designs()`, or a design; by default the best.

        Raises InputError for a number or design that the study does not have.
        """
        from baco.api.layer_table import part_table

        return part_table(self.data, self._index(design))

    def _index(self, design: int | Candidate | None) -> int:
        candidates = self.data.candidates
        if design is None:
            return self.data.best_index
        if isinstance(design, int):
            if 0 <= design < len(candidates):
                return design
            raise InputError(
                f"there is no design {design}",
                location=Location(str(self.path)),
                hint=f"they are numbered from 0 to {len(candidates) - 1}; see designs()",
            )
        for index, one in enumerate(candidates):
            if one is design or one == design:
                return index
        raise InputError("this design is not one of the study's", location=Location(str(self.path)))

    # ------------------------------------------------------------------ figures

    @checked()
    def plot_front(self, x: str | None = None, y: str | None = None) -> Figure:
        """All designs over two metrics (`edp`, `latency`, `energy`, `area`, `edap`), the front and the best marked.

        By default the first two of `front_metrics`. Raises InputError for an unknown metric.
        """
        from baco.api.figures import front_figure

        return front_figure(self.data, x, y)

    def plot_history(self) -> Figure:
        """The best objective over the samples spent."""
        from baco.api.figures import history_figure

        return history_figure(self.data)

    @checked()
    def plot_layers(self, design: int | Candidate | None = None) -> Figure:
        """Where the predicted cycles of a design go, part by part (as of `layers`), coloured by what bounds them."""
        from baco.api.figures import layers_figure

        return layers_figure(self.data, self.layers(design))

    # ------------------------------------------------------------------ going on

    @checked()
    def save_report(self, folder: str | Path | None = None) -> Path:
        """Write `report.html`, `summary.json`, `candidates.parquet`, `best/` and `pareto.*`, into the study's folder
        unless another is given. Returns the path of the page.

        Raises StorageError when the folder cannot be written.
        """
        from baco.common.files import output_folder
        from baco.exploration.report import write_report

        target = output_folder(folder if folder is not None else self.folder)
        write_report(self.data, target)
        return target / "report.html"

    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        from baco.exploration.report.summary import summary

        return summary(self.data)

    def explain(self) -> Explanation:
        """Why the best design is the best, and what else there is: what limits it, what one step in each parameter of its hardware
        would change with layers mapped anew, and which designs to take instead.

        The first call takes seconds. Raises InfeasibleError where no design is feasible.
        """
        from baco.exploration.report.why import explanation

        found = explanation(self.data)
        if found is None:
            raise InfeasibleError(
                "no design satisfies the constraints, so that there is none to explain",
                location=Location(str(self.path)),
            )
        return found

    def reload(self) -> None:
        """Read the study again, when another process has worked on it."""
        for name in ("data", "kernel"):
            self.__dict__.pop(name, None)

    def __repr__(self) -> str:
        count = len(self.data.candidates)
        return f"<Result {', '.join(self.networks)}: {count} designs, best {self.best!r}>"

    def _repr_html_(self) -> str:
        from baco.api.html import result_html

        return result_html(self.data)


def study_file(place: Path) -> Path:
    """The study in a folder, or the file itself. Raises InputError when there is none."""
    import os

    from baco.exploration.studies.study import FILE_NAME

    # os.path, unlike Path, takes names that no file can have for missing ones
    study = place / FILE_NAME if os.path.isdir(place) else place
    if not os.path.exists(study):
        raise InputError(
            "there is no study here",
            location=Location(str(place)),
            hint=f"a study's folder holds {FILE_NAME}; explore writes one",
        )
    return study
