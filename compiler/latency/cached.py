"""What a second-level cache and few loads at a time add to the moves of explicit code (`baco.compiler.analysis.traffic`)."""

from __future__ import annotations

import torch
from torch import Tensor

from baco.accel.dataflows import RELEVANT
from baco.compiler.analysis.traffic import Moved, loaded, stored
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.tiling import BatchTiling


def cache_cycles(
    t: BatchTiling, c: Commands, weights: Tensor, inputs: Tensor, opening: Tensor, stores: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cycles of loads of weights and of inputs, of what tiles begin with, and of stores, given those of hits and of requests
    in flight; (B,) each."""
    a, layer, machine, profile = t.a, t.layer, t.hardware, t.hardware.profile
    zero = torch.zeros_like(c.visits)
    groups = layer.problem.groups + zero
    trackers = machine.requests / machine.dim + 1.0

    def held(commands: Tensor, cycles: Tensor) -> Tensor:
        return torch.maximum(
            cycles, (commands * (profile.latency + profile.command_latency) + cycles) / trackers
        )

    times = t.repeats(RELEVANT["W"])
    rows = t.bounds["R"] * t.bounds["S"] * t.bounds["C"] * groups
    once = Moved(held(c.weight_loads, weights) / times, zero, zero, c.weight_loads / times)
    width = torch.minimum(t.block["K"], t.weight_width)
    weight_cycles = loaded(
        a, machine, once, times, rows, t.bounds["K"], layer.weight_pitch + zero, width, groups=groups
    ).port

    times = t.repeats(RELEVANT["I"])
    pixels = t.bounds["N"] * layer.height * layer.width
    slabs = t.over_blocks("C", t.chunks(t.input_width))
    rows = (c.input_spans / (times * slabs)).clamp_min(1.0)
    once = Moved(held(c.input_loads, inputs) / times, zero, zero, c.input_loads / times)
    width = torch.minimum(t.block["C"], t.input_width)
    pitch = layer.input_pitch * t.column.step
    fresh = (pixels * groups / rows).clamp_max(1.0)
    input_cycles = loaded(a, machine, once, times, rows, t.bounds["C"], pitch, width, fresh, groups).port

    opening_cycles = held(c.bias_loads + c.residual_loads + c.sum_loads, opening)
    size = 1.0 + 3.0 * layer.raw
    pixels = t.bounds["P"] * t.bounds["Q"] * t.bounds["N"] * groups
    piece = torch.minimum(t.tile["K"], t.hardware.dim)
    pitch = layer.output_pitch + zero
    store_cycles = stored(
        a, machine, stores, pixels, t.bounds["K"], pitch, piece=piece, element=size, groups=groups, running=zero + 1.0
    )  # fmt: skip
    return weight_cycles, input_cycles, opening_cycles, store_cycles
