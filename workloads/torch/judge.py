"""What a PyTorch model computes: the model itself, as it was exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


@dataclass(frozen=True, eq=False)
class TorchJudge:
    """Runs the exported model; see `baco.workloads.network.Judge`.

    Attributes:
        program: as it was exported.
        inputs: names of the network's inputs, one for each tensor that the model is given, in order.
        outputs: positions of the network's outputs among what the model returns.
    """

    program: ExportedProgram
    inputs: Sequence[str]
    outputs: Sequence[int]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[str, list[np.ndarray]]:
        """The evaluator's name, and the model's outputs in their order. Raises ValueError, with the reason, where it fails."""
        if any(tensor.is_meta for tensor in self.program.state_dict.values()):
            raise ValueError("its weights have no values")
        leaves, structure = pytree.tree_flatten(self.program.example_inputs)
        names = iter(self.inputs)
        try:
            given = [self._given(leaf, next(names), inputs) if _tensor(leaf) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(given, structure)
            with torch.no_grad():
                results, _ = pytree.tree_flatten(self.program.module()(*args, **kwargs))
            arrays = [results[index] for index in self.outputs]
            return f"torch {torch.__version__}", [_array(array) for array in arrays]
        except Exception as error:  # whatever the user's operators raise
            lines = str(error).strip().splitlines()
            raise ValueError((lines[0] if lines else type(error).__name__)[:160]) from None

    def _given(self, example: torch.Tensor, name: str, inputs: Mapping[str, np.ndarray]) -> torch.Tensor:
        """An input as the model wants it; one that takes no part in the results holds zeros."""
        if name not in inputs:
            return torch.zeros(example.shape, dtype=example.dtype)
        return torch.from_numpy(np.array(inputs[name])).to(example.dtype)


def _tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _array(value: torch.Tensor) -> np.ndarray:
    value = value.detach().cpu()
    return np.asarray((value.float() if value.is_floating_point() else value).numpy())
