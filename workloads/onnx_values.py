"""Elements of the constants of an ONNX model, read again from its file when they are asked for.

An import keeps no weights, so that models of any size can be explored; running a network needs them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.external_data_helper

from common.errors import InputError, Location
from common.files import read_input

#: Operators whose older forms the evaluator lacks, and newer ones compute the same.
_COMPATIBLE = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})

#: Deepest row of nodes between stored tensors and a constant.
_DEPTH = 200


class OnnxValues:
    """Values by name.

    Args:
        path: of the model.
        graph: as imported: without stored tensors, with functions inlined and shape computations evaluated.
        opset: version of the standard operators.
    """

    def __init__(self, path: str, graph: onnx.GraphProto, opset: int) -> None:
        self.path = path
        self.opset = opset
        self._producers = {name: node for node in graph.node for name in node.output if name}

    def __call__(self, name: str) -> np.ndarray | None:
        """Elements of a constant; None if they are stored in a file that does not exist.

        Raises:
            InputError: the file changed or is damaged, or the constant is computed by an operator that is not
                known.
        """
        return self._value(name, 0)

    def _value(self, name: str, depth: int) -> np.ndarray | None:
        stored = _stored(self.path, *_stamp(self.path)).get(name)
        if stored is not None:
            return self._tensor(name, stored)
        node = self._producers.get(name)
        if node is None or depth > _DEPTH:
            raise self._error(name, "nothing in the file gives its elements")
        inputs: dict[str, Any] = {}
        for source in filter(None, node.input):
            value = self._value(source, depth + 1)
            if value is None:
                return None
            inputs[source] = value
        return self._run(node, inputs, name)

    def _run(self, node: onnx.NodeProto, inputs: dict[str, Any], name: str) -> np.ndarray:
        import onnx.reference  # a tenth of a second that exploring has no use for

        def anything(names: Any) -> list[onnx.ValueInfoProto]:
            return [onnx.helper.make_empty_tensor_value_info(n) for n in names]

        graph = onnx.helper.make_graph([node], "constant", anything(inputs), anything([name]))
        newest = max(self.opset, 21) if node.op_type in _COMPATIBLE else self.opset
        opsets = [onnx.helper.make_opsetid("", newest)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(onnx.helper.make_opsetid(node.domain, 1))
        try:
            model = onnx.helper.make_model(graph, opset_imports=opsets)
            result = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
        except Exception as error:  # the evaluator raises whatever its operators raise
            raise self._error(name, f"{node.op_type} cannot be computed: {error}") from None
        return np.asarray(next(iter(result)))

    def _tensor(self, name: str, tensor: onnx.TensorProto) -> np.ndarray | None:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            folder = os.path.dirname(os.path.abspath(self.path))
            location = next((e.value for e in tensor.external_data if e.key == "location"), "")
            if not os.path.exists(os.path.join(folder, location)):
                return None
            copy = onnx.TensorProto.FromString(tensor.SerializeToString())
            try:
                # Refuses locations outside the model's folder.
                onnx.external_data_helper.load_external_data_for_tensor(copy, folder)
            except Exception as error:
                raise self._error(name, f"its external data cannot be read: {error}") from None
            tensor = copy
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
