"""Downloads against a real HTTP server that breaks connections, lies about sizes, sends wrong bytes and redirects."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from prototorch.errors import FileError, UsageError
from prototorch.interop.downloads import download, transfer, verify_file
from prototorch.interop.downloads.cache import cached_files, home_folder, path_of_address, read_record, relative_path
from prototorch.interop.downloads.digests import parse_digest
from tests.interop.http_server import HTTPServer

CONTENT = random.Random(7).randbytes(200_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
DIGEST = f"sha256:{SHA256}"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty cache, short pauses, and no proxy."""
    monkeypatch.setenv("PROTOTORCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PROTOTORCH_MIRROR", raising=False)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(transfer, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(transfer, "TIMEOUT", 0.5)
    return tmp_path / "home"


def assert_nothing_was_kept(address):
    assert not path_of_address(address).exists()


@pytest.mark.parametrize(
    "digest",
    [DIGEST, DIGEST[:15], f"md5:{hashlib.md5(CONTENT).hexdigest()}", f"sha1:{hashlib.sha1(CONTENT).hexdigest()}"],
)
def test_a_file_is_downloaded_once_and_verified(digest):
    with HTTPServer(content=CONTENT) as server:
        path = download(f"{server.url}/w.pth", digest=digest)
        assert path.read_bytes() == CONTENT
        assert download(f"{server.url}/w.pth", digest=digest) == path
        assert len(server.behaviour.requests) == 1
    record = read_record(path)
    assert (record.sha256, record.is_published, record.size) == (SHA256, True, len(CONTENT))
    assert [file for file, _ in cached_files()] == [path]
    assert not list(path.parent.glob("*.part*"))


def test_a_broken_download_goes_on_where_it_broke():
    with HTTPServer(content=CONTENT, broken_after=50_000) as server:
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT
        ranges = [request.get("Range") for request in server.behaviour.requests]
    assert ranges == [None, "bytes=50000-", "bytes=100000-", "bytes=150000-"]


def test_an_interrupted_download_goes_on_in_another_process(monkeypatch):
    with HTTPServer(content=CONTENT, broken_after=70_000) as server:
        monkeypatch.setattr(transfer, "MAX_ATTEMPTS", 1)
        with pytest.raises(FileError, match=r"broke after 70,000 of 200,000 bytes"):
            download(f"{server.url}/w", digest=DIGEST)
        server.behaviour.broken_after = None
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT
        assert server.behaviour.requests[-1]["Range"] == "bytes=70000-"


@pytest.mark.parametrize("change", ["ranges ignored", "another etag", "no etag"])
def test_a_download_that_cannot_go_on_begins_again(change):
    def on_request(b):
        if len(b.requests) == 2:
            b.broken_after = None
            if change == "another etag":
                b.etag, b.content = '"v2"', CONTENT
            b.has_ranges = change != "ranges ignored"

    old = CONTENT if change != "another etag" else bytes(len(CONTENT))
    etag = None if change == "no etag" else '"v1"'
    with HTTPServer(content=old, etag=etag, broken_after=90_000, on_request=on_request) as server:
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT


def test_wrong_bytes_never_get_the_name():
    with HTTPServer(content=CONTENT[:-1] + b"x") as server:
        with pytest.raises(FileError, match=f"expected sha256 {SHA256} as published, got .*another file, or damaged"):
            download(f"{server.url}/w", digest=DIGEST)
        assert_nothing_was_kept(f"{server.url}/w")
        server.behaviour.content = CONTENT
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT


def test_a_size_that_is_too_large_is_a_broken_connection():
    with HTTPServer(content=CONTENT, declared=300_000, has_ranges=False) as server:
        with pytest.raises(FileError, match=r"\(300,000 bytes\).*broke after 200,000 of 300,000 bytes"):
            download(f"{server.url}/w", digest=DIGEST)
        assert_nothing_was_kept(f"{server.url}/w")


def test_a_size_that_is_too_small_is_a_wrong_digest():
    with HTTPServer(content=CONTENT, declared=100_000) as server:
        with pytest.raises(FileError, match=r"expected sha256"):
            download(f"{server.url}/w", digest=DIGEST)
        assert_nothing_was_kept(f"{server.url}/w")


@pytest.mark.parametrize(("options", "words"), [
    ({"declared": 1 << 50}, "the limit is"),
    ({"declared": None, "etag": None}, "does not tell its size"),
    ({"headers": {"Content-Encoding": "gzip"}}, "compresses it"),
    ({"statuses": [404]}, "answers 404"),
    ({"statuses": [403]}, "answers 403"),
    ({"statuses": [503] * 9}, "answers 503"),
    ({"statuses": [204]}, "answers 204"),
    ({"redirect": "file:///etc/passwd"}, "to url .file:///etc/passwd. is not allowed"),
    ({"redirect": "ftp://127.0.0.1/x"}, "redirected from http to ftp"),
    ({"redirect": "/again"}, "infinite loop|too many|302"),
    ({"silent": True}, "sent nothing for 0.5 seconds|connection failed"),
])  # fmt: skip
def test_what_a_server_must_not_do_is_one_sentence(options, words, monkeypatch):
    monkeypatch.setattr(transfer, "MAX_FAILURES", 2)
    with HTTPServer(content=CONTENT, **options) as server:
        address = f"{server.url}/w.pth"
        with pytest.raises(FileError, match=words) as caught:
            download(address)
    assert address in str(caught.value)
    assert str(path_of_address(address)) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert_nothing_was_kept(address)


def test_an_endless_body_ends_at_the_limit(monkeypatch):
    monkeypatch.setattr(transfer, "MAX_BYTES", 1 << 20)
    with HTTPServer(endless=True) as server, pytest.raises(FileError, match="more than the 1,048,576 bytes"):
        download(f"{server.url}/w")


def test_busy_servers_are_asked_again():
    with HTTPServer(content=CONTENT, statuses=[503, 429, 500], headers={"Retry-After": "0"}) as server:
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT
        assert len(server.behaviour.requests) == 4


def test_a_slow_server_is_waited_for():
    with HTTPServer(content=CONTENT, slow=0.1) as server:
        assert download(f"{server.url}/w", digest=DIGEST).read_bytes() == CONTENT


def test_redirections_are_followed():
    with HTTPServer(content=CONTENT) as target, HTTPServer(redirect=f"{target.url}/other") as server:
        path = download(f"{server.url}/w", digest=DIGEST)
    assert path == path_of_address(f"{server.url}/w")


def test_https_is_never_left():
    handler = transfer._Redirects()
    request = transfer.urllib.request.Request("https://host/w")
    with pytest.raises(transfer.TransferError, match="from https to http"):
        handler.redirect_request(request, None, 302, "", {}, "http://host/w")


def test_without_a_network_the_sentence_has_address_size_and_place():
    address = "https://host.invalid/a/w.pth"
    with pytest.raises(FileError) as caught:
        download(address, digest=DIGEST, size=14_212_972)
    message = str(caught.value)
    for part in (address, "14,212,972 bytes", str(path_of_address(address)), "no network"):
        assert part in message


def test_a_file_that_was_put_at_its_place_is_taken():
    address = "https://host.invalid/a/w.pth"
    path = path_of_address(address)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert download(address, digest=DIGEST) == path
    path.write_bytes(CONTENT[1:])
    with pytest.raises(FileError, match=r"expected sha256 .* as published, found .* remove it"):
        download(address, digest=DIGEST)


def test_without_a_published_digest_the_first_one_is_recorded_and_compared():
    with HTTPServer(content=CONTENT) as server:
        address = f"{server.url}/w"
        with pytest.warns(UserWarning, match=f"no digest of it is published; recorded sha256 {SHA256}"):
            path = download(address)
        assert download(address) == path
        assert not read_record(path).is_published
        path.unlink()
        server.behaviour.content = CONTENT[::-1]
        with pytest.raises(
            FileError, match=f"expected sha256 {SHA256}, as first downloaded .*the file there has changed"
        ):
            download(address)
        assert not path.exists()
        server.behaviour.content = CONTENT
        assert download(address) == path
        path.write_bytes(CONTENT[::-1])
        with pytest.raises(FileError, match="the file has changed"):
            download(address)


def test_a_changed_file_is_found_again_by_verify():
    with HTTPServer(content=CONTENT) as server:
        path = download(f"{server.url}/w", digest=DIGEST)
    status = path.stat()
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FileError, match="the file has changed"):
        verify_file(path, again=True)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"address": 3}', b"[" * 100_000])
def test_a_damaged_record_is_written_again(damage):
    with HTTPServer(content=CONTENT) as server:
        path = download(f"{server.url}/w", digest=DIGEST)
        path.with_name(".w.json").write_bytes(damage)
        assert download(f"{server.url}/w", digest=DIGEST) == path
    assert read_record(path).sha256 == SHA256


def test_several_threads_and_processes_download_once(home):
    code = (
        "import sys; from prototorch.interop.downloads import download as d; print(d(sys.argv[1], digest=sys.argv[2]))"
    )
    with HTTPServer(content=CONTENT, slow=0.05) as server:
        address = f"{server.url}/w"
        processes = [
            subprocess.Popen([sys.executable, "-c", code, address, DIGEST], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        threads = [threading.Thread(target=download, args=(address,), kwargs={"digest": DIGEST}) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outputs = [process.communicate()[0].strip() for process in processes]
        assert outputs == [str(path_of_address(address))] * 3
        assert len(server.behaviour.requests) == 1


def test_a_killed_download_leaves_no_lock(home):
    code = "import sys; from prototorch.interop.downloads import download; download(sys.argv[1], digest=sys.argv[2])"
    with HTTPServer(content=CONTENT, slow=5) as server:
        address = f"{server.url}/w"
        process = subprocess.Popen([sys.executable, "-c", code, address, DIGEST])
        for _ in range(500):
            if server.behaviour.requests:
                break
            time.sleep(0.02)
        process.kill()
        process.wait()
        server.behaviour.slow = 0
        assert download(address, digest=DIGEST).read_bytes() == CONTENT


def test_a_mirror_is_asked_instead(tmp_path, monkeypatch):
    with HTTPServer(content=CONTENT) as server:
        monkeypatch.setenv("PROTOTORCH_MIRROR", f"{server.url}/mirror/")
        path = download("https://host.invalid/a/w.pth?x=1", digest=DIGEST)
        assert server.behaviour.paths == [f"/mirror/{relative_path('https://host.invalid/a/w.pth?x=1')}"]
    assert path == path_of_address("https://host.invalid/a/w.pth?x=1")
    folder = tmp_path / "shared" / "host.invalid"
    folder.mkdir(parents=True)
    (folder / "v.pth").write_bytes(CONTENT)
    for mirror in (folder.parent, folder.parent.as_uri()):
        monkeypatch.setenv("PROTOTORCH_MIRROR", str(mirror))
        path = download("https://host.invalid/v.pth", digest=DIGEST)
        assert path.read_bytes() == CONTENT
        path.unlink()
    with pytest.raises(FileError, match="no such file"):
        download("https://host.invalid/u.pth", digest=DIGEST)


def test_file_addresses_are_read_where_they_are(tmp_path):
    path = tmp_path / "a b.pth"
    path.write_bytes(CONTENT)
    assert download(path.as_uri(), digest=DIGEST) == path
    with pytest.raises(FileError, match="expected sha256"):
        download(path.as_uri(), digest="sha256:00000000")
    with pytest.raises(FileError, match="no such file"):
        download((tmp_path / "none").as_uri())
    with pytest.raises(UsageError, match="names no host"):
        download("file://elsewhere/x")


@pytest.mark.parametrize(("address", "words"), [
    (3, "expected an address"), ("w.pth", "begins with https"), ("ftp://host/w", "begins with https"),
    ("https://host", "expected the address of a file"), ("https:///w", "expected the address of a file"),
    ("https://host:x/w", "port"), ("https://[host/w", "no address"),
])  # fmt: skip
def test_what_is_no_address_is_refused(address, words):
    with pytest.raises(UsageError, match=words):
        download(address)


def test_http_needs_a_digest_and_no_password():
    with pytest.raises(FileError, match="can be changed on its way"):
        download("http://host.invalid/w")
    with pytest.raises(FileError, match="must not contain a password"):
        download("https://me:secret@host.invalid/w", digest=DIGEST)


@pytest.mark.parametrize("digest", ["", "sha256:123", "sha1:" + "0" * 39, "md5:00", DIGEST + "0", DIGEST.upper()])
def test_what_is_no_digest_is_refused(digest):
    with pytest.raises(UsageError, match="must be 'sha256:'"):
        parse_digest(digest)


HOSTILE = [
    "https://host/../../../etc/passwd", "https://host/%2e%2e/%2e%2e/x", "https://host/a%2fb", "https://host/.ssh/key",
    "https://host/a%00b", "https://host/" + "a" * 4000, "https://host/x.part", "https://host/x.json", "https://../x",
    "https://host/a\\..\\b", "https://host/con%0d%0aX", "https://host/~root",
]  # fmt: skip


@pytest.mark.parametrize("address", HOSTILE)
def test_an_address_never_leads_out_of_the_cache(address, home):
    path = os.path.abspath(path_of_address(address))
    assert path.startswith(str(home / "weights") + os.sep)
    assert not any(part.startswith(".") or len(part) > 255 for part in path.removeprefix(str(home)).split(os.sep))
    assert path == os.path.abspath(path_of_address(address))


def test_addresses_have_paths_of_their_own():
    addresses = [
        "https://h/a/w",
        "https://h/b/w",
        "https://g/a/w",
        "https://h/a/w?x=1",
        "https://h/a/w?x=2",
        "https://h:8/a/w",
    ]
    assert len({path_of_address(address) for address in addresses}) == len(addresses)


def test_the_folder_is_the_platforms_without_a_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("PROTOTORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert home_folder() == tmp_path / "prototorch"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert home_folder().parts[-3:] == ("Library", "Caches", "prototorch")


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    with HTTPServer(content=CONTENT) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert download("http://host.invalid/w", digest=DIGEST).read_bytes() == CONTENT
        assert proxy.behaviour.paths == ["http://host.invalid/w"]


def test_a_disk_that_is_full_is_one_sentence(monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda folder: usage)
    with HTTPServer(content=CONTENT) as server, pytest.raises(FileError, match=r"do not fit on the disk \(1,000 are"):
        download(f"{server.url}/w", digest=DIGEST)


def test_the_record_is_text_that_can_be_read(home):
    with HTTPServer(content=CONTENT) as server:
        path = download(f"{server.url}/w", digest=DIGEST)
    record = json.loads(path.with_name(".w.json").read_text())
    assert record["address"].endswith("/w")
    assert record["sha256"] == SHA256
