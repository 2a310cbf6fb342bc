"""The tutorial notebook with what its cells show: `python -m tests.notebook` executes it and keeps the outputs in it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial-python.ipynb"


def executed(folder: Path) -> nbformat.NotebookNode:
    """The notebook after its cells ran from top to bottom in a folder. Raises CellExecutionError where one fails that may not."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    metadata = notebook.metadata.copy()
    # cells tagged `raises-exception` may fail, any other ends the execution
    client = NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    notebook.metadata = metadata
    return notebook


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same without what differs from run to run: the names that a kernel gives to cells, and bars that are gone."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        outputs = [one for one in cell.outputs if one.get("data", {}).get("text/html") != ""]
        # a bar that was there may have come between the parts of what was printed before it
        cell.outputs = _streams_joined(outputs)
        for one in cell.outputs:
            if one.output_type == "error":
                one.traceback = [re.sub(r"\S*ipykernel_\S+\.py", "the cell", line) for line in one.traceback]
    return notebook


def _streams_joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The same with neighbours that were printed to one stream as one."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else None
        if before is not None and output.output_type == "stream" and before.get("name") == output.name:
            before.text += output.text
        else:
            joined.append(output)
    return joined


def shown(notebook: nbformat.NotebookNode) -> list[str]:
    """What every code cell shows, as text; `figure` for a figure, by the names of what it draws."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        lines = []
        for one in cell.outputs:
            data = one.get("data", {})
            figure = data.get("application/vnd.plotly.v1+json")
            if figure is not None:
                lines.append(f"figure of {', '.join(trace['name'] for trace in figure['data'])}")
            else:
                lines.append(one.get("text") or data.get("text/plain") or "\n".join(one.get("traceback", ())))
        found.append("\n".join(lines))
    return found


def main() -> None:
    """Execute the notebook, and write it with its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(tidy(executed(Path(folder))), NOTEBOOK)


if __name__ == "__main__":
    main()
