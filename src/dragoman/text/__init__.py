"""Text in, ids out, and back again.

Knows: Unicode; the `tokenizers` library, for learning a vocabulary.
Does not know: torch, models, files other than a tokenizer's own.

Read in this order: ``normalize``, ``bpe``, ``tokenizer``, ``sample``, ``words``, ``dropout``, ``segment``.
"""
