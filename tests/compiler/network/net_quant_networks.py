"""Small networks that between them hold every integer operator, and how well they are quantised."""

from __future__ import annotations

import numpy as np

from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_inputs, real, runnable
from baco.compiler.network.reference import reference
from baco.workloads.builder import GraphBuilder
from baco.workloads.encoding import Encoding
from baco.workloads.semantics import Parameter, Semantics, constant


def snr_db(wanted, got):
    """Signal-to-noise ratio, infinite where nothing differs."""
    noise = ((np.asarray(wanted, float) - got) ** 2).sum()
    return np.inf if noise == 0 else 10 * np.log10(max((np.asarray(wanted, float) ** 2).sum(), 1e-30) / noise)


def run_both(network, samples=None, **options):
    """(quantised network, integer values, [signal-to-noise ratio of every output in dB])."""
    parameters = Parameters(network.source, options.get("seed", 0))
    flat = runnable(network, parameters, options.get("layers"))
    inputs = samples[0] if samples else random_inputs(flat, options.get("seed", 0))
    wanted = FloatGraph(flat, parameters).run(inputs)
    quantised = quantise(network, samples or [inputs], **options)
    values = reference(quantised, quantise_inputs(quantised, inputs))
    got = [real(quantised, values, name) for name in quantised.outputs]
    assert [x.shape for x in got] == [x.shape for x in wanted]
    return quantised, values, [float(snr_db(w, g)) for w, g in zip(wanted, got, strict=True)]


def floats(network, inputs):
    """What the imported graph computes of its inputs, with no weight drawn."""
    parameters = Parameters(network.source)
    flat = runnable(network, parameters)
    found = FloatGraph(flat, parameters).run({one.name: inputs[one.name] for one in flat.inputs})
    assert parameters.random == ()
    return found


def agrees(network, inputs, wanted, least_db):
    """The imported graph computes what is wanted, and its integers nearly so; the quantised network."""
    assert network.unsupported == ()
    for g, w in zip(floats(network, inputs), wanted, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5 * np.abs(w).max())
    given = {one.name: inputs[one.name] for one in runnable(network, Parameters(network.source)).inputs}
    quantised = quantise(network, [given])
    values = reference(quantised, quantise_inputs(quantised, given))
    for w, name in zip(wanted, quantised.outputs, strict=True):
        if w.dtype.kind == "f":
            assert snr_db(w, real(quantised, values, name)) > least_db, name
    return quantised


def convolutions():
    b = GraphBuilder("convolutions")
    x = b.input("x", (2, 4, 7, 6))
    y = b.relu(b.batchnorm(b.conv2d(x, 6, (3, 2), (2, 1), (1, 0, 0, 1), bias=True)))
    y = b.maxpool(y, 2, 1, 1)
    y = b.conv2d(y, 6, 3, padding=2, dilation=2, groups=6)
    b.conv2d(b.conv2d(y, 8, 3, groups=2, bias=True), 3, 1)
    b.relu(b.conv2d(b.reshape(x, (2, 4, 42)), 3, 5, 2, 3, 2, bias=True, rank=1))
    return b.build()


def transposed():
    b = GraphBuilder("transposed")
    x = b.input("x", (1, 4, 3, 4))
    b.conv_transpose2d(x, 3, 3, 2, 1, 1, bias=True, name="odd")
    b.relu(b.conv_transpose2d(x, 4, 2, 2, groups=2, name="even"))
    b.conv_transpose2d(x, 2, (3, 4), (1, 3), (0, 2), dilation=(2, 1), name="mixed")
    b.conv_transpose2d(b.reshape(x, (1, 4, 12)), 3, 4, 2, 1, rank=1, name="line")
    return b.build()


def products():
    b = GraphBuilder("products")
    x = b.input("x", (2, 3, 8))
    y = b.relu(b.linear(x, 6, bias=True))
    heads = b.transpose(b.reshape(y, (2, 3, 2, 3)), (0, 2, 1, 3))
    scores = b.matmul(heads, b.transpose(heads, (0, 1, 3, 2)), alpha=0.5)
    mixed = b.matmul(b.softmax(scores, causal=True), heads)
    b.linear(b.reshape(b.transpose(mixed, (0, 2, 1, 3)), (2, 3, 6)), 4)
    b.matmul(Parameter("left", (5, 3), fan_in=3), x, "constant_left")
    b.matmul(x, Parameter("column", (8,), fan_in=8), "column")
    b.matmul(
        b.reshape(b.slice(x, 1, 0, 1), (2, 8)), b.transpose(b.reshape(b.slice(x, 1, 2, 3), (2, 8)), (1, 0))
    )
    return b.build()


def pointwise():
    b = GraphBuilder("pointwise")
    x, z = b.input("x", (2, 3, 4)), b.input("z", (3, 1))
    y = b.unary("silu", b.add(x, z))
    y = b.binary("mul", y, b.unary("gelu", x))
    b.binary("div", y, b.unary("elementwise", x, function="exp"))
    b.binary("sub", b.transpose(x, (0, 2, 1)), b.transpose(b.unary("tanh", x), (0, 2, 1)))
    b.op("elementwise", (x,), semantics=Semantics("binary", (x, constant("two", 2.0)), {"name": "pow"}))
    scale = Parameter("scale", (3, 1), fill="scale")
    b.op("elementwise", (x,), semantics=Semantics("binary", (scale, x), {"name": "mul"}))
    b.relu(b.add(b.slice(x, 2, 0, 2), b.slice(x, 2, 2, 4)))
    return b.build()


def normalised():
    b = GraphBuilder("normalised")
    x = b.input("x", (2, 4, 3, 5))
    b.layernorm(x)
    b.rmsnorm(b.transpose(x, (0, 2, 3, 1)))
    scale, shift = Parameter("s", (4,), fill="scale"), Parameter("t", (4,), fill="shift")
    semantics = Semantics("groupnorm", (x, scale, shift), {"groups": 2, "eps": 1e-5})
    b.op("groupnorm", (x,), x.shape, semantics=semantics)
    semantics = Semantics("softmax", (x, None), {"axis": 1, "logarithm": False})
    b.op("softmax", (x,), x.shape, semantics=semantics)
    b.rope(b.slice(x, 3, 0, 4))
    b.batchnorm(x)
    return b.build()


def pooled():
    b = GraphBuilder("pooled")
    x = b.input("x", (2, 3, 6, 7))
    y = b.pool("avgpool", x, 3, 2, 1, count_padding=False)
    b.pool("avgpool", x, (2, 3), (2, 2), (1, 0), ceil=True)
    b.pool("maxpool", x, 3, 2, 1, dilation=2, ceil=True)
    b.upsample(y, (6, 8))
    linear = {"mode": "linear", "coordinates": "half_pixel", "rounding": "", "scales": None}
    b.op("upsample", (y,), (2, 3, 7, 5), semantics=Semantics("resize", (y,), linear))
    b.global_avgpool(x)
    for name, axes in (("sum", (1,)), ("max", (0, 2)), ("min", (3,)), ("mean", (0, 1, 2, 3))):
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        semantics = Semantics("reduce", (x,), {"name": name, "axes": axes, "keepdims": False})
        b.op("reduce", (x,), shape, semantics=semantics)
    b.pool("maxpool", b.reshape(x, (2, 3, 42)), 4, 3)
    return b.build()


def averaged():
    """Means of images: of many channels, of few, of columns that are no neighbours, of what a slice left, of a window as large."""
    b = GraphBuilder("averaged")
    x = b.relu(b.conv2d(b.input("x", (2, 4, 5, 6)), 20, 3, padding=1))
    b.global_avgpool(x)
    b.pool("avgpool", x, (5, 6))
    b.global_avgpool(b.slice(x, 1, 2, 18))
    b.global_avgpool(b.slice(x, 1, 0, 3))
    b.global_avgpool(b.slice(x, 3, 1, 5))
    for name, axes in (("sum", (2, 3)), ("mean", (3,)), ("mean", (1,))):
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        semantics = Semantics("reduce", (x,), {"name": name, "axes": axes, "keepdims": False})
        b.op("reduce", (x,), shape, semantics=semantics)
    return b.build()


def moved():
    b = GraphBuilder("moved")
    tokens = b.input("tokens", (2, 3))
    rows = b.embedding(tokens, 9, 4)
    x = b.input("x", (2, 3, 4))
    joined = b.concat((rows, x, b.unary("sigmoid", x)), 1)
    pad = {"before": (0, 1, 2), "after": (0, 0, 1), "value": 0.5}
    b.op("pad", (joined,), (2, 10, 7), semantics=Semantics("pad", (joined,), pad))
    for last, smallest in ((False, False), (True, True)):
        attributes = {"axis": 1, "keepdims": True, "last": last, "smallest": smallest}
        b.op("argmax", (joined,), (2, 1, 4), semantics=Semantics("argmax", (joined,), attributes))
    image = b.input("image", (1, 2, 4, 4))
    zeros = {"before": (0, 0, 1, 2), "after": (0, 0, 1, 0), "value": 0.0}
    padded = b.op("pad", (image,), (1, 2, 6, 6), semantics=Semantics("pad", (image,), zeros))
    b.conv2d(padded, 3, 3)
    crop = {"before": (0, 0, -1, 2), "after": (0, 0, 1, -1), "value": -0.2}
    b.op("pad", (image,), (1, 2, 4, 5), semantics=Semantics("pad", (image,), crop))
    b.concat((b.conv2d(image, 2, 1), b.relu(b.conv2d(image, 3, 1))), 1)
    b.expand(x, (2, 3, 4))
    b.unary("relu", b.reshape(b.transpose(x, (2, 0, 1)), (4, 6)))
    return b.build()


def selected():
    """The largest, what lies at computed positions, marks of them, numbers as positions and back."""
    b = GraphBuilder("selected")
    x = b.input("x", (3, 4, 6))

    def host(kind, function, operands, shape, **attributes):
        return b.op(kind, operands, shape, semantics=Semantics(function, operands, attributes))

    best = host("topk", "topk", (x,), (3, 2, 6), axis=1, count=2, smallest=False)
    host("gather", "take", (x, best), (3, 2, 6), axis=1)
    least = host("topk", "topk", (x,), (3, 4, 3), axis=2, count=3, smallest=True)
    first = b.slice(least, 2, 0, 1)
    host("gather", "gather", (x, b.reshape(first, (3, 4))), (3, 3, 4, 6), axis=1)
    b.op(
        "gather",
        (best,),
        (3, 5, 2, 6),
        semantics=Semantics("onehot", (best,), {"axis": 1, "depth": 5, "on": 1.5, "off": -0.25}),
    )
    b.unary("sigmoid", best)
    image = b.input("image", (2, 3, 6, 4))
    b.pool("lppool", image, 3, 2, 1, p=2)
    b.pool("lppool", image, (2, 3), 1, 0, p=1)
    where = b.pool("maxpositions", image, 2)
    host("gather", "unpool", (b.pool("maxpool", image, 2), where), (2, 3, 6, 4))
    counted = b.input("counted", (3, 4, 6))
    near = b.op(
        "elementwise",
        (counted,),
        (3, 4, 6),
        semantics=Semantics("unary", (counted,), {"name": "round", "numbers": {}}),
    )
    b.op("gather", (x, near), (3, 4, 6), semantics=Semantics("take", (x, near), {"axis": 2}))
    return b.build()


def clipped():
    b = GraphBuilder("clipped")
    x = b.unary("relu6", b.conv2d(b.input("x", (1, 3, 8, 8)), 8, 3), function="clip", low=0, high=0.5)
    x = b.unary("relu6", b.conv2d(x, 8, 3, groups=8), function="clip", low=0, high=6)
    b.relu(b.add(b.conv2d(x, 8, 1), x))
    return b.build()


def flattened():
    b = GraphBuilder("flattened")
    x = b.relu(b.conv2d(b.input("x", (2, 3, 6, 5)), 4, 3))
    b.linear(b.reshape(x, (2, 48)), 5, bias=True)
    b.linear(b.reshape(x, (2, 4, 12)), 3)
    b.linear(b.reshape(b.transpose(x, (0, 2, 1, 3)), (2, 4, 12)), 3)
    b.matmul(b.reshape(x, (2, 48)), Parameter("column", (48,), fan_in=48))
    return b.build()


def given():
    """A network that is quantised already, with zero points."""
    b = GraphBuilder("given")

    def rounded(x, scale, zero):
        semantics = Semantics("quantise", (x,), {"encoding": Encoding(scale, zero, -128, 127)})
        return b.op("requantize", (x,), x.shape, semantics=semantics)

    x = rounded(b.input("x", (1, 4, 6, 5)), 0.03, 9)
    y = rounded(b.relu(b.conv2d(x, 4, 3, padding=1, bias=True)), 0.02, -100)
    z = rounded(b.add(x, y), 0.0413, 5)
    rounded(b.pool("avgpool", z, (3, 2), 1, 1), 0.02, -7)
    rows = b.reshape(z, (4, 6, 5))
    scores = rounded(b.matmul(rows, b.transpose(b.reshape(y, (4, 6, 5)), (0, 2, 1))), 0.05, 3)
    shares = rounded(b.softmax(scores), 1 / 256, -128)
    rounded(b.unary("sigmoid", shares), 0.004, -90)
    whole = rounded(b.input("whole", (2, 5, 3)), 1.0, 9)
    numbers = constant("by", np.array([77, -60, 90])), constant("offset", np.array([2, 5, -7]))
    attributes = {"shift": 2, "encoding": Encoding(1.0, 0, 0, 255)}
    b.op("requantize", (whole,), whole.shape, semantics=Semantics("shift", (whole, *numbers), attributes))
    return b.build()


SMALL = {
    f.__name__: f
    for f in (
        convolutions,
        transposed,
        products,
        pointwise,
        normalised,
        pooled,
        averaged,
        moved,
        selected,
        clipped,
        flattened,
        given,
    )
}
