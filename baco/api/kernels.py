"""`explore --kernel`: a kernel of the block language as the input of co-exploration, and what comes out for it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from common.errors import InfeasibleError, InputError, Location
from common.files import atomic_write, output_folder

if TYPE_CHECKING:
    from accel.config import Accelerator
    from baco.api.result import Result
    from compiler.blocks.attention import TiledAttention
    from compiler.blocks.products import TiledProduct
    from compiler.language.jit import BoundLaunch, Kernel
    from workloads.network import Network, Workload

    #: What a kernel computes.
    Work: TypeAlias = TiledProduct | TiledAttention

__all__ = ["KernelSearch", "KernelVerdict", "kernel_verdict"]

#: Block sizes that are tried for a compile-time constant that nothing is said of.
_SIZES = (16, 32, 64, 128)
#: More choices of block sizes are not looked at.
_MOST_CHOICES = 512


@dataclass(frozen=True)
class KernelSearch:
    """A kernel with everything but its block sizes and the hardware.

    Attributes:
        kernel: what is explored.
        source: how the user named it.
        grid: number of programs along each axis, given the other arguments by name.
        values: its arguments, arrays as well, but for block sizes.
        choices: block sizes to choose from, by name.
    """

    kernel: Kernel
    source: str
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    values: Mapping[str, Any]
    choices: tuple[Mapping[str, Any], ...]

    def launch(self, blocks: Mapping[str, Any], accelerator: Accelerator) -> BoundLaunch:
        """The launch with some block sizes. Raises KernelError."""
        from compiler.language.jit import Options

        values = {**self.values, **blocks}
        return self.kernel.bind(self.grid(values), (), values, Options(accelerator))

    def work(self, accelerator: Accelerator) -> list[tuple[Mapping[str, Any], Work]]:
        """What the kernel computes with every choice of block sizes that it is right with, on whatever accelerator.

        Raises KernelError where it is wrong with all of them, and InputError, which shows the line, where it is neither one
        tiled product nor attention.
        """
        from compiler.language.cost import launch_work
        from compiler.language.source import showing_line

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
        from compiler.blocks.attention import TiledAttention
        from workloads.network import LayerFacts, Network, Operator, Tensor, Workload

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
        from workloads.builder import GraphBuilder, causal_mask

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
    from compiler.blocks.attention import TiledAttention

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
    from compiler.language.names import REQUIRED

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
            hint="give some by --shape, or write @baco.autotune(configs=[...]) above it",
        )
    return tuple(dict(zip(free, sizes, strict=True)) for sizes in itertools.product(_SIZES, repeat=len(free)))


@dataclass(frozen=True)
class KernelVerdict:
    """The kernel on the best design.

    Attributes:
        blocks: its block sizes.
        predicted_cycles: of its program.
        cycles: as simulated on the design's Verilog; None where it was not.
        wrong: how arrays differ from what numpy's integers give, in words; empty where all are right.
        files: written to `best/`.
    """

    blocks: Mapping[str, Any]
    predicted_cycles: float
    cycles: int | None
    wrong: tuple[str, ...]
    files: tuple[Path, ...]


def kernel_verdict(
    search: KernelSearch,
    work: Sequence[tuple[Mapping[str, Any], Work]],
    result: Result,
    *,
    simulate: bool,
) -> KernelVerdict:
    """Choose block sizes for the best design of a study, compile the kernel for it, and run it on the design's Verilog.

    `work` is `KernelSearch.work`. Writes `best/kernel.elf`, and `best/kernel.json`, which says how it was made and what came of it. With `simulate` every
    array that the kernel stores to is compared with what the interpreter computes in numpy.
    Raises InfeasibleError where no block sizes fit, and what compiling and simulating raise.
    """
    from baco.api.unit import launch_unit, lower_unit, run_unit
    from compiler.language.cost import predicted_cycles

    machine = result.best.accelerator
    costs: list[tuple[float, int, int]] = []
    for number, (chosen, one) in enumerate(work):
        cycles = _cycles(one, machine)
        if cycles is not None:
            costs.append((cycles, -_size(chosen), number))
    if not costs:
        raise InfeasibleError(f"no block sizes of kernel `{search.kernel.name}` fit {machine.name}")
    blocks = work[min(costs)[2]][0]
    cycles = predicted_cycles(search.launch(blocks, machine), machine)
    unit = launch_unit(search.launch(blocks, machine), compare=simulate)
    assert unit.buffers is not None
    expected = {one.name: one.expected for one in unit.buffers if one.expected is not None}
    program = lower_unit(unit, machine, check=False)
    measured: int | None = None
    wrong: tuple[str, ...] = ()
    if simulate:
        _, simulation, wrong = run_unit(program, expected, "rtl")
        measured = simulation.cycles
    folder = output_folder(result.folder, "best")
    record = {
        "kernel": search.source,
        "arguments": {
            key: value if isinstance(value, int | float | str) else f"{value.dtype}{list(value.shape)}"
            for key, value in search.values.items()
            if value is not None
        },
        "blocks": dict(blocks),
        "grid": [int(one) for one in search.grid({**search.values, **blocks})],
        "accelerator": machine.config_hash,
        "predicted_cycles": cycles,
        "measured_cycles": measured,
        "right": None if measured is None else not wrong,
    }
    files = (folder / "kernel.elf", folder / "kernel.json")
    atomic_write(files[0], program.elf)
    atomic_write(files[1], json.dumps(record, indent=1) + "\n")
    return KernelVerdict(blocks, cycles, measured, tuple(wrong), files)


def _cycles(work: Work, machine: Accelerator) -> float | None:
    """Predicted cycles of work in tiles of whole blocks; None where none fits."""
    from compiler.blocks.attention import TiledAttention
    from compiler.choice.choose import choices
    from compiler.language.cost import work_cycles

    if isinstance(work, TiledAttention):
        try:
            return work_cycles(work, machine)
        except InfeasibleError:
            return None
    found = choices(work.layer, machine, style="macro", blocks=work.blocks)
    found = found or choices(work.layer, machine, blocks=work.blocks)
    return found[0].cycles if found else None


def _size(blocks: Mapping[str, Any]) -> int:
    """Of two choices that take as long, the one of larger blocks has fewer programs."""
    return sum(one for one in blocks.values() if isinstance(one, int))
