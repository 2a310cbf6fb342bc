"""From a configuration to the hardware: one self-contained Verilog file, and the simulator's settings.

Sources lie in `accel/rtl`, one module a file, parametrised. What a configuration turns off is not in the text:
conditional blocks are resolved here, and modules that nothing instantiates any more are left out.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

from baco.accel.bus import BUS_TOPS, Bus, bus_constants
from baco.accel.config import PARAMETERS, Accelerator, Features
from baco.accel.dataflows import DATAFLOWS
from baco.accel.input_format import INPUT_FORMATS
from baco.accel.legality.document import verilog_constants
from baco.accel.system import System
from baco.accel.verilog.elements import of_width
from baco.accel.verilog.source import instantiated_modules, kept_lines, resolve_conditionals, used_macros
from baco.common.errors import InfeasibleError
from baco.common.provenance import versions

#: Name of the top module of an accelerator that is reached by its own ports.
TOP = BUS_TOPS["rocc"]
#: The file of macros where each module has a file of its own.
CONFIG_FILE = "baco_config.vh"
#: Width of a main-memory address at the accelerator's memory ports.
ADDRESS_BITS = 40
#: Width of a command's number inside the accelerator: at most 64 entries of each class.
_ID_BITS = 6
#: Parameters of the top module by the field or property of the configuration that they take their value from.
_PARAMETERS = {row.rtl_value or field: row.rtl for field, row in PARAMETERS.items() if row.rtl}
#: Macro names of the optional features where they are not `BACO_` and the field's name.
_MACRO_NAMES = {
    "depthwise_convs": "BACO_DEPTHWISE",
    "accumulator_scale": "BACO_ACC_SCALE",
    "read_small_width": "BACO_READ_SMALL",
    "read_full_width": "BACO_READ_FULL",
    "write_to_scratchpad": "BACO_WRITE_SCRATCHPAD",
}
#: What a file's first lines name only where it is built: netlists are known by their text, which is that of before for all others.
_NAMED_WHERE_BUILT = ("BACO_BLOCK_WEIGHTS",)
#: Largest row index a local address can hold.
_MAX_ROWS = 1 << 25


def rtl_problems(accelerator: Accelerator) -> list[str]:
    """Why our RTL cannot be built for this configuration, one sentence a reason; empty when it can."""
    found = []
    if accelerator.input_bits not in (8, 16):
        found.append(
            f"input_bits must be 8 or 16, not {accelerator.input_bits}: the array multiplies int8 or int16"
        )
    if accelerator.accumulator_bits != 32:
        found.append(f"accumulator_bits must be 32, not {accelerator.accumulator_bits}")
    if accelerator.dim.bit_count() != 1:
        found.append(f"dim must be a power of two, not {accelerator.dim}")
    for flow in accelerator.dataflows:
        if DATAFLOWS[flow].execute is None:
            found.append(f"dataflow must not be {flow}: the array has no hardware for it")
    for memory, rows, banks in (
        ("scratchpad", accelerator.scratchpad_rows, accelerator.scratchpad_banks),
        ("accumulator", accelerator.accumulator_rows, accelerator.accumulator_banks),
    ):
        if banks.bit_count() != 1:
            found.append(f"{memory}_banks must be a power of two, not {banks}")
        elif rows % banks:
            found.append(
                f"{memory}_kib: the {rows} rows must be divisible by {memory}_banks ({banks}),"
                f" {rows % banks} are left over"
            )
        if rows > _MAX_ROWS:
            found.append(f"{memory}_kib: a local address holds at most {_MAX_ROWS} rows, not {rows}")
        least = max(2 * banks, accelerator.dim)
        if rows < least:
            found.append(f"{memory}_kib: the {memory} must have at least {least} rows, not {rows}")
    if accelerator.execute_entries < 2:
        # a PRELOAD stays until the COMPUTE behind it is done
        found.append(f"execute_entries must be at least 2, not {accelerator.execute_entries}")
    return found


def check_rtl(accelerator: Accelerator) -> None:
    """Raise InfeasibleError with every one of `rtl_problems`, if there are any."""
    problems = rtl_problems(accelerator)
    if problems:
        raise InfeasibleError(
            f"no RTL can be built for accelerator '{accelerator.name}': " + "; ".join(problems),
            hint="change the fields named, or use the configuration with cost models only",
        )


def rtl_parameters(accelerator: Accelerator) -> dict[str, int]:
    """Values of the top module's parameters; each is the macro `BACO_` and its name in the generated file."""
    found = {macro: int(getattr(accelerator, field)) for field, macro in _PARAMETERS.items()}
    return found | {"ADDR_BITS": ADDRESS_BITS, "ID_BITS": _ID_BITS}


def rtl_features(accelerator: Accelerator) -> dict[str, bool]:
    """Macro names of the optional parts of the RTL, and whether this configuration has them."""
    found = {f"BACO_{flow}": flow in accelerator.dataflows for flow in ("WS", "OS")}
    for name in Features.model_fields:
        found[_macro_name(name)] = getattr(accelerator.features, name)
    # Gemmini's hardcode_d_to_garbage_addr has no effect when both dataflows are built
    found["BACO_PRELOAD_D"] |= accelerator.dataflow == "both"
    found["BACO_COUNTERS"] = accelerator.counters > 0
    # a scale of floating point is a power of two, and takes no time of its own
    floats = accelerator.floating
    found["BACO_FP8_SCALE"] = floats and found["BACO_ACC_SCALE"]
    found["BACO_ACC_SCALE"] &= not floats
    found |= {
        "BACO_FP8": floats,
        "BACO_FP8_E5M2": accelerator.input_format == "fp8-e5m2",
    }
    return found


def _conditions(accelerator: Accelerator) -> dict[str, bool]:
    """What the sources' conditional directives ask for: parts, and whether elements have 16 bits, and are integers."""
    wide = accelerator.input_bits == 16
    return rtl_features(accelerator) | {
        "BACO_WIDE_ELEMENTS": wide,
        "BACO_WIDE_INTEGERS": wide and not accelerator.floating,
    }


def _macro_name(feature: str) -> str:
    return _MACRO_NAMES.get(feature, f"BACO_{feature.upper()}")


def verilog(accelerator: Accelerator, sources: Path | None = None, bus: Bus = "rocc") -> str:
    """The accelerator as one self-contained Verilog file, the top module first.

    Args:
        accelerator: the configuration.
        sources: folder of the modules, one file each; by default those of this package.
        bus: what it is reached by, which says what the top is: `BUS_TOPS`.

    The same configuration gives the same text. Raises InfeasibleError as `check_rtl`.
    """
    check_rtl(accelerator)
    return _own_text(accelerator, bus) if sources is None else _text(accelerator, sources, bus)


def _text(accelerator: Accelerator, sources: Path | None, bus: Bus) -> str:
    modules = module_texts(accelerator, sources, bus)
    return "\n".join([*_head(accelerator, modules), "", *modules.values()])


@lru_cache(maxsize=16)
def _own_text(accelerator: Accelerator, bus: Bus) -> str:
    """Of this package's modules, which every run of a simulator asks for."""
    return _text(accelerator, None, bus)


def verilog_origins(accelerator: Accelerator, sources: Path | None = None) -> list[tuple[str, int]]:
    """Of each line of `verilog`, the source file and the number, from 1, of the line there; ("", 0) for what no source says.

    Raises InfeasibleError as `check_rtl`.
    """
    check_rtl(accelerator)
    modules = module_texts(accelerator, sources)
    features = _conditions(accelerator)
    found = [("", 0)] * (len(_head(accelerator, modules)))
    for name in modules:
        file = f"{name}.v"
        found.append(("", 0))
        found += [(file, number) for number in kept_lines(source_text(file, sources), features, file)]
    return found


def _head(accelerator: Accelerator, modules: dict[str, str]) -> list[str]:
    """Lines of one file of all modules before the first of them."""
    # a file of several modules cannot have the name of each
    lint = "// verilator lint_off DECLFILENAME"
    return [*_banner(accelerator, list(modules)), "", lint, "", *_macros(accelerator, modules)]


def verilog_files(accelerator: Accelerator, bus: Bus = "rocc") -> dict[str, str]:
    """The same text as `verilog` in a file a module, by the name of the file, and its macros in `CONFIG_FILE`.

    The top module's file comes first. Raises InfeasibleError as `check_rtl`.
    """
    check_rtl(accelerator)
    modules = module_texts(accelerator, None, bus)
    include = f'`include "{CONFIG_FILE}"\n'
    files = {f"{name}.v": (include if used_macros(text) else "") + text for name, text in modules.items()}
    lines = [
        *_banner(accelerator, list(modules)),
        "`ifndef BACO_CONFIG_HASH",
        *_macros(accelerator, modules),
        "`endif",
    ]
    return files | {CONFIG_FILE: "\n".join(lines) + "\n"}


def _macros(accelerator: Accelerator, modules: dict[str, str]) -> list[str]:
    """Definitions of the macros that the modules use."""
    found = {"BACO_CONFIG_HASH": f"64'h{accelerator.config_hash}"} | macro_definitions(accelerator, modules)
    return [f"`define {name} {value}" for name, value in found.items()]


def macro_definitions(accelerator: Accelerator, modules: dict[str, str]) -> dict[str, str]:
    """Values by name of an accelerator's parameters and of the constants that the modules use."""
    used = set().union(*map(used_macros, modules.values()))
    constants, bus = verilog_constants(), dict[str, str]()
    if BUS_TOPS["axi4"] in modules:
        # of its own name: what builds simulators leaves BACO_CONFIG_HASH out, since nothing in an accelerator reads it
        bus = bus_constants() | {"BACO_AXI_CONFIGURATION": f"64'h{accelerator.config_hash}"}
    return {
        **{f"BACO_{name}": str(value) for name, value in rtl_parameters(accelerator).items()},
        **{name: str(value) for name, value in constants.items() if name in used},
        **bus,
    }


def _banner(accelerator: Accelerator, modules: list[str]) -> list[str]:
    features = rtl_features(accelerator)
    on = [name.removeprefix("BACO_") for name, is_on in features.items() if is_on]
    if accelerator.input_bits == 16:
        on = [name.replace("FP8", "BF16") for name in on]
    off = [
        name.removeprefix("BACO_")
        for name, is_on in features.items()
        if not is_on and name not in _NAMED_WHERE_BUILT
    ]
    wide = " of int16" if accelerator.input_format == "int16" else ""
    return [
        f"// Accelerator {accelerator.name}, configuration {accelerator.config_hash}",
        f"// Generated by baco {versions().get('baco', '(not installed)')}",
        f"// {accelerator.dim} x {accelerator.dim} array{wide}, dataflow {accelerator.dataflow},"
        f" scratchpad {accelerator.scratchpad_kib} KiB, accumulator {accelerator.accumulator_kib} KiB",
        f"// Built: {' '.join(on) or 'nothing optional'}",
        f"// Left out: {' '.join(off) or 'nothing'}",
        f"// Modules: {' '.join(modules)}",
    ]


def module_texts(accelerator: Accelerator, sources: Path | None = None, bus: Bus = "rocc") -> dict[str, str]:
    """Resolved text of every module needed, the top first and each other one in the order of first use."""
    features = _conditions(accelerator)
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in found:
            return
        file = f"{name}.v"
        text = of_width(source_text(file, sources), accelerator.input_bits)
        found[name] = resolve_conditionals(text, features, file)
        for child in instantiated_modules(found[name]):
            visit(child)

    visit(BUS_TOPS[bus])
    return found


def source_text(file: str, sources: Path | None = None) -> str:
    """A file of `accel/rtl`, or of the folder given. Raises ValueError where there is none of that name."""
    folder = sources if sources is not None else resources.files("baco.accel") / "rtl"
    try:
        return (folder / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"the Verilog sources have no {file}") from None


def unit_lines(system: System) -> str:
    """A system as the simulators' C++ reads it: before the lines of each unit, `unit 1`, or `unit 0` for a core alone."""
    return "".join(
        "unit 0\n" if unit.accelerator is None else "unit 1\n" + config_lines(unit.accelerator)
        for unit in system.units
    )


def config_lines(accelerator: Accelerator) -> str:
    """The configuration as the simulators' C++ reads it: a line `name value` each, whole numbers only."""
    values = {field: getattr(accelerator, field) for field in _PARAMETERS}
    values |= {"ws": "WS" in accelerator.dataflows, "os": "OS" in accelerator.dataflows}
    values |= {name: getattr(accelerator.features, name) for name in Features.model_fields}
    values["input_format"] = INPUT_FORMATS.index(accelerator.input_format)
    return "".join(f"{name} {int(value)}\n" for name, value in values.items())
