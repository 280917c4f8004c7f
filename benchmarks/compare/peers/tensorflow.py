"""tf.data, with its window decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.compare.host import delivered
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["PEERS"]


def _open(work: Work, *, antialias: bool) -> Iterator[tuple[Any, Any]]:
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    mean, std = tf.constant(MEAN) * 255.0, tf.constant(STD) * 255.0

    def random_window(encoded: Any) -> Any:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(encoded),
            bounding_boxes=tf.zeros([1, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        cut = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.image.decode_and_crop_jpeg(encoded, cut, channels=3)
        image = tf.image.resize(image, [work.size, work.size], antialias=antialias)
        return tf.image.random_flip_left_right(image)

    def centre(encoded: Any) -> Any:
        image = tf.image.decode_jpeg(encoded, channels=3)
        sides = tf.shape(image)[:2]
        # Cut off, as torchvision's Resize does.
        sides = work.shorter * sides // tf.reduce_min(sides)
        image = tf.image.resize(image, sides, antialias=antialias)
        top, left = (tf.cast(tf.round((sides[axis] - work.size) / 2), tf.int32) for axis in (0, 1))
        return tf.image.crop_to_bounding_box(image, top, left, work.size, work.size)

    def prepare(path: Any, label: Any) -> tuple[Any, Any]:
        encoded = tf.io.read_file(path)
        image = centre(encoded) if work.preset == "evaluate" else random_window(encoded)
        return tf.transpose((image - mean) / std, [2, 0, 1]), label

    options = tf.data.Options()
    options.threading.private_threadpool_size = work.cores
    dataset = (
        tf.data.Dataset.from_tensor_slices((work.files, list(range(len(work.files)))))
        .shuffle(len(work.files), reshuffle_each_iteration=True)
        .repeat()
        .map(prepare, num_parallel_calls=work.cores)
        .batch(work.batch_size, drop_remainder=True)
        .prefetch(2)
        .with_options(options)
    )
    for image, label in dataset.as_numpy_iterator():
        yield delivered(work, image), label


def _plain(work: Work) -> Iterator[tuple[Any, Any]]:
    return _open(work, antialias=False)


def _antialiased(work: Work) -> Iterator[tuple[Any, Any]]:
    return _open(work, antialias=True)


PEERS = [
    Peer("tf.data, antialiased", _antialiased, ("tensorflow",)),
    Peer("tf.data", _plain, ("tensorflow",), equal=False, does="resize not antialiased"),
]
