"""A kernel of the block language as the input of co-exploration, and what comes out for it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from baco.common.errors import InfeasibleError, InputError, Location, StorageError
from baco.common.files import atomic_write, output_folder, read_input_text

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.blocks.attention import TiledAttention
    from baco.compiler.blocks.products import TiledProduct
    from baco.compiler.language.jit import BoundLaunch, Grid, Kernel
    from baco.exploration.space import DesignSpace
    from baco.workloads.network import Network, Workload

    #: What a kernel computes.
    Work: TypeAlias = TiledProduct | TiledAttention


#: Block sizes that are tried for a compile-time constant that nothing is said of.
_SIZES = (16, 32, 64, 128)
#: More choices of block sizes are not looked at.
_MOST_CHOICES = 512


@dataclass(frozen=True)
class KernelSearch:
    """A kernel with everything but its block sizes and the hardware.

    Attributes:
        kernel: what is explored.
        source: its file and name.
        grid: number of programs along each axis, as of a launch.
        values: its arguments, arrays as well, but for block sizes.
        choices: block sizes to choose from, by name.
    """

    kernel: Kernel
    source: str
    grid: Grid
    values: Mapping[str, Any]
    choices: tuple[Mapping[str, Any], ...]

    def launch(self, blocks: Mapping[str, Any], accelerator: Accelerator) -> BoundLaunch:
        """The launch with some block sizes. Raises KernelError."""
        from baco.compiler.language.jit import Options

        return self.kernel.bind(self.grid, (), {**self.values, **blocks}, Options(accelerator))

    def work(self, accelerator: Accelerator) -> list[tuple[Mapping[str, Any], Work]]:
        """What the kernel computes with every choice of block sizes that it is right with, on whatever accelerator.

        Raises KernelError where it is wrong with all of them, and InputError, which shows the line, where it is neither one
        tiled product nor attention.
        """
        from baco.compiler.language.cost import launch_work
        from baco.compiler.language.source import showing_line

        found: list[tuple[Mapping[str, Any], Work]] = []
        wrong: InputError | None = None
        for blocks in self.choices:
            try:
                found.append((blocks, launch_work(self.launch(blocks, accelerator))))
            except InputError as error:
                wrong = wrong or error
        if not found:
            assert wrong is not None
            raise showing_line(wrong) from None
        computed = {_computed(one) for _, one in found}
        if len(computed) > 1:
            shown = " and ".join(sorted(computed)[:2])
            raise InputError(
                f"what kernel `{self.kernel.name}` computes depends on its block sizes: {shown}",
                location=Location(self.kernel.source.file, self.kernel.source.first_line),
                hint="give a grid that covers the arrays with any block sizes",
            )
        return found

    def workload(self, work: Work) -> Workload:
        """The kernel as a network: of one operator, with what follows its product, or of those of attention."""
        from baco.compiler.blocks.attention import TiledAttention
        from baco.workloads.network import LayerFacts, Network, Operator, Tensor, Workload

        options: dict[str, int | str] = {
            key: value for key, value in self.values.items() if isinstance(value, int)
        }
        if isinstance(work, TiledAttention):
            return Workload.of([self._attention(work, options)])
        layer, name = work.layer, self.kernel.name
        p = layer.problem
        shape = (p.groups, p.P, p.K) if p.groups > 1 else (p.P, p.K)
        out = Tensor("product", shape)
        operators = [
            Operator(name, "matmul", ("input",), out, p, facts=LayerFacts(bias=layer.bias)),
        ]
        if layer.relu:
            operators.append(Operator("relu", "relu", (out.name,), Tensor("relu", shape), fused=True))
        inputs = (Tensor("input", (p.groups, p.P, p.C) if p.groups > 1 else (p.P, p.C)),)
        return Workload.of([Network(name, inputs, tuple(operators), source=self.source, options=options)])

    def _attention(self, work: TiledAttention, options: dict[str, int | str]) -> Network:
        """Attention as a network of three operators."""
        from baco.workloads.builder import GraphBuilder, causal_mask

        chain = work.chain
        b = GraphBuilder(self.kernel.name, self.source, options)
        q, k, v = (
            b.input(name, (chain.groups, *shape))
            for name, shape in (
                ("q", (chain.rows, chain.depth)),
                ("k", (chain.between, chain.depth)),
                ("v", (chain.between, chain.columns)),
            )
        )
        scores = b.matmul(q, b.transpose(k, (0, 2, 1)), name="scores", alpha=chain.depth**-0.5)
        mask = (
            None if chain.causal is None else causal_mask(chain.rows, chain.between, shift=chain.causal - 1)
        )
        b.matmul(b.softmax(scores, name="softmax", mask=mask), v, name="context")
        return b.build()


def _computed(work: Work) -> str:
    """What work is, in words that do not depend on how it is cut."""
    from baco.compiler.blocks.attention import TiledAttention

    if isinstance(work, TiledAttention):
        seen = "" if work.chain.causal is None else f"causal from {work.chain.causal}, "
        return f"attention {work.chain}, {seen}by {work.chain.first.scale:g}, {work.scale:g} and {work.chain.second.scale:g}"
    layer = work.layer
    return f"{layer.problem}, bias {layer.bias}, relu {layer.relu}, scale {layer.scale}"


def block_choices(
    kernel: Kernel, given: Sequence[str], configs: Sequence[Mapping[str, Any]] | None
) -> tuple[Mapping[str, Any], ...]:
    """The block sizes to choose from: the kernel's configurations, else a few sizes for each compile-time constant that has
    neither a value nor a default. Raises InputError for more than can be looked at."""
    from baco.compiler.language.names import REQUIRED

    if configs is not None:
        return tuple(configs)
    free = [
        one.name
        for one in kernel.parameters
        if one.compile_time and one.default is REQUIRED and one.name not in given
    ]
    if len(_SIZES) ** len(free) > _MOST_CHOICES:
        raise InputError(
            f"kernel `{kernel.name}` has {len(free)} compile-time constants without a value",
            location=Location(kernel.source.file, kernel.source.first_line),
            hint="give some in the shape, or write @baco.autotune(configs=[...]) above it",
        )
    return tuple(dict(zip(free, sizes, strict=True)) for sizes in itertools.product(_SIZES, repeat=len(free)))


@dataclass(frozen=True)
class ExploredKernel:
    """A kernel that is explored, with what it computes with every choice of block sizes.

    Attributes:
        search: the kernel with its arguments.
        work: `KernelSearch.work`.
    """

    search: KernelSearch
    work: tuple[tuple[Mapping[str, Any], Work], ...]

    @property
    def workload(self) -> Workload:
        """See `KernelSearch.workload`."""
        return self.search.workload(self.work[0][1])

    @property
    def is_unit(self) -> bool:
        """Whether all of it runs as one unit: no layer of its program runs by itself."""
        from baco.compiler.blocks.attention import TiledAttention

        return isinstance(self.work[0][1], TiledAttention)

    @property
    def blocks(self) -> tuple[tuple[int, int, int], ...]:
        """See `baco.exploration.search.searcher.SearchSetup`."""
        return tuple(dict.fromkeys(one.blocks for _, one in self.work))

    def searched(self, space: DesignSpace) -> DesignSpace:
        """What is searched of a space: its own settings; for attention, accelerators with units for functions of rows.

        Raises InputError for a space that has none.
        """
        from baco.exploration.space.points import with_units

        space = space.at(space.chosen)
        if not self.is_unit:
            return space
        if True not in space.units or space.base.timing != "baco":
            raise InputError(
                f"the accelerators of space {space.name} have no units for functions of rows, which attention needs",
                location=Location(self.search.kernel.source.file, self.search.kernel.source.first_line),
                hint="take the space gemmini, or write 'units: [row_functions]' into the space, without the timing gemmini",
            )
        return replace(space, base=with_units(space.base, True), search_units=False)

    def call(self) -> str:
        """How `baco.explore` is called with it, as far as that can be written down."""
        grid = self.search.grid
        given = {
            name: value
            for name, value in self.search.values.items()
            if value is None or isinstance(value, int | float | str)
        }
        if callable(grid):
            shown = name if (name := getattr(grid, "__name__", "")).isidentifier() else "..."
        else:
            shown = repr(tuple(map(int, grid)) if isinstance(grid, Sequence) else int(grid))
        return f"kernel={self.search.kernel.name}, shape={given!r}, grid={shown}"


def check_kernel_options(search: str, cost_model: str | None, *, whole: bool) -> None:
    """Raises InputError for options of a search that say nothing of a kernel."""
    own = "block sizes and hardware of a kernel have a search of their own"
    refused = {
        "--search": (search != "gradient", own),
        "--cost-model": (cost_model == "reference", "kernels are predicted by the instruction-aware model"),
        "--accelerator-only": (not whole, "a kernel is a whole program"),
    }
    for option, (given, reason) in refused.items():
        if given:
            raise InputError(reason, location=Location(option), hint="leave it out")


@dataclass(frozen=True)
class KernelVerdict:
    """A kernel on the best design that was found for it.

    Attributes:
        blocks: its block sizes, by name.
        predicted_cycles: of its program.
        cycles: as simulated on the design's Verilog; None where it was not, see `validate`.
        wrong: how arrays differ from what numpy's integers give, in words; empty where all are right.
        files: written to `best/`: the program, and what it is, as JSON.
    """

    blocks: Mapping[str, Any]
    predicted_cycles: float
    cycles: int | None
    wrong: tuple[str, ...]
    files: tuple[Path, ...]

    def __repr__(self) -> str:
        return f"<KernelVerdict {self}>"

    def __str__(self) -> str:
        blocks = ", ".join(f"{name}={value}" for name, value in self.blocks.items()) or "none to choose"
        told = f"{blocks}; {self.predicted_cycles:,.0f} cycles predicted"
        if self.cycles is not None:
            results = "results WRONG" if self.wrong else "results right"
            told += f", {self.cycles:,} measured on its Verilog, {results}"
        return f"{told}; {self.files[0]}"


def kernel_verdict(
    search: KernelSearch,
    work: Sequence[tuple[Mapping[str, Any], Work]],
    machine: Accelerator,
    folder: Path,
    *,
    simulate: bool,
) -> KernelVerdict:
    """Choose block sizes for an accelerator, compile the kernel for it, and run it on the accelerator's Verilog.

    `work` is `KernelSearch.work`. Writes `best/kernel.elf` into the folder, and `best/kernel.json`, which says how it was made
    and what came of it. With `simulate` every array that the kernel stores to is compared with what the interpreter computes
    in numpy.
    Raises InfeasibleError where no block sizes fit, and what compiling and simulating raise.
    """
    from baco.api.unit import launch_unit, lower_unit, run_unit
    from baco.compiler.language.cost import predicted_cycles

    costs: list[tuple[float, int, int]] = []
    for number, (chosen, counted) in enumerate(work):
        cycles = _cycles(counted, machine)
        if cycles is not None:
            costs.append((cycles, -_size(chosen), number))
    if not costs:
        raise InfeasibleError(f"no block sizes of kernel `{search.kernel.name}` fit {machine.name}")
    blocks = work[min(costs)[2]][0]
    launch = search.launch(blocks, machine)
    cycles = predicted_cycles(launch, machine)
    unit = launch_unit(launch, machine, compare=simulate)
    assert unit.buffers is not None
    expected = {buffer.name: buffer.expected for buffer in unit.buffers if buffer.expected is not None}
    program = lower_unit(unit, machine, check=False)
    measured: int | None = None
    wrong: tuple[str, ...] = ()
    if simulate:
        _, simulation, wrong = run_unit(program, expected, "rtl")
        measured = simulation.cycles
    record = {
        "kernel": search.source,
        "arguments": {
            key: value if isinstance(value, int | float | str) else f"{value.dtype}{list(value.shape)}"
            for key, value in search.values.items()
            if value is not None
        },
        "blocks": dict(blocks),
        "grid": [int(extent) for extent in launch.grid],
        "accelerator": machine.config_hash,
        "predicted_cycles": cycles,
        "measured_cycles": measured,
        "right": None if measured is None else not wrong,
        "wrong": list(wrong),
    }
    files = _files(output_folder(folder, "best").parent)
    atomic_write(files[0], program.elf)
    atomic_write(files[1], json.dumps(record, indent=1) + "\n")
    return KernelVerdict(blocks, cycles, measured, tuple(wrong), files)


def kept_verdict(machine: Accelerator, folder: Path) -> KernelVerdict | None:
    """What `kernel_verdict` wrote of an accelerator into a study's folder; None where it wrote nothing, or of another one.

    Raises StorageError for a file that is damaged.
    """
    files = _files(folder)
    if not files[1].exists():
        return None
    try:
        record = json.loads(read_input_text(files[1]))
        if record["accelerator"] != machine.config_hash:
            return None
        return KernelVerdict(
            dict(record["blocks"]),
            float(record["predicted_cycles"]),
            record["measured_cycles"],
            tuple(map(str, record.get("wrong", ()))),
            files,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageError(
            "this says nothing of a kernel", location=Location(str(files[1])), hint="explore the kernel again"
        ) from None


def _files(folder: Path) -> tuple[Path, Path]:
    """The program and what it is."""
    return folder / "best" / "kernel.elf", folder / "best" / "kernel.json"


def _cycles(work: Work, machine: Accelerator) -> float | None:
    """Predicted cycles of work in tiles of whole blocks; None where none fits."""
    from baco.compiler.blocks.attention import TiledAttention
    from baco.compiler.choice.choose import choices
    from baco.compiler.language.cost import work_cycles

    if isinstance(work, TiledAttention):
        try:
            return work_cycles(work, machine)
        except InfeasibleError:
            return None
    schedules = choices(work.layer, machine, style="macro", blocks=work.blocks)
    schedules = schedules or choices(work.layer, machine, blocks=work.blocks)
    return schedules[0].cycles if schedules else None


def _size(blocks: Mapping[str, Any]) -> int:
    """Of two choices that take as long, the one of larger blocks has fewer programs."""
    return sum(one for one in blocks.values() if isinstance(one, int))
