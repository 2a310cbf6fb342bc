"""What the neural residuals minimise: a rank loss over pairs, and a likelihood with its own deviation for every row."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["negative_log_likelihood", "pair_losses", "rank_loss"]


def pair_losses(score: Tensor, truth: Tensor) -> Tensor:
    """Logistic loss of every ordered pair (i, j) with truth_i > truth_j: log(1 + exp(score_j - score_i)).

    Source: RankLoss of ATFormer (EMNLP 2023), after Cao et al., "Learning to rank" (ICML 2007). A pair that is one
    apart the right way costs 0.3133, the wrong way 1.3133, and one of equal scores ln 2.

    Args:
        score, truth: (B,).

    Returns the losses of the pairs, (pairs,).
    """
    above = truth[:, None] > truth[None, :]
    return torch.nn.functional.softplus((score[None, :] - score[:, None])[above])


def rank_loss(score: Tensor, truth: Tensor, groups: Tensor) -> Tensor:
    """Mean of `pair_losses` over pairs within a group; groups are (B,) whole numbers. 0 without pairs."""
    above = (truth[:, None] > truth[None, :]) & (groups[:, None] == groups[None, :])
    if not bool(above.any()):
        return score.sum() * 0.0
    return torch.nn.functional.softplus((score[None, :] - score[:, None])[above]).mean()


def negative_log_likelihood(mean: Tensor, log_scale: Tensor, truth: Tensor) -> Tensor:
    """Mean negative logarithm of a Laplace density, which asks for the median of each row: |error| / b + log(b)."""
    return ((mean - truth).abs() * torch.exp(-log_scale) + log_scale).mean()
