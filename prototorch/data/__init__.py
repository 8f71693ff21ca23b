"""Data: sources of any known format, data sets, the loader, and the checks before the first step."""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(
    __name__,
    {
        "array_conversion": "as_dataset",
        "batch": "Batch BatchContext",
        "binding": "BoundDataset bind",
        "builtin_datasets": "DATASET_NAMES",
        "checks": "DataWarning check_dataset check_overlap",
        "data_block": "Data",
        "dataset": "ArrayDataset Dataset SampleError",
        "image_folder": "ImageFileDataset open_image_files",
        "image_io": "ImageReader",
        "loader": "Loader",
        "pipeline.signature": "TargetSpec",
        "siamese_pairs": "SiamesePairs",
        "tables.column_block": "Column InputColumns",
        "tables.frame": "TypedTable",
        "sources": "SourceOptions open_source register_array_format",
        "stream": "BatchStream",
    },
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
