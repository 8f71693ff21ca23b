"""The geometry of sliding windows, shared by convolution and pooling. Spatial sizes only, as tuples of integers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def dilated_size(kernel: int, dilation: int) -> int:
    """The extent of a dilated kernel along one axis."""
    return (kernel - 1) * dilation + 1


def num_windows(
    size: int, kernel: int, stride: int, pad: tuple[int, int], dilation: int = 1, ceil: bool = False
) -> int:
    """The number of windows along one axis.

    With ``ceil`` a last window that extends beyond the end counts, provided that it starts inside the input or the
    padding before it (Caffe's and PyTorch's rule).
    """
    span = size + sum(pad) - dilated_size(kernel, dilation)
    if not ceil:
        return span // stride + 1
    windows = -(-span // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pad[0] else windows


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Keras' and TensorFlow's "same": the output size is ceil(size / stride); extra padding goes at the end."""
    need = max((-(-size // stride) - 1) * stride + dilated_size(kernel, dilation) - size, 0)
    return need // 2, need - need // 2


def kernel_offsets(kernel: Ints) -> Iterator[tuple[int, Ints]]:
    """Each offset within the kernel with its index, in row-major order."""
    return enumerate(product(*map(range, kernel)))


def window_slices(at: Ints, out: Ints, strides: Ints, dilation: Ints) -> tuple[slice, ...]:
    """Slices of the padded input: the elements at offset ``at`` of the kernel, one for each window."""
    starts = [a * d for a, d in zip(at, dilation, strict=True)]
    return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, out, strides, strict=True))


def pad_for_windows(xp, x, pads: Pads, out: Ints, kernel: Ints, strides: Ints, dilation: Ints, value: float = 0.0):
    """x [N, C, *spatial] with its padding, extended at the end as far as the last window needs."""
    sizes = []
    for n, (lo, hi), o, k, s, d in zip(x.shape[2:], pads, out, kernel, strides, dilation, strict=True):
        sizes.append(max(n + lo + hi, (o - 1) * s + dilated_size(k, d)))
    if all(a == b for a, b in zip(sizes, x.shape[2:], strict=True)):
        return x
    full = xp.full((*x.shape[:2], *sizes), value, dtype=x.dtype)
    full[(slice(None), slice(None), *unpad(x.shape[2:], pads))] = x
    return full


def unpad(size: Ints, pads: Pads) -> tuple[slice, ...]:
    """The slices of the input in its padded copy."""
    return tuple(slice(lo, lo + n) for n, (lo, _) in zip(size, pads, strict=True))
