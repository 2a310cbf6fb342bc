"""The instruction-aware latency model: cycles of a mapping as the compiler realises it, from the commands it takes."""

from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.model import InstructionLatency, latency, predict_layers, schedule_cycles

__all__ = [
    "HardwareBatch",
    "InstructionLatency",
    "LayerBatch",
    "latency",
    "predict_layers",
    "schedule_cycles",
]
