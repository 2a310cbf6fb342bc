"""Command streams, written command by command (sim/cpp/stream.h is their format)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baco.accel.isa import GARBAGE, Command, LocalAddress, encode

#: First byte of main memory.
BASE = 0x80000000


def accumulator(row: int, *, accumulate: bool = False, full: bool = False) -> int:
    """The address word of an accumulator row."""
    return LocalAddress(row, accumulator=True, accumulate=accumulate, read_full=full).word


class StreamText:
    """A stream that grows. Local addresses of the scratchpad are plain row numbers.

    Args:
        dim: side of the array, which is the default size of every operand.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.lines: list[str] = []
        self.commands: list[Command] = []

    def emit(self, name: str, **fields: Any) -> None:
        """One command; raises InputError as `baco.accel.isa.encode`."""
        command = encode(name, **fields)
        self.commands.append(command)
        self.lines.append(f"cmd {command.funct:x} {command.rs1:x} {command.rs2:x}")

    def fence(self) -> None:
        """Wait until nothing is in flight."""
        self.lines.append("fence")

    def write(self, address: int, data: bytes) -> None:
        """Put bytes in main memory, at once."""
        self.lines += [
            f"write {address + at:x} {data[at : at + 4096].hex()}" for at in range(0, len(data), 4096)
        ]

    def dump(self, address: int, count: int) -> None:
        """Print bytes of main memory, at once."""
        self.lines.append(f"dump {address:x} {count:x}")

    def config_load(self, stride: int, *, state: int = 0, scale: float = 1.0, **fields: Any) -> None:
        """CONFIG_LD with blocks of `dim` rows."""
        fields = {"block_stride": self.dim} | fields
        self.emit("CONFIG_LD", state=state, stride=stride, scale=scale, **fields)

    def load(self, address: int, local: int, *, rows: int | None = None, cols: int | None = None) -> None:
        """MVIN; rows and columns default to `dim`."""
        self.emit("MVIN", address=address, local=local, rows=rows or self.dim, cols=cols or self.dim)

    def store(self, address: int, local: int, *, rows: int | None = None, cols: int | None = None) -> None:
        """MVOUT; rows and columns default to `dim`."""
        self.emit("MVOUT", address=address, local=local, rows=rows or self.dim, cols=cols or self.dim)

    def product(
        self,
        a: int,
        c: int = GARBAGE,
        *,
        stationary: int = GARBAGE,
        moving: int = GARBAGE,
        rows: int | None = None,
        inner: int | None = None,
        keep: bool | None = None,
    ) -> None:
        """PRELOAD and COMPUTE of one pass.

        Args:
            a, c: operand A and result.
            stationary: weights (WS) or bias (OS), of PRELOAD.
            moving: bias (WS) or operand B (OS), of COMPUTE.
            rows: of A and C.
            inner: columns of A.
            keep: COMPUTE_ACCUMULATED instead of COMPUTE_PRELOADED; by default where `stationary` is garbage.
        """
        dim, rows, inner = self.dim, rows or self.dim, inner or self.dim
        form = (
            "COMPUTE_ACCUMULATED"
            if (stationary == GARBAGE if keep is None else keep)
            else "COMPUTE_PRELOADED"
        )
        self.emit("PRELOAD", bd=stationary, bd_rows=dim, bd_cols=dim, c=c, c_rows=rows, c_cols=dim)
        # a bias has the rows of the result, a moving B those of the inner dimension: the array takes what it needs
        self.emit(form, a=a, a_rows=rows, a_cols=inner, bd=moving, bd_rows=max(rows, inner), bd_cols=dim)

    def text(self) -> str:
        """The stream, with a fence at its end."""
        return "\n".join([*self.lines, "fence"]) + "\n"

    def save(self, path: Path) -> Path:
        """Write it to a file."""
        path.write_text(self.text(), encoding="ascii")
        return path
