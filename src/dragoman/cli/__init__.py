"""The command line: one small file a command.

Knows: everything, but imports it only when a command runs; help must not wait for torch.
Does not know: how anything is done.

Results go to standard output, everything else to standard error. Read in this order: ``main``, ``settings``,
``length``, then the commands ``check``, ``train``, ``watch``, ``translate``, ``score``, ``evaluate``, ``average``,
``quantize``, ``info``, ``bench``, ``demo``; ``console``, ``curve``, ``progress``, ``count`` and ``report_table`` are
what they draw with.
"""
