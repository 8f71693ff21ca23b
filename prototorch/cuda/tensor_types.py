"""Classes of tensors on a GPU by element type, from old PyTorch: ``torch.cuda.FloatTensor(2, 3)``."""

from prototorch.eager.typed_tensors import typed_tensors

globals().update(typed_tensors("cuda"))
