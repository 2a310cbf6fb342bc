"""Built-in networks against published counts and the published layer lists."""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from baco.common.errors import InputError
from baco.workloads.inputs.load import describe, load_network, network_names, network_options
from baco.workloads.kinds import KINDS
from baco.workloads.problem import Problem

LAYERS = Path(__file__).resolve().parents[4] / "shared" / "data" / "dosa-layers.csv"
needs_layers = pytest.mark.skipif(
    not LAYERS.exists(), reason="the published layer list is not beside the repository"
)

# Parameters: torchvision and Hugging Face model cards (exact counts). MACs: torchvision's model cards,
# ELECTRA paper (BERT, 2.25e10 operations of two per MAC at 128 tokens), closed formulas otherwise.
PUBLISHED = {
    "resnet50": (4_089_184_256, 25_557_032),
    "resnet18": (1_814_073_344, 11_689_512),
    "mobilenet_v2": (300_774_272, 3_504_872),
    "bert_base": (12 * (128 * (4 * 768**2 + 2 * 768 * 3072) + 2 * 128 * 128 * 768) + 768**2, 109_482_240),
    "gpt2": (12 * (1024 * 12 * 768**2 + 2 * 1024**2 * 768) + 1024 * 768 * 50257, 124_439_808),
    "vit_b16": (17_563_828_224, 86_567_656),
    "llama2_7b": (
        32 * (2048 * (4 * 4096**2 + 3 * 4096 * 11008) + 2 * 2048**2 * 4096) + 2048 * 4096 * 32000,
        6_738_415_616,
    ),
    "tinyllama_1b": (
        22 * (2048 * (2 * 2048**2 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 2 * 2048**2 * 2048)
        + 2048 * 2048 * 32000,
        1_100_048_384,
    ),
    # torchvision's 34,014,999, with 80 instead of 91 classes, P6 from C5 (2048 channels) and the
    # backbone's batch normalisation trained.
    "retinanet": (None, 34_014_999 - 11 * 9 * (256 * 9 + 1) + (2048 - 256) * 256 * 9 + 53_120),
    "unet": (None, 31_030_658),
}


def published_rows(network):
    """Multiset of (R, S, P, Q, C, K, N, strides) with R, P along the longer side, groups left out."""
    found = Counter()
    with LAYERS.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["network"] == network:
                key = tuple(int(row[c]) for c in ("R", "S", "P", "Q", "C", "K", "N", "stride_w", "stride_h"))
                found[key] += int(row["count"])
    return found


def own_rows(name):
    found = Counter()
    for task in load_network(name).tasks:
        p = task.problem
        found[(p.R, p.S, p.P, p.Q, p.C, p.K, p.N, p.stride_w, p.stride_h)] += int(task.count)
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name):
    network = load_network(name)
    macs, weights = PUBLISHED[name]
    assert network.weight_words == weights
    if macs is not None:
        assert network.macs == macs


@needs_layers
@pytest.mark.parametrize("name", ["resnet50", "unet"])
def test_layers_equal_the_published_list(name):
    assert own_rows(name) == published_rows(name)


@needs_layers
def test_deepbench_layers_equal_the_published_list():
    assert own_rows("deepbench_ocr") + own_rows("deepbench_face") == published_rows("deepbench")


@needs_layers
def test_bert_holds_the_published_layers():
    # The list has one encoder layer, with fewer projections and a single head.
    assert set(published_rows("bert")) <= set(own_rows("bert_base"))


@needs_layers
def test_retinanet_holds_the_published_layers():
    missing = set(published_rows("retinanet")) - set(own_rows("retinanet"))
    # 1x1 convolutions on P6 and P7, which no published RetinaNet has.
    assert missing == {(1, 1, 4, 4, 256, 256, 1, 1, 1), (1, 1, 2, 2, 256, 256, 1, 1, 1)}


@pytest.mark.parametrize("name", network_names())
def test_graph_is_well_formed(name):
    network = load_network(name)
    known = {t.name for t in network.inputs}
    read = set()
    for op in network.operators:
        assert op.inputs, op
        assert set(op.inputs) <= known, op
        assert op.kind in KINDS
        assert op.repeat >= 1
        assert op.output.name not in known
        if op.problem and op.kind != "concat":
            assert op.output.words == op.problem.output_words
        known.add(op.output.name)
        read.update(op.inputs)
    # All but the results is read by something.
    unread = known - read
    assert 1 <= len(unread) <= 10
    assert {t.name for t in network.inputs} <= read
    assert network.unsupported == ()


@pytest.mark.parametrize("name", network_names())
def test_batch_multiplies_macs_and_keeps_weights(name):
    one, three = load_network(name), load_network(f"{name}:batch=3")
    assert three.macs == 3 * one.macs
    assert three.weight_words == one.weight_words
    assert three.options["batch"] == 3


def test_repeated_blocks_are_counted_once_each_time():
    network = load_network("bert_base")
    scores = next(op for op in network.operators if op.name == "encoder.scores")
    assert scores.repeat == 12
    assert scores.problem == Problem(P=128, C=64, K=128, groups=12)
    assert next(t for t in network.tasks if t.problem == Problem(P=128, C=768, K=768)).count == 48


def test_decoding_is_vector_products_on_the_cache():
    network = load_network("llama2_7b:phase=decode,seq=512")
    kinds = {t.problem.kind for t in network.tasks}
    assert kinds == {"gemv", "batched gemv"}
    assert network.macs == 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 512 * 4096) + 4096 * 32000
    assert network.weight_words == 6_738_415_616


def test_heads_of_queries_share_keys_and_values():
    network = load_network("tinyllama_1b:phase=decode,seq=512")
    keys = next(op for op in network.operators if op.name == "block.key")
    assert keys.problem == Problem(P=1, C=2048, K=4 * 64)
    scores = next(op for op in network.operators if op.name == "block.scores")
    assert scores.problem == Problem(P=1, C=64, K=512, groups=32)
    assert network.weight_words == 1_100_048_384


def test_what_the_accelerator_absorbs():
    def host(name):
        return {op.kind for op in load_network(name).host_operators}

    assert host("resnet50") == {"avgpool"}
    assert host("deepbench_ocr") == host("deepbench_face") == set()
    assert host("unet") == {"upsample"}
    assert host("bert_base") == {"embedding", "add", "layernorm", "softmax", "gelu", "tanh"}
    assert host("llama2_7b") == {"embedding", "rmsnorm", "rope", "softmax", "silu", "mul"}


def test_describe_counts_repetitions():
    facts = describe(load_network("bert_base"))
    assert facts["macs"] == PUBLISHED["bert_base"][0]
    assert facts["weights"] == 109_482_240
    assert facts["tensor_operators"] == 12 * 8 + 1
    assert facts["host_kinds"] == {
        "embedding": 2,
        "add": 2,
        "layernorm": 25,
        "softmax": 12,
        "gelu": 12,
        "tanh": 1,
    }
    assert (
        facts["operators"] == facts["tensor_operators"] + facts["fused_operators"] + facts["host_operators"]
    )
    assert facts["problems"] == 6


def test_options_are_listed():
    assert network_options("llama2_7b")["phase"] == ("prefill", ("prefill", "decode"))
    assert all("batch" in network_options(name) for name in network_names())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("resnt50", "did you mean 'resnet50'"),
        ("", "unknown network"),
        ("resnet50:", "not an option"),
        ("resnet50:batch", "not an option"),
        ("resnet50:batch=", "not an option"),
        ("resnet50:batch=0", "from 1 to"),
        ("resnet50:batch=-3", "whole number"),
        ("resnet50:batch=1.5", "whole number"),
        ("resnet50:batch=nan", "whole number"),
        ("resnet50:batch=²", "whole number"),
        ("resnet50:batch=" + "9" * 5000, "from 1 to"),
        ("resnet50:batch=1,batch=2", "twice"),
        ("resnet50:bach=2", "did you mean 'batch'"),
        ("resnet50:seq=128", "no option 'seq'"),
        ("resnet50:image=2000000000", "beyond the exact range"),
        ("llama2_7b:phase=decod", "did you mean 'decode'"),
        ("llama2_7b:seq=2000000000", "beyond the exact range"),
        ("bert_base:seq=513", "at most seq=512"),
        ("gpt2:seq=1025", "at most seq=1024"),
        ("vit_b16:image=225", "multiple of the patch"),
        ("unet:image=570", "odd size"),
        ("unet:image=20", "does not fit"),
        ("deepbench_ocr:height=2", "does not fit"),
        ("missing/model.pt", "not a kind of file"),
        ("model.onnx", "no such file"),
        ("table.yaml", "no such file"),
        ("table.csv:resnet50", "no such file"),
        ("code.py:model", "no such file"),
        (".", "folder"),
        ("a\0b.csv", "cannot be read"),
    ],
)
def test_bad_specifications(spec, says):
    with pytest.raises(InputError, match=says):
        load_network(spec)


def test_built_in_networks_need_neither_torch_nor_onnx():
    code = (
        "import sys; from baco.workloads.inputs.load import load_network, network_names\n"
        "[load_network(name) for name in network_names()]\n"
        "print(sorted({'torch', 'onnx', 'pandas', 'pydantic'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
