"""Text in, ids out, and back again.

Knows: the `tokenizers` library, Unicode.
Does not know: torch, models, files other than a tokenizer's own.

Read in this order: ``normalize``, ``tokenizer``, ``sample``, ``words``, ``dropout``, ``segment``.
"""
