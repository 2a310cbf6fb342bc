"""Memory plans and fences of network programs, against brute force over steps and bytes."""

import numpy as np
import pytest

from baco.compiler.network.fences import StepAccess, fences
from baco.compiler.network.image import constant_image
from baco.compiler.network.memory_plan import ALIGN, Lifetime, plan_memory
from baco.compiler.ops.nests import nest_of
from tests.seeds import seeds


def lifetimes(random: np.random.Generator) -> list[Lifetime]:
    found: list[Lifetime] = []
    for n in range(int(random.integers(1, 30))):
        first = int(random.integers(0, 20))
        size = int(random.choice([64, 100, 1000, 5000]))
        ends_here = [one for one in found if one.over == (first + 1,) and one.nbytes == size]
        shares = (
            str(random.choice([one.name for one in ends_here]))
            if ends_here and random.random() < 0.7
            else None
        )
        found.append(Lifetime(f"v{n}", size, (first,), (first + int(random.integers(1, 7)),), shares))
    return found


@pytest.mark.parametrize("seed", seeds(8, of=60))
def test_values_that_live_together_do_not_overlap(seed: int) -> None:
    values = lifetimes(np.random.default_rng(seed))
    plan = plan_memory(values)
    assert set(plan.offsets) == {value.name for value in values}
    assert all(offset % ALIGN == 0 for offset in plan.offsets.values())
    by_name = {value.name: value for value in values}
    for step in range(30):
        owner: dict[int, str] = {}
        live = 0
        for value in values:
            if not value.done[0] <= step < value.over[0]:
                continue
            shared = False
            for byte in range(plan.offsets[value.name], plan.offsets[value.name] + value.nbytes):
                other = owner.setdefault(byte, value.name)
                if other != value.name:
                    a, b = by_name[other], value
                    # only a value that takes the place of another one in its last step
                    assert (step + 1,) in (a.over, b.over)
                    assert (step,) in (a.done, b.done)
                    assert plan.offsets[other] == plan.offsets[value.name]
                    shared = True
            live += 0 if shared else -(-value.nbytes // ALIGN) * ALIGN
        assert plan.live_bytes is not None
        assert live <= plan.live_bytes <= plan.nbytes
    assert plan.nbytes <= sum(-(-value.nbytes // ALIGN) * ALIGN for value in values)


def test_a_value_in_place_of_another_takes_no_memory() -> None:
    chain = [
        Lifetime("a", 640, (0,), (2,)),
        Lifetime("b", 640, (1,), (3,), "a"),
        Lifetime("c", 640, (2,), (4,), "b"),
    ]
    plan = plan_memory(chain)
    assert plan.nbytes == 640
    assert len(set(plan.offsets.values())) == 1
    # not while the other one is still needed
    longer = [Lifetime("a", 640, (0,), (3,)), *chain[1:]]
    assert plan_memory(longer).nbytes == 1280
    # but part by part, and by one value alone
    parts = [Lifetime("a", 640, (0,), (4,)), Lifetime("b", 640, (1,), (5,), "a", by_parts=True)]
    assert plan_memory(parts).nbytes == 640
    assert plan_memory([*parts, Lifetime("c", 640, (4,), (6,), "b")]).nbytes == 640
    assert plan_memory([*parts, Lifetime("c", 640, (2,), (5,), "a", by_parts=True)]).nbytes == 1280


def accesses(random: np.random.Generator) -> list[StepAccess]:
    def spans() -> list[tuple[int, int]]:
        starts = random.integers(0, 40, random.integers(0, 3))
        return [(int(start), int(start + random.integers(1, 12))) for start in starts]

    kinds = [(True, False), (False, True), (True, True)]
    return [
        StepAccess(spans(), spans(), *kinds[int(random.integers(3))])
        for _ in range(int(random.integers(1, 25)))
    ]


def covered(spans: list[tuple[int, int]]) -> set[int]:
    return {byte for start, stop in spans for byte in range(start, stop)}


@pytest.mark.parametrize("seed", seeds(8, of=100))
def test_fences_stand_exactly_where_bytes_depend(seed: int) -> None:
    steps = accesses(np.random.default_rng(seed))
    begin = 0
    expected = []
    for number, step in enumerate(steps):
        reads, writes = covered(list(step.reads)), covered(list(step.writes))
        wait = False
        for other in steps[begin:number]:
            if not (other.accelerator or step.accelerator):
                continue  # the host's own accesses are in order
            before_reads, before_writes = covered(list(other.reads)), covered(list(other.writes))
            wait |= bool(before_writes & (reads | writes) or before_reads & writes)
        begin = number if wait else begin
        expected.append(wait)
    assert fences(steps) == expected


def test_equal_constants_are_stored_once() -> None:
    constants = {
        "a": np.arange(5, dtype=np.int32), "b": np.arange(3, dtype=np.int8), "c": np.arange(5, dtype=np.int32),
        "unused": np.ones(9, np.int8),
    }  # fmt: skip
    image, offsets = constant_image(constants, ["a", "b", "c"])
    assert offsets == {"a": 0, "b": 64, "c": 0}
    assert image[64:67].tolist() == [0, 1, 2]
    assert image[:20].view("<i4").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("seed", seeds(5, of=30))
def test_loops_visit_every_element_once(seed: int, in_order: bool) -> None:
    random = np.random.default_rng(seed)
    shape = tuple(int(n) for n in random.integers(1, 5, random.integers(0, 5)))
    strides = []
    for _ in range(2):
        order = random.permutation(len(shape))
        steps, step = [0] * len(shape), 1
        for d in order:
            steps[d], step = step, step * shape[d]
        strides.append(tuple(steps))
    nest = nest_of(shape, strides, in_order=in_order)
    assert 1 not in nest.shape

    def places(sizes: tuple[int, ...], steps: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(int(np.dot(at, one)) for one in steps) for at in np.ndindex(*sizes)]

    visited, wanted = places(nest.shape, list(nest.strides)), places(shape, strides)
    assert (visited if in_order else sorted(visited)) == (wanted if in_order else sorted(wanted))
    if not in_order:
        assert [at[1] for at in visited] == sorted(at[1] for at in visited)
