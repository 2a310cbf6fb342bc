"""The loop macros of the numpy machine: written out into commands, which are executed phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.gemmini import loop_conv, loop_ws
from tests.gemmini.normaliser import INV_STDDEV, INV_SUM_EXP, MAX, MEAN, Normaliser

if TYPE_CHECKING:
    from tests.gemmini.config import GemminiConfig
    from tests.gemmini.machine import Place, StoreState

#: Field codes of LOOP_WS' activation whose stores take statistics of their rows before.
_NORMALISED = {2: (MEAN, INV_STDDEV), 4: (MAX, INV_SUM_EXP)}


class LoopMacros:
    """The loop unrollers of NumpyGemmini; their state is two slots and the accumulator half of each phase."""

    config: GemminiConfig
    dim: int
    acc: np.ndarray
    st: StoreState
    normaliser: Normaliser
    #: Whether the command that is executed comes from a macro.
    unrolling = False

    if TYPE_CHECKING:

        def execute(self, funct: int, rs1: int, rs2: int) -> None: ...
        def place(self, word: int) -> Place: ...
        def write(self, addresses: np.ndarray, values: np.ndarray, size: int) -> None: ...
        def narrowed(self, values: np.ndarray) -> np.ndarray: ...
        def by_table(self, values: np.ndarray) -> np.ndarray: ...

    def reset_macros(self) -> None:
        c = self.config
        self.ws = loop_ws.LoopWs(
            c.dim,
            c.scratchpad_rows,
            c.accumulator_rows,
            c.dma_max_bytes,
            packed_weights=c.packed_weights,
            size=c.element_bytes,
        )
        self.conv = loop_conv.Expander(c)
        self.conv_slots: list[dict[int, tuple[int, int]]] = [{}, {}]

    def macro(self, funct: int, rs1: int, rs2: int) -> None:
        """Remember a configuration, or run a loop."""
        if 16 <= funct <= 21:
            self.conv_slots[self.conv.slot][funct] = (rs1, rs2)
            return
        self.unrolling = True
        if funct == 15:
            self._loop_conv(rs1, rs2)
        else:
            rows = self.ws.slots[self.ws.slot].payload.get(loop_ws.BOUNDS, (0, 0))[1] & 0xFFFF
            for name, stream in (self.ws.feed(loop_ws.Raw(funct, rs1, rs2)) or {}).items():
                commands = [one.raw for one in stream]
                if name == "st" and rs1 >> 8 & 7 in _NORMALISED:
                    for i in range(rows):
                        self._store_normalised(commands[i::rows], rs1 >> 8 & 7)
                else:
                    for command in commands:
                        self.execute(*command)
        self.unrolling = False

    def _loop_conv(self, rs1: int, rs2: int) -> None:
        loop = loop_conv.LoopConv.of_registers(self.conv_slots[self.conv.slot] | {15: (rs1, rs2)})
        for commands in self.conv.expand(loop).values():
            for command in commands:
                self.execute(*command)

    def _store_normalised(self, commands: list[loop_ws.Raw], activation: int) -> None:
        """A row of blocks: statistics of its whole rows first, in turn in two slots, then their results."""
        for r in range(commands[0].rs2 >> 48 if commands else 0):
            columns = [np.arange(command.rs2 >> 32 & 0xFFFF) for command in commands]
            places = [
                (self.place(command.rs2).row + r + c // self.dim * self.dim, c % self.dim)
                for command, c in zip(commands, columns, strict=True)
            ]
            row = np.concatenate([self.acc[place] for place in places])
            self.normaliser.slot = r % 2
            for norm in _NORMALISED[activation]:
                self.normaliser.take(row, norm)
            self.normaliser.leave()
            addresses = [
                command.rs1 + r * self.st.stride + c for command, c in zip(commands, columns, strict=True)
            ]
            self.write(
                np.concatenate(addresses),
                self.by_table(self.narrowed(row, np.arange(row.shape[-1]) % self.dim)),
                1,
            )
