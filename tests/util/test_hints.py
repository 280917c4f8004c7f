"""Names that torch and Grain have, which are written otherwise here."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from typing import Any

import grain
import grain.python as grain_python
import pytest
import torch

import gpufeed
from gpufeed import ConfigError, IndexSampler, Loader, Manifest
from gpufeed._util.hints import INSTEAD

_INSTEAD = INSTEAD["Loader"]
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


@pytest.mark.parametrize(
    "text", sorted({each for all_ in INSTEAD.values() for each in all_.values()})
)
def test_what_is_to_be_written_instead_is_there(text: str) -> None:
    told = set(re.findall(r"(?:pass|and) (\w+)(?=,|$| and)|(\w+)=", text))
    options = {name for pair in told for name in pair if name}
    known = {*OURS, *inspect.signature(gpufeed.IndexSampler).parameters}
    assert options <= known
    for name in re.findall(r"(\w+)\(", text):
        assert name == "len" or hasattr(gpufeed, name) or hasattr(Loader, name)


@pytest.mark.parametrize("theirs", [grain_python.IndexSampler, grain_python.SequentialSampler])
def test_every_option_of_a_sampler_is_ours_or_explained(theirs: Callable[..., Any]) -> None:
    ours = getattr(gpufeed, theirs.__name__)
    for name in inspect.signature(theirs).parameters:
        if name not in inspect.signature(ours).parameters:
            with pytest.raises(ConfigError, match=f"^{ours.__name__} has no option {name}: [a-z]"):
                ours(3, **{name: None})


@pytest.mark.parametrize("name", [*OURS])
def test_a_misspelt_option_is_corrected(pictures: Manifest, name: str) -> None:
    for misspelt in {name + "s", name.replace("_", "")} - {*OURS}:
        with pytest.raises(ConfigError, match=f"no option {misspelt}: it is called {name}$"):
            Loader(pictures, **{misspelt: 1})
    with pytest.raises(ConfigError, match=r"^IndexSampler has no option shufle: it is called shuf"):
        IndexSampler(3, shufle=True)


def test_a_missing_name_is_explained(pictures: Manifest) -> None:
    for owner, has in (("gpufeed", gpufeed), ("Manifest", pictures)):
        for name, advice in INSTEAD[owner].items():
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
                getattr(has, name)
            assert str(caught.value).endswith(advice)
        with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
            _ = has.nonsense
    assert copy.deepcopy(pictures).fingerprint() == pictures.fingerprint()


def test_a_loader_in_a_torch_loader_is_explained(pictures: Manifest) -> None:
    theirs: Any = torch.utils.data.DataLoader
    with Loader(pictures, batch_size=8) as loader:
        for given in (theirs(loader), theirs(loader, batch_size=None)):
            with pytest.raises(TypeError, match=r"without a DataLoader around it"):
                next(iter(given))


def test_other_unknown_options_are_pythons_matter(pictures: Manifest) -> None:
    given: Any = {"nonsense": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        Loader(pictures, **given)


def test_the_signature_is_shown() -> None:
    assert "batch_size" in OURS
    assert all(each.kind is not each.VAR_KEYWORD for each in OURS.values())
