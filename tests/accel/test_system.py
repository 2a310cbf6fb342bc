"""Systems: what they are said by, what they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.area import adapter_counts, arbiter_counts
from baco.accel.presets import is_system, load_accelerator, load_system, system_of
from baco.accel.system import System, SystemUnit
from baco.accel.verilog.generate import ADDRESS_BITS, source_text
from baco.accel.verilog.lint import lint
from baco.accel.verilog.structure import structure
from baco.accel.verilog.system import SYSTEM_TOP, accelerator_modules, system_verilog
from baco.common.errors import InputError
from baco.sim.toolchain import toolchain
from tests.machines import PAIR, PLAIN, SMALL
from tests.seeds import some


def test_a_file_names_units_beside_it(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(SMALL.to_yaml())
    path = tmp_path / "system.yaml"
    path.write_text("name: both\nunits: [own.yaml, 'gemmini-default,dim=8', host, own.yaml]\n")
    system = load_system(path)
    assert is_system(path)
    assert not is_system(tmp_path / "own.yaml")
    assert [unit.name for unit in system.units] == [
        "own.yaml (1)",
        "gemmini-default,dim=8",
        "host",
        "own.yaml (2)",
    ]
    assert system.accelerators == (SMALL, load_accelerator("gemmini-default,dim=8"), SMALL)
    assert system.units[2].accelerator is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("units: [host]", "one to 4 accelerators and at most 4 cores without, not 0 and 1"),
        ("units: [gemmini-default, nothing]", "no accelerator 'nothing'"),
        ("units: gemmini-default", "list"),
        ("units: [gemmini-default]\nbus: axi", "unknown key 'bus'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(text + "\n")
    with pytest.raises(InputError, match=message) as caught:
        load_system(path)
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == (str(path), text.count("\n") + 1)


def test_hardware_has_one_clock() -> None:
    with pytest.raises(InputError, match="clocks of 500 and 1000 MHz"):
        system_verilog(system_of(["gemmini-default", "gemmini-default,clock_mhz=500.0"]))


@pytest.mark.parametrize("count", some(1, [2, 1, 4]))
def test_verilator_finds_nothing_wrong_with_systems(count: int) -> None:
    tools = toolchain()
    lean = SMALL.replace(dataflow="OS", dma_requests=4)
    units = [
        *PAIR.units[2:],
        *(SystemUnit(f"u{n}", one) for n, one in enumerate((SMALL, lean, SMALL, lean)[:count])),
    ]
    system = System("several", tuple(units))
    text = system_verilog(system)
    assert lint(text, tools.verilator, tools.verilator_root, SYSTEM_TOP) == []
    names = ["baco_accelerator", "baco_accelerator_2", "baco_accelerator", "baco_accelerator_2"]
    assert accelerator_modules(system) == list(zip(range(1, count + 1), names, strict=False))
    # equal modules are there once, however many accelerators have them
    modules = [line.split()[1] for line in text.splitlines() if line.startswith("module ")]
    assert len(modules) == len(set(modules))
    assert modules.count("baco_fifo") == 1


@pytest.mark.parametrize(
    ("module", "widths", "depths", "counts"),
    [
        ("arbiter", {"UNITS": 2, "DMA_BITS": 64}, (20, 48), arbiter_counts(2, 64, 20, 48)),
        ("arbiter", {"UNITS": 3, "DMA_BITS": 64}, (20, 48), arbiter_counts(3, 64, 20, 48)),
        ("adapter", {"UNIT_BITS": 64, "DMA_BITS": 128}, (16, 4, 128), adapter_counts(64, 128, 16, 4, 128)),
        ("adapter", {"UNIT_BITS": 32, "DMA_BITS": 128}, (4, 2, 20), adapter_counts(32, 128, 4, 2, 20)),
    ],
)
def test_what_is_before_memory_has_as_many_registers_as_its_area_counts(
    module: str, widths: dict[str, int], depths: tuple[int, ...], counts: dict[str, float]
) -> None:
    values = widths | {"ADDR_BITS": ADDRESS_BITS}
    queues = ("READS", "WRITES") if len(depths) == 2 else ("READS", "BEATS", "WRITES")
    given = values | dict(zip(queues, depths, strict=True))
    text = source_text(f"baco_memory_{module}.v")
    head = text[text.index("module ") : text.index(");")]
    ports = [line.split("//")[0].strip(" ,") for line in head[head.index(") (") :].splitlines()[1:]]
    ports = [port for port in ports if port]
    names = [port.split()[-1] for port in ports]
    wires = ", ".join(port.replace("output reg", "output wire") for port in ports)
    for name, value in values.items():
        wires = wires.replace(name, str(value))
    parameters = ", ".join(f".{name}({value})" for name, value in given.items())
    whole = f"module whole ({wires});\n baco_memory_{module} #({parameters}) inside ("
    whole += ", ".join(f".{name}({name})" for name in names) + ");\nendmodule\n"
    modules = ("baco_arbiter", "baco_fifo") if module == "arbiter" else ("baco_fifo",)
    sources = [text, *(source_text(f"{name}.v") for name in modules)]
    total = structure("\n".join([whole, *sources]), "whole").total
    assert total.flip_flop_bits + total.memory_bits == counts["register_bits"]
    adders = sum(width * count for kind in (total.adders, total.comparators) for width, count in kind.items())
    assert 0.5 < counts["adder_bits"] / adders < 1.5


def test_a_system_takes_what_its_units_take_and_an_arbiter() -> None:
    alone = System.single(PLAIN)
    two = System("two", (SystemUnit("a", PLAIN), SystemUnit("b", SMALL), SystemUnit("host", None)))
    assert two.area_mm2 == pytest.approx(PLAIN.area_mm2 + SMALL.area_mm2 + two.arbiter_mm2)
    assert 0 < alone.arbiter_mm2 < two.arbiter_mm2 < 0.05
    # the interface of main memory is there once
    wide = [SystemUnit(name, PLAIN.replace(memory_mm2_per_gb_s=0.1)) for name in "ab"]
    both = System("both", tuple(wide))
    assert both.area_mm2 == pytest.approx(2 * PLAIN.area_mm2 + PLAIN.memory_gb_s * 0.1 + both.arbiter_mm2)
