"""The graph builder against torch (shapes), brute force (transposed convolutions) and the fusion rules."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from baco.common.errors import InputError
from baco.workloads.builder import GraphBuilder
from baco.workloads.einsum import contraction
from baco.workloads.network import Tensor
from baco.workloads.problem import Problem
from baco.workloads.shapes import broadcast, window_count


def meta(*shape):
    return torch.zeros(*shape, device="meta")


small = st.integers(1, 4)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(st.integers(1, 14), st.integers(1, 14)),
    st.tuples(small, small),
    st.tuples(small, small),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.tuples(small, small),
    small,
    st.integers(1, 3),
)
def test_conv2d_agrees_with_torch(size, kernel, stride, padding, dilation, groups, batch):
    b = GraphBuilder("t")
    x = b.input("x", (batch, 2 * groups, *size))
    try:
        expected = F.conv2d(
            meta(batch, 2 * groups, *size),
            meta(3 * groups, 2, *kernel),
            None,
            stride,
            padding,
            dilation,
            groups,
        )
    except RuntimeError:
        with pytest.raises(InputError, match="does not fit"):
            b.conv2d(x, 3 * groups, kernel, stride, padding, dilation, groups)
        return
    y = b.conv2d(x, 3 * groups, kernel, stride, padding, dilation, groups, bias=True)
    assert y.shape == tuple(expected.shape)
    op = b.build().operators[0]
    p = op.problem
    assert p == Problem(
        R=kernel[1],
        S=kernel[0],
        P=expected.shape[3],
        Q=expected.shape[2],
        C=2,
        K=3,
        N=batch,
        stride_w=stride[1],
        stride_h=stride[0],
        dilation_w=dilation[1],
        dilation_h=dilation[0],
        groups=groups,
    )
    assert op.weight_words == 3 * groups * 2 * kernel[0] * kernel[1] + 3 * groups


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(0, 4),
    small,
)
def test_transposed_convolution_agrees_with_torch_and_brute_force(
    size, kernel, stride, pad, dilation, extra, groups
):
    b = GraphBuilder("t")
    x = b.input("x", (1, 2 * groups, size))
    try:
        expected = F.conv_transpose1d(
            meta(1, 2 * groups, size), meta(2 * groups, 3, kernel), None, stride, pad, extra, groups, dilation
        )
        fits = expected.shape[-1] > 0
    except RuntimeError as error:
        if "output padding" in str(error):
            return  # torch limits the output padding; ONNX, whose import also comes here, does not
        fits = False
    # Pairs of an output and a tap that meet an input position (or one of the padding).
    length = (size - 1) * stride - 2 * pad + (kernel - 1) * dilation + extra + 1
    pairs = sum((o + pad - r * dilation) % stride == 0 for o in range(max(length, 0)) for r in range(kernel))
    if not fits or not pairs:
        with pytest.raises(InputError):
            b.conv_transpose2d(x, 3 * groups, kernel, stride, pad, extra, dilation, groups, rank=1)
        return
    y = b.conv_transpose2d(x, 3 * groups, kernel, stride, pad, extra, dilation, groups, rank=1)
    assert y.shape == tuple(expected.shape)
    assert b.build().macs == pairs * 2 * 3 * groups
    assert b.build().weight_words == 2 * groups * 3 * kernel


def test_transposed_convolution_of_images_is_four_phases():
    b = GraphBuilder("t")
    y = b.conv_transpose2d(b.input("x", (2, 8, 5, 6)), 4, 4, 2, 1)
    assert y.shape == (2, 4, 10, 12)
    network = b.build()
    assert [(t.problem, t.count) for t in network.tasks] == [(Problem(R=2, S=2, P=6, Q=5, C=8, K=4, N=2), 4)]
    assert network.weight_words == 4 * 4 * 8 * 4
    assert network.host_operators == ()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((3, 4), (6, 4, 5)),
     ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((7, 4), (2, 4, 1)), ((4,), (2, 4, 5))],
)  # fmt: skip
def test_matmul_agrees_with_numpy(a, b):
    builder = GraphBuilder("t")
    y = builder.matmul(builder.input("a", a), builder.input("b", b))
    result = np.zeros(a) @ np.zeros(b)
    assert y.shape == result.shape
    assert builder.build().macs == result.size * a[-1]


@pytest.mark.parametrize(("a", "b"), [((3, 4), (5, 4)), ((2, 3, 4), (3, 4, 5)), ((), (4,)), ((4,), ())])
def test_matmul_refuses_what_numpy_refuses(a, b):
    builder = GraphBuilder("t")
    with pytest.raises(InputError, match=r"t \(matmul0\)"):
        builder.matmul(builder.input("a", a), builder.input("b", b))


def test_kinds_of_problems():
    b = GraphBuilder("t")
    image = b.input("image", (1, 16, 8, 8))
    b.conv2d(image, 16, 3, 1, 1, groups=16)
    b.conv2d(image, 16, 3, 1, 1, groups=4)
    b.conv2d(image, 8, 3, 1, 2, dilation=2)
    b.conv2d(b.input("line", (1, 4, 20)), 8, 3, rank=1)
    b.linear(b.input("vector", (1, 32)), 8)
    b.linear(b.input("rows", (5, 32)), 8)
    q, k = b.input("q", (2, 5, 8)), b.input("k", (2, 8, 6))
    b.matmul(q, k)
    b.matmul(b.view(q, (2, 1, 8)), k)
    kinds = [op.problem.kind for op in b.build().operators]
    assert kinds == [
        "depthwise conv",
        "grouped conv",
        "conv2d",
        "conv1d",
        "gemv",
        "gemm",
        "batched gemm",
        "batched gemv",
    ]


def fused(build):
    b = GraphBuilder("t")
    build(b, b.conv2d(b.input("x", (1, 4, 8, 8)), 4, 3, 1, 1, name="conv"))
    return [op.fused for op in b.build().operators if not op.problem]


@pytest.mark.parametrize(
    ("expected", "build"),
    [
        ([True, True, True], lambda b, y: b.maxpool(b.relu(b.batchnorm(y)), 2)),
        ([True, True], lambda b, y: b.relu(b.maxpool(y, 2))),
        ([True, True], lambda b, y: b.relu(b.add(y, b.view(b.input("z", (1, 4, 8, 8)), (1, 4, 8, 8))))),
        ([True, False], lambda b, y: b.batchnorm(b.relu(y))),  # a scale per channel after the activation
        ([True, False], lambda b, y: b.add(b.relu(y), b.input("z", (1, 4, 8, 8)))),
        (
            [False],
            lambda b, y: b.add(y, b.input("z", (2, 4, 8, 8))),
        ),  # the result is larger than the convolution's
        ([True, False], lambda b, y: b.maxpool(b.maxpool(y, 2), 2)),
        ([False, False], lambda b, y: b.relu(b.op("gelu", (y,)))),
        ([False], lambda b, y: b.relu(b.input("z", (3,)))),
        ([False], lambda b, y: b.maxpool(b.linear(b.input("z", (1, 4, 8, 8)), 8), 2)),  # no convolution
        ([False], lambda b, y: b.global_avgpool(y)),
        ([True], lambda b, y: b.concat((y, y), 1)),
        ([True, True], lambda b, y: b.op("requantize", (b.relu(y),))),
    ],
)
def test_fusion_rules(expected, build):
    assert fused(build) == expected


def test_repetition_needs_a_block_that_feeds_itself():
    b = GraphBuilder("t")
    x = b.input("x", (4, 8))
    y = b.repeat(3, lambda v: b.repeat(2, lambda w: b.linear(w, 8), v), x)
    assert b.build().operators[0].repeat == 6
    assert b.build().weight_words == 6 * 64
    with pytest.raises(InputError, match="cannot feed itself"):
        b.repeat(2, lambda v: b.linear(v, 9), y)
    with pytest.raises(InputError, match="at least once"):
        b.repeat(0, lambda v: v, y)


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.conv2d(x, 8, 3, groups=3),
        lambda b, x: b.conv2d(x, 8, 3, stride=0),
        lambda b, x: b.conv2d(x, 8, (3, 3, 3)),
        lambda b, x: b.conv2d(x, 8, 3, padding=-1),
        lambda b, x: b.conv2d(x, 8, 3, padding=(1, 2, 3)),
        lambda b, x: b.conv2d(x, 8, 3, dilation=100),
        lambda b, x: b.conv2d(x, 0, 3),
        lambda b, x: b.conv2d(x, 8, 3, rank=1),
        lambda b, x: b.conv_transpose2d(x, 8, 3, 10**9),
        lambda b, x: b.conv_transpose2d(x, 8, 1, 1, 50),
        lambda b, x: b.reshape(x, (7,)),
        lambda b, x: b.reshape(x, (-1, 7)),
        lambda b, x: b.transpose(x, (0, 1, 2)),
        lambda b, x: b.view(x, (0, 1)),
        lambda b, x: b.view(x, (2**30, 2**30)),
        lambda b, x: b.concat((x, b.input("y", (1, 6, 9, 8))), 1),
        lambda b, x: b.concat((x, x), 4),
        lambda b, x: b.add(x, b.input("y", (5,))),
        lambda b, x: b.op("nonsense", (x,)),
        lambda b, x: b.relu(Tensor("nowhere", (1,))),
        lambda b, x: b.linear(b.input("s", ()), 3),
        lambda b, x: b.linear(b.input("y", (2**40, 2**12)), 2**12),
        lambda b, x: b.input("x", (1,)),
        lambda b, x: b.relu(b.relu(x, "twice"), "twice"),
        lambda b, x: b.maxpool(x, 20),
        lambda b, x: b.layer(Problem(P=2**30, stride_w=2**30)),
    ],
)
def test_shapes_that_do_not_fit(build):
    b = GraphBuilder("net")
    with pytest.raises(InputError, match=r"^net \("):
        build(b, b.input("x", (1, 6, 8, 8)))


def test_window_with_partial_last_position_agrees_with_torch():
    for size, kernel, stride, pad in itertools.product(range(1, 9), range(1, 4), range(1, 4), range(2)):
        if 2 * pad > kernel or size + 2 * pad < kernel:
            continue
        expected = F.max_pool1d(meta(1, 1, size), kernel, stride, pad, ceil_mode=True).shape[-1]
        assert window_count(size, kernel, stride, (pad, pad), ceil=True) == expected


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=3))
def test_broadcast_agrees_with_numpy(shapes):
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            broadcast(*shapes)
        return
    assert broadcast(*shapes) == expected


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "bij,bkj->bik",
        "ij,jk",
        "bhqd,bhkd->bhqk",
        "i,i->",
        "i,j->ij",
        "bi,bj->bij",
        "ijk,kl->lij",
    ],
)
def test_einsum_agrees_with_numpy(equation):
    sizes = dict(zip("bdhijklqrs", range(2, 12), strict=False))
    terms = equation.split("->")[0].split(",")
    left, right = (tuple(sizes[c] for c in term) for term in terms)
    plan = contraction(equation, left, right)
    assert not isinstance(plan, str)
    a, b = np.random.default_rng(0).random((2, 4000))
    result = np.einsum(equation, np.resize(a, left), np.resize(b, right))
    assert plan.output == result.shape
    assert np.prod(np.matmul(np.zeros(plan.left), np.zeros(plan.right)).shape) == result.size


@pytest.mark.parametrize(
    "equation",
    ["ii,ij->ij", "ij,jk,kl->il", "...i,ij->...j", "ij,jk->k", "ij,jk->iz", "", "ij->ji", "ijk,kl->il"],
)
def test_einsum_that_is_no_matrix_product(equation):
    assert isinstance(contraction(equation, (2, 2), (2, 2)), str)
