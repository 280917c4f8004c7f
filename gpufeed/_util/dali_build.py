"""The builds of DALI that are installed, and what their nvJPEG can do; DALI is not imported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata

from gpufeed.errors import PipelineError

__all__ = ["Build", "check_builds", "find_builds", "the_build", "version_of"]

# Each build of DALI, and the package that its nvJPEG comes in.
_NVJPEG = {
    "nvidia-dali-cuda120": "nvidia-nvjpeg-cu12",
    "nvidia-dali-cuda130": "nvidia-nvjpeg",
}
_SMOOTH_WINDOWS = (13, 3)
"""The first nvJPEG that decodes windows with smooth chroma up to their edges.

13.2 decodes them too, but its notes of 13.3 name a fault at the edges of a window.
"""


@dataclass(frozen=True)
class Build:
    """An installed build of DALI.

    Attributes:
        name: its package, such as "nvidia-dali-cuda120".
        version: its version.
        nvjpeg: the version of its nvJPEG; None if that is not installed.
    """

    name: str
    version: str
    nvjpeg: str | None

    @property
    def smooth_windows(self) -> bool:
        """Whether its nvJPEG decodes windows with smooth chroma."""
        if self.nvjpeg is None:
            return False
        return tuple(int(part) for part in self.nvjpeg.split(".")[:2]) >= _SMOOTH_WINDOWS


def find_builds() -> list[Build]:
    """Return the builds of DALI that are installed."""
    return [
        Build(name, version, version_of(nvjpeg))
        for name, nvjpeg in _NVJPEG.items()
        if (version := version_of(name))
    ]


def check_builds(builds: list[Build]) -> str:
    """Return what is wrong with the installed builds of DALI, and how to mend it, or ""."""
    if len(builds) < 2:
        return ""
    names = " and ".join(build.name for build in builds)
    return (
        f"{names} are both installed, and each overwrites the other's files; run `pip uninstall -y "
        "nvidia-dali-cuda{120,130} nvidia-{nvimgcodec,libnvcomp,nvjpeg2k,nvtiff}-cu{12,13}` in "
        f"bash, and then install one of them, such as `pip install {builds[0].name}`"
    )


def the_build() -> Build | None:
    """Return the installed build of DALI; None if it is neither of those that gpufeed knows.

    Raises:
        PipelineError: two builds are installed.
    """
    builds = find_builds()
    if wrong := check_builds(builds):
        raise PipelineError(wrong)
    return builds[0] if builds else None


@cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
