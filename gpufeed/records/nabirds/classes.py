"""Names of NABirds' classes, and labels made from them."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

__all__ = ["join_name", "label_classes", "normalize_spaces", "rows_of_classes", "split_name"]

_LAST_PARENTHESES = re.compile(r"(.*\S)\s*\(([^()]*)\)")


def normalize_spaces(names: pl.Series) -> pl.Series:
    """Return names with single spaces, and with none at their ends or just inside parentheses."""
    single = names.str.replace_all(r"\s+", " ").str.strip_chars()
    return single.str.replace_all("( ", "(", literal=True).str.replace_all(" )", ")", literal=True)


def split_name(class_name: str) -> tuple[str, str | None]:
    """Return species and subcategory: "Wood Duck (Female)" gives "Wood Duck" and "Female"."""
    match = _LAST_PARENTHESES.fullmatch(class_name)
    return (match[1], match[2]) if match else (class_name, None)


def join_name(species: str, subcategory: str | None) -> str:
    """Return a class name from its parts: the inverse of `split_name`."""
    return species if subcategory is None else f"{species} ({subcategory})"


def label_classes(classes: pl.DataFrame, labels: str) -> tuple[pl.DataFrame, list[str]]:
    """Assign a label to each class.

    Args:
        classes: the classes in use, with `class_id`, `class_name` and `species_name`.
        labels: "class" for the rank of the class id, "species" for that of the species' name.

    Returns:
        The classes sorted by id, with a column `label` (Int32); and the name of each label.
    """
    classes = classes.sort("class_id")
    if labels == "class":
        label = pl.Series("label", np.arange(classes.height, dtype=np.int32))
        return classes.with_columns(label), classes["class_name"].to_list()
    label = classes["species_name"].rank("dense").cast(pl.Int32) - 1
    return classes.with_columns(label.alias("label")), sorted(set(classes["species_name"]))


def rows_of_classes(classes: pl.DataFrame, class_ids: pl.Series) -> pl.DataFrame:
    """Return the row of each class id, without the id; `classes` is sorted by `class_id`."""
    index = np.searchsorted(classes["class_id"].to_numpy(), class_ids.to_numpy())
    return classes.drop("class_id")[index]
