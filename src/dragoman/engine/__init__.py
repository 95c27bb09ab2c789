"""Text in, text out, with a model that exists.

Knows: text, model, search, store.
Does not know: how models are trained, how their output is judged, the command line.

Read in this order: ``torch_backend``, ``translator``, ``loading``.
"""
