"""The array API standard (2024.12) on tensors: what ``tensor.__array_namespace__()`` gives.

Names, arguments and meanings are the standard's (``axis``, ``keepdims``, ``concat``); the functions are PyTorch's of
`prototorch.eager.functions`. Complex numbers and the extensions ``linalg`` and ``fft`` are not there.
"""
