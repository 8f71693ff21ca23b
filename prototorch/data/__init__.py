"""Data: sources of any known format, data sets, the loader, and the checks before the first step."""

from typing import NoReturn

from prototorch.data.array_conversion import as_dataset
from prototorch.data.batch import Batch, BatchContext
from prototorch.data.binding import BoundDataset, TargetSpec, bind
from prototorch.data.builtin_datasets import DATASET_NAMES
from prototorch.data.checks import DataWarning, check_dataset, check_overlap
from prototorch.data.data_block import Data
from prototorch.data.dataset import ArrayDataset, Dataset, SampleError
from prototorch.data.image_folder import ImageFileDataset, open_image_files
from prototorch.data.image_io import ImageReader
from prototorch.data.loader import Loader
from prototorch.data.siamese_pairs import SiamesePairs
from prototorch.data.sources import SourceOptions, open_source, register_array_format
from prototorch.data.stream import BatchStream
from prototorch.errors import did_you_mean

__all__ = [
    "DATASET_NAMES",
    "ArrayDataset",
    "Batch",
    "BatchContext",
    "BatchStream",
    "BoundDataset",
    "Data",
    "DataWarning",
    "Dataset",
    "ImageFileDataset",
    "ImageReader",
    "Loader",
    "SampleError",
    "SiamesePairs",
    "SourceOptions",
    "TargetSpec",
    "as_dataset",
    "bind",
    "check_dataset",
    "check_overlap",
    "open_image_files",
    "open_source",
    "register_array_format",
]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
