"""Networks trained on scikit-learn's digits, in integers and in other formats: `python -m baco.bench.digits [DIR]`, a row each.

Writes `digits.onnx` (or, with `--network separable`, `separable.onnx`) and `digits.npz` into the folder: 128 samples of the training
set, which ranges are taken from, and the 797 of the test set behind them, which accuracy is measured on. Trains in seconds; seeds are
fixed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from baco.accel.number_formats import FORMATS
from baco.common.errors import BacoError, InputError
from baco.compiler.layers.wide_sums import WideSums
from baco.compiler.network.accuracy import AccuracyJudge, format_accuracy
from baco.compiler.network.quantise import names_outside, quantise
from baco.compiler.network.quantiser import OBSERVERS, Quantiser
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import read_samples

_SEED, _EPOCHS, _BATCH, _TEST, _CALIBRATION = 0, 30, 50, 797, 128
_CLASSES = 10
#: Three convolutions and a product; depthwise and pointwise convolutions by turns, which few bits hurt more.
NETWORKS = ("digits", "separable")


def write_digits(folder: Path, epochs: int = _EPOCHS, network: str = NETWORKS[0]) -> tuple[Path, Path]:
    """Train one of `NETWORKS`, and write the model and its data; their paths.

    Raises InputError without scikit-learn, which the digits come with.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise InputError(
            "the digits come with scikit-learn, which is not installed",
            hint="install it: pip install '.[bench]'",
        ) from None
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    parts = train_test_split(images, labels, test_size=_TEST, random_state=_SEED, stratify=labels)
    train, test, train_labels, test_labels = parts
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "digits.npz",
        image=np.concatenate([train[:_CALIBRATION], test]),
        label=np.concatenate([train_labels[:_CALIBRATION], test_labels]),
    )
    torch.manual_seed(_SEED)
    model = {"digits": _plain, "separable": _separable}[network]()
    onnx.save(_as_onnx(_trained(model, train, train_labels, epochs), network), folder / f"{network}.onnx")
    return folder / f"{network}.onnx", folder / "digits.npz"


def _plain() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, _CLASSES),
    )


def _separable() -> torch.nn.Sequential:
    def block(
        inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> list[torch.nn.Module]:
        convolution = torch.nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        )
        return [convolution, torch.nn.BatchNorm2d(outputs), torch.nn.ReLU()]

    layers = block(1, 32, 3)
    for inputs, outputs, stride in ((32, 64, 2), (64, 128, 1), (128, 256, 2)):
        layers += block(inputs, inputs, 3, stride, groups=inputs) + block(inputs, outputs, 1)
    return torch.nn.Sequential(
        *layers, torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, _CLASSES)
    )


def _trained(
    model: torch.nn.Sequential, images: np.ndarray, labels: np.ndarray, epochs: int
) -> torch.nn.Sequential:
    optimiser = torch.optim.Adam(model.parameters(), 2e-3, weight_decay=1e-4)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), _BATCH):
            batch = order[start : start + _BATCH]
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model.eval()


def _as_onnx(model: torch.nn.Sequential, title: str) -> onnx.ModelProto:
    """Node by node: what exporters need is no dependency."""
    nodes, constants, last = [], [], "image"
    for index, layer in enumerate(model):
        name, output = f"{type(layer).__name__.lower()}{index}", f"t{index}"
        # all but how many batches a normalisation has seen
        held = {f"{name}.{kind}": one for kind, one in layer.state_dict().items() if one.ndim}
        constants += [numpy_helper.from_array(one.numpy(), label) for label, one in held.items()]
        attributes: dict[str, Any] = {}
        operator = type(layer).__name__  # that of ONNX, of `Flatten`
        if isinstance(layer, torch.nn.Conv2d):
            operator, pads = "Conv", [*layer.padding] * 2
            attributes = {"strides": list(layer.stride), "pads": pads, "group": layer.groups}
        elif isinstance(layer, torch.nn.BatchNorm2d):
            operator = "BatchNormalization"
        elif isinstance(layer, torch.nn.AvgPool2d):
            operator, attributes = "AveragePool", {"kernel_shape": [layer.kernel_size] * 2}
        elif isinstance(layer, torch.nn.Linear):
            operator, attributes, output = "Gemm", {"transB": 1}, "digit"
        elif isinstance(layer, torch.nn.ReLU):
            operator = "Relu"
        nodes.append(helper.make_node(operator, [last, *held], [output], name=name, **attributes))
        last = output
    graph = helper.make_graph(
        nodes,
        title,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, _CLASSES])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _integer_forms() -> Iterator[tuple[str, Quantiser]]:
    for observer in OBSERVERS:
        yield f"int8, `{observer}`", Quantiser(observer)
    yield "int8, biases not corrected", Quantiser(bias_correction=False)
    yield "int8, scales powers of two", Quantiser(scales="power-of-two")
    yield "int8, channels equalised", Quantiser(equalisation=True)
    yield "int8, scales of channels", Quantiser(weight_scales="channel")
    for name, corrected in (("", True), (", biases not corrected", False)):
        yield f"int4 weights{name}", Quantiser(weight_format="int4", bias_correction=corrected)
        yield (
            f"int4 weights, scales of channels{name}",
            Quantiser(weight_format="int4", weight_scales="channel", bias_correction=corrected),
        )
    yield "int4 weights, errors compensated", Quantiser(weight_format="int4", weight_rounding="compensated")
    yield (
        "int4 weights, scales of channels, errors compensated",
        Quantiser(weight_format="int4", weight_scales="channel", weight_rounding="compensated"),
    )
    yield "int16", Quantiser(floats=WideSums())


#: Formats of weights and activations alike.
_FORMATS = (
    *("bf16", "fp8-e4m3", "fp8-e5m2", "fp4-e2m1"),
    *("mxint8", "mxfp8-e4m3", "mxfp8-e5m2", "mxfp6-e2m3", "mxfp6-e3m2", "mxfp4"),
)


def digits_table(model: Path, data: Path) -> str:
    """Markdown: how right the test set is, in floating point, by every choice of a quantisation, and in other formats."""
    network = load_network(str(model))
    samples = read_samples(data, network, names_outside(network)[0])
    rows = [
        "| | bits of a weight | right, % | as in floating point, % | signal to noise, dB |",
        "|---|---|---|---|---|",
    ]
    judge = AccuracyJudge(network, samples)  # equalised channels leave the float model as it is, to the bit
    for name, quantiser in _integer_forms():
        integers = quantise(network, samples.inputs, quantiser=quantiser)
        found = judge.measure(integers, operators=False)
        if len(rows) == 2:
            assert found.floats is not None
            rows.append(f"| floating point | 32 | {100 * found.floats:.2f} | | |")
        bits = FORMATS[quantiser.floats.form if quantiser.floats else quantiser.weight_format].bits
        rows.append(_row(name, bits, found.integers, found.agreeing, found.near.snr_db))
    for name in _FORMATS:
        stored = format_accuracy(network, name, samples)
        rows.append(_row(f"`{name}`", FORMATS[name].bits, stored.right, stored.agreeing, stored.near.snr_db))
    return "\n".join(rows) + "\n"


def _row(name: str, bits: float, right: float | None, agreeing: float, snr_db: float) -> str:
    assert right is not None
    return f"| {name} | {bits:g} | {100 * right:.2f} | {100 * agreeing:.2f} | {snr_db:.1f} |"


def main(arguments: list[str]) -> int:
    """Train and print; 2 and one message where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.digits", description=main.__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="where the files go")
    parser.add_argument("--network", choices=NETWORKS, default=NETWORKS[0])
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(digits_table(*write_digits(options.folder, network=options.network)))
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
