"""Files that this user alone may write and read: caches of machine code and of what was measured.

What is read here is run. A folder is therefore opened once, each part of its path without following links that others
could have made, and files are opened inside it by its descriptor. The folder and the files must belong to this user,
and nobody else may write to them; no folder above may be one that anybody may rename things in. Each file begins with a
keyed digest (BLAKE2b) of its name and content, by a key that only this user can read: a file that somebody else has
made, changed or renamed is ignored, and written again. Attackers who are the same user are out of scope.

The folder is ``kernels`` in PROTOTORCH_CACHE, else in the user's cache folder; with an empty PROTOTORCH_CACHE there is
none.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

__all__ = ["TEMP_PREFIX", "UserFolder", "cache_folder", "refusal_reason", "usable_folder"]

log = logging.getLogger(__name__)

TEMP_PREFIX = ".unfinished-"
KEY_NAME = ".key"
MAX_BYTES = 1 << 28  # of a file
_KEY_BYTES = _DIGEST_BYTES = 32
_MAX_LINKS = 40  # in a path
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_OPEN_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK


def cache_folder() -> Path | None:
    """The path of the folder; None where there is none."""
    variable = os.environ.get("PROTOTORCH_CACHE")
    if variable is not None:
        return Path(variable) / "kernels" if variable else None
    user_cache = os.environ.get("XDG_CACHE_HOME")
    if user_cache and sys.platform != "darwin":
        return Path(user_cache) / "prototorch" / "kernels"
    try:
        home = Path.home()
    except RuntimeError:  # a user without an entry, as in a container that runs under a numeric id
        return None
    return home.joinpath(*(("Library", "Caches") if sys.platform == "darwin" else (".cache",)), "prototorch", "kernels")


_folders: dict[Path, UserFolder] = {}  # without a lock, which a fork could copy: opening a folder twice does no harm


def usable_folder() -> UserFolder | None:
    """The folder, created where it was missing; None where there is none or it cannot be trusted."""
    path = cache_folder()
    if path is None or os.name != "posix":
        return None
    folder = _folders.get(path)
    if folder is None or not folder.is_trusted():
        _folders.pop(path, None)
        try:
            folder = _folders[path] = UserFolder(path)
        except OSError as error:
            log.debug("%s is not used: %s", path, error)
            return None
    return folder


def refusal_reason(path: Path) -> str:
    """Why a folder is not used; empty where it is."""
    try:
        UserFolder(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


class UserFolder:
    """An open folder of this user. Raises OSError where it cannot be created or trusted.

    Reading and writing raise nothing: what cannot be read is missing, and what cannot be written is computed again.
    """

    def __init__(self, path: Path):
        self.path = path
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._handle = _open_trusted(os.path.abspath(path))
        self._has_warned = False
        try:
            self._key = self._load_key()
        except BaseException:
            os.close(self._handle)
            raise

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._handle)

    def is_trusted(self) -> bool:
        """Whether the folder still exists, belongs to this user, and nobody else may write to it."""
        status = os.fstat(self._handle)
        return status.st_nlink > 0 and _is_private(status)

    def is_writable(self) -> bool:
        """Whether files can be written."""
        return os.access(".", os.W_OK, dir_fd=self._handle)

    def contains(self, name: str) -> bool:
        """Whether there is a file of this name."""
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=self._handle, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def read(self, name: str, max_idle: float = float("inf")) -> bytes | None:
        """The content of a file; None where there is none that `write` has written.

        max_idle: the age in seconds of the file's time above which it is set to now, as a mark that it is used.
        """
        try:
            data = self._read_private(name, max_idle)
        except OSError:
            return None
        if data is not None and compare_digest(self._digest(name, data[_DIGEST_BYTES:]), data[:_DIGEST_BYTES]):
            return data[_DIGEST_BYTES:]
        if not self._has_warned:
            self._has_warned = True
            log.warning("%s: %s was not written by this user and program, and is not used", self.path, name)
        return None

    def write(self, name: str, content: bytes, replace: bool = True) -> bool:
        """Write a file, whole or not at all; whether it was. replace: whether an existing one is replaced."""
        try:
            with self._temporary_file(self._digest(name, content) + content) as temporary:
                if replace:
                    os.replace(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
                else:
                    os.link(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
            return False
        return True

    def time_of(self, name: str) -> float:
        """The time of a file, in seconds since 1970; 0 where there is none."""
        try:
            return os.stat(name, dir_fd=self._handle, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    def entries(self) -> dict[str, os.stat_result]:
        """The files by name."""
        stats = {}
        try:
            for name in os.listdir(self._handle):
                with suppress(OSError):  # another process has removed it
                    stats[name] = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except OSError:
            return {}
        return stats

    def remove(self, name: str) -> bool:
        """Remove a file; whether it was there."""
        try:
            os.unlink(name, dir_fd=self._handle)
        except OSError:
            return False
        return True

    def touch(self, name: str) -> None:
        """Set the time of a file to now; it is created where it is missing."""
        with suppress(OSError):
            if self.contains(name):
                os.utime(name, dir_fd=self._handle, follow_symlinks=False)
            else:
                os.close(os.open(name, _CREATE_FILE, 0o600, dir_fd=self._handle))

    def _digest(self, name: str, content: bytes) -> bytes:
        digest = blake2b(name.encode() + b"\0", key=self._key, digest_size=_DIGEST_BYTES)
        digest.update(content)
        return digest.digest()

    def _load_key(self) -> bytes:
        """The key, created by the first process that needs it. Raises OSError where there is none and none can be."""
        for _ in range(10):  # another process may remove or create it meanwhile
            with suppress(FileNotFoundError):
                key = self._read_private(KEY_NAME)
                if key is not None and len(key) == _KEY_BYTES:
                    return key
                os.unlink(KEY_NAME, dir_fd=self._handle)  # others could read or change it
            with suppress(FileExistsError), self._temporary_file(secrets.token_bytes(_KEY_BYTES)) as temporary:
                os.link(temporary, KEY_NAME, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        raise OSError("its key cannot be created")

    def _read_private(self, name: str, max_idle: float = float("inf")) -> bytes | None:
        """The bytes of a regular file of this user, which nobody else may read or write; None for another one."""
        handle = os.open(name, _OPEN_FILE, dir_fd=self._handle)
        with os.fdopen(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            is_hidden = not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if not stat.S_ISREG(status.st_mode) or not _is_private(status) or not is_hidden:
                return None
            if time.time() - status.st_mtime > max_idle:
                os.utime(handle)
            return file.read(status.st_size) if status.st_size <= MAX_BYTES else None

    @contextmanager
    def _temporary_file(self, data: bytes) -> Iterator[str]:
        """The name of a new file with this content, which is removed if it has not been renamed."""
        name = f"{TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        handle = os.open(name, _CREATE_FILE, 0o600, dir_fd=self._handle)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            yield name
        finally:
            self.remove(name)


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and nobody else may write to it."""
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _open_trusted(path: str) -> int:
    """The descriptor of a folder of this user, below folders in which nobody but this user and root may rename.

    Links above it are followed if this user or root has made them; the folder itself must be none. Raises OSError.
    """
    handle = os.open("/", _OPEN_FOLDER)
    try:
        owners = {0, os.getuid(), os.fstat(handle).st_uid}  # root may bear another number in a container
        parts, links = [part for part in path.split("/") if part], 0
        while parts:
            part = parts.pop(0)
            status = os.stat(part, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if not parts or links > _MAX_LINKS or status.st_uid not in owners:
                    raise OSError(f"{part!r} in its path is a symbolic link")
                target = os.readlink(part, dir_fd=handle)
                parts = [*(one for one in target.split("/") if one), *parts]
                if target.startswith("/"):
                    handle = _replace_handle(handle, os.open("/", _OPEN_FOLDER))
                continue
            handle = _replace_handle(handle, os.open(part, _OPEN_FOLDER, dir_fd=handle))
            status = os.fstat(handle)
            is_open = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
            if parts and (status.st_uid not in owners or is_open):
                raise OSError(f"others may rename what is in {part!r}")
        if not _is_private(os.fstat(handle)):
            raise OSError("it belongs to another user, or others may write to it")
        return handle
    except BaseException:
        os.close(handle)
        raise


def _replace_handle(old: int, new: int) -> int:
    os.close(old)
    return new
