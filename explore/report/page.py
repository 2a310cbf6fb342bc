"""`report.html`: one self-contained page, whatever the names in the user's files are.

Names from users reach the page in two ways only: as HTML text escaped here, and inside a JSON block whose
`<`, `>` and `&` are written as escapes, which the page's script shows as text. A content security policy
forbids the page all network access.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common.errors import StorageError
from common.text import html_text, script_json
from explore.candidate import BatchSummary, LayerCost
from explore.report.data import ReportData
from explore.report.figures import axis_metrics
from explore.report.summary import candidate_block, cost_block, network_totals, objective_words, summary_text
from explore.report.units import milliseconds, scientific, share, si, significant
from explore.report.validation import validation_html

_ASSETS = Path(__file__).parent
#: Most points of the convergence curve; more could not be told apart on a screen.
_MAX_HISTORY = 1500
#: Most rows (layer of a candidate) that the page carries, so that it stays small: about 35 bytes each.
_MAX_LAYER_ROWS = 25_000


def page_html(data: ReportData) -> str:
    """The page as text. Raises StorageError when the plotting library's script is not installed."""
    packed = _packed_indices(data)
    parts = {
        "title": html_text(f"{data.network_names}: {objective_words(data)} (baco)"),
        "heading": html_text(data.network_names),
        "subheading": html_text(
            f"explored for {objective_words(data)} in the space '{data.search.space_name}'"
        ),
        "source": html_text(data.source),
        "summary": html_text(summary_text(data)),
        "style": (_ASSETS / "page.css").read_text("utf-8"),
        "script": _in_script((_ASSETS / "page.js").read_text("utf-8")),
        "plotly": _in_script(plotly_script()),
        "data": script_json(_payload(data, packed)),
        "packed": _packed_layers(data, packed),
        "validation": validation_html(data),
    }
    template = (_ASSETS / "page.html").read_text("utf-8")
    # one pass: a name that looks like a placeholder is not expanded again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def plotly_script() -> str:
    """Plotly's own JavaScript, from the installed package; the package itself, slow to import, is not."""
    found = importlib.util.find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text("utf-8")
    raise StorageError(
        "the script of the plotly package is missing", hint="pip install --force-reinstall plotly"
    )


def _in_script(text: str) -> str:
    """Keep a script from ending its HTML element early."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _payload(data: ReportData, packed: set[int]) -> dict[str, Any]:
    """What the page's script draws, apart from the layers of candidates other than the best."""
    best = data.best
    clock = best.accelerator.clock_mhz
    x, y = axis_metrics(data)
    return {
        "networks": data.network_names,
        "source": data.source,
        "limits": list(data.resources),
        "objective": {
            "metrics": data.objective.metrics,
            "words": objective_words(data),
            "x": x,
            "y": y,
        },
        "candidates": [_candidate(data, index, index in packed) for index in range(len(data.candidates))],
        "best": data.best_index,
        "tasks": [
            {
                "name": task.name,
                "network": task.network,
                "operators": task.operators[:40],
                "more": max(0, len(task.operators) - 40),
                "count": task.count,
                "problem": str(task.problem),
                "kind": task.problem.kind,
                "macs": task.problem.macs,
            }
            for task in data.tasks
        ],
        "layers": [
            _row(text, layer)
            for text, layer in zip(data.mapping_texts[data.best_index], data.best_layers, strict=True)
        ],
        "history": _history(data.summaries),
        "bounds": [
            {
                "name": bound.name,
                "edp": bound.edp,
                "explanation": bound.explanation,
                "predicted": bound.predicted,
            }
            for bound in data.bounds
        ],
        "host": [
            {
                "network": item.network,
                "operator": item.operator,
                "kind": item.kind,
                "count": item.count,
                "cycles": item.latency_cycles,
                "energy": item.energy_pj,
            }
            for item in data.host
        ],
        "workload": [_network(data, index) for index in range(len(data.workload.networks))],
        "facts": _facts(data),
        "cards": _cards(data, clock),
        "notes": list(data.search.notes),
        "space": data.search.space_text,
        "accelerator": best.accelerator.to_yaml(),
        "command": data.command,
    }


def _candidate(data: ReportData, index: int, packed: bool) -> dict[str, Any]:
    block = candidate_block(data, index)
    accelerator = data.candidates[index].accelerator
    cost = block["cost"]
    return {
        "id": index,
        "front": data.candidates[index].front,
        "dim": accelerator.dim,
        "flow": accelerator.dataflow,
        "spad": accelerator.scratchpad_kib,
        "acc": accelerator.accumulator_kib,
        "clock": accelerator.clock_mhz,
        "dram": accelerator.dram_bytes_per_cycle,
        "hash": accelerator.config_hash,
        "latency": _short(cost["latency_cycles"]),
        "energy": _short(cost["energy_uj"] * 1e6),
        "edp": _short(cost["edp_uj_cycles"]),
        "area": _short(cost["area_mm2"]),
        "edap": _short(cost["edap_uj_cycles_mm2"]),
        "power": _short(cost["power_w"]),
        "samples": block["samples"],
        "source": cost["source"],
        "packed": packed,
        **_validated(data, index),
    }


def _validated(data: ReportData, index: int) -> dict[str, Any]:
    """Status of a candidate that was chosen to be measured, and the prediction that a measured one came from."""
    found = data.validated.get(index)
    if found is None:
        return {}
    before = found.design.predicted
    if found.cost is None or before is None:
        return {"status": found.status}
    block = cost_block(before, found.design.accelerator.clock_mhz)
    return {
        "status": found.status,
        "was": {
            "latency": _short(block["latency_cycles"]),
            "energy": _short(block["energy_uj"] * 1e6),
            "edp": _short(block["edp_uj_cycles"]),
            "area": _short(block["area_mm2"]),
            "edap": _short(block["edap_uj_cycles_mm2"]),
            "power": _short(block["power_w"]),
        },
    }


def _row(text: str | int, layer: LayerCost) -> list[Any]:
    """Mapping, latency, energy, MACs executed, DRAM words, the latency terms, five energy terms, code style if known."""
    numbers = (
        *(layer.latency_cycles, layer.energy_pj, layer.macs, layer.accesses[3]),
        *layer.latency_terms,
        *layer.energy_terms_pj,
    )
    return [text, *(_short(value) for value in numbers), *([layer.style] if layer.style else [])]


def _packed_indices(data: ReportData) -> set[int]:
    """Candidates whose layers the page carries: the front first, then the latest, up to a limit."""
    known = [index for index, layers in enumerate(data.layers) if layers is not None]
    known.sort(key=lambda index: (not data.candidates[index].front, -index))
    return set(known[: _MAX_LAYER_ROWS // max(1, len(data.tasks))]) | {data.best_index}


def _packed_layers(data: ReportData, packed: set[int]) -> str:
    """Layers of the candidates shown, deflated and in base 64: they compress eightfold."""
    texts: dict[str, int] = {}
    rows: dict[str, list[list[Any]]] = {}
    for index in sorted(packed):
        layers = data.layers[index]
        assert layers is not None  # only such are packed
        rows[str(index)] = [
            _row(texts.setdefault(text, len(texts)), layer)
            for text, layer in zip(data.mapping_texts[index], layers, strict=True)
        ]
    content = json.dumps({"texts": list(texts), "rows": rows}, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(content.encode("ascii"), 6)).decode("ascii")


def _short(value: float) -> float | int:
    """Five significant digits, more than a page shows: half the bytes."""
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e9 else rounded


def _history(summaries: Sequence[BatchSummary]) -> dict[str, list[Any]]:
    """Improvements of the best, both ends, and enough between them."""
    kept: list[BatchSummary] = []
    step = max(1, len(summaries) // (_MAX_HISTORY // 2))
    for position, item in enumerate(summaries):
        improved = not kept or item.best_objective != kept[-1].best_objective
        if improved or position % step == 0 or position == len(summaries) - 1:
            kept.append(item)
    if len(kept) > _MAX_HISTORY:
        stride = -(-len(kept) // _MAX_HISTORY)
        kept = kept[::stride] + ([kept[-1]] if (len(kept) - 1) % stride else [])
    return {
        "samples": [item.evaluations for item in kept],
        "seconds": [round(item.seconds, 4) for item in kept],
        "best": [None if item.best_objective is None else _short(item.best_objective) for item in kept],
        "phase": [item.phase for item in kept],
    }


def _network(data: ReportData, index: int) -> dict[str, Any]:
    network = data.workload.networks[index]
    latency, energy = network_totals(data, network)
    return {
        "name": network.name,
        "source": network.source,
        "weight": data.workload.weights[index],
        "macs": network.macs,
        "words": network.weight_words,
        "operators": sum(op.repeat for op in network.operators if op.problem),
        "problems": len(network.tasks),
        "latency": latency,
        "energy": energy,
        "unsupported": [[item.operator, item.node, item.reason] for item in network.unsupported],
    }


def _cards(data: ReportData, clock_mhz: float) -> list[list[str]]:
    """Headline numbers: label, value, remark."""
    cost = data.best.cost
    seconds = milliseconds(cost.latency_cycles, clock_mhz) * 1e-3
    macs = sum(task.count * task.problem.macs for task in data.tasks)
    peak = data.best.accelerator.dim**2
    broken = [["Constraints", "not met", "these are the nearest designs"]] if data.violations else []
    cards = [
        *broken,
        ["Energy-delay product", scientific(cost.edp), "µJ·cycles"],
        ["Latency", si(seconds, "s"), si(cost.latency_cycles, "cycles")],
        ["Energy", si(cost.energy_uj * 1e-6, "J"), f"{si(macs, 'MAC')}s of work"],
        [
            "Area",
            f"{significant(cost.area_mm2)} mm²",
            f"{data.best.accelerator.dim} × {data.best.accelerator.dim} array",
        ],
    ]
    if cost.latency_cycles:
        cards.append(
            [
                "Array in use",
                share(macs / peak, cost.latency_cycles),
                f"of {peak:,} MACs a cycle",
            ]
        )
    if data.bounds and data.bounds[-1].edp > 0:
        bound = data.bounds[-1]
        cards.append(
            ["Distance to the limit", f"{significant(cost.edp / bound.edp)}×", f"{bound.name} bound"]
        )
    return cards


def _facts(data: ReportData) -> list[list[str]]:
    """Provenance as rows of a table."""
    search = data.search
    rows = [
        ["Searcher", search.searcher],
        ["Cost model", f"{search.cost_model} (of predicted latencies)"],
        ["Seed", str(search.seed)],
        ["Evaluations", f"{data.evaluations:,} (problem-mapping pairs; one with gradient counts as 3)"],
        ["Search time", f"{significant(data.seconds)} s in {len(data.summaries):,} batches"],
        ["The search", search.ended],
        ["Design space", search.space_name],
        ["Candidates kept", f"{len(data.candidates):,}"],
        ["Accelerator hash", data.best.accelerator.config_hash],
    ]
    rows += _flat(data.provenance.items())
    return rows


def _flat(items: Iterable[tuple[str, Any]], prefix: str = "") -> list[list[str]]:
    rows = []
    for key, value in items:
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, dict):
            rows += _flat(value.items(), f"{name}: ")
        elif prefix or name not in ("seed", "command"):  # shown already
            rows.append([name[:1].upper() + name[1:], str(value)])
    return rows
