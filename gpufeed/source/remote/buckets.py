"""Object stores of S3, Google Cloud Storage and Azure, by obstore."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, MissingExtraError
from gpufeed.source.remote.backend import (
    Get,
    Part,
    TransientError,
    check_length,
    past_end,
    refusal,
)
from gpufeed.source.storage import Stamp

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ImportError:
    raise MissingExtraError("obstore", extra="remote") from None

if TYPE_CHECKING:
    from obstore import GetOptions

    from gpufeed.source.remote.loop import Loop

__all__ = ["SCHEMES", "Buckets"]

_CREDENTIALS = {
    "s3": "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_ANONYMOUS = {
    "s3": "AWS_SKIP_SIGNATURE",
    "gs": "GOOGLE_SKIP_SIGNATURE",
    "az": "AZURE_SKIP_SIGNATURE",
}
SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
"""From the scheme of a URL to the service."""

_EMPTY = "status code: 416"
"""What obstore says of a range that has no bytes."""

_process: int | None = None
"""The process whose threads obstore runs on; None before they are made."""


class Buckets:
    """Makes requests to object stores.

    Args:
        loop: the event loop that requests are made on.
        scheme: of all URLs.
        timeout: seconds without an answer after which a request fails.
        options: further arguments of obstore's stores.
    """

    def __init__(self, loop: Loop, scheme: str, timeout: float, options: Mapping[str, Any]) -> None:
        _check_process()
        self._watch = loop.watch
        self._service = SCHEMES[scheme]
        self._options = dict(options)
        self._client = {
            # Only where an endpoint is one of http://.
            "allow_http": True,
            "read_timeout": f"{round(1e3 * timeout)}ms",
            # Of a whole request, however long; retrying is this package's own.
            "timeout": "1h",
            **self._options.pop("client_options", {}),
        }
        self._stores: dict[str, Any] = {}

    async def get(self, wanted: Get) -> Part:
        """Read a file: see `Backend`."""
        store, path = self._find_store(wanted.url)
        # A whole file is a range too: the answer then tells its length apart from the body's.
        options: GetOptions = {"range": {"offset": wanted.start}}
        if wanted.stop is not None:
            options["range"] = (wanted.start, wanted.stop)
        if wanted.stamp is not None and _is_strong(wanted.stamp.version):
            options["if_match"] = f'"{wanted.stamp.version}"'
        try:
            answer = await self._watch(obstore.get_async(store, path, options=options))
            stamp = _stamp(answer.meta)
            check_length(wanted, stamp.length)
            start, stop = answer.range
            content = await self._watch(answer.bytes_async())
        except (BaseError, ValueError, FileNotFoundError) as error:
            if _EMPTY in str(error):
                raise past_end(wanted) from None
            raise self._translated(error) from None
        if len(content) != stop - start:
            raise TransientError(f"only {len(content):,} of {stop - start:,} bytes arrived")
        return Part(memoryview(content), stamp)

    async def stamp(self, url: str) -> Stamp:
        """Return a file's length and ETag: see `Backend`."""
        store, path = self._find_store(url)
        try:
            try:
                # No HEAD, whose answer cannot say why it is refused.
                first: GetOptions = {"range": (0, 1)}
                answer = await self._watch(obstore.get_async(store, path, options=first))
            except BaseError as error:
                if _EMPTY not in str(error):
                    raise
                return _stamp(await self._watch(obstore.head_async(store, path)))
            return _stamp(answer.meta)
        except (BaseError, ValueError, FileNotFoundError) as error:
            raise self._translated(error) from None

    async def find(self, url: str) -> list[tuple[str, Stamp]]:
        """List files: see `Backend`."""
        store, prefix = self._find_store(url)
        bucket = url[: len(url) - len(prefix)].rstrip("/")
        try:
            return [
                (f"{bucket}/{meta['path']}", _stamp(meta))
                async for chunk in obstore.list(store, prefix or None)
                for meta in chunk
            ]
        except (BaseError, ValueError, FileNotFoundError) as error:
            raise self._translated(error) from None

    def _find_store(self, url: str) -> tuple[Any, str]:
        """Return the store of a URL's bucket, and the path in it."""
        scheme, _, rest = url.partition("://")
        bucket, _, path = rest.partition("/")
        store = self._stores.get(bucket)
        if store is None:
            if not bucket:
                raise OSError(f"{url} names no bucket; write {scheme}://bucket/folder")
            store = self._stores[bucket] = self._open(f"{scheme}://{bucket}")
        return store, path

    def _open(self, url: str) -> Any:
        """Return the store of a bucket.

        Raises:
            ConfigError: an option is not one of the store's.
        """
        options = self._options
        if self._service == "s3":
            options = {**_from_aws(options), **options}
        try:
            make: Any = from_url
            return make(
                url,
                client_options=self._client,
                # Retried by `RemoteStorage`, which knows more of what can be.
                retry_config={"max_retries": 0},
                **options,
            )
        except (BaseError, ValueError, TypeError) as error:
            said = short(str(error).partition("\n")[0])
            raise ConfigError(f"{url} cannot be opened with these options: {said}") from None

    def _translated(self, error: Exception) -> OSError:
        """Return an error of obstore's as one that says what to do.

        Its own text is long, and has the URL with its query string.
        """
        text = str(error)
        status = re.search(r"status code: (\d{3})", text)
        code = re.search(r"<Code>(\w+)</Code>", text)
        region = re.search(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'", text)
        if isinstance(error, FileNotFoundError):
            return refusal(404, code[1] if code else "")
        if "redirect without LOCATION" in text or "PermanentRedirect" in text or region:
            where = next(filter(None, region.groups())) if region else "that of the bucket"
            return refusal(
                int(status[1]) if status else 301,
                code[1] if code else "",
                region=f"set AWS_REGION to {where}",
            )
        if status:
            return refusal(
                int(status[1]),
                code[1] if code else "",
                denied=f"; check the credentials ({_CREDENTIALS[self._service]}), or set "
                f"{_ANONYMOUS[self._service]}=true for a public bucket",
            )
        said = re.sub(r"\S+://\S+", "", text.partition("\n")[0]).rpartition(" - ")[2]
        if isinstance(error, ValueError) or type(error).__name__ == "InvalidPathError":
            return OSError(f"obstore cannot read this path: {short(said)}")
        return TransientError(f"the request failed: {short(said)}")


def _check_process() -> None:
    """Raise `ConfigError` in a process forked from one that has used obstore."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise ConfigError(
            "this process was forked from one that had read from an object store, and obstore's "
            "threads do not survive a fork; start processes with the method spawn or forkserver"
        )


def _from_aws(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what AWS's own tools would take from the environment, profiles and the instance.

    obstore knows the environment and the instance, but no profiles.
    """
    given = {"credential_provider", "access_key_id", "skip_signature", "config"} & options.keys()
    if given or "AWS_SKIP_SIGNATURE" in os.environ:
        return {}
    try:
        from botocore.session import get_session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}
    session = get_session()
    found: dict[str, Any] = {}
    endpoint = session.get_scoped_config().get("endpoint_url")
    if endpoint and not {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} & os.environ.keys():
        found["endpoint"] = endpoint
    if session.get_credentials() is None:
        return {**found, "skip_signature": True}
    return {**found, "credential_provider": Boto3CredentialProvider(session)}


def _stamp(meta: Mapping[str, Any]) -> Stamp:
    """Return a stamp; its version is the ETag without quotes, which not all listings have."""
    version = (meta.get("e_tag") or "").strip('"') or f"of {meta['last_modified']}"
    return Stamp(meta["size"], version)


def _is_strong(version: str) -> bool:
    """Return whether a server compares an ETag: those of weak ones, and dates, are none."""
    return not version.startswith(("W/", "of "))
