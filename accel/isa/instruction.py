"""The 32-bit RISC-V instruction that carries a command to the accelerator (RoCC, custom-0 to custom-3)."""

from __future__ import annotations

from dataclasses import dataclass

from baco.common.errors import InputError

#: Major opcodes of custom-0 .. custom-3.
CUSTOM_OPCODES = (0x0B, 0x2B, 0x5B, 0x7B)


@dataclass(frozen=True)
class RoccInstruction:
    """One instruction word, taken apart.

    Args:
        funct: the command, funct7.
        rd, rs1, rs2: register numbers, 0..31.
        xd, xs1, xs2: whether the instruction writes rd and reads rs1 and rs2.
        custom: which of custom-0 .. custom-3.

    Raises InputError when a value is out of range.
    """

    funct: int
    rs1: int
    rs2: int
    rd: int = 0
    xd: bool = False
    xs1: bool = True
    xs2: bool = True
    custom: int = 3

    def __post_init__(self) -> None:
        for name, limit in (("funct", 127), ("rs1", 31), ("rs2", 31), ("rd", 31), ("custom", 3)):
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise InputError(f"{name} of an instruction is 0..{limit}, not {value}")

    @property
    def word(self) -> int:
        """The 32 bits of the instruction."""
        funct3 = self.xd << 2 | self.xs1 << 1 | self.xs2
        registers = self.rs2 << 20 | self.rs1 << 15 | funct3 << 12 | self.rd << 7
        return self.funct << 25 | registers | CUSTOM_OPCODES[self.custom]

    @classmethod
    def from_word(cls, word: int) -> RoccInstruction:
        """Take a word apart. Raises InputError when its opcode is none of the custom ones."""
        opcode = word & 0x7F
        if not 0 <= word <= 0xFFFFFFFF or opcode not in CUSTOM_OPCODES:
            raise InputError(
                f"{word:#010x} is no accelerator instruction",
                hint="its low seven bits must be " + ", ".join(f"{one:#04x}" for one in CUSTOM_OPCODES),
            )
        return cls(
            funct=word >> 25,
            rs1=word >> 15 & 31,
            rs2=word >> 20 & 31,
            rd=word >> 7 & 31,
            xd=bool(word >> 14 & 1),
            xs1=bool(word >> 13 & 1),
            xs2=bool(word >> 12 & 1),
            custom=CUSTOM_OPCODES.index(opcode),
        )
