"""ATFormer's shape on the statements of a program: an embedding, two encoder layers of four heads, two heads.

The flat row becomes one more token in front, whose encoding the regression head reads; the rank head scores every
statement and adds the scores up. Statements that do not exist take part in nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explore.cost.learned.neural import NeuralResidual

__all__ = ["EncoderResidual"]

LAYERS, HEADS = 2, 4


class EncoderResidual(NeuralResidual):
    """The transformer encoder; source: ATFormer (EMNLP 2023), sections 3.2 and 3.3, narrower."""

    name = "encoder"

    def network(self, flat: int, token: int) -> nn.Module:
        """As `NeuralResidual.network`."""
        return _Encoder(flat, token, self.options.hidden, self.options.dropout)


class _Encoder(nn.Module):
    def __init__(self, flat: int, token: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(token, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.whole = nn.Sequential(nn.Linear(flat, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        layer = nn.TransformerEncoderLayer(
            hidden, HEADS, 2 * hidden, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        last = nn.Linear(hidden, 2)
        nn.init.zeros_(last.weight)
        with torch.no_grad():
            last.bias.copy_(torch.tensor([0.0, -2.0]))
        self.regression = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU(), last)
        self.score = nn.Linear(hidden, 1)

    def forward(self, flat: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        whole = self.whole(flat)
        sequence = torch.cat([whole[:, None], self.embed(tokens)], dim=1)
        there = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)
        encoded = self.encoder(sequence, src_key_padding_mask=~there)
        found = self.regression(torch.cat([encoded[:, 0], whole], dim=1))
        scores = self.score(encoded).squeeze(2).masked_fill(~there, 0.0)
        return torch.cat([found, scores.sum(1, keepdim=True)], dim=1)
