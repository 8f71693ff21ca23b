"""One file over HTTP into a partial file: resumed by Range and If-Range, retried, bounded, never from https to http.

Proxies are those of the environment (http_proxy, https_proxy, no_proxy), certificates are verified as Python does.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from prototorch.errors import FileError

__all__ = ["TransferError", "check_address", "fetch_file", "remove_partial"]

TIMEOUT = 30.0  # seconds without a byte
MAX_BYTES = 64 << 30
MAX_FAILURES = 5  # in a row, without a byte in between
MAX_ATTEMPTS = 50
FIRST_PAUSE = 1.0  # seconds before the second attempt; doubled each time
MAX_PAUSE = 30.0
_BLOCK_BYTES = 1 << 20
_RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}

Report = Callable[[int, int | None], None]  # bytes that are there, bytes in all where known


class TransferError(Exception):
    """Why a file cannot be fetched, as a clause; size: in bytes, as the server has told it."""

    def __init__(self, reason: str, size: int | None = None):
        super().__init__(" ".join(reason.split()))
        self.size = size


class _BrokenError(Exception):
    """A failure after which another attempt makes sense."""

    def __init__(self, reason: str, pause: float | None = None):
        super().__init__(reason)
        self.pause = pause


def check_address(address: str, has_digest: bool) -> None:
    """Raise TransferError unless an address may be fetched: https, or http where a digest tells what comes."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise TransferError(f"addresses begin with https:, not {parts.scheme[:20]!r}")
    if parts.username or parts.password:
        raise TransferError("an address must not contain a password")
    if parts.scheme == "http" and not has_digest and parts.hostname not in _LOCAL_HOSTS:
        raise TransferError("what comes by http: can be changed on its way, and no digest of it is known: take https:")


def fetch_file(address: str, partial: Path, has_digest: bool, report: Report = lambda done, size: None) -> None:
    """Fetch an address into the file ``partial``, from where an earlier attempt has ended. Raises TransferError."""
    check_address(address, has_digest)
    failures = 0
    for attempt in range(MAX_ATTEMPTS):
        before = _size_of(partial)
        try:
            _attempt(address, partial, has_digest, report)
            return
        except _BrokenError as error:
            failures = 1 if _size_of(partial) > before else failures + 1
            if failures >= MAX_FAILURES or attempt + 1 == MAX_ATTEMPTS:
                raise TransferError(str(error), _read_state(partial).get("size")) from None
            pause = min(FIRST_PAUSE * 2 ** (failures - 1), MAX_PAUSE) if error.pause is None else error.pause
            time.sleep(min(pause, MAX_PAUSE) * random.uniform(0.8, 1.2))
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise TransferError(f"{partial} cannot be written: {error.strerror or error}") from None


def _attempt(address: str, partial: Path, has_digest: bool, report: Report) -> None:
    """One request. Raises _BrokenError, TransferError, and OSError where the partial file cannot be written."""
    state = _read_state(partial)
    validator = state.get("validator") if state.get("address") == address else None
    offset = _size_of(partial) if isinstance(validator, str) and validator.isprintable() else 0
    headers = {"User-Agent": "prototorch", "Accept-Encoding": "identity", "Accept": "*/*"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": str(validator)}
    try:
        with _open(address, headers) as response:
            size, offset = _check_response(response, offset)
            if size is None and not response.chunked and not has_digest:
                raise TransferError("the server does not tell its size, and no digest of it is known")
            _check_size(partial, size, offset)
            _write_state(partial, {"address": address, "validator": _validator(response), "size": size})
            _copy(response, partial, offset, size, report)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the partial file is longer than the file now is
            partial.unlink(missing_ok=True)
        if error.code == 416 or error.code in _RETRIED_STATUSES:
            raise _BrokenError(f"the server answers {error.code} {error.reason}", _retry_after(error)) from None
        raise TransferError(f"the server answers {error.code} {error.reason}") from None
    except (TimeoutError, http.client.HTTPException, ConnectionError, urllib.error.URLError) as error:
        _raise_broken(error)


def _raise_broken(error: Exception) -> NoReturn:
    reason: Any = getattr(error, "reason", None) or error
    if isinstance(reason, TimeoutError):
        raise _BrokenError(f"the server sent nothing for {TIMEOUT:g} seconds") from None
    if type(reason).__name__ == "SSLCertVerificationError":
        raise TransferError(f"its certificate is not valid: {reason}") from None
    if type(reason).__name__ == "gaierror":
        raise TransferError("there is no network, or no such host") from None
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    raise _BrokenError(f"the connection failed: {text[:200]}") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows at most ten redirections, to https, or from http to http."""

    max_redirections = 10

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https") or (old.scheme == "https" and new.scheme != "https"):
            if fp is not None:
                fp.close()
            raise TransferError(f"it is redirected from {old.scheme} to {new.scheme[:20]} ({newurl[:200]})")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(address: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    try:
        request = urllib.request.Request(address, headers=headers)
        return opener.open(request, timeout=TIMEOUT)
    except (ValueError, UnicodeError) as error:
        raise TransferError(f"it is no valid address: {error!s:.200}") from None


def _check_response(response: http.client.HTTPResponse, offset: int) -> tuple[int | None, int]:
    """The whole file's size, None where it is not told, and the offset of the first byte that comes."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise TransferError(f"the server compresses it ({encoding[:20]}), which it was asked not to do")
    length = response.headers.get("Content-Length")
    count = int(length) if length is not None and length.isdecimal() and len(length) < 19 else None
    if response.status == 200:
        return count, 0
    if response.status == 206:
        words = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        first, total = words[0].partition("-")[0], words[2]
        if first == str(offset) and total.isdecimal() and len(total) < 19:
            return int(total), offset
    raise TransferError(f"the server answers {response.status} {response.reason} with an unexpected range")


def _check_size(partial: Path, size: int | None, offset: int) -> None:
    if size is not None and size > MAX_BYTES:
        raise TransferError(f"it has {size:,} bytes; the limit is {MAX_BYTES:,}", size)
    free = shutil.disk_usage(partial.parent).free
    if size is not None and size - offset > free:
        raise TransferError(f"its {size:,} bytes do not fit on the disk ({free:,} are free)", size)


def _copy(response: http.client.HTTPResponse, partial: Path, offset: int, size: int | None, report: Report) -> None:
    """Append what comes to the partial file, which is cut to ``offset`` bytes first."""
    handle = os.open(
        partial, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o644
    )
    with os.fdopen(handle, "wb") as file:
        file.truncate(offset)
        file.seek(offset)
        report(offset, size)
        while block := response.read1(_BLOCK_BYTES):
            offset += len(block)
            if offset > (MAX_BYTES if size is None else size):
                raise TransferError(f"the server sends more than the {size or MAX_BYTES:,} bytes that it may")
            file.write(block)
            report(offset, size)
        file.flush()
        os.fsync(file.fileno())
    if size is not None and offset < size:
        raise _BrokenError(f"the connection broke after {offset:,} of {size:,} bytes")


def _validator(response: http.client.HTTPResponse) -> str | None:
    """What tells that the file on the server is still the same: a strong ETag, else the time of its last change."""
    etag = response.headers.get("ETag", "")
    if etag.startswith('"'):
        return etag
    return response.headers.get("Last-Modified")


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    """The pause in seconds that the server asks for."""
    value = error.headers.get("Retry-After", "") if error.headers else ""
    if value.isdecimal() and len(value) < 7:
        return float(value)
    date = email.utils.parsedate_to_datetime(value) if value.count(":") == 2 else None
    return max(date.timestamp() - time.time(), 0.0) if date is not None else None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _state_path(partial: Path) -> Path:
    return partial.with_name(f".{partial.name}.json")


def _read_state(partial: Path) -> dict[str, Any]:
    """What the last attempt has noted; nothing where it is missing or damaged."""
    try:
        state = json.loads(_state_path(partial).read_bytes()[:10_000])
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(partial: Path, state: dict[str, Any]) -> None:
    _state_path(partial).write_text(json.dumps(state), encoding="utf-8")


def remove_partial(partial: Path) -> None:
    """Remove a partial file and its notes."""
    partial.unlink(missing_ok=True)
    _state_path(partial).unlink(missing_ok=True)
