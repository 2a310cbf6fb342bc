"""What `baco compile` and `baco run` are given, as options of `baco.compile`: the one reader of both commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.api.arrays import filled_buffers
from baco.api.program_options import CompileOptions, Prepared
from baco.api.unit import Unit
from baco.cli.array_input import described_buffer, named_files
from baco.cli.compile_options import DEFAULT_ACCELERATOR, NetworkOptions, ProgramOptions
from baco.cli.layer_input import LayerOptions, layer_of
from baco.common.errors import InputError, only_with

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from baco.compiler.codegen.buffer import Buffer
    from baco.compiler.ir.text import Level
    from baco.compiler.language.jit import BoundLaunch
    from baco.compiler.layers.layer import Layer


def compile_options(
    program: ProgramOptions,
    layer: LayerOptions,
    network: NetworkOptions,
    timing: str | None,
    *,
    of_networks: Mapping[str, object],
    of_others: Mapping[str, object],
    save: Sequence[str] = (),
) -> CompileOptions:
    """The options of `baco.compile`.

    Args:
        of_networks, of_others: more options of the command that go with networks alone, or with anything else, by how they are written.
        save: names of outputs, `NAME=FILE`, that a network must have.

    Raises InputError for what does not go together, before anything is read, and for what is unknown or malformed.
    """
    if network.network is None:
        only_with("--network", network.given_options() | dict(of_networks))
        _check_program(program, layer)
        _level(program)
        return CompileOptions(
            _source(program, layer),
            program.accelerator,
            style=layer.style,
            mapping=layer.mapping,
            baseline=layer.baseline,
            seed=program.seed,
            timing=timing,
        )
    if replace(layer, baseline=False) != LayerOptions():
        raise InputError("--network and options that describe a layer exclude each other")
    code = {"FILE": program.source, "--from": program.level, "--entry": program.entry, "--grid": program.grid}
    for name, value in (code | dict(of_others)).items():
        if value:
            raise InputError(f"--network and {name} exclude each other")
    if network.inputs is not None and program.arguments:
        raise InputError("--inputs and --arg exclude each other", hint="an archive can hold all inputs")
    made = CompileOptions(
        network.network,
        None if program.accelerator == DEFAULT_ACCELERATOR else program.accelerator,
        baseline=layer.baseline,
        inputs=_inputs(program.arguments or (), network.inputs),  # type: ignore[arg-type]
        data=network.data,
        layers=network.layers,
        scales=network.scales,
        observer=network.observer,
        weight_format=network.weight_format,
        weight_scales=network.weight_scales,
        weight_rounding=network.weight_rounding,
        equalisation=network.equalisation,
        seed=program.seed,
        mappings=network.mappings,
        fusion=network.fusion,
        try_schedules=network.try_schedules,
        timing=timing,
        check_layers=network.check_layers,
    )
    if save:
        from baco.api.sources import network as load_network
        from baco.compiler.network.quantise import names_outside

        plan = made.plan
        graph = load_network(network.network if plan is None else plan.network)
        named_files("--save", save, names_outside(graph, network.layers)[1], "output")
    return made


def _check_program(program: ProgramOptions, layer: LayerOptions) -> None:
    """Raises InputError for what does not go together, before anything is read."""
    source = program.source
    if (source is None) != layer.given:
        raise InputError(
            "name one thing to compile: a file, or a layer by --gemm or --conv",
            hint="see 'baco compile --help'",
        )
    kernel = source is not None and kernel_name(source) is not None
    if source is not None and source.endswith(".py"):
        raise InputError("name the kernel as well", hint=f"{source}:FUNCTION")
    only_with("a kernel, FILE.py:FUNCTION", {"--grid": None if kernel else program.grid})
    if source is None or kernel:
        only_with("text of the IR, FILE.mlir", {"--from": program.level, "--entry": program.entry})
    if source is None:
        only_with("text of the IR or a kernel", {"--arg": program.arguments})
    else:
        only_with("a layer, --gemm or --conv", layer.given_options())


def kernel_name(source: str) -> str | None:
    """The kernel that `FILE.py:FUNCTION` names; None for anything else."""
    file, colon, name = source.rpartition(":")
    return name if colon and file.endswith(".py") else None


def _level(program: ProgramOptions) -> Level | None:
    from baco.cli.ir_input import level_named

    return level_named(program.level)


def _source(program: ProgramOptions, layer: LayerOptions) -> Layer | BoundLaunch | Unit:
    """A layer, a launch of a kernel, or text of the IR."""
    if program.source is None:
        return layer_of(layer)
    name = kernel_name(program.source)
    if name is not None:
        from baco.cli.kernel_input import launch_in_file

        file = Path(program.source.rpartition(":")[0])
        return launch_in_file(file, name, program.arguments or (), program.grid, program.seed)
    return _text(program, Path(program.source))


def _text(program: ProgramOptions, file: Path) -> Unit:
    from baco.cli.ir_input import read_module
    from baco.compiler.dialects.context import all_dialects
    from baco.compiler.ir.text import check_level, level_of

    module = read_module(file, all_dialects(), _level(program))
    level = _level(program) or level_of(module)
    check_level(module, level)
    entry = program.entry or _only_function(module)
    buffers: tuple[Buffer, ...] | None = None
    if program.arguments:
        described = [described_buffer(text) for text in program.arguments]
        buffers = tuple(one for one in filled_buffers(described, program.seed) if one is not None)
    return Unit(entry, level, module, entry, buffers)


def _only_function(module: ModuleOp) -> str:
    """The function to call when none is named: the only one with a body that is not private."""
    from xdsl.dialects import func, llvm

    names = []
    for op in module.body.block.ops:
        if isinstance(op, (func.FuncOp, llvm.FuncOp)) and op.body.blocks:
            hidden = op.sym_visibility is not None and op.sym_visibility.data == "private"
            if not hidden and not (isinstance(op, llvm.FuncOp) and op.linkage.linkage.data == "internal"):
                names.append(op.sym_name.data)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise InputError(
            "name the function to begin with by --entry", hint=f"the module's functions: {known}"
        )
    return names[0]


def _inputs(texts: Sequence[str], archive: Path | None) -> Mapping[str, Path | np.ndarray[Any, Any]] | None:
    """What a network's inputs hold, files or arrays by name."""
    from baco.workloads.inputs.arrays import load_arrays

    if archive is not None:
        return load_arrays(archive)
    found: dict[str, Path | np.ndarray[Any, Any]] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file.endswith(".npy"):
            raise InputError(f"--arg: '{text}' gives no input of a network", hint="write NAME=FILE.npy")
        found[name] = Path(file)
    return found or None


def files_to_save(prepared: Prepared, texts: Sequence[str]) -> dict[str, Path]:
    """Files of --save by the names of arrays. Raises InputError for an array that there is not."""
    unit = prepared.unit
    if isinstance(unit, Unit):
        return named_files("--save", texts, {one.name for one in unit.buffers or ()})
    return named_files("--save", texts, unit.network.outputs, "output")


def expected_arrays(prepared: Prepared, texts: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """What --expect says of arrays. Raises InputError for an array that there is not, or that has another shape or type."""
    from baco.workloads.inputs.arrays import load_array

    buffers = {one.name: one for one in getattr(prepared.unit, "buffers", None) or ()}
    return {
        name: replace(buffers[name], expected=load_array(path)).expected  # type: ignore[misc]
        for name, path in named_files("--expect", texts, buffers).items()
    }
