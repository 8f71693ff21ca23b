"""Databases, images and layers that the tests of data layers share."""

import io

import numpy as np
from PIL import Image

from prototorch.caffe.data.datum import encode_datum
from prototorch.caffe.data.lmdb_writer import write_lmdb
from prototorch.caffe.text.message import Message


def write_database(folder, records, file_format="LMDB"):
    """A database of keys and values, by LMDB's own library or LevelDB's."""
    if file_format == "LMDB":
        import lmdb

        with lmdb.open(str(folder), map_size=1 << 26) as env, env.begin(write=True) as transaction:
            for key, value in records:
                transaction.put(key, value)
    else:
        import plyvel

        with plyvel.DB(str(folder), create_if_missing=True) as database, database.write_batch() as batch:
            for key, value in records:
                batch.put(key, value)
    return folder


def write_own_lmdb(folder, records):
    """An LMDB by our writer."""
    folder.mkdir()
    with (folder / "data.mdb").open("wb") as file:
        write_lmdb(file, records)
    return folder


def images(count, shape=(3, 6, 7), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def datum_records(pixels, labels=None):
    """Records of Datums; the label of an image is its number."""
    labels = range(len(pixels)) if labels is None else labels
    return [
        (f"{i:08}_{i}.png".encode(), encode_datum(image, label))
        for i, (image, label) in enumerate(zip(pixels, labels, strict=True))
    ]


def image_bytes(pixels, file_format="PNG"):
    """The file of an image [channels, height, width] whose channels are blue, green, red."""
    array = pixels[0] if len(pixels) == 1 else pixels[[2, 1, 0, 3][: len(pixels)]].transpose(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(file, file_format)
    return file.getvalue()


def data_layer(type_name, param_type, param_name, tops=("data", "label"), transform=None, **fields):
    """A layer whose ``param_name`` has these fields, and ``transform_param`` those of ``transform``."""
    layer = Message("LayerParameter", name="in", type=type_name, top=list(tops))
    layer[param_name] = Message(param_type, **fields)
    if transform is not None:
        layer["transform_param"] = Message("TransformationParameter", **transform)
    return layer


def database_layer(source, batch_size, transform=None, tops=("data", "label"), **fields):
    """A Data layer."""
    return data_layer(
        "Data", "DataParameter", "data_param", tops, transform, source=str(source), batch_size=batch_size, **fields
    )
