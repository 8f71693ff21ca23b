"""Caffe's HDF5 files: ``.caffemodel.h5``; a solver state, ``.solverstate.h5``, is recognized and refused."""

from __future__ import annotations

from typing import NoReturn

from prototorch.caffe.interop.solver_state import is_hdf5_state
from prototorch.caffe.interop.stored_net import file_of_hdf5, is_caffemodel_tree
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.errors import ModelFileError
from prototorch.interop.readers.hdf5_variant import HDF5Variant

__all__ = ["SOLVER_STATE", "WEIGHTS"]


def _refuse_state(layout: HDF5Layout) -> NoReturn:
    raise ModelFileError(
        f"{layout.path}: is a solver state of Caffe, which holds no weights; give the .caffemodel.h5 that was "
        "written beside it"
    )


WEIGHTS = HDF5Variant(is_caffemodel_tree, file_of_hdf5)
SOLVER_STATE = HDF5Variant(is_hdf5_state, _refuse_state)
