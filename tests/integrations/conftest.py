"""The set that trainers are given."""

from __future__ import annotations

import pytest

from gpufeed import Manifest
from tests.support.media import make_manifest


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Twenty-six tiny images: six batches of four, and two records over."""
    sizes = [(16 + number % 17, 32 - number % 13) for number in range(26)]
    return make_manifest(tmp_path_factory.mktemp("small"), sizes)
