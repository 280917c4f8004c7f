"""gpufeed: an image feed for GPU training in which every batch has a number.

Names are imported when first used, so that `import gpufeed` itself costs next to nothing. They are
listed in `__init__.pyi`.
"""

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as \2$",
        Path(__file__).with_suffix(".pyi").read_text(),
        re.MULTILINE,
    )
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from gpufeed._util.hints import hint

        raise AttributeError(f"module 'gpufeed' has no attribute {name!r}{hint('gpufeed', name)}")
    if home == "gpufeed":
        return importlib.import_module(f"gpufeed.{name}")
    if home.startswith("gpufeed.adapters."):
        from gpufeed.adapters import load_adapter  # says what to install

        return getattr(load_adapter(home.rpartition(".")[2]), name)
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
