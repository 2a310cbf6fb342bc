"""Chains of operators by name and sizes as networks, to be compiled."""

from __future__ import annotations

from baco.compiler.mapping.chains import chain_sizes
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network


def chain_network(text: str) -> Network:
    """The chain that `baco.compiler.mapping.chains.parse_chain` reads as a network: of attention, queries, keys and values are inputs;
    of convolutions the image. Raises as that does."""
    kind, sizes = chain_sizes(text)
    b = GraphBuilder(kind)
    if kind == "attention":
        heads, depth, keys = sizes["heads"], sizes["dim"], sizes["keys"] or sizes["seq"]
        q, k, v = (
            b.input(name, (heads, rows, depth))
            for name, rows in (("queries", sizes["seq"]), ("keys", keys), ("values", keys))
        )
        scores = b.matmul(q, b.transpose(k, (0, 2, 1)), name="scores")
        b.matmul(b.softmax(scores, name="softmax"), v, name="context")
        return b.build()
    image = b.input("image", (1, sizes["channels"], sizes["height"], sizes["width"]))
    for number, name in enumerate(("first", "second"), 1):
        window = sizes[f"window{number}"]
        before = window // 2
        pads = (before, before, window - 1 - before, window - 1 - before)
        image = b.conv2d(image, sizes[name], window, sizes[f"stride{number}"], pads, name=name)
    return b.build()
