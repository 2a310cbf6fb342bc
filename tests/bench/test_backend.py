"""The onnx package's own tests of operators that are written out in simpler ones, whole: import, compile, functional engine."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from baco.bench.backend import (
    TOLERANCE,
    BackendOutcome,
    cases,
    deviation,
    outcome_of,
    summary,
    with_constants,
    with_product,
)
from baco.common.files import atomic_write
from baco.common.provenance import stable_hash

#: One test or two for each operator and form.
RIGHT = (
    "test_attention_3d_gqa_causal",
    "test_attention_4d_attn_mask_bool_4d",
    "test_attention_4d_attn_mask_4d_causal",
    "test_attention_4d_causal",
    "test_attention_4d_softcap",
    "test_attention_local_window_ext_cache_rank2_mask",
    "test_attention_4d_with_past_and_present_qk_matmul",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_averagepool_2d_dilations",
    "test_averagepool_3d_default",
    "test_batchnorm_epsilon",
    "test_clip_expanded",
    "test_col2im",
    "test_compress_1",
    "test_convtranspose_3d",
    "test_convtranspose_group_2",
    "test_convtranspose_output_shape",
    "test_basic_conv_with_padding",
    "test_Conv3d_dilated",
    "test_dft",
    "test_gather_elements_1",
    "test_gather_negative_indices",
    "test_gathernd_example_float32",
    "test_gemm_default_matrix_bias",
    "test_gemm_alpha",
    "test_gridsample_bilinear",
    "test_group_normalization_epsilon",
    "test_gru_with_initial_bias",
    "test_hardmax_one_hot",
    "test_l2normalization_axis_0",
    "test_layer_normalization_2d_axis0",
    "test_logsoftmax_axis_1",
    "test_lrn",
    "test_lstm_with_peepholes",
    "test_loop11",
    "test_max_example",
    "test_maxpool_3d_default",
    "test_mean_example",
    "test_mvn",
    "test_reduce_l2_keep_dims_random",
    "test_reduce_prod_keepdims_random",
    "test_resize_upsample_scales_cubic",
    "test_resize_upsample_scales_nearest_axes_2_3",
    "test_reversesequence_batch",
    "test_rnn_seq_length",
    "test_roialign_aligned_true",
    "test_rotary_embedding",
    "test_scan9_sum",
    "test_scatter_elements_with_axis",
    "test_scatternd_add",
    "test_simple_rnn_with_initial_bias",
    "test_stft",
    "test_sum_example",
    "test_where_example",
)


@pytest.fixture(scope="session")
def backend():
    """The cases of this file by name. The package takes five seconds to make all 2,000: these are kept for the next run."""
    names = {*RIGHT, "test_relu"}
    kept = Path(os.environ["BACO_CACHE"]) / f"onnx-{onnx.__version__}-cases-{stable_hash(sorted(names))}"
    if not kept.exists():
        atomic_write(kept, pickle.dumps([case for case in cases() if case.name in names]))
    return {case.name: case for case in pickle.loads(kept.read_bytes())}


@pytest.mark.parametrize("name", RIGHT)
def test_backend_test_runs_and_is_right(backend, tmp_path, name):
    outcome = outcome_of(backend[name], "functional", tmp_path)
    assert (outcome.state, outcome.reason) == ("right", "")


def _softmax_model():
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, (2, 3)), helper.make_tensor_value_info("n", 7, (1,))],
        [helper.make_tensor_value_info("y", 1, (2, 3))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_a_product_stands_in_front_of_an_operator_and_changes_nothing():
    from onnx.reference import ReferenceEvaluator

    model = _softmax_model()
    changed = with_product(model)
    assert [node.op_type for node in changed.graph.node] == ["MatMul", "Softmax"]
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    given = {"x": x, "n": np.array([1])}
    own, other = (ReferenceEvaluator(m).run(None, given)[0] for m in (model, changed))
    np.testing.assert_allclose(own, other)
    assert with_product(changed) is changed


def test_whole_numbers_become_constants():
    fixed = with_constants(_softmax_model(), {"x": np.zeros((2, 3), np.float32), "n": np.array([4])})
    assert fixed is not None
    assert [value.name for value in fixed.graph.input] == ["x"]
    assert onnx.numpy_helper.to_array(fixed.graph.initializer[0]).tolist() == [4]


def test_a_wrong_result_is_called_wrong(backend, tmp_path):
    case = backend["test_relu"]
    inputs, outputs = case.data_sets[0]
    changed = (
        type(case)(**{**vars(case), "data_sets": [(inputs, [outputs[0] + 1])]})
        if hasattr(case, "__dict__")
        else case
    )
    if changed is case:
        changed = case._replace(data_sets=[(inputs, [outputs[0] + 1])])
    outcome = outcome_of(changed, "reference", tmp_path)
    assert outcome.state == "wrong"
    assert "off by" in outcome.reason


def test_deviation_is_a_share_of_the_range():
    assert deviation(np.array([0.0, 9.0]), np.array([0.0, 10.0])) == pytest.approx(0.1)
    assert deviation(np.array([1, 2]), np.array([1, 3])) == 0.5
    assert deviation(np.zeros(2), np.zeros(3)) > TOLERANCE


def test_the_summary_counts_every_state_once():
    outcomes = [
        BackendOutcome("a", "right", imported=True, ran=True),
        BackendOutcome("b", "refused", "why", imported=True),
        BackendOutcome("c", "wrong", "off", True, True),
        BackendOutcome("d", "outside", "texts"),
        BackendOutcome("e", "right", imported=True, ran=True, control=True),
    ]
    text = summary(outcomes)
    assert "3 models: imported 3 (100.0%), run 2 (66.7%), right 1 (33.3%), wrong 1 (33.3%)" in text
    assert "with control flow: 1 models: imported 1 (100.0%)" in text
    assert "outside: 1: texts 1" in text
