"""`baco export-chipyard`: an accelerator as a configuration of Gemmini's generator."""

from __future__ import annotations

from pathlib import Path

from baco.cli.compile_options import AcceleratorArgument


def export_chipyard(
    accelerator: AcceleratorArgument,
    out: Path,
    json: bool = False,
) -> None:
    """Write a Scala configuration for Chipyard, the matching C header and the configuration itself.

    What Gemmini's generator would refuse is an error; what it cannot express is listed.

    The next steps, in a Chipyard that builds Gemmini's own configurations:

    1. Put the Scala file beside Configs.scala in generators/gemmini/src/main/scala/gemmini, and add a class to
    generators/chipyard/src/main/scala/config that mixes the file's Config into a system, as GemminiRocketConfig does.

    2. In sims/verilator or sims/vcs, run make with CONFIG set to that class. Run programs on the simulator with
    "baco simulate PROGRAM.elf -a DIR/accelerator.yaml --engine chipyard --simulator PATH".

    3. For Spike, put gemmini_params.h into generators/gemmini/software/libgemmini and run "make install" there. Then
    run programs with "baco simulate PROGRAM.elf -a DIR/accelerator.yaml --engine spike --spike PATH".

    Programs must be compiled with the same gemmini_params.h.

    Args:
        out (-o, DIR): The folder to write into.
    """
    from baco.accel.c_header import c_header
    from baco.accel.chipyard import chipyard_notes, scala_config, scala_name
    from baco.accel.presets import load_accelerator
    from baco.common.files import atomic_write, output_folder
    from baco.common.text import one_line
    from baco.display.console import print_json, stdout

    configuration = load_accelerator(accelerator)
    files = {
        f"{scala_name(configuration)}.scala": scala_config(configuration),
        "gemmini_params.h": c_header(configuration),
        "accelerator.yaml": configuration.to_yaml(),
    }
    folder = output_folder(out)
    for name, text in files.items():
        atomic_write(folder / name, text)
    notes = chipyard_notes(configuration)
    if json:
        print_json({"files": [str(folder / name) for name in files], "notes": notes})
        return
    console = stdout()
    for name in files:
        console.print(one_line(str(folder / name)))
    console.print("not expressed, or different in Gemmini:")
    for note in notes:
        console.print(f"  * {note}")
