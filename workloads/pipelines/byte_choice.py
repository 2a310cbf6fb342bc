"""Which tensors of a pipeline are kept as bytes: what the array reads and writes, and what tables of 256 numbers lead to."""

from __future__ import annotations

from collections.abc import Sequence

from baco.workloads.pipelines.linear import Forms, Linear
from baco.workloads.pipelines.node import Node
from baco.workloads.pipelines.product_forms import rounded_product

#: Functions of each element by itself; views of others; those that hand elements on.
POINTWISE = frozenset(("unary", "binary", "where"))
VIEWS = frozenset(("slice", "reshape", "transpose", "expand"))
_CARRYING = frozenset(("gather", "take"))
#: Operands of one table.
_MOST_SOURCES = 2
_ROUNDING = ("round", "floor")


def in_order(outputs: Sequence[Node]) -> list[Node]:
    """All nodes that outputs depend on, operands first."""
    known: set[int] = set()
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in known:
            known.add(id(node))
            stack.append((node, True))
            stack.extend((one, False) for one in reversed(node.operands))
    return order


class ByteChoice:
    """Decides for the nodes that some outputs depend on.

    A node whose numbers fit into a byte is one if anything but element-wise functions reads it, if it is a stencil's result or a rounded
    product's, or if a table would have more than two operands without it.

    Attributes:
        forms: linear forms of the nodes, in terms of images of bytes.
    """

    def __init__(self, outputs: Sequence[Node]) -> None:
        self._order = in_order(outputs)
        self._wanted = {id(node) for node in outputs}
        self._readers: dict[int, list[Node]] = {}
        for node in self._order:
            for x in node.operands:
                self._readers.setdefault(id(x), []).append(node)
        self._bytes: set[int] = set()
        for node in self._order:
            if self._is_boundary(node):
                self._bytes.add(id(node))
        self.forms = Forms(self.is_byte)
        forms = [(node, self.forms.of(node)) for node in self._order]
        for node, form in forms:
            if self._is_stencil(node, form) or rounded_product(node, self.is_byte) is not None:
                self._bytes.add(id(node))
        self._split_tables()

    def is_byte(self, node: Node) -> bool:
        """Whether the numbers are kept as bytes."""
        return id(node) in self._bytes

    def _is_boundary(self, node: Node) -> bool:
        if node.function in VIEWS or node.function in _CARRYING:
            return id(node.operands[0]) in self._bytes
        if node.function in ("constant", "topk") or node.range.encoding() is None:
            return False
        if node.function not in POINTWISE:
            return True
        readers = self._readers.get(id(node), [])
        return id(node) in self._wanted or any(one.function not in POINTWISE for one in readers)

    def _is_stencil(self, node: Node, form: Linear | None) -> bool:
        """Whether the node is what a stencil gives, or that rounded and limited."""
        if node.function in VIEWS or node.range.encoding() is None:
            return False
        if _neighbours(form):
            return all(not _neighbours(self.forms.of(one)) for one in self._readers.get(id(node), []))
        inner = node
        while inner.function == "unary" and inner.attributes["name"] in (*_ROUNDING, "clip"):
            inner = inner.operands[0]
        return inner is not node and _neighbours(self.forms.of(inner))

    def _split_tables(self) -> None:
        sources: dict[int, set[int]] = {}

        def of(node: Node) -> set[int]:
            if node.function == "constant" and node.range.low == node.range.high:
                return set()
            leaf = node.function not in POINTWISE or self.is_byte(node) or _neighbours(self.forms.of(node))
            return {id(node)} if leaf else sources[id(node)]

        for node in self._order:
            if node.function not in POINTWISE:
                continue
            read = set().union(*(of(x) for x in node.operands))
            if len(read) > _MOST_SOURCES and not _neighbours(self.forms.of(node)):
                for x in node.operands:
                    inside = x.function in POINTWISE and not _neighbours(self.forms.of(x))
                    if inside and x.range.encoding() is not None:
                        self._bytes.add(id(x))
                read = set().union(*(of(x) for x in node.operands))
            sources[id(node)] = read


def _neighbours(form: Linear | None) -> bool:
    """Whether it adds up more than one element."""
    return form is not None and form.base is not None and len([n for n in form.taps.values() if n]) > 1
