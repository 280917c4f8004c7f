"""Looks into one image's file."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed.open.decoders import NvImageCodec
from gpufeed.records.headers import check_scans, image_header, most_bytes
from gpufeed.source.base import Encoded, Source, read_images
from gpufeed.tools.check.kinds import Finding, Kind

__all__ = ["Examiner", "Looked", "Size"]

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
_EIGHTHS = ("JPEG", "MPO")
_EIGHTH = 8
"""JPEGs are decoded at an eighth of their size: all data are gone through, with half the work."""

Size = tuple[int, int]
_KINDS = {
    FileNotFoundError: Kind.missing,
    EmptyFileError: Kind.empty,
    FileTooLongError: Kind.too_large,
}


@dataclass
class Looked:
    """What was found in one file.

    Attributes:
        findings: in no order.
        size: (height, width) by its header, oriented; None where that cannot be read.
        digest: of its bytes; None where they cannot be read.
    """

    findings: list[Finding] = field(default_factory=list)
    size: Size | None = None
    digest: bytes | None = None

    def add(self, kind: Kind, detail: str) -> None:
        """Note something."""
        self.findings.append(Finding(kind, detail))


class Examiner:
    """Looks into images; one for each thread.

    Args:
        source: the images.
        max_pixels: as the `Loader` has it.
    """

    def __init__(self, source: Source, max_pixels: int) -> None:
        self._source = source
        self._max_pixels = max_pixels
        self._decoder = NvImageCodec()

    def look(self, key: int, expected: Size | None) -> Looked:
        """Look into one image.

        Args:
            key: which.
            expected: (height, width) that the list of images gives, if it gives any.
        """
        looked = Looked()
        (content,) = read_images(self._source, np.array([key], dtype=np.int64))
        if isinstance(content, OSError):
            kind = next(
                (_KINDS[each] for each in _KINDS if isinstance(content, each)), Kind.unreadable
            )
            looked.add(kind, content.strerror or str(content))
            return looked
        if not len(content):
            looked.add(Kind.empty, "the file is empty")
            return looked
        # Many processors have instructions for this one.
        looked.digest = hashlib.sha256(content).digest()
        try:
            width, height, orientation = image_header(content)
            check_scans(content)
        except (OSError, ValueError) as error:
            looked.add(Kind.not_an_image, str(error))
            return looked
        looked.size = height, width
        if width * height > self._max_pixels:
            looked.add(
                Kind.too_large,
                f"{width} x {height} = {width * height:,} pixels, max_pixels is "
                f"{self._max_pixels:,}",
            )
            return looked
        if len(content) > most_bytes(width * height):
            looked.add(
                Kind.too_large, f"{len(content):,} bytes, far more than an image of its size"
            )
            return looked
        if expected is not None and expected != (height, width):
            looked.add(
                Kind.other_size,
                f"{width} x {height} (width x height), listed as {expected[1]} x {expected[0]}",
            )
        if orientation != 1:
            looked.add(Kind.turned, f"orientation {orientation}")
        self._decode(content, self._source.name(key), looked.size, looked)
        return looked

    def _decode(self, content: Encoded, path: str, size: Size, looked: Looked) -> None:
        """Decode it with Pillow, which is stricter, and as a run would."""
        height, width = size
        form, mode, refused = "", "", ""
        try:
            with Image.open(io.BytesIO(content)) as image:
                form, mode = image.format or "", image.mode
                self._describe(image, path, looked)
                if form in _EIGHTHS:
                    image.draft(mode, (max(width // _EIGHTH, 1), max(height // _EIGHTH, 1)))
                image.load()
        except Image.DecompressionBombError:
            form = ""  # too large for Pillow, which has nothing to say of its data then
        except Exception as error:  # Pillow raises whatever its readers meet
            refused = str(error) or type(error).__name__
        # Both go through a JPEG's data with libjpeg-turbo, so where Pillow found no fault in them
        # it is left to see whether a run takes its kind.
        shape = (1, 1) if form in _EIGHTHS and not refused else size
        decodes = self._decoder.decode(content, (0, 0), shape) is not None
        if decodes and refused:
            looked.add(Kind.corrupt, refused)
        elif not decodes:
            kind = Kind.damaged if refused else Kind.unsupported
            looked.add(kind, refused or f"{form} {mode}")

    @staticmethod
    def _describe(image: Image.Image, path: str, looked: Looked) -> None:
        form = image.format or ""
        ending = path[path.rfind(".") :].lower()
        if ending in _KNOWN and ending not in _ENDINGS.get(form, (ending,)):
            looked.add(Kind.disguised, f"{form} named {ending}")
        if image.mode != "RGB":
            looked.add(Kind.colours, image.mode)
