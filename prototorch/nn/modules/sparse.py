"""Look-ups in a trained table as modules."""

from __future__ import annotations

from typing import Any, Self

from prototorch.eager.grad_mode import no_grad
from prototorch.errors import ShapeError
from prototorch.nn import functional as F
from prototorch.nn.arguments import note_dense_gradients
from prototorch.nn.functional.lookup import padding_row
from prototorch.nn.init import normal_
from prototorch.nn.module import Module
from prototorch.nn.parameter import Parameter, new_parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A table ``weight`` [num_embeddings, embedding_dim] of normal numbers."""

    weight: Any
    padding_idx: int | None

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, weight: Any, device: Any, dtype: Any
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_row(type(self).__name__, padding_idx, num_embeddings)
        if weight is None:
            self.weight = new_parameter((num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()
            return
        if tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise ShapeError(
                f"{type(self).__name__}: expected a table [{num_embeddings}, {embedding_dim}], got {list(weight.shape)}"
            )
        self.weight = weight if isinstance(weight, Parameter) else Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw new normal numbers; the padding row is 0."""
        normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def _options(self, values: dict[str, Any]) -> str:
        return "".join(f", {name}={value}" for name, value in values.items())


class Embedding(_Table):
    """The rows of a table at indices [...]: [..., embedding_dim]; fields as `nn.functional.embedding`."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if sparse:
            note_dense_gradients("Embedding")
        if _freeze:
            self.weight.requires_grad = False

    def forward(self, input: Any) -> Any:
        """The rows at the indices."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        """The sizes, and the fields that are not their defaults."""
        settings: dict[str, Any] = {}
        settings |= {} if self.padding_idx is None else {"padding_idx": self.padding_idx}
        settings |= {} if self.max_norm is None else {"max_norm": self.max_norm}
        settings |= {} if self.norm_type == 2 else {"norm_type": self.norm_type}
        settings |= {"scale_grad_by_freq": True} if self.scale_grad_by_freq else {}
        settings |= {"sparse": True} if self.sparse else {}
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options(settings)}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A module of a table [num_embeddings, embedding_dim], which is not trained unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise ShapeError(f"from_pretrained: expected a table of two dimensions, got {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)


class EmbeddingBag(_Table):
    """The sums, means or maxima of rows of a table over bags of indices; fields as `nn.functional.embedding_bag`."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        if sparse:
            note_dense_gradients("EmbeddingBag")

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """[bags, embedding_dim] of indices [bags, n], or of [n] and offsets [bags]."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The sizes, and the fields that are not their defaults."""
        settings: dict[str, Any] = {}
        settings |= {} if self.max_norm is None else {"max_norm": self.max_norm}
        settings |= {} if self.norm_type == 2 else {"norm_type": self.norm_type}
        settings |= {"scale_grad_by_freq": True} if self.scale_grad_by_freq else {}
        settings["mode"] = repr(self.mode)
        settings |= {} if self.padding_idx is None else {"padding_idx": self.padding_idx}
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options(settings)}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A module of a table [num_embeddings, embedding_dim], which is not trained unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise ShapeError(f"from_pretrained: expected a table of two dimensions, got {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        module = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        module.weight.requires_grad = not freeze
        return module
