"""Elements of the constants of an ONNX model, read again from its file when they are asked for.

An import keeps no weights, so that models of any size can be explored; running a network needs them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import onnx

from baco.common.errors import InputError, Location
from baco.common.files import read_input
from baco.workloads.onnx.evaluate import evaluate_node
from baco.workloads.onnx.external import is_external, read_external

#: Deepest row of nodes between stored tensors and a constant.
_DEPTH = 200
#: Elements of a constant that is computed.
_MOST_ELEMENTS = 1 << 28


class OnnxValues:
    """Values by name.

    Args:
        path: of the model.
        graph: as imported: without stored tensors, with functions inlined and shape computations evaluated.
        version: of the operator set that a node is from.
        shapes: of all values whose shape is known; nothing else is computed.
        stored: tensors by name, where the file is none of ONNX's.
    """

    def __init__(
        self,
        path: str,
        graph: onnx.GraphProto,
        version: Callable[[onnx.NodeProto], int],
        shapes: Mapping[str, tuple[int, ...]],
        stored: Mapping[str, onnx.TensorProto] | None = None,
    ) -> None:
        self.path = path
        self.version = version
        self.shapes = shapes
        self._given = stored
        self._producers = {name: node for node in graph.node for name in node.output if name}

    def __call__(self, name: str) -> np.ndarray | None:
        """Elements of a constant; None if they are stored in a file that does not exist.

        Raises:
            InputError: the file changed or is damaged, or the constant is computed by an operator that is not
                known, or from too much.
        """
        return self._value(name, {}, 0)

    def _value(self, name: str, found: dict[str, np.ndarray | None], depth: int) -> np.ndarray | None:
        """Elements of a constant; `found` holds those that are known, since several nodes may read one."""
        if name not in found:
            found[name] = self._compute(name, found, depth)
        return found[name]

    def _compute(self, name: str, found: dict[str, np.ndarray | None], depth: int) -> np.ndarray | None:
        tensors = _stored(self.path, *_stamp(self.path)) if self._given is None else self._given
        stored = tensors.get(name)
        if stored is not None:
            return self._tensor(name, stored)
        node = self._producers.get(name)
        if node is None or depth > _DEPTH:
            raise self._error(name, "nothing in the file gives its elements")
        if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].name == "value":
            return self._tensor(name, node.attribute[0].t)
        self._check(name, node)
        inputs: dict[str, np.ndarray] = {}
        for source in filter(None, node.input):
            value = self._value(source, found, depth + 1)
            if value is None:
                return None
            inputs[source] = value
        try:
            results = evaluate_node(node, inputs, self.version(node))
        except ValueError as error:
            raise self._error(name, f"{node.op_type} {error}") from None
        found.update(results)
        return results[name]

    def _check(self, name: str, node: onnx.NodeProto) -> None:
        """Refuse to compute what has no known size, or too large a one."""
        for output in filter(None, node.output):
            shape = self.shapes.get(output)
            if shape is None:
                raise self._error(name, f"{node.op_type} gives a constant of unknown shape")
            if math.prod(shape) > _MOST_ELEMENTS:
                raise self._error(name, f"{node.op_type} gives a constant of {math.prod(shape):,} elements")

    def _tensor(self, name: str, tensor: onnx.TensorProto) -> np.ndarray | None:
        if is_external(tensor):
            try:
                whole = read_external(tensor, os.path.dirname(os.path.abspath(self.path)))
            except InputError as error:
                raise self._error(name, error.message) from None
            if whole is None:
                return None
            tensor = whole
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError) as error:
            raise self._error(name, f"its elements are damaged: {error}") from None

    def _error(self, name: str, message: str) -> InputError:
        text = message.splitlines()[0][:200]
        return InputError(text, location=Location(self.path, node=name))


def _stamp(path: str) -> tuple[int, int]:
    """Changes with the file."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(
            f"the model can no longer be read: {error.strerror}", location=Location(path)
        ) from None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1)
def _stored(path: str, modified: int, size: int) -> dict[str, onnx.TensorProto]:
    """Stored tensors by name; of one model at a time."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(read_input(path, limit_bytes=2**31 - 1))
    except Exception as error:
        raise InputError(f"the model can no longer be read: {error}", location=Location(path)) from None
    return {tensor.name: tensor for tensor in model.graph.initializer}
