"""Options that `baco compile` and `baco run` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import seed_option
from baco.cli.completions import accelerator_completions, network_completions

__all__ = [
    "Accelerator",
    "Arguments",
    "Baseline",
    "Bias",
    "CheckLayers",
    "Conv",
    "DumpAfter",
    "Entry",
    "From",
    "Gemm",
    "Grid",
    "Image",
    "Input",
    "Layers",
    "MappingText",
    "Network",
    "Pool",
    "Raw",
    "Relu",
    "Report",
    "Residual",
    "Scale",
    "Scales",
    "Seed",
    "Style",
    "Transposed",
]

_LAYER = "Layer"
#: What programs are for unless an accelerator is named.
DEFAULT_ACCELERATOR = "gemmini-default"
_CODE = "IR or kernel"
_NETWORK = "Network"

Input = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE.mlir | KERNEL.py:FUNCTION]",
        help="Text of the IR, or a kernel; or describe a layer by --gemm or --conv.",
        show_default=False,
    ),
]
Accelerator = Annotated[
    str,
    typer.Option(
        "--accelerator",
        "-a",
        metavar="NAME|FILE.yaml|DIR",
        help="Preset, configuration file, or the folder of a study: its best design.",
        autocompletion=accelerator_completions,
    ),
]
DumpAfter = Annotated[
    str | None,
    typer.Option("--dump-after", metavar="PASS|all", help="Show the module after a pass, on standard error."),
]
Seed = Annotated[int, seed_option("Of random contents.")]

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="LEVEL",
        help="Level of FILE.mlir: baco, linalg, instgem or llvm; default: found out.",
        rich_help_panel=_CODE,
    ),
]
Entry = Annotated[
    str | None,
    typer.Option(
        "--entry", metavar="NAME", help="Function to run; default: the only one.", rich_help_panel=_CODE
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument: int8[64,64] (random), int8[64,64]:output, FILE.npy, or a number of a kernel's. Repeatable, "
        "in the order of the function's arguments.",
        rich_help_panel=_CODE,
    ),
]
Grid = Annotated[
    str | None,
    typer.Option("--grid", metavar="N[,N]", help="Programs of a kernel.", rich_help_panel=_CODE),
]

Gemm = Annotated[
    str | None,
    typer.Option(
        "--gemm",
        metavar="[G:]MxKxN",
        help="Matrix product of M x K by K x N, G of them.",
        rich_help_panel=_LAYER,
    ),
]
Conv = Annotated[
    str | None,
    typer.Option(
        "--conv",
        metavar="SHAPE",
        help="Convolution, as [N,]HxWxC:K,k3,s2,p1,d1,g1; k3x5: 3 high, 5 wide.",
        rich_help_panel=_LAYER,
    ),
]
Bias = Annotated[bool, typer.Option("--bias", help="Add an int32 bias.", rich_help_panel=_LAYER)]
Relu = Annotated[bool, typer.Option("--relu", help="ReLU before requantisation.", rich_help_panel=_LAYER)]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", help="Of the requantisation to int8; default: one that suits.", rich_help_panel=_LAYER
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Keep int32 results.", rich_help_panel=_LAYER)]
Residual = Annotated[
    float | None,
    typer.Option(
        "--residual", metavar="SCALE", help="Add an int8 tensor times a scale.", rich_help_panel=_LAYER
    ),
]
Pool = Annotated[
    str | None,
    typer.Option(
        "--pool", metavar="SIZE,STRIDE[,PADDING]", help="Max pooling of the results.", rich_help_panel=_LAYER
    ),
]
Transposed = Annotated[
    bool, typer.Option("--transposed", help="The weights of --gemm are stored N x K.", rich_help_panel=_LAYER)
]
MappingText = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        metavar="TEXT",
        help="Loops to carry the layer out by, as 'L3[WIO] K48 - L2[WI] ...'.",
        rich_help_panel=_LAYER,
    ),
]
Style = Annotated[
    str,
    typer.Option("--style", help="auto (by estimated cycles), explicit or macro.", rich_help_panel=_LAYER),
]
Baseline = Annotated[
    bool,
    typer.Option("--baseline", help="Tiles of Gemmini's default heuristic.", rich_help_panel=_LAYER),
]

Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME|FILE",
        autocompletion=network_completions,
        help="A whole network in int8: built in (NAME[:OPTION=VALUE]), MODEL.onnx or CODE.py:FUNCTION; "
        "or the plan of a validated design (best/plan.json), with its accelerator and mappings.",
        rich_help_panel=_NETWORK,
    ),
]
Layers = Annotated[
    int | None,
    typer.Option(
        "--layers",
        metavar="N",
        help="Run repeated blocks only so many times.",
        rich_help_panel=_NETWORK,
    ),
]
Scales = Annotated[
    str,
    typer.Option("--scales", help="Of the quantisation: float or power-of-two.", rich_help_panel=_NETWORK),
]
Mappings = Annotated[
    str,
    typer.Option(
        "--mappings",
        metavar="WHOSE",
        help="On the design of a study's folder: 'study' takes its mappings where they are best, 'compiler' none.",
        rich_help_panel=_NETWORK,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FOLDER",
        help="Of a run on RTL: charts (network.html, network.png) and all figures (network.json).",
        rich_help_panel=_NETWORK,
    ),
]
CheckLayers = Annotated[
    bool,
    typer.Option(
        "--check-layers",
        help="The program compares what every operator wrote, and ends at the first difference.",
        rich_help_panel=_NETWORK,
    ),
]
Image = Annotated[
    Path | None,
    typer.Option(
        "--image", metavar="FILE", help="Write weights and tables here as well.", rich_help_panel=_NETWORK
    ),
]
