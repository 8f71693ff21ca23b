"""Records of the images of a list, as Caffe's ``convert_imageset`` makes them; and images of records as files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from prototorch.caffe.data.datum import encode_datum, encode_image_file, parse_datum, read_datum
from prototorch.caffe.data.images import decode_image, resize_image
from prototorch.caffe.data.record_database import RecordDatabase, printable_key
from prototorch.data.image_io import MAX_FILE_BYTES
from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError, UsageError

__all__ = ["ImageRecords", "encode_pixels", "write_images"]

_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "bmp": "BMP", "webp": "WEBP", "ppm": "PPM", "tif": "TIFF",
            "tiff": "TIFF"}  # fmt: skip
_JPEG_QUALITY = 95  # OpenCV's default


@dataclass(frozen=True)
class ImageRecords:
    """How images become records.

    is_gray: one channel. size: (height, width) to resize to. encode_type: "" for pixels, else the ending of the format
    ("png", "jpg") of the file that is stored; "auto" for that of each image. is_size_checked: all must have one size.
    on_missing: called with the message of an image that cannot be read, which is left out.
    """

    is_gray: bool = False
    size: tuple[int, int] | None = None
    encode_type: str = ""
    is_size_checked: bool = False
    on_missing: Callable[[str], None] | None = None

    def records(self, names: list[str], labels: np.ndarray, root: str) -> Iterator[tuple[bytes, bytes]]:
        """Keys (the number of an image with eight digits, ``_``, its name) and Datums.

        names: of the files, in the folder ``root``. Raises DataError for an image that cannot be read where
        `on_missing` is None, and for one of another size than the first where sizes are checked.
        """
        shape: tuple[int, ...] | None = None
        for number, (name, label) in enumerate(zip(names, labels.tolist(), strict=True)):
            path = os.path.join(root, name)
            try:
                data = read_file(path, MAX_FILE_BYTES)
                image = decode_image(data, printable_path(path), "gray" if self.is_gray else "color")
            except DataError as error:
                if self.on_missing is None:
                    raise
                self.on_missing(str(error))
                continue
            if self.size is not None:
                image = resize_image(image, self.size)
            if self.is_size_checked and shape not in (None, image.shape):
                raise DataError(
                    f"{printable_path(path)}: has channels, height, width {list(image.shape)}, but the first image "
                    f"{list(shape or ())}"
                )
            shape = shape or image.shape
            yield f"{number:08}_".encode() + os.fsencode(name), self._record(path, bytes(data), image, label)

    def _record(self, path: str, data: bytes, image: np.ndarray, label: int) -> bytes:
        ending = os.path.splitext(path)[1].removeprefix(".").lower()
        target_type = ending if self.encode_type == "auto" else self.encode_type.lower()
        if not target_type:
            return encode_datum(image, label)
        is_same = ending == target_type or (target_type == "jpg" and ending == "jpeg")
        if is_same and self.size is None and not self.is_gray:
            return encode_image_file(data, label)
        return encode_image_file(encode_pixels(image, target_type, printable_path(path)), label)


def encode_pixels(image: np.ndarray, ending: str, name: str = "the image") -> bytes:
    """The file of an image [1, 3 or 4, height, width] whose channels are blue, green, red, alpha.

    ending: of the format, "png" or "jpg" (quality 95). Raises UsageError for a format that is not known, DataError for
    other numbers of channels.
    """
    if ending not in _FORMATS:
        raise UsageError(f"{name}: the image format {ending!r} is not known; known are {', '.join(_FORMATS)}")
    if len(image) not in (1, 3, 4) or image.dtype != np.uint8:
        raise DataError(f"{name}: {len(image)} channels of {image.dtype} are no image")
    pixels = image[0] if len(image) == 1 else image[[2, 1, 0, 3][: len(image)]].transpose(1, 2, 0)
    file = io.BytesIO()
    options = {"quality": _JPEG_QUALITY, "subsampling": "4:2:0"} if _FORMATS[ending] == "JPEG" else {}
    try:
        Image.fromarray(np.ascontiguousarray(pixels)).save(file, _FORMATS[ending], **options)
    except (OSError, ValueError) as error:
        raise DataError(f"{name}: cannot be written as {ending}: {error}") from None
    return file.getvalue()


def write_images(database: RecordDatabase, folder: Path) -> int:
    """Write the images of a database as files into a folder, and ``list.txt`` with their names and labels.

    A record that holds an image file becomes that file, others become PNG. Their names are the numbers of the records
    and what is safe of the end of their keys, in a folder for each label. Returns the number of images. Raises
    DataError for records that are no images.
    """
    lines = []
    for number, (key, value) in enumerate(database.records()):
        name = f"{database.path}: record {printable_key(key)}"
        datum = read_datum(value, name)
        if datum.is_encoded:
            data = bytes(parse_datum(value, name)["data"])
            ending = {"JPEG": "jpg", "PPM": "ppm", "TIFF": "tif"}.get(_format_of(data), _format_of(data).lower())
        else:
            data, ending = encode_pixels(datum.image, "png", name), "png"
        path = Path(str(datum.label), f"{number:08}{_safe_stem(key)}.{ending}")
        (folder / path.parent).mkdir(exist_ok=True)
        (folder / path).write_bytes(data)
        lines.append(f"{path.as_posix()} {datum.label}\n")
    (folder / "list.txt").write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _format_of(data: bytes) -> str:
    with Image.open(io.BytesIO(data)) as image:
        return image.format or "PNG"


def _safe_stem(key: bytes) -> str:
    """``_cat`` for the key ``00000012_pets/cat.jpg``: letters and digits of the file's name."""
    stem = os.path.splitext(key.decode("ascii", "replace").rpartition("/")[2])[0]
    if stem[:8].isdigit():
        stem = stem[8:].removeprefix("_")
    safe = "".join(c for c in stem if c.isascii() and (c.isalnum() or c in "-_"))[:60]
    return f"_{safe}" if safe else ""
