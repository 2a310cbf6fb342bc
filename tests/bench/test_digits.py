"""The networks trained on digits: what their table says of floating point is what onnx.reference and scikit-learn say."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from sklearn.metrics import accuracy_score

import baco
from baco.bench.digits import NETWORKS, write_digits
from tests.seeds import some


@pytest.mark.parametrize("network", some(1, NETWORKS))
def test_a_trained_network_keeps_its_accuracy_in_int8(tmp_path: Path, network: str) -> None:
    model, data = write_digits(tmp_path, epochs=4, network=network)
    onnx.checker.check_model(str(model), full_check=True)
    stored = np.load(data)
    judge = ReferenceEvaluator(str(model))
    said = [judge.run(None, {"image": one[None]})[0].argmax() for one in stored["image"][128:328]]
    found = baco.quantise(model, {name: stored[name][:328] for name in stored}).accuracy
    assert found.unseen
    assert found.floats == accuracy_score(stored["label"][128:328], said)
    assert found.floats > 0.85
    assert abs(found.loss) < 0.02
