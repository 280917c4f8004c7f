"""The builds of DALI that are installed; DALI is not imported."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import metadata

from gpufeed.errors import PipelineError

__all__ = ["check_builds", "find_builds", "refuse_two_builds", "version_of"]


def find_builds() -> dict[str, str]:
    """Return the version of each build of DALI that is installed, by its package."""
    names = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
    return {name: version for name in names if (version := version_of(name))}


def check_builds(builds: Collection[str]) -> str:
    """Return what is wrong with the installed builds of DALI, and how to mend it, or ""."""
    if len(builds) < 2:
        return ""
    return (
        f"{' and '.join(builds)} are both installed, and each overwrites the other's files; run "
        "`pip uninstall -y nvidia-dali-cuda{120,130} "
        "nvidia-{nvimgcodec,libnvcomp,nvjpeg2k,nvtiff}-cu{12,13}` in bash, and then install one of "
        f"them, such as `pip install {next(iter(builds))}`"
    )


def refuse_two_builds() -> None:
    """Raise `PipelineError` if two builds of DALI are installed, in one folder."""
    if wrong := check_builds(find_builds()):
        raise PipelineError(wrong)


@cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
