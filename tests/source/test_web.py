"""Images of web servers, whatever these can do; and URLs as paths."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gpufeed
from gpufeed import ConfigError, Manifest, ManifestError, RemoteStorage
from gpufeed._util.rows import RowName
from gpufeed._util.urls import is_url, location, public_url, split_url
from gpufeed.source.objects import ObjectSource
from gpufeed.source.paths import make_relative
from gpufeed.source.remote import storage as remote
from gpufeed.source.remote import web
from gpufeed.source.remote.storage import WholeFile
from gpufeed.source.storage import StoredRange
from tests.support.loaders import digest, make
from tests.support.media import make_manifest
from tests.support.web_server import WebServer, web_server

COUNT = 9


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_manifest(tmp_path_factory.mktemp("files"), [(40 + n, 60 - n) for n in range(COUNT)])


@pytest.fixture
def server(files: Manifest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(remote, "_FIRST_WAIT", 1e-3)
    paths = files.frame["path"]
    served = {
        f"/x y/{name}?signature=a/b=&n={number}": (files.root / name).read_bytes()
        for number, name in enumerate(paths)
    }
    with web_server({**served, "/large.bin": bytes(range(256)) * 1000, "/empty": b""}) as started:
        yield started


def table(server: WebServer, files: Manifest) -> pl.DataFrame:
    """URLs as they come: with query strings, and partly encoded."""
    urls = [
        f"{server.url}/{'x%20y' if number % 2 else 'x y'}/{name}?signature=a/b=&n={number}"
        for number, name in enumerate(files.frame["path"])
    ]
    return pl.DataFrame({"path": urls, "label": [number % 3 for number in range(COUNT)]})


@pytest.mark.parametrize(
    ("version", "ranges", "lengths"),
    [('"1"', True, True), ('"1"', False, True), (None, False, False), ('W/"1"', True, False)],
)
def test_images_are_those_of_files(
    server: WebServer, files: Manifest, version: str | None, ranges: bool, lengths: bool
) -> None:
    server.ranges, server.lengths, server.version, server.cut = ranges, lengths, version, 4
    manifest = gpufeed.read_table(table(server, files), progress=False)
    assert manifest.sizes().tolist() == files.sizes().tolist()
    with make(files, batch_size=4) as one, make(manifest, batch_size=4) as other:
        for ours, theirs in zip(other, one, strict=True):
            assert digest({**ours, "record_key": 0}) == digest({**theirs, "record_key": 0})
    storage = RemoteStorage(server.url)
    content = server.files["/large.bin"]
    server.cut, server.short = 2, 2 * ranges
    wanted = [StoredRange("large.bin", start, 100) for start in (0, 70_000, 255_900)]
    assert [bytes(each) for each in storage.read(wanted)] == [
        content[start : start + 100] for start in (0, 70_000, 255_900)
    ]
    with storage.open("large.bin") as opened:
        opened.seek(100_000)
        assert opened.read() == content[100_000:]
    late, empty = storage.read([StoredRange("large.bin", 300_000, 9), StoredRange("empty", 0, 9)])
    assert isinstance(late, OSError)
    assert isinstance(empty, OSError)


def test_names_have_no_query_strings(server: WebServer, files: Manifest) -> None:
    listed = table(server, files)
    manifest = gpufeed.read_table(listed, progress=False)
    assert "signature" not in repr((manifest, manifest.frame, manifest.source.name(0)))
    signed_anew = listed.with_columns(pl.col("path") + "#top")
    assert gpufeed.read_table(signed_anew, progress=False).fingerprint() == manifest.fingerprint()
    server.files = {}
    with pytest.raises(ManifestError) as caught:
        gpufeed.read_table(listed, progress=False)
    assert "none of the 9 images exists, such as http://127.0.0.1" in str(caught.value)
    assert "signature" not in str(caught.value)
    (read,) = manifest.source.read(np.array([3]))
    assert str(read) == "[Errno 2] there is no such file (404 Not Found)"


def test_what_has_changed_is_not_read(server: WebServer, files: Manifest) -> None:
    storage = RemoteStorage(server.url)
    # A weak ETag is no condition, so what comes is compared.
    for before, after in (('"1"', '"2"'), ('W/"1"', 'W/"2"')):
        server.version = before
        wanted = StoredRange("large.bin", 5, 9, storage.stamp("large.bin"))
        assert bytes(storage.read([wanted])[0]) == bytes(range(5, 14))
        server.version = after
        assert [str(each) for each in storage.read([wanted])] == [
            "the file has changed since it was indexed"
        ]
    # What tells no versions is not kept to be compared.
    server.version = None
    manifest = gpufeed.read_table(table(server, files), progress=False)
    assert manifest.source.open_stamped(0)[1] is None


def test_what_is_too_long_is_not_read(server: WebServer) -> None:
    for lengths, said in ((True, "the file has 256,000 bytes; the limit is 1,000"),
                          (False, "the file has more than 1,000 bytes")):  # fmt: skip
        server.lengths = server.ranges = lengths
        frame = pl.DataFrame({"path": ["large.bin"], "label": [0], "width": [9], "height": [9]})
        source = Manifest(frame, server.url, ["x"]).source.limited(np.array([1000]))
        assert [str(each) for each in source.read(np.array([0]))] == [said]


def test_what_tells_no_length_is_compared_by_its_version(server: WebServer) -> None:
    server.lengths = server.ranges = False
    storage = RemoteStorage(server.url)
    wanted = StoredRange("large.bin", 5, 9, storage.stamp("large.bin"))
    assert bytes(storage.read([wanted])[0]) == bytes(range(5, 14))
    server.version = '"2"'
    assert [str(each) for each in storage.read([wanted])] == [
        "the file has changed since it was indexed"
    ]


def test_encoded_answers_are_those_of_files(server: WebServer) -> None:
    content = bytes(range(256))  # longer when it is compressed
    server.files = {"/a": gzip.compress(content)}
    server.ranges, server.headers = False, {"Content-Encoding": "gzip"}
    storage = RemoteStorage(server.url, retry_seconds=0.1)
    assert storage.stamp("a") == (256, '"1"')
    (read,) = storage.read([WholeFile("a", 1000)])
    assert not isinstance(read, OSError)
    assert bytes(read) == content


@pytest.mark.parametrize("said", ["bytes 0-8/256000", "bytes 5-13/*", ""])
def test_another_range_is_an_error(server: WebServer, said: str) -> None:
    server.headers = {"Content-Range": said}
    (read,) = RemoteStorage(server.url).read([StoredRange("large.bin", 5, 9)])
    assert str(read) == (
        f"the server answered with {said!r} to a request for byte 5 and those after it"
    )


@pytest.mark.parametrize("host", ["127.0.0.1:port", "127.0.0.1:99999", f"{'a' * 70}.com", "[::"])
def test_what_is_no_url_spoils_no_batch(server: WebServer, host: str) -> None:
    storage = RemoteStorage("http://")
    wanted = [WholeFile(f"{at}/large.bin", 1 << 20) for at in (host, server.url[7:])]
    bad, good = storage.read(wanted)
    assert str(bad) == "this is no valid URL"
    assert not isinstance(good, OSError)


def test_an_etag_may_be_any_bytes(server: WebServer) -> None:
    server.version = '"\xff"'
    frame = pl.DataFrame({"path": ["large.bin"], "label": [0], "width": [9], "height": [9]})
    source = Manifest(frame, server.url, ["x"]).source
    assert isinstance(source, ObjectSource)
    before = source.fingerprint()
    server.version = '"\xfe"'
    assert source.fingerprint() != before


OWN = {"Authorization": "Bearer 1", "X-Api-Key": "2", "Cookie": "a=3"}


@pytest.mark.parametrize("other_origin", [False, True])
def test_headers_are_for_their_origin_only(server: WebServer, other_origin: bool) -> None:
    with web_server({"/there": b"content"}) as other:
        target = other if other_origin else server
        target.files = {"/there": b"content"}
        server.redirects = {"/here": "again", "/again": f"{target.url}/there"}
        storage = RemoteStorage(server.url, headers=OWN)
        assert storage.read([WholeFile("here", 1000)]) == [b"content"]
        for path, headers in server.asked + other.asked:
            assert headers["Range"] == "bytes=0-"
            for name, value in OWN.items():
                assert headers[name] == (None if other_origin and path == "/there" else value)


def test_a_user_is_for_its_origin_only(server: WebServer) -> None:
    with web_server({"/there": b"content"}) as other:
        server.redirects = {"/here": f"{server.url}/again", "/again": f"{other.url}/there"}
        storage = RemoteStorage(server.url.replace("//", "//user:word@"))
        assert storage.read([WholeFile("here", 1000)]) == [b"content"]
        said = [headers["Authorization"] for _, headers in server.asked + other.asked]
        assert said == ["Basic dXNlcjp3b3Jk"] * 2 + [None]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("file:///etc/passwd", "the server redirects to 'file:///etc/passwd'"),
        ("http://host:99999/", "this is no valid URL"),
        ("http://[", "this is no valid URL"),
        ("/here", "the server redirects more than 10 times"),
        *(
            (f"http://{host}/latest/meta-data", "the server redirects to the link-local host ")
            for host in ("169.254.169.254", "2852039166", "[fe80::1]", "[::ffff:169.254.1.1]")
        ),
    ],
)
def test_redirects_that_are_refused(server: WebServer, location: str, said: str) -> None:
    """At once, and not after they are tried again."""
    server.redirects = {"/here": location}
    (read,) = RemoteStorage(server.url, retry_seconds=1e6).read([WholeFile("here", 1000)])
    assert str(read).startswith(said)
    assert len(server.asked) == (11 if location == "/here" else 1)


def test_a_link_local_server_may_redirect_to_others(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def yes(_: object) -> bool:
        return True

    monkeypatch.setattr(web, "_is_link_local", yes)
    with web_server({"/there": b"content"}) as other:
        server.redirects = {"/here": f"{other.url}/there"}
        assert RemoteStorage(server.url).read([WholeFile("here", 1000)]) == [b"content"]


def test_credentials_that_are_given_twice(server: WebServer) -> None:
    storage = RemoteStorage(server.url.replace("//", "//user:word@"), headers=OWN)
    (read,) = storage.read([WholeFile("large.bin", 1 << 20)])
    assert str(read).startswith("credentials are given twice; pass only one of the URL's user,")
    assert not server.asked


def test_urls() -> None:
    assert location("file:///a/b%20c") == Path("/a/b c")
    assert location("a/b") == location(Path("a/b")) == Path("a/b")
    assert location("S3://bucket/a/") == "s3://bucket/a"
    assert location("s3://") == "s3://"
    assert not is_url("a/b:c//d")
    with pytest.raises(ConfigError, match="names another machine"):
        location("file://host/a")
    with pytest.raises(ConfigError, match="pass a URL as text"):
        location(Path("s3://bucket/a"))
    assert public_url("https://user:secret@host:1/a?b=c#d") == "https://host:1/a"
    assert public_url("https://token@host?b") == "https://host"
    assert public_url("HTTPS://user:secret@host:1/a?b=c#d") == "HTTPS://host:1/a"
    assert public_url("https://host/c@d") == "https://host/c@d"
    assert public_url("ftp://token@host/a") == "ftp://host/a"
    assert public_url("s3://key:secret@bucket/a") == "s3://bucket/a"
    assert public_url("ABFSS://container@account/a") == "ABFSS://container@account/a"
    assert public_url("s3://bucket/a?b#c") == "s3://bucket/a?b#c"
    assert public_url("abfss://container@account/a") == "abfss://container@account/a"
    assert split_url("https://host/a/b.csv?c=/d") == ("https://host/a", "b.csv?c=/d")
    assert split_url("HTTPS://host/a/b.csv?c=/d") == ("HTTPS://host/a", "b.csv?c=/d")
    assert split_url("s3://bucket/b.csv") == ("s3://bucket", "b.csv")


def test_roots_of_urls() -> None:
    name: RowName = "row {}".format
    cases = [
        (["s3://b/x/1", "s3://b/x/y/2"], "s3://b/x/", ["1", "y/2"]),
        (["s3://b/1", "s3://c/2"], "s3://", ["b/1", "c/2"]),
        (["https://h/1?a=/b", "https://h/1?a=/c"], "https://h/", ["1?a=/b", "1?a=/c"]),
        (["file:///x/1", "file:///x/2"], "file:///x/", ["1", "2"]),
    ]
    for paths, root, names in cases:
        found, relative = make_relative(pl.Series(paths), None, Path(), name)
        assert (found, relative.to_list()) == (root, names)
    assert make_relative(pl.Series(["s3://b/x/1"]), "s3://b", Path(), name)[1].to_list() == ["x/1"]
    assert make_relative(pl.Series(["1"]), None, "s3://b", name)[0] == "s3://b"
    with pytest.raises(ManifestError, match="is absolute and not below the root s3://c"):
        make_relative(pl.Series(["s3://b/x/1"]), "s3://c", Path(), name)
    with pytest.raises(ManifestError, match="not below the root https://h/c;"):
        make_relative(pl.Series(["https://h/1"]), "https://user:secret@h/c", Path(), name)
    with pytest.raises(ManifestError, match="is relative, but row 0 has an absolute one"):
        make_relative(pl.Series(["s3://b/x/1", "2"]), None, Path(), name)
