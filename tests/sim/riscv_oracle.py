"""What RISC-V instructions do, in Python: an oracle for the host core that shares nothing with it.

Each entry of `instructions` draws one instruction of a mnemonic: its assembly text, which a real assembler encodes,
and a function that changes a `State` as the unprivileged manual says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.sim import float_oracle as fl

CODE, DATA = 0x80000000, 0x80008000
M64, M32 = (1 << 64) - 1, (1 << 32) - 1
BOX = M64 ^ M32


@dataclass
class State:
    """Registers as unsigned 64-bit integers; `memory` is the double word at DATA, `pc` where a jump goes."""

    x: list[int]
    f: list[int]
    memory: int
    fcsr: int
    pc: int | None = None
    trapped: bool = False

    def write(self, rd: int, value: int) -> None:
        if rd:
            self.x[rd] = value & M64


@dataclass
class Instruction:
    """One instruction: `effect` changes a state.

    Attributes:
        text: assembly.
        bases: registers that must hold an address near DATA, with the offset the instruction adds.
        floats: formats of the floating-point operands by register number.
    """

    text: str
    effect: Callable[[State], None]
    bases: dict[int, int] = field(default_factory=dict)
    floats: dict[int, fl.Format] = field(default_factory=dict)


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def word(value: int) -> int:
    """The low 32 bits, sign extended."""
    return signed(value, 32)


def _quotient(a: int, b: int) -> int:
    """Towards zero; -1 for a zero divisor."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


U = Callable[[int, int], int]
S = signed
#: a and b are unsigned 64-bit operands; results are taken modulo 2**64.
REGISTER: dict[str, U] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a << b % 64,
    "slt": lambda a, b: S(a) < S(b),
    "sltu": lambda a, b: a < b,
    "xor": lambda a, b: a ^ b,
    "srl": lambda a, b: a >> b % 64,
    "sra": lambda a, b: S(a) >> b % 64,
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "addw": lambda a, b: word(a + b),
    "subw": lambda a, b: word(a - b),
    "sllw": lambda a, b: word(a << b % 32),
    "srlw": lambda a, b: word((a & M32) >> b % 32),
    "sraw": lambda a, b: word(a) >> b % 32,
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: S(a) * S(b) >> 64,
    "mulhsu": lambda a, b: S(a) * b >> 64,
    "mulhu": lambda a, b: a * b >> 64,
    "mulw": lambda a, b: word(a * b),
    "div": lambda a, b: _quotient(S(a), S(b)),
    "divu": lambda a, b: a // b if b else M64,
    "rem": lambda a, b: _remainder(S(a), S(b)),
    "remu": lambda a, b: a % b if b else a,
    "divw": lambda a, b: word(_quotient(word(a), word(b))),
    "divuw": lambda a, b: word((a & M32) // (b & M32) if b & M32 else M32),
    "remw": lambda a, b: word(_remainder(word(a), word(b))),
    "remuw": lambda a, b: word((a & M32) % (b & M32) if b & M32 else a),
}
IMMEDIATE: dict[str, U] = {
    "addi": REGISTER["add"],
    "slti": REGISTER["slt"],
    "sltiu": REGISTER["sltu"],
    "xori": REGISTER["xor"],
    "ori": REGISTER["or"],
    "andi": REGISTER["and"],
    "addiw": REGISTER["addw"],
}
SHIFTS: dict[str, tuple[U, int]] = {
    "slli": (REGISTER["sll"], 64),
    "srli": (REGISTER["srl"], 64),
    "srai": (REGISTER["sra"], 64),
    "slliw": (REGISTER["sllw"], 32),
    "srliw": (REGISTER["srlw"], 32),
    "sraiw": (REGISTER["sraw"], 32),
}
BRANCHES: dict[str, Callable[[int, int], bool]] = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: S(a) < S(b),
    "bge": lambda a, b: S(a) >= S(b),
    "bltu": lambda a, b: a < b,
    "bgeu": lambda a, b: a >= b,
}
LOADS = {
    "lb": (1, True),
    "lh": (2, True),
    "lw": (4, True),
    "ld": (8, True),
    "lbu": (1, False),
    "lhu": (2, False),
    "lwu": (4, False),
}
STORES = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}
#: of signed operands of the access's width
ATOMICS: dict[str, U] = {
    "swap": lambda old, b: b,
    "add": lambda old, b: old + b,
    "xor": lambda old, b: old ^ b,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "min": min,
    "max": max,
    "minu": lambda old, b: min(old, b, key=lambda v: v & M64),
    "maxu": lambda old, b: max(old, b, key=lambda v: v & M64),
}
MODES = ("rne", "rtz", "rdn", "rup", "rmm", "dyn")
FORMATS = {"s": fl.BINARY32, "d": fl.BINARY64}
RANGES = {"w": (-(1 << 31), (1 << 31) - 1), "wu": (0, M32), "l": (-(1 << 63), (1 << 63) - 1), "lu": (0, M64)}


def _peek(s: State, address: int, size: int) -> int:
    return s.memory >> 8 * (address - DATA) & (1 << 8 * size) - 1


def _poke(s: State, address: int, size: int, value: int) -> None:
    shift, mask = 8 * (address - DATA), (1 << 8 * size) - 1
    s.memory = s.memory & ~(mask << shift) & M64 | (value & mask) << shift


def _address(s: State, base: int, offset: int) -> int:
    return s.x[base] + offset & M64


def load_integer(name: str, rd: int, base: int, offset: int) -> Callable[[State], None]:
    size, is_signed = LOADS[name]

    def effect(s: State) -> None:
        value = _peek(s, _address(s, base, offset), size)
        s.write(rd, signed(value, 8 * size) if is_signed else value)

    return effect


def store_integer(size: int, rs: int, base: int, offset: int) -> Callable[[State], None]:
    return lambda s: _poke(s, _address(s, base, offset), size, s.x[rs])


def load_float(size: int, rd: int, base: int, offset: int) -> Callable[[State], None]:
    def effect(s: State) -> None:
        s.f[rd] = _peek(s, _address(s, base, offset), size) | (BOX if size == 4 else 0)

    return effect


def store_float(size: int, rs: int, base: int, offset: int) -> Callable[[State], None]:
    return lambda s: _poke(s, _address(s, base, offset), size, s.f[rs])


def alu(operation: U, rd: int, rs: int, other: int, immediate: bool) -> Callable[[State], None]:
    return lambda s: s.write(rd, operation(s.x[rs], other & M64 if immediate else s.x[other]))


def branch(taken: Callable[[int, int], bool], a: int, b: int, offset: int) -> Callable[[State], None]:
    def effect(s: State) -> None:
        if taken(s.x[a], s.x[b]):
            s.pc = CODE + offset & M64

    return effect


def jump(rd: int, target: Callable[[State], int], length: int) -> Callable[[State], None]:
    def effect(s: State) -> None:
        s.pc = target(s) & M64 & ~1
        s.write(rd, CODE + length)

    return effect


def integer_instructions(random: Random) -> Iterator[Instruction]:
    """One of each of I, M and A that a single instruction can show."""

    def r(low: int = 0) -> int:
        return random.randrange(low, 32)

    for name, operation in REGISTER.items():
        rd, a, b = r(), r(), r()
        yield Instruction(f"{name} x{rd}, x{a}, x{b}", alu(operation, rd, a, b, False))
    for name, operation in IMMEDIATE.items():
        rd, a, imm = r(), r(), random.choice((-2048, -1, 0, 2047, random.randrange(-2048, 2048)))
        yield Instruction(f"{name} x{rd}, x{a}, {imm}", alu(operation, rd, a, imm, True))
    for name, (operation, bits) in SHIFTS.items():
        rd, a, imm = r(), r(), random.choice((0, 1, bits - 1, random.randrange(bits)))
        yield Instruction(f"{name} x{rd}, x{a}, {imm}", alu(operation, rd, a, imm, True))
    rd, imm = r(), random.randrange(1 << 20)
    upper = signed(imm << 12, 32)
    yield Instruction(f"lui x{rd}, {imm}", lambda s, rd=rd, v=upper: s.write(rd, v))
    yield Instruction(f"auipc x{rd}, {imm}", lambda s, rd=rd, v=upper: s.write(rd, CODE + v))
    for name, taken in BRANCHES.items():
        a, b, offset = r(), r(), random.choice((-4096, 4094, 2 * random.randrange(-2048, 2048)))
        yield Instruction(f"{name} x{a}, x{b}, {offset}", branch(taken, a, b, offset))
    rd, offset = r(), random.choice((-(1 << 20), (1 << 20) - 2, 2 * random.randrange(-(1 << 19), 1 << 19)))
    yield Instruction(f"jal x{rd}, {offset}", jump(rd, lambda s, o=offset: CODE + o, 4))
    rd, a, imm = r(), r(), random.randrange(-2048, 2048)
    yield Instruction(f"jalr x{rd}, {imm}(x{a})", jump(rd, lambda s, a=a, i=imm: s.x[a] + i, 4))
    for name, (size, _) in LOADS.items():
        rd, base, offset = r(), r(1), random.randrange(-2048, 2048)
        at = random.randrange(9 - size)
        yield Instruction(
            f"{name} x{rd}, {offset}(x{base})", load_integer(name, rd, base, offset), {base: at - offset}
        )
    for name, size in STORES.items():
        rs, base, offset = r(), r(1), random.randrange(-2048, 2048)
        at = random.randrange(9 - size)
        yield Instruction(
            f"{name} x{rs}, {offset}(x{base})", store_integer(size, rs, base, offset), {base: at - offset}
        )
    for suffix, size in (("w", 4), ("d", 8)):
        for name, operation in ATOMICS.items():
            rd, base, b = r(), r(1), r()
            at = size * random.randrange(8 // size)
            order = random.choice(("", ".aq", ".rl", ".aqrl"))
            yield Instruction(
                f"amo{name}.{suffix}{order} x{rd}, x{b}, (x{base})",
                _atomic(operation, rd, base, b, size),
                {base: at},
            )
        rd, base, b = r(), r(1), r()
        at = size * random.randrange(8 // size)
        load = load_integer("lw" if size == 4 else "ld", rd, base, 0)
        yield Instruction(f"lr.{suffix} x{rd}, (x{base})", load, {base: at})
        yield Instruction(f"sc.{suffix} x{rd}, x{b}, (x{base})", lambda s, rd=rd: s.write(rd, 1), {base: at})


def _atomic(operation: U, rd: int, base: int, b: int, size: int) -> Callable[[State], None]:
    def effect(s: State) -> None:
        address = s.x[base]
        old = signed(_peek(s, address, size), 8 * size)
        _poke(s, address, size, operation(old, signed(s.x[b], 8 * size)))
        s.write(rd, old)

    return effect


def float_instructions(random: Random) -> Iterator[Instruction]:
    """One of each of F and D, with any rounding mode."""

    def r() -> int:
        return random.randrange(32)

    for suffix, f in FORMATS.items():
        yield from _rounding(suffix, f, r, random)
        yield from _choosing(suffix, f, r)
        yield from _converting(suffix, f, r, random)
    rd, a, mode = r(), r(), random.choice(MODES)
    narrow = _float(
        f"fcvt.s.d f{rd}, f{a}, {mode}",
        fl.BINARY64,
        rd,
        (a,),
        mode,
        lambda m, x: fl.convert(fl.BINARY64, fl.BINARY32, x, m),
        fl.BINARY32,
    )
    widen = _float(
        f"fcvt.d.s f{rd}, f{a}",
        fl.BINARY32,
        rd,
        (a,),
        "",
        lambda m, x: fl.convert(fl.BINARY32, fl.BINARY64, x, m),
        fl.BINARY64,
    )
    yield narrow
    yield widen


def _rounding(suffix: str, f: fl.Format, r: Callable[[], int], random: Random) -> Iterator[Instruction]:
    """Arithmetic whose results are rounded."""
    for name in ("fmadd", "fmsub", "fnmsub", "fnmadd"):
        rd, a, b, c, mode = r(), r(), r(), r(), random.choice(MODES)
        product = f.sign if name.startswith("fn") else 0
        addend = f.sign if name in ("fmsub", "fnmadd") else 0

        def compute(m: int, x: int, y: int, z: int, f=f, product=product, addend=addend) -> fl.Result:
            return fl.fused(f, x ^ product, y, z ^ addend, m)

        text = f"{name}.{suffix} f{rd}, f{a}, f{b}, f{c}, {mode}"
        yield _float(text, f, rd, (a, b, c), mode, compute)
    two: dict[str, Callable[..., fl.Result]] = {
        "fadd": lambda m, x, y, f=f: fl.add(f, x, y, m),
        "fsub": lambda m, x, y, f=f: fl.add(f, x, y if f.is_nan(y) else y ^ f.sign, m),
        "fmul": lambda m, x, y, f=f: fl.multiply(f, x, y, m),
        "fdiv": lambda m, x, y, f=f: fl.divide(f, x, y, m),
    }
    for name, operation in two.items():
        rd, a, b, mode = r(), r(), r(), random.choice(MODES)
        yield _float(f"{name}.{suffix} f{rd}, f{a}, f{b}, {mode}", f, rd, (a, b), mode, operation)
    rd, a, mode = r(), r(), random.choice(MODES)
    yield _float(
        f"fsqrt.{suffix} f{rd}, f{a}, {mode}",
        f,
        rd,
        (a,),
        mode,
        lambda m, x, f=f: fl.square_root(f, x, m),
    )


def _choosing(suffix: str, f: fl.Format, r: Callable[[], int]) -> Iterator[Instruction]:
    """What gives an operand, its sign or class, or compares."""
    plain: dict[str, Callable[..., fl.Result]] = {
        "fsgnj": lambda m, x, y, f=f: (x & ~f.sign | y & f.sign, 0),
        "fsgnjn": lambda m, x, y, f=f: (x & ~f.sign | ~y & f.sign, 0),
        "fsgnjx": lambda m, x, y, f=f: (x ^ y & f.sign, 0),
        "fmin": lambda m, x, y, f=f: fl.pick(f, x, y, True),
        "fmax": lambda m, x, y, f=f: fl.pick(f, x, y, False),
    }
    for name, operation in plain.items():
        rd, a, b = r(), r(), r()
        yield _float(f"{name}.{suffix} f{rd}, f{a}, f{b}", f, rd, (a, b), "", operation)
    for name in ("feq", "flt", "fle"):
        rd, a, b = r(), r(), r()
        yield _to_integer(
            f"{name}.{suffix} x{rd}, f{a}, f{b}",
            f,
            rd,
            (a, b),
            "",
            lambda m, x, y, f=f, n=name: fl.compare(f, x, y, n),
        )
    rd, a = r(), r()
    yield _to_integer(
        f"fclass.{suffix} x{rd}, f{a}", f, rd, (a,), "", lambda m, x, f=f: (fl.classify(f, x), 0)
    )


def _converting(suffix: str, f: fl.Format, r: Callable[[], int], random: Random) -> Iterator[Instruction]:
    """Between integers and floats, by value and by bits, and with memory."""
    size = f.width // 8
    for kind, (low, high) in RANGES.items():
        rd, a, mode = r(), r(), random.choice(MODES)

        def integer(m: int, x: int, f=f, low=low, high=high, kind=kind) -> fl.Result:
            value, flags = fl.to_integer(f, x, low, high, m)
            return (word(value) if kind == "wu" else value), flags

        yield _to_integer(f"fcvt.{kind}.{suffix} x{rd}, f{a}, {mode}", f, rd, (a,), mode, integer)
        exact = suffix == "d" and kind[0] == "w"  # no rounding: its mode is not written
        mode = "" if exact else random.choice(MODES)
        text = f"fcvt.{suffix}.{kind} f{rd}, x{a}" + (f", {mode}" if mode else "")
        yield Instruction(text, _from_integer(f, rd, a, kind, mode))
    rd, a = r(), r()
    move = "w" if suffix == "s" else "d"
    bits = f.width
    yield Instruction(
        f"fmv.x.{move} x{rd}, f{a}", lambda s, rd=rd, a=a, n=bits: s.write(rd, signed(s.f[a], n))
    )
    yield Instruction(f"fmv.{move}.x f{rd}, x{a}", lambda s, rd=rd, a=a, f=f: _set_float(s, f, rd, s.x[a]))
    for kind, make in (("l", load_float), ("s", store_float)):
        reg, base, offset = r(), random.randrange(1, 32), random.randrange(-2048, 2048)
        at = random.randrange(9 - size)
        letter = "w" if suffix == "s" else "d"
        yield Instruction(
            f"f{kind}{letter} f{reg}, {offset}(x{base})",
            make(size, reg, base, offset),
            {base: at - offset},
        )


def _set_float(s: State, f: fl.Format, rd: int, bits: int) -> None:
    s.f[rd] = bits & M32 | BOX if f.width == 32 else bits & M64


def _get_float(s: State, f: fl.Format, number: int) -> int:
    value = s.f[number]
    if f.width == 64:
        return value
    return value & M32 if value & BOX == BOX else f.nan


def _mode(s: State, text: str) -> int:
    """The rounding mode in force; above 4 if it is reserved."""
    return s.fcsr >> 5 if text == "dyn" else MODES.index(text) if text else 0


def _float(
    text: str,
    f: fl.Format,
    rd: int,
    sources: tuple[int, ...],
    mode: str,
    operation: Callable[..., fl.Result],
    target: fl.Format | None = None,
) -> Instruction:
    def effect(s: State) -> None:
        m = _mode(s, mode)
        if m > 4:
            s.trapped = True
            return
        bits, flags = operation(m, *(_get_float(s, f, a) for a in sources))
        s.fcsr |= flags
        _set_float(s, target or f, rd, bits)

    return Instruction(text, effect, floats=dict.fromkeys(sources, f))


def _to_integer(
    text: str, f: fl.Format, rd: int, sources: tuple[int, ...], mode: str, operation: Callable[..., fl.Result]
) -> Instruction:
    def effect(s: State) -> None:
        m = _mode(s, mode)
        if m > 4:
            s.trapped = True
            return
        value, flags = operation(m, *(_get_float(s, f, a) for a in sources))
        s.fcsr |= flags
        s.write(rd, value)

    return Instruction(text, effect, floats=dict.fromkeys(sources, f))


def _from_integer(f: fl.Format, rd: int, a: int, kind: str, mode: str) -> Callable[[State], None]:
    bits = 32 if kind[0] == "w" else 64

    def effect(s: State) -> None:
        m = _mode(s, mode)
        if m > 4:
            s.trapped = True
            return
        value = s.x[a] & (1 << bits) - 1 if kind.endswith("u") else signed(s.x[a], bits)
        result, flags = fl.round_value(fl.Fraction(value), f, m)
        s.fcsr |= flags
        _set_float(s, f, rd, result)

    return effect


def compressed_instructions(random: Random) -> Iterator[Instruction]:
    """One of each of C."""
    add, addw = REGISTER["add"], REGISTER["addw"]

    def r() -> int:
        return random.randrange(1, 32)

    def short() -> int:
        return random.randrange(8, 16)

    def imm6() -> int:
        return random.choice((-32, 31, -1, 1, random.choice((-1, 1)) * random.randrange(1, 32)))

    d, imm = short(), 4 * random.randrange(1, 256)
    yield Instruction(f"c.addi4spn x{d}, sp, {imm}", alu(add, d, 2, imm, True))
    for width, letter in ((4, "w"), (8, "d")):
        d, base, offset = short(), short(), width * random.randrange(32)
        at = {base: width * random.randrange(8 // width) - offset}
        yield Instruction(
            f"c.l{letter} x{d}, {offset}(x{base})", load_integer("l" + letter, d, base, offset), at
        )
        yield Instruction(f"c.s{letter} x{d}, {offset}(x{base})", store_integer(width, d, base, offset), at)
        d, offset = r(), width * random.randrange(64)
        at = {2: width * random.randrange(8 // width) - offset}
        yield Instruction(f"c.l{letter}sp x{d}, {offset}(sp)", load_integer("l" + letter, d, 2, offset), at)
        yield Instruction(f"c.s{letter}sp x{d}, {offset}(sp)", store_integer(width, d, 2, offset), at)
    d, base, offset = short(), short(), 8 * random.randrange(32)
    yield Instruction(f"c.fld f{d}, {offset}(x{base})", load_float(8, d, base, offset), {base: -offset})
    yield Instruction(f"c.fsd f{d}, {offset}(x{base})", store_float(8, d, base, offset), {base: -offset})
    d, offset = random.randrange(32), 8 * random.randrange(64)
    yield Instruction(f"c.fldsp f{d}, {offset}(sp)", load_float(8, d, 2, offset), {2: -offset})
    yield Instruction(f"c.fsdsp f{d}, {offset}(sp)", store_float(8, d, 2, offset), {2: -offset})
    d, imm = r(), imm6()
    yield Instruction("c.nop", lambda s: None)
    yield Instruction(f"c.addi x{d}, {imm}", alu(add, d, d, imm, True))
    yield Instruction(f"c.addiw x{d}, {imm}", alu(addw, d, d, imm, True))
    yield Instruction(f"c.li x{d}, {imm}", lambda s, d=d, i=imm: s.write(d, i))
    upper = random.choice((1, 31, 0xFFFE0, 0xFFFFF))
    d = random.choice([n for n in range(1, 32) if n != 2])
    yield Instruction(f"c.lui x{d}, {upper}", lambda s, d=d, u=upper: s.write(d, signed(u << 12, 32)))
    imm = 16 * random.choice((-32, 31, -1, 1))
    yield Instruction(f"c.addi16sp sp, {imm}", alu(add, 2, 2, imm, True))
    for name in ("srli", "srai"):
        d, imm = short(), random.choice((1, 31, 32, 63))
        yield Instruction(f"c.{name} x{d}, {imm}", alu(SHIFTS[name][0], d, d, imm, True))
    d, imm = r(), random.choice((1, 31, 32, 63))
    yield Instruction(f"c.slli x{d}, {imm}", alu(REGISTER["sll"], d, d, imm, True))
    d, imm = short(), imm6()
    yield Instruction(f"c.andi x{d}, {imm}", alu(REGISTER["and"], d, d, imm, True))
    for name in ("sub", "xor", "or", "and", "subw", "addw"):
        d, b = short(), short()
        yield Instruction(f"c.{name} x{d}, x{b}", alu(REGISTER[name], d, d, b, False))
    d, b = r(), r()
    yield Instruction(f"c.mv x{d}, x{b}", alu(add, d, 0, b, False))
    yield Instruction(f"c.add x{d}, x{b}", alu(add, d, d, b, False))
    yield Instruction(f"c.jr x{b}", jump(0, lambda s, b=b: s.x[b], 2))
    yield Instruction(f"c.jalr x{b}", jump(1, lambda s, b=b: s.x[b], 2))
    offset = random.choice((-2048, 2046, 2 * random.randrange(-1024, 1024)))
    yield Instruction(f"c.j {offset}", jump(0, lambda s, o=offset: CODE + o, 2))
    for name, taken in (("beqz", BRANCHES["beq"]), ("bnez", BRANCHES["bne"])):
        a, offset = short(), random.choice((-256, 254, 2 * random.randrange(-128, 128)))
        yield Instruction(f"c.{name} x{a}, {offset}", branch(taken, a, 0, offset))
