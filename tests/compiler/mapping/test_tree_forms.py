"""Tile trees as mappings, text: what is written is read back equal, what is wrong is located."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest

from baco.common.errors import BacoError, InputError, Location
from baco.compiler.mapping.nest import REGISTER_DIMS, Mapping
from baco.compiler.mapping.text import format_mapping, format_tree, mapping_text, parse_tree
from baco.compiler.mapping.tree import (
    Loop,
    Residency,
    Tile,
    mapping_of,
    tree_of,
)
from baco.workloads.problem import DIMS
from tests.compiler.mapping.random_trees import draw_fused


def _mapping(r: random.Random) -> Mapping:
    flow = r.choice(("WS", "OS"))
    temporal = [[r.choice((1, 1, 2, 5, 48)) for _ in DIMS] for _ in range(4)]
    temporal[0] = [f if d in REGISTER_DIMS[flow] else 1 for d, f in zip(DIMS, temporal[0], strict=True)]
    order = tuple("".join(r.sample(DIMS, 7)) for _ in range(4))
    copies = tuple(r.choice((1, 2)) for _ in range(3))
    return Mapping(flow, r.randint(1, 16), r.randint(1, 16), tuple(map(tuple, temporal)), order, copies)  # type: ignore[arg-type]


def _plain(tree: Tile) -> Tile:
    """Without the loops that run once, which text leaves out."""
    return replace(
        tree,
        loops=tuple(loop for loop in tree.loops if loop.factor > 1),
        children=tuple(map(_plain, tree.children)),
    )


def test_a_mapping_is_the_tree_with_one_leaf() -> None:
    r = random.Random(1)
    for _ in range(500):
        mapping = _mapping(r)
        tree = tree_of(mapping)
        assert mapping_of(tree) == mapping
        # the text of today, copies included, with places of loops that run once left open
        text = mapping_text(mapping) if max(mapping.buffering) > 1 else format_mapping(mapping)
        assert format_tree(tree) == text
        assert _plain(parse_tree(text)) == _plain(tree)


def test_groups_are_the_outermost_loop() -> None:
    tree = tree_of(_mapping(random.Random(2)), groups=4)
    assert tree.loops[0] == Loop("G", 4)
    assert _plain(parse_tree(format_tree(tree))) == _plain(tree)
    assert mapping_of(tree) == mapping_of(replace(tree, loops=tree.loops[1:]))


def _any_tree(r: random.Random, depth: int, names: list[str]) -> Tile:
    tensors = r.sample(["W", "I", "O", "T0", "blocks.3/attn", "x~2", "s"], r.randint(0, 4))
    loops = [
        Loop(d, r.choice((1, 2, 17))) for d in r.sample(["K", "m", "d0", "q_1", "G", "Z"], r.randint(0, 3))
    ]
    kept = tuple(Residency(t, r.choice((1, 1, 2, 3))) for t in tensors)
    count = r.randint(0, 3) if depth else 0
    if not count:
        names.append(f"op.{len(names)}")
        return Tile(depth, kept, (*loops, *([Loop("K", 4, True)] if depth else [])), operator=names[-1])
    children = tuple(_any_tree(r, depth - 1, names) for _ in range(count))
    relation = r.choice(("Seq", "Shar", "Pipe", "Para")) if count > 1 else "Seq"
    return Tile(depth, kept, (*loops, Loop("K", 4, True)), children, relation)  # type: ignore[arg-type]


@pytest.mark.parametrize("fused", [True, False])
def test_trees_survive_text(fused: bool) -> None:
    r = random.Random(3)
    for _ in range(500):
        tree = draw_fused(r)[0] if fused else _any_tree(r, 4, [])
        assert parse_tree(format_tree(tree)) == _plain(tree)


def test_text_of_a_fused_tree() -> None:
    text = "L3[ABDE] m=4 - L2[A:2,B,C,D,E] l=2 Shar( L0[C] m=8 k=64 @scores | L0[E] N1 n=64X @values )"
    tree = parse_tree(text)
    assert format_tree(tree) == text
    assert tree.children[0].relation == "Shar"
    assert tree.children[0].keeps[0] == Residency("A", 2)
    assert tree.leaves[1] == Tile(0, (Residency("E"),), (Loop("n", 64, spatial=True),), operator="values")


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("", 1, "expected a tile, found 'the end'"),
        ("L3[A] m=4 - ", 13, "expected a tile"),
        ("L3[A] m=4 4m", 11, "'4m' is no loop"),
        ("L3[A] m=0", 1, "must be at least 1, not 0"),
        ("L3[A] m=4X m=2", 1, "follows a spatial one"),
        ("L3[A] m=4 m=2", 1, "loops over a dimension twice"),
        ("L2[A] N1 - L3[A] N1", 1, "cannot lie inside"),
        ("L2[A] Shar( L1[A] N1 @a | L1[A] N1 @a )", 1, "a name of its own"),
        ("L2[A] Shar( L1[A] N1 @a", 24, "expected '|' or ')', found 'the end'"),
        ("L2[A] Shar( L1[A] N1 @a )", 1, "Shar needs several tiles"),
        ("L2[A] N1 ) L1[A]", 10, "follows the whole tree"),
        ("L2[A;B] N1", 1, "';' is no tensor"),
        ("L3[WIO] K4 - L2[WI] N1 - L1[O] N1 - L0[W] K2", 43, "level 0 cannot loop over K"),
    ],
)
def test_malformed_trees_are_located(text: str, character: int, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("'|' or ')'", ".*")) as caught:
        parse_tree(text, Location("trees.txt", 3, 1))
    assert caught.value.location == Location("trees.txt", 3, character)
    assert caught.value.hint


def test_damaged_text_raises_nothing_else() -> None:
    r = random.Random(4)
    for _ in range(300):
        tree = draw_fused(r)[0]
        text = format_tree(tree)
        at = r.randrange(len(text))
        noise = r.choice(["", "(", ")", " | ", "L", "[", "9", "-", "é", "\x00", " Shar( ", '"', "{", ":"])
        with suppress(BacoError):
            parse_tree(text[:at] + noise + text[at + r.choice((0, 1, 5)) :])
