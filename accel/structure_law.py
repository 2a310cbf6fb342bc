"""What an accelerator consists of as a law of its configuration: registers, multipliers, adders, multiplexers.

The counts that `baco.accel.verilog.structure` takes from Yosys, without running it: each is a linear combination of the
`terms` below, whose coefficients `baco.bench.fit.structure` fits to Yosys' counts of many configurations. Terms are
what the modules are made of (elements of the array, lanes, entries of queues, ...), so the law also holds far
beyond the small arrays it is fitted to. SRAM is left out: its bits are the capacities. So are the widths of
row addresses, which follow from the capacities. An array of a single tile has a few multiplexers fewer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

from baco.accel.dataflows import DATAFLOWS, DataflowSetting, offered
from baco.accel.number_formats import FLOATS, FORMATS

#: What the law predicts:
#:  register_bits: bits in flip-flops and in memories other than the SRAM of scratchpad and accumulator.
#:  partial_products: product of the operand widths, added up over all multipliers.
#:  adder_bits: widths of adders, subtractors and comparators.
#:  multiplexer_bits: widths of two-way multiplexers, stages of shifters and read selectors of small memories.
QUANTITIES = ("register_bits", "partial_products", "adder_bits", "multiplexer_bits")


class Configuration(Protocol):
    """The part of `baco.accel.config.Accelerator` that decides the structure."""

    @property
    def dataflow(self) -> DataflowSetting: ...
    @property
    def tile_rows(self) -> int: ...
    @property
    def partial_sum_bits(self) -> int: ...
    @property
    def scratchpad_banks(self) -> int: ...
    @property
    def accumulator_banks(self) -> int: ...
    @property
    def dma_bits(self) -> int: ...
    @property
    def dma_max_bytes(self) -> int: ...
    @property
    def dma_requests(self) -> int: ...
    @property
    def load_queue(self) -> int: ...
    @property
    def execute_queue(self) -> int: ...
    @property
    def store_queue(self) -> int: ...
    @property
    def load_entries(self) -> int: ...
    @property
    def execute_entries(self) -> int: ...
    @property
    def store_entries(self) -> int: ...
    @property
    def scale_lanes(self) -> int: ...
    @property
    def counters(self) -> int: ...
    @property
    def input_format(self) -> str: ...
    @property
    def input_bits(self) -> int: ...
    @property
    def features(self) -> Any: ...


def terms(configuration: Configuration, dim: Any) -> dict[str, Any]:
    """Values of the law's terms.

    Args:
        configuration: everything but the side of the array and the capacities.
        dim: side of the array: a number, numpy array or torch tensor; fractional values are accepted.

    Returns:
        Terms by name, each a number or of the shape of `dim`.
    """
    c = configuration
    psum = c.partial_sum_bits
    tiles = dim / c.tile_rows
    # an element has what its dataflow needs, whatever runs along the rows, or what both need and a selection
    sums_stay = {DATAFLOWS[name].sums_stay for name in offered(c.dataflow)}
    only_ws, only_os = float(sums_stay == {False}), float(sums_stay == {True})
    entries = c.load_entries + c.execute_entries + c.store_entries
    lanes = _least(_least(dim, c.scale_lanes), c.dma_bits / 8)
    found: dict[str, Any] = {
        "1": 1.0,
        "dim": dim,
        "dim^2": dim * dim,
        "dim^2 psum": dim * dim * psum,
        "dim psum": dim * psum,
        "tiles": tiles,
        "dim tiles": dim * tiles,
        "dim tiles psum": dim * tiles * psum,
        "WS only": only_ws,
        "WS only dim": only_ws * dim,
        "WS only dim psum": only_ws * dim * psum,
        "WS only dim^2": only_ws * dim * dim,
        "WS only dim^2 psum": only_ws * dim * dim * psum,
        "OS only": only_os,
        "OS only dim^2": only_os * dim * dim,
        "OS only dim^2 psum": only_os * dim * dim * psum,
        "scratchpad banks": c.scratchpad_banks,
        "scratchpad banks dim": c.scratchpad_banks * dim,
        "accumulator banks": c.accumulator_banks,
        "accumulator banks dim": c.accumulator_banks * dim,
        "dma bits": c.dma_bits,
        "dma bits log": c.dma_bits * (c.dma_bits.bit_length() - 1),
        "lanes": lanes,  # elements of a row of results that are worked on at a time
        "slice": _least(32 * dim, c.dma_bits),  # bits of a row of full width that are moved at a time
        "dma bytes": c.dma_max_bytes,
        "dma requests": c.dma_requests,
        "load queue": c.load_queue,
        "execute queue": c.execute_queue,
        "store queue": c.store_queue,
        "load entries": c.load_entries,
        "execute entries": c.execute_entries,
        "store entries": c.store_entries,
        "entries^2": entries * entries,
        "counters": c.counters,
        "counters built": float(c.counters > 0),
    }
    return found | _of_features(c, dim, lanes, found["slice"])


def _of_features(c: Configuration, dim: Any, lanes: Any, piece: Any) -> dict[str, Any]:
    """Terms of what a configuration may leave out; lanes and bits of a slice (`piece`) as in `terms`."""
    on = c.features
    terms: dict[str, Any] = {}
    built = {
        name: float(getattr(on, name))
        for name in ("loop_ws", "loop_conv", "mvin_scale_acc", "first_layer", "write_to_scratchpad")
    }
    # the lanes that scale accumulator loads come on top of those for scratchpad loads
    built["mvin_scale"] = float(on.mvin_scale or on.mvin_scale_acc)
    # of rows that take turns at fewer lanes than they have elements, and results at fewer than the port moves
    apart, apart_out = dim - _least(dim, c.scale_lanes), _least(dim, c.dma_bits / 8) - lanes
    terms |= {
        "scale_lanes in": built["mvin_scale"] * (apart > 0),
        "scale_lanes in dim": built["mvin_scale"] * apart,
        "scale_lanes in wide": built["mvin_scale_acc"] * apart,
        "scale_lanes out": 1.0 * (apart_out > 0),
        "scale_lanes out dim": (apart_out > 0) * dim,
    }
    for name, value in built.items():
        terms[name] = value
        terms[f"{name} dim"] = value * dim
    for name in ("accumulator_scale", "max_pool"):
        terms[name] = float(getattr(on, name))
        terms[f"{name} lanes"] = getattr(on, name) * lanes
    terms["max_pool dim"] = on.max_pool * dim
    for name in ("activations", "read_small_width", "read_full_width"):
        terms[name] = float(getattr(on, name))
    # without effect where both dataflows are built
    terms["preload_d"] = float(on.preload_d or c.dataflow == "both")
    rows = float(on.row_functions)
    terms |= {"row_functions": rows, "row_functions dim": rows * dim, "row_functions lanes": rows * lanes}
    terms["row_functions slice"] = rows * piece
    scales = float(on.requantization)
    terms |= {
        "requantization": scales,
        "requantization dim": scales * dim,
        "requantization lanes": scales * lanes,
        "requantization slice": scales * piece,
    }
    pairs = float(on.packed_weights)
    terms |= {"packed_weights": pairs, "packed_weights dim": pairs * dim}
    terms["packed_weights loop_ws"] = pairs * float(on.loop_ws)
    blocks = float(on.block_weights)
    terms |= {"block_weights": blocks, "block_weights dim": blocks * dim}
    # that one load may bring, each of which has a power
    terms["block_weights columns"] = blocks * _larger(_larger(64, c.dma_max_bytes), 4 * dim) / 2
    normal = float(on.normalizations)
    terms |= {
        "normalizations": normal,
        "normalizations dim": normal * dim,
        "normalizations lanes": normal * lanes,
    }
    terms["normalizations loop_ws"] = normal * float(on.loop_ws)
    for form in FLOATS:
        built_of, wide = float(c.input_format == form), FORMATS[form].bits > 8
        cut = _least(_least(dim, c.scale_lanes), c.dma_bits / FORMATS[form].bits)
        terms |= {
            form: built_of,
            f"{form} dim": built_of * dim,
            f"{form} dim^2": built_of * dim * dim,
            f"{form} accumulator banks dim": built_of * c.accumulator_banks * dim,
            f"{form} lanes": built_of * cut,
            # powers of two in place of the lanes that scale integers, and of their way there
            f"{form} accumulator_scale": built_of * on.accumulator_scale,
            f"{form} accumulator_scale lanes": built_of * on.accumulator_scale * lanes,
        }
        if wide:
            # rows that leave banks and that run through tiles are wider, and fewer elements are a beat
            terms |= {
                f"{form} scratchpad banks dim": built_of * c.scratchpad_banks * dim,
                f"{form} dim tiles": built_of * dim * dim / c.tile_rows,
            }
    for name in ("training_convs", "depthwise_convs", "first_layer", "max_pool"):
        terms[f"loop_conv {name}"] = float(on.loop_conv and getattr(on, name))
    return terms | _of_wide_integers(c, dim, lanes)


def _of_wide_integers(c: Configuration, dim: Any, lanes: Any) -> dict[str, Any]:
    """Terms of what integers of 16 bits change: rows of elements are wider everywhere, and fewer are a beat; `lanes` as in `terms`."""
    built, on = float(c.input_format == "int16"), c.features
    cut = _least(_least(dim, c.scale_lanes), c.dma_bits / 16)
    stays = built * float(all(not DATAFLOWS[name].sums_stay for name in offered(c.dataflow)))
    return {
        "int16": built,
        "int16 dim": built * dim,
        "int16 dim^2": built * dim * dim,
        "int16 dim tiles": built * dim * dim / c.tile_rows,
        "int16 WS only": stays,
        "int16 WS only dim^2": stays * dim * dim,
        "int16 scratchpad banks dim": built * c.scratchpad_banks * dim,
        "int16 lanes": built * cut,
        "int16 fewer lanes": built * (lanes - cut),
        "int16 accumulator_scale": built * on.accumulator_scale,
        "int16 accumulator_scale lanes": built * on.accumulator_scale * cut,
        "int16 accumulator_scale fewer lanes": built * on.accumulator_scale * (lanes - cut),
        "int16 mvin_scale": built * (on.mvin_scale or on.mvin_scale_acc),
        "int16 mvin_scale dim": built * (on.mvin_scale or on.mvin_scale_acc) * _least(dim, c.scale_lanes),
        "int16 max_pool dim": built * on.max_pool * dim,
        "int16 max_pool lanes": built * on.max_pool * cut,
        "int16 first_layer dim": built * on.first_layer * dim,
        "int16 write_to_scratchpad dim": built * on.write_to_scratchpad * dim,
        "int16 loops": built * (float(on.loop_ws) + float(on.loop_conv)),
    }


def _least(a: Any, b: Any) -> Any:
    """min(a, b) by arithmetic that numbers, arrays and tensors share."""
    return (a + b - abs(a - b)) / 2


def _larger(a: Any, b: Any) -> Any:
    """max(a, b), likewise."""
    return a + b - _least(a, b)


@dataclass(frozen=True)
class StructureLaw:
    """Coefficients by quantity and term; a term left out has the coefficient 0."""

    coefficients: Mapping[str, Mapping[str, float]]

    def counts(self, configuration: Configuration, dim: Any) -> dict[str, Any]:
        """Every one of `QUANTITIES`, with the shape of `dim` (arguments as for `terms`)."""
        values = terms(configuration, dim)
        return {
            quantity: sum(factor * values[name] for name, factor in factors.items())
            for quantity, factors in self.coefficients.items()
        }

    def difference(self, configuration: Configuration, reference: Configuration, dim: Any) -> dict[str, Any]:
        """How many more of each of `QUANTITIES` one configuration has than another, of one size.

        Exactly 0 where they are equal: terms are subtracted before they are added up.
        """
        one, other = terms(configuration, dim), terms(reference, dim)
        return {
            quantity: sum(factor * (one[name] - other[name]) for name, factor in factors.items())
            for quantity, factors in self.coefficients.items()
        }


@cache
def structure_law() -> StructureLaw:
    """The law with the committed coefficients."""
    text = resources.files("baco.accel").joinpath("structure.json").read_text(encoding="utf-8")
    return StructureLaw(json.loads(text)["coefficients"])
