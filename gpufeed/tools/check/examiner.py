"""Examining the file of one image."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed.decode.accept import as_ppm
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.diagnose import check_pillow_size
from gpufeed.decode.headers import (
    DepthError,
    ImageHeader,
    check_depth,
    check_scans,
    image_header,
    max_file_bytes,
)
from gpufeed.open.budget import Budget
from gpufeed.open.further import Further
from gpufeed.source.base import Encoded, Source, as_image, read_images
from gpufeed.tools.check.kinds import Finding, Problem

__all__ = ["Examined", "Examiner", "Size"]

_ENDINGS = {
    "JPEG": (".jpg", ".jpeg"),
    "MPO": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
}
_KNOWN = {ending for endings in _ENDINGS.values() for ending in endings}
_REDUCIBLE = ("JPEG", "MPO")
_REDUCTION = 8
"""JPEGs are decoded at an eighth of their size: that reads all data at half the cost."""

Size = tuple[int, int]
_KINDS = {
    FileNotFoundError: Problem.missing,
    EmptyFileError: Problem.empty,
    FileTooLongError: Problem.too_large,
}


@dataclass
class Examined:
    """The result of examining one file.

    Attributes:
        findings: the findings, in no order.
        size: (height, width) from the header, after its EXIF orientation; None if unreadable.
        digest: the SHA-256 digest of the file, for pixels that of a PPM; None if unreadable.
    """

    findings: list[Finding] = field(default_factory=list)
    size: Size | None = None
    digest: bytes | None = None

    def add(self, kind: Problem, detail: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(kind, detail))


class Examiner:
    """Examines images; each thread needs its own.

    Args:
        source: the images.
        max_pixels: as for `Loader`.
        budget: bounds the memory of large images; all threads share it.
        reduce_depth: as for `Manifest`.
        further: the images' masks and depth maps.
    """

    def __init__(
        self,
        source: Source,
        max_pixels: int,
        budget: Budget,
        *,
        reduce_depth: bool,
        further: Further,
    ) -> None:
        self._source = source
        self._max_pixels = max_pixels
        self._budget = budget
        self._reduce_depth = reduce_depth
        self._further = further
        self._decoder = NvImageCodec()

    def examine(self, key: int, expected: Size | None) -> Examined:
        """Examine one image, and its masks and depth maps.

        Args:
            key: the image's key in the source.
            expected: (height, width) from the list of images; None if the list has no sizes.
        """
        examined = self._examine_image(key, expected)
        for number in range(len(self._further.targets)):
            reason = self._examine_target(number, key, examined.size)
            if reason is not None:
                error = self._further.bad(number, key, reason)
                examined.add(Problem.bad_target, f"{error.path}: {error.reason}")
        return examined

    def _examine_target(self, number: int, key: int, size: Size | None) -> str | None:
        """Return what is wrong with a mask or depth map of an image of this size, if known."""
        source = self._further.sources[number]
        (content,) = read_images(source, np.array([key], dtype=np.int64))
        if isinstance(content, OSError):
            return f"cannot be read: {content.strerror or content}"
        if size is None or (pixels := size[0] * size[1]) > self._max_pixels:
            return None
        if not isinstance(content, np.ndarray) and len(content) > max_file_bytes(pixels):
            return f"{len(content):,} bytes, far too many for {size[1]} x {size[0]}"
        try:
            with self._budget.take(pixels):
                self._further.targets[number].decode(content, size)
        except ValueError as error:
            return str(error)
        return None

    def _examine_image(self, key: int, expected: Size | None) -> Examined:
        examined = Examined()
        (content,) = read_images(self._source, np.array([key], dtype=np.int64))
        content = as_image(content)
        if isinstance(content, OSError):
            kind = next(
                (_KINDS[each] for each in _KINDS if isinstance(content, each)), Problem.unreadable
            )
            examined.add(kind, content.strerror or str(content))
            return examined
        decoded, content = isinstance(content, np.ndarray), as_ppm(content)
        if not len(content):
            examined.add(Problem.empty, "the file is empty")
            return examined
        # SHA-256, since many processors have instructions for it.
        examined.digest = hashlib.sha256(content).digest()
        try:
            header = image_header(content)
            check_depth(header, reduce_depth=self._reduce_depth)
            check_scans(content, header)
        except DepthError as error:
            examined.add(Problem.too_deep, str(error))
            return examined
        except (OSError, ValueError) as error:
            examined.add(Problem.not_an_image, str(error))
            return examined
        width, height = header[:2]
        examined.size = height, width
        if width * height > self._max_pixels:
            examined.add(
                Problem.too_large,
                f"{width} x {height} = {width * height:,} pixels; max_pixels is "
                f"{self._max_pixels:,}",
            )
            return examined
        if len(content) > max_file_bytes(width * height):
            examined.add(
                Problem.too_large, f"{len(content):,} bytes, far too many for {width} x {height}"
            )
            return examined
        if expected is not None and expected != (height, width):
            examined.add(
                Problem.other_size,
                f"{width} x {height} (width x height), listed as {expected[1]} x {expected[0]}",
            )
        if header.orientation != 1:
            examined.add(Problem.turned, f"orientation {header.orientation}")
        if not decoded:
            with self._budget.take(width * height):
                self._decode(content, self._source.name(key), header, examined)
        return examined

    def _decode(self, content: Encoded, path: str, header: ImageHeader, examined: Examined) -> None:
        """Decode an image with Pillow, which is stricter, and with the decoder of a run."""
        width, height = header[:2]
        size = height, width
        name, mode, refusal = "", "", ""
        try:
            with Image.open(io.BytesIO(content)) as image:
                name, mode = image.format or "", image.mode
                check_pillow_size(image, size)
                self._describe(image, path, examined)
                # Lossless JPEGs count as of many scans; Pillow before 13 writes beyond its memory
                # when it reduces one.
                if name in _REDUCIBLE and not header.many_scans:
                    reduced = max(width // _REDUCTION, 1), max(height // _REDUCTION, 1)
                    image.draft(mode, reduced)
                image.load()
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            name = ""  # too large for Pillow, which then does not read its data
        except Exception as error:  # Pillow raises any error of its readers
            refusal = str(error) or type(error).__name__
        # Both decoders read JPEG data with libjpeg-turbo. If Pillow accepted the data, one pixel
        # shows whether a run supports this kind of JPEG.
        shape = (1, 1) if name in _REDUCIBLE and not refusal else size
        decodes = self._decoder.decode(content, (0, 0), shape) is not None
        if decodes and refusal:
            examined.add(Problem.corrupt, refusal)
        elif not decodes:
            kind = Problem.damaged if refusal else Problem.unsupported
            examined.add(kind, refusal or f"{name} {mode}")

    @staticmethod
    def _describe(image: Image.Image, path: str, examined: Examined) -> None:
        name = image.format or ""
        ending = path[path.rfind(".") :].lower()
        if ending in _KNOWN and ending not in _ENDINGS.get(name, (ending,)):
            examined.add(Problem.disguised, f"{name} named {ending}")
        if image.mode != "RGB":
            examined.add(Problem.colours, image.mode)
