"""A header that is remembered lets in what would be accepted anew, and nothing else."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpufeed.decode import accept
from gpufeed.decode.accept import Acceptor
from gpufeed.errors import DecodeError, SizeMismatchError

HEIGHT, WIDTH = 40, 60


def jpeg(size: tuple[int, int] = (WIDTH, HEIGHT), seed: int = 0, **settings: Any) -> bytes:
    levels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, "JPEG", **settings)
    return buffer.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(exif=exif)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The images whose headers are parsed."""
    seen: list[bytes] = []
    check = accept.check_header

    def counted(content: bytes, *rest: Any, **options: Any) -> Any:
        seen.append(content)
        return check(content, *rest, **options)

    monkeypatch.setattr(accept, "check_header", counted)
    return seen


def acceptor(records: int = 4) -> Acceptor:
    return Acceptor("image {}".format, reduce_depth=False, remembered=records)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_header_is_parsed_once_a_record(parsed: list[bytes], kind: Any) -> None:
    own, content = acceptor(), kind(jpeg())
    for _ in range(3):
        for key in (0, 3):
            assert own.accept(content, (HEIGHT, WIDTH), key) is content
    assert len(parsed) == 2
    own.accept(content, (HEIGHT, WIDTH), 4)  # of a key that is not remembered
    own.accept(content, (HEIGHT, WIDTH), 4)
    assert len(parsed) == 4


def test_what_changes_is_checked_again() -> None:
    """To any other size, orientation or kind, one byte or all of them."""
    first = jpeg()
    changes = [
        jpeg((HEIGHT, WIDTH)),
        jpeg((WIDTH, HEIGHT + 1)),
        turned(),
        b"",
        first[:2],
        first[: first.index(b"\xff\xda")],
        first + bytes(17 << 20),
        b"BM" + first[2:],
        jpeg(progressive=True).replace(b"\xff\xda", b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 300),
    ]
    for place in range(0, first.index(b"\xff\xda"), 7):
        changes += [first[:place] + bytes([first[place] ^ 0xFF]) + first[place + 1 :]]

    def outcome(own: Acceptor, content: bytes) -> str:
        try:
            own.accept(content, (HEIGHT, WIDTH), 0)
        except DecodeError as error:
            return f"{type(error).__name__} {error}"
        return "accepted"

    refused = 0
    for content in changes:
        own = acceptor()
        assert outcome(own, first) == "accepted"
        found = outcome(own, content)
        assert found == outcome(acceptor(), content)
        assert outcome(own, first) == "accepted"
        refused += found != "accepted"
    assert refused > 9


def test_only_pixels_may_change(parsed: list[bytes]) -> None:
    own = acceptor()
    for seed in range(3):
        own.accept(jpeg(seed=seed, quality=80), (HEIGHT, WIDTH), 0)
    assert len(parsed) == 1


def test_another_expected_size_is_checked_again() -> None:
    own, content = acceptor(), jpeg()
    own.accept(content, (HEIGHT, WIDTH), 0)
    with pytest.raises(SizeMismatchError):
        own.accept(content, (WIDTH, HEIGHT), 0)


@pytest.mark.parametrize("settings", [{"progressive": True}, {"exif": b"Exif\0\0" + bytes(9000)}])
def test_scans_and_long_headers_are_always_looked_at(
    parsed: list[bytes], settings: dict[str, Any]
) -> None:
    own, content = acceptor(), jpeg(**settings)
    for _ in range(2):
        own.accept(content, (HEIGHT, WIDTH), 0)
    assert len(parsed) == 2
