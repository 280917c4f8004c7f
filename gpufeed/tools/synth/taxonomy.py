"""The classes of the synthetic set, a tree of invented names in the style of the real ones."""

from __future__ import annotations

import dataclasses

__all__ = ["MAX_CLASSES", "Taxonomy", "build_taxonomy"]

MAX_CLASSES = 555

_KINDS = (  # noqa: SIM905 - a table
    "Testbird Mockfinch Samplewing Dummyduck Fixture-Hawk Batchthrush Pixelwren Kernel-Heron "
    "Cropsparrow Gridgull Tensortern Bufferplover Queuequail Threadcreeper Stack-Warbler Epochowl "
    "Shardswift Blockdove Loopjay Codecrane"
).split()
_FIRST_NAMES = (  # noqa: SIM905 - a table
    "Ruddy Pied Grey-backed Tester's Lesser Greater White-throated Painter's Spotted Northern "
    "Southern Black-capped Golden-crowned Common Least Red-necked Long-billed Barred Marsh "
    "Mountain Pale Dusky Masked Crested Streaked Sampler's Yellow-eyed Ring-tailed"
).split()
_KINDS_PER_ORDER = 4

# Suffixes of the classes of a species; a species with only "" is a single class. The two spaces
# before "(Female)" reproduce an error in the real file that readers must handle.
_FORMS = (
    ("",),
    (" (Male)", "  (Female)"),
    ("",),
    (" (Immature, nonbreeding/juvenile)", " (Adult)"),
    ("",),
    ("",),
    (" (Breeding)", " (Nonbreeding/juvenile)"),
    ("",),
)


@dataclasses.dataclass(frozen=True)
class Taxonomy:
    """The tree of classes.

    Attributes:
        names: the name of each node; the index is the node's id, and 0 is the root.
        parents: the id of each node's parent; -1 for the root.
        class_ids: the ids that images may have, ascending: the leaves of the tree.
        species: for each of `class_ids`, the number of its species, from 0.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    class_ids: tuple[int, ...]
    species: tuple[int, ...]


def build_taxonomy(classes: int) -> Taxonomy:
    """Return the tree with this many leaves (1 to 555), of depth 3 and 4 below the root."""
    names, parents = ["Birds"], [-1]
    class_ids: list[int] = []
    species: list[int] = []
    groups: dict[str, int] = {}

    def add(name: str, parent: int) -> int:
        names.append(name)
        parents.append(parent)
        return len(names) - 1

    def group(name: str, parent: int) -> int:
        return groups[name] if name in groups else groups.setdefault(name, add(name, parent))

    number = 0
    while len(class_ids) < classes:
        kind = number % len(_KINDS)
        first = kind // _KINDS_PER_ORDER * _KINDS_PER_ORDER
        above = group(f"{_plural(first)}, {_plural(first + 1)}, and Allies", 0)
        if kind % 2:  # every other kind has its own family, so its leaves are deeper
            above = group(_plural(kind), above)
        first_name = _FIRST_NAMES[(number // len(_KINDS) + 3 * kind) % len(_FIRST_NAMES)]
        name = f"{first_name} {_KINDS[kind]}"
        node = add(name, above)
        for form in _FORMS[number % len(_FORMS)][: classes - len(class_ids)]:
            class_ids.append(add(name + form, node))
            species.append(number)
        number += 1
    return Taxonomy(tuple(names), tuple(parents), tuple(class_ids), tuple(species))


def _plural(kind: int) -> str:
    name = _KINDS[kind]
    return name + ("es" if name.endswith("h") else "s")
