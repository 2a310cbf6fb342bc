"""Decoders with keys and values kept from call to call, against a decoder written in numpy."""

import numpy as np
import pytest

from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs, real, runnable
from baco.compiler.network.reference import reference
from baco.sim.network.run import run_network
from baco.workloads.builder import GraphBuilder
from baco.workloads.inputs.load import load_network
from baco.workloads.networks import llama
from tests.compiler.network.net_sketch import DIM4

LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, WORDS = 2, 64, 8, 2, 96, 50
D = WIDTH // HEADS


def decoder(seq=1, phase="prefill", cache=0):
    size = llama._Size(LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, WORDS)
    return llama._llama("small", size, 1, seq, phase, cache)


def trained(network):
    """Elements of all parameters by name, and the graph in floats."""
    parameters = Parameters(network.source)
    flat = runnable(network, parameters)
    found = {
        p.name: parameters(p).astype(np.float64)
        for op in flat.operators
        for p in op.semantics.operands
        if hasattr(p, "fill") and p.fill and "causal" not in p.name
    }
    return found, flat, parameters


def rotated(x, position):
    """Su et al. 2021, equation 34, with pairs (i, i + d/2) as Llama's checkpoints have them; x (heads, d)."""
    half = x.shape[-1] // 2
    z = x[:, :half] + 1j * x[:, half:]
    z = z * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag], axis=-1)


def normed(x, gain):
    return x / np.sqrt(np.mean(x * x) + 1e-5) * gain


def oracle(p, tokens):
    """Logits (tokens, words), keys and values [layer][token] (heads, d): one token after the other, head by head."""
    keys, values = ([[] for _ in range(LAYERS)] for _ in range(2))
    logits = []
    for position, token in enumerate(tokens):
        x = p["words.table"][token]
        for i in range(LAYERS):
            w = {
                n: p[f"block.{n}.weight[{i}]"]
                for n in ("query", "key", "value", "output", "gate", "up", "down")
            }
            y = normed(x, p[f"block.norm1.scale[{i}]"])
            q = rotated((y @ w["query"]).reshape(HEADS, D), position)
            keys[i].append(rotated((y @ w["key"]).reshape(KEY_HEADS, D), position))
            values[i].append((y @ w["value"]).reshape(KEY_HEADS, D))
            heads = []
            for h in range(HEADS):
                g = h * KEY_HEADS // HEADS
                s = np.array([q[h] @ k[g] for k in keys[i]]) / np.sqrt(D)
                e = np.exp(s - s.max())
                heads.append(sum(a * v[g] for a, v in zip(e / e.sum(), values[i], strict=True)))
            x = x + np.concatenate(heads) @ w["output"]
            y = normed(x, p[f"block.norm2.scale[{i}]"])
            gate = y @ w["gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w["up"])) @ w["down"]
        logits.append(normed(x, p["norm.scale"]) @ p["logits.weight"])
    return np.array(logits), keys, values


def caches(keys, values, count):
    """Inputs of the network for the first tokens."""
    return {
        f"{name}_cache[{i}]": np.stack(rows[i][:count], axis=1)[None].astype(np.float32)
        for name, rows in (("key", keys), ("value", values))
        for i in range(LAYERS)
    }


def kept(name):
    """The output that goes on with an input NAME_cache[i]."""
    return "block." + name.replace("_cache", ".append")


TOKENS = np.array([3, 49, 0, 17, 3, 22])


def test_prefill_is_the_decoder_in_numpy():
    found, flat, parameters = trained(decoder(len(TOKENS)))
    logits, keys, values = oracle(found, TOKENS)
    got = FloatGraph(flat, parameters).run({"tokens": TOKENS[None]})
    np.testing.assert_allclose(got[0][0], logits, rtol=1e-3, atol=1e-3)
    expected = caches(keys, values, len(TOKENS))
    for one, wanted in zip(got[1:], expected.values(), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{"phase": "decode"}, {"seq": 3}])
def test_tokens_behind_a_cache_are_those_of_the_whole_sequence(options):
    new = options.get("seq", 1)
    network = decoder(**options, cache=len(TOKENS) - new)
    found, flat, parameters = trained(network)
    logits, keys, values = oracle(found, TOKENS)
    inputs = {"tokens": TOKENS[None, -new:], **caches(keys, values, len(TOKENS) - new)}
    got = FloatGraph(flat, parameters).run(inputs)
    np.testing.assert_allclose(got[0][0], logits[-new:], rtol=1e-3, atol=1e-3)
    for one, wanted in zip(got[1:], caches(keys, values, len(TOKENS)).values(), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-3, atol=1e-3)

    # In integers: the earlier ones stay, the new ones lie behind them, and both are near the real numbers.
    quantised = quantise(network, [inputs])
    data = quantise_inputs(quantised, inputs)
    before = {name: array.copy() for name, array in data.items()}
    result = reference(quantised, data)
    assert all(np.array_equal(data[name], before[name]) for name in data)
    for name, given in caches(keys, values, len(TOKENS) - new).items():
        place = quantised.outputs[kept(name)]
        whole = real(quantised, result, kept(name))
        scale = quantised.scale(place)
        assert np.abs(whole[:, :, :-new] - given).max() <= scale * 0.51
        expected = caches(keys, values, len(TOKENS))[name]
        assert np.corrcoef(whole[:, :, -new:].ravel(), expected[:, :, -new:].ravel())[0, 1] > 0.98
        # It lies in the memory of the input: nothing of it is copied.
        assert quantised.inputs[name].value == place.value
        written = sum(op.output.words for op in quantised.operators if op.output.value == place.value)
        assert written == new * KEY_HEADS * D
    got = real(quantised, result, "logits")[0]
    assert np.corrcoef(got.ravel(), logits[-new:].ravel())[0, 1] > 0.95


def test_every_layer_has_a_cache_of_its_own():
    network = load_network("tinyllama_1b:phase=decode,cache=9")
    flat = runnable(network, Parameters(network.source), 3)
    assert [t.name for t in flat.inputs if "cache" in t.name] == [
        f"{name}_cache[{i}]" for name in ("key", "value") for i in range(3)
    ]
    assert [t.name for t in flat.outputs[1:]] == [
        f"block.{name}.append[{i}]" for name in ("key", "value") for i in range(3)
    ]
    assert all(t.shape == (1, 4, 9, 64) for t in flat.inputs if "cache" in t.name)


def test_gpt2_goes_on_where_its_cache_ends():
    whole = load_network("gpt2:seq=4")
    later = load_network("gpt2:phase=decode,cache=3")
    tokens = random_inputs(whole)["tokens"]
    parameters = Parameters(whole.source)
    first = FloatGraph(runnable(whole, parameters, 1), parameters).run({"tokens": tokens})
    inputs = {f"{n}_cache[0]": x[:, :, :3] for n, x in zip(("key", "value"), first[1:], strict=True)}
    got = FloatGraph(runnable(later, parameters, 1), parameters).run({"tokens": tokens[:, 3:], **inputs})
    np.testing.assert_allclose(got[0][0, 0], first[0][0, 3], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got[1], first[1], rtol=1e-3, atol=1e-4)


def test_inputs_of_one_value_do_not_erase_each_other():
    b = GraphBuilder("joined")
    x, y = b.input("x", (2, 3)), b.input("y", (2, 5))
    b.relu(b.concat((x, y), 1, name="both"), "positive")
    inputs = {"x": np.full((2, 3), 2.0, np.float32), "y": np.full((2, 5), -1.0, np.float32)}
    quantised = quantise(b.build(), [inputs])
    values = reference(quantised, quantise_inputs(quantised, inputs))
    np.testing.assert_allclose(real(quantised, values, "positive"), [[2] * 3 + [0] * 5] * 2, atol=0.02)


def test_the_program_writes_new_keys_behind_the_earlier_ones():
    """Compiled and run, with keys and values of the second call those that the first left, in their bytes."""
    tokens, first = random_inputs(decoder(phase="decode", cache=3), 9)["tokens"], None
    for cache in (3, 4):
        network = decoder(phase="decode", cache=cache)
        quantised = quantise(network)
        inputs = random_inputs(runnable(network, Parameters(network.source)), 9) | {"tokens": tokens}
        if first is not None:
            inputs |= {n: first[kept(n)] for n in inputs if "cache" in n}
        data = quantise_inputs(quantised, inputs)
        expected = reference(quantised, data)
        built = compile_network(quantised, DIM4, data=data)
        run = run_network(built, expected, "functional", predicted=[0.0] * len(built.lowered.steps))
        assert run.wrong == ()
        first = {}
        for name, view in quantised.outputs.items():
            np.testing.assert_array_equal(run.values[view.value], expected[view.value])
            first[name] = real(quantised, run.values, name)
        for name in quantised.inputs:
            if "cache" in name:
                whole = first[kept(name)]
                scale = quantised.scale(quantised.inputs[name])
                saturated = np.clip(inputs[name], -128 * scale, 127 * scale)
                np.testing.assert_allclose(whole[:, :, :cache], saturated, rtol=0, atol=scale * 0.51)
    assert set(first) == {
        "logits",
        *(f"block.{n}.append[{i}]" for n in ("key", "value") for i in range(LAYERS)),
    }
