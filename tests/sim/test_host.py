"""The host core runs programs: compiled C, traps, CSRs, atomics, HTIF, accelerator commands, and its timing model."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.sim.host_helpers import Run, compile_program, run

NO_COMPRESSED = "-mcpu=generic_rv64+m+a+f+d"
STALLS = ("operand", "branch", "instruction", "data", "divider", "csr", "command", "response", "fence")


def program(folder: Path, body: str, *flags: str, before: str = "", **options: str) -> Path:
    return compile_program(
        folder, f'#include "host_runtime.h"\n{before}\nint main(void) {{\n{body}\n}}\n', *flags, **options
    )


def outcome(folder: Path, body: str, *flags: str, before: str = "", max_cycles: int = 20_000_000) -> Run:
    """Run C statements; checks what holds for every run that ends."""
    elf = program(folder, body, *flags, before=before)
    slow, fast = run(elf, max_cycles), run(elf, max_cycles, alone=True)
    assert slow == fast, "advancing many cycles at once changes what happens"
    if not slow.error:
        cycles = (
            slow.number("instructions") + slow.number("traps") + sum(slow.number(name) for name in STALLS)
        )
        assert slow.number("cycles") == cycles
    return slow


def lines(result: Run) -> list[str]:
    assert result.error == ""
    assert result.values["exited"] == "1"
    assert result.values["code"] == "0"
    return result.console.splitlines()


SORT = """
static uint64_t values[500];
static void sort(int low, int high) {
  if (low >= high) return;
  uint64_t pivot = values[(low + high) / 2];
  int i = low, j = high;
  while (i <= j) {
    while (values[i] < pivot) ++i;
    while (values[j] > pivot) --j;
    if (i <= j) { uint64_t t = values[i]; values[i++] = values[j]; values[j--] = t; }
  }
  sort(low, j);
  sort(i, high);
}
"""


@pytest.mark.parametrize("flags", [("-O0",), ("-O1",), ("-O2",)])
def test_sorting(tmp_path: Path, flags: tuple[str, ...]) -> None:
    body = """
      uint64_t state = 1;
      for (int i = 0; i < 500; ++i) values[i] = state = state * 6364136223846793005u + 1442695040888963407u;
      sort(0, 499);
      for (int i = 0; i < 500; ++i) print("%u\\n", values[i]);
      return 0;
    """
    numbers, state = [], 1
    for _ in range(500):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append(state)
    assert lines(outcome(tmp_path, body, *flags, before=SORT)) == [str(n) for n in sorted(numbers)]


def test_compressed_code_does_the_same_in_fewer_bytes(tmp_path: Path) -> None:
    body = 'for (int i = 0; i < 500; ++i) values[i] = i * 7919 % 500; sort(0, 499); print("%u\\n", values[250]); return 0;'
    small = program(tmp_path, body, before=SORT)
    short = run(small)
    size = small.with_suffix(".bin").read_bytes().rstrip(b"\0")
    large = program(tmp_path, body, before=SORT, cpu=NO_COMPRESSED)
    long = run(large)
    assert lines(short) == lines(long) == ["250"]
    assert len(size) < len(large.with_suffix(".bin").read_bytes().rstrip(b"\0"))


def test_strings_and_formatting(tmp_path: Path) -> None:
    body = """
      char text[] = "gemmini", reversed[16] = {0};
      int n = 0;
      while (text[n]) ++n;
      for (int i = 0; i < n; ++i) reversed[i] = text[n - 1 - i];
      print("%s %s %d %d %u %x\\n", text, reversed, (int64_t)-1, INT64_MIN, UINT64_MAX, 0xdeadbeefl);
      for (int i = 0; i < 600; ++i) print("%d", (int64_t)i % 10);
      print("\\n");
      return 0;
    """
    first, second = lines(outcome(tmp_path, body))
    assert first == f"gemmini inimmeg -1 {-(2**63)} {2**64 - 1} deadbeef"
    assert second == "0123456789" * 60


def test_double_and_float_arithmetic(tmp_path: Path) -> None:
    body = """
      double x = 0.1, sum = 0, root = 2;
      for (int i = 1; i <= 200; ++i) { x = x * 3.7 * (1 - x); sum += x / i - 1e-3 * i; }
      for (int i = 0; i < 6; ++i) root = (root + 2 / root) / 2;
      float f = 1;
      for (int i = 0; i < 30; ++i) f = f * 1.1f + 0.3f;
      union { double d; uint64_t u; } a = {x}, b = {sum}, c = {root};
      union { float f; uint32_t u; } e = {f};
      print("%x %x %x %x %d\\n", a.u, b.u, c.u, (uint64_t)e.u, (int64_t)(sum * 1000));
      return 0;
    """
    x, total, root = 0.1, 0.0, 2.0
    for i in range(1, 201):
        x = x * 3.7 * (1 - x)
        total += x / i - 1e-3 * i
    for _ in range(6):
        root = (root + 2 / root) / 2

    def single(value: float) -> float:
        return float(struct.unpack("f", struct.pack("f", value))[0])

    f = 1.0
    for _ in range(30):  # a double holds the product of two singles, and a sum of this size, exactly enough
        f = single(single(f * single(1.1)) + single(0.3))
    bits = [struct.unpack("Q", struct.pack("d", v))[0] for v in (x, total, root)]
    expected = [
        *(f"{b:x}" for b in bits),
        f"{struct.unpack('I', struct.pack('f', f))[0]:x}",
        str(int(total * 1000)),
    ]
    assert lines(outcome(tmp_path, body, "-ffp-contract=off")) == [" ".join(expected)]


@pytest.mark.parametrize("code", [0, 1, 42, 1337, -1])
def test_exit_codes(tmp_path: Path, code: int) -> None:
    result = outcome(tmp_path, f"return {code};")
    assert (result.values["exited"], result.number("code"), result.error) == ("1", code, "")


def test_system_calls(tmp_path: Path) -> None:
    body = """
      print("%d ", system_call(64, 2, (uint64_t)"err\\n", 4));
      print("%d ", system_call(64, 7, (uint64_t)"file\\n", 5));
      print("%d ", system_call(64, 1, 16, 5));
      print("%d ", system_call(63, 0, 0, 0));
      print("%d ", system_call(57, 1, 0, 0));
      print("%d\\n", system_call(1000, 0, 0, 0));
      for (const char* s = "device 1\\n"; *s; ++s) tohost = 1ull << 56 | 1ull << 48 | (uint8_t)*s;
      tohost = 1ull << 56;  // nothing to read: never answered
      if (tohost != 0 || fromhost != 0) return 1;
      system_call(93, 7, 0, 0);
      return 1;
    """
    result = outcome(tmp_path, body)
    assert result.console == "err\n4 -9 -14 0 0 -38\ndevice 1\n"
    assert result.number("code") == 7


def test_halves_of_tohost(tmp_path: Path) -> None:
    """As the start-up code of riscv-tests exits: two 32-bit stores, again and again."""
    body = """
      volatile uint32_t* half = (volatile uint32_t*)&tohost;
      for (;;) { half[0] = 5 << 1 | 1; half[1] = 0; }
    """
    assert outcome(tmp_path, body).number("code") == 5


def test_traps(tmp_path: Path) -> None:
    before = """
    #define TRY(text) do { trap_count = 0; __asm__ volatile(text : : "r"(p) : "memory", "t0", "t1", "ft0"); report(); } while (0)
    static void report(void) { print("%u %u %x\\n", trap_count, trap_cause, trap_count ? trap_value : 0); }
    """
    body = """
      static uint64_t data[4] = {0x1122334455667788};
      uint64_t p = (uint64_t)data;
      TRY("ecall");
      TRY("ebreak"); print("%d\\n", trap_value - trap_pc);
      TRY("c.ebreak");
      TRY(".word 0xffffffff");
      TRY(".half 0");
      p = 0x10; TRY("ld t0, 8(%0)");
      TRY("sb t0, 3(%0)");
      TRY("fld ft0, 8(%0)");
      TRY("amoadd.d t0, t1, (%0)");
      TRY("lr.w t0, (%0)");
      p = (uint64_t)data + 2; TRY("lr.w t0, (%0)");
      TRY("sc.w t0, t1, (%0)");
      TRY("amoor.w t0, t1, (%0)");
      TRY("lwu t0, 1(%0)");
      p = 0x40; TRY("la t1, 1f\\n csrw mscratch, t1\\n la t0, skip\\n csrrw t1, mtvec, t0\\n jr %0\\n"
                    ".balign 4\\n skip: csrw mtvec, t1\\n csrr t0, mcause\\n la t1, trap_cause\\n sd t0, 0(t1)\\n"
                    "csrr t0, mscratch\\n csrw mepc, t0\\n mret\\n 1:");
      return 0;
    """
    expected = [
        "1 11 0",
        "1 3",
        "0",
        "1 3",
        "1 2 ffffffff",
        "1 2 0",
        "1 5 18",
        "1 7 13",
        "1 5 18",
        "1 7 10",
        "1 5 10",
    ]
    got = lines(outcome(tmp_path, body, before=before))
    assert got[1].startswith("1 3 ")
    assert got[3].startswith("1 3 ")
    got[1] = got[3] = "1 3"
    assert got[: len(expected)] == expected
    rest = [line.rsplit(" ", 1)[0] for line in got[len(expected) :]]
    assert rest == ["1 4", "1 6", "1 6", "0 6", "0 1"]  # ... misaligned plain loads work


def test_csrs(tmp_path: Path) -> None:
    before = '#define SHOW(name) do { trap_count = 0; uint64_t v = read_csr(name); print("%x%s ", trap_count ? 0 : v, trap_count ? "!" : ""); } while (0)\n'
    body = """
      SHOW(misa); SHOW(mhartid); SHOW(mvendorid); SHOW(marchid); SHOW(mimpid); SHOW(mstatus); SHOW(mip);
      SHOW(hpmcounter7); SHOW(mhpmcounter31); SHOW(mhpmevent3); SHOW(pmpcfg2); SHOW(pmpaddr15); SHOW(satp);
      print("\\n");
      SHOW(sstatus); SHOW(stvec); SHOW(0x7c0); SHOW(0x3a1); SHOW(0xc81); SHOW(0x800); print("\\n");
      write_csr(mstatus, ~0ull); SHOW(mstatus); write_csr(mstatus, 0x2000); SHOW(mstatus);
      write_csr(medeleg, ~0ull); SHOW(medeleg); write_csr(satp, 8ull << 60); SHOW(satp);
      write_csr(mie, ~0ull); SHOW(mie); write_csr(mcounteren, ~0ull); SHOW(mcounteren);
      write_csr(mscratch, 0x123456789abcdef0); SHOW(mscratch); write_csr(mepc, 0x80000003); SHOW(mepc);
      write_csr(fcsr, ~0ull); SHOW(fcsr); SHOW(frm); SHOW(fflags); write_csr(frm, 2); SHOW(fcsr); print("\\n");
      trap_count = 0; write_csr(cycle, 0); print("%u ", trap_count);
      trap_count = 0; write_csr(mhartid, 0); print("%u ", trap_count);
      trap_count = 0; __asm__ volatile("csrrs t0, mhartid, x0" : : : "t0"); print("%u ", trap_count);
      write_csr(mcycle, 1000000); uint64_t c = read_csr(cycle); print("%u ", c >= 1000000 && c < 1000100);
      write_csr(minstret, 500); print("%u ", read_csr(instret));
      uint64_t a, b; __asm__ volatile("csrr %0, instret\\n nop\\n nop\\n csrr %1, instret" : "=r"(a), "=r"(b));
      print("%u\\n", b - a);
      uint64_t old; __asm__ volatile("csrw mscratch, %1\\n csrrsi %0, mscratch, 5\\n" : "=r"(old) : "r"(8ull)); SHOW(mscratch);
      __asm__ volatile("csrrci %0, mscratch, 9\\n" : "=r"(old)); print("%u ", old); SHOW(mscratch);
      __asm__ volatile("csrrwi %0, mscratch, 31\\n" : "=r"(old)); print("%u ", old); SHOW(mscratch); print("\\n");
      clear_csr(mstatus, 0x6000); trap_count = 0;
      __asm__ volatile("fadd.d ft0, ft0, ft0"); __asm__ volatile("csrr t0, fcsr" : : : "t0");
      __asm__ volatile("fld ft0, 0(sp)"); __asm__ volatile("c.fsdsp ft0, 0(sp)"); __asm__ volatile("fmv.x.d t0, ft0" : : : "t0");
      set_csr(mstatus, 0x2000); uint64_t off = trap_count; print("%u\\n", off);
      return 0;
    """
    misa = 2 << 62 | sum(1 << ord(c) - ord("A") for c in "IMAFDCX")
    dirty = 1 << 63
    assert lines(outcome(tmp_path, body, before=before)) == [
        f"{misa:x} 0 0 0 0 {dirty | 0x1F800:x} 0 0 0 0 0 0 0 ",
        "0! 0! 0! 0! 0! 0! ",
        f"{dirty | 0x1F888:x} {dirty | 0x7800:x} 0 0 888 7 123456789abcdef0 80000002 ff 7 1f 5f ",
        "1 1 0 1 500 3",
        "d 13 4 4 1f ",
        "5",
    ]


def test_load_reserved_and_store_conditional(tmp_path: Path) -> None:
    body = """
      static volatile uint64_t cell = 10;
      uint64_t fail[4], old;
      __asm__ volatile("lr.d %0, (%3)\\n addi %0, %0, 1\\n sc.d %1, %0, (%3)\\n sc.d %2, x0, (%3)"
                       : "=&r"(old), "=&r"(fail[0]), "=&r"(fail[1]) : "r"(&cell) : "memory");
      print("%u %u %u\\n", fail[0], fail[1], cell);
      __asm__ volatile("lr.w %0, (%2)\\n sc.w %1, x0, (%3)" : "=&r"(old), "=&r"(fail[2]) : "r"(&cell), "r"(&fail[3]) : "memory");
      print("%u %u\\n", fail[2], cell);
      for (int i = 0; i < 1000; ++i) __atomic_fetch_add(&cell, i, __ATOMIC_SEQ_CST);
      uint64_t expected = 499511;
      print("%u %u\\n", __atomic_compare_exchange_n(&cell, &expected, 3, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST), cell);
      return 0;
    """
    assert lines(outcome(tmp_path, body)) == ["0 1 11", "1 11", "1 3"]


def test_changed_code_is_seen_after_fence_i(tmp_path: Path) -> None:
    body = """
      static uint32_t code[2] __attribute__((aligned(8))) = {0x00100513, 0x00008067};  // li a0, 1; ret
      int64_t (*function)(void) = (int64_t (*)(void))code;
      int64_t sum = 0;
      for (int i = 0; i < 10; ++i) {
        ((volatile uint32_t*)code)[0] = 0x00000513 | (uint32_t)i << 20;
        __asm__ volatile("fence.i" : : : "memory");
        sum = sum * 10 + function();
      }
      print("%d\\n", sum);
      return 0;
    """
    assert lines(outcome(tmp_path, body)) == ["123456789"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            'write_csr(mtvec, 0); __asm__ volatile(".word 0xffffffff"); return 0;',
            "illegal instruction at pc 0x8.* .value 0xffffffff., and no trap handler",
        ),
        (
            "write_csr(mtvec, 0); return *(volatile int*)0x40;",
            "load outside memory at pc 0x8.* .value 0x40.*mtvec is 0",
        ),
        (
            "write_csr(mtvec, 0x5000); return *(volatile int*)0x40;",
            "instruction fetch outside memory at pc 0x5000.*never returns; the first trap was: load outside memory",
        ),
        (
            '__asm__ volatile("li sp, 0x100\\n ecall"); return 0;',
            "store outside memory.*the first trap was: environment call",
        ),
        ("tohost = 5ull << 56 | 1ull << 48; return 0;", "asked device 5 for command 1"),
        ('for (;;) __asm__ volatile("");', "loops on the spot at pc 0x8.* for ever"),
        ("tohost = 0x1000; return 0;", "system call at address 0x1000, which is outside memory"),
    ],
)
def test_programs_that_cannot_go_on(tmp_path: Path, body: str, error: str) -> None:
    result = outcome(tmp_path, body, max_cycles=1_000_000)
    assert result.values["exited"] == "0"
    assert re.search(error, result.error), result.error


def test_a_program_that_hangs_shows_where(tmp_path: Path) -> None:
    result = outcome(tmp_path, 'print("on\\n"); for (;;) __asm__ volatile("wfi");', max_cycles=50_000)
    assert (result.values["exited"], result.number("cycles"), result.console) == ("0", 50_000, "on\n")
    assert int(result.values["recent"], 16) > 0x80000000


def test_accelerator_commands(tmp_path: Path) -> None:
    body = """
      command(2, 11, 12);
      command(3, 21, 22);
      command(5, -1, 0);
      uint64_t answer = command_response(126, 1000, 3);
      __asm__ volatile(".insn r 0x7b, 0, 9, x0, x0, x0\\n .insn r 0x7b, 2, 10, x0, %0, x0" : : "r"(77ull));
      __asm__ volatile("fence" : : : "memory");
      print("%u\\n", answer);
      trap_count = 0;
      clear_csr(mstatus, 0x18000);
      command(1, 1, 1);
      print("%u %u %x\\n", trap_count, trap_cause, trap_value & 0x7f);
      return 0;
    """
    result = outcome(tmp_path, body)
    assert lines(result) == ["1378", "1 2 7b"]
    assert result.values["log"] == f"2:11:12,3:21:22,5:{2**64 - 1}:0,126:1000:3,9:0:0,10:77:0"
    assert result.number("commands") == 6
    assert all(result.number(name) > 0 for name in ("command", "response", "fence"))


#: Cycles that a repetition of instructions takes, as the header of host.h says.
TIMINGS = {
    "addi t0, t0, 1": 1,
    "addi t0, t0, 1\\n addi t1, t1, 1": 2,
    "mul t0, t0, t0": 4,
    "mul t0, t1, t1\\n nop\\n nop\\n nop": 4,
    "ld t0, 0(%2)\\n addi t0, t0, 1": 3,
    "lb t0, 0(%2)\\n addi t0, t0, 1": 4,
    "ld t0, 0(%2)\\n nop": 2,
    "sd t0, 0(%2)": 1,
    "ld t0, 1(%2)\\n nop\\n nop\\n nop": 4,
    "j 1f\\n 1:": 1,
    "beqz zero, 1f\\n 1:": 3,
    "bnez zero, 1f\\n 1:": 1,
    "fadd.d ft0, ft0, ft0": 4,
    "fadd.s ft0, ft0, ft0": 3,
    "csrr t0, mscratch": 5,
    "li t0, 1\\n divu t1, t0, t0\\n addi t1, t1, 1": 6,
}


def test_timing_model(tmp_path: Path) -> None:
    """Between two reads of mcycle, for which a constant remains; in a second pass, with warm caches."""
    passes = (
        f"""
      for (volatile int pass = 0; pass < 2; ++pass)
        __asm__ volatile("csrr %0, mcycle\\n .rept {count}\\n {body}\\n .endr\\n csrr %1, mcycle"
                         : "=&r"(a), "=&r"(b) : "r"(p) : "memory", "t0", "t1", "t2", "ft0", "ft1");
      print("%u\\n", b - a);"""
        for body in TIMINGS
        for count in (8, 72)
    )
    text = f"""
      static uint64_t data[2048] __attribute__((aligned(64)));
      uint64_t a, b, p = (uint64_t)data;{"".join(passes)}
      return 0;
    """
    taken = list(map(int, lines(outcome(tmp_path, text))))
    assert {body: (taken[2 * n + 1] - taken[2 * n]) / 64 for n, body in enumerate(TIMINGS)} == TIMINGS


def test_cache_misses(tmp_path: Path) -> None:
    """A walk over 16 KiB misses once a line in the first pass only; one over 64 KiB, of which 16 are there, in both."""
    body = """
      static uint64_t data[8192] __attribute__((aligned(64)));
      uint64_t sum = 0, cycles[2];
      for (uint64_t words = 2048; words <= 8192; words *= 4)
        for (int pass = 0; pass < 2; ++pass) {
          uint64_t start = read_csr(mcycle);
          for (uint64_t i = 0; i < words; i += 8) sum += *(volatile uint64_t*)&data[i];
          cycles[pass] = read_csr(mcycle) - start;
          print("%u ", cycles[pass] / (words / 8));
        }
      print("\\n");
      return (int)sum;
    """
    first, again, large, large_again = map(int, lines(outcome(tmp_path, body))[-1].split())
    assert first >= 60 > 10 > again
    assert large >= 45
    assert large_again >= 60
