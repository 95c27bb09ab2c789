"""The Transformer: ids in, logits out.

Knows: torch.
Does not know: text, files, devices, losses, configurations (only ``build`` does), how it is trained or searched.

Read in this order: ``masks``, ``positions``, ``cache``, ``dropout``, ``attention``, ``feedforward``, ``embedding``,
``layers``, ``stacks``, ``families``, ``build``. Section and equation numbers are those of Vaswani et al. 2017,
"Attention Is All You Need" (arXiv 1706.03762).
"""
