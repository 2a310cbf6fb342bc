"""Simulations end to end: programs on both engines, streams, memory timing, limits, what is told about failures."""

import json
from pathlib import Path

import numpy as np
import pytest

from baco.accel.elf_note import SECTION
from baco.api.simulation import simulate
from baco.common.errors import InfeasibleError, InputError, StorageError
from baco.sim.engines.base import engine_for, run_job
from baco.sim.job import Job, Limits, MainMemory, Recording, Simulation, SimulationError
from baco.sim.trace import read_log
from tests.machines import SMALL
from tests.seeds import some
from tests.sim.harness_helpers import BASE, command, run_stub
from tests.sim.riscv_programs import compile_program

#: Those that need nothing but baco's own packages.
OWN_ENGINES = ("functional", "rtl")
PATTERN = "".join(f"{i:02x}" for i in range(64))


def read(size: int, address: int = BASE) -> str:
    """The stand-in reads `size` bytes and keeps the last 16."""
    return f"cmd 2 {address:x} {size << 32:x}\nfence\n"


@pytest.mark.parametrize("engine", OWN_ENGINES)
def test_a_program_computes_and_checks_a_product(tmp_path: Path, engine: str) -> None:
    elf = compile_program(tmp_path / "matmul.elf", Path("matmul.c"), "-DDIM=4")
    result = simulate(elf, SMALL, engine=engine)
    assert result.exit_code == 0
    assert result.console == "matmul is right\n"
    assert result.macs == 4**3
    assert result.dram_read_bytes == 2 * 16
    assert result.dram_write_bytes == 16
    assert result.commands["MVIN"] == 2
    assert sum(result.commands.values()) == 8 == result.counters["host_rocc_commands"]
    assert result.unrolled == result.commands
    assert (result.cycles is None) == (engine == "functional")
    if result.cycles is not None:
        assert result.utilisation == pytest.approx(64 / (result.cycles * 16))
        assert result.counters["host_cycles"] == result.cycles
        assert result.counters["accelerator_busy_cycles"] < result.cycles
    assert json.loads(json.dumps(result.to_dict()))["exit_code"] == 0


def loop_stream(a: np.ndarray, b: np.ndarray, scale: float, dim: int) -> str:
    """C = A B with one LOOP_WS over blocks; sizes are multiples of dim."""
    (rows, inner), cols = a.shape, b.shape[1]
    at_a, at_b, at_c = BASE, BASE + 0x10000, BASE + 0x20000
    lines = [f"write {at_a:x} {a.tobytes().hex()}\n", f"write {at_b:x} {b.tobytes().hex()}\n"]
    lines.append(command("CONFIG_EX", dataflow=1, a_stride=1, c_stride=1))
    for state, stride in enumerate((inner, cols, cols)):
        lines.append(command("CONFIG_LD", state=state, stride=stride, block_stride=dim, scale=1.0))
    lines.append(command("CONFIG_ST", stride=cols, acc_scale=scale))
    lines.append(command("LOOP_WS_CONFIG_BOUNDS", i=rows // dim, j=cols // dim, k=inner // dim))
    lines.append(command("LOOP_WS_CONFIG_ADDRS_AB", a=at_a, b=at_b))
    lines.append(command("LOOP_WS_CONFIG_ADDRS_DC", c=at_c))
    lines.append(command("LOOP_WS_CONFIG_STRIDES_AB", a_stride=inner, b_stride=cols))
    lines.append(command("LOOP_WS_CONFIG_STRIDES_DC", c_stride=cols))
    lines.append(command("LOOP_WS"))
    lines.append(f"fence\ndump {at_c:x} {rows * cols:x}\n")
    return "".join(lines)


def test_both_engines_agree_on_a_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((12, 20), (20, 16)))
    exact = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32) * np.float32(0.01)
    wanted = np.clip(np.rint(exact), -128, 127).astype(np.int8)
    stream = tmp_path / "loop.txt"
    stream.write_text(loop_stream(a, b, 0.01, SMALL.dim))
    results: dict[str, Simulation] = {}
    for engine in ("rtl", "functional"):
        results[engine] = run_job(Job(SMALL, stream=stream), engine=engine)
        got = np.frombuffer(results[engine].memory_dumps[0], np.int8).reshape(wanted.shape)
        np.testing.assert_array_equal(got, wanted)
    rtl, functional = results["rtl"], results["functional"]
    assert rtl.macs == functional.macs == 12 * 20 * 16
    assert rtl.unrolled == functional.unrolled
    assert rtl.commands == functional.commands
    # every block of A is used in all columns of blocks from the scratchpad: each byte comes once
    assert rtl.dram_read_bytes == a.size + b.size
    assert rtl.dram_write_bytes == wanted.size
    assert rtl.utilisation is not None
    assert 0 < rtl.utilisation <= 1


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize("latency", [0, 1, 60])
@pytest.mark.parametrize("bandwidth", [2.0, 8.0, 16.0])
def test_memory_latency_and_bandwidth(tmp_path: Path, size: int, latency: int, bandwidth: float) -> None:
    memory = MainMemory(latency_cycles=latency, bytes_per_cycle=bandwidth)
    result = run_stub(tmp_path, read(size), memory=memory)
    # the last beat is there when the last byte has come over the channel, and leaves in that cycle; beats leave one
    # a cycle from the cycle after the request on
    wanted = max(latency + size / bandwidth - 1, size / 16)
    assert result.counters["memory_read_latency_sum_cycles"] == wanted
    assert result.counters["memory_channel_busy_cycles"] == size / bandwidth
    assert result.dram_read_bytes == size
    assert result.counters["accelerator_read_beats"] == size // 16


def test_the_accelerator_sets_the_bandwidth_and_bursts_are_whole(tmp_path: Path) -> None:
    slow = SMALL.replace(dram_bytes_per_cycle=4.0)
    assert run_stub(tmp_path, read(64), accelerator=slow).counters["memory_channel_busy_cycles"] == 16
    burst = run_stub(tmp_path, read(16, BASE + 16), memory=MainMemory(burst_bytes=64))
    assert burst.dram_read_bytes == 64


@pytest.mark.parametrize("dma_bits", some(3, [32, 64, 512, 256]))
def test_ports_of_every_width(tmp_path: Path, dma_bits: int) -> None:
    beat = dma_bits // 8
    stream = (
        f"write {BASE:x} {PATTERN}\n{read(64)}cmd 3 {BASE + 256:x} 0\nfence\ndump {BASE + 256:x} {beat:x}\n"
    )
    result = run_stub(tmp_path, stream, accelerator=SMALL.replace(dma_bits=dma_bits))
    assert result.memory_dumps == (bytes(range(64 - beat, 64)),)
    assert result.counters["accelerator_read_beats"] == 64 // beat
    assert result.dram_write_bytes == max(beat, 8)  # whole bursts


def test_the_second_level_cache(tmp_path: Path) -> None:
    memory = MainMemory(
        l2_kib=1, l2_latency_cycles=20, latency_cycles=60, bytes_per_cycle=8.0
    )  # 2 sets of 8 ways
    last_beat = 64 // 16 - 1
    miss = run_stub(tmp_path, read(64), memory=memory).counters
    assert miss["memory_read_latency_sum_cycles"] == 20 + 60 + 64 / 8 + last_beat
    both = run_stub(tmp_path, read(64) * 2, memory=memory)
    hit = both.counters["memory_read_latency_sum_cycles"] - miss["memory_read_latency_sum_cycles"]
    assert hit == 20 + last_beat
    assert (both.counters["memory_l2_hits"], both.counters["memory_l2_misses"]) == (1, 1)
    assert both.dram_read_bytes == 64
    # a ninth line of a set drives out the least recently used, which is the second: the first was used again
    same_set = [BASE + 128 * i for i in range(8)]
    stream = "".join(
        read(64, at) for at in [*same_set, same_set[0], BASE + 128 * 8, same_set[0], same_set[1]]
    )
    counters = run_stub(tmp_path, stream, memory=memory).counters
    assert counters["memory_l2_hits"] == 2
    assert counters["memory_l2_misses"] == 10


def test_the_cache_writes_back_what_was_written(tmp_path: Path) -> None:
    write = f"cmd 3 {BASE:x} 0\nfence\n"
    memory = MainMemory(l2_kib=1)
    result = run_stub(tmp_path, write, memory=memory)
    assert (result.dram_write_bytes, result.counters["memory_l2_dirty_bytes"]) == (0, 64)
    evicting = write + "".join(read(64, BASE + 128 * i) for i in range(1, 9))
    result = run_stub(tmp_path, evicting, memory=memory)
    assert (result.dram_write_bytes, result.counters["memory_l2_dirty_bytes"]) == (64, 0)


def test_counters_answer_a_stream(tmp_path: Path) -> None:
    assert run_stub(tmp_path, "cmd 7e 29 0\ncmd 7e 1 0\n").console == "response 2a\nresponse 2\n"


def test_a_hang_names_what_is_in_flight(tmp_path: Path) -> None:
    with pytest.raises(SimulationError) as caught:
        run_stub(tmp_path, f"{read(16)}cmd 6 1 2\nfence\n", limits=Limits(stall_cycles=3000))
    error = caught.value
    assert error.kind == "stall"
    text = str(error)
    assert "nothing has moved for 3" in text
    assert "stream at line 4" in text
    assert text.count("MVIN") == 1
    assert text.count("PRELOAD") == 2  # among the last commands, and in flight
    assert "waiting" in text
    assert error.record["failure"]["in_flight"][0]["unit"] == "execute"


def test_limits_of_cycles_and_of_time(tmp_path: Path) -> None:
    work = "cmd 4 0 ffffffff\nfence\n"
    never = Limits(stall_cycles=0, max_cycles=5000)
    with pytest.raises(SimulationError, match="limit of 5000 cycles") as caught:
        run_stub(tmp_path, work, limits=never)
    assert caught.value.kind == "max_cycles"
    with pytest.raises(SimulationError, match=r"time limit of 0\.2 s") as caught:
        run_stub(tmp_path, work, limits=Limits(stall_cycles=0, max_cycles=0, timeout_seconds=0.2))
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("engine", OWN_ENGINES)
def test_a_program_that_loops_for_ever(tmp_path: Path, engine: str) -> None:
    elf = compile_program(tmp_path / "loop.elf", "int main(void) { for (;;) tohost; }")
    with pytest.raises(SimulationError, match="limit of 200000 cycles") as caught:
        simulate(elf, SMALL, engine=engine, limits=Limits(max_cycles=200_000))
    assert caught.value.record["failure"]["cycle"] < 210_000
    assert "host core at 0x8" in str(caught.value)


@pytest.mark.parametrize("engine", OWN_ENGINES)
def test_a_refused_command_is_named(tmp_path: Path, engine: str) -> None:
    source = "int main(void) { COMMAND(99, 5, 6); FENCE(); for (;;) tohost; }"
    elf = compile_program(tmp_path / "bad.elf", source)
    with pytest.raises(SimulationError, match="unknown command") as caught:
        simulate(elf, SMALL, engine=engine)
    refused = caught.value.record["failure"]["refused"]
    assert (refused["code"], refused["funct"], refused["rs1"], refused["rs2"]) == (1, 99, 5, 6)


def test_memory_faults_of_the_accelerator(tmp_path: Path) -> None:
    """Of commands, which are refused, and of an accelerator that touches what no command sends it to."""
    with pytest.raises(SimulationError, match="address outside main memory: MVIN address=0x1000 ") as caught:
        run_stub(tmp_path, read(64, 0x1000))
    assert caught.value.kind == "refused"
    last = BASE + MainMemory().size_bytes - 1  # of one byte; the stand-in reads 64
    with pytest.raises(
        SimulationError, match=f"accelerator read touches 64 bytes at address {last:#x}"
    ) as caught:
        run_stub(tmp_path, read(1, last))
    assert caught.value.kind == "memory"
    with pytest.raises(SimulationError, match="accelerator write"):
        run_stub(tmp_path, "cmd 3 9f000000000 0\nfence\n")


@pytest.mark.parametrize("engine", OWN_ENGINES)
def test_an_exception_without_handler(tmp_path: Path, engine: str) -> None:
    elf = compile_program(tmp_path / "fault.elf", "int main(void) { return *(volatile int*)8; }")
    with pytest.raises(SimulationError) as caught:
        simulate(elf, SMALL, engine=engine)
    assert caught.value.kind == "host"


def test_exit_code_console_and_callback(tmp_path: Path) -> None:
    elf = compile_program(tmp_path / "p.elf", 'int main(void) { print("a\\n"); print("b"); return 7; }')
    seen: list[str] = []
    result = run_job(Job(SMALL, program=elf, console=seen.append), engine="functional")
    assert result.exit_code == 7
    assert result.console == "a\nb" == "".join(seen)


def test_what_the_accelerator_wrote_is_seen_after_a_fence_only_by_waiting(tmp_path: Path) -> None:
    """The fence costs cycles when there is work, none when there is not."""
    busy = "COMMAND(0, 1ull | 4 << 16, 4); COMMAND(2, buffer, 0x0004000400000000);"
    source = "static char buffer[64] __attribute__((aligned(64)));\nint main(void) { %s FENCE(); return 0; }"
    with_work = simulate(compile_program(tmp_path / "a.elf", source % busy), SMALL)
    without = simulate(compile_program(tmp_path / "b.elf", source % ""), SMALL)
    assert with_work.counters["host_stall_fence"] >= 60  # the memory's latency
    assert without.counters["host_stall_fence"] == 0


def test_log_and_waves(tmp_path: Path) -> None:
    recording = Recording(waves=tmp_path / "w.vcd", log=tmp_path / "l.csv")
    result = run_stub(tmp_path, read(64), waves="vcd", recording=recording)
    vcd = (tmp_path / "w.vcd").read_text()
    assert "$enddefinitions" in vcd
    assert "rd_resp_data" in vcd
    front, load = read_log(tmp_path / "l.csv").entries
    assert (front.unit, front.name, load.unit, load.entry) == ("front", "MVIN", "load", 3)
    # accepted, requested in the next cycle, then the memory's answer
    assert load.allocated == front.allocated
    assert load.issued == load.allocated + 1
    assert load.done is not None
    assert load.done - load.issued == result.counters["memory_read_latency_sum_cycles"]


def test_waves_of_some_cycles(tmp_path: Path) -> None:
    part = Recording(waves=tmp_path / "w.vcd", waves_from=20, waves_until=30)
    run_stub(tmp_path, read(64), waves="vcd", recording=part)
    times = [int(line[1:]) for line in (tmp_path / "w.vcd").read_text().splitlines() if line.startswith("#")]
    assert times
    assert 40 <= min(times) <= max(times) < 60  # two a cycle


def test_what_cannot_be_run_is_one_message(tmp_path: Path) -> None:
    stream = tmp_path / "s.txt"
    stream.write_text("fence\nboo\n")
    with pytest.raises(InputError, match=r"line 2.*'boo'"):
        run_job(Job(SMALL, stream=stream), engine="functional")
    with pytest.raises(InputError, match="no such file"):
        run_job(Job(SMALL, stream=tmp_path / "absent"), engine="functional")
    stream.write_text("fence\n")
    waves = Recording(waves=tmp_path / "w.vcd")
    with pytest.raises(InputError, match="no waveforms"):
        run_job(Job(SMALL, stream=stream, recording=waves), engine="functional")
    with pytest.raises(InputError, match=r"written as \.vcd or \.fst"):
        run_job(Job(SMALL, stream=stream, recording=Recording(waves=tmp_path / "w.txt")))
    nowhere = Recording(log=tmp_path / "absent" / "l.csv")
    with pytest.raises(StorageError, match="cannot be written"):
        run_job(Job(SMALL, stream=stream, recording=nowhere), engine="functional")
    for engine in OWN_ENGINES:
        with pytest.raises(InfeasibleError, match="input_bits"):
            run_job(Job(SMALL.replace(input_bits=32), stream=stream), engine=engine)
    with pytest.raises(InputError, match="unknown engine 'rlt'"):
        engine_for("rlt", None, SMALL)


def test_disk_full(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(StorageError, match="the disk is full"):
        run_stub(tmp_path, read(64), recording=Recording(log=full))


def test_a_program_for_another_accelerator_is_refused(tmp_path: Path) -> None:
    def built_for(config_hash: str) -> Path:
        note = (
            f'asm(".section {SECTION},\\"a\\",@note\\n.long 5, 16, 1\\n.asciz \\"baco\\"\\n.balign 4\\n'
            f'.ascii \\"{config_hash}\\"\\n.text");\nint main(void) {{ return 0; }}'
        )
        return compile_program(tmp_path / "note.elf", note)

    other = SMALL.replace(dim=8).config_hash
    with pytest.raises(
        InputError, match=f"compiled for the accelerator {other}, this one is {SMALL.config_hash}"
    ):
        simulate(built_for(other), SMALL, engine="functional")
    result = simulate(built_for(SMALL.config_hash), SMALL, engine="functional")
    assert not any("configuration hash" in note for note in result.notes)
