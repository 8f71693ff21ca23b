"""Data sets, samplers and `DataLoader`, by PyTorch's names.

    dataset = TensorDataset(x, y)
    for x, y in DataLoader(dataset, batch_size=8, shuffle=True):
        ...

`Model.fit`, `evaluate` and `predict` take a `DataLoader` as well.
"""

from typing import NoReturn

from prototorch.errors import did_you_mean
from prototorch.utils.data.collate import default_collate, default_convert
from prototorch.utils.data.dataloader import DataLoader
from prototorch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
)
from prototorch.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from prototorch.utils.data.split import random_split
from prototorch.utils.data.worker_info import get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
