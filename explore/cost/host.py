"""What the host core spends on operators of a network that has no program, told from its graph alone.

Every operator is taken for one call of a C function of `compiler/ops/host/`, with the cycles of its elements and rows that are fitted
for programs (`baco.compiler.ops.host_model`); every tensor comes through the cache once, of tables that are only indexed the rows that
are read. Elements of other than eight bits have no tables: functions of them are real numbers'. Operators do not record windows:
pooling is taken for a running reduction of what is read.

Additions of two tensors are the host's here, though the compiler gives them to the accelerator, where they take a thirtieth, and
`Features.normalizations`, with which an accelerator takes over some of these operators, is not considered.
"""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.compiler.host_core import LINE_BYTES
from baco.compiler.network.prediction import host_cost
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.host_work import HostWork, counted
from baco.compiler.ops.rows import SHORT
from baco.exploration.operators import OperatorCost
from baco.workloads.network import Network, Operator

#: Functions that go through all elements alike, by kind of operator.
_OF_ELEMENTS = {
    **dict.fromkeys(("add", "sub", "bias", "cumsum", "where"), "net_add dense"),
    **dict.fromkeys(("mul", "scale", "batchnorm"), "net_multiply dense"),
    "div": "net_binary_table dense",
    "requantize": "net_requantise dense",
    **dict.fromkeys(("relu", "relu6", "elementwise"), "net_map dense"),
    **dict.fromkeys(("gelu", "silu", "sigmoid", "tanh", "activation"), "net_map dense"),
    **dict.fromkeys(("concat", "pad"), "net_copy dense 1"),
}
#: Functions of rows, those of the last dimension.
_OF_ROWS = {
    "softmax": "net_softmax dense",
    **dict.fromkeys(("layernorm", "groupnorm", "instancenorm", "rmsnorm", "lrn"), "net_normalise dense"),
    **dict.fromkeys(("avgpool", "lppool"), "net_reduce together sum"),
    "maxpool": "net_reduce together largest",
    "reduce": "net_reduce single sum",
    "argmax": "net_argmax",
    "topk": "net_top",
    "upsample": "net_resize",
    "embedding": "net_embed bytes",
    "gather": "net_take",
    "rope": "net_rotate dense",
}
#: Kinds whose parameters are only indexed, not read as a whole.
_INDEXED = frozenset({"embedding", "gather"})
#: Bytes that rows of an embedding are copied by where their length allows.
_WORD = 8
#: Of elements that no table has, and of kinds not listed, for example of an importer to come: the safe side.
_WIDE, _UNKNOWN = "net_elements", "net_softmax dense"


def function_of(kind: str, input_bits: int = 8) -> str:
    """The C function, and its variant, that an operator of a kind is taken for."""
    function = _OF_ELEMENTS.get(kind) or _OF_ROWS.get(kind, _UNKNOWN)
    return _WIDE if input_bits > 8 and function == "net_map dense" else function


def _function(op: Operator, input_bits: int) -> str:
    """Of an operator, where its rows decide on the variant."""
    function = function_of(op.kind, input_bits)
    length = op.output.shape[-1] if op.output.shape else 1
    if function == _OF_ROWS["embedding"] and length % _WORD == 0:
        return "net_embed words"
    if op.kind == "softmax":
        operands = op.semantics.operands[1:] if op.semantics is not None else ()
        masked = any(operand is not None for operand in operands)
        return "net_softmax masked" if masked else "net_softmax short" if length < SHORT else function
    return function


def host_costs(network: Network, accelerator: Accelerator) -> list[OperatorCost]:
    """Costs of all operators of a network that neither the array nor its output path runs, in order.

    Args:
        accelerator: gives element width, host core and DRAM energy.
    """
    words = {x.name: x.words for x in network.inputs}
    words |= {op.output.name: op.output.words for op in network.operators}
    return [_cost(op, words, accelerator) for op in network.host_operators]


def _cost(op: Operator, words: dict[str, int], accelerator: Accelerator) -> OperatorCost:
    read, written = sum(words.get(name, 0) for name in op.inputs), op.output.words
    # reductions and pooling work on what they read, expansions on what they write
    elements = max(written, max((words.get(name, 0) for name in op.inputs), default=0))
    if op.kind in _INDEXED:
        elements = written
        read = min(read, written) + min(op.weight_words, written)
    else:
        read += op.weight_words
    rows = 1.0 if op.kind in _OF_ELEMENTS else elements / (op.output.shape[-1] if op.output.shape else 1)
    function = _function(op, accelerator.input_bits)
    amounts = counted(elements=elements, rows=rows, pixels=rows, results=written)
    if function == _WIDE:
        amounts |= {"operands": 2.0 * elements, "tanh": float(elements)}  # one of the longer functions
    misses = (read + written) * accelerator.input_bits / 8 / LINE_BYTES
    cost = host_cost(HostWork(function, amounts), misses, accelerator)
    return OperatorCost(
        op.name, op.kind, False, op.repeat, StepCost(op.repeat * cost.cycles, op.repeat * cost.fixed_pj)
    )
