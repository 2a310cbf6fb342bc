"""Small models that are quantised already, with random whole numbers, and what evaluators that are not ours make of them."""

import importlib.util
import itertools

import numpy as np
import onnx
import onnx.utils
from onnx import TensorProto, helper, numpy_helper

KINDS = {"int8": (np.int8, -128, 127), "uint8": (np.uint8, 0, 255), "int4": (np.int8, -8, 7)}
HAS_ONNXRUNTIME = importlib.util.find_spec("onnxruntime") is not None


class GivenModel:
    """Collects nodes between whole numbers. `kind`: of activations; `zeros`: whether they have zero points."""

    def __init__(self, seed=0, kind="int8", zeros=True, per_channel=False, weights="int8"):
        self.random = np.random.default_rng(seed)
        self.kind, self.zeros, self.per_channel, self.weight_kind = kind, zeros, per_channel, weights
        self.nodes, self.stored, self.inputs, self.scales = [], [], {}, {}
        self.names = (f"v{n}" for n in itertools.count())

    def constant(self, value):
        self.stored.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.stored)}"))
        return self.stored[-1].name

    def __call__(self, op, *inputs, domain="", name=None, **attributes):
        output = next(self.names)
        if op == "DequantizeLinear" and len(inputs) > 1:
            self.scales[output] = inputs[1]
        self.nodes.append(
            helper.make_node(
                op, list(inputs), [output], name or f"{op}_{output}", domain=domain, **attributes
            )
        )
        return output

    def input(self, *shape):
        """An input of real numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        return name

    def whole_input(self, shape, kind):
        """An input of whole numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = helper.make_tensor_value_info(name, kind, shape)
        return name

    def pair(self, scale, zero=None):
        """Names of a scale and a zero point of an activation; the scale is no round number, by which results would tie."""
        dtype, low, high = KINDS[self.kind]
        if zero is None:
            scale = scale * self.random.uniform(0.9, 1.1)
            zero = int(self.random.integers(low + 40, high - 40)) if self.zeros else 128 if low == 0 else 0
        return self.constant(np.float32(scale)), self.constant(dtype(zero))

    def rounded(self, x, scale, zero=None):
        """x through QuantizeLinear and DequantizeLinear."""
        pair = self.pair(scale, zero)
        return self("DequantizeLinear", self("QuantizeLinear", x, *pair), *pair)

    def scale_of(self, real):
        """Scale of what a DequantizeLinear gives."""
        return numpy_helper.to_array(self.stored[int(self.scales[real].removeprefix("c"))])

    def numbers(self, shape, axis, spread=60):
        """Whole numbers of weights, and names of them, their scales and zero points."""
        dtype, low, high = KINDS[self.weight_kind]
        middle = 128 if low == 0 else 0
        whole = np.clip(np.rint(self.random.standard_normal(shape) * spread) + middle, low, high).astype(
            dtype
        )
        count = (shape[axis],) if self.per_channel else ()
        scale = self.random.uniform(0.005, 0.02, count).astype(np.float32)
        zero = np.full(count, middle, dtype)
        return self.constant(whole), self.constant(scale), self.constant(zero), np.asarray(scale)

    def weight(self, shape, axis=0, spread=60):
        """Real weights, and their scales."""
        *names, scale = self.numbers(shape, axis, spread)
        return self("DequantizeLinear", *names, axis=axis), scale

    def bias(self, count, scale):
        """Of int32 in units of `scale`."""
        whole = self.random.integers(-2000, 2000, count).astype(np.int32)
        unit = np.broadcast_to(np.asarray(scale, np.float32), (count,) if np.ndim(scale) else ())
        return self("DequantizeLinear", self.constant(whole), self.constant(np.array(unit)), axis=0)

    def part(self, *outputs, opset=21):
        """The model of these outputs alone."""
        return onnx.utils.Extractor(self.build(*outputs, opset=opset)).extract_model(
            list(self.inputs), list(outputs)
        )

    def build(self, *outputs, opset=21, kinds=None):
        """The model; `kinds`: of outputs that are no real numbers."""
        kinds = kinds or {}
        found = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs]
        graph = helper.make_graph(self.nodes, "g", list(self.inputs.values()), found, self.stored)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def evaluators(model, inputs):
    """What ONNX's own evaluator, and onnxruntime where it is installed, make of a model: names and outputs."""
    found = {}
    domains = {node.domain for node in model.graph.node}
    if domains <= {""}:
        from onnx.reference import ReferenceEvaluator

        found["onnx.reference"] = ReferenceEvaluator(model).run(None, inputs)
    if HAS_ONNXRUNTIME:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # Products of unsigned by signed bytes, which it makes of pairs, are then exact on processors without VNNI, too; the option
        # breaks QGemm of signed bytes.
        unsigned = any(one.data_type == TensorProto.UINT8 for one in model.graph.initializer)
        if unsigned or all(node.op_type != "QGemm" for node in model.graph.node):
            options.add_session_config_entry("session.x64quantprecision", "1")
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found["onnxruntime"] = session.run(None, inputs)
    return found


def saved(model, folder, name="model"):
    """Path of a model."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return str(path)
