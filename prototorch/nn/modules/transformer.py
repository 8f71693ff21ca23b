"""Transformers (Vaswani et al., 2017) as modules: stacks of layers, and an encoder with a decoder."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from prototorch.eager.dtype import as_dtype, get_default_dtype
from prototorch.eager.interpreter import interpreter_for
from prototorch.errors import ShapeError, UsageError
from prototorch.nn import functional as F
from prototorch.nn.arguments import as_sizes, check_input
from prototorch.nn.init import xavier_uniform_
from prototorch.nn.module import Module
from prototorch.nn.modules.containers import ModuleList
from prototorch.nn.modules.normalization import LayerNorm
from prototorch.nn.modules.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer after one another, then ``norm`` if there is one.

    enable_nested_tensor, mask_check: accepted; they change no result here. (PyTorch's fast path outside training gives
    0 at the steps that src_key_padding_mask hides; here they are computed like the others.)
    """

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        """See `TransformerEncoderLayer.forward`."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a layer after one another, then ``norm`` if there is one."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """See `TransformerDecoderLayer.forward`."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that reads its outputs; both end in a norm. Matrices are drawn by Xavier's rule.

    custom_encoder, custom_decoder: modules in their place.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        layer = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """src [s, batch, d_model] and tgt [t, batch, d_model] (with ``batch_first`` the batch first, or none) give the
        decoder's outputs, of the form of tgt. Masks and hints as for the layers."""
        for x in (src, tgt):
            check_input(x, "Transformer")
        axis = 0 if self.batch_first else 1
        shapes = f"src {list(src.shape)} and tgt {list(tgt.shape)}"
        if src.ndim not in (2, 3) or tgt.ndim != src.ndim:
            raise ShapeError(f"Transformer: src and tgt must have 3 dimensions, or 2 without the batch, got {shapes}")
        if src.ndim == 3 and src.shape[axis] != tgt.shape[axis]:
            raise ShapeError(f"Transformer: src and tgt must have as many samples (dimension {axis}), got {shapes}")
        if {src.shape[-1], tgt.shape[-1]} != {self.d_model}:
            raise ShapeError(f"Transformer: src and tgt must have d_model = {self.d_model} features, got {shapes}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask [sz, sz]: 0 where a step is seen, -inf at the steps behind it."""
        (sz,) = as_sizes(sz, 1, "sz")
        element_type = np.dtype(str(get_default_dtype() if dtype is None else as_dtype(dtype)))
        return interpreter_for(device).constant(np.triu(np.full((sz, sz), -np.inf, element_type), 1))


def _copies(layer: Any, count: int) -> ModuleList:
    if not isinstance(layer, Module):
        raise UsageError(f"expected a module as the layer, got {type(layer).__name__}")
    (count,) = as_sizes(count, 1, "num_layers")
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])
