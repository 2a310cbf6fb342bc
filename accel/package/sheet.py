"""The data sheet: one self-contained page with what an accelerator is, costs and does, and who says so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from baco.accel.config import PARAMETERS, Accelerator
from baco.accel.package.hardware import MemoryBanks, memory_banks
from baco.accel.technology import technology
from baco.common.page import html_cards, html_table, page
from baco.common.text import html_text
from baco.common.units import si, significant

if TYPE_CHECKING:
    from baco.accel.synthesis.report import Synthesis


_STYLE = """
figure { margin: 1rem 0; } figure svg { width: 100%; max-width: 46rem; height: auto; display: block; }
figure text { font: 13px system-ui, sans-serif; fill: currentColor; } figure .soft { opacity: 0.7; font-size: 11px; }
figure rect, figure path, figure circle { stroke: currentColor; fill: none; stroke-width: 1.2; }
figure circle { fill: currentColor; } figure .thin { stroke-width: 0.4; stroke-dasharray: 3 3; }
"""


@dataclass(frozen=True)
class NetworkFigures:
    """What a network takes on the accelerator.

    Attributes:
        name: of the network.
        macs, dram_bytes: of one inference.
        cycles, energy_uj: of one inference, the whole program with what the host does.
    """

    name: str
    macs: float
    dram_bytes: float
    cycles: float
    energy_uj: float


def data_sheet(
    accelerator: Accelerator,
    *,
    networks: Sequence[NetworkFigures],
    sources: Mapping[str, str],
    synthesis: Synthesis | None = None,
) -> str:
    """The page, as HTML.

    Args:
        sources: of figures of networks and of the area, in words, by what they are of; they say how far such figures are off.
        synthesis: of the accelerator in a technology; without, area and clock are what the configuration's models say.
    """
    sections = [
        ("What it is", f"<figure>{_diagram(accelerator)}</figure>" + _headline(accelerator, synthesis)),
        ("Area", _area(accelerator, synthesis)),
        ("Clock", _clock(accelerator, synthesis)),
        ("Networks", _networks(accelerator, networks, sources) if networks else ""),
        ("Memories", _memories(memory_banks(accelerator))),
        ("Parameters", _parameters(accelerator)),
        ("Where figures come from", _sources(sources)),
    ]
    body = "".join(f"<section><h2>{title}</h2>{text}</section>" for title, text in sections if text)
    return page(
        title=f"{accelerator.name}: data sheet (baco)",
        brand="data sheet",
        heading=accelerator.name,
        subheading=f"configuration {html_text(accelerator.config_hash)}",
        body=body,
        styles=[_STYLE],
    )


def _headline(accelerator: Accelerator, synthesis: Synthesis | None) -> str:
    a = accelerator
    peak = a.dim * a.dim
    area = synthesis.area_mm2 if synthesis else a.area_mm2
    mhz = synthesis.clock_mhz if synthesis else a.clock_mhz
    source = synthesis.libraries if synthesis else f"predicted in {a.technology}"
    return _cards(
        (
            "array",
            f"{a.dim} x {a.dim}",
            f"dataflow {a.dataflow}, int{a.input_bits} in, {a.partial_sum_bits}-bit sums",
        ),
        ("peak", si(2e6 * peak * mhz, "op/s"), f"{peak:,} products a cycle at {mhz:,.4g} MHz"),
        ("memories", f"{a.scratchpad_kib} + {a.accumulator_kib} KiB", "scratchpad and accumulator"),
        ("area", f"{significant(area)} mm²", source),
        ("main memory", f"{significant(a.memory_gb_s)} GB/s", f"port of {a.dma_bits} bits"),
    )


def _cards(*cards: tuple[str, str, str]) -> str:
    return f'<ul class="cards">{html_cards(cards)}</ul>'


def _area(accelerator: Accelerator, synthesis: Synthesis | None) -> str:
    if synthesis is None:
        blocks = accelerator.area_blocks()
        return html_table(
            ("block", "mm²", "share"),
            _shares(blocks.items()),
            numeric=(1, 2),
            total=("whole", significant(sum(blocks.values())), ""),
            caption=_predicted_area(accelerator),
        )
    by_module = [(f"{one.instances:,} x {one.name}", one.mm2) for one in synthesis.modules]
    return html_table(
        ("part", "mm²", "share"),
        _shares([("memories", synthesis.memories_mm2), *by_module]),
        numeric=(1, 2),
        total=("whole", significant(synthesis.area_mm2), ""),
        caption=f"Area by module, from the netlist ({synthesis.libraries}, mapped by {synthesis.yosys}), before layout",
    )


def _predicted_area(accelerator: Accelerator) -> str:
    silicon = technology(accelerator.technology)
    if silicon.measured:
        return f"Area by block, predicted in {silicon.name}: {silicon.evidence['area']}"
    return (
        "Area by block, predicted by the law fitted to published areas of a 45 nm model. It charges logic far"
        " less than synthesis finds: pass a library of cells for areas of the netlist"
    )


def _shares(areas: Iterable[tuple[str, float]]) -> list[tuple[str, str, str]]:
    found = list(areas)
    whole = sum(area for _, area in found)
    return [(name, significant(area), f"{area / whole:.1%}") for name, area in found]


def _clock(accelerator: Accelerator, synthesis: Synthesis | None) -> str:
    silicon = technology(accelerator.technology)
    if synthesis is None and silicon.period is not None:
        return f"<p>{accelerator.clock_mhz:,.4g} MHz, predicted in {silicon.name}: {silicon.evidence['clock']}; this one was not timed.</p>"
    if synthesis is None:
        return (
            f"<p>{accelerator.clock_mhz:,.4g} MHz, <b>assumed</b>: the configuration says so, and no netlist was timed."
            " Cycles hold at any clock; seconds, watts and operations a second follow it.</p>"
        )
    paths = [
        (f"{path.need_ns:.2f}", str(path.cells), f"{path.start} to {path.end}", _through(path.through))
        for path in synthesis.worst_paths
    ]
    text = (
        f"<p>{synthesis.clock_mhz:,.4g} MHz, from the mapped netlist before layout, {synthesis.margin:.0%} of the period kept"
        f" for it and {synthesis.wire_ff:.3g} fF of wire to each pin assumed. Leakage {significant(synthesis.leakage_mw)} mW.</p>"
    )
    remarks = "".join(f"<p>{html_text(one)}</p>" for one in synthesis.remarks)
    table = html_table(
        ("ns", "cells", "from and to", "through"),
        paths,
        numeric=(0, 1),
        caption="Paths that limit the clock, the worst of each module",
    )
    return text + remarks + table


def _through(scopes: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{scope or 'the top'} ({cells})" for scope, cells in scopes)


def _networks(
    accelerator: Accelerator, networks: Sequence[NetworkFigures], sources: Mapping[str, str]
) -> str:
    seconds = [network.cycles / accelerator.clock_mhz * 1e-6 for network in networks]
    peak = accelerator.dim**2
    rows = [
        (
            network.name,
            f"{network.cycles:,.0f}",
            si(time, "s"),
            si(network.energy_uj * 1e-6, "J"),
            si(network.energy_uj * 1e-6 / time, "W"),
            f"{network.macs / network.cycles / peak:.1%}",
            si(network.dram_bytes, "B"),
        )
        for network, time in zip(networks, seconds, strict=True)
    ]
    table = html_table(
        ("network", "cycles", "latency", "energy", "power", "array in use", "main memory"),
        rows,
        numeric=(1, 2, 3, 4, 5, 6),
        caption=f"One inference of each network, whole programs, at the configuration's {accelerator.clock_mhz:,.4g} MHz."
        f" {'; '.join(f'{what}: {text}' for what, text in sources.items() if what != 'area')}",
    )
    return f"{table}<figure>{_roofline(accelerator, networks)}<figcaption>Whole networks below the roof of the array and of main memory</figcaption></figure>"


def _memories(banks: Sequence[MemoryBanks]) -> str:
    rows = [
        (one.use, f"{one.banks}", f"{one.shape.rows:,}", f"{one.shape.width}", f"{one.kib:g}")
        for one in banks
    ]
    return html_table(
        ("holds", "banks", "rows", "bits of a row", "KiB"),
        rows,
        numeric=(1, 2, 3, 4),
        caption="Banks of memory, each with a read and a write port (memories.md says what they have to do)",
    )


def _parameters(accelerator: Accelerator) -> str:
    fields = type(accelerator).model_fields
    rows = [
        (field, f"{getattr(accelerator, field)}", row.unit, fields[field].description or row.label)
        for field, row in PARAMETERS.items()
    ]
    rows += [
        (
            f"features.{name}",
            "yes" if getattr(accelerator.features, name) else "no",
            "",
            one.description or "",
        )
        for name, one in type(accelerator.features).model_fields.items()
    ]
    return html_table(
        ("parameter", "value", "unit", "meaning"), rows, caption="The configuration (accelerator.yaml)"
    )


def _sources(sources: Mapping[str, str]) -> str:
    return (
        "<ul>"
        + "".join(f"<li><b>{html_text(what)}</b>: {html_text(text)}</li>" for what, text in sources.items())
        + "</ul>"
    )


# ---------------------------------------------------------------- pictures


def _box(x: float, y: float, wide: float, high: float, title: str, *lines: str) -> str:
    middle = x + wide / 2
    texts = [f'<text x="{middle}" y="{y + 20}" text-anchor="middle">{html_text(title)}</text>']
    texts += [
        f'<text class="soft" x="{middle}" y="{y + 36 + 14 * number}" text-anchor="middle">{html_text(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4"/>{"".join(texts)}'


def _arrow(*points: tuple[float, float]) -> str:
    path = "M" + " L".join(f"{x} {y}" for x, y in points)
    return f'<path d="{path}" marker-end="url(#head)"/>'


def _both(x: float, top: float, bottom: float) -> str:
    """A vertical line of which one end is a block: data goes up and down."""
    return f'<path d="M{x} {top} L{x} {bottom}" marker-start="url(#head)" marker-end="url(#head)"/>'


def _diagram(a: Accelerator) -> str:
    """Blocks from the command port to the memory port, with the sizes that this configuration gives them."""
    on = a.features
    unrollers = [name for name, built in (("LOOP_CONV_WS", on.loop_conv), ("LOOP_WS", on.loop_ws)) if built]
    out = ["scaling"] if on.accumulator_scale else []
    out += [
        name
        for name, built in (
            ("scales of columns", on.requantization),
            ("max pooling", on.max_pool),
            ("functions of rows", on.row_functions),
        )
        if built
    ]
    out += ["normaliser"] if on.normalizations else []
    scales = on.mvin_scale or on.mvin_scale_acc
    parts = [
        _box(10, 10, 130, 76, "Unrollers", *(unrollers or ["none"])),
        _box(180, 10, 200, 76, "Reservation station", f"{a.load_entries} loads, {a.execute_entries} products,", f"{a.store_entries} stores"),
        _box(10, 130, 130, 90, "Load", f"queue of {a.load_queue}", *(["scaling"] if scales else [])),
        _box(180, 130, 200, 90, "Execute", f"array {a.dim} x {a.dim}, {a.dataflow}", f"sums of {a.partial_sum_bits} bits, queue of {a.execute_queue}", f"pipeline stages of {a.tile_rows} row{'s' * (a.tile_rows > 1)}"),
        _box(420, 130, 170, 90, "Store", f"queue of {a.store_queue}", *_two_a_line(out)),
        _box(70, 270, 200, 76, "Scratchpad", f"{a.scratchpad_kib} KiB in {a.scratchpad_banks} banks", f"rows of {a.dim} bytes"),
        _box(300, 270, 200, 76, "Accumulator", f"{a.accumulator_kib} KiB in {a.accumulator_banks} banks", f"rows of {a.dim} words of {a.accumulator_bits} bits"),
        _box(10, 390, 580, 50, f"Memory port, {a.dma_bits} bits", f"requests of at most {a.dma_max_bytes} bytes, {a.dma_requests} under way"),
        _arrow((140, 48), (180, 48)),
        *(_arrow((x, 86), (x, 108), (to, 108), (to, 130)) for x, to in ((220, 75), (280, 280), (340, 505))),
        '<path d="M110 245 L490 245"/>',
        *(_both(x, 220, 245) for x in (110, 280, 490)),
        *(_both(x, 245, 270) for x in (170, 400)),
        _arrow((30, 390), (30, 220)),
        _arrow((560, 220), (560, 390)),
    ]  # fmt: skip
    head = '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto-start-reverse"><path d="M0 0 L6 3 L0 6 z"/></marker></defs>'
    return f'<svg viewBox="0 0 600 450" role="img" aria-label="Block diagram">{head}{"".join(parts)}</svg>'


def _two_a_line(words: Sequence[str]) -> list[str]:
    return [", ".join(words[at : at + 2]) for at in range(0, len(words), 2)]


def _roofline(accelerator: Accelerator, networks: Sequence[NetworkFigures]) -> str:
    """MACs a cycle over MACs a byte of main memory, both logarithmic."""
    peak, rate = float(accelerator.dim**2), accelerator.dram_bytes_per_cycle
    points = [(one.macs / max(one.dram_bytes, 1.0), one.macs / one.cycles, one.name) for one in networks]
    ridge = peak / rate
    lowest_x = min([ridge / 8, *(x / 2 for x, _, _ in points)])
    highest_x = max([ridge * 8, *(x * 2 for x, _, _ in points)])
    lowest_y = min([lowest_x * rate, *(y / 2 for _, y, _ in points)])

    def at(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / lowest_x) / math.log(highest_x / lowest_x)
        up = math.log(y / lowest_y) / math.log(2 * peak / lowest_y)
        return round(60 + 520 * across, 1), round(250 - 230 * up, 1)

    roof = [
        at(max(lowest_x, lowest_y / rate), max(lowest_x * rate, lowest_y)),
        at(ridge, peak),
        at(highest_x, peak),
    ]
    shapes = ['<path d="M60 20 L60 250 L580 250"/>', f'<path d="M{" L".join(f"{x} {y}" for x, y in roof)}"/>']
    for exponent in range(math.ceil(math.log10(lowest_x)), math.floor(math.log10(highest_x)) + 1):
        x, _ = at(10.0**exponent, lowest_y)
        shapes.append(
            f'<path class="thin" d="M{x} 250 L{x} 20"/><text class="soft" x="{x}" y="265" text-anchor="middle">{10.0**exponent:g}</text>'
        )
    for exponent in range(math.ceil(math.log10(lowest_y)), math.floor(math.log10(2 * peak)) + 1):
        _, y = at(lowest_x, 10.0**exponent)
        shapes.append(
            f'<path class="thin" d="M60 {y} L580 {y}"/><text class="soft" x="54" y="{y + 4}" text-anchor="end">{10.0**exponent:g}</text>'
        )
    for intensity, speed, name in points:
        x, y = at(intensity, speed)
        end = ' text-anchor="end"' if x > 420 else ""
        shapes.append(
            f'<circle cx="{x}" cy="{y}" r="4"/><text x="{x - 8 if end else x + 8}" y="{y + 16}"{end}>{html_text(name)}</text>'
        )
    shapes.append(
        '<text class="soft" x="320" y="284" text-anchor="middle">MACs per byte of main memory</text>'
    )
    shapes.append('<text class="soft" x="64" y="14">MACs per cycle</text>')
    return f'<svg viewBox="0 0 600 290" role="img" aria-label="Roofline">{"".join(shapes)}</svg>'
