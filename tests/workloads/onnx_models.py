"""Small ONNX graphs written with onnx.helper, and ResNet-50 and a BERT layer node by node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper


class Model:
    """Collects nodes and initializers; weights are declared as external data that does not exist."""

    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, *shape, kind=TensorProto.FLOAT):
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "no/such/file.bin"
        self.weights.append(tensor)
        return tensor.name

    def constant(self, values, kind=TensorProto.INT64):
        values = np.asarray(values)
        name = f"c{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, kind, values.shape, values.reshape(-1)))
        return name

    def node(self, op, *inputs, name=None, outputs=1, **attributes):
        names = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(
            helper.make_node(op, inputs, names, name=name or f"{op}_{len(self.nodes)}", **attributes)
        )
        return names[0] if outputs == 1 else names

    def build(self, inputs, output, opset=21, domains=(), dtypes=None):
        dtypes = dtypes or {}
        graph = helper.make_graph(
            self.nodes,
            "g",
            [
                helper.make_tensor_value_info(n, dtypes.get(n, TensorProto.FLOAT), s)
                for n, s in inputs.items()
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        return helper.make_model(graph, opset_imports=opsets)


def conv_bn(m, x, c, k, kernel, stride=1, relu=True):
    pad = kernel // 2
    x = m.node("Conv", x, m.weight(k, c, kernel, kernel), pads=[pad] * 4, strides=[stride] * 2)
    x = m.node("BatchNormalization", x, *(m.weight(k) for _ in range(4)))
    return m.node("Relu", x) if relu else x


def resnet50(batch="N"):
    m = Model()
    x = m.node("MaxPool", conv_bn(m, "x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        w = 64 * 2**stage
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            y = conv_bn(m, conv_bn(m, conv_bn(m, x, c, w, 1), w, w, 3, stride), w, 4 * w, 1, relu=False)
            if i == 0:
                x = conv_bn(m, x, c, 4 * w, 1, stride, relu=False)
            x, c = m.node("Relu", m.node("Add", y, x)), 4 * w
    x = m.node("Flatten", m.node("GlobalAveragePool", x))
    return m.build(
        {"x": [batch, 3, 224, 224]}, m.node("Gemm", x, m.weight(1000, 2048), m.weight(1000), transB=1)
    )


def bert_layer(sequence="seq"):
    """An encoder layer whose head split goes through computed shapes, as exporters write it."""
    m = Model()
    d, heads = 768, 12
    shape = m.node("Shape", "x")
    batch = m.node("Gather", shape, m.constant([0]))
    length = m.node("Gather", shape, m.constant([1]))
    split = m.node("Concat", batch, length, m.constant([heads]), m.constant([d // heads]), axis=0)
    merge = m.node("Concat", batch, length, m.constant([d]), axis=0)

    def linear(v, i, o):
        return m.node("Add", m.node("MatMul", v, m.weight(i, o)), m.weight(o))

    q, v = (
        m.node("Transpose", m.node("Reshape", linear("x", d, d), split), perm=[0, 2, 1, 3]) for _ in range(2)
    )
    k = m.node("Transpose", m.node("Reshape", linear("x", d, d), split), perm=[0, 2, 3, 1])
    scores = m.node("Div", m.node("MatMul", q, k), m.constant([8.0], TensorProto.FLOAT))
    y = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
    y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), merge)
    x = m.node("LayerNormalization", m.node("Add", linear(y, d, d), "x"), m.weight(d), m.weight(d))
    y = linear(m.node("Gelu", linear(x, d, 3072)), 3072, d)
    y = m.node("LayerNormalization", m.node("Add", y, x), m.weight(d), m.weight(d))
    return m.build({"x": ["batch", sequence, d]}, y)


def quantized():
    """QLinearConv, ConvInteger, MatMulInteger, QLinearMatMul and a float layer between Q and DQ nodes."""
    m = Model()
    u8, i8, i32 = TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32
    scale, zero = m.constant(0.5, TensorProto.FLOAT), m.constant(0, u8)
    zero8 = m.constant(0, i8)
    x = m.node("QuantizeLinear", "x", scale, zero)
    x = m.node(
        "QLinearConv",
        x,
        scale,
        zero,
        m.weight(8, 3, 3, 3, kind=i8),
        scale,
        zero8,
        scale,
        zero,
        m.weight(8, kind=i32),
    )
    x = m.node("DequantizeLinear", x, scale, zero)
    w = m.node("DequantizeLinear", m.weight(8, 1, 3, 3, kind=i8), scale, zero8)
    x = m.node("QuantizeLinear", m.node("Relu", m.node("Conv", x, w, group=8)), scale, zero)
    x = m.node("ConvInteger", x, m.weight(6, 8, 1, 1, kind=u8), zero, zero)
    x = m.node("QuantizeLinear", m.node("Mul", m.node("Cast", x, to=TensorProto.FLOAT), scale), scale, zero)
    x = m.node("Reshape", x, m.constant([1, 6, -1]))
    x = m.node("QLinearMatMul", x, scale, zero, m.weight(16, 5, kind=u8), scale, zero, scale, zero)
    x = m.node("MatMulInteger", x, m.weight(5, 4, kind=u8), zero, zero)
    return m.build({"x": [1, 3, 8, 8]}, x)


def variety():
    m = Model()
    x = m.node(
        "Conv",
        "x",
        m.weight(8, 2, 3, 5),
        m.weight(8),
        group=2,
        dilations=[2, 1],
        auto_pad="SAME_UPPER",
        strides=[1, 2],
    )
    x = m.node("ConvTranspose", x, m.weight(8, 3, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1], group=2)
    x = m.node("Reshape", x, m.constant([2, 6, -1]))
    line = m.node("Conv", x, m.weight(4, 6, 3), pads=[2, 0])
    x = m.node("Einsum", line, line, equation="bcl,bdl->bcd")
    y = m.node("Gather", m.weight(100, 4), "tokens", name="table")
    x = m.node("MatMul", y, x)
    x = m.node("Einsum", x, m.weight(4, 9), equation="bij,jk->bik")
    q = m.node(
        "Attention", *(m.node("MatMul", x, m.weight(9, 8)) for _ in range(3)), q_num_heads=2, kv_num_heads=2
    )
    return m.build({"x": [2, 4, 6, 10], "tokens": [2, 3]}, q, opset=23, dtypes={"tokens": TensorProto.INT64})


def with_custom(reshape=False):
    """A convolution on either side of an operator that nobody knows."""
    m = Model()
    x = m.node("Conv", "x", m.weight(8, 3, 3, 3), name="first")
    x = m.node("Strange", x, domain="my.ops", name="odd one")
    x = m.node("Relu", m.node("Conv", x, m.weight(4, 8, 3, 3), name="second"))
    indices = m.node("NonZero", x, name="where")
    x = m.node("MatMul", m.node("Cast", indices, to=TensorProto.FLOAT), "y", name="unknown size")
    return m.build({"x": [1, 3, 10, 10], "y": [7, 2]}, x, domains=["my.ops"])


def save(model, path):
    path.write_bytes(model.SerializeToString())
    return path


def read(path):
    return onnx.load(path, load_external_data=False)
