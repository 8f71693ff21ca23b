"""Nets whose data layers read databases and arrays."""

import numpy as np
import pytest

import prototorch.caffe as caffe
from tests.caffe.caffe_data import datum_records, images, write_own_lmdb

PIXELS = images(10, (3, 8, 8))
NET = """
layer { name: "in" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { crop_size: 6 mirror: true mean_value: 100 scale: 0.5 }
        data_param { source: "db" batch_size: 4 backend: LMDB } }
layer { name: "in" type: "Data" top: "data" top: "label" include { phase: TEST }
        transform_param { crop_size: 6 mean_value: 100 scale: 0.5 }
        data_param { source: "db" batch_size: 5 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
MEMORY_NET = """
layer { name: "in" type: "MemoryData" top: "data" top: "label"
        memory_data_param { batch_size: 2 channels: 3 height: 8 width: 8 } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "out" }
layer { name: "quiet" type: "Silence" bottom: "label" }
"""


def test_each_phase_reads_its_own_batches(tmp_path):
    write_own_lmdb(tmp_path / "db", datum_records(PIXELS, [i % 3 for i in range(10)]))
    (tmp_path / "net.prototxt").write_text(NET)
    net = caffe.Net(tmp_path / "net.prototxt", caffe.TEST)
    for rows in (slice(0, 5), slice(5, 10), slice(0, 5)):
        net.forward()
        expected = (PIXELS[rows, :, 1:7, 1:7].astype(np.float32) - 100) * np.float32(0.5)
        np.testing.assert_array_equal(net.blobs["data"].data, expected)
        np.testing.assert_array_equal(net.blobs["label"].data, np.arange(10)[rows] % 3)
    train = caffe.Net(tmp_path / "net.prototxt", caffe.TRAIN)
    assert train.forward()["loss"] == pytest.approx(np.log(3), abs=1e-5)  # its weights are 0
    assert train.blobs["data"].data.shape == (4, 3, 6, 6)


def test_arrays_of_a_memory_data_layer(tmp_path):
    (tmp_path / "net.prototxt").write_text(MEMORY_NET)
    net = caffe.Net(tmp_path / "net.prototxt", caffe.TEST)
    data = PIXELS[:6].astype(np.float32) - 128
    net.set_input_arrays(data, np.arange(6, dtype=np.float32))
    for start in (0, 2, 4, 0):
        np.testing.assert_array_equal(net.forward()["out"], np.maximum(data[start : start + 2], 0))
        np.testing.assert_array_equal(net.blobs["label"].data, np.arange(start, start + 2))
