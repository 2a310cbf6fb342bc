"""The result of a simulation for people."""

from __future__ import annotations

from collections.abc import Iterator

from baco.sim.job import ENGINE_WORDS, Simulation


def energy_text(energy_uj: float | None, result: Simulation) -> str:
    """The line that says what a program takes."""
    if energy_uj is None:
        return "energy          unknown"
    edp = f", energy-delay product {energy_uj * result.cycles:.4e} µJ·cycles" if result.cycles else ""
    amount = f"{energy_uj:,.0f}" if energy_uj >= 1000 else f"{energy_uj:.4g}"
    return f"energy          {amount} µJ of the accelerator and DRAM, as counted{edp}"


def result_lines(result: Simulation) -> Iterator[str]:
    """Lines to print, the most wanted figures first."""
    if result.cycles is not None:
        whose = f" of a {ENGINE_WORDS[result.engine]}" if result.engine in ENGINE_WORDS else ""
        yield f"cycles          {result.cycles:,}{whose}"
    if result.instructions:
        yield f"instructions    {result.instructions:,}"
    if result.macs is not None:
        yield f"commands        {sum(result.commands.values()):,} ({_counts(result.commands)})"
        if result.unrolled != result.commands:
            yield f"  unrolled to   {sum(result.unrolled.values()):,} ({_counts(result.unrolled)})"
        yield f"MACs            {result.macs:,}"
    if result.utilisation is not None:
        yield f"utilisation     {100 * result.utilisation:.1f} % of the array's peak"
    if result.dram_read_bytes is not None:
        read, written = result.dram_read_bytes, result.dram_write_bytes
        yield f"DRAM            {read:,} bytes read, {written:,} bytes written"
    else:  # a simulator of the user's: the little that it told
        yield from (f"{name.replace('_', ' '):<15} {count:,}" for name, count in result.counters.items())
    if result.cycles:
        busy = result.counters["accelerator_busy_cycles"]
        yield f"accelerator     busy in {100 * busy / result.cycles:.1f} % of the cycles"
    for note in result.notes:
        yield f"note            {note}"
    yield f"simulated in    {result.wall_seconds:.2f} s" + _rate(result)


def _rate(result: Simulation) -> str:
    if result.cycles is None or result.wall_seconds < 0.01:
        return ""
    return f" ({result.cycles / result.wall_seconds / 1000:,.0f} thousand cycles/s)"


def _counts(commands: dict[str, int]) -> str:
    largest = sorted(commands.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count:,}" for name, count in largest[:6])
    return shown + (", ..." if len(largest) > 6 else "") if shown else "none"
