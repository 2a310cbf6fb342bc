"""Groups of operators of a graph: the best division against all divisions."""

import itertools
import random
from collections.abc import Iterator

import pytest

from baco.compiler.network.partition import best_partition

Groups = dict[frozenset[int], float]


def divisions(groups: list[frozenset[int]]) -> Iterator[list[frozenset[int]]]:
    """All sets of groups that share no operator."""
    for count in range(len(groups) + 1):
        for chosen in itertools.combinations(groups, count):
            inside = [one for group in chosen for one in group]
            if len(inside) == len(set(inside)):
                yield list(chosen)


def runs(needs: list[set[int]], groups: list[frozenset[int]]) -> bool:
    """Whether groups and single operators can run one after the other: the graph between them has no cycle."""
    unit = {op: group for group in groups for op in group}
    units = [*groups, *(frozenset((op,)) for op in range(len(needs)) if op not in unit)]
    done: set[int] = set()
    while units:
        ready = [
            members
            for members in units
            if all(need in done or need in members for op in members for need in needs[op])
        ]
        if not ready:
            return False
        done |= ready[0]
        units.remove(ready[0])
    return True


def graph(drawn: random.Random, size: int) -> list[set[int]]:
    return [{one for one in range(at) if drawn.random() < 0.35} for at in range(size)]


def connected(drawn: random.Random, needs: list[set[int]]) -> frozenset[int]:
    """A random connected part of the graph."""
    found = {drawn.randrange(len(needs))}
    for _ in range(drawn.randint(0, 3)):
        near = {need for one in found for need in needs[one]}
        near |= {one for one in range(len(needs)) if needs[one] & found}
        found.add(drawn.choice(sorted(near - found) or sorted(found)))
    return frozenset(found)


def test_the_best_division_is_that_of_brute_force() -> None:
    cyclic = several = 0
    for seed in range(220):
        drawn = random.Random(seed)
        needs = graph(drawn, drawn.randint(1, 10))
        gains: Groups = {connected(drawn, needs): float(drawn.randint(-3, 20)) for _ in range(9)}
        found = best_partition(needs, gains)
        options = [division for division in divisions(list(gains)) if runs(needs, division)]
        cyclic += sum(not runs(needs, division) for division in divisions(list(gains)))
        assert runs(needs, found)
        assert sum(gains[group] for group in found) == max(
            sum(gains[group] for group in option) for option in options
        )
        several += len(found) > 1
    assert cyclic > 500, "many divisions cannot run"
    assert several > 100


def test_a_group_around_an_operator_that_it_needs_cannot_run() -> None:
    """0 -> 1 -> 2 and 0 -> 2: without 1, the two others are no unit; nor are two groups that need each other."""
    assert best_partition([set(), {0}, {0, 1}], {frozenset((0, 2)): 5.0}) == []
    assert best_partition([set(), {0}, {0, 1}], {frozenset((0, 1, 2)): 5.0}) == [frozenset((0, 1, 2))]
    crossed: list[set[int]] = [set(), set(), {0}, {1}]
    gains = {frozenset((0, 3)): 3.0, frozenset((1, 2)): 4.0}
    assert best_partition(crossed, gains) == [frozenset((1, 2))]


def test_groups_run_in_order() -> None:
    needs: list[set[int]] = [set(), set(), {1}, {0}, {2, 3}]
    gains = {frozenset((0, 3)): 1.0, frozenset((1, 2)): 1.0}
    assert set(best_partition(needs, gains)) == set(gains)


@pytest.mark.parametrize("length", [200, 2000])
def test_long_rows_take_no_time_to_speak_of(length: int) -> None:
    needs = [{at - 1} if at else set[int]() for at in range(length)]
    gains = {frozenset(range(at, at + 3)): 1.0 + at % 3 for at in range(length - 3)}
    found = best_partition(needs, gains)
    assert sum(gains[one] for one in found) == sum(3.0 for at in range(length - 3) if at % 3 == 2)


def test_attention_has_four_states_and_the_published_costs_their_best() -> None:
    """M1 -> softmax -> M2: costs as intended by the source, in which a softmax is free behind M1 and M2 reads it either way."""
    needs: list[set[int]] = [set(), {0}, {1}]
    groups = [frozenset((0, 1)), frozenset((1, 2)), frozenset((0, 1, 2))]
    states = [one for one in divisions(groups) if runs(needs, one)]
    assert len(states) == 4
    heads, tokens, width = 12, 197, 64
    whole, rows = tokens * width, tokens * tokens
    one_by_one = heads * (4 * whole + 4 * rows)
    moved = {
        frozenset((0, 1)): heads * (4 * whole + 2 * rows),
        frozenset((1, 2)): heads * (4 * whole + 2 * rows) + 1,
    }
    gains = {group: float(one_by_one - cost) for group, cost in moved.items()}
    assert best_partition(needs, gains) == [frozenset((0, 1))]
    gains[frozenset((0, 1, 2))] = float(one_by_one - heads * 4 * whole)
    assert best_partition(needs, gains) == [frozenset((0, 1, 2))]
