"""Telling people why a simulation was stopped."""

from __future__ import annotations

from typing import Any

from baco.accel.isa import disassemble
from baco.accel.legality.errors import MAIN_MEMORY, error_reason
from baco.sim.elf import ElfProgram

#: Commands shown of those accepted last, and of those in flight (the oldest, which the others wait for).
_SHOWN, _SHOWN_IN_FLIGHT = 8, 16
_HINTS = {
    "stall": "the commands in flight wait for something that never comes; --trace FILE.vcd shows the signals",
    "max_cycles": "if the program only needs longer, raise --max-cycles",
    "timeout": "if the program only needs longer, raise --timeout",
    "memory": "check the addresses of the program or stream; --memory-mib enlarges memory",
}
_REFUSED_HINT = "`baco isa COMMAND` lists the rules of a command"
_OUTSIDE_HINT = "check its addresses, strides and sizes; --memory-mib enlarges memory"


def describe(record: dict[str, Any], program: ElfProgram | None) -> tuple[str, list[str], str | None]:
    """Message, further lines and hint for a simulator's record with a `failure`."""
    failure = record["failure"]
    kind = failure["kind"]
    message, lines = f"cycle {failure['cycle']:,}: {failure['message']}", []
    refused = failure.get("refused")
    if kind == "refused" and refused:
        reason = error_reason(refused["code"])
        message = (
            f"cycle {refused['cycle']:,}: the accelerator refused a command, {reason}: {_command(refused)}"
        )
        if record["engine"] == "functional":  # which words the reason more closely
            lines.append(failure["message"])
    if "pc" in failure:
        lines.append(f"host core at {failure['pc']:#x}")
    if "stream_line" in failure:
        lines.append(f"command stream at line {failure['stream_line']}")
    recent = failure["recent_commands"][-_SHOWN:]
    if recent:
        lines.append("last commands (cycle, command):")
        lines += [f"  {command['cycle']:>10,}  {_command(command)}" for command in recent]
    in_flight = failure["in_flight"]
    if in_flight:
        lines.append("in flight (unit, entry, allocated, issued, command):")
        for command in in_flight[:_SHOWN_IN_FLIGHT]:
            issued = f"{command['issued']:,}" if "issued" in command else "waiting"
            lines.append(
                f"  {command['unit']:<8}{command['id']:>3}  {command['allocated']:>10,}  {issued:>10}  {_command(command)}"
            )
        if len(in_flight) > _SHOWN_IN_FLIGHT:
            lines.append(f"  and {len(in_flight) - _SHOWN_IN_FLIGHT} younger ones")
    if kind == "refused" and refused:
        return message, lines, _OUTSIDE_HINT if refused["code"] == MAIN_MEMORY else _REFUSED_HINT
    return message, lines, _HINTS.get(kind)


def _command(record: dict[str, Any]) -> str:
    return disassemble(record["funct"], record["rs1"], record["rs2"])
