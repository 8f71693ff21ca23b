"""What a file is, by its content."""

import gzip
import io
import struct
import zipfile

import h5py
import numpy as np
import pytest
from PIL import Image

from prototorch.errors import FileError
from prototorch.storage import container
from prototorch.storage.file_type import detect_file_type


def picture(kind):
    out = io.BytesIO()
    Image.new("RGB", (4, 4)).save(out, kind)
    return out.getvalue()


def archive(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return out.getvalue()


def arrays(save):
    out = io.BytesIO()
    save(out, np.zeros(3))
    return out.getvalue()


def idx(kind=8, dims=(2, 2)):
    return struct.pack(">HBB", 0, kind, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + bytes(40)


CONTENTS = [
    (b"", "empty"),
    (b"layer {\n  name: 'x'\n}\n", "text"),
    ("\ufeffé # ü\t\r\n".encode(), "text"),
    (("é" * 5000).encode(), "text"),
    (("x" + "é" * 5000).encode(), "text"),
    (("x" * 4093 + "\U0001f600" * 10).encode(), "text"),
    (b"a\0b", "unknown"),
    (b"\xff\xfe\xfd", "unknown"),
    (b"a\x1b[31m", "unknown"),
    (b"x" * 4096 + b"\0", "text"),  # only the beginning is looked at
    (arrays(np.save), "npy"),
    (arrays(np.savez), "npz"),
    (arrays(np.savez_compressed), "npz"),
    (archive(), "npz"),
    (archive("metadata.json", "config.json", "model.weights.h5"), "keras"),
    (archive("net/data.pkl", "net/version"), "torch"),
    (archive("readme.txt"), "zip"),
    (b"\x80\x02}q\0.", "torch"),
    (idx(), "idx"),
    (idx(0x0D, (3,)), "idx"),
    (gzip.compress(idx(), mtime=0), "idx"),
    (gzip.compress(b"text", mtime=0), "gzip"),
    (b"\x1f\x8b\x08garbage", "gzip"),
    (b"\0\0\x07\x01" + bytes(20), "unknown"),
    (*(picture("JPEG"),), "image"),
    (picture("PNG"), "image"),
    (picture("GIF"), "image"),
    (picture("BMP"), "image"),
    (picture("TIFF"), "image"),
    (picture("WEBP"), "image"),
    (picture("PPM"), "image"),
    (struct.pack("<Q", 2) + b"{}", "safetensors"),
    (bytes(16) + b"\xde\xc0\xef\xbe" + bytes(100), "lmdb"),
]


@pytest.mark.parametrize("case", range(len(CONTENTS)))
def test_by_content(tmp_path, case):
    content, kind = CONTENTS[case]
    (tmp_path / "weights.h5").write_bytes(content)  # the name says nothing
    assert detect_file_type(tmp_path / "weights.h5") == kind


@pytest.mark.parametrize("block", [0, 512, 1024, 4096])
def test_hdf5(tmp_path, block):
    with h5py.File(tmp_path / "f.txt", "w", userblock_size=block) as file:
        file["a"] = 1
    assert detect_file_type(tmp_path / "f.txt") == "hdf5"


def test_own(tmp_path):
    container.write(tmp_path / "f.proto", {})
    assert detect_file_type(tmp_path / "f.proto") == "own"
    assert container.is_container(tmp_path / "f.proto")
    data = bytearray((tmp_path / "f.proto").read_bytes())
    data[3] ^= 4
    (tmp_path / "f.proto").write_bytes(data)
    assert detect_file_type(tmp_path / "f.proto") == "own"  # damaged, but nothing else
    (tmp_path / "g").write_bytes(b"text about sha256=")
    assert not container.is_container(tmp_path / "g")


def test_no_file(tmp_path):
    assert detect_file_type(tmp_path) == "folder"
    with pytest.raises(FileError, match="No such file"):
        detect_file_type(tmp_path / "none")
    with pytest.raises(FileError, match="device or pipe"):
        detect_file_type("/dev/null")
