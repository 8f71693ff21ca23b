"""Tables by type: columns of numbers, categories, yes and no, and dates become the arrays that a model reads.

`raw_table.RawTable` holds the values of a file or a frame, `table_dataset.TableDataset` those of one split with their
types, and `table_encoding.TableEncoding` what was learned of the training rows, by which rows become numbers.
"""
