"""The convolution unroller: its commands against section 8 of the ISA written out, and what they compute."""

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Features
from baco.accel.isa import Command as IsaCommand
from baco.accel.isa import Field, command_type
from tests.accel.legality.rule_interpreter import Legality, Refusal
from tests.accel.loop_conv_layers import KINDS, random_layer
from tests.accel.testbench import BENCHES, RTL, build
from tests.gemmini.config import GemminiConfig
from tests.gemmini.loop_conv import (
    CONFIG,
    MVIN,
    MVIN2,
    MVIN3,
    MVOUT,
    PHASES,
    Command,
    Expander,
    LoopConv,
)
from tests.gemmini.machine import NumpyGemmini
from tests.seeds import seeds, some

FEATURES = {
    "training_convs": "BACO_TRAINING_CONVS",
    "depthwise_convs": "BACO_DEPTHWISE",
    "first_layer": "BACO_FIRST_LAYER",
    "max_pool": "BACO_MAX_POOL",
}
MACHINES = {
    "dim2": GemminiConfig(dim=2, scratchpad_rows=1024, accumulator_rows=512, dma_max_bytes=64),
    "dim4": GemminiConfig(dim=4, scratchpad_rows=1024, accumulator_rows=384, dma_max_bytes=32),
    "dim16": GemminiConfig(dim=16, scratchpad_rows=16384, accumulator_rows=4096, dma_max_bytes=64),
    "dim32": GemminiConfig(dim=32, scratchpad_rows=12288, accumulator_rows=4096, dma_max_bytes=16),
    "featureless": GemminiConfig(
        dim=4,
        scratchpad_rows=1024,
        accumulator_rows=384,
        dma_max_bytes=32,
        training_convs=False,
        depthwise_convs=False,
        first_layer=False,
        max_pool=False,
    ),
}
#: Percentages for offering commands, space of the three classes, readiness of the output.
PACES = [(100, 100, 100, 100, 100), (100, 50, 50, 50, 70), (20, 15, 60, 80, 100), (100, 90, 10, 90, 90)]
FLUSH, COUNTER, OTHER_LOOP = 7, 126, 9


@pytest.fixture(scope="module", params=list(MACHINES.values()), ids=list(MACHINES))
def unroller(request: pytest.FixtureRequest) -> tuple[GemminiConfig, Path]:
    machine: GemminiConfig = request.param
    parameters = {
        "DIM": machine.dim,
        "SP_ROWS": machine.scratchpad_rows,
        "ACC_ROWS": machine.accumulator_rows,
        "DMA_MAX_BYTES": machine.dma_max_bytes,
    }
    defines = ["BACO_READ_SMALL", *(macro for name, macro in FEATURES.items() if getattr(machine, name))]
    sources = sorted(RTL.glob("baco_loop_conv*.v"))
    return machine, build(sources, "baco_loop_conv", parameters, defines, BENCHES / "loop_conv_bench.cpp")


def _output(
    bench: Path, folder: Path, commands: list[Command], seed: int, pace: tuple[int, ...]
) -> list[list[str]]:
    """The words of the bench's lines, the last one included."""
    path = folder / "commands"
    path.write_text("".join(f"{funct:x} {rs1:x} {rs2:x}\n" for funct, rs1, rs2 in commands))
    arguments = [str(bench), str(path), str(seed), *map(str, pace)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0, lines[-1]
    return lines


def _commands(lines: list[list[str]]) -> list[Command]:
    return [(int(funct, 16), int(rs1, 16), int(rs2, 16)) for _, funct, rs1, rs2, _ in lines]


def _emitted(
    bench: Path, folder: Path, commands: list[Command], seed: int, pace: tuple[int, ...]
) -> list[Command]:
    lines = _output(bench, folder, commands, seed, pace)
    assert lines[-1][0] == "end", lines[-1]
    return _commands(lines[:-1])


class Rules:
    """The rules, with everything configured as the next loop wants it."""

    def __init__(self, machine: GemminiConfig) -> None:
        self.machine = machine
        features = dict.fromkeys(Features.model_fields, 1)
        features |= {
            "training_convs": int(machine.training_convs),
            "depthwise_convs": int(machine.depthwise_convs),
        }
        features |= {"first_layer": int(machine.first_layer), "max_pool": int(machine.max_pool)}
        rows = {"SCRATCHPAD_ROWS": machine.scratchpad_rows, "ACCUMULATOR_ROWS": machine.accumulator_rows}
        self.legality = Legality({"DIM": machine.dim, "WS": 1, "OS": 1, **rows, **features})
        self.legality.state |= {"ex_configured": 1, "weight_stationary": 1, "st_configured": 1}

    def refusal(self, commands: list[Command]) -> Refusal | None:
        """Why a loop, given by its commands, is illegal; a legal one is remembered."""
        *configuration, run = commands
        for command in configuration:
            assert self.legality.check(IsaCommand(*command)) is None
        state, (_, rs1, rs2) = self.legality.state, run
        stride = state["conv_stride"]
        assert isinstance(stride, int)
        training = self.machine.training_convs
        state["stride_a"] = stride >> (rs2 >> 1 & 1)
        state["stride_c"] = 1 + (training & rs2 >> 2 & 1)
        state["transpose_a"], state["transpose_b"] = training & rs1 >> 5 & 1, training & rs1 >> 4 & 1
        return self.legality.check(IsaCommand(*run))


def _phase(command: Command) -> str:
    funct, rs1, _ = command
    if funct == CONFIG:
        return {0: "execute", 2: "store"}.get(rs1 & 3) or ("input", "weights", "bias")[rs1 >> 3 & 3]
    if funct in (FLUSH, COUNTER, OTHER_LOOP):
        return "passed"
    return {MVIN3: "bias", MVIN2: "weights", MVIN: "input", MVOUT: "store"}.get(funct, "execute")


def _show(command: Command) -> str:
    return "{} {:016x} {:016x}".format(*command)


def _random_loop(machine: GemminiConfig, random: np.random.Generator) -> LoopConv:
    """Any values that a loop of moderate size can have, sensible or not; some of them are illegal."""

    def pick(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    def chance(percent: int) -> bool:
        return pick(0, 99) < percent

    def address() -> int:
        return 0 if chance(15) else pick(1, 1 << 40) if chance(90) else pick(1 << 62, (1 << 63) - 1) * 2

    def wide() -> int:
        return pick(0, 65535) if chance(30) else pick(0, 300)

    dim = machine.dim
    channels = 3 * dim if dim > 8 else 6 * dim
    layout = pick(0, 5)
    dilated, training = chance(25), chance(50)
    krows, kcols = pick(1, 4), pick(1, 4)
    orows, ocols = pick(1, 5), pick(1, 2 * dim + 3) if chance(50) else pick(1, 6)
    stride, kdil = pick(1, 3), pick(1, 3)
    # padding leaves at least one row and column
    rows = orows * stride + krows + (kdil - 1) * (krows - 1) - 2
    cols = ocols * stride + kcols + (kdil - 1) * (kcols - 1) - 2
    upad, lpad = (pick(0, min(n, 3 if chance(80) else dim + 2)) if chance(60) else 0 for n in (rows, cols))
    dpad, rpad = (pick(0, min(n, 4)) if chance(60) else 0 for n in (rows - upad, cols - lpad))
    names = ["batch_size", "in_row_dim", "in_col_dim", "in_channels", "out_channels", "out_row_dim"]
    names += ["out_col_dim", "pool_out_row_dim", "kernel_dim", "in_stride", "weight_stride", "out_stride"]
    loop = LoopConv(
        **{name: wide() for name in names},
        stride=stride,
        padding=pick(0, 255),
        kernel_dilation=kdil,
        pool_size=pick(1, 3),
        pool_stride=pick(1, 3),
        porows=pick(1, 255),
        pocols=pick(1, 255),
        pool_out_col_dim=pick(0, 255),
        pool_padding=pick(0, 255),
        batches=pick(1, 3) if chance(70) else pick(1, 2 * dim + 1),
        pochs=pick(1, channels) if chance(60) else pick(1, dim),
        krows=krows,
        kcols=kcols,
        kchs=pick(1, channels) if chance(60) else pick(1, dim),
        lpad=lpad,
        rpad=rpad,
        upad=upad,
        dpad=dpad,
        plpad=pick(0, 3),
        prpad=pick(0, 65535),
        pupad=pick(0, 3),
        pdpad=pick(0, 2047),
        orows=orows,
        ocols=ocols,
        weights=address(),
        output=address(),
        bias=address(),
        input=address(),
        no_bias=chance(20),
        wrot180=training and chance(40),
        trans_output_1203=training and chance(40),
        trans_weight_1203=layout == 0,
        trans_weight_0132=layout in (1, 2),
        trans_input_3120=training and chance(40),
        dw=layout == 3,
        no_pool=chance(70),
        downsample=chance(20),
        input_dilated=dilated,
        activation=pick(0, 1),
        a_spad_id=pick(0, 2),
        b_spad_id=pick(0, 2),
        max_pixels_per_row=pick(0, 4) if chance(30) else 1,
    )
    blocks = -(-loop.kchs // dim) * -(-loop.pochs // dim)
    small = loop.batches * orows * ocols * krows * kcols * blocks < 4000
    return loop if small else _random_loop(machine, random)


def _legal_loops(rules: Rules, count: int, random: np.random.Generator) -> list[LoopConv]:
    loops: list[LoopConv] = []
    while len(loops) < count:
        loop = _random_loop(rules.machine, random)
        if rules.refusal(loop.commands()) is None:
            loops.append(loop)
    return loops


@pytest.mark.parametrize("count", some(1, [12, 30]))
@pytest.mark.parametrize("pace", range(len(PACES)))
def test_commands(unroller: tuple[GemminiConfig, Path], pace: int, count: int, tmp_path: Path) -> None:
    """Loops back to back, now and then another command between them: exactly the commands of the expansion."""
    machine, bench = unroller
    random = np.random.default_rng(1000 * machine.dim + 10 * pace + machine.max_pool)
    loops = _legal_loops(Rules(machine), count, random)
    offered: list[Command] = []
    expander = Expander(machine)
    # What has to have been emitted when another command passes: everything before it, nothing after it.
    sections: list[tuple[list[dict[str, list[Command]]], Command | None]] = [([], None)]
    for loop in loops:
        if random.integers(4) == 0:
            rs1, rs2 = (int(word) for word in random.integers(0, 1 << 62, 2))
            passing = (int(random.choice([FLUSH, COUNTER, OTHER_LOOP])), rs1, rs2)
            offered.append(passing)
            sections[-1] = (sections[-1][0], passing)
            sections.append(([], None))
        configuration = loop.commands()
        order = random.permutation(6)  # the configuration commands come in any order
        offered += [configuration[i] for i in order] + configuration[6:]
        sections[-1][0].append(expander.expand(loop))

    emitted = iter(_emitted(bench, tmp_path, offered, pace, PACES[pace]))
    for expansions, other in sections:
        count = sum(len(expansion[phase]) for expansion in expansions for phase in PHASES)
        got: dict[str, list[Command]] = {phase: [] for phase in (*PHASES, "passed")}
        for _ in range(count):
            command = next(emitted)
            got[_phase(command)].append(command)
        assert not got["passed"]
        for expansion in expansions:
            for phase in PHASES:
                expected = expansion[phase]
                mine, got[phase] = got[phase][: len(expected)], got[phase][len(expected) :]
                if phase in ("bias", "store"):  # here the order is free, but not of configuration
                    assert Counter(map(_show, mine)) == Counter(map(_show, expected))
                    ends = [i for i, command in enumerate(expected) if command[0] == CONFIG]
                    assert [mine[i] for i in ends] == [expected[i] for i in ends]
                else:
                    assert list(map(_show, mine)) == list(map(_show, expected))
        if other is not None:
            assert next(emitted) == other
    assert next(emitted, None) is None


def _damaged(loop: LoopConv, machine: GemminiConfig, random: np.random.Generator) -> list[Command]:
    """The commands of a loop with one or two fields that are zero, a limit, or anything, or with one command less."""
    commands = [IsaCommand(*command) for command in loop.commands()]
    half, acc_half = machine.scratchpad_rows // 2, machine.accumulator_rows // 2
    for _ in range(int(random.integers(1, 3))):
        index = int(random.integers(len(commands)))
        command = commands[index]
        fields: tuple[Field, ...] = command_type(command.funct).fields
        field = fields[int(random.integers(len(fields)))]
        old = field.extract(command)
        limits = [0, 1, 2, 3, 4, old + 1, old - 1, 2 * old, machine.dim, half, acc_half, 255, 256, field.mask]
        value = int(random.choice(limits)) & field.mask
        register = getattr(command, field.register) & ~(field.mask << field.low) | value << field.low
        commands[index] = command._replace(**{field.register: register})
    if random.integers(8) == 0:
        del commands[int(random.integers(6))]
    return [tuple(command) for command in commands]


@pytest.mark.parametrize("part", seeds(1, of=4))
def test_illegal_loops_are_refused(unroller: tuple[GemminiConfig, Path], part: int, tmp_path: Path) -> None:
    """The run command leaves with the error that the rules say, when the loops before it have left whole."""
    machine, bench = unroller
    random = np.random.default_rng(100 * machine.dim + 10 * part + machine.max_pool)
    codes: Counter[int] = Counter()
    while codes.total() < 40:
        rules, expander = Rules(machine), Expander(machine)
        loops = _legal_loops(rules, int(random.integers(3)), random)
        offered = [command for loop in loops for command in loop.commands()]
        bad = _damaged(_random_loop(machine, random), machine, random)
        refusal = rules.refusal(bad)
        if refusal is None:
            continue
        codes[refusal.error.code] += 1
        lines = _output(bench, tmp_path, offered + bad, codes.total(), PACES[codes.total() % len(PACES)])
        run = IsaCommand(*bad[-1])
        expected = ["error", str(refusal.error.code), f"{run.rs1 & 0xFFFFF:x}", f"{run.rs2 & 0x1F:x}"]
        assert lines[-1] == expected, refusal
        emitted = Counter(_commands(lines[:-1]))
        for loop in loops:
            expansion = expander.expand(loop)
            emitted.subtract([command for phase in PHASES for command in expansion[phase]])
        assert min(emitted.values(), default=0) >= 0, "a command of a legal loop is missing"
        on_trial = Counter(_commands([line for line in lines[:-1] if line[4] == "1"]))
        assert all(count <= on_trial[command] for command, count in emitted.items())
    assert len(codes) >= 2, codes


def _run(machine: GemminiConfig, memory: np.ndarray, commands: list[Command]) -> np.ndarray:
    """Memory after commands one after the other; local memories start with junk, so that what was never loaded shows."""
    gemmini, random = NumpyGemmini(machine, memory.copy(), base=0), np.random.default_rng(7)
    gemmini.ex.ws = True
    gemmini.sp[:] = random.integers(-128, 128, gemmini.sp.shape)
    gemmini.acc[:] = random.integers(-(1 << 20), 1 << 20, gemmini.acc.shape)
    for command in commands:
        gemmini.execute(*command)
    return gemmini.memory


@pytest.mark.parametrize("trial", seeds(1, of=3))
@pytest.mark.parametrize("kind", KINDS)
def test_layers(unroller: tuple[GemminiConfig, Path], kind: str, trial: int, tmp_path: Path) -> None:
    """Whole layers, tiled: the expansion computes what numpy does, and so do the commands as they come out.

    The latter come interleaved from several phases and two loops, so their order must respect every hazard.
    """
    machine, bench = unroller
    number = KINDS.index(kind)
    layer = random_layer(
        machine, kind if machine.max_pool else "plain", np.random.default_rng([number, machine.dim, trial])
    )
    expander = Expander(machine)
    commands = list(layer.setup)
    for loop in layer.loops:
        expansion = expander.expand(loop)
        commands += [command for phase in PHASES for command in expansion[phase]]
    expected = layer.memory.copy()
    raw = layer.expected.view(np.uint8).ravel()
    expected[layer.output : layer.output + raw.size] = raw
    np.testing.assert_array_equal(_run(machine, layer.memory, commands), expected)

    offered = [command for loop in layer.loops for command in loop.commands()]
    emitted = layer.setup + _emitted(bench, tmp_path, offered, trial, PACES[(number + trial) % len(PACES)])
    assert Counter(emitted) == Counter(commands)
    np.testing.assert_array_equal(_run(machine, layer.memory, emitted), expected)


def test_reused_half_waits(unroller: tuple[GemminiConfig, Path], tmp_path: Path) -> None:
    """Two loops whose loads go to the same rows: the second's leave after the first's multiplications.

    So do biases in the same half of the accumulator, which the first loop keeps as it stores nothing.
    """
    machine, bench = unroller
    dim = machine.dim
    first = LoopConv(
        orows=4,
        ocols=2 * dim,
        pochs=dim,
        kchs=dim,
        krows=2,
        kcols=2,
        kernel_dim=2,
        weights=1 << 20,
        input=2 << 20,
        bias=3 << 20,
        a_spad_id=1,
        b_spad_id=2,
    )
    second = replace(first, weights=4 << 20, input=5 << 20, bias=6 << 20, output=7 << 20)
    offered = first.commands() + second.commands()
    emitted = _emitted(bench, tmp_path, offered, 1, PACES[0])
    computes = [i for i, command in enumerate(emitted) if command[0] in (4, 5)]
    last = computes[len(computes) // 2 - 1]
    for funct, base in ((MVIN2, 4 << 20), (MVIN, 5 << 20), (MVIN3, 6 << 20)):
        assert (
            min(i for i, command in enumerate(emitted) if command[0] == funct and command[1] >= base) > last
        )
