"""Finds the files that patterns with braces and wildcards name, below one root."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpufeed._util.sanitize import short
from gpufeed._util.urls import is_url
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.source.locate import common_folder, storage_of
from gpufeed.source.storage import Storage

__all__ = ["Patterns", "expand_braces", "locate"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_WILDCARD = re.compile(r"[*?[]")

Patterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def locate(patterns: Patterns) -> tuple[Storage, list[str]]:
    """Return a storage, and the files in it that patterns name.

    Args:
        patterns: paths or URLs, in which `{000..099}` and `{a,b}` stand for several, and `*`, `?`,
            `[ab]` and `**` are as in a glob, which finds no hidden files. A pattern's files are in
            the order of its braces, those of a glob are sorted.

    Returns:
        The storage, whose root is the folder that all have in common; and the files, relative to
        it.

    Raises:
        ManifestError: a glob finds nothing, a file is named twice, there are no patterns, or they
            have no folder in common.
        ConfigError: an argument is something else, or a URL that cannot be read.
    """
    given: Iterable[Any] = [patterns]
    if isinstance(patterns, Iterable) and not isinstance(patterns, str | os.PathLike):
        given = [*patterns]
    for each in given:
        if not isinstance(each, str | os.PathLike):
            raise ConfigError(f"{short(each)} is not a path; pass paths or URLs as text")
    texts = [
        text if is_url(text) else os.path.abspath(text)  # noqa: PTH100
        for each in given
        for text in expand_braces(os.fspath(each))
    ]
    if not texts:
        raise ManifestError("there are no files: the list is empty")
    root, below = common_folder(texts, lambda text: _WILDCARD.split(text)[0].rpartition("/")[0])
    storage = storage_of(root)
    files: list[str] = []
    for text, file in zip(texts, below, strict=True):
        if not _WILDCARD.search(file) or (not is_url(text) and Path(text).exists()):
            files.append(file)
            continue
        try:
            found = storage.find(file)
        except OSError as error:
            raise ManifestError(f"cannot list {storage.name(file)}: {error}") from error
        found = [path for path in found if "/." not in f"/{path}" or "/." in f"/{file}"]
        if not found:
            raise ManifestError(f"no file matches {storage.name(file)}")
        files += found
    twice = [file for file, count in Counter(files).items() if count > 1]
    if twice:
        raise ManifestError(f"{storage.name(twice[0])} is listed twice")
    return storage, files


def expand_braces(pattern: str) -> list[str]:
    """Return what a pattern with braces stands for, as in a shell: `{1..3}` or `{a,b}`."""
    for braces in _BRACES.finditer(pattern):
        numbers = _RANGE.fullmatch(braces[1])
        if numbers is None and "," not in braces[1]:
            continue
        if numbers is None:
            items = braces[1].split(",")
        else:
            first, last = int(numbers[1]), int(numbers[2])
            padded = any(text.startswith("0") and len(text) > 1 for text in numbers.groups())
            width = max(map(len, numbers.groups())) if padded else 0
            step = 1 if first <= last else -1
            items = [f"{number:0{width}}" for number in range(first, last + step, step)]
        start, rest = pattern[: braces.start()], expand_braces(pattern[braces.end() :])
        return [f"{start}{item}{tail}" for item in items for tail in rest]
    return [pattern]
