"""Which languages a corpus is in, as far as the names of its files tell."""

import re
from collections.abc import Sequence
from pathlib import Path

ISO_639_1 = frozenset(
    (
        "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz "
        "ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik "
        "io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml "
        "mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd "
        "se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi "
        "vo wa wo xh yi yo za zh zu"
    ).split()
)
"""Two-letter codes; a file called train.src has none."""

_CODE = r"([a-z]{2})(?:[-_][A-Z]{2})?"
_TWO = re.compile(rf"(?<![A-Za-z]){_CODE}[-_]{_CODE}(?![A-Za-z])")
_ONE = re.compile(rf"\.{_CODE}(?=\.|$)")


def languages(paths: Sequence[Path]) -> tuple[str, str]:
    """Codes of source and target: from ``x.en x.de``, or from ``x.en-de.tsv``; empty where the names do not tell."""
    if len(paths) == 2:
        return _suffix(paths[0].name), _suffix(paths[1].name)
    for match in _TWO.finditer(paths[0].name):
        if match[1] in ISO_639_1 and match[2] in ISO_639_1:
            return match[1], match[2]
    return "", ""


def _suffix(name: str) -> str:
    codes = [match[1] for match in _ONE.finditer(name) if match[1] in ISO_639_1]
    return codes[-1] if codes else ""
