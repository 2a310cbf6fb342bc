"""Tensor operators of networks: as layers in place, copied, in several calls, or on the host."""

from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator, Features
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.images import MaxPool
from baco.compiler.ops.products import Convolution, Pool
from baco.compiler.ops.views import View, dense
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.seeds import seeds


def words(s: Sketch, n: int) -> View:
    return s.value((n,), "constant", s.random.integers(-3000, 3000, n, dtype=np.int32))


def convolution(s: Sketch, **fixed: Any) -> None:
    random = s.random
    n = int(random.integers(1, 3))
    kernel, stride, dilation = ([int(x) for x in random.integers(1, most, 2)] for most in (4, 3, 3))
    if random.random() < 0.7:  # the macro has one of each
        kernel, stride, dilation = ([x[0]] * 2 for x in (kernel, stride, dilation))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = [int(random.integers(0, (k + 1) // 2 + 1)) % k for k in reach]
    image = [int(random.integers(max(1, k - p), 12)) for k, p in zip(reach, padding, strict=True)]
    size = tuple((image[i] + 2 * padding[i] - reach[i]) // stride[i] + 1 for i in range(2))
    if min(size) < 1:
        return
    groups = int(random.choice([1, 1, 2, 3]))
    depth, outs = (int(x) for x in random.integers(1, 8, 2))
    if random.random() < 0.2:
        groups, depth, outs = int(random.integers(2, 10)), 1, 1
    pool, stored = None, size
    if random.random() < 0.4:
        window, step = int(random.integers(1, 4)), int(random.integers(1, 4))
        pad = int(random.integers(0, (window + 1) // 2))
        if fixed.get("odd_pools"):
            window += 1
        rest = [(n + 2 * pad - window) // step + 1 for n in size]
        if min(rest) >= 1:
            pool, stored = Pool((window,) * 2, (step,) * 2, (pad,) * 2), (rest[0], rest[1])
    relu = bool(random.integers(2)) or pool is not None
    s.add(
        Convolution, s.either((n, *stored, groups * outs), "output"), input=s.either((n, *image, groups * depth)),
        weight=s.either((*kernel, depth, groups * outs), "constant"),
        bias=words(s, groups * outs) if random.random() < 0.7 else None,
        stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation), size=size, groups=groups, relu=relu,
        scale=float(np.float32(random.uniform(1e-3, 1e-2))), pool=pool,
    )  # fmt: skip


def product(s: Sketch) -> None:
    random = s.random
    m, k, n = (int(x) for x in random.integers(1, 14, 3))
    batch = tuple(int(x) for x in random.integers(1, 4, random.integers(0, 3)))
    role = "constant" if not batch and random.random() < 0.5 else "input"
    left, right = s.either((*batch, m, k)), s.either((*batch, k, n), role)
    if random.random() < 0.3:
        turned = s.value((*batch, n, k), role)
        right = turned.transposed([*range(len(batch)), len(batch) + 1, len(batch)])
    if batch and random.random() < 0.2:
        right = s.value((k, n)).expanded((*batch, k, n))
    s.matmul(
        s.either((*batch, m, n), "output"),
        left,
        right,
        bias=words(s, n) if random.random() < 0.5 else None,
        relu=bool(random.integers(2)),
        scale=float(np.float32(random.uniform(0.001, 0.01))),
    )


def addition(s: Sketch) -> None:
    random = s.random
    shape = tuple(int(x) for x in random.integers(1, 20, random.integers(1, 4)))
    if random.random() < 0.5:  # images with channels last under their names (N, C, H, W)
        left, right, out = (
            s.value((2, 3, 5, 7), role).transposed((0, 3, 1, 2)) for role in ("input", "input", "output")
        )
    else:
        left, right, out = s.either(shape), s.either(shape), s.either(shape, "output")
    scales = {
        name: float(np.float32(random.uniform(-1, 1.5))) for name in ("left_scale", "right_scale", "scale")
    }
    s.add(Addition, out, left=left, right=right, relu=bool(random.integers(2)), **scales)


def on_accelerator(program: NetworkProgram) -> int:
    return sum(step.accelerator for step in program.lowered.steps)


@pytest.mark.parametrize("make", [convolution, product, addition])
def test_random_operators(make: Any) -> None:
    sketch = Sketch(np.random.default_rng(list(make.__name__.encode())))
    for _ in range(16):
        make(sketch)
    assert on_accelerator(check(sketch)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, of=12))
@pytest.mark.parametrize("dim", [4, 8, 16])
def test_many_random_operators(seed: int, dim: int) -> None:
    sketch = Sketch(np.random.default_rng(seed))
    for _ in range(40):
        make = (convolution, product, addition)[int(sketch.random.integers(3))]
        make(sketch)
    check(sketch, Accelerator(name="some", dim=dim, scratchpad_kib=4 * dim, accumulator_kib=2 * dim))


def test_pooling_that_the_accelerator_lacks_is_the_hosts() -> None:
    s = Sketch(np.random.default_rng(1))
    common: dict[str, Any] = {
        "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "size": (8, 8), "groups": 1, "relu": True,
        "scale": 0.004, "bias": None,
    }  # fmt: skip
    for pool, stored in ((Pool((4, 4), (2, 2), (1, 1)), (4, 4)), (Pool((2, 3), (2, 1), (0, 1)), (4, 8))):
        s.add(
            Convolution, s.value((1, *stored, 6), "output"), input=s.value((1, 8, 8, 5)),
            weight=s.value((3, 3, 5, 6), "constant"), pool=pool, **common,
        )  # fmt: skip
    program = check(s)
    functions = [step.function for step in program.lowered.steps]
    assert functions.count("net_max_pool") == 2
    assert on_accelerator(program) == 2


@pytest.mark.parametrize(
    "accelerator", [DIM4, DIM4.replace(dim=8, accumulator_banks=1)], ids=["dim 4", "dim 8"]
)
def test_pooling_on_its_own(accelerator: Accelerator) -> None:
    s = Sketch(np.random.default_rng(10))
    negative = s.value((2, 11, 9, 10))
    positive = s.value((2, 11, 9, 10), "intermediate")
    s.add(
        Addition,
        positive,
        left=negative,
        right=negative,
        left_scale=1.0,
        right_scale=1.0,
        scale=0.6,
        relu=True,
    )
    expected = 1
    for source in (negative, positive):
        for size, stride, padding in (
            (2, 2, 0),
            (3, 2, 0),
            (3, 1, 1),
            (2, 3, 0),
            (1, 2, 0),
            (3, 3, 2),
            (4, 2, 0),
        ):
            counts = [(n + 2 * padding - size) // stride + 1 for n in (11, 9)]
            whole = s.value((2, *counts, 14), "output")
            target = View(whole.value, (2, *counts, 10), whole.strides, 3)
            s.add(MaxPool, target, input=source, kernel=(size,) * 2, stride=(stride,) * 2, padding=(padding,) * 2,
                  dilation=(1, 1))  # fmt: skip
            expected += size <= 3 and (padding == 0 or source is positive)
    assert on_accelerator(check(s, accelerator)) == expected


def test_what_no_schedule_can_compute_is_the_hosts() -> None:
    def refuse(layer: Any) -> Any:
        raise InfeasibleError("not today")

    s = Sketch(np.random.default_rng(2))
    for _ in range(12):
        convolution(s)
        product(s)
    program = check(s, schedule=refuse)
    assert not program.lowered.layers
    assert any("not today" in note for note in program.lowered.notes)


@pytest.mark.parametrize(
    ("dataflow", "features", "able"),
    [
        ("both", {}, 18),
        ("OS", {}, 18),
        ("WS", {"preload_d": False}, 18),
        ("OS", {"preload_d": False}, 18),
        ("WS", {"mvin_scale": False}, 12),
        ("WS", {"accumulator_scale": False}, 6),
        ("WS", {"activations": False}, 9),
        ("WS", {"read_small_width": False}, 0),
    ],
)
def test_additions_without_a_feature(dataflow: str, features: dict[str, bool], able: int) -> None:
    s = Sketch(np.random.default_rng(3))
    for scales in ((1.0, 0.7, 0.8), (1.0, 1.0, 0.5), (1.0, 1.0, 1.0)):
        for relu in (False, True):
            for shape in ((9, 33), (1, 3), (5, 64)):
                fields = dict(zip(("left_scale", "right_scale", "scale"), scales, strict=True))
                left, right = s.value((10, 70)), s.value(shape)
                left = View(left.value, shape, (70, 1))
                s.add(Addition, s.value(shape, "output"), left=left, right=right, relu=relu, **fields)
    program = check(s, DIM4.replace(dataflow=dataflow, features=Features(**features).model_dump()))
    assert on_accelerator(program) == able


def test_matrices_of_a_batch_are_groups_of_one_layer_or_calls() -> None:
    s = Sketch(np.random.default_rng(4))
    heads, batch, rows, width = 3, 2, 5, 8
    views = [s.value((batch, rows, heads, width), role) for role in ("input", "input", "output")]
    q, k, out = (one.transposed((0, 2, 1, 3)) for one in views)
    scores = s.value((batch, heads, rows, rows), "output")
    s.matmul(scores, q, k.transposed((0, 1, 3, 2)), scale=0.003)
    s.matmul(out, scores, k, scale=0.003)
    program = check(s)
    assert [code.layer.problem.groups for code in program.lowered.layers.values()] == [heads, heads]
    assert [code.layer.weights_transposed for code in program.lowered.layers.values()] == [True, False]
    assert on_accelerator(program) == 2 * batch  # nothing was copied
    assert not [step for step in program.lowered.steps if step.function == "net_copy"]


def test_equal_layers_share_a_function() -> None:
    s = Sketch(np.random.default_rng(5))
    x = s.value((6, 8))
    for last in (False, False, True):
        y = s.value((6, 8), "output" if last else "intermediate")
        s.matmul(y, x, s.value((8, 8), "constant"), bias=words(s, 8), relu=True, scale=0.01)
        x = y
    program = check(s)
    assert len(program.lowered.layers) == 1
    assert on_accelerator(program) == 3
    assert program.fences >= 2


def test_the_same_network_gives_the_same_bytes() -> None:
    def program() -> bytes:
        s = Sketch(np.random.default_rng(6))
        for _ in range(4):
            convolution(s)
            product(s)
            addition(s)
        return check(s).program.elf

    assert program() == program()


def test_an_output_may_be_read_and_written_in_parts() -> None:
    s = Sketch(np.random.default_rng(7))
    whole = s.value((4, 12), "output")
    for part in range(3):
        target = View(whole.value, (4, 4), (12, 1), 4 * part)
        s.matmul(target, s.value((4, 9)), s.value((9, 4), "constant"))
    s.matmul(s.value((4, 5), "output"), dense(whole.value, (4, 12)), s.value((12, 5), "constant"))
    assert on_accelerator(check(s)) == 4


def test_the_program_says_what_it_needs() -> None:
    s = Sketch(np.random.default_rng(9))
    for _ in range(3):
        convolution(s)
        addition(s)
    need = check(s).program.requirement
    assert need is not None
    assert need["dim"] == DIM4.dim
    assert 0 < need["scratchpad_rows"] <= DIM4.scratchpad_rows
    assert 0 < need["accumulator_rows"] <= DIM4.accumulator_rows


def test_elements_of_other_widths_are_refused() -> None:
    s = Sketch(np.random.default_rng(9))
    addition(s)
    wide = DIM4.replace(input_bits=32, accumulator_bits=32)
    with pytest.raises(InfeasibleError, match="32-bit"):
        compile_network(s.network(), wide)


def test_data_must_fit() -> None:
    s = Sketch(np.random.default_rng(9))
    x = s.value((3, 4))
    s.add(
        Addition,
        s.value((3, 4), "output"),
        left=x,
        right=x,
        left_scale=1.0,
        right_scale=1.0,
        scale=0.5,
        relu=False,
    )
    with pytest.raises(InputError, match="is an input"):
        compile_network(s.network(), DIM4, data={"y": np.zeros((3, 4), np.int8)})
    with pytest.raises(InputError, match="int8"):
        compile_network(s.network(), DIM4, data={x.value: np.zeros((4, 3), np.int8)})
    with pytest.raises(InputError, match="needs the values"):
        compile_network(s.network(), DIM4, check_layers=True)
    with pytest.raises(InputError, match="has no value"):
        compile_network(s.network(), DIM4, check_layers=True, reference={})


def test_independent_operators_need_no_fence() -> None:
    s = Sketch(np.random.default_rng(8))
    for _ in range(8):
        s.matmul(s.value((5, 6), "output"), s.value((5, 9)), s.value((9, 6), "constant"))
    assert check(s, check_layers=False).fences == 0


@pytest.mark.slow
@pytest.mark.parametrize("check_layers", [True, False])
def test_on_the_rtl(check_layers: bool) -> None:
    s = Sketch(np.random.default_rng(8))
    for _ in range(5):
        convolution(s)
        product(s)
        addition(s)
    for size in (2, 3):
        s.add(MaxPool, s.value((1, 4, 4, 10), "output"), input=s.value((1, 9, 9, 10)), kernel=(size,) * 2,
              stride=(2, 2), padding=(0, 0), dilation=(1, 1))  # fmt: skip
    check(s, engine="rtl", check_layers=check_layers)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("row", "pitch"), [(120, 128), (128, 128), (70, 70), (10, 10)])
def test_rows_of_weights_begin_at_requests(turned: bool, row: int, pitch: int) -> None:
    """Unless that takes more than an eighth of memory more."""
    s = Sketch(np.random.default_rng(row))
    stored = s.value((9, row), "constant")
    weights = stored.transposed((1, 0)) if turned else stored
    depth, columns = weights.shape
    s.matmul(s.value((5, columns), "output"), s.value((5, depth)), weights)
    (code,) = check(s).lowered.layers.values()
    assert code.layer.weights_transposed == turned
    assert code.layer.weight.pitch == pitch
