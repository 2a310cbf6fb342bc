"""Searches for tile trees of several operators: costs by hand, sizes and structures against all of them."""

import itertools
from dataclasses import replace
from math import prod

import pytest

from baco.common.errors import InfeasibleError, InputError
from baco.compiler.mapping.chains import parse_chain
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.dataflows import attention, dataflow, dataflow_names
from baco.compiler.mapping.factors import divisors
from baco.compiler.mapping.footprint import check_fits
from baco.compiler.mapping.machine import ArrayAxis, Level, Machine
from baco.compiler.mapping.machines import load_machine, machine_names
from baco.compiler.mapping.structure import Gene, TreeStructure, structures
from baco.compiler.mapping.text import format_tree
from baco.compiler.mapping.tree import Loop, Residency, Tile
from baco.compiler.mapping.tree_cost import tree_cost
from baco.exploration.samplers import tree_structures
from baco.exploration.samplers.mcts import rated, search_sizes
from baco.exploration.samplers.tree_descent import descend_sizes
from baco.exploration.samplers.tree_structures import SEARCHED, compare_trees, search_trees
from tests.explore.samplers.every_tree import all_sizes
from tests.seeds import seeds


def machine(words: int = 100_000, *, cores: int = 2, side: int = 2, rate: float = 4.0) -> Machine:
    return Machine(
        "small",
        (
            Level("registers", access_pj=1.0),
            Level("buffer", words, access_pj=10.0, words_per_cycle=16.0),
            Level("main memory", access_pj=100.0, words_per_cycle=rate),
        ),
        (ArrayAxis(2, cores), ArrayAxis(1, side), ArrayAxis(1, side)),
        {},
        ("int16",),
        arrays=cores,
        mac_pj=1.0,
    )


def chain_tree(relation: str, rows: int = 4) -> Tile:
    """Attention of one head, 8 rows, 4 keys, depth 2: strips of rows at main memory, all else in the buffer."""
    keeps = tuple(map(Residency, "SQKPOV"))
    parts = (
        Tile(0, (Residency("S"),), (Loop("m", 8 // rows), Loop("l", 4), Loop("k", 2)), operator="scores"),
        Tile(0, (Residency("P"),), (Loop("m", 8 // rows), Loop("l", 4)), operator="softmax"),
        Tile(0, (Residency("O"),), (Loop("m", 8 // rows), Loop("n", 2), Loop("l", 4)), operator="values"),
    )
    inside = Tile(1, keeps, (), parts, relation)  # type: ignore[arg-type]
    return Tile(2, tuple(map(Residency, "QKOV")), (Loop("m", rows),), (inside,))


def test_latency_is_the_longest_of_loads_work_and_stores() -> None:
    """Worked by hand: 64 + 32 + 64 iterations one after the other, 64 at once; 8 x 2 + 4 x 2 + 4 x 2 words in, 16 out."""
    operators = attention(1, 8, 2, 4, 2)
    slow, fast = machine(rate=0.25), machine(rate=100.0)
    for relation, iterations in (("Shar", 160), ("Pipe", 64)):
        one = tree_cost(chain_tree(relation), operators, fast)
        assert one.cycles == iterations
        assert one.words[2] == 16 + 8 + 8 + 16
        assert tree_cost(chain_tree(relation), operators, slow).cycles == (16 + 8 + 8 + 16) / 0.25
    assert tree_cost(chain_tree("Shar"), operators, fast).arrays == 1
    assert tree_cost(chain_tree("Pipe"), operators, fast).arrays == 3


def test_instances_share_the_work_and_have_rates_of_their_own() -> None:
    operators = attention(4, 8, 2, 4, 2)
    alone = TreeStructure(
        tuple(operators), machine(cores=4), tuple(Gene(1, "Shar", "h") for _ in operators)
    ).canonical
    order = alone.choices()
    spread = {one: 4 if one.dim == "h" and one.spatial else 1 for one in order}
    one, four = rated(alone, dict.fromkeys(order, 1)), rated(alone, spread)
    assert one is not None
    assert four is not None
    assert (one.cost.arrays, four.cost.arrays) == (1, 4)
    assert four.cost.words[2] == one.cost.words[2]
    work = machine(cores=4, rate=1e9)
    free = [tree_cost(found.tree, operators, work).cycles for found in (one, four)]
    assert free[0] == 4 * free[1]


def test_operators_side_by_side_need_arrays_of_their_own() -> None:
    operators = attention(1, 8, 2, 4, 2)
    check_fits(chain_tree("Shar"), operators, machine(cores=1))
    with pytest.raises(InfeasibleError, match="Pipe of 3 operators needs as many arrays, small has 1"):
        check_fits(chain_tree("Pipe"), operators, machine(cores=1))
    for relation in {gene.relation for one in structures(operators, machine(cores=1)) for gene in one.genes}:
        assert relation == "Shar"


def by_hand(structure: TreeStructure) -> float:
    """Least cycles over all sizes, by divisors of every loop, whatever the structure's own rules of what may follow."""
    order = structure.choices()
    best = float("inf")
    extents = [structure.operators[choice.owner].extents[choice.dim] for choice in order]
    for sizes in itertools.product(*(divisors(extent).tolist() for extent in extents)):
        made = dict(zip(order, sizes, strict=True))
        whole = True
        for group, dim in {(choice.group, choice.dim) for choice in order}:
            factors = [f for choice, f in made.items() if (choice.group, choice.dim) == (group, dim)]
            extent = next(
                structure.operators[choice.owner].extents[dim]
                for choice in order
                if (choice.group, choice.dim) == (group, dim)
            )
            whole &= extent % prod(factors) == 0
        for group in {choice.group for choice in order}:
            whole &= prod(f for choice, f in made.items() if choice.group == group and choice.spatial) <= 2
        found = rated(structure, made) if whole else None
        if found is not None:
            best = min(best, float(found.cost.cycles))
    return best


def products(rows: int, between: int, depth: int, columns: int) -> list[Contraction]:
    """Two products, the second of the first one's results: attention of one head without its softmax."""
    first, _, second = attention(1, rows, depth, between, columns)

    def plain(one: Contraction) -> Contraction:
        extents = {name: extent for name, extent in one.extents.items() if name != "h"}
        output, *inputs = (
            replace(access, operand=access.operand.replace("P", "S"), indices=access.indices[1:])
            for access in one.accesses
        )
        return replace(one, extents=extents, output=output, inputs=tuple(inputs))

    return [plain(first), plain(second)]


SMALL = products(4, 4, 2, 2)


def test_all_sizes_are_all_that_there_are() -> None:
    compared = 0
    for cores in (1, 2):
        for structure in structures(SMALL, machine(40, cores=cores)):
            if len(structure.choices()) <= 6 and structure.genes[-1].innermost == "m":
                found = min((float(one.cost.cycles) for one in all_sizes(structure)), default=float("inf"))
                assert found == by_hand(structure)
                compared += found < float("inf")
    assert compared > 2


@pytest.mark.parametrize(
    ("sizes", "words", "cores"),
    [
        pytest.param((4, 4, 2, 2), 24, 1, marks=pytest.mark.slow),
        pytest.param((4, 4, 2, 2), 60, 1, marks=pytest.mark.slow),
        ((2, 2, 2, 2), 14, 2),
    ],
)
@pytest.mark.parametrize("seed", seeds(1, of=2))
def test_the_search_ends_within_a_twentieth_of_all_trees(
    sizes: tuple[int, int, int, int], words: int, cores: int, seed: int
) -> None:
    on, operators = machine(words, cores=cores), products(*sizes)
    everything = [
        float(one.cost.cycles) for structure in structures(operators, on) for one in all_sizes(structure)
    ]
    assert len(set(everything)) > 5
    found = search_trees(operators, on, rounds=3, trials=60, seed=seed)
    assert found is not None
    assert min(everything) <= found.cost.cycles <= 1.05 * min(everything)


@pytest.mark.slow
def test_descent_ends_within_a_twentieth_of_all_sizes() -> None:
    """Of every structure of two products that has sizes; as many looks as the Monte Carlo search has."""
    compared = 0
    for cores, words in ((1, 24), (2, 40)):
        for structure in structures(SMALL, machine(words, cores=cores)):
            if structure.genes[-1].innermost != "m" or len(structure.choices()) > 6:
                continue
            every = [float(one.cost.cycles) for one in all_sizes(structure)]
            found = descend_sizes(structure, 150, 0)
            assert (found is None) == (not every)
            if found is not None:
                assert min(every) <= found.cost.cycles <= 1.05 * min(every)
                compared += len(set(every)) > 1
    assert compared > 2


def test_descent_is_repeatable_and_fits() -> None:
    on = load_machine("cloud")
    structure = dataflow("chimera", attention(2, 256, 64), on)
    found = [descend_sizes(structure, 80, 1) for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].tree == found[1].tree
    check_fits(found[0].tree, list(structure.operators), on)


def test_where_nothing_fits_nothing_is_found() -> None:
    assert search_trees(SMALL, machine(3), rounds=1, trials=10) is None
    assert search_sizes(dataflow("chimera", attention(1, 4, 2), machine(3)), 20, 0) is None


def test_a_search_begins_with_what_is_known_and_is_repeatable() -> None:
    on = load_machine("edge")
    heads, rows, depth = 2, 64, 16
    operators = attention(heads, rows, depth)
    known = [dataflow(name, operators, on) for name in dataflow_names(operators)]
    peers = [tree for tree in (search_sizes(structure, 30, 0) for structure in known) if tree is not None]
    found = [search_trees(operators, on, known=known, rounds=1, trials=15) for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].tree == found[1].tree
    assert found[0].cost.cycles <= min(tree.cost.cycles for tree in peers)
    macs = 2 * heads * rows * rows * depth
    assert found[0].cost.cycles >= macs / on.multipliers
    layerwise = next(tree for tree in peers if tree.structure.groups == [range(1), range(1, 2), range(2, 3)])
    # scores and their softmax leave and come back, but for that all is as much
    assert layerwise.cost.words[2] >= 4 * heads * rows * depth + 4 * heads * rows * rows
    assert found[0].cost.words[2] < layerwise.cost.words[2]
    assert "scores" in format_tree(found[0].tree)


@pytest.mark.slow
def test_published_dataflows_get_their_best_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_structures, "_TRIALS", 150)
    monkeypatch.setattr(tree_structures, "_SHARE", 30)
    on = machine(24)
    rows = {row["dataflow"]: row["cycles"] for row in compare_trees(SMALL, on, rounds=1)}
    searched = rows.pop(SEARCHED)
    assert set(rows) == set(dataflow_names(SMALL))
    for name, cycles in rows.items():
        every = [float(one.cost.cycles) for one in all_sizes(dataflow(name, SMALL, on))]
        assert cycles == min(every, default=None)
        assert cycles is None or searched <= cycles


def test_machines_of_the_comparison() -> None:
    assert {"edge", "cloud", "tileflow-16"} <= set(machine_names())
    assert load_machine("edge").multipliers == 4 * 32 * 32
    assert load_machine("cloud").multipliers == 4 * 16 * 32 * 32 == 256 * 256


def extents(operators: list[Contraction]) -> list[dict[str, int]]:
    return [dict(one.extents) for one in operators]


def test_chains_are_read() -> None:
    assert extents(parse_chain("attention:heads=2,seq=8,dim=4")) == extents(attention(2, 8, 4))
    assert extents(parse_chain("attention:seq=8,dim=4,keys=16")) == extents(attention(1, 8, 4, 16))
    first, second = parse_chain(
        "convolutions:channels=3,height=8,width=6,first=4,second=5,stride1=2,window1=1"
    )
    assert (first.extents["Q"], first.extents["P"], second.extents["Q"], second.extents["P"]) == (6, 5, 4, 3)
    for text, message in (
        ("attentoin:seq=8", "there is no chain 'attentoin'"),
        ("attention:seq=8", "attention needs dim"),
        ("attention:seq=8,dim=0", "dim is a whole number from 1"),
        ("attention:seq=8,dim=4,head=2", "attention has no size 'head'"),
    ):
        with pytest.raises(InputError, match=message):
            parse_chain(text)
    with pytest.raises(InputError, match="there is no dataflow 'flat'"):
        dataflow("flat", attention(1, 4, 2), machine())
    with pytest.raises(InputError, match="they are no chain"):
        search_trees([SMALL[1], SMALL[0]], machine())
