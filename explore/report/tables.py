"""The parts of a report that other programs read: tables of candidates and mappings."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from baco.accel.config import PARAMETERS, Accelerator
from baco.common.table import csv_text
from baco.common.text import unfit
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import format_mapping
from baco.exploration.candidate import LayerCost
from baco.exploration.report.data import ReportData
from baco.exploration.report.summary import task_block
from baco.exploration.space.points import units_of
from baco.workloads.network import Task
from baco.workloads.problem import DIMS

#: Columns of the published mapping tables, in their order, followed by those that make a network of them.
PUBLISHED_COLUMNS = (
    *("target.cycle", "target.energy", "target.edp", "target.area", "mapping.mapping"),
    *("arch.pe", "arch.mac", "arch.meshX"),
    *("arch.mem1_entries", "arch.mem1_depth", "arch.mem1_width", "arch.mem1_instances"),
    *("arch.mem1_word-bits", "arch.mem1_network-word-bits", "arch.mem1_n_rdwr_ports"),
    *("arch.mem1_n_banks", "arch.mem1_shared_bandwidth"),
    *("arch.mem2_entries", "arch.mem2_depth", "arch.mem2_width", "arch.mem2_instances", "arch.mem2_meshX"),
    *("arch.mem2_word-bits", "arch.mem2_n_rdwr_ports", "arch.mem2_n_banks", "arch.mem2_shared_bandwidth"),
    *("arch.name", "prob.shape", "prob.C", "prob.Hdilation", "prob.Hstride", "prob.K", "prob.N"),
    *("prob.P", "prob.Q", "prob.R", "prob.S", "prob.Wdilation", "prob.Wstride"),
)
EXTRA_COLUMNS = ("count", "network", "layer")


def arch_columns(accelerator: Accelerator) -> dict[str, object]:
    """The published `arch.*` columns of an accelerator.

    Capacities are in whole entries: what does not fill an entry of every accumulator column, or a row of
    the scratchpad, does not count. Bandwidths (words a cycle) are those of the reference model: two words an
    accumulator column, two a row of the array.
    """
    dim, accumulator_bits, input_bits = accelerator.dim, accelerator.accumulator_bits, accelerator.input_bits
    accumulator = accelerator.accumulator_rows
    scratchpad = accelerator.scratchpad_kib * 8192 // input_bits
    return {
        "arch.pe": dim * dim,
        "arch.mac": 1,
        "arch.meshX": dim,
        "arch.mem1_entries": accumulator,
        "arch.mem1_depth": accumulator,
        "arch.mem1_width": accumulator_bits,
        "arch.mem1_instances": dim,
        "arch.mem1_word-bits": accumulator_bits,
        "arch.mem1_network-word-bits": 16,
        "arch.mem1_n_rdwr_ports": 2,
        "arch.mem1_n_banks": accelerator.accumulator_banks,
        "arch.mem1_shared_bandwidth": 2,
        "arch.mem2_entries": scratchpad,
        "arch.mem2_depth": accelerator.scratchpad_rows,
        "arch.mem2_width": dim * input_bits,
        "arch.mem2_instances": 1,
        "arch.mem2_meshX": 1,
        "arch.mem2_word-bits": input_bits,
        "arch.mem2_n_rdwr_ports": 1,
        "arch.mem2_n_banks": accelerator.scratchpad_banks,
        "arch.mem2_shared_bandwidth": 2 * dim,
        "arch.name": "gemmini",
    }


def mapping_row(
    accelerator: Accelerator, area_mm2: float, task: Task, mapping: Mapping, layer: LayerCost
) -> dict[str, object]:
    """One layer in the published column format.

    The bounds are the padded ones that the mapping executes, so that factors multiply to them exactly. A
    row is one group of the problem; `count` says how many of them the workload runs, so that the EDP of the
    network is Σ count·energy × Σ count·cycle. Units: cycles, µJ, J·cycles, mm².
    """
    problem = task.problem
    cycles = layer.latency_cycles / problem.groups
    energy_uj = layer.energy_pj * 1e-6 / problem.groups
    row: dict[str, object] = {
        "target.cycle": number(cycles),
        "target.energy": number(energy_uj),
        "target.edp": number(cycles * energy_uj * 1e-6),
        "target.area": number(area_mm2),
        "mapping.mapping": format_mapping(mapping),
        **arch_columns(accelerator),
        "prob.shape": "cnn-layer",
        "prob.Hdilation": problem.dilation_h,
        "prob.Hstride": problem.stride_h,
        "prob.Wdilation": problem.dilation_w,
        "prob.Wstride": problem.stride_w,
        "count": number(task.count * problem.groups),
        "network": task.network,
        "layer": task.name,
    }
    row.update((f"prob.{name}", bound) for name, bound in zip(DIMS, mapping.padded_bounds, strict=True))
    return row


def mappings_csv(data: ReportData) -> str:
    """The best candidate's mappings in the published column format, plus count, network and layer."""
    best = data.best
    columns = (*PUBLISHED_COLUMNS, *EXTRA_COLUMNS)
    rows: list[Sequence[object]] = [columns]
    for task, mapping, layer in zip(best.tasks, best.mappings, data.best_layers, strict=True):
        row = mapping_row(best.accelerator, best.cost.area_mm2, task, mapping, layer)
        rows.append([row.get(column, "") for column in columns])
    return csv_text(rows)


def mappings_yaml(data: ReportData) -> str:
    """The best candidate's mappings, one entry a layer, with all that the compiler needs to run them."""
    best = data.best
    layers = []
    for task, mapping in zip(best.tasks, best.mappings, strict=True):
        buffers = [name for name, copies in zip("WIO", mapping.buffering, strict=True) if copies == 2]
        layers.append(
            {
                **task_block(task),
                "mapping": format_mapping(mapping),
                "double_buffered": buffers,
            }
        )
    head = (
        "# One mapping for each unique problem. `problem`: loop bounds of one group, strides, dilations and\n"
        "# groups; what is left out is 1. `mapping`: level by level from DRAM (L3) to the registers (L0),\n"
        "# loops outermost first, X = spread over the array. `double_buffered`: tensors held twice (W and I\n"
        "# in the scratchpad, O in the accumulator).\n"
    )
    body = {"accelerator": best.accelerator.config_hash, "layers": layers}
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=10_000)
    if unfit(text):  # a study may hold names that files of networks may not: then everything is escaped
        text = yaml.safe_dump(body, sort_keys=False, allow_unicode=False, width=10_000)
    return head + text


def candidates_table(data: ReportData) -> pa.Table:
    """All candidates, one row each: identity, costs, accelerator, and the mappings in task order.

    The tasks (network, operators, count, bounds) are in the metadata under `baco.tasks`, as JSON.
    """
    candidates = data.candidates
    costs = [candidate.cost for candidate in candidates]
    accelerators = [candidate.accelerator for candidate in candidates]
    indices = range(len(candidates))
    predicted = [data.prediction(index) for index in indices]
    columns: dict[str, pa.Array] = {
        "id": pa.array(range(len(candidates)), pa.int32()),
        "best": pa.array([index == data.best_index for index in range(len(candidates))]),
        "front": pa.array([candidate.front for candidate in candidates]),
        "objective": pa.array([candidate.objective for candidate in candidates], pa.float64()),
        "samples": pa.array([candidate.samples for candidate in candidates], pa.int64()),
        "source": pa.array([cost.source for cost in costs]),
        "status": pa.array(
            [data.validated[i].status if i in data.validated else None for i in indices], pa.string()
        ),
        "latency_cycles": pa.array([cost.latency_cycles for cost in costs], pa.float64()),
        "energy_uj": pa.array([cost.energy_uj for cost in costs], pa.float64()),
        "edp_uj_cycles": pa.array([cost.edp for cost in costs], pa.float64()),
        "area_mm2": pa.array([cost.area_mm2 for cost in costs], pa.float64()),
        "predicted_latency_cycles": pa.array([cost.latency_cycles for cost in predicted], pa.float64()),
        "predicted_energy_uj": pa.array([cost.energy_uj for cost in predicted], pa.float64()),
        "config_hash": pa.array([accelerator.config_hash for accelerator in accelerators]),
    }
    for name in ("name", "dataflow", *PARAMETERS):
        columns[f"accelerator.{name}"] = pa.array([getattr(a, name) for a in accelerators])
    columns["accelerator.units"] = pa.array([units_of(a) for a in accelerators])
    columns["mappings"] = pa.array(data.mapping_texts, pa.list_(pa.string()))
    tasks = [task_block(task) for task in data.tasks]
    return pa.table(columns).replace_schema_metadata({"baco.tasks": json.dumps(tasks)})


def candidates_parquet(data: ReportData) -> bytes:
    """`candidates_table` as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(candidates_table(data), buffer, compression="zstd")
    return buffer.getvalue()


def number(value: float) -> Any:
    """Whole numbers without a fraction, others with all their digits."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
