"""LSTM, GRU and RNN, written out step by step; their products run on the array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError
from baco.workloads.onnx.pointwise import activated

#: Steps and directions that are written out.
_MOST_STEPS = 2048


@dataclass
class _Cell:
    """One direction of a recurrent operator.

    Attributes:
        inputs: of the gates, (steps, N, gates * hidden), products with the input and all biases that can be added at once.
        weights: of the state, (hidden, gates * hidden); bias: its own one of the last gate of a GRU, or None.
        functions: activations.
        peepholes: three names of (hidden) or None.
    """

    inputs: str
    weights: str
    bias: list[str] | None
    functions: list[Callable[[str], str]]
    peepholes: list[str] | None


def lstm(e: Expansion) -> None:
    """Gates input, output, forget, cell."""
    _recurrent(e, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step)


def gru(e: Expansion) -> None:
    """Gates update, reset, hidden."""
    _recurrent(e, 3, ["Sigmoid", "Tanh"], _gru_step)


def rnn(e: Expansion) -> None:
    """One gate."""
    _recurrent(e, 1, ["Tanh"], _rnn_step)


def _gate(e: Expansion, x: str, number: int, hidden: int) -> str:
    return e.slice(x, 1, number * hidden, (number + 1) * hidden)


def _lstm_step(e: Expansion, cell: _Cell, x: str, state: list[str], hidden: int) -> list[str]:
    f, g, h = cell.functions
    gates = e.add("Add", x, e.add("MatMul", state[0], cell.weights))
    i, o, forget, c = (_gate(e, gates, n, hidden) for n in range(4))
    coupled = bool(e.attribute("input_forget", 0))
    if cell.peepholes is not None:
        i = e.add("Add", i, e.add("Mul", state[1], cell.peepholes[0]))
        forget = e.add("Add", forget, e.add("Mul", state[1], cell.peepholes[2]))
    i = f(i)
    forget = e.add("Sub", e.constant(1.0), i) if coupled else f(forget)
    new = e.add("Add", e.add("Mul", forget, state[1]), e.add("Mul", i, g(c)))
    if cell.peepholes is not None:
        o = e.add("Add", o, e.add("Mul", new, cell.peepholes[1]))
    return [e.add("Mul", f(o), h(new)), new]


def _gru_step(e: Expansion, cell: _Cell, x: str, state: list[str], hidden: int) -> list[str]:
    f, g = cell.functions
    before = e.attribute("linear_before_reset", 0)
    gates = e.add("MatMul", state[0], e.slice(cell.weights, 1, 0, 2 * hidden))
    first = f(e.add("Add", _part(e, x, 0, 2 * hidden), gates))
    z, r = (_gate(e, first, n, hidden) for n in range(2))
    last = e.slice(cell.weights, 1, 2 * hidden, 3 * hidden)
    if before:
        inner = e.add("MatMul", state[0], last)
        if cell.bias is not None:
            inner = e.add("Add", inner, cell.bias[0])
        inner = e.add("Mul", r, inner)
    else:
        inner = e.add("MatMul", e.add("Mul", r, state[0]), last)
    new = g(e.add("Add", _part(e, x, 2 * hidden, 3 * hidden), inner))
    # (1 - z) * new + z * state
    return [e.add("Add", new, e.add("Mul", z, e.add("Sub", state[0], new)))]


def _part(e: Expansion, x: str, start: int, stop: int) -> str:
    return e.slice(x, 1, start, stop)


def _rnn_step(e: Expansion, cell: _Cell, x: str, state: list[str], hidden: int) -> list[str]:
    return [cell.functions[0](e.add("Add", x, e.add("MatMul", state[0], cell.weights)))]


_Step = Callable[[Expansion, _Cell, str, list[str], int], list[str]]


def _recurrent(e: Expansion, gates: int, activations: list[str], step: _Step) -> None:
    layout = e.attribute("layout", 0)
    shape = e.shape(0)
    steps, batch = (shape[1], shape[0]) if layout else (shape[0], shape[1])
    directions = e.shape(2)[0]
    hidden = e.shape(2)[2]
    e.attribute("hidden_size", hidden)
    direction = e.attribute("direction", "forward")
    if steps * directions > _MOST_STEPS:
        raise RefusedError(
            f"{steps} steps are more than the {_MOST_STEPS // directions} that are written out"
        )
    clip = e.attribute("clip", None)
    lengths = [steps] * batch
    if e.has(4):
        lengths = [int(n) for n in e.value(4, "sequence_lens").reshape(-1)]
    x = e.add("Transpose", e.input(0), perm=[1, 0, 2]) if layout else e.input(0)
    functions = _functions(e, activations, directions, clip)
    states = 2 if gates == 4 else 1
    rows: list[list[str]] = []
    ends: list[list[str]] = []
    for number in range(directions):
        cell = _cell(e, x, number, gates, hidden, functions[number], (steps, batch, shape[2]))
        state = [_initial(e, 5 + k, number, batch, hidden, bool(layout)) for k in range(states)]
        backward = direction == "reverse" or number == 1
        outputs, last = _run(e, cell, step, state, hidden, lengths, steps, backward)
        rows.append(outputs)
        ends.append(last)
    _finish(e, rows, ends, bool(layout), (batch, hidden))


def _functions(
    e: Expansion, defaults: list[str], directions: int, clip: float | None
) -> list[list[Callable[[str], str]]]:
    """Activations of every direction, each with clipping in front."""
    names = e.attribute("activations", None) or defaults * directions
    alphas, betas = list(e.attribute("activation_alpha", [])), list(e.attribute("activation_beta", []))
    names = [n.decode() if isinstance(n, bytes) else n for n in names]
    if len(names) != len(defaults) * directions:
        raise RefusedError(f"{len(names)} activations")
    found: list[Callable[[str], str]] = []
    for name in names:
        kind = name[:1].upper() + name[1:].lower()
        known = {"leakyrelu": "LeakyRelu", "hardsigmoid": "HardSigmoid", "thresholdedrelu": "ThresholdedRelu"}
        kind = known.get(name.lower(), kind)
        parameters = []
        if kind in ("LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid", "Affine", "ScaledTanh") and alphas:
            parameters.append(float(alphas.pop(0)))
            if kind in ("HardSigmoid", "Affine", "ScaledTanh") and betas:
                parameters.append(float(betas.pop(0)))

        def function(x: str, kind: str = kind, parameters: list[float] = parameters) -> str:
            if clip:
                x = e.add("Clip", x, e.constant(-float(clip)), e.constant(float(clip)))
            if kind == "Affine":
                a, b = parameters if len(parameters) == 2 else (1.0, 0.0)
                return str(e.add("Add", e.add("Mul", x, e.constant(a)), e.constant(b)))
            if kind == "ScaledTanh":
                a, b = parameters if len(parameters) == 2 else (1.0, 1.0)
                return str(e.add("Mul", e.add("Tanh", e.add("Mul", x, e.constant(b))), e.constant(a)))
            operator, attributes, further = activated(e, kind, parameters)
            return str(e.add(operator, x, *further, **attributes))

        found.append(function)
    size = len(defaults)
    return [found[i * size : (i + 1) * size] for i in range(directions)]


def _cell(
    e: Expansion,
    x: str,
    number: int,
    gates: int,
    hidden: int,
    functions: list[Callable[[str], str]],
    shape: tuple[int, int, int],
) -> _Cell:
    steps, batch, size = shape

    def own(index: int, extents: list[int]) -> str:
        """Part of a stored tensor that belongs to this direction."""
        part = e.slice(e.input(index), 0, number, number + 1)
        return e.reshape(part, extents)

    wide = gates * hidden
    weights = e.add("Transpose", own(1, [wide, size]), perm=[1, 0])
    recurrent = e.add("Transpose", own(2, [wide, hidden]), perm=[1, 0])
    flat = e.reshape(x, (steps * batch, size))
    product = e.add("MatMul", flat, weights)
    bias = None
    if e.has(3):
        both = own(3, [2 * wide])
        first, second = e.slice(both, 0, 0, wide), e.slice(both, 0, wide, 2 * wide)
        if gates == 3 and e.attribute("linear_before_reset", 0):
            bias = [e.slice(second, 0, 2 * hidden, wide)]
            zeros = e.constant(np.zeros(hidden, np.float32))
            second = e.add("Concat", e.slice(second, 0, 0, 2 * hidden), zeros, axis=0)
        product = e.add("Add", product, e.add("Add", first, second))
    inputs = e.reshape(product, (steps, batch, wide))
    peepholes = None
    if gates == 4 and e.has(7):
        all_three = own(7, [3 * hidden])
        peepholes = [e.slice(all_three, 0, k * hidden, (k + 1) * hidden) for k in range(3)]
    return _Cell(inputs, recurrent, bias, functions, peepholes)


def _initial(e: Expansion, index: int, number: int, batch: int, hidden: int, first: bool) -> str:
    if not e.has(index):
        return e.constant(np.zeros((batch, hidden), np.float32))
    return e.reshape(e.slice(e.input(index), 1 if first else 0, number, number + 1), (batch, hidden))


def _run(
    e: Expansion,
    cell: _Cell,
    step: _Step,
    state: list[str],
    hidden: int,
    lengths: list[int],
    steps: int,
    backward: bool,
) -> tuple[list[str], list[str]]:
    """(output of every step by its place in time, last states); steps beyond a row's length leave its state as it is."""
    outputs = [""] * steps
    zeros = ""
    for count in range(steps):
        at = steps - 1 - count if backward else count
        x = e.reshape(e.slice(cell.inputs, 0, at, at + 1), (len(lengths), -1))
        new = step(e, cell, x, state, hidden)
        alive = np.array([[at < length] for length in lengths])
        if alive.all():
            state, outputs[at] = new, new[0]
            continue
        zeros = zeros or e.constant(np.zeros((len(lengths), hidden), np.float32))
        if not alive.any():
            outputs[at] = zeros
            continue
        mask = e.constant(alive, "bool")
        state = [e.add("Where", mask, n, s) for n, s in zip(new, state, strict=True)]
        outputs[at] = e.add("Where", mask, new[0], zeros)
    return outputs, state


def _finish(
    e: Expansion, rows: list[list[str]], ends: list[list[str]], first: bool, sizes: tuple[int, int]
) -> None:
    batch, hidden = sizes
    if e.wants(0):
        parts = []
        for at in range(len(rows[0])):
            own = [e.reshape(outputs[at], (1, 1, batch, hidden)) for outputs in rows]
            parts.append(own[0] if len(own) == 1 else e.add("Concat", *own, axis=1))
        joined = parts[0] if len(parts) == 1 else e.add("Concat", *parts, axis=0)
        if first:
            e.finish("Transpose", joined, perm=[2, 0, 1, 3])
        else:
            e.finish("Identity", joined)
    for number in range(len(ends[0])):
        if e.wants(1 + number):
            own = [e.reshape(state[number], (1, batch, hidden)) for state in ends]
            joined = own[0] if len(own) == 1 else e.add("Concat", *own, axis=0)
            if first:
                e.finish("Transpose", joined, output=1 + number, perm=[1, 0, 2])
            else:
                e.finish("Identity", joined, output=1 + number)
