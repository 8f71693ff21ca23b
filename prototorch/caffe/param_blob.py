"""The parameter blobs of a net: views of its weights in Caffe's layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototorch.caffe.blob import BlobShape
from prototorch.caffe.interop.caffe_net import CaffeParam
from prototorch.errors import UsageError
from prototorch.runtime.variables import Variables

__all__ = ["ParamBlob"]


class ParamBlob(BlobShape):
    """A parameter of a layer: ``data`` is a view of the net's weight, ``diff`` its gradient, which adds up over
    backward passes (`Net.clear_param_diffs`).

    A parameter that shares the values of another one shares the gradient, too.
    """

    def __init__(self, param: CaffeParam, variables: Variables, owner: ParamBlob | None = None):
        self.param, self._variables, self._owner = param, variables, owner
        self._diff: np.ndarray | None = None
        self._copy: np.ndarray | None = None  # of weights that no view shows in Caffe's layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self.param.shape

    @property
    def data(self) -> np.ndarray:
        """The elements in Caffe's layout; what is written into it is what the next run reads."""
        if self._copy is not None:
            self.write_back()
        weights = tuple(self._variables[name] for name in self.param.weights)
        blob = self._to_theirs(weights)
        if all(np.may_share_memory(blob, weight) for weight in weights):
            return blob
        if self._copy is None:
            self._copy = np.array(blob)
        self._copy[...] = blob
        return self._copy

    @property
    def diff(self) -> np.ndarray:
        """The gradient, in Caffe's layout."""
        if self._owner is not None:
            return self._owner.diff.reshape(self.shape)
        if self._diff is None:
            self._diff = np.zeros(self.shape, self._variables.borrow(self.param.weights[0]).dtype)
        return self._diff

    def reshape(self, *shape: int) -> None:
        """Raises UsageError: a layer's parameters have the shapes that its fields say."""
        raise UsageError(f"parameter {self.param.index} of the layer {self.param.layer!r} has a fixed shape")

    def add_gradient(self, gradients: Mapping[str, np.ndarray]) -> None:
        """Add gradients of weights, by their names."""
        self.diff[...] += self._to_theirs(tuple(gradients[name] for name in self.param.weights))

    def write_back(self) -> None:
        """Bring the weights up to date where `data` is no view of them."""
        if self._copy is None:
            return
        source = self if self._owner is None else self._owner
        arrays = source.param.layout.transform.to_ours((self._copy.reshape(source.shape),))
        for name, array in zip(self.param.weights, arrays, strict=True):
            if not np.array_equal(self._variables.borrow(name), array, equal_nan=True):
                self._variables.assign(name, array)

    def _to_theirs(self, weights: tuple[np.ndarray, ...]) -> np.ndarray:
        source = self if self._owner is None else self._owner
        (array,) = source.param.layout.transform.to_theirs(weights)
        return array.reshape(self.shape)
