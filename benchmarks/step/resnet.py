"""Residual networks of bottlenecks.

He et al., "Deep residual learning for image recognition", 2015, https://arxiv.org/abs/1512.03385.
A block that halves the image does so in its 3 x 3 convolution, as everyone has it now ("v1.5"),
and not in the 1 x 1 before it, as the paper has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["resnet"]

_WIDER = 4
"""Channels that leave a bottleneck, for each inside it."""


def resnet(classes: int, depths: Sequence[int], width: int) -> nn.Module:
    """Return a new model: from float32 (N, 3, H, W) to scores (N, classes).

    Args:
        classes: number of scores.
        depths: blocks in each of the four stages.
        width: channels of the first stage.
    """
    layers: list[nn.Module] = [
        _convolution(3, width, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    channels = width
    for stage, depth in enumerate(depths):
        inside = width * 2**stage
        for number in range(depth):
            layers.append(_Bottleneck(channels, inside, stride=2 if stage and not number else 1))
            channels = inside * _WIDER
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    model = nn.Sequential(*layers)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def _convolution(channels: int, out: int, side: int, *, stride: int = 1) -> nn.Sequential:
    """A convolution and the batch's normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels, out, side, stride, padding=side // 2, bias=False), nn.BatchNorm2d(out)
    )


class _Bottleneck(nn.Module):
    """1 x 1 to few channels, 3 x 3, 1 x 1 to many, and what came in is added."""

    def __init__(self, channels: int, inside: int, *, stride: int) -> None:
        super().__init__()
        out = inside * _WIDER
        self._way = nn.Sequential(
            _convolution(channels, inside, 1),
            nn.ReLU(inplace=True),
            _convolution(inside, inside, 3, stride=stride),
            nn.ReLU(inplace=True),
            _convolution(inside, out, 1),
        )
        same = stride == 1 and channels == out
        self._past = nn.Identity() if same else _convolution(channels, out, 1, stride=stride)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Apply the block."""
        return torch.relu(self._way(image) + self._past(image))
