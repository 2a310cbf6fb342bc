"""Engines that run a simulator of the user's, against stand-ins that replay what such simulators print.

The recordings follow the sources named in the engines and logs in the projects' issues: ucb-bar/gemmini 28, 118, 275
and 304, ucb-bar/chipyard 1283 and 1541.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from baco.accel.chipyard import chipyard_notes
from baco.accel.config import Accelerator
from baco.accel.elf_note import note_bytes
from baco.common.errors import InfeasibleError, InputError
from baco.main import run
from baco.sim.engines import external
from baco.sim.engines.base import EXTERNAL_ENGINES, engine_for, run_job
from baco.sim.job import Job, Limits, MainMemory, Recording, Simulation, SimulationError
from tests.sim.test_elf import BASE, elf_bytes

GEMMINI = Accelerator(name="small", dim=16, scratchpad_kib=256, accumulator_kib=64)
BANNER = "Gemmini extension configured with:\n    dim = 16\n"
UART = "[UART] UART0 is here (stdin/stdout).\n"
EMULATOR = (
    "This emulator compiled with JTAG Remote Bitbang client. To enable, use +jtag_rbb_enable=1.\n"
    "Listening on port 45425\n" + UART
)
FINISH = "- /home/me/chipyard/sims/verilator/generated-src/gen-collateral/TestDriver.v:158: Verilog $finish\n"
VCS_HEAD = (
    "Chronologic VCS simulator copyright 1991-2023\nContains Synopsys proprietary information.\n"
    "Compiler version V-2023.12-SP1_Full64; Runtime version V-2023.12-SP1_Full64;  Aug 28 12:07 2024\n"
)
VCS_TAIL = (
    '$finish called from file "/home/me/chipyard/sims/vcs/generated-src/TestDriver.v", line 158.\n'
    "$finish at simulation time         482140000\n           V C S   S i m u l a t i o n   R e p o r t \n"
    "Time: 482140000 ps\nCPU Time:      7.710 seconds;       Data structure size:   2.1Mb\n"
    "Wed Aug 28 12:07:31 2024\n"
)


def stand_in(folder: Path, output: str = "", errors: str = "", ending: str = "sys.exit(0)") -> Path:
    """An executable that writes its arguments down, prints and ends (`ending`: Python)."""
    path = folder / "simulator-chipyard-StandIn"
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys, time, json\n"
        "if '--help' in sys.argv:\n"
        "    print('Spike RISC-V ISA Simulator 1.1.1-dev\\n', file=sys.stderr)\n"
        "    sys.exit(0)\n"
        f"open({str(folder / 'arguments')!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        f"sys.stdout.write({output!r}); sys.stdout.flush()\n"
        f"sys.stderr.write({errors!r}); sys.stderr.flush()\n"
        f"{ending}\n"
    )
    path.chmod(0o755)
    return path


def arguments(folder: Path) -> list[str]:
    found = json.loads((folder / "arguments").read_text())
    assert isinstance(found, list)
    return found


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return write_program(tmp_path)


def write_program(folder: Path, name: str = "p.elf", **settings: Any) -> Path:
    symbols = settings.pop("symbols", {"tohost": BASE + 64, "fromhost": BASE + 128})
    path = folder / name
    path.write_bytes(elf_bytes([(BASE, b"\x13\0\0\0", 256)], symbols=symbols, **settings))
    return path


def go(engine: str, simulator: Path, program: Path, **settings: Any) -> Simulation:
    accelerator = settings.pop("accelerator", GEMMINI)
    return run_job(Job(accelerator, program=program, simulator=simulator, **settings), engine=engine)


# ---------------------------------------------------------------- Spike


def test_spike_passes(tmp_path: Path, program: Path) -> None:
    seen: list[str] = []
    result = go("spike", stand_in(tmp_path, "one\ntwo\n" + BANNER), program, console=seen.append)
    assert (result.engine, result.exit_code) == ("spike", 0)
    assert result.console == "one\ntwo\n" == "".join(seen)
    assert result.tools["spike"].startswith("1.1.1-dev, simulator-chipyard-StandIn (sha256 ")
    assert result.config_hash == GEMMINI.config_hash
    assert result.notes == (
        "the program carries no configuration hash: whether it fits the accelerator is not known",
    )
    # what is not measured is not 0
    assert (result.cycles, result.instructions, result.macs, result.dram_read_bytes) == (None,) * 4
    assert (result.commands, result.counters) == ({}, {})
    assert arguments(tmp_path) == [
        *("--isa=rv64gc", "-m0x80000000:0x20000000", "--extension=gemmini"),
        str(program),
    ]
    json.dumps(result.to_dict())


@pytest.mark.parametrize(("code", "status"), [(3, 3), (300, 44), (256, 0), (-1, 255)])
def test_spike_fails_with_any_code(tmp_path: Path, program: Path, code: int, status: int) -> None:
    spike = stand_in(tmp_path, "abc" + BANNER, f"*** FAILED *** (tohost = {code})\n", f"sys.exit({status})")
    result = go("spike", spike, program)
    assert (result.exit_code, result.console) == (code, "abc")


def test_spike_without_a_word_gives_the_codes_of_system_calls(tmp_path: Path, program: Path) -> None:
    assert go("spike", stand_in(tmp_path, BANNER, ending="sys.exit(5)"), program).exit_code == 5


@pytest.mark.parametrize(
    ("errors", "code", "message"),
    [
        ("couldn't find extension 'gemmini' in shared library 'libcustomext.so'\n", 255, "libgemmini builds"),
        (
            "Failed to run dtc: No such file or directory\nChild dtc_output process failed\n",
            1,
            "device tree compiler",
        ),
        (
            "terminate called after throwing an instance of 'std::out_of_range'\n"
            "  what():  vector::_M_range_check: __n (which is 2097152) >= this->size() (which is 2097152)\n",
            255,
            "_M_range_check",
        ),
        ("", 1, "ended with code 1"),
    ],
)
def test_spike_itself_fails(tmp_path: Path, program: Path, errors: str, code: int, message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        go("spike", stand_in(tmp_path, "", errors, f"sys.exit({code})"), program)
    assert caught.value.kind == "crash"
    assert message in str(caught.value)


def test_spike_of_another_array(tmp_path: Path, program: Path) -> None:
    other = GEMMINI.replace(name="other", dim=8)
    with pytest.raises(InfeasibleError, match="has dim = 16, accelerator 'other' has 8"):
        go("spike", stand_in(tmp_path, BANNER), program, accelerator=other)


@pytest.mark.parametrize("garbage", ["", "hello\n", "    dim = 16\n", "\xff\0\x01"])
def test_something_that_is_no_spike(tmp_path: Path, program: Path, garbage: str) -> None:
    with pytest.raises(SimulationError, match="no Gemmini ran"):
        go("spike", stand_in(tmp_path, garbage), program)


def test_arguments_for_spike_and_its_memory(tmp_path: Path, program: Path) -> None:
    spike, memory = stand_in(tmp_path, BANNER), MainMemory(size_bytes=1 << 20)
    extra = ("--extlib=/x/libgemmini.so", "--isa=rv64gc_zba")
    go("spike", spike, program, engine_arguments=extra, memory=memory)
    assert arguments(tmp_path) == [
        *("--isa=rv64gc", "-m0x80000000:0x100000", *extra, "--extension=gemmini"),
        str(program),
    ]
    go("spike", spike, program, engine_arguments=("--extension=mine",))
    assert "--extension=gemmini" not in arguments(tmp_path)


# ---------------------------------------------------------------- Chipyard


@pytest.mark.parametrize(
    ("output", "errors", "status", "wanted"),
    [
        # emulator.cc, with +cycle-count
        (EMULATOR + "hi\n", "*** PASSED *** Completed after 101901 cycles\n", 0, (0, 101901, "hi\n")),
        # emulator.cc (gemmini issue 304)
        (
            EMULATOR + "C:\n127 24\n\n",
            "*** FAILED *** (tohost = 1)\n*** FAILED *** (code = 1, seed 1689437052) after 101901 cycles\n",
            1,
            (1, 101901, "C:\n127 24\n\n"),
        ),
        # chipyard issue 1283: Verilator, then VCS, which ends well
        (
            UART,
            "*** FAILED *** (tohost = -1)\n*** FAILED *** (code = -1, seed 1670529991) after 10634 cycles\n",
            2,
            (-1, 10634, ""),
        ),
        (VCS_HEAD + UART + "x\n" + VCS_TAIL, "*** FAILED *** (tohost = 7)\n", 0, (7, None, "x\n")),
        # over the debug module
        (EMULATOR, "*** FAILED *** via dtm (code = 4, seed 3) after 77 cycles\n", 4, (4, 77, "")),
        # TestDriver.v without and with +verbose; the program's last line has no end
        (UART + "ab" + FINISH, "", 0, (0, None, "ab")),
        (
            UART + "ab\n" + FINISH + "- S i m u l a t i o n   R e p o r t: Verilator 5.022 2024-02-24\n",
            "C0:      12345 [1] pc=[0000000080000000] W[r10=0]\n"
            "*** PASSED *** Completed after               229097 simulation cycles\n",
            0,
            (0, 229097, "ab\n"),
        ),
        (VCS_HEAD + UART + "ab" + VCS_TAIL, "", 0, (0, None, "ab")),
        # SimTSI's assertion, with Verilator on standard output
        (
            UART
            + "no\n[938305000] %Error: TestHarness.sv:99: Assertion failed in TOP.TestDriver.testHarness:"
            + " Assertion failed: *** FAILED *** (exit code =          3)\n"
            + "%Error: /home/me/TestHarness.sv:99: Verilog $stop\nAborting...\n",
            "*** FAILED *** (tohost = 3)\n",
            255,
            (3, None, "no\n"),
        ),
        # both streams in one, by a wrapper
        (UART + "no\n*** FAILED *** (tohost = 3)\n" + FINISH, "", 0, (3, None, "no\n")),
        # a program that prints what harnesses print
        (
            UART + "*** FAILED *** (tohost = 9)\nok\n" + FINISH,
            "*** PASSED *** Completed after 5 cycles\n",
            0,
            (0, 5, "ok\n"),
        ),
    ],
)
def test_chipyard_ends(
    tmp_path: Path,
    program: Path,
    output: str,
    errors: str,
    status: int,
    wanted: tuple[int, int | None, str],
) -> None:
    result = go("chipyard", stand_in(tmp_path, output, errors, f"sys.exit({status})"), program)
    assert (result.exit_code, result.counters.get("harness_cycles"), result.console) == wanted
    assert result.cycles is None
    assert ("clock" in " ".join(result.notes)) == (wanted[1] is not None)


def test_chipyard_arguments_tools_and_counters(tmp_path: Path, program: Path) -> None:
    output = UART + "Cycles taken: 120\nCPU conv took 9994294 cycles\nmcycle = 229097\n3 cats\n"
    simulator = stand_in(tmp_path, VCS_HEAD + output + VCS_TAIL)
    result = go("chipyard", simulator, program, engine_arguments=("+dramsim", "+loadmem=x"))
    assert arguments(tmp_path) == [
        *("+permissive", "+cycle-count", "+max-cycles=4000000000", "+dramsim", "+loadmem=x"),
        *("+permissive-off", str(program)),
    ]
    assert result.counters == {
        "simulated_picoseconds": 482140000,
        "printed_cycles_1": 120,
        "printed_cycles_2": 9994294,
        "printed_cycles_3": 229097,
    }
    assert result.tools["simulator"].startswith("simulator-chipyard-StandIn (sha256 ")
    assert result.tools["vcs"] == "V-2023.12-SP1_Full64"
    go("chipyard", simulator, program, limits=Limits(max_cycles=0))
    assert not any("max-cycles" in argument for argument in arguments(tmp_path))


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ("*** FAILED *** via trace_count (timeout, seed 1670529991) after 5000 cycles\n", 2),
        ("*** FAILED ***" + " " * 20 + "\0 (timeout) after                 5000 simulation cycles\n", 1),
    ],
)
def test_chipyard_reaches_its_limit_of_cycles(
    tmp_path: Path, program: Path, errors: str, status: int
) -> None:
    with pytest.raises(SimulationError, match="limit of 5,000 cycles") as caught:
        go("chipyard", stand_in(tmp_path, UART + "a\n", errors, f"sys.exit({status})"), program)
    assert (caught.value.kind, caught.value.console) == ("max_cycles", "a\n")


def test_an_assertion_of_the_hardware(tmp_path: Path, program: Path) -> None:
    output = UART + (
        "Gemmini conv...\n"
        "[10655] %Error: top.v:224033: Assertion failed in TOP.TestHarness.chiptop.gemmini.spad\n"
        "%Error: /home/me/top.v:224033: Verilog $stop\nAborting...\n"
    )
    simulator = stand_in(tmp_path, output, ending="os.kill(os.getpid(), signal.SIGABRT)")
    with pytest.raises(SimulationError, match=r"hardware stopped(?s:.*)gemmini\.spad") as caught:
        go("chipyard", simulator, program)
    assert (caught.value.kind, caught.value.console) == ("crash", "Gemmini conv...\n")
    # where assertions do not stop, a result says so
    simulator = stand_in(tmp_path, output + "done\n" + FINISH)
    result = go("chipyard", simulator, program)
    assert result.console == "Gemmini conv...\ndone\n"
    assert any("complained" in note and "gemmini.spad" in note for note in result.notes)


@pytest.mark.parametrize(
    ("output", "errors", "ending", "message"),
    [
        ("", "", "sys.exit(0)", "ended with code 0 and did not tell"),
        ("\0\x80garbage\n" * 9, "nonsense\n", "sys.exit(0)", "nonsense"),
        (
            UART,
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  could not open +x (did you misspell it? If VCS, did you forget +permissive?)\n",
            "sys.exit(255)",
            "could not open",
        ),
        (UART + "half", "", "os.kill(os.getpid(), signal.SIGSEGV)", "ended with SIGSEGV"),
    ],
)
def test_chipyard_tells_nothing(
    tmp_path: Path, program: Path, output: str, errors: str, ending: str, message: str
) -> None:
    with pytest.raises(SimulationError) as caught:
        go("chipyard", stand_in(tmp_path, output, errors, ending), program)
    assert caught.value.kind == "crash"
    assert message in str(caught.value)


def test_a_crash_after_the_end_is_noted(tmp_path: Path, program: Path) -> None:
    passed = "*** PASSED *** Completed after 5 cycles\n"
    simulator = stand_in(tmp_path, UART, passed, "os.kill(os.getpid(), signal.SIGSEGV)")
    result = go("chipyard", simulator, program)
    assert result.exit_code == 0
    assert any("SIGSEGV after the program had ended" in note for note in result.notes)


# ---------------------------------------------------------------- both


@pytest.mark.parametrize("engine", sorted(EXTERNAL_ENGINES))
def test_the_time_limit_kills_all_that_was_started(tmp_path: Path, program: Path, engine: str) -> None:
    child = "import subprocess; p = subprocess.Popen(['sleep', '60'])\n"
    child += f"open({str(tmp_path / 'child')!r}, 'w').write(str(p.pid)); p.wait()"
    slow = stand_in(tmp_path, "so far\n", "trace\n", child)
    start = time.monotonic()
    with pytest.raises(SimulationError, match=r"time limit of 1\.5 s has passed") as caught:
        go(engine, slow, program, limits=Limits(timeout_seconds=1.5))
    assert time.monotonic() - start < 30
    assert (caught.value.kind, caught.value.console) == ("timeout", "so far\n")
    assert "trace" in caught.value.record["stderr"]
    assert not _alive(int((tmp_path / "child").read_text()))


def _alive(pid: int) -> bool:
    for _ in range(50):  # a killed process stays until it is waited for
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.1)
    return True


def test_what_the_simulator_leaves_behind_does_not_delay(tmp_path: Path, program: Path) -> None:
    # one in its session and one outside, both holding its output
    child = "import subprocess\nfor own in (False, True): subprocess.Popen(['sleep', '20'], start_new_session=own)"
    start = time.monotonic()
    assert go("spike", stand_in(tmp_path, BANNER, ending=child), program).exit_code == 0
    assert time.monotonic() - start < 18


def test_a_program_that_prints_for_ever(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "_CONSOLE_KEPT", 1000)
    endless = stand_in(tmp_path, ending="while True: os.write(1, b'x' * 4096)")
    job = Job(GEMMINI, program=program)
    with pytest.raises(SimulationError, match="more than 1,000,000 bytes were printed") as caught:
        external.run_external([str(endless)], job, _Quiet(), output_limit_bytes=1_000_000)
    assert caught.value.kind == "output"
    assert 1000 <= len(caught.value.console) < 1_000_000


class _Quiet:
    def output_line(self, line: str) -> int:
        return len(line)

    def error_line(self, line: str) -> None:
        pass


def test_much_output_is_counted_and_all_of_it_handed_on(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "_CONSOLE_KEPT", 1000)
    seen: list[str] = []
    lines = "0123456789\n" * 500
    result = go("spike", stand_in(tmp_path, lines + BANNER), program, console=seen.append)
    assert "".join(seen) == lines
    assert lines.startswith(result.console)
    assert f"{len(lines) - len(result.console):,} characters" in result.notes[-1]


def test_a_console_that_breaks_stops_nothing_but_is_told(tmp_path: Path, program: Path) -> None:
    def broken(text: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        go("spike", stand_in(tmp_path, "a\n" * 100_000 + BANNER), program, console=broken)


@pytest.mark.parametrize("engine", sorted(EXTERNAL_ENGINES))
def test_what_such_an_engine_refuses(tmp_path: Path, program: Path, engine: str) -> None:
    simulator = stand_in(tmp_path, BANNER)
    stream = tmp_path / "s.txt"
    stream.write_text("fence\n")
    with pytest.raises(InputError, match="not streams"):
        run_job(Job(GEMMINI, stream=stream, simulator=simulator), engine=engine)
    for recording in (Recording(waves=tmp_path / "w.vcd"), Recording(log=tmp_path / "l.csv")):
        with pytest.raises(InputError, match="neither waveforms nor a log"):
            go(engine, simulator, program, recording=recording)
    with pytest.raises(InputError, match="timing of memory"):
        go(engine, simulator, program, memory=MainMemory(latency_cycles=3))
    for argument in ("other.elf", "", "-", "+"):
        with pytest.raises(InputError, match="must begin with - or"):
            go(engine, simulator, program, engine_arguments=(argument,))
    lonely = write_program(tmp_path, "lonely.elf", symbols={"tohost": BASE + 64})
    with pytest.raises(InputError, match="no symbol 'fromhost'"):
        go(engine, simulator, lonely)
    foreign = write_program(tmp_path, "foreign.elf", notes=note_bytes("0123456789abcdef"))
    with pytest.raises(InputError, match="compiled for the accelerator 0123456789abcdef"):
        go(engine, simulator, foreign)
    with pytest.raises(InfeasibleError, match="dim must be a power of two, not 12"):
        go(engine, simulator, program, accelerator=GEMMINI.replace(dim=12))
    assert not (tmp_path / "arguments").exists()


def test_what_chipyard_cannot_express(tmp_path: Path, program: Path) -> None:
    narrow = GEMMINI.replace(dma_bits=32)
    plain = GEMMINI.replace(features=GEMMINI.features.model_copy(update={"loop_ws": False}))
    for accelerator, reason in ((narrow, "dma_bits is 32"), (plain, "always builds LOOP_WS")):
        assert any(reason in note for note in chipyard_notes(accelerator))
        with pytest.raises(InfeasibleError, match=reason):
            go("chipyard", stand_in(tmp_path, UART + FINISH), program, accelerator=accelerator)
        # the width of a port and an unused command change no result
        assert go("spike", stand_in(tmp_path, BANNER), program, accelerator=accelerator).exit_code == 0


def test_a_hash_that_fits_is_not_noted(tmp_path: Path) -> None:
    own = write_program(tmp_path, notes=note_bytes(GEMMINI.config_hash))
    assert go("spike", stand_in(tmp_path, BANNER), own).notes == ()


@pytest.mark.parametrize(
    ("engine", "variable", "option"),
    [("spike", "BACO_SPIKE", "--spike"), ("chipyard", "BACO_CHIPYARD_SIMULATOR", "--simulator")],
)
def test_finding_the_simulator(
    tmp_path: Path,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    variable: str,
    option: str,
) -> None:
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError, match=rf"does not bring along(?s:.*)`simulator`.*{variable}"):
        run_job(Job(GEMMINI, program=program), engine=engine)
    with pytest.raises(InputError, match="no such file"):
        go(engine, tmp_path / "absent", program)
    text = tmp_path / "text"
    text.write_text("hello")
    for path in (text, tmp_path):
        with pytest.raises(InputError, match="not an executable file"):
            go(engine, path, program)
    text.chmod(0o755)
    with pytest.raises(InputError, match="cannot be started: Exec format error"):
        go(engine, text, program)
    simulator = stand_in(tmp_path, BANNER + FINISH)
    monkeypatch.setenv(variable, str(simulator))
    assert run_job(Job(GEMMINI, program=program), engine=engine).exit_code == 0
    # a name is looked up as a shell does
    (tmp_path / "bin").mkdir()
    os.symlink(simulator, tmp_path / "bin" / "spike")
    assert go(engine, Path("spike"), program).exit_code == 0
    monkeypatch.delenv(variable)
    if engine == "spike":
        assert run_job(Job(GEMMINI, program=program), engine=engine).exit_code == 0


def test_unknown_engines_are_told_of_all() -> None:
    with pytest.raises(InputError, match="'spike'"):
        engine_for("spyke", None, GEMMINI)
    with pytest.raises(InputError, match="chipyard, functional, gemmini-model, rtl, soc, spike"):
        engine_for("zzzz", None, GEMMINI)


def call(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = run("baco", [str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, program: Path) -> None:
    simulator = stand_in(tmp_path, BANNER + "hello\n", "*** FAILED *** (tohost = 3)\n", "sys.exit(3)")
    first = ("simulate", program, "--engine", "spike", "--spike", simulator)
    code, out, err = call(capsys, *first, "--engine-argument=--extlib=x", "--engine-argument=-p1")
    assert (code, out.splitlines()[0]) == (1, "hello")
    assert "MACs" not in out
    assert "cycles" not in out
    assert "exit code 3" in err
    assert {"--extlib=x", "-p1"} <= set(arguments(tmp_path))
    simulator = stand_in(tmp_path, UART + "hello\n" + FINISH, "*** PASSED *** Completed after 1234 cycles\n")
    first = ("simulate", program, "--engine", "chipyard", "--simulator", simulator)
    code, out, err = call(capsys, *first)
    assert (code, err) == (0, "")
    assert out.startswith("hello\nharness cycles  1,234\n")
    code, out, err = call(capsys, *first, "--json")
    assert (code, json.loads(out)["counters"]) == (0, {"harness_cycles": 1234})
    for words, message in (
        (("--spike", simulator, "-e", "rtl"), "--spike is for the engine spike, not 'rtl'"),
        (("--simulator", simulator, "-e", "spike"), "--simulator is for the engine chipyard"),
        (("--engine-argument=+x",), "--engine-argument is for the engines spike and chipyard, not 'rtl'"),
        (("-e", "chipyard", "--simulator", tmp_path / "absent"), "no such file"),
    ):
        code, out, err = call(capsys, "simulate", program, *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err


def test_the_export_tells_the_next_steps(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "export-chipyard", "--help")
    assert code == 0
    out = " ".join(out.split())
    for word in ("Configs.scala", "sims/verilator", "libgemmini", "--engine chipyard", "--engine spike"):
        assert word in out
