"""Softmaxes in tile trees: whole rows, and rows in blocks (online) against attention that is computed block by block."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.dataflows import attention, dataflow
from baco.compiler.mapping.footprint import check_fits, footprint, shortfalls
from baco.compiler.mapping.machine import Level, Machine, machine_of
from baco.compiler.mapping.machines import load_machine
from baco.compiler.mapping.movement import movement
from baco.compiler.mapping.pipeline import run_pipeline
from baco.compiler.mapping.structure import Gene, TreeStructure, structures
from baco.compiler.mapping.text import format_tree, parse_tree
from baco.compiler.mapping.tree import Loop, Residency, Tile
from baco.compiler.mapping.tree_cost import tree_cost
from baco.exploration.samplers.mcts import search_sizes
from baco.exploration.samplers.tree_structures import search_trees
from tests.explore.samplers.every_tree import all_sizes


def machine(words: int = 100_000, *, online: bool = True) -> Machine:
    return Machine(
        "small",
        (
            Level("registers", access_pj=1.0),
            Level("buffer", words, access_pj=10.0, words_per_cycle=16.0),
            Level("main memory", access_pj=100.0, words_per_cycle=4.0),
        ),
        (),
        {},
        ("int16",),
        mac_pj=1.0,
        running_softmax=online,
    )


def tree(
    operators: list[Contraction], blocks: dict[str, int], order: str = "ml", *, online: bool = True
) -> Tile:
    """Blocks of m and l around all three operators, in an order, outermost first."""
    extents = operators[0].extents
    part = {dim: extent // blocks.get(dim, 1) for dim, extent in extents.items()}
    part["n"] = operators[2].extents["n"]

    def leaf(operator: Contraction) -> Tile:
        loops = tuple(Loop(dim, part[dim]) for dim in operator.extents)
        return Tile(0, (), loops, operator=operator.name, online=online and operator.body == "softmax")

    inside = Tile(1, tuple(map(Residency, "QKSPVO")), (), tuple(map(leaf, operators)), "Shar")
    around = tuple(Loop(dim, blocks[dim]) for dim in order if blocks.get(dim, 1) > 1)
    return Tile(2, tuple(map(Residency, "QKVO")), around, (inside,))


def moved(found: Tile, operators: list[Contraction], outer: int, inner: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in movement(found, operators):
        if (one.outer, one.inner) == (outer, inner):
            total[f"{one.tensor} down"] += round(one.down)
            total[f"{one.tensor} up"] += round(one.up)
    return +total


class Attention:
    """Attention of one head, block by block with the largest element and the sum so far; words that main memory gives and
    takes, blocks that are there staying, and what corrections touch."""

    def __init__(
        self, rows: int, keys: int, depth: int, columns: int, blocks: dict[str, int], order: str
    ) -> None:
        random = np.random.default_rng(0)
        q, k, v = (random.normal(size=shape) for shape in ((rows, depth), (keys, depth), (keys, columns)))
        self.words: Counter[str] = Counter()
        self.touched: Counter[str] = Counter()
        self.most = 0
        result, top, total = np.zeros((rows, columns)), np.full(rows, -np.inf), np.zeros(rows)
        high, wide = rows // blocks["m"], keys // blocks["l"]
        seen: dict[str, int] = {}
        visited: Counter[int] = Counter()
        steps = [(a, b) for a in range(blocks[order[0]]) for b in range(blocks[order[1]])]
        for step in steps:
            at = dict(zip(order, step, strict=True))
            m, n = slice(at["m"] * high, (at["m"] + 1) * high), slice(at["l"] * wide, (at["l"] + 1) * wide)
            for name, place, size in (
                ("Q", at["m"], q[m].size),
                ("K", at["l"], k[n].size),
                ("V", at["l"], v[n].size),
            ):
                if seen.get(name) != place:
                    self.words[f"{name} down"] += size
                seen[name] = place
            if seen.get("O") != at["m"]:
                if "O" in seen:
                    self._leave(result[m], high, last=visited[seen["O"]] == blocks["l"])
                if visited[at["m"]]:
                    self.words["O down"] += result[m].size
                    self.words["P~rows down"] += 2 * high
            seen["O"] = at["m"]
            scores = q[m] @ k[n].T
            largest = np.maximum(top[m], scores.max(1))
            weights, old = np.exp(scores - largest[:, None]), np.exp(top[m] - largest)
            total[m], top[m] = total[m] * old + weights.sum(1), largest
            self.touched["rows"] += 2 * high
            if visited[at["m"]]:
                result[m] *= old[:, None]
                self.touched["results"] += result[m].size
            result[m] += weights @ v[n]
            visited[at["m"]] += 1
            if visited[at["m"]] == blocks["l"]:
                result[m] /= total[m][:, None]
                self.touched["results"] += result[m].size
            held = sum(one.size for one in (q[m], k[n], v[n], scores, weights, result[m])) + 2 * high
            self.most = max(self.most, held)
        self._leave(result[m], high, last=True)
        scores = q @ k.T
        whole = np.exp(scores - scores.max(1, keepdims=True))
        self.error = float(abs(whole / whole.sum(1, keepdims=True) @ v - result).max())

    def _leave(self, block: np.ndarray, rows: int, *, last: bool) -> None:
        self.words["O up"] += block.size
        self.words["P~rows up"] += 0 if last else 2 * rows


SIZES = [(16, 24, 4, 6), (32, 32, 8, 8), (8, 40, 5, 3)]


@pytest.mark.parametrize("order", ["ml", "lm"])
@pytest.mark.parametrize(("rows", "keys", "depth", "columns"), SIZES)
@pytest.mark.parametrize(("m", "l"), [(2, 4), (4, 2), (1, 8), (8, 2)])
def test_words_and_corrections_are_those_of_attention_block_by_block(
    order: str,
    rows: int,
    keys: int,
    depth: int,
    columns: int,
    m: int,
    l: int,  # noqa: E741
) -> None:
    blocks = {"m": m, "l": l}
    done = Attention(rows, keys, depth, columns, blocks, order)
    assert done.error < 1e-12
    operators = attention(1, rows, depth, keys, columns)
    found = tree(operators, blocks, order)
    assert moved(found, operators, 2, 1) == +done.words
    corrected = moved(found, operators, 1, -1) - moved(replace_online(found), operators, 1, -1)
    assert corrected == Counter(
        {
            "O down": done.touched["results"], "O up": done.touched["results"],
            "P~rows down": done.touched["rows"], "P~rows up": done.touched["rows"],
        }
    )  # fmt: skip
    assert footprint(found, operators, machine())[1].words == done.most
    # latency: one more iteration for every correction, the array has no width here
    free = machine()
    free = replace(free, levels=tuple(replace(one, words_per_cycle=None) for one in free.levels))
    iterations = rows * keys * (depth + 1 + columns)
    more = done.touched["results"] + done.touched["rows"] // 2
    assert tree_cost(found, operators, free).cycles == iterations + more
    assert not shortfalls(found, operators, machine())


def replace_online(found: Tile) -> Tile:
    """The same tree, softmaxes not online."""
    return replace(found, online=False, children=tuple(map(replace_online, found.children)))


def test_what_attention_holds_online_does_not_grow_with_its_rows() -> None:
    """FlashAttention: blocks of fixed size; whole rows grow with the keys. Words of main memory: with rows outermost Q and O once,
    K and V once for each block of rows; with keys outermost the other way round, O back and forth, and two words of a row."""
    held, whole = [], []
    for keys in (256, 1024, 4096):
        operators = attention(1, 256, 64, keys)
        strips = 256 // 32
        online = tree(operators, {"m": strips, "l": keys // 64})
        held.append(footprint(online, operators, machine())[1].words)
        whole.append(footprint(tree(operators, {"m": strips}), operators, machine())[1].words)
        words = sum(moved(online, operators, 2, 1).values())
        assert words == 2 * 256 * 64 + 2 * keys * 64 * strips
        across = sum(moved(tree(operators, {"m": strips, "l": keys // 64}, "lm"), operators, 2, 1).values())
        blocks = keys // 64
        assert across == 2 * keys * 64 + 256 * 64 * (blocks + 2 * blocks - 1) + 2 * 2 * 256 * (blocks - 1)
    assert held == [32 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 32 * 64 + 2 * 32] * 3
    assert whole[2] > 10 * whole[0]


def test_rows_in_one_block_take_nothing_more() -> None:
    operators = attention(1, 16, 4)
    for blocks in ({"m": 4}, {}):
        online, whole = (tree(operators, blocks, online=kind) for kind in (True, False))
        assert movement_of(online, operators) == movement_of(whole, operators)
        assert tree_cost(online, operators, machine()) == tree_cost(whole, operators, machine())
        assert (
            footprint(online, operators, machine())[1].words
            == footprint(whole, operators, machine())[1].words
        )
        assert not shortfalls(online, operators, machine(online=False))


def movement_of(found: Tile, operators: list[Contraction]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in movement(found, operators):
        total[f"{one.tensor} {one.outer} {one.inner}"] += one.words
    return +total


# ---------------------------------------------------------------- what is refused


def test_cut_rows_are_refused_unless_online_and_with_code() -> None:
    operators = attention(1, 16, 4)
    cut = {"m": 2, "l": 4}
    (reason,) = shortfalls(tree(operators, cut, online=False), operators, machine())
    assert reason == (
        "softmax 'softmax' needs whole rows where it meets others, but loops over l cut them into 4 blocks"
    )
    (reason,) = shortfalls(tree(operators, cut), operators, machine(online=False))
    assert reason == "small has code for whole rows only: softmax 'softmax' in 4 blocks of its rows"
    assert not shortfalls(tree(operators, {"m": 2}, online=False), operators, machine(online=False))
    with pytest.raises(InputError, match="passes of this tree are not known"):
        run_pipeline(
            tree(operators, cut),
            operators,
            replace(
                machine(),
                levels=(*machine().levels[:2], Level("memory", reads_per_cycle=1.0, writes_per_cycle=1.0)),
            ),
        )


def test_our_machine_has_code_for_whole_rows_only() -> None:
    ours = machine_of(load_accelerator("gemmini-transformer"))
    operators = attention(1, 64, 64)
    found = tree(operators, {"m": 2, "l": 4})
    with pytest.raises(
        InfeasibleError, match="gemmini-transformer has code for whole rows only: softmax 'softmax' in 4"
    ):
        check_fits(found, operators, ours)
    assert not any("whole rows" in one for one in shortfalls(tree(operators, {"m": 2}), operators, ours))
    assert not any(gene.online for one in structures(operators, ours) for gene in one.genes)


def test_rows_that_cannot_be_corrected() -> None:
    scores, softmax, values = operators = attention(1, 16, 4)
    keeps = tuple(map(Residency, "QKSPVO"))

    def leaf(operator: Contraction, **extents: int) -> Tile:
        loops = tuple(Loop(dim, extent) for dim, extent in extents.items())
        return Tile(0, (), loops, operator=operator.name, online=operator.body == "softmax")

    # nobody beside it reads what it makes
    parts = (leaf(scores, m=16, l=4, k=4), leaf(softmax, m=16, l=4))
    alone = Tile(2, tuple(map(Residency, "QKP")), (Loop("l", 4),), (Tile(1, keeps[:4], (), parts, "Shar"),))
    (reason,) = shortfalls(alone, [scores, softmax], machine())
    assert "no product that sums over l reads its results beside it" in reason
    # scores and softmax go on block by block before their reader begins
    first = Tile(1, (), (Loop("l", 4),), parts)
    first = replace(first, relation="Shar")
    inner = Tile(1, keeps, (), (first, leaf(values, m=16, n=4, l=16)), "Shar")
    (reason,) = shortfalls(Tile(2, keeps, (), (inner,)), operators, machine())
    assert "its rows are cut inside the tile where 'values' reads them" in reason
    # each instance has some of the keys
    spread = tree(operators, {"m": 2, "l": 4})
    spread = replace(spread, loops=(Loop("m", 2), Loop("l", 4, spatial=True)))
    assert any(
        "instances side by side have parts of its rows" in one
        for one in shortfalls(spread, operators, machine())
    )


def test_text_says_it() -> None:
    found = tree(attention(1, 16, 4), {"m": 2, "l": 4})
    assert "@softmax:online" in format_tree(found)
    read = parse_tree(format_tree(found))
    assert [leaf.online for leaf in read.leaves] == [False, True, False]
    assert format_tree(read) == format_tree(found)
    assert format_tree(replace_online(found)) == format_tree(found).replace(":online", "")
    with pytest.raises(InputError, match="an operator that is named"):
        Tile(1, online=True)


# ---------------------------------------------------------------- searches


def test_factors_at_once_are_factors_one_by_one() -> None:
    operators = attention(1, 24, 4, 24, 6)
    options = [{"m": m, "l": l} for m in (2, 3, 4) for l in (2, 6, 1)]  # noqa: E741
    trees = [tree(operators, option) for option in options]
    template = trees[0]
    numbers = np.array(
        [[option["m"], option["l"], *rest(operators, option)] for option in options], dtype=float
    )
    at_once = tree_cost(template, operators, machine(), list(numbers.T))
    held = footprint(template, operators, machine(), list(numbers.T))[1].words
    for n, sized in enumerate(trees):
        alone = tree_cost(sized, operators, machine())
        assert (at_once.cycles[n], at_once.energy_pj[n], at_once.words[2][n]) == (
            alone.cycles, alone.energy_pj, alone.words[2]
        )  # fmt: skip
        assert held[n] == footprint(sized, operators, machine())[1].words


def rest(operators: list[Contraction], blocks: dict[str, int]) -> list[int]:
    """Factors of the innermost tiles."""
    found = []
    for one in operators:
        found += [extent // blocks.get(dim, 1) for dim, extent in one.extents.items()]
    return found


@pytest.mark.parametrize("trials", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_a_search_takes_rows_in_blocks_where_whole_ones_do_not_fit(trials: int) -> None:
    operators = attention(1, 8, 2, 32)
    for words, runs in ((60, True), (400, False)):
        on = machine(words)
        slow = replace(on.levels[2], words_per_cycle=0.2)
        on = replace(on, levels=(*on.levels[:2], slow))
        found = search_trees(operators, on, rounds=2, trials=trials)
        assert found is not None
        whole = search_trees(operators, replace(on, running_softmax=False), rounds=2, trials=trials)
        if (
            runs
        ):  # keys and values of whole rows alone are 128 words: scores leave and come back, or rows are cut
            assert "@softmax:online" in format_tree(found.tree)
            assert whole is None or whole.cost.cycles > found.cost.cycles
        else:
            assert ":online" not in format_tree(found.tree)
            assert whole is not None
            assert found.cost.cycles == whole.cost.cycles


def test_structures_without_online_rows_cut_none() -> None:
    operators = attention(1, 4, 2, 6)
    for online in (False, True):
        structure = TreeStructure(
            tuple(operators),
            machine(),
            (Gene(1, "Shar", "h"), Gene(1, "Shar", "h", online), Gene(1, "Shar", "l")),
        ).canonical
        assert ("l" in {choice.dim for choice in structure.choices()}) == online
        found = list(all_sizes(structure))
        assert all(not shortfalls(tree.tree, operators, machine()) for tree in found)
        cut = [tree for tree in found if any(loop.dim == "l" for loop in tree.tree.loops)]
        assert bool(cut) == online
    # of the last operator of a group nobody is there to correct anything
    last = TreeStructure(
        tuple(operators), machine(), (Gene(1, "Shar", "h"), Gene(1, "Shar", "l", True), Gene(2, "Shar", "h"))
    ).canonical
    assert not any(gene.online for gene in last.genes)
    flows = [dataflow(name, operators, load_machine("edge")) for name in ("flat-rgran", "chimera")]
    assert [any(gene.online for gene in flow.genes) for flow in flows] == [False, True]


def test_attention_of_long_rows_on_a_published_machine() -> None:
    """16,384 tokens: rows in blocks take fewer cycles on edge than whole ones, which leave room for few."""
    operators, edge = attention(8, 16384, 64), load_machine("edge")
    chimera = dataflow("chimera", operators, edge)
    online = search_sizes(chimera, 300, 0)
    whole = search_sizes(dataflow("chimera", operators, replace(edge, running_softmax=False)), 300, 0)
    assert online is not None
    assert whole is not None
    assert online.cost.cycles < whole.cost.cycles
