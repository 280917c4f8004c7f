"""Files of web servers, by aiohttp: any URL as it is, with ranges where the server has them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from gpufeed._util.open_regular import FileTooLongError
from gpufeed._util.sanitize import short
from gpufeed._util.urls import public_url
from gpufeed.errors import MissingExtraError
from gpufeed.source.remote.backend import Get, Part, TransientError, check_length, past_end, refusal
from gpufeed.source.remote.loop import Loop
from gpufeed.source.storage import Stamp

try:
    import aiohttp
    from yarl import URL
except ImportError:
    raise MissingExtraError("aiohttp", extra="remote") from None

__all__ = ["Web"]

_CHUNK = 1 << 16
_MOST = 1 << 31
_REDIRECTS = 10
_HEADERS = {"Accept-Encoding": "identity"}
"""So that a length is that of the file, and a range one of its bytes."""
_PART = re.compile(r"bytes (\d+)-\d+/(\d+)")


class Web:
    """Makes requests to web servers.

    Args:
        loop: the loop that all requests run on.
        timeout: seconds without an answer after which a request fails.
        options: further arguments of aiohttp's requests, such as `headers`. Redirects to other
            origins are followed without headers, cookies and credentials of theirs.
    """

    def __init__(self, loop: Loop, timeout: float, options: Mapping[str, Any]) -> None:
        self._loop = loop
        options = dict(options)
        self._headers = dict(options.pop("headers", {}))
        limit = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
        self._options = {"timeout": limit, **options}

    async def get(self, wanted: Get) -> Part:
        """Read a file: see `Backend`."""
        # A whole file is a range too: the answer then tells its length apart from the body's.
        last = "" if wanted.stop is None else wanted.stop - 1
        headers = {"Range": f"bytes={wanted.start}-{last}"}
        if wanted.stamp is not None and wanted.stamp.version.startswith('"'):
            headers["If-Match"] = wanted.stamp.version
        try:
            async with self._request(wanted.url, headers) as answer:
                _check(answer, wanted)
                stamp = _stamp(answer)
                known = stamp.length >= 0
                check_length(wanted, stamp.length if known else 1)
                # Without ranges everything comes: what is before is dropped, the rest not read.
                skipped = 0 if answer.status == 206 else wanted.start
                stop = wanted.stop if known and wanted.stop is not None else None
                needed = _MOST if stop is None else stop - wanted.start + skipped
                content = await _read(answer, needed, min(wanted.limit, _MOST))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _translated(error) from None
        if known and len(content) < min(needed, stamp.length - wanted.start + skipped):
            raise TransientError(f"only {len(content):,} bytes arrived")
        if not known:
            stamp = Stamp(len(content), stamp.version)
        return Part(memoryview(content)[skipped:][: _length(wanted)], stamp)

    async def stamp(self, url: str) -> Stamp:
        """Return a file's length and ETag: see `Backend`."""
        # No HEAD, which some servers refuse, and for which a signed URL is not signed.
        try:
            async with self._request(url, {"Range": "bytes=0-0"}) as answer:
                _check(answer, Get(url))
                stamp = _stamp(answer)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _translated(error) from None
        # A length that the server does not tell is that of what comes.
        return stamp if stamp.length >= 0 else (await self.get(Get(url))).stamp

    async def find(self, url: str) -> list[tuple[str, Stamp]]:  # noqa: ARG002
        """Raise `OSError`: a web server does not list its files."""
        raise OSError("a web server lists no files; pass a table of their URLs")

    @contextlib.asynccontextmanager
    async def _request(
        self, url: str, more: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make a request, and follow redirects; to another origin, without the user's credentials.

        Args:
            url: of the file.
            more: headers beside the user's.

        Raises:
            OSError: credentials are given twice, a redirect leads to where none may lead, or there
                are too many.
        """
        # A URL that is encoded already is left as it is, since it may be signed.
        at = URL(url, encoded=url.isascii() and " " not in url)
        headers = {**_HEADERS, **self._headers, **more}
        options = {**self._options, "headers": headers, "allow_redirects": False}
        in_header = any(name.lower() == "authorization" for name in self._headers)
        if (at.user is not None) + ("auth" in options) + in_header > 1:
            raise OSError(
                "credentials are given twice; pass only one of the URL's user, auth, and the "
                "header Authorization"
            )
        for _ in range(_REDIRECTS + 1):
            async with self._session().get(at, **options) as answer:
                location = answer.headers.get("Location")
                if answer.status not in (301, 302, 303, 307, 308) or location is None:
                    yield answer
                    return
            target = at.join(URL(location, encoded=location.isascii() and " " not in location))
            if target.scheme not in ("http", "https") or not target.host:
                raise OSError(f"the server redirects to {short(public_url(str(target)))}")
            options.pop("params", None)  # they are those of the first URL
            if target.origin() != at.origin():
                options = {name: options[name] for name in options.keys() - {"auth", "cookies"}}
                options["headers"] = {**_HEADERS, **more}
                if await _is_link_local(target) and not await _is_link_local(at):
                    raise OSError(f"the server redirects to the link-local host {target.host}")
            elif target.user is None:
                target = target.with_user(at.user).with_password(at.password)
            at = target
        raise OSError(f"the server redirects more than {_REDIRECTS} times")

    def _session(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession | None = self._loop.shared.get("aiohttp")
        if session is None:
            # Made here, since it belongs to the loop that is running.
            session = self._loop.shared["aiohttp"] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
            self._loop.closers.append(session.close)
        return session


async def _is_link_local(url: URL) -> bool:
    """Return whether a host is link-local, as the metadata services of clouds are."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, None)
    except OSError:  # it is not found, or by a proxy only
        return False
    addresses = [ipaddress.ip_address(address[0]) for *_, address in found]
    return any((getattr(each, "ipv4_mapped", None) or each).is_link_local for each in addresses)


async def _read(answer: aiohttp.ClientResponse, needed: int, limit: int) -> bytearray:
    """Read the first `needed` bytes of a body.

    Raises:
        FileTooLongError: it has more than `limit` bytes.
    """
    content = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        content += chunk
        if len(content) > limit:
            raise FileTooLongError(f"the file has more than {limit:,} bytes")
        if len(content) >= needed:
            break
    return content


def _length(wanted: Get) -> int:
    return _MOST if wanted.stop is None else wanted.stop - wanted.start


def _check(answer: aiohttp.ClientResponse, wanted: Get) -> None:
    if answer.status == 416:
        raise past_end(wanted)
    if not 200 <= answer.status < 300:
        raise refusal(answer.status, answer.reason or "")
    if answer.status == 206:
        part = answer.headers.get("Content-Range", "")
        found = _PART.fullmatch(part)
        if found is None or int(found[1]) != wanted.start:
            raise OSError(
                f"the server answered with {short(part)} to a request for byte {wanted.start:,} "
                "and those after it"
            )


def _stamp(answer: aiohttp.ClientResponse) -> Stamp:
    """Return a stamp; its length is -1 if the server does not tell it."""
    headers = answer.headers
    whole = _PART.fullmatch(headers.get("Content-Range", ""))
    length = whole[2] if whole else headers.get("Content-Length", -1)
    if "Content-Encoding" in headers:  # the length is then not that of the file
        length = -1
    return Stamp(int(length), headers.get("ETag") or headers.get("Last-Modified") or "")


def _translated(error: Exception) -> OSError:
    """Return an error of aiohttp's without the URL, which may be signed."""
    if isinstance(error, ValueError):
        return OSError("this is no valid URL")
    return TransientError(f"the request failed: {type(error).__name__}")
