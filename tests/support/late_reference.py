"""What is done to finished images once more, in NumPy: rectangles, noise left out, and mixtures.

Of gpufeed only the drawn numbers are used, and how a choice of mixes is told apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpufeed import transforms as tf


def rows(output: tf.OutputFormat, image: np.ndarray) -> np.ndarray:
    """As (height, width, 3)."""
    return image if output.layout == "NHWC" else image.transpose(1, 2, 0)


def erased(
    image: np.ndarray, place: int, drawn: tf.Params, value: Any, output: tf.OutputFormat
) -> np.ndarray:
    """One image with its rectangle in it, (height, width, 3)."""
    wanted = rows(output, image).copy()
    (top, left), (height, width) = (drawn[part][place].astype(int) for part in ("anchor", "shape"))
    assert bool(height * width) == drawn["mask"][place]
    wanted[top : top + height, left : left + width] = value
    return wanted


def mixed(
    mix: Any, images: np.ndarray, partner: np.ndarray, params: Any, output: tf.OutputFormat
) -> np.ndarray:
    """Images with their partners', as they are laid out."""
    made = images.copy()
    for i in range(len(images)):
        own, chosen = params, mix
        if "index" in params:
            number = int(params["index"][i])
            own = params["choices"][str(number)]
            chosen = mix._transforms[number]
        if not own["mask"][i]:
            continue
        if isinstance(chosen, tf.MixUp):
            share = own["share"][i]
            one, two = (images[j].astype(np.float32) for j in (i, partner[i]))
            both = one * share + two * (np.float32(1) - share)
            made[i] = np.rint(both) if images.dtype == np.uint8 else both.astype(images.dtype)
        else:
            (y, x), (h, w) = (own[part][i].astype(int) for part in ("anchor", "shape"))
            view = rows(output, made[i])
            view[y : y + h, x : x + w] = rows(output, images[partner[i]])[y : y + h, x : x + w]
    return made
