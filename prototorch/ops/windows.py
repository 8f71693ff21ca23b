"""The arithmetic of sliding windows, shared by convolution and pooling. Spatial sizes only, as tuples of ints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def dilated_size(kernel: int, dilation: int) -> int:
    """How many places a dilated kernel covers."""
    return (kernel - 1) * dilation + 1


def num_windows(
    size: int, kernel: int, stride: int, pad: tuple[int, int], dilation: int = 1, ceil: bool = False
) -> int:
    """How many windows fit along one axis.

    With ``ceil`` a last window that reaches over the end counts, as long as it starts inside the input or the padding
    before it (Caffe's and PyTorch's rule).
    """
    span = size + sum(pad) - dilated_size(kernel, dilation)
    if not ceil:
        return span // stride + 1
    windows = -(-span // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pad[0] else windows


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Keras' and TensorFlow's "same": the output has ceil(size / stride) places; an odd pad goes to the end."""
    need = max((-(-size // stride) - 1) * stride + dilated_size(kernel, dilation) - size, 0)
    return need // 2, need - need // 2


def kernel_offsets(kernel: Ints) -> Iterator[tuple[int, Ints]]:
    """Each place of the kernel with its number, in row-major order."""
    return enumerate(product(*map(range, kernel)))


def window_slices(at: Ints, out: Ints, strides: Ints, dilation: Ints) -> tuple[slice, ...]:
    """Of the padded input: the elements that meet place ``at`` of the kernel, one for each window."""
    starts = [a * d for a, d in zip(at, dilation, strict=True)]
    return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, out, strides, strict=True))


def pad_for_windows(xp, x, pads: Pads, out: Ints, kernel: Ints, strides: Ints, dilation: Ints, value: float = 0.0):
    """x [N, C, *spatial] with its pads, and with as much more at the end as the last window needs."""
    sizes = []
    for n, (lo, hi), o, k, s, d in zip(x.shape[2:], pads, out, kernel, strides, dilation, strict=True):
        sizes.append(max(n + lo + hi, (o - 1) * s + dilated_size(k, d)))
    if all(a == b for a, b in zip(sizes, x.shape[2:], strict=True)):
        return x
    full = xp.full((*x.shape[:2], *sizes), value, dtype=x.dtype)
    full[(slice(None), slice(None), *unpad(x.shape[2:], pads))] = x
    return full


def unpad(size: Ints, pads: Pads) -> tuple[slice, ...]:
    """Where the input lies in its padded self."""
    return tuple(slice(lo, lo + n) for n, (lo, _) in zip(size, pads, strict=True))
