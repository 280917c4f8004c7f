"""One record of a manifest: its row, and its image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpufeed._util.sanitize import sanitize
from gpufeed.decode.diagnose import MAX_PIXELS
from gpufeed.records.label_kinds import describe_label

if TYPE_CHECKING:
    from PIL.Image import Image

    from gpufeed.records.manifest import Manifest

__all__ = ["Record"]

_THUMBNAIL = (320, 320)


@dataclass(frozen=True, repr=False)
class Record:
    """One record of a manifest, as `manifest[key]` returns it; a notebook shows its image.

    Attributes:
        manifest: the manifest.
        key: the record_key, which is the number of the row.
    """

    manifest: Manifest
    key: int

    @property
    def row(self) -> dict[str, Any]:
        """The row of the manifest: each column's value, by the column's name."""
        return self.manifest._frame.row(self.key, named=True)

    def image(self, *, max_pixels: int = MAX_PIXELS) -> Image:
        """Read and decode the image, with the decoder and by the rules of a run.

        Args:
            max_pixels: as for `Loader`.

        Returns:
            The whole image as RGB with 8 bits per channel, turned by its EXIF orientation, of the
            row's width and height. `numpy.asarray` makes it uint8 (height, width, 3).

        Raises:
            DecodeError: the image cannot be read or decoded, or is too large.
            SizeMismatchError: the image has another size than its row.
        """
        from PIL import Image

        from gpufeed.decode.image import decode_image  # loads DALI's decoder, for images alone

        row, manifest = self.row, self.manifest
        pixels = decode_image(
            manifest.source,
            self.key,
            (row["height"], row["width"]),
            reduce_depth=manifest.reduce_depth,
            max_pixels=max_pixels,
        )
        return Image.fromarray(pixels)

    def __repr__(self) -> str:
        row = self.row
        label = row.get("label")
        said = "" if label is None else f", label {describe_label(label, self.manifest.classes)}"
        if isinstance(label, int):
            said = f", label {label} ({self.manifest.classes[label]!r})"
        size = f"{row['width']} x {row['height']}"
        return f"<Record {self.key}: {sanitize(repr(row['path']))}, {size}{sanitize(said)}>"

    def _repr_png_(self) -> bytes | None:
        """Return a small image, for notebooks."""
        image = self.image()
        image.thumbnail(_THUMBNAIL)
        encoded: bytes | None = image._repr_png_()
        return encoded
