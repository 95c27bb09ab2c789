"""How much text a vocabulary is learned from: as much as memory allows, whatever the language."""

from collections.abc import Iterable, Iterator

DISTINCT_BYTES = 3_500_000
"""Bytes of all different words together. Learning needs some 70 bytes of memory for each of them: a quarter of a
gigabyte. Some 400,000 European words, or a million Chinese characters of sentences without spaces."""


LONGEST = 10_000
"""Bytes of a word that is learned from: the time for that grows with the square. A sentence without spaces has some
hundreds."""


def bounded(lines: Iterable[str], distinct_bytes: int = DISTINCT_BYTES) -> Iterator[str]:
    """``lines``, until the different words in them (what spaces part) have ``distinct_bytes`` bytes.

    Words beyond :data:`LONGEST` are left out.
    """
    seen: set[str] = set()
    size = 0
    for line in lines:
        words = line.split()
        short = [word for word in words if len(word.encode()) <= LONGEST] if len(line) > LONGEST // 4 else words
        yield line if len(short) == len(words) else " ".join(short)
        fresh = {word for word in short if word not in seen}
        seen |= fresh
        size += sum(len(word.encode()) for word in fresh)
        if size > distinct_bytes:
            return
