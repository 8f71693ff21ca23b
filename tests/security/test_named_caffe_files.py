"""Files that Caffe's texts name may be any: errors quote nothing of them, and what is not a regular file is refused."""

import os

import pytest

from prototorch import caffe
from prototorch.caffe.interop.named_net import read_named_net
from prototorch.errors import PrototorchError, TextError
from prototorch.interop.importers import find_importer
from tests.security.test_read_files import SECRET, SECRETS

SOLVER = 'net: "{}"  base_lr: 1  lr_policy: "fixed"  max_iter: 1'
LISTS = ("HDF5Data", "ImageData", "WindowData")
PARAMS = {"HDF5Data": "hdf5_data_param", "ImageData": "image_data_param", "WindowData": "window_data_param"}


@pytest.mark.parametrize("name", SECRETS)
def test_errors_about_the_net_of_a_solver_quote_nothing_of_it(tmp_path, name):
    (tmp_path / name).write_text(SECRETS[name])
    solver = tmp_path / "s.prototxt"
    solver.write_text(SOLVER.format(tmp_path / name))
    for read in (caffe.get_solver, lambda path: find_importer(path).load(path)):
        with pytest.raises(PrototorchError) as info:
            read(str(solver))
        assert SECRET not in str(info.value)
        assert "s.prototxt:1:6" in str(info.value)


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("name", SECRETS)
def test_errors_about_lists_quote_nothing_of_them(tmp_path, name, kind):
    (tmp_path / name).write_text(SECRETS[name])
    net, tops = tmp_path / "n.prototxt", 'top: "x"' + ' top: "y"' * (kind != "HDF5Data")
    crop = "transform_param { crop_size: 3 }" if kind == "WindowData" else ""
    param = f'{PARAMS[kind]} {{ source: "{tmp_path / name}" batch_size: 1 }}'
    net.write_text(f'layer {{ name: "d" type: "{kind}" {tops} {crop} {param} }}')
    with pytest.raises(PrototorchError) as info:
        caffe.Net(str(net), caffe.TRAIN)
    assert SECRET not in str(info.value)


def test_a_net_that_is_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TextError, match="not a regular file"):
        read_named_net(tmp_path / "pipe", "pipe", None)
