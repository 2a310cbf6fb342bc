"""`baco.compile` and `baco.run`: layers, networks and launches of kernels as programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from baco.api.argument_types import check_seed, checked
from baco.api.layers import schedule_for
from baco.api.network_unit import (
    NetworkRequest,
    NetworkUnit,
    network_macs,
    predicted_cycles,
    prepare_network,
)
from baco.api.sources import AcceleratorSource, NetworkSource, with_timing
from baco.api.sources import accelerator as load_accelerator
from baco.api.unit import Unit, check_run, launch_unit, layer_unit, lower_unit, run_unit
from baco.common.errors import InputError
from baco.common.shown import Shown, shown_html
from baco.common.units import si, tally
from baco.compiler.layers.layer import Layer
from baco.compiler.network.tensor_program import TensorProgram

if TYPE_CHECKING:
    import pandas as pd

    from baco.accel.config import Accelerator
    from baco.compiler.codegen.program import Program
    from baco.compiler.language.jit import BoundLaunch
    from baco.compiler.network.agreement import Agreement
    from baco.compiler.network.program import NetworkProgram
    from baco.sim.job import Simulation
    from baco.sim.network.run import NetworkRun

__all__ = ["Compiled", "ProgramSource", "Run", "compile", "run"]

#: A layer (`baco.gemm`, `baco.conv`), a tensor expression (`baco.expression`), a network, or a launch of a kernel, bound to its arguments.
ProgramSource: TypeAlias = Union[Layer, TensorProgram, "BoundLaunch", NetworkSource]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class Compiled(Shown):
    """A program for one accelerator, with the data that it runs on.

    Attributes:
        name: of the layer, network or kernel.
        elf: the file's bytes; any RV64 simulator with a Gemmini runs them.
        accelerator: what it was compiled for.
        predicted_cycles: that it will take; None for kernels, of which nothing is predicted.
        macs: multiply-accumulates it asks for; None for kernels.
        needs: least hardware that it runs on, by name; None where that is not known.
        schedule: how a layer is carried out, as text, or which iterations of an expression share one of the array's; None for
            anything else.
    """

    name: str
    elf: bytes = field(repr=False)
    accelerator: Accelerator = field(repr=False)
    predicted_cycles: float | None
    macs: int | None
    needs: Mapping[str, int] | None
    schedule: str | None
    _unit: Unit | NetworkUnit = field(repr=False)
    _built: Program | NetworkProgram = field(repr=False)

    def _headline(self) -> str:
        guess = "" if self.predicted_cycles is None else f", {self.predicted_cycles:,.0f} cycles predicted"
        macs = "" if self.macs is None else f", {tally(self.macs, 'MACs')}"
        return f"{self.name} for {self.accelerator.name}: {len(self.elf):,} bytes{macs}{guess}"

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "accelerator", f"{self.accelerator.name}, {self.accelerator.config_hash}"
        yield "schedule", self.schedule
        yield "needs", ", ".join(f"{name} {value:,}" for name, value in (self.needs or {}).items()) or None
        use = self.predicted_utilisation
        yield "predicted utilisation", None if use is None else f"{use:.1%}"

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        return ("report",), [(line,) for line in self.report]

    @property
    def predicted_utilisation(self) -> float | None:
        """macs / (predicted cycles × dim²)."""
        if not self.predicted_cycles or not self.macs:
            return None
        return self.macs / (self.predicted_cycles * self.accelerator.dim**2)

    @property
    def report(self) -> list[str]:
        """What the program consists of, in lines; of a network: every layer with its schedule."""
        if isinstance(self._unit, NetworkUnit):
            return list(self._built.report())  # type: ignore[union-attr]
        return [] if self.schedule is None else [f"{self.name}: {self.schedule}"]

    @checked()
    def save(self, path: str | Path) -> Path:
        """Write the ELF file. Raises StorageError when that fails."""
        from baco.common.files import atomic_write

        atomic_write(Path(path), self.elf)
        return Path(path)

    @checked()
    def run(
        self,
        engine: str = "functional",
        *,
        timing: str | None = None,
        log: str | Path | None = None,
        report: Callable[[str], None] | None = None,
    ) -> Run:
        """Simulate the program and compare its results with integers, element by element.

        Args:
            engine: `functional` (results), `rtl` (the accelerator's Verilog, cycle by cycle), `timed` (its cycles by a model of
                its units), or `gemmini-model` (those of a model of the original Gemmini in a Rocket system).
            timing: whose cycles are counted: `baco` (the Verilog's) or `gemmini` (the original's: with it, `rtl` stands for
                `gemmini-model`); by default what the accelerator says.
            log: file for a log of every command, `.csv`.
            report: told how building a simulator goes on, the first time.

        Raises SimulationError for a program that had to be stopped, InputError for an unknown engine.
        """
        from baco.compiler.codegen.program import Program
        from baco.sim.energy import energy_uj

        path = None if log is None else Path(log)
        check_run(self.accelerator, engine, timing=timing, log=path)
        unit, built, operators, near = self._unit, self._built, None, None
        if isinstance(unit, NetworkUnit):
            assert not isinstance(built, Program)  # what a network's unit was compiled to
            found, outputs, wrong, near = unit.run(built, engine, timing=timing, log=path, report=report)
            simulation, operators = found.result, _operators(found)
        else:
            assert isinstance(built, Program)
            expected = {one.name: one.expected for one in unit.buffers or () if one.expected is not None}
            arrays, simulation, wrong = run_unit(
                built, expected, engine, timing=timing, log=path, report=report
            )
            outputs = {name: arrays[name] for name in expected}
        return Run(
            self.name,
            simulation.engine,
            self.predicted_cycles,
            outputs,
            tuple(outputs),
            wrong,
            simulation,
            operators,
            energy_uj(simulation, self.accelerator),
            near,
        )


@dataclass(frozen=True)
class Run:
    """One simulation of a program.

    Attributes:
        name: of the program.
        engine: what simulated it; `gemmini-model` is a model of the original Gemmini, no RTL.
        predicted_cycles: as of the program.
        outputs: what was computed, by name.
        compared: names of what was compared with integers, or with the interpretation of a kernel.
        wrong: differences, in words; none when all is right.
        simulation: everything that was counted (`baco.sim.job.Simulation`).
        operators: of a network, by operator: what it is, who ran it (`accelerator`, `host` or `both`), cycles, predicted
            cycles, bytes moved; empty without timing.
        energy_uj: of the accelerator and its main memory, from what was counted; None where nothing is.
        agreement: of a network: how near its integers are to the user's model (`baco.compiler.network.agreement.Agreement`): who ran
            that, and of every operator and output signal to noise (dB), cosine, largest error as a part of the range, and
            how much saturated. What rounding does not explain is in `wrong`.
    """

    name: str
    engine: str
    predicted_cycles: float | None
    outputs: Mapping[str, Array] = field(repr=False)
    compared: tuple[str, ...]
    wrong: tuple[str, ...]
    simulation: Simulation = field(repr=False)
    operators: pd.DataFrame | None = field(default=None, repr=False)
    energy_uj: float | None = None
    agreement: Agreement | None = field(default=None, repr=False)

    @property
    def right(self) -> bool:
        """Whether the program ended well and nothing that was compared is wrong."""
        return not self.wrong and self.simulation.exit_code == 0

    @property
    def cycles(self) -> int | None:
        """From reset to the end; None for engines without timing."""
        return self.simulation.cycles

    @property
    def utilisation(self) -> float | None:
        """macs / (cycles × dim²); None without timing."""
        return self.simulation.utilisation

    def _repr_html_(self) -> str:
        facts = (
            (
                "results",
                "right" if self.right else "WRONG: " + ("; ".join(self.wrong) or "the program's exit code"),
            ),
            ("compared", ", ".join(self.compared) or "nothing"),
            (
                "outputs",
                ", ".join(f"{name} {'×'.join(map(str, one.shape))}" for name, one in self.outputs.items()),
            ),
            ("predicted", None if self.predicted_cycles is None else f"{self.predicted_cycles:,.0f} cycles"),
            ("energy", None if self.energy_uj is None else si(self.energy_uj * 1e-6, "J")),
        )
        columns: list[str] = [] if self.operators is None else list(self.operators.columns)
        rows = [] if self.operators is None else self.operators.to_numpy().tolist()
        return shown_html(f"Run of {self.name}", (*facts, *self.simulation._facts()), columns, rows)

    def __repr__(self) -> str:
        guess = "" if self.predicted_cycles is None else f", {self.predicted_cycles:,.0f} predicted"
        verdict = (
            "right"
            if self.right
            else f"WRONG: {'; '.join(self.wrong) or f'exit code {self.simulation.exit_code}'}"
        )
        near = self.agreement
        warning = None if near is None else near.warning()
        words = [f"{self.simulation!r}{guess}", verdict, *(near.summary() if near else ()), warning]
        return f"<Run {self.name}: {', '.join(word for word in words if word)}>"


@checked()
def compile(
    source: ProgramSource,
    accelerator: AcceleratorSource | None = None,
    *,
    style: str = "auto",
    mapping: str | None = None,
    baseline: bool = False,
    inputs: Mapping[str, Array] | None = None,
    data: Mapping[str, Array] | str | Path | None = None,
    layers: int | None = None,
    scales: str = "float",
    seed: int = 0,
    check: bool = False,
    mappings: str = "study",
    fusion: bool | None = None,
    timing: str | None = None,
) -> Compiled:
    """A program that computes a layer, a tensor expression, a whole network in int8, or a launch of a kernel.

    Args:
        source: `baco.gemm(...)` or `baco.conv(...)`; `baco.expression(...)`; a network as `baco.network` takes it; or `kernel[grid].bind(...)`.
        accelerator: see `baco.accelerator`; by default `gemmini-default`, or what the launch is for.
        style: of a layer: `auto` (the fastest by estimate), `explicit` or `macro`.
        mapping: of a layer: loops to carry it out by, as text. Of an expression: which iterations share one of the array's, as
            `m=n,p,q n=k k=c`.
        baseline: Gemmini's default tiling.
        inputs: of a network, by name, in real numbers; random ones otherwise. Ranges of activations are taken from them,
            unless there is `data`.
        data: of a network: what ranges are taken from, arrays by input with the input's shape, or samples along a first axis
            before it; or a .npz file of them. The first sample is what inputs hold that are not given.
        layers: of a network: run repeated blocks only so many times.
        scales: of a network's quantisation: `float` or `power-of-two`.
        seed: of random contents.
        check: the program compares its results itself, and exits with 1 where they differ.
        mappings: of a network, where `accelerator` is a design, a result or a study's folder: `study` takes the design's
            mappings for the layers that they are best for, and the compiler's own for the others; `compiler` its own for all.
        fusion: of a network: operators run as one unit where that is predicted to pay, by moves that the original Gemmini lacks; None: in
            programs for designs of a study, and where the accelerator has units for functions of rows, which it lacks, too.
        timing: whose cycles are predicted, and decide how the program is made: `baco` (our Verilog's) or `gemmini` (the original
            Gemmini's in a Rocket system); by default what the accelerator says.

    Raises InputError for what is malformed or does not go together, InfeasibleError where the accelerator cannot do it.
    """
    from baco.compiler.language.jit import BoundLaunch

    check_seed(seed)
    of_layers = {"style": style != "auto", "mapping": mapping is not None}
    of_networks = {
        "inputs": inputs is not None,
        "data": data is not None,
        "layers": layers is not None,
        "scales": scales != "float",
    }
    of_networks |= {"mappings": mappings != "study", "fusion": fusion is not None}
    if isinstance(source, Layer):
        _refuse(of_networks, "a network")
        machine = _machine(source, accelerator, timing)
        schedule = schedule_for(source, machine, style=style, mapping=mapping, baseline=baseline)
        return _compiled(layer_unit(source, schedule, machine, seed=seed), machine, check)
    if isinstance(source, TensorProgram):
        _refuse({**of_networks, "baseline": baseline, "style": style != "auto"}, "a layer or a network")
        machine = _machine(source, accelerator, timing)
        return _compiled_expression(source, machine, mapping, seed, check)
    _refuse(of_layers, "a layer")
    if isinstance(source, BoundLaunch):
        _refuse({**of_networks, "baseline": baseline}, "a network")
        machine = _machine(source, accelerator, timing)
        return _compiled(launch_unit(source), machine, check)
    request = NetworkRequest.on(
        "gemmini-default" if accelerator is None else accelerator,
        mappings,
        source,
        layers=layers,
        scales=scales,
        seed=seed,
        baseline=baseline,
        fusion=fusion,
        inputs=inputs or {},
        data=Path(data) if isinstance(data, str) else data,
        compare=True,
    )
    if timing is not None:
        request = replace(request, accelerator=with_timing(request.accelerator, timing))
    return _compiled_network(request, check)


@checked()
def run(
    source: ProgramSource,
    accelerator: AcceleratorSource | None = None,
    *,
    engine: str = "functional",
    **options: Any,
) -> Run:
    """Compile, simulate, and compare every element of the results with integers (of kernels: with their interpretation).

    Args:
        source, accelerator, options: as for `baco.compile`.
        engine: as for `Compiled.run`.

    Raises as `compile` and `Compiled.run` do, before compiling where the engine cannot run it. Wrong results are no error: see
    `Run.right`.
    """
    from baco.sim.engines.base import timing_of

    timing = timing_of(engine, options.pop("timing", None))
    machine = _machine(source, accelerator, None)
    check_run(machine, engine, timing=timing)
    return compile(source, accelerator, timing=timing, **options).run(engine)


def _machine(source: ProgramSource, accelerator: AcceleratorSource | None, timing: str | None) -> Accelerator:
    """What a program is for."""
    from baco.compiler.language.jit import BoundLaunch

    if accelerator is None and isinstance(source, BoundLaunch):
        machine = source.options.machine()
    else:
        machine = load_accelerator("gemmini-default" if accelerator is None else accelerator)
    return machine if timing is None else with_timing(machine, timing)


def _refuse(given: Mapping[str, bool], owner: str) -> None:
    for name, wanted in given.items():
        if wanted:
            raise InputError(f"`{name}` goes with {owner}")


def _compiled(unit: Unit, accelerator: Accelerator, check: bool) -> Compiled:
    program = lower_unit(unit, accelerator, check=check)
    return Compiled(
        unit.name,
        program.elf,
        accelerator,
        unit.predicted_cycles,
        unit.macs,
        program.requirement,
        None if unit.schedule is None else str(unit.schedule),
        unit,
        program,
    )


def _compiled_network(request: NetworkRequest, check: bool) -> Compiled:
    unit = prepare_network(request)
    built = unit.compile(check=check)
    return Compiled(
        unit.network.name,
        built.program.elf,
        request.accelerator,
        predicted_cycles(built),
        network_macs(built),
        built.program.requirement,
        None,
        unit,
        built,
    )


def _compiled_expression(
    source: TensorProgram, machine: Accelerator, mapping: str | None, seed: int, check: bool
) -> Compiled:
    from baco.api.expressions import expression_unit

    unit, matching = expression_unit(source, machine, mapping, seed)
    built = unit.compile(check=check)
    return Compiled(
        source.name,
        built.program.elf,
        machine,
        predicted_cycles(built),
        source.contraction.macs,
        built.program.requirement,
        matching,
        unit,
        built,
    )


def _operators(run: NetworkRun) -> pd.DataFrame:
    import pandas as pd

    columns = ("operator", "what", "on", "cycles", "predicted", "dram_bytes")
    rows = [{name: getattr(one, name) for name in columns} for one in run.operators]
    return pd.DataFrame(rows, columns=list(columns))
