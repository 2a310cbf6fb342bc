"""Weights from files, in networks run by layers of PyTorch on the same tensors."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from baco.common.errors import InputError
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import runnable
from baco.workloads.inputs.load import load_network
from baco.workloads.networks import bert, gpt, llama, vit
from baco.workloads.weights.checkpoint import with_weights
from baco.workloads.weights.safetensors import SafetensorsFile

LAYERS, WIDTH, HEADS, HIDDEN, WORDS, POSITIONS = 2, 16, 4, 64, 11, 8
RANDOM = np.random.default_rng(5)


def write(path, tensors, dtype="F32"):
    """The file format, written from its description."""
    data, header = b"", {"__metadata__": {"format": "pt"}}
    for name, array in tensors.items():
        if array.dtype.kind != "f":
            kind, raw = "I64", array.astype("<i8").tobytes()
        elif dtype == "BF16":
            kind, raw = dtype, torch.from_numpy(array).to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        else:
            kind, raw = dtype, array.astype({"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def normal(*shape):
    return (RANDOM.standard_normal(shape) * 0.5).astype(np.float32)


def dense(name, outputs, inputs):
    return {f"{name}.weight": normal(outputs, inputs), f"{name}.bias": normal(outputs)}


def norm(name):
    return {f"{name}.weight": 1 + normal(WIDTH), f"{name}.bias": normal(WIDTH)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in (bert, gpt, vit):
        for name in ("LAYERS", "WIDTH", "HEADS", "HIDDEN", "POSITIONS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, globals()[name])
        monkeypatch.setattr(module, "VOCABULARY", WORDS, raising=False)


def gpt2_tensors():
    t = {"wte.weight": normal(WORDS, WIDTH), "wpe.weight": normal(POSITIONS, WIDTH), **norm("ln_f")}
    for i in range(LAYERS):
        h = f"h.{i}"
        t |= {**norm(f"{h}.ln_1"), **norm(f"{h}.ln_2"), f"{h}.attn.bias": normal(1, 1, 8, 8)}
        for name, outputs, inputs in (
            ("attn.c_attn", 3 * WIDTH, WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", 4 * WIDTH, WIDTH),
            ("mlp.c_proj", WIDTH, 4 * WIDTH),
        ):
            t |= {f"{h}.{name}.weight": normal(inputs, outputs), f"{h}.{name}.bias": normal(outputs)}
    return t


def bert_tensors(weight="weight", bias="bias"):
    e = "embeddings"
    t = {
        f"{e}.word_embeddings.weight": normal(WORDS, WIDTH),
        f"{e}.position_embeddings.weight": normal(POSITIONS, WIDTH),
        f"{e}.token_type_embeddings.weight": normal(2, WIDTH),
        f"{e}.position_ids": np.arange(POSITIONS)[None],
        **norm(f"{e}.LayerNorm"),
        **dense("pooler.dense", WIDTH, WIDTH),
    }
    for i in range(LAYERS):
        h = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            t |= dense(f"{h}.attention.self.{name}", WIDTH, WIDTH)
        t |= dense(f"{h}.attention.output.dense", WIDTH, WIDTH) | norm(f"{h}.attention.output.LayerNorm")
        t |= dense(f"{h}.intermediate.dense", HIDDEN, WIDTH) | dense(f"{h}.output.dense", WIDTH, HIDDEN)
        t |= norm(f"{h}.output.LayerNorm")
    return {
        n.replace("Norm.weight", f"Norm.{weight}").replace("Norm.bias", f"Norm.{bias}"): a
        for n, a in t.items()
    }


def vit_tensors():
    e = "vit.embeddings"
    t = {
        f"{e}.cls_token": normal(1, 1, WIDTH),
        f"{e}.position_embeddings": normal(1, 5, WIDTH),
        f"{e}.patch_embeddings.projection.weight": normal(WIDTH, 3, 16, 16) * 0.1,
        f"{e}.patch_embeddings.projection.bias": normal(WIDTH),
        **norm("vit.layernorm"),
        **dense("classifier", 1000, WIDTH),
    }
    for i in range(LAYERS):
        h = f"vit.encoder.layer.{i}"
        for name in ("query", "key", "value"):
            t |= dense(f"{h}.attention.attention.{name}", WIDTH, WIDTH)
        t |= dense(f"{h}.attention.output.dense", WIDTH, WIDTH) | norm(f"{h}.layernorm_before")
        t |= dense(f"{h}.intermediate.dense", HIDDEN, WIDTH) | dense(f"{h}.output.dense", WIDTH, HIDDEN)
        t |= norm(f"{h}.layernorm_after")
    return t


def block(activation, first, qkv, output, norm1, expand, contract, norm2):
    """A layer of PyTorch with these tensors: qkv (3*WIDTH, WIDTH) and bias, the others (weight, bias)."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=first
    ).eval()
    parts = (
        (layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias),
        *(
            (m.weight, m.bias)
            for m in (layer.self_attn.out_proj, layer.norm1, layer.linear1, layer.linear2, layer.norm2)
        ),
    )
    with torch.no_grad():
        for pair, given in zip(parts, (qkv, output, norm1, expand, contract, norm2), strict=True):
            for target, array in zip(pair, given, strict=True):
                target.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    return layer


def both(t, name, transposed=False):
    weight = t[f"{name}.weight"]
    return (weight.T if transposed else weight), t[f"{name}.bias"]


def joined(t, name):
    pairs = [both(t, f"{name}.{n}") for n in ("query", "key", "value")]
    return tuple(np.concatenate(parts) for parts in zip(*pairs, strict=True))


def layer_norm(t, name, x):
    return nn.functional.layer_norm(x, (WIDTH,), *(torch.from_numpy(a) for a in both(t, name)))


def run(network, inputs):
    parameters = Parameters(network.source)
    result = FloatGraph(runnable(network, parameters), parameters).run(inputs)
    assert parameters.random == ()
    return result[0]


TOKENS = np.array([[1, 10, 4, 4, 0]])


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_gpt2_computes_what_pytorch_computes(tmp_path, prefix):
    t = gpt2_tensors()
    path = write(tmp_path / "gpt2.safetensors", {prefix + n: a for n, a in t.items()})
    got = run(load_network(f"gpt2:seq=5,weights={path}"), {"tokens": TOKENS})
    x = torch.from_numpy(t["wte.weight"][TOKENS] + t["wpe.weight"][:5])
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        for i in range(LAYERS):
            h = f"h.{i}"
            parts = (
                both(t, f"{h}.attn.c_attn", True),
                both(t, f"{h}.attn.c_proj", True),
                both(t, f"{h}.ln_1"),
            )
            parts += (both(t, f"{h}.mlp.c_fc", True), both(t, f"{h}.mlp.c_proj", True), both(t, f"{h}.ln_2"))
            gelu = nn.GELU("tanh")
            x = block(gelu, True, *parts)(x, src_mask=mask, is_causal=True)
        wanted = layer_norm(t, "ln_f", x) @ torch.from_numpy(t["wte.weight"]).T
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spelling", [("weight", "bias"), ("gamma", "beta")])
def test_bert_computes_what_pytorch_computes(tmp_path, spelling):
    t = bert_tensors()
    stored = {n.replace("Norm.weight", f"Norm.{spelling[0]}").replace("Norm.bias", f"Norm.{spelling[1]}"): a
              for n, a in t.items()}  # fmt: skip
    path = write(tmp_path / "bert.safetensors", {f"bert.{n}": a for n, a in stored.items()})
    types = np.array([[0, 0, 1, 1, 1]])
    got = run(load_network(f"bert_base:seq=5,weights={path}"), {"tokens": TOKENS, "token_types": types})
    e = "embeddings"
    x = t[f"{e}.word_embeddings.weight"][TOKENS] + t[f"{e}.token_type_embeddings.weight"][types]
    with torch.no_grad():
        x = layer_norm(t, f"{e}.LayerNorm", torch.from_numpy(x + t[f"{e}.position_embeddings.weight"][:5]))
        for i in range(LAYERS):
            h = f"encoder.layer.{i}"
            x = block(
                "gelu", False, joined(t, f"{h}.attention.self"), both(t, f"{h}.attention.output.dense"),
                both(t, f"{h}.attention.output.LayerNorm"), both(t, f"{h}.intermediate.dense"),
                both(t, f"{h}.output.dense"), both(t, f"{h}.output.LayerNorm"),
            )(x)  # fmt: skip
        weight, bias = both(t, "pooler.dense")
        wanted = np.tanh(x[:, 0].numpy() @ weight.T + bias)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


def test_vit_computes_what_pytorch_computes(tmp_path):
    t = vit_tensors()
    path = write(tmp_path / "vit.safetensors", t)
    image = normal(1, 3, 32, 32)
    got = run(load_network(f"vit_b16:image=32,weights={path}"), {"image": image})
    e = "vit.embeddings"
    with torch.no_grad():
        weight, bias = (torch.from_numpy(a) for a in both(t, f"{e}.patch_embeddings.projection"))
        x = nn.functional.conv2d(torch.from_numpy(image), weight, bias, stride=16).flatten(2).transpose(1, 2)
        x = torch.cat([torch.from_numpy(t[f"{e}.cls_token"]), x], 1) + torch.from_numpy(
            t[f"{e}.position_embeddings"]
        )
        for i in range(LAYERS):
            h = f"vit.encoder.layer.{i}"
            x = block(
                "gelu", True, joined(t, f"{h}.attention.attention"), both(t, f"{h}.attention.output.dense"),
                both(t, f"{h}.layernorm_before"), both(t, f"{h}.intermediate.dense"),
                both(t, f"{h}.output.dense"), both(t, f"{h}.layernorm_after"),
            )(x)  # fmt: skip
        weight, bias = both(t, "classifier")
        wanted = layer_norm(t, "vit.layernorm", x)[:, 0].numpy() @ weight.T + bias
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


def small_llama():
    return llama._llama(
        "tinyllama_1b", llama._Size(LAYERS, WIDTH, HEADS, 2, HIDDEN, WORDS), 1, 5, "prefill", 0
    )


def llama_tensors():
    t = {"model.embed_tokens.weight": normal(WORDS, WIDTH), "model.norm.weight": normal(WIDTH)}
    for i in range(LAYERS):
        h = f"model.layers.{i}"
        sizes = {"q": (WIDTH, WIDTH), "k": (WIDTH // 2, WIDTH), "v": (WIDTH // 2, WIDTH), "o": (WIDTH, WIDTH)}
        t |= {f"{h}.self_attn.{n}_proj.weight": normal(*shape) for n, shape in sizes.items()}
        t |= {f"{h}.mlp.{n}_proj.weight": normal(HIDDEN, WIDTH) for n in ("gate", "up")}
        t |= {f"{h}.mlp.down_proj.weight": normal(WIDTH, HIDDEN)}
        t |= {f"{h}.{n}_layernorm.weight": normal(WIDTH) for n in ("input", "post_attention")}
        t |= {f"{h}.self_attn.rotary_emb.inv_freq": normal(2)}
    return t | {"lm_head.weight": normal(WORDS, WIDTH)}


OURS = {
    "query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj", "output": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip


@pytest.mark.parametrize("tied", [False, True])
def test_every_weight_of_llama_is_the_tensor_of_its_layer(tmp_path, tied):
    t = llama_tensors()
    if tied:
        del t["lm_head.weight"]
    # In two files, as large checkpoints are.
    names = list(t)
    for number, (start, stop) in enumerate(pairwise((0, 7, len(names)))):
        write(tmp_path / f"model-{number}.safetensors", {n: t[n] for n in names[start:stop]})
    network = with_weights(small_llama(), tmp_path)
    parameters = Parameters(network.source)
    seen = set()
    for op in runnable(network, parameters).operators:
        name, _, layer = op.name.removesuffix("]").partition("[")
        theirs = OURS.get(name.removeprefix("block."))
        if theirs:
            seen.add(op.name)
            wanted = t[f"model.layers.{layer}.{theirs}.weight"].T
            np.testing.assert_array_equal(parameters(op.semantics.operands[1]), wanted)
        elif op.kind == "rmsnorm":
            kind = {"norm1": "input", "norm2": "post_attention"}.get(name.removeprefix("block."))
            full = f"model.layers.{layer}.{kind}_layernorm.weight" if kind else "model.norm.weight"
            seen.add(op.name)
            np.testing.assert_array_equal(parameters(op.semantics.operands[1]), t[full])
        elif name == "logits":
            wanted = t["model.embed_tokens.weight" if tied else "lm_head.weight"].T
            np.testing.assert_array_equal(parameters(op.semantics.operands[1]), wanted)
    assert len(seen) == LAYERS * 9 + 1


@pytest.mark.parametrize(("dtype", "error"), [("F16", 2**-11), ("BF16", 2**-8), ("F64", 0), ("F32", 0)])
def test_elements_of_every_float_type(tmp_path, dtype, error):
    array = normal(3, 5)
    read = (
        SafetensorsFile(write(tmp_path / "x.safetensors", {"a": normal(2), "x": array}, dtype))
        .tensors["x"]
        .read()
    )
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, array, rtol=error, atol=1e-7)


def test_all_that_does_not_fit_is_said_at_once(tmp_path):
    t = llama_tensors()
    t["model.norm.weigth"] = t.pop("model.norm.weight")
    t["model.layers.1.mlp.up_proj.weight"] = t["model.layers.1.mlp.up_proj.weight"].T
    t["lm_head.weight"] = np.zeros((WORDS, WIDTH), np.int64)
    with pytest.raises(InputError) as caught:
        with_weights(small_llama(), write(tmp_path / "x.safetensors", t))
    text = str(caught.value)
    assert "1 missing: model.norm.weight" in text
    assert "1 unknown: model.norm.weigth" in text
    assert "model.layers.1.mlp.up_proj.weight has shape (16, 64), not (64, 16)" in text
    assert "lm_head.weight holds I64" in text


def test_networks_without_names_of_tensors_are_refused(tmp_path):
    with pytest.raises(InputError, match="weights of 'resnet18' cannot be read"):
        load_network(f"resnet18:weights={tmp_path}")


HEADER = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "longer than the file"),
        (b"\xff" * 8 + b"{}", "longer than the file"),
        ((2).to_bytes(8, "little") + b"[]", "no table"),
        ((2).to_bytes(8, "little") + b"{x", "its header"),
        (len(HEADER).to_bytes(8, "little") + HEADER + bytes(15), "cut off"),
        (
            len(HEADER).to_bytes(8, "little") + HEADER.replace(b"[4]", b"[5]") + bytes(16),
            "16 bytes, its shape and type 20",
        ),
        (len(HEADER).to_bytes(8, "little") + HEADER.replace(b"[4]", b"[-]")[:-1] + b"}", "its header"),
        (
            len(HEADER).to_bytes(8, "little") + HEADER.replace(b'"F32"', b"33333") + bytes(16),
            "no type, shape",
        ),
    ],
)
def test_malformed_files_are_refused(tmp_path, data, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        SafetensorsFile(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_network(f"gpt2:seq=8,weights={tmp_path / 'gone.safetensors'}")
    with pytest.raises(InputError, match="no files"):
        load_network(f"gpt2:seq=8,weights={tmp_path}")
