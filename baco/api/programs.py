"""`baco.compile` and `baco.run`: layers, networks and launches of kernels as programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from baco.api.argument_types import checked
from baco.api.network_unit import NetworkUnit, network_macs, predicted_cycles
from baco.api.program_options import CompileOptions, Prepared, ProgramSource
from baco.api.sources import AcceleratorSource
from baco.api.unit import Observer, Unit, check_run, lower_unit, run_unit, unit_library
from baco.common.errors import InputError
from baco.common.shown import Shown, shown_html
from baco.common.text import one_line
from baco.common.units import si, tally

if TYPE_CHECKING:
    import pandas as pd

    from baco.accel.config import Accelerator
    from baco.compiler.codegen.c_library import CLibrary
    from baco.compiler.codegen.program import Program
    from baco.compiler.network.accuracy import ModelAccuracy
    from baco.compiler.network.agreement import Agreement
    from baco.compiler.network.program import NetworkProgram
    from baco.sim.job import Simulation
    from baco.sim.network.run import NetworkRun

__all__ = ["Compiled", "ProgramSource", "Run", "compile", "compiled", "run"]

_Arguments = ParamSpec("_Arguments")
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
    def save_object(self, path: str | Path) -> tuple[Path, ...]:
        """Write the program as an object that C programs link, FOLDER/NAME.o, and its header, NAME.h, beside it.

        The function `NAME_run` takes a pointer for every array that is not constant; docs/your-own-program.md shows how it is called.

        Raises InputError for a NAME that is no C identifier and for what has no form in C, StorageError where writing fails.
        """
        return self._library(path, ".o").save_object(Path(path).parent)

    @checked()
    def save_c(self, path: str | Path) -> tuple[Path, ...]:
        """Write the same as C, FOLDER/NAME.c: host code and Gemmini's own macros. Beside it come NAME.h, `baco_gemmini.h` with the
        macros, for who has no `gemmini.h`, and constants, NAME_constants.S with NAME_constants.bin, if there are any.

        Raises as `save_object`.
        """
        return self._library(path, ".c").save_c(Path(path).parent)

    def _library(self, path: str | Path, suffix: str) -> CLibrary:
        return library(self._unit, self.accelerator, library_file(path, suffix))

    @checked()
    def run(
        self,
        engine: str = "functional",
        *,
        timing: str | None = None,
        log: str | Path | None = None,
        report: Callable[[str], None] | None = None,
        expected: Mapping[str, Array] | None = None,
    ) -> Run:
        """Simulate the program and compare its results with integers, element by element.

        Args:
            engine: `functional` (results), `rtl` (the accelerator's Verilog, cycle by cycle), `timed` (its cycles by a model of
                its units), `gemmini-model` (those of a model of the original Gemmini in a Rocket system), or `soc` (the Verilog of the core
                CVA6 and the accelerator together; `baco[soc]`).
            timing: whose cycles are counted: `baco` (the Verilog's) or `gemmini` (the original's: with it, `rtl` stands for
                `gemmini-model`); by default what the accelerator says.
            log: file for a log of every command, `.csv`.
            report: told how building a simulator goes on, the first time.
            expected: what further arrays must hold at the end, by name; not of networks.

        Raises SimulationError for a program that had to be stopped, InputError for an unknown engine.
        """
        from baco.compiler.codegen.program import Program
        from baco.sim.energy import energy_uj

        path = None if log is None else Path(log)
        check_run(self.accelerator, engine, timing=timing, log=path)
        unit, built = self._unit, self._built
        if isinstance(unit, NetworkUnit):
            assert not isinstance(built, Program)  # what a network's unit was compiled to
            network_run, outputs, wrong, near = unit.run(
                built, engine, timing=timing, log=path, report=report
            )
            simulation, operators, arrays = network_run.result, _operators(network_run), outputs
        else:
            assert isinstance(built, Program)
            known = {one.name: one.expected for one in unit.buffers or () if one.expected is not None}
            known |= expected or {}
            arrays, simulation, wrong = run_unit(built, known, engine, timing=timing, log=path, report=report)
            network_run, operators, near = None, None, None
            outputs = {name: arrays[name] for name in known}
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
            unit.accuracy if isinstance(unit, NetworkUnit) else None,
            arrays,
            network_run,
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
        accuracy: of a network with samples: how right its integers are on them (`baco.compiler.network.accuracy.ModelAccuracy`), by labels
            where there are any, and which share of its answers is the float model's.
        arrays: what all arrays hold at the end, by name; of networks, the outputs.
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
    accuracy: ModelAccuracy | None = field(default=None, repr=False)
    arrays: Mapping[str, Array] = field(default_factory=dict, repr=False)
    _measured: NetworkRun | None = field(default=None, repr=False)

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


def library_file(path: str | Path, suffix: str) -> str:
    """Name of the library in FOLDER/NAME.SUFFIX. Raises InputError where there is none, StorageError where it cannot be written."""
    from baco.common.files import check_output
    from baco.compiler.codegen.c_library import check_name

    if Path(path).suffix != suffix:
        raise InputError(
            f"the file is called NAME{suffix}, not '{one_line(Path(path).name)}'",
            hint=f"NAME_run is the function, so NAME is a C identifier: net{suffix}, for example",
        )
    check_output(path)
    return check_name(Path(path).stem)


def library(
    unit: Unit | NetworkUnit, accelerator: Accelerator, name: str, observe: Observer | None = None
) -> CLibrary:
    """What is compiled as a function of a C program. Raises InputError for what has no form in C."""
    if isinstance(unit, NetworkUnit):
        return unit.library(name)
    return unit_library(replace(unit, module=unit.module.clone()), accelerator, name, observe)


def compiled(prepared: Prepared, *, check: bool = False) -> Compiled:
    """The program of what is prepared; with `check` it compares its results itself."""
    name, unit, machine, schedule = prepared.name, prepared.unit, prepared.accelerator, prepared.schedule
    if isinstance(unit, Unit):
        given = replace(unit, module=unit.module.clone())  # lowering changes it
        program = lower_unit(given, machine, check=check, observe=prepared.observe)
        figures = unit.predicted_cycles, unit.macs, program.requirement, schedule
        return Compiled(name, program.elf, machine, *figures, unit, program)
    built = unit.compile(check=check)
    macs = network_macs(built) if prepared.macs is None else prepared.macs
    cycles, least = predicted_cycles(built), built.program.requirement
    return Compiled(name, built.program.elf, machine, cycles, macs, least, schedule, unit, built)


def _compiling(options: Callable[_Arguments, CompileOptions]) -> Callable[_Arguments, Compiled]:
    """Compiles with options: arguments, and what is said of them, are those of the options."""

    def compile(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Compiled:
        made = options(*args, **kwargs)
        return compiled(made.prepared(), check=made.check)

    compile.__doc__ = options.__doc__
    signature = inspect.signature(options).replace(return_annotation="Compiled")
    compile.__signature__ = signature  # type: ignore[attr-defined]
    return compile


compile = _compiling(CompileOptions)


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
    made = CompileOptions(source, accelerator, timing=timing, **options)
    check_run(made.machine(), engine, timing=timing)
    return compiled(made.prepared(), check=made.check).run(engine)


def _operators(run: NetworkRun) -> pd.DataFrame:
    import pandas as pd

    columns = ("operator", "what", "on", "cycles", "predicted", "dram_bytes")
    rows = [{name: getattr(one, name) for name in columns} for one in run.operators]
    return pd.DataFrame(rows, columns=list(columns))
