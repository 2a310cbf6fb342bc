"""What trees hold is what a walk that allocates and frees blocks holds; what does not fit is named."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS
from baco.common.errors import InfeasibleError
from baco.compiler.mapping.contraction import Access, convolution, matmul
from baco.compiler.mapping.footprint import check_fits, footprint, shortfalls
from baco.compiler.mapping.machine import Level, Machine, machine_of
from baco.compiler.mapping.nest import KEEPS, REGISTER_DIMS, ROW_DIM, Mapping, requirement
from baco.compiler.mapping.tree import Loop, Residency, Tile, tree_of
from baco.workloads.problem import DIMS, Problem
from tests.compiler.mapping.random_trees import draw_fused
from tests.compiler.mapping.slice_walk import Element, Walk
from tests.seeds import seeds

#: Six levels with rows of different widths: bytes, words of 16 and of 32 bits, elements.
LEVELS = (Level("a"), Level("b", word_bits=8, row_words=4), Level("c", word_bits=16, row_words=2))
MACHINE = Machine("six levels", (*LEVELS, *LEVELS), (), {}, ("int8", "int16"), arrays=3)


@pytest.mark.parametrize("part", seeds(2, of=5))
def test_trees_hold_what_a_walk_allocates(part: int) -> None:
    r = random.Random(part)
    for _ in range(30):
        tree, operators = draw_fused(r)
        operators = [
            replace(op, inputs=tuple(replace(a, data_type=r.choice(("int8", "int16"))) for a in op.inputs))
            for op in operators
        ]
        # one tensor, one type
        types = {a.operand: a.data_type for op in operators for a in op.accesses}
        operators = [
            replace(
                op,
                output=replace(op.output, data_type=types[op.output.operand]),
                inputs=tuple(replace(a, data_type=types[a.operand]) for a in op.inputs),
            )
            for op in operators
        ]
        walk = Walk(tree, operators)
        for number, held in enumerate(footprint(tree, operators, MACHINE)):
            level = MACHINE.levels[number]
            bits = level.word_bits

            def words(block: set[Element], access: Access, bits: int | None = bits) -> int:
                return len(block) * (1 if bits is None else -(-access.bits // bits))

            def rows(
                block: set[Element], access: Access, bits: int | None = bits, row: int = level.row_words
            ) -> int:
                each = 1 if bits is None else -(-access.bits // bits)
                first = min(element[-1] for element in block)
                return len(
                    {(*e[:-1], ((e[-1] - first) * each + word) // row) for e in block for word in range(each)}
                )

            for found, cost in ((held.words, words), (held.rows, rows)):
                most = [0]
                walk.hold(tree, walk.start, number, [0], most, cost)
                assert found == most[0]
            assert sum(held.parts.values()) >= held.words


def test_mappings_need_what_the_compiler_says() -> None:
    r = random.Random(5)
    for _ in range(300):
        flow, dim = r.choice(("WS", "OS")), r.choice((2, 4, 16))
        temporal = [[r.choice((1, 1, 2, 3)) for _ in DIMS] for _ in range(4)]
        temporal[0] = [f if d in REGISTER_DIMS[flow] else 1 for d, f in zip(DIMS, temporal[0], strict=True)]
        order = tuple("".join(r.sample(DIMS, 7)) for _ in range(4))
        copies = tuple(r.choice((1, 2)) for _ in range(3))
        mapping = Mapping(flow, dim, dim, tuple(map(tuple, temporal)), order, copies)  # type: ignore[arg-type]
        problem = Problem(*mapping.padded_bounds, r.choice((1, 2)), r.choice((1, 2)), r.choice((1, 3)))
        need = requirement(mapping, problem)
        tight = Accelerator(dim=dim, scratchpad_kib=1, accumulator_kib=1)
        held = footprint(tree_of(mapping), [convolution(problem)], machine_of(tight))
        assert held[1].words == need.accumulator_words
        assert held[2].words == need.scratchpad_words
        assert held[2].rows == need.scratchpad_rows
        for room in (0, 1):
            machine = machine_of(tight)
            scratchpad = replace(machine.levels[2], words=(need.scratchpad_rows - 1 + room) * dim)
            accumulator = replace(machine.levels[1], words=need.accumulator_words - 1 + room)
            machine = replace(machine, levels=(machine.levels[0], accumulator, scratchpad, machine.levels[3]))
            assert len(shortfalls(tree_of(mapping), [convolution(problem)], machine)) == 2 * (1 - room)


def test_dataflows_are_data() -> None:
    """Facts of the published grammar: rows take C or P, registers keep weights or sums."""
    assert {flow: (ROW_DIM[flow], KEEPS[flow][0], "".join(REGISTER_DIMS[flow])) for flow in DATAFLOWS} == {
        "WS": ("C", "W", "PQN"),
        "OS": ("P", "O", "RSC"),
    }


def test_an_accelerator_gives_a_machine() -> None:
    ours = machine_of(Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64))
    assert ours.multipliers == 256
    assert [level.words for level in ours.levels] == [None, 1024, 262144, None]
    assert [level.row_words for level in ours.levels] == [1, 1, 16, 1]
    assert set(ours.dataflows) == {"WS", "OS"}


def test_a_tree_that_does_not_fit_is_told_every_reason() -> None:
    machine = machine_of(Accelerator(dim=4, scratchpad_kib=1, accumulator_kib=1))
    leaves = tuple(
        Tile(1, (Residency(out),), (Loop("m", 8), Loop("n", 40), Loop("k", 8)), operator=name)
        for name, out in (("one", "D"), ("two", "E"))
    )
    one = replace(matmul(64, 40, 8, data_type="int16"), name="one")
    two = replace(one, name="two", output=replace(one.output, operand="E"))
    keeps = tuple(map(Residency, "ABDE"))
    inside = Tile(2, keeps[:2], (Loop("m", 8), Loop("m", 8, spatial=True)), leaves, "Para")
    with pytest.raises(InfeasibleError) as caught:
        check_fits(Tile(3, keeps, (), (inside,)), [one, two], machine)
    message = str(caught.value)
    assert "accumulator: tiles of D, E need 640 words, there are 64" in message
    assert "scratchpad: tiles of A, B need 8832 words" in message
    assert "the array has room for 4 at scratchpad, not for 8" in message
    assert "Para of 2 operators needs as many arrays, custom has 1" in message
    assert "the array multiplies int8, but A is int16" in message
