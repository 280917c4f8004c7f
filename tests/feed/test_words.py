"""Options of torch's and Grain's loaders, which are written otherwise here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import grain
import pytest
import torch

import gpufeed
from gpufeed import ConfigError, Loader, Manifest
from gpufeed.feed.words import _INSTEAD

OURS = inspect.signature(Loader).parameters


@pytest.mark.parametrize("theirs", [torch.utils.data.DataLoader, grain.DataLoader, grain.load])
def test_every_option_of_another_loader_is_ours_or_explained(theirs: Callable[..., Any]) -> None:
    for name in inspect.signature(theirs).parameters:
        assert (name in OURS) != (name in _INSTEAD), name


@pytest.mark.parametrize("name", _INSTEAD)
def test_an_option_of_another_loader_is_explained(pictures: Manifest, name: str) -> None:
    given: Any = {name: 1}
    for make in (
        lambda: Loader(**given),  # also before the manifest is missed
        lambda: Loader(pictures, **given),
        lambda: Loader.for_evaluation(pictures, **given),
    ):
        with pytest.raises(ConfigError, match=f"^Loader has no option {name}: [a-z]"):
            make()


def test_all_options_of_another_loader_are_explained_at_once(pictures: Manifest) -> None:
    given: Any = {"shuffle": True, "num_workers": 4, "drop_last": True}
    with pytest.raises(ConfigError) as caught:
        Loader(pictures, batch_size=4, **given)
    told = [f"no option {name}: {_INSTEAD[name]}" for name in given]
    assert str(caught.value) == "Loader has " + "; ".join(told)


@pytest.mark.parametrize("text", sorted(set(_INSTEAD.values())))
def test_what_is_to_be_written_instead_is_there(text: str) -> None:
    told = set(re.findall(r"(?:pass|and) (\w+)(?=,|$| and)|(\w+)=", text))
    options = {name for pair in told for name in pair if name}
    known = {*OURS, *inspect.signature(gpufeed.IndexSampler).parameters}
    assert options <= known
    for name in re.findall(r"(\w+)\(", text):
        assert name == "len" or hasattr(gpufeed, name) or hasattr(Loader, name)


def test_other_unknown_options_are_pythons_matter(pictures: Manifest) -> None:
    given: Any = {"nonsense": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        Loader(pictures, **given)


def test_the_signature_is_shown() -> None:
    assert "batch_size" in OURS
    assert all(each.kind is not each.VAR_KEYWORD for each in OURS.values())
