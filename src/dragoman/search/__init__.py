"""Search: log-probabilities in, token ids out.

Knows: numpy, and the knobs of ``config.SearchConfig``.
Does not know: torch, text, models, files. A model is whatever satisfies ``stepper.Stepper``.

Read in this order: ``stepper`` (what a model must offer), ``request`` (one sentence and its limits), ``scoring``,
``rows`` (the unfinished hypotheses), ``filters``, ``proposal`` (one step of the model), then the two ways to search:
``beam`` and ``sample``.
"""
