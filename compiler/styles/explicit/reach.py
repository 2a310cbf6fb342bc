"""How far windows reach beyond the stored image: positions of blocks of inputs that are zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from baco.compiler.analysis.arrays import Values
from baco.compiler.styles.explicit.extents import ImageAxis, Tiling


@dataclass(frozen=True)
class ImageSide:
    """One side of the image.

    Attributes:
        results, window: dimensions along it.
        stride, dilation: pixels from one result, one window position to the next.
        axis: what blocks keep.
        padding: pixels beyond the image that the outermost window reaches.
    """

    results: str
    window: str
    stride: Values
    dilation: Values
    axis: ImageAxis
    padding: Values

    def lost(self, t: Tiling, *, first: bool) -> tuple[Values, Values]:
        """Local positions beyond this side in all pairs of blocks along results and window, and how many pairs have some: of
        the three blocks of results next to it, since padding seldom reaches further; `first` if these are the first."""
        a, results, window = t.a, self.results, self.window
        size, other_blocks = t.block[window], t.steps[window] - 1
        shift = a.at_least(size * self.dilation, 1)
        extent = ((t.block[results] - 1) * self.stride + (size - 1) * self.dilation) / self.axis.step + 1
        last_result = t.bounds[results] - (t.steps[results] - 1) * t.block[results]
        # blocks of the window follow each other `shift` pixels apart, the last one of fewer positions
        begins = shift if first else (t.bounds[window] - other_blocks * size) * self.dilation
        lost = pairs = 0 * size
        for number in range(3):
            reach = a.at_least(self.padding, 0)
            if number:
                nearer = number * t.block[results] if first else (number - 1) * t.block[results] + last_result
                reach = a.at_least(self.padding - nearer * self.stride, 0) * (t.steps[results] > number + 0.5)
            beyond = reach - begins
            further = a.at_most(a.pieces(a.at_least(beyond, 0), shift), other_blocks)
            total = reach + further * beyond - shift * further * (further - 1) / 2
            count = (reach > 0) + further
            lost = lost + a.smaller(a.pieces(total, self.axis.step), count * extent)
            pairs = pairs + count
        return lost, pairs


@dataclass(frozen=True)
class ImageReach:
    """How far windows reach beyond the stored image, on each side."""

    above: ImageSide
    below: ImageSide
    left: ImageSide
    right: ImageSide

    @staticmethod
    def of(
        t: Tiling, problem: Any, size: tuple[Values, Values], padding: tuple[Values, Values]
    ) -> ImageReach:
        """Of an image of `size` rows and columns, `padding` above and left of it; `problem` has strides and dilations."""
        vertical = ("Q", "S", problem.stride_h, problem.dilation_h, t.row)
        horizontal = ("P", "R", problem.stride_w, problem.dilation_w, t.column)
        below, right = (
            (t.bounds[results] - 1) * stride + (t.bounds[window] - 1) * dilation - before - (extent - 1)
            for (results, window, stride, dilation, _), before, extent in zip(
                (vertical, horizontal), padding, size, strict=True
            )
        )
        return ImageReach(
            ImageSide(*vertical, padding[0]),
            ImageSide(*vertical, below),
            ImageSide(*horizontal, padding[1]),
            ImageSide(*horizontal, right),
        )
