"""The cache of machine code: what is not this user's own is never loaded, and what cannot be used is compiled again."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys

import pytest

from prototorch.engine.backends import user_cache
from prototorch.engine.backends.user_cache import KEY_NAME, UserFolder

NAME, CODE = "ab12.kernel", b"scaled\0" + bytes(range(256))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def folder(path):
    one = UserFolder(path)
    assert one.write(NAME, CODE)
    return one


def test_what_was_written_is_read(folder, path):
    assert folder.read(NAME) == UserFolder(path).read(NAME) == CODE
    assert folder.read("cd.kernel") is None


FORGERIES = {
    "without a digest": CODE,
    "a digest without the key": hashlib.sha256(NAME.encode() + CODE).digest() + CODE,
    "a digest of the format before": hashlib.sha256(bytes.fromhex("ab12") + CODE).digest() + CODE,
    "an empty key": hashlib.blake2b(NAME.encode() + b"\0" + CODE, digest_size=32).digest() + CODE,
    "short": b"x",
    "empty": b"",
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_forged_files_are_ignored_with_one_line(folder, path, caplog, kind):
    for name in (NAME, "cd.kernel"):
        (path / name).write_bytes(FORGERIES[kind])
        os.chmod(path / name, 0o600)
    with caplog.at_level(logging.WARNING):
        assert (folder.read(NAME), folder.read("cd.kernel")) == (None, None)
    assert len(caplog.records) == 1
    assert f"{path}: {NAME} was not written by" in caplog.text
    assert folder.write(NAME, CODE)
    assert folder.read(NAME) == CODE


def test_a_file_under_another_name_is_ignored(folder, path):
    os.rename(path / NAME, path / "cd.kernel")
    assert folder.read("cd.kernel") is None


def test_another_key_makes_all_files_unknown(folder, path):
    (path / KEY_NAME).write_bytes(bytes(32))
    other = UserFolder(path)
    assert other.read(NAME) is None
    assert other.write(NAME, CODE)
    assert other.read(NAME) == CODE
    assert folder.read(NAME) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o622])
def test_a_key_that_others_can_read_is_replaced(folder, path, mode):
    old = (path / KEY_NAME).read_bytes()
    os.chmod(path / KEY_NAME, mode)
    other = UserFolder(path)
    assert (path / KEY_NAME).read_bytes() != old
    assert (path / KEY_NAME).stat().st_mode & 0o777 == 0o600
    assert other.read(NAME) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_replaced(folder, path, content):
    (path / KEY_NAME).write_bytes(content)
    assert UserFolder(path).write(NAME, CODE)
    assert UserFolder(path).read(NAME) == CODE


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o666, 0o644])
def test_files_that_others_may_write_or_read_are_ignored(folder, path, mode):
    os.chmod(path / NAME, mode)
    assert folder.read(NAME) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "link to a device"])
def test_only_regular_files_are_read(folder, path, kind):
    os.rename(path / NAME, path.parent / "elsewhere")
    {
        "link": lambda: os.symlink(path.parent / "elsewhere", path / NAME),
        "pipe": lambda: os.mkfifo(path / NAME, 0o600),
        "folder": lambda: os.mkdir(path / NAME, 0o700),
        "link to a device": lambda: os.symlink("/dev/zero", path / NAME),
    }[kind]()
    assert folder.read(NAME) is None
    assert folder.write(NAME, CODE) is (kind != "folder")


def test_a_folder_that_is_a_link_is_not_used(tmp_path, folder, path):
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        UserFolder(tmp_path / "link")
    (tmp_path / "above").symlink_to(path.parent)  # of this user, as somebody's ~/.cache may be
    assert UserFolder(tmp_path / "above" / "kernels").read(NAME) == CODE
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(OSError, match="link"):
        UserFolder(tmp_path / "circle" / "kernels")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, path, mode):
    os.chmod(path, mode)
    assert not folder.is_trusted()
    with pytest.raises(OSError, match="others may write"):
        UserFolder(path)


def test_a_folder_below_one_that_anybody_may_rename_in_is_not_used(folder, path):
    os.chmod(path.parent, 0o777)
    with pytest.raises(OSError, match="others may rename"):
        UserFolder(path)
    os.chmod(path.parent, 0o1777)  # like /tmp: only an owner may rename
    assert UserFolder(path).read(NAME) == CODE


@pytest.mark.parametrize("what", ["folder", "parent", "file", "link"])
def test_what_belongs_to_another_user_is_not_used(folder, path, monkeypatch, what):
    """Without another user at hand, this one becomes another: what it owned before belongs to somebody else."""
    place = {"folder": path, "parent": path.parent, "file": path / NAME, "link": path.parent / "up"}[what]
    (path.parent / "up").symlink_to(path.parent)
    real, identity = os.fstat, os.stat(place, follow_symlinks=False)

    def with_owner(status: os.stat_result) -> os.stat_result:
        is_it = (status.st_ino, status.st_dev) == (identity.st_ino, identity.st_dev)
        return os.stat_result([*status[:4], 12345, *status[5:10]]) if is_it else status

    real_stat = os.stat
    monkeypatch.setattr(user_cache.os, "fstat", lambda handle: with_owner(real(handle)))
    monkeypatch.setattr(user_cache.os, "stat", lambda *a, **k: with_owner(real_stat(*a, **k)))
    if what == "file":
        assert folder.read(NAME) is None
    else:
        with pytest.raises(OSError, match=r"others may|another user|symbolic link"):
            UserFolder(path.parent / "up" / "kernels" if what == "link" else path)


def test_a_file_that_is_swapped_between_check_and_read_is_not_read(folder, path, monkeypatch):
    """The check looks at the open file: a file of another name takes no effect."""
    real = os.fstat

    def swap(handle: int) -> os.stat_result:
        (path / "forged").write_bytes(bytes(32) + b"forged")
        os.replace(path / "forged", path / NAME)
        return real(handle)

    monkeypatch.setattr(user_cache.os, "fstat", swap)
    assert folder.read(NAME) == CODE
    monkeypatch.undo()
    assert folder.read(NAME) is None


def test_a_folder_that_is_swapped_is_not_read(folder, path):
    """The folder is held open: another one under its path takes no effect."""
    os.rename(path, path.with_name("before"))
    path.mkdir(mode=0o700)
    (path / NAME).write_bytes(b"forged")
    assert folder.read(NAME) == CODE


def test_trust_ends_with_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    first = user_cache.usable_folder()
    assert first is user_cache.usable_folder()
    os.chmod(tmp_path / "kernels", 0o777)
    assert user_cache.usable_folder() is None
    assert "others may write" in user_cache.refusal_reason(tmp_path / "kernels")
    os.chmod(tmp_path / "kernels", 0o700)
    for name in os.listdir(tmp_path / "kernels"):
        os.unlink(tmp_path / "kernels" / name)
    os.rmdir(tmp_path / "kernels")
    second = user_cache.usable_folder()
    assert second is not None
    assert second is not first
    assert second.write(NAME, CODE)


def test_several_processes_make_one_key(path):
    code = (
        "import sys, pathlib; from prototorch.engine.backends.user_cache import UserFolder; sys.stdin.readline(); "
        "f = UserFolder(pathlib.Path(sys.argv[1])); print(f.write(sys.argv[2], b'content'))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, path, f"{i}.kernel"], stdin=subprocess.PIPE, text=True, stdout=subprocess.PIPE
        )
        for i in range(4)
    ]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0].strip() for process in processes] == ["True"] * 4
    folder = UserFolder(path)
    assert [folder.read(f"{i}.kernel") for i in range(4)] == [b"content"] * 4
    assert sorted(os.listdir(path)) == [KEY_NAME, *(f"{i}.kernel" for i in range(4))]


def test_a_full_disk_leaves_nothing_behind(folder, path, monkeypatch):
    def refuse(*args, **options):
        raise OSError(28, "No space left on device")

    for call in ("replace", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(user_cache.os, call, refuse)
            assert not folder.write("cd.kernel", CODE)
        assert sorted(os.listdir(path)) == [KEY_NAME, NAME]
