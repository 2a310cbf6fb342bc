"""Weights of built-in networks from published checkpoints: which tensor of a file each parameter is.

Names and layouts are those of the models `LlamaForCausalLM`, `GPT2LMHeadModel`, `BertModel` and
`ViTForImageClassification` of Hugging Face's transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from baco.common.errors import InputError, Location, did_you_mean
from baco.workloads.network import Network, Operator
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.weights.safetensors import SafetensorsFile, StoredTensor

#: So many names of one kind of fault are listed.
_LISTED = 3


@dataclass(frozen=True)
class _Stored:
    """Where a parameter lies: tensors side by side in the order of outputs; `#` in a name is the layer's number.

    `linear`: a matrix is stored as (outputs, inputs), as `torch.nn.Linear` has it, not as (inputs, outputs).
    """

    names: tuple[str, ...]
    linear: bool = False


@dataclass(frozen=True)
class _Checkpoint:
    """Parameters of a network by name, the prefix that some files put before all names, other spellings of parts of names,
    what files may hold beside (masks and tables that are computed, heads of training)."""

    parameters: Mapping[str, _Stored]
    prefix: str = ""
    spellings: tuple[tuple[str, str], ...] = ()
    beside: str = r"(?!)"


def _dense(ours: str, theirs: str, *, bias: bool, parts: tuple[str, ...] = ("",)) -> dict[str, _Stored]:
    kinds = ("weight", "bias") if bias else ("weight",)
    return {f"{ours}.{k}": _Stored(tuple(f"{theirs}{p}.{k}" for p in parts), linear=True) for k in kinds}


def _norm(ours: str, theirs: str) -> dict[str, _Stored]:
    return {f"{ours}.scale": _Stored((f"{theirs}.weight",)), f"{ours}.shift": _Stored((f"{theirs}.bias",))}


def _plain(**names: str) -> dict[str, _Stored]:
    return {ours.replace("__", "."): _Stored((theirs,)) for ours, theirs in names.items()}


_L = "model.layers.#"
_LLAMA = _Checkpoint(
    {
        **_plain(words__table="model.embed_tokens.weight", norm__scale="model.norm.weight"),
        **_plain(block__norm1__scale=f"{_L}.input_layernorm.weight"),
        **_plain(block__norm2__scale=f"{_L}.post_attention_layernorm.weight"),
        **_dense("block.query", f"{_L}.self_attn.q_proj", bias=False),
        **_dense("block.key", f"{_L}.self_attn.k_proj", bias=False),
        **_dense("block.value", f"{_L}.self_attn.v_proj", bias=False),
        **_dense("block.output", f"{_L}.self_attn.o_proj", bias=False),
        **_dense("block.gate", f"{_L}.mlp.gate_proj", bias=False),
        **_dense("block.up", f"{_L}.mlp.up_proj", bias=False),
        **_dense("block.down", f"{_L}.mlp.down_proj", bias=False),
        **_dense("logits", "lm_head", bias=False),
    },
    beside=r".*rotary_emb\.inv_freq",
)

#: GPT-2's layers are `Conv1D`, whose matrices are (inputs, outputs).
_GPT2 = _Checkpoint(
    {
        **_plain(words__table="wte.weight", add_positions__table="wpe.weight"),
        **_norm("block.norm1", "h.#.ln_1"),
        **_norm("block.norm2", "h.#.ln_2"),
        **_norm("norm", "ln_f"),
        **{
            f"block.{ours}.{kind}": _Stored((f"h.#.{theirs}.{kind}",))
            for ours, theirs in (
                ("qkv", "attn.c_attn"),
                ("output", "attn.c_proj"),
                ("expand", "mlp.c_fc"),
                ("contract", "mlp.c_proj"),
            )
            for kind in ("weight", "bias")
        },
    },
    prefix="transformer.",
    beside=r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight",
)

_E = "encoder.layer.#"
_BERT = _Checkpoint(
    {
        **_plain(embeddings__words__table="embeddings.word_embeddings.weight"),
        **_plain(embeddings__types__table="embeddings.token_type_embeddings.weight"),
        **_plain(embeddings__add_positions__table="embeddings.position_embeddings.weight"),
        **_norm("embeddings.norm", "embeddings.LayerNorm"),
        **_dense("encoder.query", f"{_E}.attention.self.query", bias=True),
        **_dense("encoder.key", f"{_E}.attention.self.key", bias=True),
        **_dense("encoder.value", f"{_E}.attention.self.value", bias=True),
        **_dense("encoder.output", f"{_E}.attention.output.dense", bias=True),
        **_norm("encoder.norm1", f"{_E}.attention.output.LayerNorm"),
        **_dense("encoder.intermediate", f"{_E}.intermediate.dense", bias=True),
        **_dense("encoder.contract", f"{_E}.output.dense", bias=True),
        **_norm("encoder.norm2", f"{_E}.output.LayerNorm"),
        **_dense("pooler", "pooler.dense", bias=True),
    },
    prefix="bert.",
    # The first checkpoints have TensorFlow's names.
    spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
    beside=r"cls\..*|embeddings\.position_ids",
)

_VIT = _Checkpoint(
    {
        **_plain(class_token__token="embeddings.cls_token"),
        **_plain(add_positions__table="embeddings.position_embeddings"),
        **_plain(patches__weight="embeddings.patch_embeddings.projection.weight"),
        **_plain(patches__bias="embeddings.patch_embeddings.projection.bias"),
        **_norm("block.norm1", f"{_E}.layernorm_before"),
        **_dense("block.qkv", f"{_E}.attention.attention.", bias=True, parts=("query", "key", "value")),
        **_dense("block.output", f"{_E}.attention.output.dense", bias=True),
        **_norm("block.norm2", f"{_E}.layernorm_after"),
        **_dense("block.expand", f"{_E}.intermediate.dense", bias=True),
        **_dense("block.contract", f"{_E}.output.dense", bias=True),
        **_norm("norm", "layernorm"),
        **_dense("head", "classifier", bias=True),
    },
    prefix="vit.",
    beside=r"pooler\..*",
)

_CHECKPOINTS = {
    "llama2_7b": _LLAMA,
    "tinyllama_1b": _LLAMA,
    "gpt2": _GPT2,
    "bert_base": _BERT,
    "vit_b16": _VIT,
}


def with_weights(network: Network, path: str | Path) -> Network:
    """A built-in network whose parameters are those of a file, or of a folder with a checkpoint in several parts.

    Elements are read when they are asked for. float16, bfloat16, float32 and float64 are understood.

    Raises:
        InputError: a network of which no names are known; a malformed file; tensors that are missing, left over, of
            another shape or type, all in one message.
    """
    if network.name not in _CHECKPOINTS:
        raise InputError(
            f"weights of '{network.name}' cannot be read from a file",
            hint="networks with names of tensors: " + ", ".join(_CHECKPOINTS) + "; an ONNX file has its own",
        )
    loader = _Loader(_CHECKPOINTS[network.name], str(path), SafetensorsFile(path).tensors)
    loader.check(network)

    def stored(op: Operator) -> Operator:
        if op.semantics is None:
            return op
        operands = tuple(
            replace(p, source=loader) if isinstance(p, Parameter) and p.load is None else p
            for p in op.semantics.operands
        )
        return replace(op, semantics=Semantics(op.semantics.function, operands, op.semantics.attributes))

    return replace(network, operators=tuple(stored(op) for op in network.operators))


class _Loader:
    """Gives the elements of a parameter by its name; that of the copy of layer 3 ends with [3]."""

    def __init__(self, known: _Checkpoint, path: str, tensors: Mapping[str, StoredTensor]) -> None:
        self.known = known
        self.path = path
        self.tensors = {self._plain(name): tensor for name, tensor in tensors.items()}
        # The output projection of some is the embedding table.
        if "lm_head.weight" not in self.tensors and "model.embed_tokens.weight" in self.tensors:
            self.tensors["lm_head.weight"] = self.tensors["model.embed_tokens.weight"]

    def _plain(self, name: str) -> str:
        name = name.removeprefix(self.known.prefix)
        for theirs, ours in self.known.spellings:
            name = name.replace(theirs, ours)
        return name

    def __call__(self, name: str) -> np.ndarray:
        template, _, layer = name.removesuffix("]").partition("[")
        stored = self.known.parameters[template]
        arrays = [self.tensors[one.replace("#", layer)].read() for one in stored.names]
        if stored.linear:
            arrays = [array.T for array in arrays]
        return np.ascontiguousarray(np.concatenate(arrays, axis=-1))

    def check(self, network: Network) -> None:
        """Raises InputError for all that does not fit."""
        wanted = dict(self._wanted(network))
        missing, wrong = [], []
        for name, shape in wanted.items():
            found = self.tensors.get(name)
            if found is None:
                missing.append(name)
            elif not found.is_float:
                wrong.append(f"{name} holds {found.dtype}, not floating-point numbers")
            elif _bare(found.shape) != _bare(shape):
                wrong.append(f"{name} has shape {found.shape}, not {shape}")
        extra = [n for n in self.tensors if n not in wanted and not re.fullmatch(self.known.beside, n)]
        faults = [
            f"{len(names)} {what}: " + ", ".join(sorted(names)[:_LISTED]) + (", ..." * (len(names) > _LISTED))
            for what, names in (("missing", missing), ("unknown", extra), ("do not fit", wrong))
            if names
        ]
        if faults:
            raise InputError(
                f"the tensors are not those of '{network.name}': " + "; ".join(faults),
                location=Location(self.path),
                hint=did_you_mean(missing[0], extra) if missing and extra else None,
            )

    def _wanted(self, network: Network) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(name, shape) of all tensors that the file must have."""
        for op in network.operators:
            for p in op.semantics.operands if op.semantics else ():
                if not isinstance(p, Parameter) or p.load is not None:
                    continue
                stored = self.known.parameters[p.name]
                shape = p.shape if p.stored_shape is None else p.stored_shape
                shape = (*shape[:-1], shape[-1] // len(stored.names))
                shape = shape[::-1] if stored.linear else shape
                for name in stored.names:
                    for layer in range(op.repeat if "#" in name else 1):
                        yield name.replace("#", str(layer)), shape


def _bare(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without extents of 1 in front: tables are stored with and without a batch."""
    while shape[:1] == (1,):
        shape = shape[1:]
    return shape
