"""From pairs of sentences to a model folder.

Knows: everything below; it is the only room that changes weights.
Does not know: the command line, servers, terminals (whoever watches is told through ``watcher``).

Read in this order: ``clock``, ``duration``, ``presets``, ``schedule``, ``step``, ``orthogonal``, ``optimizer``,
``validation``, ``watcher``, ``journal``, ``board``, ``trend``, ``state``, ``saving``, ``start``, ``prepare``,
``memory``, ``workers``, ``blackboard``, ``placement``, ``shortage``, ``packed``, ``path``, ``length``, ``costs``,
``budget``, ``recovery``, ``pace``, ``signals``, ``loop``, ``curve``, ``finish``; ``estimate`` and ``explanation`` stand
apart.
"""
