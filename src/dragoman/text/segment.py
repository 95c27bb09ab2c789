"""Long lines into sentences, and sentences into parts that fit a model; joined together they are the line again."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’»)\]])\s+|[。！？]+[”’」』）]*\s*|\n+")
"""Where a sentence may end: a full stop with a space behind it, or a CJK one without. Linear in the text's length."""

CLAUSE_END = re.compile(r"[,;:、，；：]\s*|\s[-–—]\s")
WORD_END = re.compile(r"\s+")


def split(line: str, limit: int, length: Callable[[str], int]) -> list[str]:
    """Cut ``line`` into parts of at most ``limit`` pieces, at the ends of sentences where possible.

    A sentence that is too long itself is cut after a comma or the like, else at a space, else between two characters.
    No character is lost: ``"".join(split(line, ...)) == line``. A line that fits stays whole.

    Args:
        limit: pieces a part may have, >= 1.
        length: how many pieces a text has.
    """
    return _split(line, limit, length, [SENTENCE_END, CLAUSE_END, WORD_END])


def _split(text: str, limit: int, length: Callable[[str], int], ends: list[re.Pattern[str]]) -> list[str]:
    if len(text) <= 1 or length(text) <= limit:
        return [text] if text else []
    if not ends:
        half = len(text) // 2
        return _split(text[:half], limit, length, []) + _split(text[half:], limit, length, [])
    edges = [0, *(match.end() for match in ends[0].finditer(text)), len(text)]
    parts = [part for start, end in pairwise(edges) for part in _split(text[start:end], limit, length, ends[1:])]
    return [packed for group in _groups(parts, limit, length) for packed in _join(group, limit, length)]


def _groups(parts: list[str], limit: int, length: Callable[[str], int]) -> Iterator[list[str]]:
    """Neighbours that fit together if sizes add up, so that a part keeps as much context as it can."""
    group: list[str] = []
    room = limit
    for part in parts:
        size = length(part)
        if group and size > room:
            yield group
            group, room = [], limit
        group.append(part)
        room -= size
    if group:
        yield group


def _join(group: list[str], limit: int, length: Callable[[str], int]) -> list[str]:
    """One text of ``group``, or several where other pieces arise at the seams, so that the sizes did not add up."""
    joined = "".join(group)
    if len(group) == 1 or length(joined) <= limit:
        return [joined]
    half = len(group) // 2
    return _join(group[:half], limit, length) + _join(group[half:], limit, length)
