"""What the names of NABirds' classes say, and the labels made from them."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

__all__ = ["collapse", "join_name", "label_classes", "spread", "take_apart"]

_LAST_PARENTHESES = re.compile(r"(.*\S)\s*\(([^()]*)\)")


def collapse(names: pl.Series) -> pl.Series:
    """The names with single spaces, and none at their ends or just inside parentheses."""
    single = names.str.replace_all(r"\s+", " ").str.strip_chars()
    return single.str.replace_all("( ", "(", literal=True).str.replace_all(" )", ")", literal=True)


def take_apart(class_name: str) -> tuple[str, str | None]:
    """Species and subcategory: "Wood Duck (Female)" -> "Wood Duck", "Female" (or None)."""
    found = _LAST_PARENTHESES.fullmatch(class_name)
    return (found[1], found[2]) if found else (class_name, None)


def join_name(species: str, subcategory: str | None) -> str:
    """The class name again: the inverse of `take_apart`."""
    return species if subcategory is None else f"{species} ({subcategory})"


def label_classes(classes: pl.DataFrame, labels: str) -> tuple[pl.DataFrame, list[str]]:
    """Give each class its label.

    Args:
        classes: the used classes, with `class_id`, `class_name` and `species_name`.
        labels: "class" for the rank of the class id, "species" for that of the species' name.

    Returns:
        The classes in the order of their ids, with the column `label` (Int32); and the name of
        each label.
    """
    classes = classes.sort("class_id")
    if labels == "class":
        label = pl.Series("label", np.arange(classes.height, dtype=np.int32))
        return classes.with_columns(label), classes["class_name"].to_list()
    label = classes["species_name"].rank("dense").cast(pl.Int32) - 1
    return classes.with_columns(label.alias("label")), sorted(set(classes["species_name"]))


def spread(classes: pl.DataFrame, class_ids: pl.Series) -> pl.DataFrame:
    """The row of `classes` (sorted by `class_id`) for each image, without the id itself."""
    index = np.searchsorted(classes["class_id"].to_numpy(), class_ids.to_numpy())
    return classes.drop("class_id")[index]
