"""Layer tables in CSV and YAML: what they mean, and errors with their place."""

from collections import Counter

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.tables import COLUMNS
from baco.workloads.problem import Problem

ALL = (*COLUMNS, "stride_h", "stride_w", "dilation_h", "dilation_w", "count")
HEADER = ",".join(ALL)
ROW = "net,3,3,56,28,64,128,1,2,1,1,1,4"


def write(tmp_path, text, name="layers.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_rows_are_problems(tmp_path):
    path = write(tmp_path, f"{HEADER},groups\n{ROW},2\n\nnet,1,1,128,1,768,64,1,1,1,1,1,12,1\n")
    network = load_network(str(path))
    assert network.name == "net"
    assert [(t.problem, t.count) for t in network.tasks] == [
        (Problem(R=3, S=3, P=56, Q=28, C=64, K=128, stride_h=2, groups=2), 4),
        (Problem(P=128, C=768, K=64), 12),
    ]
    assert network.macs == 4 * 2 * 9 * 56 * 28 * 64 * 128 + 12 * 128 * 768 * 64


def test_csv_strides_dilations_groups_and_counts_are_one_where_they_are_left_out(tmp_path):
    path = write(tmp_path, "network,R,S,P,Q,C,K,N\nnet,3,3,56,28,64,128,1\n")
    (task,) = load_network(str(path)).tasks
    assert (task.problem, task.count) == (Problem(R=3, S=3, P=56, Q=28, C=64, K=128), 1)
    path = write(tmp_path, "network,R,S,P,Q,C,K,N,stride_w\nnet,3,3,56,28,64,128,1,2\n")
    (task,) = load_network(str(path)).tasks
    assert task.problem == Problem(R=3, S=3, P=56, Q=28, C=64, K=128, stride_w=2)


def test_csv_column_order_names_and_repeated_layers(tmp_path):
    columns = ["name", *reversed(ALL)]
    values = ["conv", *reversed(ROW.split(","))]
    path = write(tmp_path, "\ufeff" + "\r\n".join([", ".join(columns), *[", ".join(values)] * 2]) + "\r\n")
    network = load_network(str(path))
    assert [op.name for op in network.operators] == ["conv", "conv.line3"]
    assert network.tasks[0].count == 8


def test_csv_with_several_networks_needs_a_choice(tmp_path):
    path = write(tmp_path, f"{HEADER}\n{ROW}\n{ROW.replace('net', 'other')}\n")
    assert load_network(f"{path}:other").name == "other"
    with pytest.raises(InputError, match="net, other") as caught:
        load_network(str(path))
    assert f"{path}:net" in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'other'"):
        load_network(f"{path}:othr")


def place(error):
    return error.location.line, error.location.column


@pytest.mark.parametrize(
    ("text", "says", "where"),
    [
        ("", "empty", (None, None)),
        ("\n\n", "empty", (None, None)),
        (HEADER, "no rows", (None, None)),
        (HEADER.replace(",K", "") + "\n" + ROW, "missing column K", (1, None)),
        (HEADER.replace("R,S,", "") + "\n" + ROW, "missing columns R, S", (1, None)),
        (HEADER.replace("dilation_w", "dilatoin_w") + "\n" + ROW, "did you mean 'dilation_w'", (1, 52)),
        (HEADER + ",group\n" + ROW + ",1", "did you mean 'groups'", (1, len(HEADER) + 2)),
        (HEADER + ",R\n" + ROW + ",1", "given twice", (1, None)),
        ("some,other,file\n1,2,3\n", "not a layer table", (1, None)),
        (f"{HEADER}\n{ROW},7", "14 fields, the header 13", (2, None)),
        (f"{HEADER}\nnet,3,3\n", "3 fields", (2, None)),
        (f"{HEADER}\n{ROW}\n,3,3,56,28,64,128,1,2,1,1,1,4", "network's name must not be empty", (3, 1)),
        (f"{HEADER}\n{ROW.replace('56', '0')}", "P must be from 1", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '-1')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '5.5')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', 'nan')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', 'inf')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '1e3')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '٣')}", "P must be a whole", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56', '9' * 6000)}", "P must be from 1", (2, 9)),
        (f"{HEADER}\n{ROW.replace('56,28', '2147483647,2147483647')}", "exact range", (2, None)),
        (f"{HEADER}\n{ROW.replace('1,2,1,1,1', '1,2147483647,2147483647,1,1')}", "exact range", (2, None)),
        (f"{HEADER}\n{ROW}\n{ROW.replace('net', 'other').replace('56', '0')}", "P must be", (3, 11)),
        (f'{HEADER}\n"{ROW}', "not CSV", (2, None)),
        (f'{HEADER}\n"net"x{ROW[3:]}', "not CSV", (2, None)),
        (b"\xff\xfe" + HEADER.encode("utf-16-le"), "binary", (1, None)),
        ((HEADER + "\n" + ROW).encode() + b"\xe9", "not UTF-8", (2, 33)),
        (b"\x7fELF\0\0", "binary", (1, None)),
    ],
)
def test_csv_errors_have_their_place(tmp_path, text, says, where):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=says) as caught:
        load_network(f"{path}")
    assert caught.value.location.file == str(path)
    assert place(caught.value) == where


def test_csv_mutations_give_a_network_or_one_error(tmp_path):
    good = f"{HEADER},groups,name\n{ROW},2,a\n{ROW},1,b\n".encode()
    random = np.random.default_rng(5)
    outcomes = Counter()
    for _ in range(400):
        data = bytearray(good)
        for _ in range(random.integers(1, 4)):
            at = int(random.integers(len(data)))
            kind = random.integers(3)
            if kind == 0:
                data[at] = random.integers(256)
            elif kind == 1:
                del data[at : at + int(random.integers(1, 20))]
            else:
                data[at:at] = bytes(random.integers(256, size=3, dtype=np.uint8))
        try:
            load_network(str(write(tmp_path, bytes(data))))
            outcomes["network"] += 1
        except InputError as error:
            outcomes["error" if error.location else "error without a place"] += 1
    assert outcomes["error"] > 100
    assert not outcomes["error without a place"]


YAML = """\
name: mine
layers:
  - {type: conv, R: 3, S: 5, P: 56, Q: 28, C: 64, K: 32, N: 2, stride: [2, 1], dilation: 3, groups: 4, count: 2}
  - {type: conv1d, R: 3, P: 100, C: 16, K: 32, stride: 2, name: line}
  - {type: depthwise, R: 3, S: 3, P: 28, Q: 28, channels: 96}
  - {type: gemm, M: 128, K: 768, N: 3072}
  - {type: gemm, M: 128, K: 64, N: 128, batch: 12}
  - {type: gemv, K: 4096, N: 11008, count: 3}
"""


def test_yaml_layers_are_problems(tmp_path):
    network = load_network(str(write(tmp_path, YAML, "layers.yaml")))
    assert network.name == "mine"
    assert [(t.problem, t.count) for t in network.tasks] == [
        (Problem(R=3, S=5, P=56, Q=28, C=64, K=32, N=2, stride_h=2, dilation_w=3, dilation_h=3, groups=4), 2),
        (Problem(R=3, P=100, C=16, K=32, stride_w=2), 1),
        (Problem(R=3, S=3, P=28, Q=28, groups=96), 1),
        (Problem(P=128, C=768, K=3072), 1),
        (Problem(P=128, C=64, K=128, groups=12), 1),
        (Problem(C=4096, K=11008), 3),
    ]
    kinds = [t.problem.kind for t in network.tasks]
    assert kinds == ["grouped conv", "conv1d", "depthwise conv", "gemm", "batched gemm", "gemv"]
    assert network.operators[1].name == "line"


def test_yaml_table_is_named_after_its_file(tmp_path):
    assert load_network(str(write(tmp_path, YAML.split("\n", 1)[1], "own.yml"))).name == "own"


@pytest.mark.parametrize(
    ("old", "new", "says", "line"),
    [
        ("name: mine", "nmae: mine", "did you mean 'name'", 1),
        ("channels", "chanels", "did you mean 'channels'", 5),
        ("conv1d", "conv3d", "did you mean 'conv1d'", 4),
        ("type: gemv, ", "", "missing key 'type'", 8),
        ("type: gemv", "type: 7", "'type' cannot be", 8),
        ("M: 128, ", "", "missing key 'M'", 6),
        ("M: 128", "M: 0", "at least 1", 6),
        ("M: 128", "M: -5", "at least 1", 6),
        ("M: 128", "M: .nan", "'M'", 6),
        ("M: 128", "M: .inf", "'M'", 6),
        ("M: 128", "M: 1.5", "'M' must be a whole number", 6),
        ("M: 128", "M: true", "'M'", 6),
        ("M: 128", "M: [1]", "'M'", 6),
        ("M: 128", "M: 99999999999999999999", "'M'", 6),
        ("M: 128", "M: 2000000000, N: 2000000000", "given twice", 6),
        ("K: 768, N: 3072", "K: 2000000000, N: 2000000000", "exact range", 6),
        ("stride: [2, 1]", "stride: [2, 1, 1]", "stride", 3),
        ("stride: [2, 1]", "stride: []", "stride", 3),
        ("stride: [2, 1]", "stride: 0", "stride", 3),
        ("name: line", "name: gemv5", "two layers are called", 8),
        ("- {type: gemv, K: 4096, N: 11008, count: 3}", "- gemv", "mapping", 8),
        ("  - {type: gemv", "  - {{{{type: gemv", "", 8),
        ("layers:", "layers: 3\nx:", "", None),
        ("layers:", "layers: []\nx:", "", None),
        ("name: mine", "name: [mine]", "'name'", 1),
        ("name: mine", "name: !!python/object/apply:os.system [ls]", "", 1),
    ],
)
def test_yaml_errors_have_their_place(tmp_path, old, new, says, line):
    text = YAML.replace(old, new, 1)
    assert text != YAML
    with pytest.raises(InputError) as caught:
        load_network(str(write(tmp_path, text, "layers.yaml")))
    assert says in str(caught.value)
    if line is not None:
        assert caught.value.location.line == line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "[]",
        "layers",
        "layers:",
        "layers: []",
        "[" * 5000,
        "a: " * 500,
        b"\xff\xfe",
        b"\0",
        "- a\n- b: [c",
        "{layers: [{type: gemv, K: 1, N: 1, extra: 1}]}",
    ],
)
def test_files_that_are_no_layer_tables(tmp_path, text):
    path = write(tmp_path, text, "layers.yaml")
    with pytest.raises(InputError) as caught:
        load_network(str(path))
    assert caught.value.location.file == str(path)


def test_yaml_takes_no_choice(tmp_path):
    with pytest.raises(InputError, match="holds one network"):
        load_network(f"{write(tmp_path, YAML, 'layers.yaml')}:mine")


TYPED = """name,type,M,K,N,R,S,P,Q,C,stride,count
query,gemm,128,768,3072,,,,,,,12
up,gemv,,4096,11008,,,,,,,
window,conv,,64,2,3,3,56,28,32,2,
"""


def test_csv_with_a_type_means_what_yaml_means(tmp_path):
    network = load_network(str(write(tmp_path, TYPED, "mine.csv")))
    assert network.name == "mine"
    # M x K times K x N: P = M rows, C = K summed, K = N columns
    assert [(t.problem, t.count, t.operators) for t in network.tasks] == [
        (Problem(P=128, C=768, K=3072), 12, ("query",)),
        (Problem(C=4096, K=11008), 1, ("up",)),
        (Problem(R=3, S=3, P=56, Q=28, C=32, K=64, N=2, stride_h=2, stride_w=2), 1, ("window",)),
    ]
    layers = (
        "- {name: query, type: gemm, M: 128, K: 768, N: 3072, count: 12}",
        "- {name: up, type: gemv, K: 4096, N: 11008}",
        "- {name: window, type: conv, R: 3, S: 3, P: 56, Q: 28, C: 32, K: 64, N: 2, stride: 2}",
    )
    yaml = write(tmp_path, "layers:\n" + "".join(f"  {line}\n" for line in layers), "mine.yaml")
    assert load_network(str(yaml)).tasks == network.tasks
    several = "network,type,M,K,N\na,gemm,1,2,3\nb,gemm,4,5,6\n"
    path = write(tmp_path, several, "several.csv")
    assert load_network(f"{path}:b").tasks[0].problem == Problem(P=4, C=5, K=6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,M,K,N\na,1,2,3\n", "a table of products has the columns name,type,M,K,N"),
        ("name,type,M,K,N\na,gem,1,2,3\n", "2:3: 'type' cannot be 'gem'"),
        ("name,type,M,K,N\na,gemv,1,2,3\n", "2:8: a layer of type 'gemv' has no 'M'"),
        ("name,type,M,K,N\na,gemm,1,,3\n", "2: a layer of type 'gemm' needs K"),
        ("name,type,M,K,N\na,gemm,0,2,3\n", "2:8 (M): M must be"),
        ("name,type,M,K,L\na,gemm,1,2,3\n", "1:15: unknown column 'L'"),
    ],
)
def test_wrong_rows_with_a_type(tmp_path, text, words):
    with pytest.raises(InputError) as error:
        load_network(str(write(tmp_path, text)))
    assert words in str(error.value)
