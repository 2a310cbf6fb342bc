"""The instruction-aware latency model: cycles of a mapping as the compiler realises it, from the commands it takes."""

from explore.cost.instruction.batch import HardwareBatch, LayerBatch
from explore.cost.instruction.model import InstructionLatency, latency, predict_layers

__all__ = ["HardwareBatch", "InstructionLatency", "LayerBatch", "latency", "predict_layers"]
