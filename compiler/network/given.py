"""Which tensors of a network hold the whole numbers that a quantised model gives.

A model that is quantised already says behind which operators numbers are rounded, and to what (`quantise` of
`baco.workloads.semantics`). What is computed only to be rounded so is computed in those whole numbers at once: their encoding
goes back from the rounding to the operator in front of it, through operators that hand elements on.
"""

from __future__ import annotations

from collections.abc import Container

from baco.compiler.network.float_graph import output_tensors
from baco.workloads.encoding import Encoding
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.views import Expand, Slice, Unknown

#: Functions whose results are computed in an encoding that is given (`baco.compiler.network.given_operators`).
COMPUTED = frozenset(
    (
        "conv",
        "conv_transpose",
        "interleave",
        "matmul",
        "unary",
        "binary",
        "avgpool",
        "reduce",
        "concat",
        "softmax",
    )
)
#: Functions that hand elements on, so that their first operand has the encoding of their result.
CARRIED = frozenset(("identity", "maxpool", "pad", "resize"))


def given_encodings(network: Network, indices: Container[str] = ()) -> dict[str, Encoding]:
    """Encoding of every tensor whose whole numbers the model gives, by the name of its operator or input.

    Args:
        network: as it is run.
        indices: inputs that hold positions.
    """
    return _Given(network, indices).found


class _Given:
    def __init__(self, network: Network, indices: Container[str]) -> None:
        self.found: dict[str, Encoding] = {}
        self._operators = {op.name: op for op in network.operators}
        self._inputs = {one.name for one in network.inputs if one.name not in indices}
        self._readers: dict[str, list[tuple[Operator | None, Tensor]]] = {}
        for op in network.operators:
            for x in op.semantics.operands if op.semantics else ():
                if isinstance(x, Tensor):
                    self._readers.setdefault(x.name, []).append((op, x))
        for x in output_tensors(network):
            self._readers.setdefault(x.name, []).append((None, x))
        own = {"quantise", "decode"}
        rounding = [op for op in network.operators if op.semantics and op.semantics.function in own]
        for op in rounding:
            assert op.semantics is not None
            self.found[op.name] = op.semantics.attributes["encoding"]
        for op in network.operators:
            if op.semantics and op.semantics.function == "shift":
                self.found[op.name] = op.semantics.attributes["encoding"]
        for op in reversed(rounding):
            assert op.semantics is not None
            (x,) = op.semantics.operands
            assert isinstance(x, Tensor)
            self._settle(x.name, self.found[op.name], op.semantics.function)

    def _settle(self, name: str, wanted: Encoding, rounding: str) -> bool:
        """Whether a tensor that is rounded to an encoding has it itself: all that reads it asks for the same."""
        if name in self.found:
            return self.found[name] == wanted
        for reader, x in self._readers[name]:
            if reader is None or any(isinstance(step, (Slice, Expand, Unknown)) for step in x.steps):
                return False
            function = reader.semantics.function if reader.semantics else ""
            if self.found.get(reader.name) != wanted or not (function == rounding or _carried(reader)):
                return False
        if name in self._inputs:
            self.found[name] = wanted
            return True
        op = self._operators.get(name)
        if rounding == "decode" or op is None or op.semantics is None:
            return False
        if _carried(op):
            source = op.semantics.operands[0]
            self.found[name] = wanted  # which the operand's only reader must have for it to have it
            if not isinstance(source, Tensor) or not self._settle(source.name, wanted, rounding):
                del self.found[name]
                return False
            return True
        if op.semantics.function not in COMPUTED or not _computed(op):
            return False
        self.found[name] = wanted
        return True


def _carried(op: Operator) -> bool:
    """Whether elements of the result are such of the first operand, or lie between them."""
    assert op.semantics is not None
    if op.semantics.function == "reduce":
        return op.semantics.attributes["name"] in ("max", "min")
    return op.semantics.function in CARRIED


def _computed(op: Operator) -> bool:
    """Whether this form of a function is."""
    assert op.semantics is not None
    a = op.semantics.attributes
    if op.semantics.function == "reduce":
        return a["name"] in ("mean", "sum")
    if op.semantics.function == "softmax":
        return not a["logarithm"] and op.semantics.operands[1] is None
    return op.semantics.function != "avgpool" or set(a.get("dilation", (1,))) == {1}
