"""What publications say of fused operators, from the analyses of tile trees: words moved, and rows that memories hold."""

import pytest

from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.dataflows import attention
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.footprint import shortfalls
from baco.compiler.mapping.machine import Level, Machine
from baco.compiler.mapping.movement import movement
from baco.compiler.mapping.tree import Loop, Residency, Tile
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from baco.compiler.styles.fused.predict import choose_chain
from baco.workloads.problem import Problem


def kept(tensors: str) -> tuple[Residency, ...]:
    return tuple(map(Residency, tensors))


def moved(tree: Tile, operators: list[Contraction]) -> dict[str, int]:
    """Words between main memory (level 2) and the buffer, by tensor."""
    found: dict[str, int] = {}
    for one in movement(tree, operators):
        if one.outer == 2:
            found[one.tensor] = found.get(one.tensor, 0) + one.words
    return found


def leaf(operator: Contraction, **extents: int) -> Tile:
    loops = tuple(Loop(dim, extent) for dim, extent in extents.items() if extent > 1)
    return Tile(0, (), loops, operator=operator.name)


def test_the_worked_example_of_a_single_tile() -> None:
    """TileFlow, figure of data movement in one tile: of A, slices of 4 x 6, loops of 3 and 3; a step along j brings 4 x 4 new
    elements and keeps 4 x 2, one along i brings everything: 168."""
    i, j, k = (variable(name) for name in "ijk")
    operator = Contraction(
        {"i": 12, "j": 12, "k": 3},
        Access("C", (i, j)),
        (Access("A", (i, j + k)), Access("B", (k,))),
        name="c",
    )
    inside = Tile(1, kept("ABC"), (), (leaf(operator, i=4, j=4, k=3),))
    tree = Tile(2, kept("ABC"), (Loop("i", 3), Loop("j", 3)), (inside,))
    assert moved(tree, [operator])["A"] == 168


@pytest.mark.parametrize(("heads", "rows", "depth"), [(12, 197, 64), (12, 512, 64), (16, 257, 80)])
def test_words_of_attention_by_what_is_fused(heads: int, rows: int, depth: int) -> None:
    """GTCO's count of elements of main memory: h(4Nd + 4N^2) one by one, h(4Nd + 2N^2) with the softmax behind the scores, 4hNd
    with all three."""
    scores, softmax, values = operators = attention(heads, rows, depth)

    def parts(which: list[Contraction]) -> tuple[Tile, ...]:
        return tuple(
            leaf(operator, **{dim: extent for dim, extent in operator.extents.items() if dim != "h"})
            for operator in which
        )

    def group(which: list[Contraction], inner: str) -> Tile:
        tensors = "".join(dict.fromkeys(access.operand for operator in which for access in operator.accesses))
        tiles = parts(which)
        buffer = Tile(1, kept(tensors), (), tiles, "Shar" if len(tiles) > 1 else "Seq")
        outside = "".join(tensor for tensor in tensors if tensor not in inner)
        return Tile(2, kept(outside), (Loop("h", heads),), (buffer,))

    def total(*groups: tuple[list[Contraction], str]) -> int:
        return sum(sum(moved(group(*members), members[0]).values()) for members in groups)

    nd, nn = rows * depth, rows * rows
    assert total(([scores], ""), ([softmax], ""), ([values], "")) == heads * (4 * nd + 4 * nn)
    assert total(([scores, softmax], "S"), ([values], "")) == heads * (4 * nd + 2 * nn)
    assert total((operators, "SP")) == heads * 4 * nd


#: Tokens of the models, and rows of a strip that 64 KiB of sums hold with whole rows, on an array of side 16.
STRIPS = {"ViT-B": (197, 64), "ViT-H": (257, 48), "SETR": (1024, 16), "DETR": (1050, 0)}


@pytest.mark.parametrize("model", STRIPS)
def test_strips_of_whole_rows_that_an_accumulator_holds(model: str) -> None:
    tokens, most = STRIPS[model]
    machine = Machine(
        "sums",
        (Level("registers"), Level("accumulator", 64 * 1024 // 4, row_words=16), Level("main memory")),
        (),
        {},
        ("int16",),
    )
    scores, _, _ = attention(1, tokens, 64)

    def fits(rows: int) -> bool:
        work = leaf(scores, m=rows, l=tokens, k=64)
        strip = Tile(1, kept("S"), (), (work,))
        tree = Tile(2, kept("SQK"), (Loop("m", -(-tokens // rows)),), (strip,))
        return not shortfalls(tree, [scores], machine)

    assert max((rows for rows in range(16, 129, 16) if fits(rows)), default=0) == most


def test_attention_whose_whole_strips_do_not_fit_is_refused_or_takes_fewer_rows() -> None:
    """DETR: 1,050 tokens in 64 KiB of sums. Sixteen rows are refused, with what they lack; twice the memory holds them; strips
    of fewer rows than the array's side fit."""
    machine = load_accelerator("gemmini-transformer")
    assert (machine.dim, machine.accumulator_kib) == (16, 64)
    chain = ProductChain(
        Layer(Problem(P=1050, C=64, K=1050, groups=8), scale=0.01, weights_transposed=True),
        Layer(Problem(P=1050, C=1050, K=64, groups=8), scale=0.01),
        softmax=True,
    )
    whole = ChainSchedule(16, 1050, "group", (1, 1, 1))
    with pytest.raises(InfeasibleError, match="takes 1120 rows of the accumulator, 96 more than its 1024"):
        place_chain(chain, whole, machine.replace(scratchpad_kib=1024))
    large = machine.replace(accumulator_kib=128, scratchpad_kib=1024)
    assert place_chain(chain, whole, large).accumulator_rows <= large.accumulator_rows
    assert 0 < choose_chain(chain, machine.replace(scratchpad_kib=1024)).rows < 16


def product_of(name: str, weight: str, output: str, columns: int) -> Contraction:
    m, k, n = (variable(one) for one in "mkn")
    return Contraction(
        {"m": 512, "k": 768, "n": columns},
        Access(output, (m, n)),
        (Access("X", (m, k)), Access(weight, (k, n))),
        name=name,
    )


def test_queries_keys_and_values_as_one_product_save_two_reads_of_their_input() -> None:
    """Souffle's horizontal transformation: strips of rows stay for all columns, so that each product reads the input once."""

    def words(operator: Contraction) -> dict[str, int]:
        keeps = kept("".join(access.operand for access in operator.accesses))
        columns = operator.extents["n"]
        block = Tile(1, keeps, (Loop("n", columns // 64),), (leaf(operator, m=64, n=64, k=768),))
        return moved(Tile(2, keeps, (Loop("m", 8),), (block,)), [operator])

    apart = [words(product_of(output, weight, output, 768)) for weight, output in ("AQ", "BK", "CV")]
    merged = words(product_of("all", "W", "Y", 3 * 768))
    rows = 512 * 768
    assert sum(one["X"] for one in apart) - merged["X"] == 2 * rows
    assert merged["Y"] == 3 * rows
    assert sum(sum(one.values()) for one in apart) - sum(merged.values()) == 2 * rows


def lstm_words(order: str, pinned: int) -> int:
    """Words of weights that an LSTM of 10 layers, 100 steps and 256 states reads, where `pinned` of the 1,024 columns of a
    layer's gates (512 words each, half for the input and half for the state) stay in the buffer while its steps go by."""
    layer, step, o, i = (variable(dim) for dim in ("l", "t", "o", "i"))

    def gates(columns: int, name: str) -> Contraction:
        return Contraction(
            {"l": 10, "t": 100, "o": columns, "i": 512},
            Access(f"G{name}", (layer, step, o)),
            (Access(f"W{name}", (layer, o, i)), Access(f"X{name}", (layer, step, i))),
            name=name,
        )

    def words(columns: int, name: str, held: str) -> int:
        operator = gates(columns, name)
        work = Tile(0, (), (Loop("o", columns), Loop("i", 512)), operator=name)
        block = Tile(1, tuple(Residency(f"{letter}{name}") for letter in held), (), (work,))
        tree = Tile(2, tuple(Residency(f"{letter}{name}") for letter in "GWX"), steps, (block,))
        return moved(tree, [operator])[f"W{name}"]

    steps = tuple(Loop(dim, 10 if dim == "l" else 100) for dim in order)
    stay = words(pinned, "a", "GWX") if pinned else 0
    return stay + (words(1024 - pinned, "b", "GX") if pinned < 1024 else 0)


def test_weights_of_an_lstm_by_the_order_of_its_steps() -> None:
    """Souffle's example: 5,242,880 words of weights, of which a layer's are 512 Ki. A cyclic scan through a first-in-first-out
    buffer never hits, so columns are pinned: all that fit beside the vectors of a step; others stream to the array."""
    weights = 10 * 1024 * 512
    assert weights == 5_242_880
    by_step = lstm_words("tl", 1024)
    assert by_step == lstm_words("lt", 0) == 100 * weights, "nothing stays from layer to layer, or is pinned"

    def ratio(buffer_kib: int) -> float:
        room = buffer_kib * 1024 - 512  # input and state of the step
        return by_step / lstm_words("lt", min(1024, room // 512))

    assert ratio(1024) == 100
    assert ratio(513) == 100
    assert 90 < ratio(512) < 92
    assert 1.9 < ratio(256) < 2.1, "half of the weights come again at every step"
