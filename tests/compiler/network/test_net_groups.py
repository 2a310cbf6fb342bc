"""Chains of products in networks: what is found, what runs as one unit, and what its program computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.network.chain_choice import chain_scheduler
from compiler.network.chains import chains_of
from compiler.network.graph import MatMul, Softmax
from compiler.network.plan import Plan
from compiler.network.prediction import predict_steps
from compiler.network.program import compile_network, scheduler
from compiler.network.row_code import RowCode
from compiler.network.row_functions import exponentials, softmax_numerator
from compiler.network.views import View
from compiler.styles.fused.chain import ChainSchedule, ProductChain
from compiler.styles.fused.predict import choose_chain
from tests.compiler.network.net_sketch import DIM4, Sketch, check

UNITS4 = DIM4.replace(
    name="small-transformer", scratchpad_kib=16, accumulator_kib=16, features={"row_functions": True}
)
UNITS16 = UNITS4.replace(dim=16, scratchpad_kib=64, accumulator_kib=64)


def heads(value: View, rows: int, count: int, size: int) -> View:
    """Heads of a matrix whose rows have them one behind the other."""
    return View(value.value, (1, count, rows, size), (0, size, count * size, 1))


def attention(
    s: Sketch,
    rows: int = 24,
    keys: int = 20,
    count: int = 3,
    size: int = 8,
    *,
    causal: bool = False,
    softmax: bool = True,
) -> Sketch:
    """Scores, softmax and values of some heads."""
    query, key, value = (s.value((n, count * size)) for n in (rows, keys, keys))
    scores = s.value((1, count, rows, keys), "intermediate")
    turned = heads(key, keys, count, size).transposed((0, 1, 3, 2))
    s.add(
        MatMul, scores, left=heads(query, rows, count, size), right=turned, bias=None, relu=False, scale=0.003
    )
    between = scores
    if softmax:
        mask = None
        if causal:
            known = (np.arange(keys) < 2 + np.arange(rows)[:, None]).astype(np.int8)
            mask = s.value((rows, keys), "constant", known).expanded((1, count, rows, keys))
        between = s.value((1, count, rows, keys), "intermediate")
        s.add(
            Softmax, between, input=scores, table=s.value((256,), "constant", exponentials(0.05)),
            numerator=softmax_numerator(1 / 127), mask=mask,
        )  # fmt: skip
    result = s.value((rows, count * size), "output")
    s.add(
        MatMul, heads(result, rows, count, size), left=between, right=heads(value, keys, count, size), bias=None,
        relu=False, scale=0.01,
    )  # fmt: skip
    return s


def always(chain: ProductChain, between: RowCode | None) -> ChainSchedule:
    """One unit, whether it pays or not."""
    return choose_chain(chain, UNITS4)


def sketch(seed: int = 0) -> Sketch:
    return Sketch(np.random.default_rng(seed))


@pytest.mark.parametrize("engine", ["functional", "rtl"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_one_unit(engine: str, causal: bool) -> None:
    s = attention(sketch(), causal=causal)
    program = check(s, UNITS4, engine, schedule=scheduler(UNITS4), chains=always)
    assert [one for one in program.lowered.steps if one.function == "chain_0"]
    assert not program.lowered.rows
    (code,) = program.lowered.chains.values()
    assert (code.chain.groups, code.chain.softmax, code.chain.causal) == (3, True, 2 if causal else None)
    assert program.lowered.reasons["operator 0"] == "on chip, in one unit with operator 2"
    assert all("scores" not in name for name in program.memory.offsets)
    (cost,) = predict_steps(program.lowered, UNITS4)[:1]
    assert cost.cycles > 3 * 24 * 20 * 16 / 16


def test_without_fusion_operators_run_one_by_one() -> None:
    s = attention(sketch())
    program = check(s, UNITS4, schedule=scheduler(UNITS4))
    assert not program.lowered.chains
    assert len(program.lowered.layers) == 2


def test_a_plan_gives_the_same_program() -> None:
    network = attention(sketch()).network()
    first = compile_network(network, UNITS4, schedule=scheduler(UNITS4), chains=always)
    plan = Plan.of("sketch", UNITS4, 0, first.lowered)
    assert len(plan.chains) == 1
    again = Plan.from_json(plan.to_json())
    second = compile_network(network, UNITS4, schedule=again, chains=again.chain)
    assert second.program.elf == first.program.elf


def test_what_somebody_else_reads_is_no_chain() -> None:
    s = attention(sketch(), softmax=False)
    assert len(chains_of(s.network())) == 1
    scores = s.operators[0].output
    s.add(
        MatMul, s.value((1, 3, 24, 4), "output"), left=scores, right=s.value((1, 3, 20, 4)), bias=None, relu=False,
        scale=0.01,
    )  # fmt: skip
    assert chains_of(s.network()) == []
    check(s, UNITS4)


def test_a_chain_pays_where_it_is_predicted_to() -> None:
    schedule = scheduler(UNITS4)
    chosen = chain_scheduler(UNITS4, schedule)
    asked = []
    compile_network(
        attention(sketch(), rows=64, keys=64).network(),
        UNITS4,
        schedule=schedule,
        chains=lambda chain, between: asked.append((chain, between)) or chosen(chain, between),  # type: ignore[func-returns-value]
    )
    ((chain, between),) = asked
    assert between is not None
    wide = ProductChain(
        replace(chain.first, problem=replace(chain.first.problem, P=512), image=(1, 512)),
        replace(chain.second, problem=replace(chain.second.problem, P=512), image=(1, 512)),
        softmax=True,
    )
    assert chain_scheduler(UNITS16, scheduler(UNITS16))(wide, between) is not None
    # rows that the accumulator does not hold
    large = UNITS4.replace(accumulator_kib=1)
    assert chain_scheduler(large, scheduler(large))(chain, between) is None
