"""Trained weights rounded one after the other, so that those still to come take back what each adds to the sums.

Of a layer's sums the squared error is a quadratic form of the weights' errors, with the second moments of what the products read. With some
weights rounded, those left that make it least are a linear function of their errors (Frantar et al., "GPTQ: Accurate post-training quantization
for generative pre-trained transformers", 2023, after Hassibi and Stork's optimal brain surgeon). Moments are those of the whole numbers that the
network computes with rounded weights: sums of integers, exact, so that they do not depend on threads or processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from baco.accel.number_formats import IntegerFormat
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.reference import read_runs, reference_runs
from baco.compiler.ops.products import Convolution, MatMul

#: Added to the moments' diagonal, in parts of its mean: what few samples say nothing of stays near.
_DAMPING = 0.01
#: Weights whose errors reach the others together.
_TOGETHER = 64
#: Of all values of the runs that moments are taken from.
_MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class Moments:
    """Of what sums of products read, in units of its whole numbers.

    Attributes:
        second: float64 [groups, depth, depth], means of products of two.
        first: float64 [groups, depth], means.
    """

    second: np.ndarray
    first: np.ndarray

    def mean_sums(self, weight: np.ndarray) -> np.ndarray:
        """Means of the sums of products with weights [..., depth of a group, K]: [K]."""
        groups, depth = self.first.shape
        return np.asarray(np.einsum("gd,dgk->gk", self.first, weight.reshape(depth, groups, -1)).reshape(-1))


class ReadMoments:
    """Moments of what products with constant weights read.

    Args:
        network: with rounded weights.
        runs: its inputs (`quantise.quantise_inputs`), of which so many count as memory has room for.
    """

    def __init__(self, network: QuantisedNetwork, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        each = sum(
            np.dtype(one.dtype).itemsize * int(np.prod(one.shape))
            for one in network.values.values()
            if one.role != "constant"
        )
        runs = runs[: max(1, _MOST_BYTES // max(each, 1))]
        self._read = read_runs(network, reference_runs(network, runs), len(runs))
        self._readers = {
            (op.weight if isinstance(op, Convolution) else op.right).value: op
            for op in network.operators
            if isinstance(op, (Convolution, MatMul))
        }

    def of(self, weight: str) -> Moments | None:
        """Of what is multiplied by a constant; None where nothing is."""
        if weight not in self._readers:
            return None
        rows = self._readers[weight].factors(self._read).astype(np.float64)
        count = rows.shape[1]
        return Moments(rows.transpose(0, 2, 1) @ rows / count, rows.sum(1) / count)


def compensated(
    weight: np.ndarray, scales: np.ndarray, form: IntegerFormat, moments: Moments, *, centred: bool
) -> np.ndarray:
    """int8 of the shape of `weight` [..., K], within the format's limits.

    Args:
        weight: real, [..., depth of a group, K].
        scales: of every output channel, [K] or [1].
        moments: of what is multiplied by the weights, groups of K one after the other.
        centred: a bias takes back what errors add on average, so that moments about the means count.
    """
    groups, depth = moments.first.shape
    columns = weight.shape[-1]
    left = weight.reshape(depth, groups, -1).transpose(1, 0, 2).astype(np.float64)
    unit = np.broadcast_to(scales, (columns,)).reshape(groups, 1, -1)
    second = moments.second
    if centred:
        second = second - moments.first[:, :, None] * moments.first[:, None, :]
    # what is read most first: its errors are the largest, and most others can take them back
    order = np.argsort(-np.diagonal(second, axis1=1, axis2=2), axis=1, kind="stable")
    left = np.take_along_axis(left, order[:, :, None], 1)
    factor = _inverse_factor(
        np.take_along_axis(np.take_along_axis(second, order[:, :, None], 1), order[:, None, :], 2)
    )
    rounded = np.empty(left.shape, np.int8)
    for start in range(0, depth, _TOGETHER):
        stop = min(depth, start + _TOGETHER)
        errors = np.empty((groups, stop - start, left.shape[2]))
        for n in range(start, stop):
            rounded[:, n] = form.encode(left[:, n] / unit[:, 0])
            errors[:, n - start] = (left[:, n] - rounded[:, n] * unit[:, 0]) / factor[:, n, n, None]
            left[:, n + 1 : stop] -= factor[:, n, n + 1 : stop, None] * errors[:, n - start, None]
        left[:, stop:] -= factor[:, start:stop, stop:].transpose(0, 2, 1) @ errors
    found = np.empty_like(rounded)
    np.put_along_axis(found, order[:, :, None], rounded, 1)
    return found.transpose(1, 0, 2).reshape(weight.shape)


def _inverse_factor(second: np.ndarray) -> np.ndarray:
    """Upper U with U^T U the inverse of damped moments [groups, depth, depth]."""
    depth = second.shape[-1]
    mean = np.trace(second, axis1=1, axis2=2) / depth
    damped = second + (_DAMPING * np.where(mean > 0, mean, 1.0))[:, None, None] * np.eye(depth)
    return np.linalg.cholesky(np.linalg.inv(damped)).transpose(0, 2, 1)
