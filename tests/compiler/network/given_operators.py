"""Operators of models that are quantised already: each a function of a `GivenModel` to the name of its result.

Those of `PAIRS` stand between QuantizeLinear and DequantizeLinear; those of `WHOLE` take whole numbers, and have a twin of the
first kind.
"""

import numpy as np

MICROSOFT = "com.microsoft"


def _conv(m, group=1, image=(2, 8, 9, 7), relu=False, **attributes):
    x = m.rounded(m.input(*image), 0.03)
    w, scale = m.weight((12, image[1] // group, *[3] * (len(image) - 2)))
    y = m("Conv", x, w, m.bias(12, m.scale_of(x) * scale), group=group, **attributes)
    return m.rounded(m("Relu", y) if relu else y, 0.2)


def _transposed(m, **attributes):
    x = m.rounded(m.input(1, 8, 5, 4), 0.03)
    w, scale = m.weight((8, 6, 3, 3), axis=1)
    return m.rounded(m("ConvTranspose", x, w, m.bias(6, m.scale_of(x) * scale), **attributes), 0.2)


def _gemm(m):
    x = m.rounded(m.input(5, 20), 0.03)
    w, scale = m.weight((12, 20))
    return m.rounded(m("Gemm", x, w, m.bias(12, m.scale_of(x) * scale), transB=1), 0.1)


def _matmul(m):
    w, _ = m.weight((20, 12), axis=1)
    return m.rounded(m("MatMul", m.rounded(m.input(2, 5, 20), 0.03), w), 0.1)


def _attention(m):
    """A product of two activations, its softmax, and the product of that with a third."""
    q, k, v = (m.rounded(m.input(2, *shape), 0.03) for shape in ((5, 16), (16, 5), (5, 16)))
    scores = m.rounded(m("MatMul", q, k), 0.1)
    shares = m.rounded(m("Softmax", scores, axis=-1), 1 / 256, 0 if m.kind == "uint8" else -128)
    return m.rounded(m("MatMul", shares, v), 0.03)


def _pair(operator, relu=False, least=None):
    def make(m):
        x, y = m.rounded(m.input(2, 5, 20), 0.03), m.rounded(m.input(5, 20), 0.02)
        z = m(operator, x, m("Max", y, m.constant(np.float32(least))) if least else y)
        return m.rounded(m("Relu", z) if relu else z, 0.05)

    return make


def _unary(operator, **attributes):
    return lambda m: m.rounded(m(operator, m.rounded(m.input(2, 5, 20), 0.03), **attributes), 0.02)


def _gate(m):
    x = m.rounded(m.input(2, 5, 20), 0.03)
    return m.rounded(m("Mul", x, m("Sigmoid", x)), 0.02)


def _kept(operator, *more, shape=(1, 8, 9, 7), **attributes):
    """Elements stay in their encoding."""

    def make(m):
        pair = m.pair(0.06)
        x = m("DequantizeLinear", m("QuantizeLinear", m.input(*shape), *pair), *pair)
        y = m(operator, x, *(m.constant(one) if one is not None else "" for one in more), **attributes)
        return m("DequantizeLinear", m("QuantizeLinear", y, *pair), *pair)

    return make


def _image(operator, **attributes):
    return lambda m: m.rounded(m(operator, m.rounded(m.input(2, 8, 9, 7), 0.03), **attributes), 0.02)


def _concat(m):
    parts = m.rounded(m.input(2, 5, 20), 0.03), m.rounded(m.input(2, 3, 20), 0.02)
    return m.rounded(m("Concat", *parts, axis=1), 0.03)


def _mean(m):
    return m.rounded(
        m("ReduceMean", m.rounded(m.input(2, 5, 20), 0.03), m.constant(np.array([-1])), keepdims=0), 0.01
    )


def _two_layers(m):
    """What lies between is flattened, from channels last."""
    x = m.rounded(m.input(2, 8, 9, 7), 0.03)
    y = m.rounded(m("Conv", x, m.weight((12, 8, 3, 3))[0]), 0.2)
    return m.rounded(m("MatMul", m("Flatten", y), m.weight((12 * 35, 10), axis=1, spread=30)[0]), 1.0)


PAIRS = {
    "convolution": _conv,
    "padded": lambda m: _conv(m, pads=[1, 0, 2, 1], strides=[2, 1]),
    "in groups": lambda m: _conv(m, group=4, pads=[1] * 4, dilations=[2, 1]),
    "1-D": lambda m: _conv(m, image=(2, 8, 9), pads=[1, 1]),
    "with ReLU": lambda m: _conv(m, relu=True),
    "transposed": lambda m: _transposed(m, strides=[2, 2], pads=[1, 0, 1, 1]),
    "transposed, dense": lambda m: _transposed(m, pads=[1] * 4),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "attention": _attention,
    "Add": _pair("Add"),
    "Add, ReLU": _pair("Add", relu=True),
    "Sub": _pair("Sub"),
    "Mul": _pair("Mul"),
    "Div": _pair("Div", least=0.5),
    "Max": _pair("Max"),
    "Sigmoid": _unary("Sigmoid"),
    "Tanh": _unary("Tanh"),
    "LeakyRelu": _unary("LeakyRelu", alpha=0.1),
    "Relu": _unary("Relu"),
    "HardSwish": _unary("HardSwish"),
    "Gelu": _unary("Gelu"),
    "gate": _gate,
    "MaxPool": _kept("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    "MaxPool, other scale": _image("MaxPool", kernel_shape=[2, 2]),
    "AveragePool": _image("AveragePool", kernel_shape=[3, 3], pads=[1] * 4),
    "AveragePool with padding": _image("AveragePool", kernel_shape=[3, 2], pads=[1] * 4, count_include_pad=1),
    "GlobalAveragePool": _image("GlobalAveragePool"),
    "GlobalMaxPool": _kept("GlobalMaxPool"),
    "ReduceMean": _mean,
    "Concat": _concat,
    "Softmax": lambda m: m.rounded(m("Softmax", m.rounded(m.input(2, 5, 20), 0.05), axis=-1), 1 / 256),
    "Pad": _kept("Pad", np.array([0, 0, 1, 1, 0, 0, 2, 1])),
    "Resize": _kept(
        "Resize",
        None,
        np.array([1, 1, 2, 2], np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "two layers": _two_layers,
}


class _Whole:
    """An operator on whole numbers, and what it is on real ones."""

    def __init__(self, m):
        self.m = m

    def operand(self, shape, scale):
        """Names of whole numbers, their scale and zero point, and the real numbers."""
        pair = self.m.pair(scale)
        whole = self.m("QuantizeLinear", self.m.input(*shape), *pair)
        return (whole, *pair), self.m("DequantizeLinear", whole, *pair)

    def weights(self, shape, axis):
        """The same of trained ones, and the scales."""
        *names, scale = self.m.numbers(shape, axis)
        return names, self.m("DequantizeLinear", *names, axis=axis), scale

    def bias(self, count, unit):
        """A name of whole numbers, and of the real ones."""
        real = self.m.bias(count, unit)
        return self.m.nodes[-1].input[0], real

    def both(self, whole, real, scale, operator, *given, domain=MICROSOFT, **attributes):
        """Results of the operator, and of the same on real numbers, as real ones; `given`: the other inputs in their order, with
        None where scale and zero point of the result go."""
        pair = self.m.pair(scale)
        inputs = [one for name in given for one in (pair if name is None else [name])]
        y = self.m("DequantizeLinear", self.m(operator, *whole, *inputs, domain=domain, **attributes), *pair)
        twin = self.m("DequantizeLinear", self.m("QuantizeLinear", real, *pair), *pair)
        return y, twin


def _whole(build):
    return lambda m: build(m, _Whole(m))


def _q_conv(m, t, **attributes):
    x, real = t.operand((1, 8, 9, 7), 0.03)
    w, real_w, scale = t.weights((12, 8, 3, 3), 0)
    b, real_b = t.bias(12, m.scale_of(real) * scale)
    y = m("Conv", real, real_w, real_b, **attributes)
    return t.both((*x, *w), y, 0.2, "QLinearConv", None, b, domain="", **attributes)


def _q_matmul(m, t):
    x, real = t.operand((2, 5, 20), 0.03)
    w, real_w, _ = t.weights((20, 12), 1)
    return t.both((*x, *w), m("MatMul", real, real_w), 0.1, "QLinearMatMul", None, domain="")


def _q_activations(m, t):
    x, real = t.operand((2, 5, 20), 0.03)
    y, real_y = t.operand((2, 20, 6), 0.02)
    return t.both((*x, *y), m("MatMul", real, real_y), 0.02, "QLinearMatMul", None, domain="")


def _q_gemm(m, t):
    x, real = t.operand((5, 20), 0.03)
    w, real_w, scale = t.weights((12, 20), 0)
    b, real_b = t.bias(12, m.scale_of(real) * scale)
    return t.both((*x, *w), m("Gemm", real, real_w, real_b, transB=1), 0.1, "QGemm", b, None, transB=1)


def _q_pair(operator):
    def make(m, t):
        x, real = t.operand((2, 5, 20), 0.03)
        y, real_y = t.operand((5, 20), 0.02)
        return t.both((*x, *y), m(operator, real, real_y), 0.04, f"QLinear{operator}", None)

    return make


def _q_function(operator, shape=(2, 5, 20), own=None, scale=0.02, **attributes):
    def make(m, t):
        x, real = t.operand(shape, 0.03)
        kept = {name: value for name, value in attributes.items() if name not in (own or ())}
        return t.both(x, m(operator, real, **kept), scale, f"QLinear{operator}", None, **attributes)

    return make


def _q_concat(m, t):
    x, real = t.operand((2, 5, 20), 0.03)
    y, real_y = t.operand((2, 3, 20), 0.02)
    return t.both((), m("Concat", real, real_y, axis=1), 0.04, "QLinearConcat", None, *x, *y, axis=1)


def _enlarged(m, t):
    """Whole numbers that another operator than QuantizeLinear and DequantizeLinear reads."""
    pair = m.pair(0.06)
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    whole = m("QuantizeLinear", m.input(1, 3, 4, 5), *pair)
    y = m("DequantizeLinear", m("Resize", whole, "", scales, **nearest), *pair)
    twin = m("Resize", m("DequantizeLinear", whole, *pair), "", scales, **nearest)
    return y, m("DequantizeLinear", m("QuantizeLinear", twin, *pair), *pair)


WHOLE = {
    "Resize": _whole(_enlarged),
    "QLinearConv": _whole(_q_conv),
    "QLinearConv, padded": _whole(lambda m, t: _q_conv(m, t, pads=[1] * 4, strides=[2, 2])),
    "QLinearMatMul": _whole(_q_matmul),
    "QLinearMatMul of activations": _whole(_q_activations),
    "QGemm": _whole(_q_gemm),
    "QLinearAdd": _whole(_q_pair("Add")),
    "QLinearMul": _whole(_q_pair("Mul")),
    "QLinearSigmoid": _whole(_q_function("Sigmoid")),
    "QLinearLeakyRelu": _whole(_q_function("LeakyRelu", alpha=0.1)),
    "QLinearGlobalAveragePool": _whole(
        _q_function("GlobalAveragePool", (2, 8, 9, 7), ("channels_last",), channels_last=0)
    ),
    "QLinearAveragePool": _whole(_q_function("AveragePool", (2, 8, 9, 7), kernel_shape=[3, 3], pads=[1] * 4)),
    "QLinearSoftmax": _whole(_q_function("Softmax", own=("opset",), scale=1 / 200, axis=-1, opset=13)),
    "QLinearConcat": _whole(_q_concat),
}
