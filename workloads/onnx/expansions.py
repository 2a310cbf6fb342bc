"""Which operators are written out in simpler ones, when, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import onnx

from baco.workloads.onnx import (
    control,
    indexing,
    normalise,
    pointwise,
    products,
    quantised_operators,
    quantisers,
    recurrent,
    windows,
)
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.expansion import Expansion, Facts, RefusedError
from baco.workloads.onnx.reading import passed_over, schema_of
from baco.workloads.onnx.sequences import SEQUENCES

Rule: TypeAlias = Callable[[Expansion], None]
When: TypeAlias = Callable[[Expansion], bool]


def _always(e: Expansion) -> bool:
    return True


def _not_two(e: Expansion) -> bool:
    return len(e.node.input) != 2


def _flattens(e: Expansion) -> bool:
    rank = len(e.shape(0))
    return e.version < 13 and rank > 0 and e.attribute("axis", 1) % rank != rank - 1


def _computed(*indices: int) -> When:
    """Whether one of these inputs is computed."""

    def when(e: Expansion) -> bool:
        return any(e.has(i) and not e.is_constant(i) for i in indices)

    return when


def _uncommon_convolution(e: Expansion) -> bool:
    return len(e.shape(1)) > 4 or _computed(1, 2)(e)


def _deep(e: Expansion) -> bool:
    return len(e.shape(0)) > 4


def _uncommon_average(e: Expansion) -> bool:
    return _deep(e) or max(e.attribute("dilations", None) or [1]) > 1


def _uncommon_batchnorm(e: Expansion) -> bool:
    return _deep(e) or _computed(1, 2, 3, 4)(e) or bool(e.attribute("training_mode", 0))


def _uncommon_layernorm(e: Expansion) -> bool:
    return _computed(1, 2)(e) or e.wants(1) or e.wants(2)


def _has_empty(e: Expansion) -> bool:
    return any(0 in e.shape(i) for i in range(len(e.node.input)))


def _constants_behind(e: Expansion) -> bool:
    return all(e.is_constant(i) for i in range(1, len(e.node.input)) if e.has(i))


def _groups_of_old(e: Expansion) -> bool:
    return _computed(1, 2)(e) or math.prod(e.shape(1)) != e.shape(0)[1]


def _wide_third_operand(e: Expansion) -> bool:
    if e.node.op_type == "FusedGemm":
        return True
    if not e.has(2):
        return False
    shape = e.shape(2)
    beta = e.attribute("beta", 1.0)
    if not e.is_constant(2):
        return bool(beta != 1)
    right = e.shape(1)
    columns = right[0] if e.attribute("transB", 0) else right[-1]
    return math.prod(shape[:-1]) != 1 or (bool(shape) and shape[-1] not in (1, columns))


def _no_plain_sum(e: Expansion) -> bool:
    from baco.workloads.einsum import contraction

    if len(e.node.input) != 2:
        return True
    return isinstance(contraction(e.attribute("equation", ""), e.shape(0), e.shape(1)), str)


def _not_constant_pad(e: Expansion) -> bool:
    return e.attribute("mode", "constant") != "constant" or e.has(3)


def _irregular(e: Expansion) -> bool:
    if not e.has(1) or not e.is_constant(1) or e.is_constant(0):
        return False
    index = e.value(1, "indices").reshape(-1)
    size = e.shape(0)[e.attribute("axis", 0) % len(e.shape(0))]
    places = [int(i) % size if -size <= i < size else -1 for i in index]
    steps = {b - a for a, b in pairwise(places)}
    return len(steps) > 1 or 0 in steps


def _heads_of_four(e: Expansion) -> bool:
    given = e.attribute("q_num_heads", 0) or e.attribute("kv_num_heads", 0)
    return bool(given) and len(e.shape(0)) == 4


def _without_heads(e: Expansion) -> None:
    """Attention on four dimensions, whose heads are one of them: the function that defines it goes by attributes first."""
    heads = [
        (e.attribute("q_num_heads", 0), 0),
        (e.attribute("kv_num_heads", 0), 1),
        (e.attribute("kv_num_heads", 0), 2),
    ]
    for number, index in heads:
        if number and number != e.shape(index)[1]:
            raise RefusedError(f"{number} heads of an input of {e.shape(index)}")
    attributes = e.raw_attributes("q_num_heads", "kv_num_heads")
    names = [e.input(i) if e.has(i) else "" for i in range(len(e.node.input))]
    node = onnx.helper.make_node(e.node.op_type, names, list(e.node.output), name=e.node.name)
    node.attribute.extend(attributes)
    e.write(node, e.version)


def _few_positions(e: Expansion) -> bool:
    """Whether positions are known, and of an activation: slices then, not a search at run time."""
    return e.is_constant(1) and not e.is_constant(0) and e.input(1) in e.facts.known


def _constant_positions(e: Expansion) -> bool:
    return e.is_constant(1)


def _computed_values(e: Expansion) -> bool:
    return e.is_constant(0) or not e.is_constant(2)


def _wants_mask(e: Expansion) -> bool:
    return e.wants(1) or e.has(2)


def _uncommon_resize(e: Expansion) -> bool:
    shape = e.shape(0)
    if len(shape) not in (3, 4) or e.attribute("axes", None) is not None:
        return True
    if (
        e.attribute("mode", "nearest") == "cubic"
        or e.attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
    ):
        return True
    if e.attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return True
    if e.attribute("antialias", 0) or e.attribute("exclude_outside", 0):
        return True
    position = 1 if e.node.op_type == "Upsample" or e.version < 11 else 2
    scales = [float(s) for s in e.value(position, "scales").reshape(-1)] if e.has(position) else []
    sizes = [int(n) for n in e.value(3, "sizes").reshape(-1)] if e.has(3) else []
    lead = [s for s in scales[:2] if s != 1] + [n for n, m in zip(sizes, shape[:2], strict=False) if n != m]
    return bool(lead)


def _limits_of_one(e: Expansion) -> bool:
    return any(e.has(i) and not e.is_constant(i) for i in (1, 2))


_LAYER_NORMALISATIONS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")

#: Operator -> when it is written out, and how. An operator of another domain than the standard's has it in front.
EXPANSIONS: dict[str, tuple[When, Rule]] = {
    "Max": (_not_two, pointwise.maximum),
    "Min": (_not_two, pointwise.minimum),
    "Sum": (_not_two, pointwise.total),
    "Mean": (_always, pointwise.mean),
    "Softmax": (_flattens, partial(pointwise.softmax, operator="Softmax")),
    "LogSoftmax": (_flattens, partial(pointwise.softmax, operator="LogSoftmax")),
    "Hardmax": (_always, pointwise.hardmax),
    "CastLike": (_always, pointwise.cast_like),
    "Clip": (_limits_of_one, pointwise.clip),
    "Gemm": (_wide_third_operand, products.gemm),
    "com.microsoft.FusedGemm": (_always, products.gemm),
    "com.microsoft.FusedMatMul": (_always, products.fused_matmul),
    "com.microsoft.TransposeMatMul": (_always, products.fused_matmul),
    "com.microsoft.FusedConv": (_always, windows.fused_convolution),
    "Einsum": (_no_plain_sum, products.einsum),
    "Conv": (_uncommon_convolution, windows.convolution),
    "ConvTranspose": (_uncommon_convolution, windows.transposed_convolution),
    "Attention": (_heads_of_four, _without_heads),
    "MaxUnpool": (_always, windows.unpool),
    "MaxPool": (_deep, partial(windows.pool, operator="MaxPool")),
    "AveragePool": (_uncommon_average, partial(windows.pool, operator="AveragePool")),
    "BatchNormalization": (_uncommon_batchnorm, normalise.batch_normalisation),
    "GroupNormalization": (_groups_of_old, normalise.group_normalisation),
    "InstanceNormalization": (
        _computed(1, 2),
        partial(normalise.group_normalisation, per_channel=True),
    ),
    "MeanVarianceNormalization": (_always, normalise.mean_variance),
    "LpNormalization": (_always, normalise.lp_normalisation),
    "LRN": (_always, normalise.local_response),
    "ReduceProd": (_always, normalise.product),
    "Pad": (_not_constant_pad, indexing.mirrored_pad),
    "Gather": (_irregular, indexing.gather),
    "GatherElements": (_few_positions, indexing.gather_elements),
    "OneHot": (_computed_values, indexing.one_hot),
    "Det": (_always, indexing.determinant),
    "Dropout": (_wants_mask, pointwise.dropout),
    "DeformConv": (_always, windows.deformed_convolution),
    "GatherND": (_always, indexing.gather_nd),
    "ScatterElements": (_constant_positions, indexing.scatter_elements),
    "Scatter": (_always, indexing.scatter_elements),
    "ScatterND": (_always, indexing.scatter_nd),
    "Compress": (_always, indexing.compress),
    "ReverseSequence": (_always, indexing.reverse_sequence),
    "Trilu": (_always, indexing.triangle),
    "CumSum": (_always, indexing.cumulative_sum),
    "Resize": (_uncommon_resize, indexing.resize),
    "Upsample": (_uncommon_resize, indexing.resize),
    "Concat": (_has_empty, indexing.without_empty),
    "GridSample": (_constants_behind, indexing.sampled),
    "RoiAlign": (_constants_behind, indexing.regions),
    "Col2Im": (_constants_behind, partial(indexing.linear, lead=1)),
    "DFT": (_always, indexing.fourier),
    "STFT": (_always, indexing.short_fourier),
    "TensorScatter": (_always, indexing.tensor_scatter),
    "LSTM": (_always, recurrent.lstm),
    "GRU": (_always, recurrent.gru),
    "RNN": (_always, recurrent.rnn),
    "If": (_always, control.branch),
    "Loop": (_always, control.loop),
    "Scan": (_always, control.scan),
}
EXPANSIONS |= {name: (_always, rule) for name, rule in SEQUENCES.items()}
EXPANSIONS |= {name: (_always, rule) for name, rule in quantised_operators.STANDARD.items()}
EXPANSIONS |= {
    f"com.microsoft.{name}": (_always, rule) for name, rule in quantised_operators.CONTRIBUTED.items()
}
for _domain in ("qonnx.custom_op.general", "onnx.brevitas"):
    EXPANSIONS |= {
        f"{_domain}.Quant": (_always, quantisers.quant),
        f"{_domain}.BipolarQuant": (_always, quantisers.bipolar),
        f"{_domain}.Trunc": (_always, quantisers.trunc),
    }
EXPANSIONS |= {
    name: (_uncommon_layernorm, partial(normalise.layer_normalisation, operator=name))
    for name in _LAYER_NORMALISATIONS
}

#: Operators whose own rules reach less far than the function by which ONNX defines them.
FUNCTIONS = frozenset(
    (
        *("Attention", "RotaryEmbedding"),
        *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
    )
)


def expanded(
    node: onnx.NodeProto,
    version: int,
    facts: Facts,
    types: Sequence[onnx.TypeProto | None],
    has_rule: Callable[[str], bool],
) -> tuple[list[tuple[onnx.NodeProto, int]] | None, str]:
    """(what is written in place of a node, each with its version, or None: it stays; why it could not be written out).

    Args:
        version: of the node's operator set.
        types: of its inputs.
        has_rule: whether operators of a name are imported as they are.
    """
    standard = node.domain in STANDARD_DOMAINS
    key = node.op_type if standard else f"{node.domain}.{node.op_type}"
    e = Expansion(node, version, facts)
    try:
        if key in facts.own:
            facts.own[key](e)
            return e.nodes, ""
        if key in EXPANSIONS:
            when, rule = EXPANSIONS[key]
            if not when(e):
                if key in FUNCTIONS:
                    return _by_function(Expansion(node, version, facts), types)
                return None, ""
            e = Expansion(node, version, facts)
            rule(e)
            missed = passed_over(node, version, e.read_attributes, e.read_inputs)
            return (None, ", ".join(missed)) if missed else (e.nodes, "")
        if (standard and node.op_type in FUNCTIONS) or not (standard and has_rule(node.op_type)):
            return _by_function(e, types)
    except RefusedError as error:
        return None, str(error)
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
        return None, f"its attributes do not fit its inputs ({str(error)[:100]})"
    return None, ""


def _by_function(
    e: Expansion, types: Sequence[onnx.TypeProto | None]
) -> tuple[list[tuple[onnx.NodeProto, int]] | None, str]:
    """As `expanded`, by the function with which ONNX defines the operator."""
    schema = schema_of(e.node.op_type, e.node.domain, e.version)
    if schema is None or not control.function_body(e, schema, types):
        return None, ""
    missed = passed_over(e.node, e.version, e.read_attributes, e.read_inputs)
    return (None, ", ".join(missed)) if missed else (e.nodes, "")
