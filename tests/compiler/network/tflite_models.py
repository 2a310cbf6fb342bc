"""Small TensorFlow Lite models with random whole numbers, written by the schema's own classes."""

import flatbuffers
import numpy as np

SAME, VALID = 0, 1
RELU, RELU6 = 1, 3
KINDS = {"float32": 0, "int32": 2, "uint8": 3, "int8": 9}


class TfliteModel:
    """Collects operators; a tensor is known by its number."""

    def __init__(self, seed=3):
        from ai_edge_litert import schema_py_generated as schema

        self.schema, self.random = schema, np.random.default_rng(seed)
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes = 3, []
        self.model.buffers, self.graph = [schema.BufferT()], schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs = [], [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, shape, kind="int8", scale=None, zero=0, axis=0, data=None):
        tensor = self.schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = list(shape), KINDS[kind], 0
        tensor.name = f"t{len(self.graph.tensors)}"
        if scale is not None:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.float32(scale)).tolist()
            tensor.quantization.zeroPoint = np.broadcast_to(
                zero, np.shape(tensor.quantization.scale)
            ).tolist()
            tensor.quantization.quantizedDimension = axis
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.asarray(data, kind).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, *shape, scale=0.031, zero=-7, kind="int8"):
        self.graph.inputs.append(self.tensor(shape, kind, scale, zero))
        return self.graph.inputs[-1]

    def numbers(self, *values):
        return self.tensor(np.shape(values), "int32", data=values)

    def weights(self, shape, axis, source, per_channel=True):
        """Whole numbers, and a bias in units of the products."""
        count = shape[axis]
        scale = self.random.uniform(0.003, 0.008, count if per_channel else 1)
        whole = self.random.integers(-127, 127, shape, endpoint=True)
        unit = np.float32(scale) * np.float32(self.graph.tensors[source].quantization.scale[0])
        bias = self.random.integers(-900, 900, count)
        return self.tensor(shape, "int8", scale, 0, axis, whole), self.tensor(
            (count,), "int32", unit, data=bias
        )

    def __call__(self, name, inputs, shape, scale=0.05, zero=3, kind="int8", **options):
        code = self.schema.OperatorCodeT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = (
            min(code.builtinCode, 127),
            5 if name == "FULLY_CONNECTED" else 3,
        )
        if name in (
            "ADD",
            "MUL",
            "SOFTMAX",
            "AVERAGE_POOL_2D",
            "MAX_POOL_2D",
            "LOGISTIC",
            "CONCATENATION",
            "PAD",
            "MEAN",
        ):
            code.version = 2
        if name in ("RESHAPE", "DEQUANTIZE", "QUANTIZE", "CUMSUM"):
            code.version = 1
        operator = self.schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes)
        self.model.operatorCodes.append(code)
        operator.inputs = list(inputs)
        kind_of_options = options.pop("options", None)
        if kind_of_options:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, kind_of_options)
            operator.builtinOptions = getattr(self.schema, f"{kind_of_options}T")()
            for option, value in options.items():
                assert hasattr(operator.builtinOptions, option), option
                setattr(operator.builtinOptions, option, value)
        operator.outputs = [self.tensor(shape, kind, scale, zero)]
        self.graph.operators.append(operator)
        return operator.outputs[0]

    def convolution(
        self, x, shape, scale=0.4, zero=-9, deep=False, kernel=3, stride=1, padding=SAME, act=RELU, **form
    ):
        inputs = self.graph.tensors[x].shape[-1]
        size = (1, kernel, kernel, shape[-1]) if deep else (shape[-1], kernel, kernel, inputs)
        weights = self.weights(size, 3 if deep else 0, x, **form)
        options = {"padding": padding, "strideH": stride, "strideW": stride, "fusedActivationFunction": act}
        options |= {"dilationHFactor": 1, "dilationWFactor": 1}
        name = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        kind = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
        options |= {"depthMultiplier": 1} if deep else {}
        return self(name, (x, *weights), shape, scale, zero, options=kind, **options)

    def saved(self, folder, *outputs):
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        path = folder / "model.tflite"
        path.write_bytes(bytes(builder.Output()))
        return str(path)
