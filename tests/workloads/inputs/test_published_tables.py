"""Layer tables of published tools: sizes worked out by hand."""

from __future__ import annotations

import pytest

from baco.common.errors import InputError
from baco.workloads.inputs.load import load_network
from baco.workloads.problem import Problem


def _problems(network):
    return [op.problem for op in network.operators]


def _load(tmp_path, name, text, rest=""):
    path = tmp_path / name
    path.write_text(text)
    return load_network(f"{path}{rest}")


SCALE_SIM = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 227, 227, 11, 11, 3, 96, 4,
Odd, 9, 12, 3, 5, 4, 8, 2,

FC, 1, 1, 1, 1, 4096, 1000, 1,
"""


def test_scale_sim_convolutions(tmp_path):
    network = _load(tmp_path, "alexnet.csv", SCALE_SIM)
    assert network.name == "alexnet"
    assert [op.name for op in network.operators] == ["Conv1", "Odd", "FC"]
    assert _problems(network) == [
        Problem(R=11, S=11, P=55, Q=55, C=3, K=96, stride_w=4, stride_h=4),
        Problem(R=5, S=3, P=4, Q=4, C=4, K=8, stride_w=2, stride_h=2),  # width: (12 - 5) // 2 + 1
        Problem(C=4096, K=1000),
    ]
    assert _problems(_load(tmp_path, "alexnet.csv", SCALE_SIM, ":alexnet")) == _problems(network)


def test_scale_sim_products(tmp_path):
    network = _load(tmp_path, "bert.csv", "Layer,M,N,K,\nq,128,768,64,\nq,1,10,24,\n")
    assert _problems(network) == [Problem(P=128, K=768, C=64), Problem(P=1, K=10, C=24)]
    assert [op.name for op in network.operators] == ["q", "q~2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SCALE_SIM.replace("Channels", "Chanels"), "unknown column 'Chanels'"),
        (
            SCALE_SIM.replace(", Strides,", ", Strides, Strides Height,").replace("4,\n", "4, 0,\n", 1),
            "from 1 to",
        ),
        (SCALE_SIM.replace("9, 12, 3, 5", "2, 12, 3, 5"), "does not fit into an input height of 2"),
        (SCALE_SIM.replace("227, 227", "227, x"), "whole number"),
        ("Layer,M,N,K,\n", "no layer"),
    ],
)
def test_scale_sim_tables_that_are_wrong(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        _load(tmp_path, "wrong.csv", text)
    assert caught.value.location is not None


TIMELOOP = """problem:
  C: 16
  K: 32
  N: 1
  P: 14
  Q: 7
  R: 3
  S: 1
  Wstride: 2
  Hstride: 1
  Wdilation: 1
  Hdilation: 1
  shape: cnn-layer
"""


def test_timeloop_problem(tmp_path):
    wanted = Problem(R=3, S=1, P=14, Q=7, C=16, K=32, stride_w=2)
    assert _problems(_load(tmp_path, "layer.yaml", TIMELOOP)) == [wanted]
    nested = """problem:
  version: 0.4
  shape: {name: Conv, dimensions: [C, K, R, S, N, P, Q]}
  instance: {C: 16, K: 32, R: 3, P: 14, Q: 7, Wstride: 2}
"""
    assert _problems(_load(tmp_path, "nested.yaml", nested)) == [wanted]
    product = "problem: {shape: gemm, M: 8, K: 16, N: 4}\n"
    assert _problems(_load(tmp_path, "product.yaml", product)) == [Problem(P=8, C=16, K=4)]
    depthwise = "problem: {shape: depthwise-layer, C: 16, R: 3, S: 3, P: 5, Q: 5}\n"
    assert _problems(_load(tmp_path, "dw.yaml", depthwise)) == [Problem(R=3, S=3, P=5, Q=5, groups=16)]


def test_timeloop_problem_that_is_wrong(tmp_path):
    with pytest.raises(InputError, match="unknown dimension 'Z'") as caught:
        _load(tmp_path, "layer.yaml", TIMELOOP.replace("  C: 16", "  Z: 16"))
    assert caught.value.location.line == 2
    with pytest.raises(InputError, match="whole number"):
        _load(tmp_path, "layer.yaml", TIMELOOP.replace("14", "0"))


def test_zigzag_workload(tmp_path):
    text = """
- id: 0
  name: first
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=1*oy+3*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [2, 64, 3, 100, 112, 5, 7]
- id: 1
  operator_type: Conv
  equation: O[b][g][oy][ox]+=W[g][fy][fx]*I[b][g][iy][ix]
  dimension_relations: [ix=ox+fx, iy=oy+fy]
  loop_dims: [B, G, OY, OX, FY, FX]
  loop_sizes: [1, 32, 14, 14, 3, 3]
- id: 2
  operator_type: Gemm
  equation: O[d][n][k]+=A[d][n][c]*B[d][c][k]
  loop_dims: [D, N, K, C]
  loop_sizes: [12, 128, 64, 32]
"""
    assert _problems(_load(tmp_path, "workload.yaml", text)) == [
        Problem(R=7, S=5, P=112, Q=100, C=3, K=64, N=2, stride_w=2, dilation_h=3),
        Problem(R=3, S=3, P=14, Q=14, groups=32),
        Problem(P=128, C=32, K=64, groups=12),
    ]


MAESTRO = """Network vgg16 {
  Layer CONV1 { // padded input
    Type: CONV
    Stride { X: 1, Y: 2 }
    Dimensions { N: 2, K: 64, C: 3, R: 3, S: 5, Y: 227, X: 226 }
    Dataflow { SpatialMap(1,1) K; Cluster(64, P); }
  }
  Layer DW { Type: DSCONV Stride { X: 2, Y: 2 } Dimensions { N: 1, K: 1, C: 32, R: 3, S: 3, Y: 114, X: 114 } }
  Layer G { Type: GEMM Dimensions { K: 8, M: 4, N: 6 } Dataflow { } }
}
"""


def test_maestro_network(tmp_path):
    network = _load(tmp_path, "vgg.m", MAESTRO)
    assert network.name == "vgg16"
    assert [op.name for op in network.operators] == ["CONV1", "DW", "G"]
    assert _problems(network) == [
        Problem(R=5, S=3, P=222, Q=113, C=3, K=64, N=2, stride_w=1, stride_h=2),
        Problem(R=3, S=3, P=56, Q=56, stride_w=2, stride_h=2, groups=32),
        Problem(P=4, C=8, K=6),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MAESTRO.replace("K: 64, ", ""), "'CONV1' has no K"),
        (MAESTRO.replace("C: 3", "C: x"), "whole number"),
        (MAESTRO[:-30], "not closed"),
        ("x = 3\n", "no network of MAESTRO"),
        (
            MAESTRO.replace("Type: DSCONV Stride { X: 2, Y: 2 }", "Type: TRCONV Stride { X: 2, Y: 99 }"),
            "too large",
        ),
    ],
)
def test_maestro_networks_that_are_wrong(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        _load(tmp_path, "wrong.m", text)
    assert caught.value.location is not None


def test_maestro_transposed_convolutions(tmp_path):
    """Taps that do not overlap are outputs of their own; others are phases, each with the taps that reach it."""
    text = """Constant NumBatches 3;
Network UNet {
  Layer TRCONV1 {
    Type : TRCONV
    Dimensions { N: NumBatches, K: 512, C: 1024, R: 2, S: 2, Y: 28, X: 30 }
  }
  Layer UP { Type: TRCONV Stride { X: 2, Y: 2 } Dimensions { K: 4, C: 8, R: 3, S: 3, Y: 5, X: 5 } }
}
"""
    network = _load(tmp_path, "unet.m", text)
    first, *phases = network.operators
    assert first.problem == Problem(P=30, Q=28, C=1024, K=4 * 512, N=3)
    assert [op.name for op in phases] == [f"UP.phase{i}" for i in range(4)]
    # 11 x 11 outputs: 6 rows with taps 0 and 2, 5 rows with tap 1 alone
    assert {(op.problem.R, op.problem.S, op.problem.P, op.problem.Q) for op in phases} == {
        (2, 2, 6, 6),
        (1, 2, 5, 6),
        (2, 1, 6, 5),
        (1, 1, 5, 5),
    }
    # every input element meets every tap once, but for the border of each phase's windows
    assert sum(op.problem.macs for op in phases) >= 5 * 5 * 3 * 3 * 4 * 8


@pytest.mark.parametrize(
    "form", ["plain", "no commas at the end", "crlf", "bom", "old names", "more columns"]
)
def test_scale_sim_spellings(tmp_path, form):
    text = SCALE_SIM
    if form == "no commas at the end":
        text = "\n".join(line.rstrip(",") for line in text.splitlines())
    elif form == "crlf":
        text = text.replace("\n", "\r\n")
    elif form == "bom":
        text = "\ufeff" + text
    elif form == "old names":
        text = (
            text.replace("IFMAP", "ifmap")
            .replace("Num Filter,", "num filters ,")
            .replace("Layer name", "Layer")
        )
    elif form == "more columns":
        head, *rows = text.splitlines()
        more = ["", "", " Stride H, Stride W, Batch Size, MAC Cycles, IFMAP Offset, Sparsity,"]
        text = head.replace("Layer name,", "Layer name, Type,").replace(" Strides,", more[2]) + "\n"
        for row in filter(None, rows):
            name, *sizes = row.split(",")
            stride = sizes[-2].strip()
            text += ",".join([name, " Conv", *sizes[:-2], stride, stride, "1", "129", "0", "1:2", ""]) + "\n"
    path = tmp_path / "alexnet.csv"
    path.write_bytes(text.encode())
    assert _problems(load_network(str(path))) == [
        Problem(R=11, S=11, P=55, Q=55, C=3, K=96, stride_w=4, stride_h=4),
        Problem(R=5, S=3, P=4, Q=4, C=4, K=8, stride_w=2, stride_h=2),
        Problem(C=4096, K=1000),
    ]


def test_scale_sim_batches_and_two_strides(tmp_path):
    text = "Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Stride Height,Stride Width,Batch Size,\n"
    (problem,) = _problems(_load(tmp_path, "t.csv", text + "a,9,12,3,5,4,8,2,1,6,\n"))
    assert problem == Problem(R=5, S=3, P=8, Q=4, C=4, K=8, N=6, stride_w=1, stride_h=2)


ZIGZAG_PYTHON = """# a comment, and imports that are never run
import nowhere

workload = {
    -1: {'equation': 'input', 'loop_dim_size': {'B': 1, 'K': 3, 'OY': 224, 'OX': 224}},
    0: {  # conv1, stride 2
        'operator_type': 'Conv',
        'equation': 'O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]',
        'equation_relations': ['ix=2*ox+1*fx', 'iy=2*oy+1*fy'],
        'loop_dim_size': {'B': 1, 'K': 64, 'C': 3, 'OY': 112, 'OX': 110, 'FY': 7, 'FX': 5},
        'operand_precision': {'O': 16, 'O_final': 8, 'W': 8, 'I': 8},
        'operand_source': {'W': [], 'I': [-1]},
        'padding': {'IY': (3, 2), 'IX': (3, 2)},
    },
    1: {'equation': 'O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]', 'operator_type': 'Pooling',
        'loop_dim_size': {'B': 1, 'G': 64, 'OY': 56, 'OX': 56, 'FX': 3, 'FY': 3}},
    2: {'equation': 'O[b][g][oy][ox]=X[b][g][oy][ox]+Y[b][g][oy][ox]', 'operator_type': 'Add',
        'dimension_relations': [], 'loop_dim_size': {'B': 1, 'G': 256, 'OY': 56, 'OX': 56}},
    3: {'equation': 'O[B][K]+=I[B][C]*W[C][K]', 'loop_dim_size': {'B': 32, 'K': 512, 'C': 128}},
}
"""


@pytest.mark.parametrize("rest", ["", ":workload"])
def test_zigzag_workload_in_python(tmp_path, rest):
    network = _load(tmp_path, "resnet.py", ZIGZAG_PYTHON, rest)
    assert network.name == "resnet"
    assert _problems(network) == [
        Problem(R=5, S=7, P=110, Q=112, C=3, K=64, stride_w=2, stride_h=2),
        Problem(N=32, C=128, K=512),
    ]
    assert [op.name for op in network.operators] == ["layer0", "layer3"]
    assert [(one.operator, one.node) for one in network.unsupported] == [
        ("Pooling", "layer1"),
        ("Add", "layer2"),
    ]


def test_zigzag_python_is_never_run(tmp_path):
    for text, says in (
        (ZIGZAG_PYTHON.replace("'K': 512", "'K': exit(3)"), "nothing in it is run"),
        (ZIGZAG_PYTHON.replace("'K': 512", "'K': 0"), "whole number"),
        (ZIGZAG_PYTHON.replace("'K': 512", "'Z': 512"), "unknown dimension 'Z'"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            _load(tmp_path, "resnet.py", text)
        assert caught.value.location.line in (19, 20)
