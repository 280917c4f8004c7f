"""Which members of a sample are read, and what becomes of them: "cls", "jpg;png", "json:age"."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ConfigError

__all__ = ["Wanted", "parse_image", "parse_value"]


@dataclass(frozen=True)
class Wanted:
    """A value of each sample.

    Attributes:
        extensions: of the member, the first that a sample has; in lower case, without a dot.
        path: the names that lead to a value in the member's JSON; None for the member's text.
    """

    extensions: tuple[str, ...]
    path: tuple[str, ...] | None = None

    def __str__(self) -> str:
        extensions = ";".join(self.extensions)
        return extensions if self.path is None else f"{extensions}:{'.'.join(self.path)}"

    def find(self, members: dict[str, Any]) -> str | None:
        """Return the extension of the member that a sample has, or None."""
        return next((each for each in self.extensions if each in members), None)

    def value(self, content: bytes) -> str | None:
        """Return the member's text, or a value in its JSON as JSON; None if there is none.

        Raises:
            ValueError: the member is not text in UTF-8, or not JSON.
        """
        text = content.decode()
        if self.path is None:
            return text
        try:
            value = json.loads(text, parse_constant=_refuse)
            for name in self.path:
                value = value.get(name) if isinstance(value, dict) else None
            found = None if value is None else json.dumps(value, ensure_ascii=False)
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        if found is not None:
            found.encode()  # JSON may hold half a character
        return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def parse_image(image: object) -> Wanted:
    """Return the extensions of images: "jpg;png", or a list of them.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(image, Sequence) and all(isinstance(each, str) for each in image):
        texts = image.split(";") if isinstance(image, str) else image
        extensions = tuple(each.strip().removeprefix(".").lower() for each in texts)
        if extensions and all(extensions) and ":" not in "".join(extensions):
            return Wanted(extensions)
    raise ConfigError(
        f'image is {short(image)}; it must be the extensions of images, such as "jpg" or "jpg;png"'
    )


def parse_value(argument: str, text: object) -> Wanted:
    """Return what an argument such as "cls", "json:age" or "json:" names.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(text, str):
        extensions, colon, path = text.partition(":")
        names = tuple(path.split(".")) if path else ()
        parsed = tuple(each.strip().removeprefix(".").lower() for each in extensions.split(";"))
        if all(parsed) and all(names):
            return Wanted(parsed, names if colon else None)
    raise ConfigError(
        f"{argument} is {sanitize(repr(text))}; it must be the extension of a member, such as "
        '"txt" for its text, or "json:age" for a value in its JSON'
    )
