"""Generation of Verilog from small source folders, and the settings that simulators read."""

import re
from pathlib import Path

import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator, preset_names
from baco.accel.verilog.generate import TOP, config_lines, rtl_features, rtl_parameters, rtl_problems, verilog
from baco.common.errors import InfeasibleError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "baco_accelerator.v").write_text(
        "module baco_accelerator #(parameter DIM = `BACO_DIM) (input wire clock);\n"
        "  baco_b u_b (.clock(clock));\n"
        "`ifdef BACO_LOOP_CONV\n  baco_conv u_conv (.clock(clock));\n`endif\n"
        "  baco_c #(.DIM(DIM)) u_c (.clock(clock));\nendmodule\n"
    )
    (tmp_path / "baco_b.v").write_text(
        "module baco_b (input wire clock);\n  baco_d u (.clock(clock));\nendmodule\n"
    )
    (tmp_path / "baco_c.v").write_text(
        "module baco_c #(parameter DIM = 2) (input wire clock);\n"
        "  wire x = clock == 7'd0 && `BACO_ISA_MVIN == 7'd2;\n  baco_d u (.clock(clock));\nendmodule\n"
    )
    for name in ("baco_d", "baco_conv", "baco_unused"):
        (tmp_path / f"{name}.v").write_text(f"module {name} (input wire clock);\nendmodule\n")
    return tmp_path


def _modules(text: str) -> list[str]:
    return re.findall(r"^module (\w+)", text, re.MULTILINE)


def test_only_what_is_needed_is_in_the_file(sources: Path) -> None:
    accelerator = load_accelerator("gemmini-default")
    text = verilog(accelerator, sources)
    assert _modules(text) == [TOP, "baco_b", "baco_d", "baco_conv", "baco_c"]
    assert "`ifdef" not in text
    assert f"`define BACO_CONFIG_HASH 64'h{accelerator.config_hash}\n" in text
    assert "`define BACO_DIM 16\n" in text
    assert "`define BACO_ISA_MVIN 7'd2\n" in text
    assert "BACO_ISA_MVOUT" not in text, "only constants that are used"
    assert text.startswith("// Accelerator gemmini-default, configuration ")
    without = accelerator.replace(features={"loop_conv": False})
    assert _modules(verilog(without, sources)) == [TOP, "baco_b", "baco_d", "baco_c"]
    assert "baco_conv" not in verilog(without, sources)


def test_same_text_for_the_same_configuration(sources: Path) -> None:
    accelerator = load_accelerator("gemmini-lean")
    assert verilog(accelerator, sources) == verilog(
        Accelerator.model_validate(accelerator.model_dump()), sources
    )


def test_a_missing_module_is_named(sources: Path) -> None:
    (sources / "baco_d.v").unlink()
    with pytest.raises(ValueError, match=r"no baco_d\.v"):
        verilog(load_accelerator("gemmini-lean"), sources)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_bits": 32}, "input_bits must be 8 or 16, not 32"),
        ({"accumulator_bits": 16, "partial_sum_bits": 16}, "accumulator_bits must be 32, not 16"),
        ({"dim": 12}, "dim must be a power of two, not 12"),
        ({"scratchpad_banks": 3}, "scratchpad_banks must be a power of two, not 3"),
        ({"accumulator_banks": 3}, "accumulator_banks must be a power of two, not 3"),
        (
            {"dim": 128, "scratchpad_kib": 17, "scratchpad_banks": 16},
            "the 136 rows must be divisible by scratchpad_banks (16), 8 are left",
        ),
        ({"dim": 128, "accumulator_kib": 32}, "the accumulator must have at least 128 rows, not 64"),
        ({"dim": 2, "scratchpad_kib": 1 << 17}, "at most 33554432 rows, not 67108864"),
    ],
)
def test_what_cannot_be_built(changes: dict[str, object], message: str) -> None:
    accelerator = load_accelerator("gemmini-default").replace(**changes)
    assert [one for one in rtl_problems(accelerator) if message in one]
    with pytest.raises(InfeasibleError, match="no RTL can be built") as error:
        verilog(accelerator)
    assert message in str(error.value)


@pytest.mark.parametrize("name", preset_names())
def test_presets_can_be_built(name: str) -> None:
    assert rtl_problems(load_accelerator(name)) == []


def test_features_follow_the_configuration() -> None:
    default = load_accelerator("gemmini-default")
    assert rtl_features(default) == {
        **dict.fromkeys(
            ["BACO_WS", "BACO_OS", "BACO_LOOP_WS", "BACO_LOOP_CONV", "BACO_TRAINING_CONVS"], True
        ),
        **dict.fromkeys(["BACO_DEPTHWISE", "BACO_FIRST_LAYER", "BACO_MAX_POOL", "BACO_ACTIVATIONS"], True),
        **dict.fromkeys(["BACO_MVIN_SCALE", "BACO_ACC_SCALE", "BACO_READ_SMALL", "BACO_READ_FULL"], True),
        **dict.fromkeys(["BACO_PRELOAD_D", "BACO_WRITE_SCRATCHPAD", "BACO_COUNTERS"], True),
        **dict.fromkeys(["BACO_NORMALIZATIONS", "BACO_MVIN_SCALE_ACC", "BACO_ROW_FUNCTIONS"], False),
        "BACO_REQUANTIZATION": False,
        "BACO_PACKED_WEIGHTS": False,
        "BACO_BLOCK_WEIGHTS": False,
        **dict.fromkeys(["BACO_FP8", "BACO_FP8_E5M2", "BACO_FP8_SCALE"], False),
    }
    lean = rtl_features(load_accelerator("gemmini-lean").replace(counters=0))
    assert not any(lean[name] for name in ("BACO_OS", "BACO_PRELOAD_D", "BACO_COUNTERS", "BACO_READ_FULL"))
    both = default.replace(features={"preload_d": False})
    assert rtl_features(both)["BACO_PRELOAD_D"], "with both dataflows the option has no effect"


def test_parameters_follow_the_configuration() -> None:
    accelerator = load_accelerator("gemmini-large").replace(execute_queue=5, partial_sum_bits=20)
    parameters = rtl_parameters(accelerator)
    assert parameters["DIM"] == 32
    assert parameters["SP_ROWS"] == 512 * 1024 // 32
    assert parameters["ACC_ROWS"] == 128 * 1024 // (32 * 4)
    assert (parameters["EX_QUEUE"], parameters["PSUM_BITS"]) == (5, 20)


def test_settings_are_the_names_the_simulator_knows() -> None:
    known = re.findall(r'\{"(\w+)", &c\.\w+\}', (ROOT / "baco/sim/cpp/config.cpp").read_text())
    lines = dict(line.split() for line in config_lines(load_accelerator("gemmini-lean")).splitlines())
    assert sorted(lines) == sorted(known)
    assert set(Features.model_fields) <= set(lines)
    assert (lines["os"], lines["ws"], lines["scratchpad_rows"], lines["preload_d"]) == (
        "0",
        "1",
        "16384",
        "0",
    )
