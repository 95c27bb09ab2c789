"""Files of sentence pairs in, batches of ids out.

Knows: bytes, lines, the formats that translations come in, Unicode, hashes, token budgets.
Does not know: the model, training, how text becomes ids (who builds a token file brings an encoder).

Read in this order: ``stream`` (path to bytes), ``lines`` (bytes to lines), ``pair`` (the unit, and what is passed
over), ``tables`` and ``memories`` (the formats), ``characters`` and ``alignment`` (lines as numbers, and where two
sides part), ``corpus`` (the door: ``open_corpus``); then the doctor: ``profile``, ``census``, ``facts``,
``findings``, ``report``; then ``duplicates``, ``tokenfile``, ``buckets``, ``batch``. Apart from these stand
``language`` (what file names tell) and the demo's sentences: ``lexicon``, ``grammar``, ``speaker``, ``phrases``.
"""
