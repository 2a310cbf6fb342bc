"""That no argument of an operator is passed over: those that its handler did not read are refused by name.

What there is to read comes from the operator's schema in PyTorch, never from the handler.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

_SHAPE = "the shape of the result follows from it"
_TRAINING = "only training uses it"
_KERNELS = "it chooses among kernels that compute the same"
_MEMORY = "where and how memory is laid out"

#: Arguments of views whose result's shape says the same.
_SHAPES = dict.fromkeys(
    (
        *(
            "size",
            "sizes",
            "shape",
            "split_size",
            "split_sizes",
            "sections",
            "indices",
            "indices_or_sections",
        ),
        *("tensor_indices_or_sections", "chunks", "start_dim", "end_dim", "stride", "other"),
    ),
    _SHAPE,
)

#: By operator ("": any), arguments that handlers need not read, and why.
HARMLESS: dict[str, dict[str, str]] = {
    "": {
        **dict.fromkeys(("memory_format", "layout", "device", "pin_memory", "non_blocking", "copy"), _MEMORY),
        **dict.fromkeys(
            ("cudnn_enabled", "cudnn_enable", "benchmark", "deterministic", "allow_tf32"), _KERNELS
        ),
        **dict.fromkeys(("momentum", "generator", "scale_grad_by_freq", "sparse", "padding_idx"), _TRAINING),
        "dtype": "whole numbers as a result are refused; int8 is as good as any real type",
        "half_to_float": "int8 is as good as any real type",
        "implicit": _SHAPE,
    },
    "scaled_dot_product_attention": {"enable_gqa": "the shapes of keys and values say it"},
}
for _name in (
    *("view", "reshape", "_unsafe_view", "flatten", "view_as", "_reshape_alias", "expand", "expand_as"),
    *("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "broadcast_to"),
    *("to", "_to_copy", "type_as"),
):
    HARMLESS[_name] = _SHAPES
for _name in ("squeeze", "unsqueeze", "unflatten"):
    HARMLESS[_name] = {**_SHAPES, "dim": _SHAPE}
for _name in ("dropout", "native_dropout", "feature_dropout", "alpha_dropout"):
    HARMLESS[_name] = {"p": "nothing is dropped without training"}
for _name in ("native_group_norm", "group_norm"):
    HARMLESS[_name] = dict.fromkeys(("N", "C", "HxW", "num_channels"), "of the input's shape")
for _name in ("nearest1d", "nearest2d", "linear1d", "bilinear2d"):
    HARMLESS[f"upsample_{_name}"] = {"output_size": _SHAPE}
for _name in ("nearest_exact1d", "nearest_exact2d"):
    HARMLESS[f"_upsample_{_name}"] = {"output_size": _SHAPE}

#: Operators whose results are whole numbers whatever they read.
_WHOLE_RESULTS = frozenset(
    (
        *("argmax", "argmin", "_to_copy", "to", "type_as", "long", "int"),
        *("quantize_per_tensor", "quantize_per_channel", "choose_qparams", "choose_qparams_symmetric"),
    )
)


class Arguments(dict[str, Any]):
    """Arguments of an operator by name, which remember what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The argument, or the default if the operator has none of this name."""
        self.read.add(name)
        return super().get(name, default)

    def read_tensors(self) -> None:
        """Every argument that is a tensor, or a list of them, was asked for."""
        for name, value in self.items():
            values = value if isinstance(value, (list, tuple)) else (value,)
            if any(isinstance(one, Node) for one in values):
                self.read.add(name)


def passed_over(node: Node, name: str, arguments: Arguments) -> list[str]:
    """What the node says beyond what was read of it, each in words.

    Args:
        name: of its operator, without overload.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return []
    harmless = {**HARMLESS[""], **HARMLESS.get(name, {})}
    missed = []
    for argument in target._schema.arguments:
        given = dict.get(arguments, argument.name)
        if argument.name in arguments.read or argument.name in harmless or given is None:
            continue
        if argument.has_default_value() and given == argument.default_value:
            continue
        shown = "" if isinstance(given, Node) else f"={str(given)[:60]}"
        missed.append(f"{argument.name}{shown} is not supported")
    if name not in _WHOLE_RESULTS and _rounds(node):
        missed.append("whole numbers as its result are not supported")
    return missed


def _rounds(node: Node) -> bool:
    """Whether real numbers become whole ones."""
    result = node.meta.get("val")
    sources = [source.meta.get("val") for source in node.all_input_nodes]
    if not isinstance(result, torch.Tensor) or _is_real(result) or result.dtype is torch.bool:
        return False
    return any(isinstance(x, torch.Tensor) and _is_real(x) for x in sources)


def _is_real(x: torch.Tensor) -> bool:
    return x.dtype.is_floating_point or x.dtype.is_complex
