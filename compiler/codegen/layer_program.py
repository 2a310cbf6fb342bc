"""One layer as a program of its own: tensors in the file, one call, results checked or read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer, packed_nibbles, stored_blocks
from baco.compiler.layers.operands import Operands
from baco.compiler.main_memory import check_memory
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


Array: TypeAlias = "np.ndarray[Any, Any]"
#: Tensors that a layer reads, in the order of the function's arguments; the output and workspaces follow.
_OPERANDS = ("input", "weight", "bias", "residual")


def check_layer_memory(layer: Layer) -> None:
    """Raises InfeasibleError, with the bytes of the tensors, for a layer that no program can hold."""
    results = layer.output_bits // 8
    tensors = {
        "input": layer.input_extent * layer.element_bytes,
        "weights": layer.weight_bytes,
        "bias": 4 * layer.problem.groups * layer.problem.K if layer.bias else 0,
        "residual": layer.residual_extent * layer.element_bytes if layer.residual_scale is not None else 0,
        "output": results * layer.output_extent,
    }
    check_memory("the layer", tensors, hint="make it smaller: fewer images, pixels, channels or groups")


def layer_buffers(
    layer: Layer,
    schedule: Schedule,
    accelerator: Accelerator,
    tensors: Mapping[str, Array],
    expected: Array | None = None,
) -> tuple[Buffer, ...]:
    """Buffers of a layer's function, in the order of its arguments.

    Args:
        tensors: flat `input`, `weight` (elements, whatever their bits in memory, in blocks or not) and, where the layer has them, `bias` and
            `residual`.
        expected: flat output, for a program that checks itself.

    Elements of the output that the layer does not write are 0 at the start.
    """
    out = np.dtype(f"int{layer.output_bits}")
    if layer.weight_bits == 4:
        tensors = {**tensors, "weight": packed_nibbles(tensors["weight"])}
    if layer.weight_blocks is not None:
        tensors = {**tensors, "weight": stored_blocks(layer, tensors["weight"])}
    buffers = [
        Buffer(name, tensors[name].shape, str(tensors[name].dtype), "input", tensors[name])
        for name in _OPERANDS
        if name in tensors
    ]
    dense = layer.output_extent == layer.pixels_stored * layer.problem.K * layer.problem.groups
    start = None if dense else np.zeros(layer.output_extent, out)
    buffers.append(Buffer("output", (layer.output_extent,), str(out), "output", start, expected))
    for name, size in plan_layer(layer, schedule, accelerator).workspaces:
        buffers.append(Buffer(name, (size,), "uint8", "workspace"))
    return tuple(buffers)


def layer_module(
    layer: Layer, schedule: Schedule, accelerator: Accelerator, name: str, arguments: tuple[str, ...]
) -> ModuleOp:
    """A module at the `instgem` level with one function whose arguments are addresses, named as `layer_buffers` does.

    Raises InfeasibleError, which names the reason, for a schedule that the accelerator cannot carry out.
    """
    e = Emitter(name, arguments)
    addresses = dict(zip(arguments, e.arguments, strict=True))
    extra = {one: addresses[one] for one in arguments if one not in (*_OPERANDS, "output")}
    operands = Operands(
        input=addresses["input"],
        weight=addresses["weight"],
        output=addresses["output"],
        bias=addresses.get("bias", 0),
        residual=addresses.get("residual", 0),
        workspaces=extra,
    )
    plan_layer(layer, schedule, accelerator).emit(e, operands)
    e.fence()
    return e.finish()


def layer_program(
    layer: Layer,
    schedule: Schedule,
    accelerator: Accelerator,
    tensors: Mapping[str, Array],
    *,
    expected: Array | None = None,
    name: str = "layer",
    observe: Callable[[str, ModuleOp], None] | None = None,
) -> Program:
    """Compile a layer; with `expected` the program compares its output itself and exits with 1 where it is wrong.

    Raises as `layer_module` and `build_program`.
    """
    buffers = layer_buffers(layer, schedule, accelerator, tensors, expected)
    module = layer_module(layer, schedule, accelerator, name, tuple(one.name for one in buffers))
    return build_program(module, name, buffers, accelerator, check=expected is not None, observe=observe)
