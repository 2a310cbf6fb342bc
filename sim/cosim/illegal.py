"""Random illegal command streams: legal ones that are damaged, and commands of nothing but chance.

What is illegal is not decided here: both models judge every stream, and must judge it alike. Damage is of every kind that
a broken program or a broken compiler could do: bits flipped, fields and registers of zeros, ones, limits and their
neighbours, commands dropped, doubled, put elsewhere, made another command, asked for a result, the set-up left out, rows
touched that a PRELOAD waits for. Most streams get one blow, so that whatever it breaks is the first thing that is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from baco.accel.config import Accelerator
from baco.accel.isa import (
    COMMANDS,
    GARBAGE,
    IDENTITY_SCALE,
    Command,
    CommandType,
    Field,
    encode,
    find_command_type,
)
from baco.accel.verilog.generate import ADDRESS_BITS
from baco.sim.cosim.builder import ACCUMULATE, ACCUMULATOR, READ_FULL, StreamBuilder
from baco.sim.cosim.macros import MacroGenerator
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, FlippedResult, Item, Stream, group_items

_WORD, _REGISTER = (1 << 32) - 1, (1 << 64) - 1
#: Row number of a local address word, the bits that are ignored included.
_ROW = (1 << 26) - 1
_KINDS = tuple(COMMANDS.values())


def illegal_stream(accelerator: Accelerator, seed: int, index: int, base: int = BASE) -> Stream:
    """The `index`-th stream of a seed: probably illegal, perhaps still legal."""
    name = f"{accelerator.config_hash}-illegal-{seed}-{index}"
    generator = MacroGenerator(accelerator, name, base)
    r = generator.random
    generator.initialise()
    chance = _Chance(accelerator, r, base)
    if r.random() < 0.08:
        del generator.items[:]  # nothing is configured
    if r.random() < 0.15:
        generator.items += [chance.command() for _ in range(r.randint(1, 30))]
        return generator.stream(name)
    start = len(generator.items) if r.random() < 0.9 else 0  # now and then the set-up is hit, too
    if r.random() < 0.4:
        generator.ordinary(r.randint(1, 25))
    else:
        generator.mixed(r.randint(1, 3))
    damage = _Damage(chance, generator.items, start)
    for _ in range(r.choice((1, 1, 1, 1, 1, 2, 3, 8))):
        damage.strike()
    return _stream(generator, damage.items, name)


def _stream(generator: StreamBuilder, items: list[Item], name: str) -> Stream:
    made = generator.stream(name)
    return made.with_groups(group_items(items))


class _Chance:
    """Values where limits are, and whole commands of them."""

    def __init__(self, accelerator: Accelerator, r: random.Random, base: int) -> None:
        self.r, self.base = r, base
        self.dim = dim = accelerator.dim
        rows = accelerator.scratchpad_rows
        acc_rows = accelerator.accumulator_rows
        blocks = max(1, accelerator.dma_max_bytes // (dim * accelerator.element_bytes))
        numbers = {0, 1, 2, 3, dim, 2 * dim, rows, rows // 2, rows // 2 // dim, acc_rows, acc_rows // 2}
        numbers |= {acc_rows // 2 // dim, blocks, blocks * dim, 64, 128, 255, 256, 4 * dim, 1 << 15, 1 << 16}
        numbers |= {rows // dim, accelerator.dma_max_bytes, accelerator.dma_max_bytes // 4}
        self.numbers = sorted({max(0, number + step) for number in numbers for step in (-1, 0, 1)})
        # behind the stream's memory the local ones are stored (sim/cpp/cosim.h), whole or at several scales
        local = rows * dim * accelerator.element_bytes + acc_rows * dim * 4
        self.ends = (base, base + MEMORY_BYTES, base + MEMORY_BYTES + local)
        row_bits = max(rows - 1, acc_rows - 1, 1).bit_length()
        self.rows = [0, 1, rows - dim, rows - 1, rows, rows // 2, acc_rows - dim, acc_rows - 1, acc_rows]
        self.rows += [1 << row_bits, (1 << row_bits) - 1, 1 << 25, 1 << 26]

    def number(self, field: Field) -> int:
        """A value of a field."""
        r = self.r
        kind = r.random()
        if kind < 0.1:
            return r.choice((0, field.mask))
        if kind < 0.2:
            return r.getrandbits(field.width)
        if field.kind == "address":
            return self.address()
        if field.kind == "local":
            return self.local()
        if field.width <= 4:
            return r.getrandbits(field.width)
        return min(field.mask, r.choice(self.numbers))

    def address(self) -> int:
        """An address of main memory, mostly near one of its ends or inside."""
        r = self.r
        near = r.choice(self.ends) + r.randint(-70, 70)
        return r.choice(
            (
                *(0, near, near, self.base + r.randrange(MEMORY_BYTES)),
                *(r.getrandbits(64), 1 << ADDRESS_BITS, self.base + (1 << ADDRESS_BITS)),
            )
        )

    def local(self) -> int:
        """A local address word."""
        r = self.r
        if r.random() < 0.1:
            return GARBAGE
        flags = r.choice(
            (0, 0, 0, ACCUMULATOR, ACCUMULATOR, ACCUMULATOR | ACCUMULATE, ACCUMULATOR | READ_FULL)
        )
        flags |= r.choice((0, 0, 0, 0, r.getrandbits(3) << 26, ACCUMULATE, READ_FULL))
        return flags | max(0, r.choice(self.rows) + r.choice((0, 0, -1, 1)))

    def command(self) -> Item:
        """A command of chance: of some kind with fields of chance, or registers of nothing else."""
        r = self.r
        if r.random() < 0.15:
            return Command(r.getrandbits(7), r.getrandbits(64), r.getrandbits(64))
        if r.random() < 0.05:
            return None
        kind = r.choice(_KINDS)
        made = encode(kind.name, **{field.name: self.number(field) for field in kind.fields})
        return FlippedResult(*made) if r.random() < 0.03 else made


class _Damage:
    """Blows at a list of commands, from `start` on."""

    def __init__(self, chance: _Chance, items: list[Item], start: int) -> None:
        self.r, self.items, self.start = chance.r, list(items), start
        self.chance = chance
        self.blows: list[Callable[[int, Command], None]] = [
            *(self.field, self.field, self.field, self.field, self.near, self.near, self.near, self.bit),
            *(self.register, self.drop, self.double, self.swap, self.elsewhere, self.another, self.result),
            *(self.insert, self.insert, self.between, self.between, self.accumulate, self.configure),
        ]

    def strike(self) -> None:
        """One blow, at a random command."""
        at = [n for n in range(self.start, len(self.items)) if self.items[n] is not None]
        if not at:
            self.items.append(self.chance.command())
            return
        index = self.r.choice(at)
        command = self.items[index]
        assert command is not None
        self.r.choice(self.blows)(index, command)

    def _random_field(self, command: Command) -> tuple[CommandType, Field] | None:
        kind = find_command_type(command.funct, command.rs1)
        return None if kind is None or not kind.fields else (kind, self.r.choice(kind.fields))

    def _put(self, index: int, command: Command, field: Field, value: int) -> None:
        register = command.rs1 if field.register == "rs1" else command.rs2
        register = register & ~(field.mask << field.low) | (value & field.mask) << field.low
        changed = {field.register: register}
        self.items[index] = command._replace(**changed)

    def field(self, index: int, command: Command) -> None:
        """A field becomes zero, all ones, a limit, or anything."""
        if found := self._random_field(command):
            self._put(index, command, found[1], self.chance.number(found[1]))

    def near(self, index: int, command: Command) -> None:
        """A field becomes a little more or less, or twice as much."""
        if found := self._random_field(command):
            field = found[1]
            value = field.extract(command)
            self._put(index, command, field, self.r.choice((value + 1, value - 1, 2 * value, value // 2)))

    def bit(self, index: int, command: Command) -> None:
        """A bit flips."""
        flipped = 1 << self.r.randrange(64)
        changed = {"rs1": command.rs1 ^ flipped} if self.r.getrandbits(1) else {"rs2": command.rs2 ^ flipped}
        self.items[index] = command._replace(**changed)

    def register(self, index: int, command: Command) -> None:
        """A register becomes zero, all ones, or anything."""
        value = self.r.choice((0, _REGISTER, _WORD, self.r.getrandbits(64)))
        changed = {self.r.choice(("rs1", "rs2")): value}
        self.items[index] = command._replace(**changed)

    def drop(self, index: int, _: Command) -> None:
        """A command is missing."""
        del self.items[index]

    def double(self, index: int, command: Command) -> None:
        """A command comes twice."""
        self.items.insert(index, command)

    def swap(self, index: int, command: Command) -> None:
        """Two commands change places."""
        other = self.r.randrange(self.start, len(self.items))
        self.items[index], self.items[other] = self.items[other], command

    def elsewhere(self, index: int, command: Command) -> None:
        """A command comes at another time."""
        del self.items[index]
        self.items.insert(self.r.randint(self.start, len(self.items)), command)

    def another(self, index: int, command: Command) -> None:
        """A command becomes another one, with the same registers."""
        self.items[index] = command._replace(
            funct=self.r.choice((self.r.getrandbits(7), self.r.randrange(26)))
        )

    def result(self, index: int, command: Command) -> None:
        """A command asks for a result that it has not, or does not ask for the one that it has."""
        self.items[index] = FlippedResult(*command)

    def insert(self, index: int, _: Command) -> None:
        """A command of chance, or one of the stream's own, comes between."""
        own = self.r.choice(self.items)
        self.items.insert(index, self.chance.command() if own is None or self.r.getrandbits(1) else own)

    def _one_of(self, *names: str) -> tuple[int, Command] | None:
        """One of the commands with these names, and its place."""
        found = [
            (n, item)
            for n, item in enumerate(self.items[self.start :], self.start)
            if item is not None and (kind := find_command_type(item.funct, item.rs1)) and kind.name in names
        ]
        return self.r.choice(found) if found else None

    def between(self, index: int, command: Command) -> None:
        """A load, store or copy of rows near those of a PRELOAD comes before its COMPUTE."""
        r, dim = self.r, self.chance.dim
        if not (found := self._one_of("PRELOAD")):
            self.insert(index, command)
            return
        index, preload = found
        word = r.choice((preload.rs1, preload.rs2)) & _WORD & ~(READ_FULL if r.getrandbits(1) else 0)
        row = min(max((word & _ROW) + r.randint(-dim, dim), 0), _ROW)
        fields = {"rows": r.randint(1, dim), "cols": r.randint(1, dim), "local": word & ~_ROW | row}
        name = r.choice(("MVIN", "MVIN2", "MVIN3", "MVOUT", "MVOUT_SPAD"))
        if name == "MVOUT_SPAD":
            fields |= {"destination": row, "destination_stride": 1}
            fields[r.choice(("destination", "local"))] = self.chance.local()
        else:
            fields["address"] = self.chance.base + r.randrange(MEMORY_BYTES // 2)
        self.items.insert(index + 1, encode(name, **fields))

    def accumulate(self, index: int, command: Command) -> None:
        """A COMPUTE uses what the array holds instead of what was preloaded, or the other way round."""
        if not (found := self._one_of("COMPUTE_PRELOADED", "COMPUTE_ACCUMULATED")):
            self.insert(index, command)
            return
        index, compute = found
        self.items[index] = compute._replace(funct=compute.funct ^ 1)

    def configure(self, index: int, _: Command) -> None:
        """A CONFIG_EX of sensible values comes between."""
        r = self.r
        values = {name: r.getrandbits(1) for name in ("dataflow", "activation", "a_transpose", "b_transpose")}
        self.items.insert(
            index,
            encode("CONFIG_EX", a_stride=r.choice((1, 1, 2)), c_stride=1, acc_scale=IDENTITY_SCALE, **values),
        )
