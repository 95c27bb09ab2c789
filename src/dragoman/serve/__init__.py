"""Pages of our own, for people who would rather look than read.

Knows: HTTP on this machine alone, and what a model folder tells of its training.
Does not know: torch, how a model trains or translates, the command line.

Read in this order: ``summary`` (a journal's events as what a page shows), ``watch`` (a folder that others write, looked
at again and again), ``server`` (who may ask for what); the page itself lies in ``pages/``: ``watch.html``,
``watch.css``, ``watch.js``.
"""
