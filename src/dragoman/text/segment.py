"""Long lines into sentences, and sentences into parts that fit a model; joined together they are the line again."""

import re
from collections.abc import Callable

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
    parts: list[str] = []
    for start, end in zip(edges, edges[1:], strict=False):
        for part in _split(text[start:end], limit, length, ends[1:]):
            parts.append(part)
    return _pack(parts, limit, length)


def _pack(parts: list[str], limit: int, length: Callable[[str], int]) -> list[str]:
    """Join neighbours again while they fit, so that a part keeps as much context as it can.

    Sizes of parts are added up instead of measuring every union anew: a sum is never too small by more than the pieces
    that merge at the seam.
    """
    packed: list[str] = []
    room = 0
    for part in parts:
        size = length(part)
        if packed and size <= room:
            packed[-1] += part
            room -= size
        else:
            packed.append(part)
            room = limit - size
    return packed
