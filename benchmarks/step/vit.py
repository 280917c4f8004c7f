"""Vision transformers.

Dosovitskiy et al., "An image is worth 16x16 words", 2020, https://arxiv.org/abs/2010.11929.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["VisionTransformer"]

_PATCH = 16
"""Side of a patch, in pixels."""


class VisionTransformer(nn.Module):
    """A transformer over patches and a class token.

    Args:
        size: side of the images, in pixels.
        classes: number of scores.
        depth: number of layers.
        width: values of each token, a multiple of 64, of which each head of the attention has 64.
    """

    def __init__(self, size: int, classes: int, *, depth: int, width: int) -> None:
        super().__init__()
        tokens = (size // _PATCH) ** 2 + 1
        self._patches = nn.Conv2d(3, width, _PATCH, stride=_PATCH)
        self._class = nn.Parameter(torch.zeros(1, 1, width))
        self._places = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self._layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(depth)
            )
        )
        self._norm = nn.LayerNorm(width)
        self._head = nn.Linear(width, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """From float32 (N, 3, size, size) to scores (N, classes)."""
        patches = self._patches(image).flatten(2).transpose(1, 2)
        tokens = torch.cat([self._class.expand(len(image), -1, -1), patches], 1) + self._places
        scores: torch.Tensor = self._head(self._norm(self._layers(tokens)[:, 0]))
        return scores
