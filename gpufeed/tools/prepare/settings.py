"""The settings that decide the bytes that are written, and the file that remembers them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from gpufeed._util.atomic_write import UNFINISHED, atomic_write
from gpufeed._util.numbers import is_integer
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.feed.maker import check_pixels
from gpufeed.records import Manifest
from gpufeed.source.base import fingerprint_of

__all__ = [
    "ImageFormat",
    "OnBadFile",
    "Packing",
    "Settings",
    "Subsampling",
    "claim_folder",
    "sweep",
]

Packing = Literal["files", "tar", "parquet", "arrayrecord", "raw"]
"""How images are packed."""
ImageFormat = Literal["jpeg", "png", "webp"]
Subsampling = Literal["4:4:4", "4:2:2", "4:2:0"]
OnBadFile = Literal["drop", "raise"]

_VERSION = 2
_SETTINGS = "prepared.json"
_IMAGES = "images"
_LOSSY = ("jpeg", "webp")
_QUALITY = 95


@dataclass(frozen=True)
class Settings:
    """How images are written; see `prepare` for the arguments.

    Attributes:
        to: how images are packed.
        image_format: how they are encoded; None for pixels.
        quality: of JPEG and WebP; otherwise None.
        subsampling: of JPEG; otherwise None.
        shard_size: records in one file, or in one step of the work.
        on_error: what becomes of bad images.
        max_pixels: the most pixels of an image; larger ones are bad.
    """

    to: Packing
    image_format: ImageFormat | None
    quality: int | None
    subsampling: Subsampling | None
    shard_size: int
    on_error: OnBadFile
    max_pixels: int

    @staticmethod
    def of(
        to: Packing,
        image_format: ImageFormat | None,
        quality: int | None,
        subsampling: Subsampling | None,
        shard_size: int,
        on_error: OnBadFile,
        max_pixels: int,
    ) -> Settings:
        """Return the settings, with defaults for those that are None.

        Raises:
            ConfigError: one is out of range or contradicts another.
        """
        _check_choice("to", to, Packing)
        _check_choice("on_error", on_error, OnBadFile)
        if to == "raw":
            given = {"image_format": image_format, "quality": quality, "subsampling": subsampling}
            for name, value in given.items():
                if value is not None:
                    raise ConfigError(
                        f'{name} is {short(value)}, but to is "raw", which writes pixels that are '
                        "not encoded; leave out one of them"
                    )
        else:
            image_format = "jpeg" if image_format is None else image_format
            _check_choice("image_format", image_format, ImageFormat)
        if image_format in _LOSSY:
            quality = _QUALITY if quality is None else quality
        if quality is not None:
            if image_format not in _LOSSY:
                raise ConfigError(
                    f"quality is {short(quality)}, but image_format is {short(image_format)}, "
                    "which loses nothing; leave out quality"
                )
            if not is_integer(quality) or not 1 <= quality <= 100:
                raise ConfigError(f"quality is {short(quality)}; it must be an integer, 1 to 100")
        if image_format == "jpeg":
            subsampling = "4:2:0" if subsampling is None else subsampling
            _check_choice("subsampling", subsampling, Subsampling)
        elif subsampling is not None:
            raise ConfigError(
                f"subsampling is {short(subsampling)}, but image_format is {short(image_format)}; "
                "it goes with JPEG"
            )
        if not is_integer(shard_size) or shard_size < 1:
            raise ConfigError(
                f"shard_size is {short(shard_size)}; it must be an integer of 1 or more"
            )
        return Settings(
            to,
            image_format,
            quality,
            subsampling,
            int(shard_size),
            on_error,
            check_pixels(max_pixels),
        )

    def described(
        self, manifest: Manifest, transforms: Sequence[Mapping[str, object]]
    ) -> dict[str, Any]:
        """Return all that decides what is written, as JSON values.

        Args:
            manifest: the images.
            transforms: the identities of the transforms.

        Raises:
            SourceError: the fingerprint of a user's own source failed.
        """
        return {
            "version": _VERSION,
            "manifest": manifest.fingerprint(),
            _IMAGES: fingerprint_of(manifest.source),
            "box_columns": [*manifest.box_columns],
            "reduce_depth": manifest.reduce_depth,
            "transforms": [*transforms],
            **asdict(self),
        }


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        wanted = ", ".join(f'"{each}"' for each in get_args(choices))
        raise ConfigError(f"{name} is {short(value)}; it must be one of {wanted}")


def claim_folder(folder: Path, described: dict[str, Any]) -> None:
    """Make a folder for what these settings decide, or check that it was made for them.

    Raises:
        ConfigError: it holds something else.
        OSError: it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; name a new one")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _SETTINGS
    saved = _read(file) if file.is_file() else None
    if saved is not None:
        for name, value in described.items():
            if saved.get(name) != value:
                found = f"with the {name} {short(saved.get(name))}, not {short(value)}"
                if name == _IMAGES:
                    found = "from images that have been changed or moved since"
                raise ConfigError(
                    f"{folder} was prepared {found}; prepare into another folder, or delete this "
                    "one"
                )
    elif {*folder.iterdir()}.difference(folder.glob(UNFINISHED)):
        raise ConfigError(f"{folder} is not empty, and was not made by prepare; name a new folder")
    else:
        atomic_write(file, json.dumps(described, indent=1).encode())
    sweep(folder)


def sweep(folder: Path) -> None:
    """Delete files that processes did not finish, in a folder that `claim_folder` has checked."""
    for unfinished in folder.glob(UNFINISHED):
        unfinished.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any] | None:
    """Return the settings in a file; None if it is some other file."""
    try:
        saved = json.loads(file.read_bytes())
    except ValueError:
        return None
    return saved if isinstance(saved, dict) and "shard_size" in saved else None
