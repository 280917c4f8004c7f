"""The classes of the synthetic set: invented names in the style of the real ones, as a tree."""

from __future__ import annotations

import dataclasses

__all__ = ["MAX_CLASSES", "Taxonomy", "build_taxonomy"]

MAX_CLASSES = 555

_KINDS = (
    ("Testbird", "Testbirds"),
    ("Mockfinch", "Mockfinches"),
    ("Samplewing", "Samplewings"),
    ("Dummyduck", "Dummyducks"),
    ("Fixture-Hawk", "Fixture-Hawks"),
    ("Batchthrush", "Batchthrushes"),
    ("Pixelwren", "Pixelwrens"),
    ("Kernel-Heron", "Kernel-Herons"),
    ("Cropsparrow", "Cropsparrows"),
    ("Gridgull", "Gridgulls"),
    ("Tensortern", "Tensorterns"),
    ("Bufferplover", "Bufferplovers"),
    ("Queuequail", "Queuequails"),
    ("Threadcreeper", "Threadcreepers"),
    ("Stack-Warbler", "Stack-Warblers"),
    ("Epochowl", "Epochowls"),
    ("Shardswift", "Shardswifts"),
    ("Blockdove", "Blockdoves"),
    ("Loopjay", "Loopjays"),
    ("Codecrane", "Codecranes"),
)
_FIRST_NAMES = (
    "Ruddy",
    "Pied",
    "Grey-backed",
    "Tester's",
    "Lesser",
    "Greater",
    "White-throated",
    "Painter's",
    "Spotted",
    "Northern",
    "Southern",
    "Black-capped",
    "Golden-crowned",
    "Common",
    "Least",
    "Red-necked",
    "Long-billed",
    "Barred",
    "Marsh",
    "Mountain",
    "Pale",
    "Dusky",
    "Masked",
    "Crested",
    "Streaked",
    "Sampler's",
    "Yellow-eyed",
    "Ring-tailed",
)
_KINDS_PER_ORDER = 4

# What is appended to a species' name, class by class; the empty one is a species that is one
# class. The two blanks before "(Female)" are a slip of the real file that readers must survive.
_FORMS: tuple[tuple[str, ...], ...] = (
    (" (Male)", "  (Female)"),
    ("",),
    (" (Immature, nonbreeding/juvenile)", " (Adult)"),
    ("",),
    ("",),
    (" (Breeding)", " (Nonbreeding/juvenile)"),
    ("",),
    ("",),
)


@dataclasses.dataclass(frozen=True)
class Taxonomy:
    """Which classes there are.

    Attributes:
        names: the name of every node; its place is the node's id, and 0 is the root.
        parents: the parent's id of every node; the root's is -1.
        class_ids: the ids that pictures may have, ascending: the leaves of the tree.
        species: for each of `class_ids`, the number of its species, from 0.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    class_ids: tuple[int, ...]
    species: tuple[int, ...]


def build_taxonomy(classes: int) -> Taxonomy:
    """The tree with this many leaves (1 to 555), of depth 3 and 4 below the root."""
    forms = _species_forms(classes)
    names = ["Birds"]
    parents = [-1]

    def add(name: str, parent: int) -> int:
        names.append(name)
        parents.append(parent)
        return len(names) - 1

    kinds = min(len(forms), len(_KINDS))
    orders = [
        add(f"{_KINDS[first][1]}, {_KINDS[first + 1][1]}, and Allies", 0)
        for first in range(0, kinds, _KINDS_PER_ORDER)
    ]
    # Every other kind has a family of its own between order and species: its leaves are deeper.
    above_species = [
        add(_KINDS[kind][1], orders[kind // _KINDS_PER_ORDER])
        if kind % 2
        else orders[kind // _KINDS_PER_ORDER]
        for kind in range(kinds)
    ]

    class_ids: list[int] = []
    species: list[int] = []
    nodes: dict[int, int] = {}

    def add_species(number: int) -> None:
        nodes[number] = add(_species_name(number), above_species[number % len(_KINDS)])

    # Half of the species come before any leaf and half among them, as in the real file, where
    # neither all ids above the first leaf are leaves nor all inner ids in use by a picture.
    early = (len(forms) + 1) // 2
    for number in range(early):
        add_species(number)
    for number, suffixes in enumerate(forms):
        if number >= early:
            add_species(number)
        for suffix in suffixes:
            class_ids.append(add(_species_name(number) + suffix, nodes[number]))
            species.append(number)
    return Taxonomy(tuple(names), tuple(parents), tuple(class_ids), tuple(species))


def _species_forms(classes: int) -> list[tuple[str, ...]]:
    """For each species the suffixes of its classes; as many classes in all as asked for."""
    if classes < 3:  # two species say more than the two forms of one
        return [("",)] * classes
    result: list[tuple[str, ...]] = []
    left = classes
    while left:
        suffixes = _FORMS[len(result) % len(_FORMS)][:left]
        result.append(suffixes)
        left -= len(suffixes)
    return result


def _species_name(number: int) -> str:
    kind = number % len(_KINDS)
    first = (number // len(_KINDS) + 3 * kind) % len(_FIRST_NAMES)
    return f"{_FIRST_NAMES[first]} {_KINDS[kind][0]}"
