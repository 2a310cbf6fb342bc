"""Transfers between main memory and accelerator: bytes and requests that rows of a tensor take.

Sources: the read side of the memory interface (`accel/rtl/baco_dma_read.v`): a row in memory is fetched in naturally
aligned requests of powers of two that hold no beat without a wanted byte; rows less than a beat apart are one span. The
simulator's main memory (`sim/cpp/dram.h`): one channel, in order, a latency for every read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from baco.compiler.analysis.traffic import covered
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.batch import HardwareBatch
from baco.compiler.latency.tiling import Rounding

#: Bytes that the channel moves at least (`baco.sim.job.MainMemory.burst_bytes`).
_BURST = 8.0
_MOST_ALIGNED = 64.0
_ARRAYS = TensorArrays(Rounding())


@dataclass(frozen=True)
class RowTransfer:
    """What some rows take, (B,) each.

    Attributes:
        bytes: that the channel moves.
        beats: cycles of the port.
        requests: reads requested.
    """

    bytes: Tensor
    beats: Tensor
    requests: Tensor

    def __add__(self, other: RowTransfer) -> RowTransfer:
        return RowTransfer(self.bytes + other.bytes, self.beats + other.beats, self.requests + other.requests)


def lowest_bit(x: Tensor) -> Tensor:
    """Largest power of two up to 64 that divides a number, rounded first; 64 for 0. Without gradient."""
    whole = torch.round(x.detach()).to(torch.int32)
    bit = whole & -whole
    return torch.where(whole == 0, torch.full_like(bit, 64), bit).clamp_max(64).to(x.dtype)


def read(
    spans: Tensor, useful: Tensor, pitch: Tensor, aligned: Tensor, hardware: HardwareBatch
) -> RowTransfer:
    """Rows in memory that loads fetch.

    Args:
        spans: rows.
        useful: bytes of all of them.
        pitch: bytes from row to row.
        aligned: power of two that where rows begin is a multiple of.
    """
    beat = hardware.beat
    width = useful / spans.clamp_min(1e-9)
    if hardware.profile.covers:
        requests, beats, _ = covered(_ARRAYS, hardware.machine, aligned, width)
        return RowTransfer(spans * beats * beat, spans * beats, spans * requests)
    merged = (pitch - width < beat) & (pitch >= width - 1e-6)
    # mean beats of a row whose first byte is at any multiple of `aligned` in its beat
    sure = torch.minimum(aligned, beat)
    beats = torch.maximum(width / beat + 1 - sure / beat, torch.ones_like(width))
    beats = torch.where(merged, pitch / beat, beats)
    bytes_ = beats * beat
    # requests of a row: as few as its size needs, and more where it begins inside a larger one
    requests = torch.maximum(bytes_ / hardware.request, torch.ones_like(bytes_))
    odd = (bytes_ > aligned * 1.01) & (bytes_ > beat * 1.01)
    requests = torch.where(odd, requests + 0.75, requests)
    requests = torch.where(merged, bytes_ / hardware.request, requests)
    return RowTransfer(spans * bytes_, spans * beats, spans * requests)


def write(spans: Tensor, useful: Tensor, aligned: Tensor, hardware: HardwareBatch) -> RowTransfer:
    """Rows in memory that stores write; the requests are beats."""
    width = useful / spans.clamp_min(1e-9)
    if hardware.profile.covers:
        requests, beats, several = covered(_ARRAYS, hardware.machine, aligned, width)
        busy = spans * (beats + several * hardware.profile.write_cycles)
        return RowTransfer(busy * hardware.beat, busy, spans * requests)
    sure = torch.minimum(aligned, hardware.beat)
    beats = torch.maximum(width / hardware.beat + 1 - sure / hardware.beat, torch.ones_like(width))
    burst = torch.clamp(aligned, max=_BURST)
    bytes_ = torch.maximum(width + _BURST - burst, torch.full_like(width, _BURST))
    return RowTransfer(spans * bytes_, spans * beats, spans * beats)
