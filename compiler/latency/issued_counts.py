"""What explicit code is made of, in totals, for who goes through it command by command (`baco.compiler.latency.issued`)."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass

import torch
from torch import Tensor

from baco.accel.dataflows import RELEVANT
from baco.compiler.analysis.profile import TimingProfile
from baco.compiler.analysis.traffic import RowTransfer, cache_lines
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.host import HostCost, by_blocks, host_costs, opens_ahead, paced_moves
from baco.compiler.latency.tiling import BatchTiling
from baco.compiler.latency.transfers import transfers
from baco.compiler.styles.explicit.extents import LOOP, NONE, PIXELS, product
from baco.workloads.problem import DIMS


@dataclass(frozen=True)
class TileMoves:
    """Commands that move a kind of tile, in totals.

    Attributes:
        fills: how often a tile is moved.
        commands, runs: of all, and innermost loops that issue them.
        host, port, rows: cycles of the host core, of the port, and of rows of the local memories.
        fresh: cycles in which memory fills the lines that are touched first.
        again: share of these for tiles that come again.
        lost: cycles in which it fills lines again that neighbouring tiles share.
        pitch, step: bytes from row to row, and what rows begin at multiples of; width: of a command.
        copies: of the tile; paced: whether they go between passes.
    """

    fills: float
    commands: float
    runs: float
    host: float
    port: float
    rows: float
    fresh: float
    again: float
    lost: float
    pitch: float
    step: float
    width: float
    copies: float
    paced: float

    @property
    def count(self) -> int:
        """Commands of a tile."""
        return round(self.commands / self.fills) if self.commands else 0

    @property
    def run(self) -> int:
        """Commands of an innermost loop."""
        return max(1, round(self.commands / max(1.0, self.runs)))

    @property
    def ahead(self) -> bool:
        """Whether they may come while another copy is in use."""
        return self.copies > LOOP


@dataclass(frozen=True)
class CodeNumbers:
    """Totals of a mapping's code, sizes of tiles and of the machine; `host_*` are cycles of the host core."""

    visits: float
    blocks: float
    tiles: float
    passes: float
    weight_blocks: float
    runs: float
    groups: float
    pixels: float
    columns: float
    host_program: float
    host_visits: float
    host_fills: float
    host_passes: float
    block_k: float
    block_c: float
    bound_k: float
    bound_c: float
    tile_k: float
    result_size: float
    opens_ahead: float
    by_blocks: float
    dim: float
    beat: float
    latency: float
    array_speed: float
    load_entries: float
    execute_entries: float
    store_entries: float


def _rows(columns: Dictionary[str, Tensor], like: Tensor) -> list[dict[str, float]]:
    """Numbers by name of each element of a batch."""
    lists = [(column.to(like.dtype) + 0 * like).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def code_totals(
    t: BatchTiling, c: Commands, host: Dictionary[str, float]
) -> tuple[list[CodeNumbers], list[list[TileMoves]], list[list[tuple[str, int]]]]:
    """Of each element of a batch: numbers, weights, inputs, openings and stores, and loops over blocks, innermost first."""
    zero, hw, layer, a = torch.zeros_like(c.visits), t.hardware, t.layer, t.a
    profile = hw.profile
    cost_of, _, _ = host_costs(t, c, host)
    pixels = t.bounds["P"] * t.bounds["Q"] * t.bounds["N"]
    tiles = t.tiles_counted["P"] * t.tiles_counted["Q"] * t.tiles_counted["N"]
    size = 1.0 + 3.0 * layer.raw
    numbers = {
        "visits": c.visits, "blocks": c.blocks, "tiles": c.tiles, "passes": c.passes, "weight_blocks": c.weight_blocks,
        "runs": c.runs, "groups": t.groups + zero, "pixels": pixels / tiles, "columns": a.up(t.tile["K"] / t.dim),
        "host_program": cost_of("program"), "host_visits": cost_of("visit", "block", "leave", "open"),
        "host_fills": cost_of("fill"), "host_passes": cost_of("column", "window", "weight", "run", "beat", "pass"),
        "block_k": t.block["K"], "block_c": t.block["C"], "bound_k": t.bounds["K"], "bound_c": t.bounds["C"],
        "tile_k": t.tile["K"], "result_size": size, "opens_ahead": opens_ahead(t, c), "by_blocks": by_blocks(c),
        "dim": hw.dim, "beat": hw.beat, "latency": 2.0 * hw.groups + 3.0, "array_speed": hw.array_speed + zero,
        "load_entries": hw.load_entries, "execute_entries": hw.execute_entries, "store_entries": hw.store_entries,
    }  # fmt: skip
    moves = _moves(t, c, cost_of, profile)
    names = {name: (t.rank[name] + zero).tolist() for name in DIMS}
    steps = {name: (t.steps[name] + zero).tolist() for name in DIMS}
    groups = (t.groups + zero).tolist()
    loops = []
    for at in range(len(groups)):
        inside = sorted((names[d][at], d, round(steps[d][at])) for d in DIMS if names[d][at] < NONE)
        around = [("groups", round(groups[at]))] if groups[at] > LOOP else []
        loops.append([*((d, count) for _, d, count in inside), *around])
    return (
        [CodeNumbers(**row) for row in _rows(numbers, zero)],
        [[TileMoves(**row) for row in _rows(kind, zero)] for kind in moves],
        loops,
    )


def _moves(t: BatchTiling, c: Commands, cost_of: HostCost, profile: TimingProfile) -> list[dict[str, Tensor]]:
    """Fields of `TileMoves` of weights, inputs, openings of tiles, and stores."""
    zero, hw, layer, a, line = torch.zeros_like(c.visits), t.hardware, t.layer, t.a, profile.line_bytes
    groups, size = t.groups + zero, 1.0 + 3.0 * layer.raw
    traffic, paced = transfers(t, c, zero), paced_moves(t, c)
    bounds, pixels = t.bounds, product([t.bounds[d] for d in PIXELS]) * t.groups

    def steps(pitch: Tensor) -> Tensor:
        return torch.minimum(a.power(pitch + zero), zero + line)

    pitches = (
        layer.weight_pitch + zero,
        layer.input_pitch * t.column.step + zero,
        layer.output_pitch * size + zero,
    )
    times = [t.repeats(RELEVANT[operand]) + zero for operand in "WI"]
    slabs = t.over_blocks("C", t.chunks(t.input_width))
    image = bounds["N"] * layer.height * layer.width * groups
    lines = [
        cache_lines(a, hw, rows, columns, pitch, 1.0, groups)
        for rows, columns, pitch in (
            (bounds["R"] * bounds["S"] * bounds["C"] * groups, bounds["K"] * layer.weight_size, pitches[0]),
            (torch.minimum(c.input_spans / (times[1] * slabs), image), bounds["C"], pitches[1]),
            (pixels, bounds["K"] * size, pitches[2]),
        )
    ]
    every = lines[0] + lines[1] + lines[2]
    fill = profile.fill_cycles(every) / every
    step, piece = steps(pitches[2]), torch.minimum(t.tile["K"], t.dim) * size
    shared = _shared_lines(t, profile, pitches[2], step, size, pixels)
    # whole lines are written without being read
    parts = torch.minimum(piece, step) < line

    def moved(
        fills: Tensor,
        commands: Tensor,
        runs: Tensor,
        kind: str,
        transfer: RowTransfer,
        rows: Tensor,
        fresh: Tensor,
        **more: Tensor,
    ) -> dict[str, Tensor]:
        others = {
            "again": zero,
            "lost": zero,
            "step": zero + line,
            "pitch": zero + line,
            "width": zero + line,
        }
        host = cost_of(*kind.split())
        return {
            "fills": fills, "commands": commands, "runs": runs, "host": host, "port": transfer.beats, "rows": rows,
            "fresh": fresh, **(others | more),
        }  # fmt: skip

    opening = c.bias_loads + c.residual_loads
    return [
        moved(
            c.weight_fills, c.weight_loads, c.weight_runs, "weights", traffic.weights, c.weight_rows, lines[0] * fill,
            again=profile.lost_of(lines[0] * line), pitch=pitches[0], step=steps(pitches[0]), width=t.weight_width,
            copies=t.copies[0], paced=paced.weights,
        ),
        moved(
            c.input_fills, c.input_loads + c.zero_loads, c.input_runs, "inputs zeros", traffic.inputs, c.input_rows, lines[1] * fill,
            again=profile.lost_of(lines[1] * line), pitch=pitches[1], step=steps(pitches[1]), width=t.input_width,
            copies=t.copies[1], paced=paced.inputs,
        ),
        moved(
            c.tiles, opening, c.result_runs * opening / c.stores, "opening", traffic.opening,
            c.result_rows * (layer.bias + layer.residual), lines[2] * fill * layer.residual,
            copies=t.copies[2], paced=paced.opening,
        ),
        moved(
            c.tiles, c.stores, c.result_runs, "stores", traffic.stored, c.result_rows * profile.store_pace,
            torch.where(parts, lines[2] * fill, zero), lost=torch.where(parts, shared * fill, zero),
            pitch=pitches[2], step=step, width=piece, copies=t.copies[2], paced=paced.stores,
        ),
    ]  # fmt: skip


def _shared_lines(
    t: BatchTiling, profile: TimingProfile, pitch: Tensor, step: Tensor, size: Tensor, pixels: Tensor
) -> Tensor:
    """Lines of results that memory fills again: a tile's columns begin and end in lines that its neighbours have, which come for good
    where all pixels do before.

    Args:
        pitch, step: bytes from row to row of the results, and what rows begin at multiples of.
        size: bytes of a result.
        pixels: of all groups.
    """
    zero, line, tile_k, bound_k = torch.zeros_like(pitch), profile.line_bytes, t.tile["K"], t.bounds["K"]
    width = tile_k * size
    beside = torch.where(tile_k < bound_k, line - torch.minimum(t.a.power(width), step), zero)
    innermost = torch.stack([t.rank[d] + zero for d in PIXELS]).amin(0)
    apart = (t.rank["K"] > innermost) & (t.rank["K"] < NONE)
    sets = torch.where(t.a.power(pitch) >= line, t.a.power(pitch), zero)
    tile = product([t.tile[d] for d in PIXELS])
    between = torch.where(apart, pixels * torch.maximum(width + beside, sets), tile * width)
    again: Tensor = pixels * (bound_k / tile_k - 1.0) * beside / line * profile.lost(between)
    return again
