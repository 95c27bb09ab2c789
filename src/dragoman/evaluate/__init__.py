"""How good is a translation, and is it better than another one?

Knows: lines of text, their references, sacreBLEU.
Does not know: models, files, the command line.

Read in this order: ``metrics`` (what is measured, with which tokenizer), ``bootstrap`` (whether a difference is luck).
"""
