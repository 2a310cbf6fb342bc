"""Options that `baco compile` and `baco run` share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from baco.api.sources import DEFAULT_ACCELERATOR
from baco.cli.checked import Seed
from baco.cli.completions import accelerator_completions, network_completions

__all__ = [
    "ACCELERATOR_HELP",
    "ACCELERATOR_METAVAR",
    "DEFAULT_ACCELERATOR",
    "NETWORK_PANEL",
    "Accelerator",
    "AcceleratorArgument",
    "NetworkOptions",
    "ProgramOptions",
    "Timing",
]

_CODE = "IR or kernel"
NETWORK_PANEL = "Network"

#: How every command takes an accelerator.
ACCELERATOR_METAVAR = "NAME[,KEY=VALUE]"
ACCELERATOR_HELP = (
    "Preset, configuration file, or the folder of a study: its best design; what differs behind it, as in "
    "gemmini-default,dim=8."
)

Accelerator = Annotated[
    str,
    typer.Option(
        "--accelerator",
        "-a",
        metavar=ACCELERATOR_METAVAR,
        help=ACCELERATOR_HELP,
        autocompletion=accelerator_completions,
    ),
]

AcceleratorArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACCELERATOR",
        help=ACCELERATOR_HELP,
        autocompletion=accelerator_completions,
    ),
]

Timing = Annotated[
    str | None,
    typer.Option(
        "--timing",
        metavar="baco|gemmini",
        help="Whose cycles are predicted and measured: our Verilog's, or the original Gemmini's in a Rocket system (a model). "
        "By default what the accelerator says (`timing` in its file), which is baco unless set.",
    ),
]


@dataclass(frozen=True)
class ProgramOptions:
    """What is compiled unless it is a layer or a network, and for which accelerator; see `baco compile --help`.

    Attributes:
        dump_after (PASS|all): Show the module after a pass, on standard error.
        seed: Of random contents.
    """

    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.mlir|KERNEL.py:FUNCTION",
            help="Text of the IR, or a kernel; or describe a layer by --gemm or --conv.",
            show_default=False,
        ),
    ] = None
    accelerator: Accelerator = DEFAULT_ACCELERATOR
    dump_after: str | None = None
    seed: Seed = 0
    level: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LEVEL",
            help="Level of FILE.mlir: baco, linalg, instgem or llvm; default: found out.",
            rich_help_panel=_CODE,
        ),
    ] = None
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry", metavar="NAME", help="Function to run; default: the only one.", rich_help_panel=_CODE
        ),
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument: int8[64,64] (random), int8[64,64]:output, FILE.npy, or a number of a kernel's, whose arrays come "
            'from its annotations (`a: "int8[M, K]"`) unless they are given. Repeatable, for text of the IR in the order of the '
            "function's arguments.",
            rich_help_panel=_CODE,
        ),
    ] = None
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid",
            metavar="N[,N]",
            help="Programs of a kernel, e.g. 'cdiv(M, BM), cdiv(N, BN)'; by default what `grid(meta)` in its file returns, else 1.",
            rich_help_panel=_CODE,
        ),
    ] = None


@dataclass(frozen=True)
class NetworkOptions:
    """A whole network instead; see `baco compile --help`.

    Attributes:
        network (NAME|FILE): A whole network in int8: built in (NAME[:OPTION=VALUE,...]: seq, phase=decode, cache..., as `baco networks`
            lists them; of transformers also weights=FILE.safetensors), MODEL.onnx or CODE.py:FUNCTION; or the plan of a validated
            design (best/plan.json), with its accelerator and mappings.
        inputs (FILE.npz): What inputs hold, arrays by the model's own names, in the types that it declares; instead of --arg.
        data (FILE.npz|DIR): Samples that the ranges of activations are taken from and accuracy is measured on, arrays by input, and
            'label', the class of every sample; otherwise those of --arg, or random ones.
        layers (N): Run repeated blocks only so many times.
        scales: Of the quantisation: float or power-of-two.
        observer (NAME): Where scales of activations end: mse, min-max, percentile or entropy.
        weight_format: Of trained weights: int8, or int4, which lie two a byte where the accelerator has packed_weights. On arrays of bf16
            blocks with shared powers, mxint8, mxfp8-e4m3, mxfp8-e5m2 or mxfp4, which lie so where it has block_weights.
        weight_scales (WHOSE): One for all weights of a layer, tensor, or one for each channel of its output, which machines with
            requantization apply on the way out and the host core else.
        weight_rounding (HOW): Of trained weights: nearest, or compensated: one after the other, those still to come taking back what
            rounded ones add to sums of the samples.
        equalisation: Channels of neighbouring layers are brought to like ranges first, by powers of two.
        mappings (WHOSE): On the design of a study's folder: 'study' takes its mappings where they are best, 'compiler' none.
        fusion: Operators whose results need not reach main memory (attention's scores, softmax and values; convolutions in a row) run
            as one unit where that is predicted to pay, by moves that the original Gemmini lacks. By default for designs of a study
            and accelerators with units for functions of rows.
        try_schedules (N): Run N promising schedules of every different layer, each by itself, on the model of the units in time, and take
            the fastest; by default the fastest by estimate.
        check_layers: The program compares what every operator wrote, and ends at the first difference.
    """

    panel: ClassVar[str] = NETWORK_PANEL
    network: Annotated[str | None, typer.Option(autocompletion=network_completions)] = None
    inputs: Path | None = None
    data: Path | None = None
    layers: int | None = None
    scales: str = "float"
    observer: str = "mse"
    weight_format: str = "int8"
    weight_scales: str = "tensor"
    weight_rounding: str = "nearest"
    equalisation: bool = False
    mappings: str = "study"
    fusion: bool | None = None
    try_schedules: int = 0
    check_layers: bool = False

    def given_options(self) -> dict[str, bool]:
        """Whether each option but the network itself is given, by how it is written."""
        others = [field for field in fields(self) if field.name != "network"]
        return {
            f"--{field.name.replace('_', '-')}": getattr(self, field.name) != field.default
            for field in others
        }
