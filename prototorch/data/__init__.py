"""Data: sources told apart by their content, data sets, the loader, and the checks before the first step."""

from .batch import Batch, Place
from .binding import Bound, Target, bind
from .checks import DataWarning, check_dataset, compare
from .dataset import Arrays, Dataset, SampleError
from .declare import Data
from .folders import Pictures, picture_files
from .loader import Loader
from .memory import as_dataset
from .named import NAMES
from .pairs import Pairs
from .pictures import PictureReader
from .sources import Options, add_array_files, open_source
from .stream import Stream

__all__ = [
    "NAMES",
    "Arrays",
    "Batch",
    "Bound",
    "Data",
    "DataWarning",
    "Dataset",
    "Loader",
    "Options",
    "Pairs",
    "PictureReader",
    "Pictures",
    "Place",
    "SampleError",
    "Stream",
    "Target",
    "add_array_files",
    "as_dataset",
    "bind",
    "check_dataset",
    "compare",
    "open_source",
    "picture_files",
]
