"""torch.export imports: the same models written in torch.nn against the built-in definitions."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from baco.common.errors import InputError
from baco.workloads.inputs.load import load_network
from baco.workloads.problem import Problem
from tests.seeds import some
from tests.workloads import torch_models

MODELS = Path(torch_models.__file__)


def problems(network):
    return Counter({t.problem: t.count for t in network.tasks})


def load(name):
    return load_network(f"{MODELS}:{name}")


def counted_macs(name):
    module, inputs = getattr(torch_models, name)()
    meta = {"device": "meta"} if any(p.is_meta for p in module.parameters()) else {}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        if isinstance(inputs, dict):
            module.eval()(**{k: v.to(**meta) for k, v in inputs.items()})
        else:
            inputs = inputs if isinstance(inputs, tuple) else (inputs,)
            module.eval()(*(v.to(**meta) for v in inputs))
    return counter.get_total_flops() // 2


@pytest.mark.parametrize(
    "name",
    [
        "resnet18",
        pytest.param("resnet50", marks=pytest.mark.slow),
        "mobilenet_v2",
        "bert_base",
        pytest.param("vit_b16", marks=pytest.mark.slow),
        "unet",
    ],
)
def test_equals_the_built_in_network(name):
    imported, own = load(name), load_network(name)
    assert problems(imported) == problems(own)
    assert imported.weight_words == own.weight_words
    assert imported.unsupported == ()
    module, _ = getattr(torch_models, name)()
    assert imported.weight_words == sum(p.numel() for p in module.parameters())
    if name == "vit_b16":  # attention modules hide their flops on the meta device
        return
    assert imported.macs == counted_macs(name)


@pytest.mark.parametrize("name", some(2, ["resnet50", "unet", "mobilenet_v2"]))
def test_fuses_what_the_built_in_network_fuses(name):
    def host(network):
        return Counter((op.kind, op.output.words) for op in network.host_operators)

    assert host(load(name)) == host(load_network(name))


@pytest.mark.parametrize(
    ("name", "spec"), [("llama_prefill", "batch=2,seq=64"), ("llama_decode", "batch=2,seq=64,phase=decode")]
)
def test_llama_layers_equal_the_built_in_ones(name, spec):
    own = problems(load_network(f"llama2_7b:{spec}"))
    imported = problems(load(name))
    block = {p: c / 16 for p, c in own.items() if p.K != 32000}
    assert imported == block


def test_every_kind_of_convolution_and_product():
    network = load("zoo")
    found = problems(network)
    # Written by hand from the layers' arguments; P and R belong to the width.
    assert found == Counter(
        {
            Problem(R=3, S=3, P=10, Q=12, C=2, K=4, N=2, groups=4): 1,
            Problem(R=5, S=3, P=10, Q=12, C=16, K=8, N=2, dilation_h=2): 1,
            Problem(R=2, S=2, P=10, Q=12, C=8, K=4, N=2): 4,
            Problem(R=5, P=158, C=4, K=6, N=2, stride_w=3, dilation_w=2): 1,
            Problem(P=158, C=3, K=9, N=2, groups=2): 1,
            Problem(P=6, C=474, K=6, groups=2): 1,
            Problem(P=1, C=10, K=7): 1,
            Problem(P=1, C=7, K=5): 1,
            Problem(P=1, C=10, K=10): 2,
            Problem(P=6, C=6, K=474, groups=2): 1,
        }
    )
    assert network.unsupported == ()
    kinds = {p.kind for p in found}
    assert {"grouped conv", "conv2d", "conv1d", "gemv", "batched gemm"} <= kinds
    module, _ = torch_models.zoo()
    assert network.weight_words == sum(p.numel() for p in module.parameters())


def test_recurrent_layers_are_broken_down():
    network = load("recurrent")
    # Input products of all five steps, and a recurrent product a step but the first (from zeros), four gates.
    assert network.macs == 2 * (5 * 24 + 4 * 16) * 64
    assert network.weight_words == 4 * 16 * (24 + 16 + 2)
    assert network.unsupported == ()


def test_unsupported_operators_are_listed_and_the_rest_explored():
    network = load("odd")
    assert [u.operator for u in network.unsupported] == ["aten._cdist_forward.default"]
    assert problems(network) == Counter({Problem(P=6, C=8, K=8): 1, Problem(P=6, C=6, K=4): 1})


HEAD = "import torch\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("code", "function", "line", "says"),
    [
        ("def f(:\n  pass\n", "f", 1, "not Python"),
        ("x = 1\n", "f", None, "no function 'f'"),
        ("x = 1\n", None, None, "which function"),
        ("", "f", None, "no function 'f'"),
        ("import nonexistent_module_of_baco\ndef f(): pass\n", "f", 1, "ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\ndef f(): pass\n", "f", 2, "SystemExit"),
        ("def f():\n    return 1 / 0\n", "f", 2, "ZeroDivisionError"),
        ("def g():\n    raise ValueError\ndef f():\n    return g()\n", "f", 2, "ValueError"),
        ("def f():\n    return f()\n", "f", 2, "RecursionError"),
        ("def f(x):\n    return x\n", "f", 1, "missing 1 required"),
        ("def f():\n    return 3\n", "f", 1, "returned int"),
        ("def f():\n    return 3, 4\n", "f", 1, "for the model"),
        (HEAD + "def f():\n    return nn.Linear(2, 2), 7\n", "f", 3, "for the example inputs"),
        (HEAD + "def f():\n    return nn.Linear(2, 2), torch.zeros(3, 3)\n", "f", 3, "cannot trace"),
        (
            HEAD
            + "class M(nn.Module):\n    def forward(self, x):\n        raise KeyError('k')\ndef f():\n    return M(), torch.zeros(1)\n",
            "f",
            5,
            "KeyError",
        ),
        (
            HEAD + "def f():\n    return nn.ReLU(), torch.zeros(3)\n",
            "f",
            None,
            "no operator that the accelerator runs",
        ),
        (
            HEAD + "def f():\n    return nn.ConvTranspose3d(2, 2, 1), torch.zeros(1, 2, 3, 3, 3)\n",
            "f",
            None,
            "aten.conv_transpose3d",
        ),
    ],
)
def test_user_errors_are_one_message_with_a_line(tmp_path, code, function, line, says):
    path = tmp_path / "model.py"
    path.write_text(code)
    with pytest.raises(InputError) as caught:
        load_network(f"{path}:{function}" if function else str(path))
    error = caught.value
    assert says in str(error)
    assert error.location is not None
    assert error.location.file == str(path)
    if line is not None:
        assert error.location.line == line
    assert "Traceback" not in str(error)
    assert len(str(error).splitlines()) <= 2


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\0\0", b"def f(): return '\xe9'"])
def test_files_that_are_no_text(tmp_path, content):
    path = tmp_path / "model.py"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load_network(f"{path}:f")


def test_what_user_code_prints_stays_out_of_results(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text(
        HEAD + "print('hello')\ndef f():\n    print('there')\n    return nn.Linear(2, 3), torch.zeros(4, 2)\n"
    )
    assert load_network(f"{path}:f").macs == 24
    out, err = capsys.readouterr()
    assert out == ""
    assert "hello" in err
    assert "there" in err


def test_modules_beside_the_file_can_be_imported(tmp_path):
    (tmp_path / "beside_the_model.py").write_text(HEAD + "LAYER = nn.Linear(5, 7)\n")
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\nimport beside_the_model\ndef f():\n    return beside_the_model.LAYER, torch.zeros(1, 5)\n"
    )
    assert problems(load_network(f"{path}:f")) == Counter({Problem(C=5, K=7): 1})
