"""The way of data from what `fit`, `evaluate` and `predict` are given to batches, in stages of one file each.

`DataSource` -> `Columns` -> `CheckedColumns` -> `PreprocessedColumns` -> `BoundColumns` -> `Batches`. A stage is
frozen, and knows the next one alone; what the model expects of data is a frozen `ModelSignature`, which goes along.
"""
