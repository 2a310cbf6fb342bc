"""TensorFlow Lite (LiteRT) models as networks, by way of ONNX's operators (`baco.workloads.tflite.operators`)."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.common.files import read_input
from baco.workloads.network import Network, UnsupportedNodeError
from baco.workloads.onnx.graph import network_of_model
from baco.workloads.tflite.operators import OPERATORS
from baco.workloads.tflite.writing import TfliteNode, TfliteWriter, operator_names

_PACKAGE = "ai_edge_litert"
_MAX_BYTES = 2**31 - 1
_IDENTIFIER = b"TFL3"
_VERSION = 3


def load_tflite(path: str, rest: str | None = None) -> Network:
    """The network of the first graph in a `.tflite` file; `rest` as in `baco.workloads.onnx.graph.load_onnx`.

    Tensors of whole numbers with a scale are those of the network: int8, uint8, weights of four bits.

    Raises InputError for a file that is none, damaged or cut, for scales and zero points that are missing or wrong, with the
    node's name, and where the package that reads such files is not installed.
    """
    schema, model = _parsed(path)
    writer, names = TfliteWriter(path, model), operator_names(schema)
    try:
        for index, operator in enumerate(writer.graph.operators or ()):
            code = model.operatorCodes[operator.opcodeIndex]
            kind = names.get(max(code.builtinCode, code.deprecatedBuiltinCode), "an unknown operator")
            node = TfliteNode(writer, operator, f"{kind.lower()}_{index}")
            try:
                if kind not in OPERATORS:
                    raise UnsupportedNodeError(f"there is no rule for {kind}")
                OPERATORS[kind](node)
            except UnsupportedNodeError:
                node.leave(kind)
        built = writer.built()
    except (IndexError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from None
    network = network_of_model(path, rest, built)
    inputs = [writer.names[int(index)] for index in writer.graph.inputs]
    return replace(network, judge=TfliteJudge(path, inputs))


def _damaged(path: str, error: Exception) -> InputError:
    return InputError(
        "this TensorFlow Lite model is damaged, or cut",
        location=Location(path),
        hint=str(error)[:200] or None,
    )


def _parsed(path: str) -> tuple[Any, Any]:
    """The schema, and the model as it has it."""
    data = read_input(path, limit_bytes=_MAX_BYTES)
    if data[4:8] != _IDENTIFIER:
        raise InputError("this is not a TensorFlow Lite model", location=Location(path))
    try:
        schema = importlib.import_module(f"{_PACKAGE}.schema_py_generated")
    except ImportError:
        raise InputError(
            "TensorFlow Lite models are read by the package 'ai-edge-litert', which is not installed",
            location=Location(path),
            hint="pip install 'baco[tflite]'",
        ) from None
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        complete = bool(
            model.subgraphs and model.subgraphs[0].tensors and model.operatorCodes and model.buffers
        )
    except (struct.error, IndexError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise _damaged(path, error) from None
    if model.version != _VERSION:
        raise InputError(
            f"the model is of version {model.version} of TensorFlow Lite's schema, not {_VERSION}",
            location=Location(path),
        )
    if not complete:
        raise InputError("this TensorFlow Lite model holds no graph", location=Location(path))
    return schema, model


@dataclass(frozen=True)
class TfliteJudge:
    """Runs the model by LiteRT; see `baco.workloads.network.Judge`.

    Attributes:
        path: of the model.
        inputs: names of its inputs, in order.
    """

    path: str
    inputs: list[str]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[str, list[np.ndarray]]:
        """The evaluator's name, and the model's outputs in their order. Raises ValueError, with the reason, where it fails."""
        try:
            package = importlib.import_module(f"{_PACKAGE}.interpreter")
            interpreter = package.Interpreter(model_path=self.path)
            interpreter.allocate_tensors()
            for name, detail in zip(self.inputs, interpreter.get_input_details(), strict=True):
                given = np.zeros(detail["shape"]) if name not in inputs else np.asarray(inputs[name])
                interpreter.set_tensor(detail["index"], given.astype(detail["dtype"]))
            interpreter.invoke()
            found = [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]
        except Exception as error:  # whatever its own code raises
            raise ValueError(f"LiteRT: {(str(error).strip().splitlines() or [''])[0][:160]}") from None
        return "LiteRT", found
