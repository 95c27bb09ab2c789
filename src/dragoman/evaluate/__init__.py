"""How good is a translation, is it better than another one, and how fast was it made?

Knows: lines of text, their references, sacreBLEU; a translator as a whole, when its speed is measured.
Does not know: how a model is built or trained, the command line.

Read in this order: ``metrics`` (what is measured, with which tokenizer), ``bootstrap`` (whether a difference is luck),
``machine`` (what translates here, and why), ``speed`` and ``speed_process`` (how fast), ``certificate`` (how far a
quantized model is from the exact one), ``quantizing`` (how one is made), ``description`` (what a model folder holds).
"""
