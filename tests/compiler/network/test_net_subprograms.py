"""Reuse and subprograms of whole networks: against brute force on random graphs, and a published count."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.compiler.mapping.contraction import iteration_grid
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.subprograms import NetworkAnalysis, Subprogram
from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Map, Multiplication
from baco.compiler.ops.lookup import Embedding
from baco.compiler.ops.products import Convolution
from baco.compiler.ops.rows import Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import exponentials, softmax_numerator
from baco.exploration.cost.program_rest import sketches
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_sketch import Sketch
from tests.seeds import seeds

TINY = Accelerator(name="tiny", dim=4, scratchpad_kib=1, accumulator_kib=1)


def random_graph(seed: int, operators: int = 9) -> Sketch:
    """Products, softmaxes, additions and tables of values of one shape, some transposed or cut; some values are never read."""
    random = np.random.default_rng(seed)
    s = Sketch(random)
    size = int(random.choice([8, 12, 20, 36]))
    known = [s.value((size, size)) for _ in range(2)]
    for number in range(operators):
        left, right = (known[int(at)] for at in random.integers(max(0, len(known) - 4), len(known), 2))
        if random.random() < 0.3:
            left = left.transposed((1, 0))
        result = s.value((size, size), "output" if number == operators - 1 else "intermediate")
        kind = int(random.integers(4))
        if kind == 0:
            if random.random() < 0.5:
                right = s.value((size, size), "constant")
            s.matmul(result, left, right, scale=0.01)
        elif kind == 1:
            table = s.value((256,), "constant", exponentials(0.05))
            s.add(Softmax, result, input=left, table=table, numerator=softmax_numerator(1 / 127))
        elif kind == 2:
            s.add(Multiplication, result, left=left, right=right, rescale=FixedPoint(1 << 10, 16))
        else:
            s.map(result, left, s.value((256,), "constant"))
        known.append(result)
    return s


def edges(network: QuantisedNetwork) -> set[tuple[int, int]]:
    """Who reads an element that somebody wrote, element by element."""
    found = set()
    writer = {name: np.full(value.shape, -1) for name, value in network.values.items()}
    for number, op in enumerate(network.operators):
        for view in op.inputs:
            found |= {(int(one), number) for one in np.unique(view.read(writer[view.value])) if one >= 0}
        op.output.write(writer[op.output.value], np.full(op.output.shape, number))
    return found


def paths(pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """All pairs with a way from one to the other."""
    found = set(pairs)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


@pytest.mark.parametrize("seed", seeds(3, of=25))
def test_reuse_is_what_brute_force_finds(seed: int) -> None:
    network = random_graph(seed).network()
    analysis = NetworkAnalysis(network)
    assert {(one.writer, one.reader) for one in analysis.edges} == edges(network)
    ways = paths(edges(network))
    found = {one.value: one for one in analysis.reuse}
    for name in network.values:
        tables = {op.table.value for op in network.operators if isinstance(op, Map | Softmax) and op.table}
        readers = [n for n, op in enumerate(network.operators) if any(v.value == name for v in op.inputs)]
        if len(readers) < 2 or name in tables:
            assert name not in found
            continue
        kinds = {(a, b) in ways for a, b in itertools.combinations(readers, 2)}
        kind = "both" if len(kinds) == 2 else "temporal" if True in kinds else "spatial"
        words = int(np.prod(network.values[name].shape))
        assert (found[name].kind, found[name].readers) == (kind, tuple(readers))
        views = sum(len({v for v in network.operators[n].inputs if v.value == name}) for n in readers)
        assert found[name].nbytes == (views - 1) * words


def test_parts_of_a_value_are_reused_apart() -> None:
    s = Sketch(np.random.default_rng(0))
    whole = s.value((4, 12))
    for first in (0, 4, 8, 4):
        s.map(s.value((4, 4), "output"), whole.sliced((0, first), (4, 4), (1, 1)), None)
    (one,) = NetworkAnalysis(s.network()).reuse
    assert (one.readers, one.kind, one.nbytes) == ((1, 3), "spatial", 16)


# ---------------------------------------------------------------- subprograms


def touched(
    analysis: NetworkAnalysis, reader: int, operand: Any, block: tuple[int, ...]
) -> set[tuple[int, ...]]:
    """Indices in the writer's output that the first block of a reader's results needs, by walking its iterations."""
    one = analysis.operators[reader]
    at = iteration_grid(one.extents)
    shape = tuple(one.extents.values())
    mine = np.ones(shape, bool)
    for index, extent in zip(one.output.indices, block, strict=True):
        mine &= np.broadcast_to(index.evaluate(at), shape) < extent
    place = operand.view.offset + sum(
        np.broadcast_to(index.evaluate(at), shape) * stride
        for index, stride in zip(operand.access.indices, operand.view.strides, strict=True)
    )
    numbers = np.unique(place[mine])
    (writer,) = {edge.writer for edge in analysis.edges if edge.operand is operand}
    strides = analysis.operators[writer].operator.output.strides
    found = set()
    for number in numbers.tolist():
        index = []
        for stride in strides:
            step, number = divmod(number, stride)
            index.append(step)
        found.add(tuple(index))
    return found


@pytest.mark.parametrize("seed", seeds(3, of=25))
def test_subprograms_are_legal_fit_and_leave_out_only_what_does_not(seed: int) -> None:
    network = random_graph(seed).network()
    analysis = NetworkAnalysis(network)
    pairs = edges(network)
    parts = analysis.subprograms(TINY)
    assert sorted(n for part in parts for n in part.operators) == list(range(len(network.operators)))
    of = {n: at for at, part in enumerate(parts) for n in part.operators}
    assert all(of[a] <= of[b] for a, b in pairs), "each may only read what those before it wrote"
    for part in parts:
        assert part.fits or len(part.operators) == 1
        inside = set(part.operators)
        blocks = analysis.blocks(part.operators, TINY.dim)
        for edge in analysis.edges:
            if {edge.reader, edge.writer} <= inside:
                reached = touched(analysis, edge.reader, edge.operand, blocks[edge.reader])
                box = [1 + max(line) - min(line) for line in zip(*reached, strict=True)]
                assert all(a <= b for a, b in zip(box, blocks[edge.writer], strict=True))
        # what a block keeps while each operator runs: results that are read later, or by it
        for n in part.operators:
            live = [
                m for m in part.operators
                if m <= n and any(a == m and b in inside and (b >= n) for a, b in pairs)
            ]  # fmt: skip
            kept = sum(int(np.prod(blocks[m])) for m in live)
            assert kept <= part.scratchpad_bytes <= TINY.scratchpad_kib * 1024 or not part.fits
        # main memory: all that comes from outside or goes there, once
        views = {v for n in part.operators for v in analysis.network.operators[n].inputs if v.shape != (256,)}
        written = {network.operators[n].output.value for n in part.operators}
        assert part.read_bytes == sum(v.words for v in views if v.value not in written)
        out = [
            n for n in part.operators
            if network.values[network.operators[n].output.value].role == "output"
            or not any(a == n and b in inside for a, b in pairs) or any(a == n and b not in inside for a, b in pairs)
        ]  # fmt: skip
        assert part.written_bytes == sum(network.operators[n].output.words for n in out)
    # whoever begins a subprogram could join none of those that read its results, as these were at its turn
    for part in parts:
        begins = max(part.operators)
        for at in {of[b] for a, b in pairs if a == begins and of[b] != of[a]}:
            then = [m for m in parts[at].operators if m > begins]
            need = analysis.need([begins, *then], TINY)
            too_large = need[0] > TINY.scratchpad_kib * 1024 or need[1] > TINY.accumulator_kib * 1024
            group = {m: -1 if m == begins or m in then else of[m] for m in range(begins, len(of))}
            later = paths({(group[a], group[b]) for a, b in pairs if a >= begins and group[a] != group[b]})
            assert too_large or (-1, -1) in later


def attention(tokens: int) -> Sketch:
    s = Sketch(np.random.default_rng(0))
    query, key, value = (s.value((8, tokens, 64)) for _ in range(3))
    scores, weights = (s.value((8, tokens, tokens), "intermediate") for _ in range(2))
    s.matmul(scores, query, key.transposed((0, 2, 1)), scale=0.01)
    table = s.value((256,), "constant", exponentials(0.05))
    s.add(Softmax, weights, input=scores, table=table, numerator=softmax_numerator(1 / 127))
    s.matmul(s.value((8, tokens, 64), "output"), weights, value, scale=0.01)
    return s


@pytest.mark.parametrize(("tokens", "programs"), [(197, 1), (1024, 1), (1050, 2)])
def test_rows_that_the_accumulator_does_not_hold_end_a_subprogram(tokens: int, programs: int) -> None:
    """16 rows of sums of 1,050 tokens are more than 64 KiB: scores leave before their softmax."""
    parts = NetworkAnalysis(attention(tokens).network()).subprograms(load_accelerator("gemmini-transformer"))
    assert len(parts) == programs
    words = 8 * tokens * 64
    assert sum(part.read_bytes + part.written_bytes for part in parts) == 4 * words + (
        2 * 8 * tokens**2 if programs == 2 else 0
    )


def test_rows_of_an_image_stay_with_their_neighbours() -> None:
    """Two 3x3 convolutions: a row of the last one's results needs three of the first one's, and the columns beside."""
    s = Sketch(np.random.default_rng(0))
    image = s.value((1, 16, 20, 8))
    for role in ("intermediate", "output"):
        result = s.value((1, 16, 20, 8), role)
        s.add(
            Convolution, result, input=image, weight=s.value((3, 3, 8, 8), "constant"), bias=None, stride=(1, 1),
            padding=(1, 1), dilation=(1, 1), size=(16, 20), groups=1, relu=True, scale=0.01, pool=None,
        )  # fmt: skip
        image = result
    analysis = NetworkAnalysis(s.network())
    assert analysis.blocks([0, 1], 4) == {0: (1, 3, 20, 8), 1: (1, 1, 20, 8)}
    (part,) = analysis.subprograms(TINY)
    assert part.scratchpad_bytes == 3 * 20 * 8 + 2 * (2 * 4 * 4)
    assert part.read_bytes == 16 * 20 * 8 + 2 * 9 * 64
    assert part.written_bytes == 16 * 20 * 8


def test_layers_of_bert_are_two_subprograms_each() -> None:
    """As published: 24 kernels for the 12 layers."""
    (_, one), (_, two) = sketches(load_network("bert_base:seq=384"))
    machine = load_accelerator("gemmini-transformer")

    def layers(network: QuantisedNetwork) -> list[Subprogram]:
        analysis = NetworkAnalysis(network)
        return [
            part
            for part in analysis.subprograms(machine)
            if analysis.operators[part.operators[0]].operator.name.startswith("encoder.")
        ]

    assert len(layers(one)) == 2
    assert 12 * (len(layers(two)) - len(layers(one))) == 24


def test_what_an_embedding_reads_is_cut_off() -> None:
    s = Sketch(np.random.default_rng(0))
    found = s.value((3, 4), "intermediate")
    indices = s.value((3,), "input", np.array([0, 2, 1], dtype=np.int32))
    s.add(Embedding, found, indices=indices, table=s.value((5, 4), "constant"))
    s.map(s.value((3, 4), "output"), View(found.value, (3, 4), dense("", (3, 4)).strides), None)
    first, second = NetworkAnalysis(s.network()).subprograms(TINY)
    assert (first.operators, second.operators) == ((0,), (1,))
    assert (first.read_bytes, first.written_bytes) == (
        3 * 4 + 3 * 4,
        3 * 4,
    )  # indices, and the rows that they name
