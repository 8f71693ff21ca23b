"""Tokenizers of the library `tokenizers` (tokenizer.json), read without it: bounded, and nothing runs code."""
