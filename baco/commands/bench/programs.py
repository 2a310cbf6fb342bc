"""`baco bench`: the RTL, and programs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from baco.cli.checked import Count
from baco.cli.compile_options import Accelerator
from baco.cli.experiments import check_names, say, show


def rtl(
    dim: list[int] | None = None,
    build: bool = True,
    facts: bool = True,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Simulation speed, use of the array, build time, and how the RTL's timing compares with the original's.

    Args:
        dim: Side of the array; repeatable; by default 16 and 32.
        build: Build the simulators anew and time that.
        facts: Also measure single timing facts (at dim 16).
        out: Folder for rtl-timing.md and rtl-bench.json.
    """
    from baco.bench.rtl.rtl import DIMS, bench_rtl, report_text, write_report

    result = bench_rtl(dim or DIMS, build=build, facts=facts, progress=say)
    if out is not None:
        write_report(result, out)
    show(result, report_text, json)


def compiler(
    accelerator: Accelerator = "gemmini-default",
    layers: Annotated[
        list[str] | None, typer.Option("--set", help="resnet50, gemm; repeatable; by default both.")
    ] = None,
    only: str | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Cycles of compiled layers on the RTL, against a bound and against Gemmini's default tiling.

    Args:
        only: Layers whose name contains this text.
        out: Folder for compiler-quality.md and compiler-quality.json.
    """
    from baco.accel.presets import load_accelerator
    from baco.bench.compiler import bench_compiler, report_text, write_report

    result = bench_compiler(
        load_accelerator(accelerator),
        tuple(layers or ("resnet50", "gemm")),
        only=only,
        progress=say,
    )
    if out is not None:
        write_report(result, out)
    show(result, report_text, json)


def programs(
    network: list[str] | None = None,
    samples: Count = 2000,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 3,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Whole programs on the RTL: the best designs in the area of gemmini-default against that machine and its tiling.

    Finished searches and runs are kept in the output folder: an interrupted benchmark goes on where it was.

    Args:
        network (-n): Repeatable; by default five networks.
        samples: Budget of each search in design points.
        seeds: Searches of each, with seeds 0, 1, ...
        out: Folder for whole-programs.md and .json, studies and finished runs.
    """
    from baco.bench.whole_programs import NETWORKS, whole_programs, whole_programs_table
    from baco.display.validation import make_display

    rows = whole_programs(network or NETWORKS, samples=samples, seeds=seeds, out=out, progress=make_display())
    show(rows, whole_programs_table, json)


def fusion(
    network: list[str] | None = None,
    samples: Count = 2000,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 3,
    out: Path = Path("baco-bench"),
    area: Annotated[list[float] | None, typer.Option(min=0.01)] = None,
    buffers: bool = False,
    json: bool = False,
) -> None:
    """Searches with groups of operators and without, within the same area: their best designs on the RTL.

    Finished searches and runs are kept in the output folder: an interrupted benchmark goes on where it was.

    Args:
        network (-n): Repeatable; by default four networks.
        samples: Budget of each search in design points.
        seeds: Searches of each, with seeds 0, 1, ...
        out: Folder for fusion.md and .json, studies and finished runs.
        area (MM2): Limit; repeatable; by default the area of gemmini-default.
        buffers: Instead, by prediction alone: where fusion pays and why not, by the size of scratchpad and accumulator.
    """
    from baco.bench.fusion import FUSION_NETWORKS, fusion_table
    from baco.bench.fusion import fusion as run_fusion
    from baco.display.validation import make_display

    if buffers:
        from baco.bench.buffers import buffers as run_buffers
        from baco.bench.buffers import buffers_table

        found = run_buffers(network or FUSION_NETWORKS, out=out, watch=say)
        show(found, buffers_table, json, page=True)
        return
    rows = run_fusion(
        network or FUSION_NETWORKS,
        samples=samples,
        seeds=seeds,
        out=out,
        areas=area or (),
        progress=make_display(),
    )
    show(rows, fusion_table, json)


def chains(
    chain: list[str] | None = None,
    accelerator: Accelerator = "gemmini-default",
    seeds: Annotated[int, typer.Option(min=1, max=100)] = 1,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Chains of two products or convolutions as one unit and one by one on the RTL: cycles and bytes, measured and predicted.

    Args:
        chain: Repeatable: G1 to G12, C1 to C8; by default all.
        seeds: Weights and inputs of each.
        out: Folder for chains.md and chains.json.
    """
    from baco.bench.chains import CONVOLUTION_CHAINS, PRODUCT_CHAINS, chains_page
    from baco.bench.chains import chains as run_chains

    known = [*PRODUCT_CHAINS, *CONVOLUTION_CHAINS]
    check_names(chain, known, "chain")
    rows = run_chains(
        chain or known,
        machine=accelerator,
        seeds=seeds,
        out=out,
        watch=say,
    )
    show(rows, chains_page, json, page=True)


def kernels(
    accelerator: Accelerator = "gemmini-default",
    only: list[str] | None = None,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Products in the block language on the RTL: against the layer path, the same block by block, and published schedules; and
    attention, causal too, on a machine with units for functions of rows, against the time of its products alone.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.

    Args:
        only: products, published, attention, causal; repeatable; by default all stages.
        out: Folder for kernels.* and attention.* (md, json).
    """
    from baco.bench.attention import ATTENTION, CAUSAL, attention, attention_page
    from baco.bench.kernels import STAGES, kernels_page
    from baco.bench.kernels import kernels as run_kernels

    of_attention = {"attention": ATTENTION, "causal": CAUSAL}
    stages = only or [*STAGES, *of_attention]
    of_products = [one for one in stages if one not in of_attention]
    rows: list[dict[str, Any]] = []
    pages = []
    if of_products:
        rows = run_kernels(machine=accelerator, stages=of_products, out=out, watch=say)
        pages.append(kernels_page(rows))
    if any(one in stages for one in of_attention):
        whole, causal = (of if one in stages else () for one, of in of_attention.items())
        found = attention(whole, causal, out=out, watch=say)
        rows = [*rows, *found]
        pages.append(attention_page(found))
    show(rows, lambda _: "\n".join(pages), json, page=True)


def trees(
    chain: list[str] | None = None,
    rounds: Count = 8,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 3,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Fused dataflows of chains of operators on the Edge and Cloud machines: published ones and searched tile trees.

    Args:
        chain: Repeatable, as of `baco fuse`; by default nine.
        rounds: Generations of each search.
        seeds: Searches of each, with seeds 0, 1, ...
        out: Folder for trees.md and trees.json.
    """
    from baco.bench.trees import TREE_CHAINS, trees_page
    from baco.bench.trees import trees as run_trees

    rows = run_trees(
        chain or list(TREE_CHAINS),
        rounds=rounds,
        seeds=seeds,
        out=out,
        watch=say,
    )
    show(rows, trees_page, json, page=True)


def intrinsics(
    accelerator: Accelerator = "gemmini-transformer",
    kinds_only: bool = False,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Operators without a rule of their own on the RTL: cycles against a bound, and how well matchings are ranked.

    Args:
        kinds_only: Leave out the ranking of all matchings of small layers.
        out: Folder for intrinsics.md and intrinsics.json.
    """
    from baco.bench.intrinsics.run import bench_intrinsics, intrinsics_page

    result = bench_intrinsics(
        accelerator,
        kinds_only=kinds_only,
        out=out,
        say=say,
    )
    show(result, intrinsics_page, json, page=True)


def pipelining(
    kernel: list[str] | None = None,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Kernels with loads one to four rounds ahead of loops on the RTL: cycles, and those that the model of stages predicts.

    Args:
        kernel (NAME): Repeatable; by default all.
        out: Folder for pipelining.md and pipelining.json.
    """
    from baco.bench.pipelining import KERNELS, bench_pipelining, pipelining_page

    check_names(kernel, KERNELS, "kernel")
    rows = bench_pipelining(kernel, out=out, watch=say)
    show(rows, pipelining_page, json, page=True)
