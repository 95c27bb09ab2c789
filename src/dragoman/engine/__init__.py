"""Text in, text out, with a model that exists.

Knows: text, model, search, store.
Does not know: how models are trained, how their output is judged, the command line.

A model is a ``Backend``: PyTorch (the files called ``torch_``), or the CPU engine in C++ (``native_``), which needs no
torch. Read in this order: ``translator``, ``loading`` and ``processor``; ``torch_backend``, ``torch_loading``; then
the way into the engine: ``matrices`` (what it holds), ``packing`` (how that lies in memory), ``library`` (its
functions), ``native_model``, ``native_search``, ``native_backend``, ``native_loading``.
"""
