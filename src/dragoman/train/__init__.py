"""From pairs of sentences to a model folder.

Knows: everything below; it is the only room that changes weights.
Does not know: the command line, servers, terminals (whoever watches is told through ``watcher``).

Read in this order: ``presets``, ``schedule``, ``step``, ``optimizer``, ``validation``, ``watcher``, ``journal``,
``board``, ``state``, ``saving``, ``prepare``, ``memory``, ``loop``, ``curve``, ``finish``; ``estimate`` stands apart.
"""
