"""What the first run of LOOP_CONV_WS costs a layer of few runs, beside the steady state that `cycles.py` describes.

Taken over many runs, loads of a run hide behind the passes of the run before. Nothing is before the first run: its operands come
in, and only part of its passes goes on meanwhile. So a layer takes at least the loads of its first run and all of its passes,
less that part. Where weights are loaded once and stay (the layer cut into rows of pixels), the first run loads most of what there
is.

The macro goes along the output channels outermost, block by block, while a load of weights brings four blocks: of the first
load's blocks one is computed beside it; beside the loads that follow, passes wait for the zeros of their sums, which queue behind
the weights. LOOP_WS goes along the depth, and computes nearly all that has come in.

The choice among tilings counts with this; predictions of layers do not, since learned residuals have their own idea of it.
"""

from __future__ import annotations

from dataclasses import replace

from baco.compiler.analysis.arrays import NUMPY, Values
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.styles.macros.cycles import ConvTile
from baco.compiler.styles.macros.runs import MacroCycles, MacroLayer

#: Share of the time of loads of weights, after those of the first blocks of channels, in which LOOP_CONV_WS computes; and cycles
#: from the first command to the first load and from the last pass to the end. Both from 706 programs of the published operators
#: on the RTL (`baco bench defaults`), 157 of them by LOOP_CONV_WS, whose mean error falls from 7.3% to 3.2%.
_BESIDE, _ENDS = 0.4, 400.0


def with_first_run(
    machine: MachineRates, layer: MacroLayer, tile: ConvTile, found: MacroCycles
) -> MacroCycles:
    """The same, of at least the cycles of the first run's loads and all passes.

    Args:
        machine, layer, tile: numbers, or arrays of numpy.
        found: what `conv_macro` says of them.
    """
    pooled = layer.pool_size > 0.5

    def pixels(stored: Values, stride: Values, window: Values, dilation: Values) -> Values:
        results = NUMPY.where(pooled, (stored - 1.0) * layer.pool_stride + layer.pool_size, stored)
        return (results - 1.0) * stride + (window - 1.0) * dilation + 1.0

    window = tile.kernel_rows * tile.kernel_columns
    weights = window * tile.depth * tile.channels / machine.bandwidth
    down = pixels(tile.rows, layer.stride_down, tile.kernel_rows, layer.dilation_down)
    across = pixels(tile.columns, layer.stride_across, tile.kernel_columns, layer.dilation_across)
    fewer = (1.0 + tile.downsample) * (1.0 + tile.downsample)
    inputs = tile.images * down * across / fewer * tile.depth / machine.bandwidth
    share = tile.images * tile.rows * tile.columns * tile.channels * window * tile.depth
    share = share / (layer.images * layer.rows * layer.columns * layer.channels)
    share = share / (layer.kernel_rows * layer.kernel_columns * layer.depth)
    compute = found.compute / layer.groups * share
    blocks = NUMPY.up(tile.channels / machine.dim)
    loads_of_weights = NUMPY.up(
        blocks / NUMPY.larger(machine.request / (machine.dim * layer.element_size), 1.0)
    )
    beside = compute / blocks + _BESIDE * weights * (1.0 - 1.0 / loads_of_weights)
    first = weights + inputs + found.compute - NUMPY.smaller(beside, compute) + _ENDS
    return replace(found, total=NUMPY.larger(found.total, first))
