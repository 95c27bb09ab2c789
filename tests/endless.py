"""All that a translator in the CPU engine does, for a long time; tells how much memory it takes after each stretch.

    python endless.py MODEL SENTENCES...

Prints MiB of resident memory after each number of sentences: searched in jobs of many and, a tenth of them each, one by
one by a team, step by step (sampled, and without repeated n-grams), aligned, scored, and token by token.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from dragoman.engine.loading import load
from dragoman.engine.translator import Translator

DRAWS = random.Random(1)


def lines(count: int) -> Iterator[str]:
    """What the golden model knows: digits."""
    return (" ".join(DRAWS.choices("0123456789", k=DRAWS.randint(1, 8))) for _ in range(count))


def use(translator: Translator, count: int) -> None:
    """Every way into the engine."""
    assert sum(1 for _ in translator.stream(lines(count))) == count
    few = count // 10
    for changes in ({"sample": True, "n_best": 2}, {"no_repeat_ngram": 3}):
        for translations in translator.stream(lines(few), replace(translator.search, **changes)):
            translator.align(translations[0].parts[0])
    for line in lines(few):
        text = translator.translate(line)
        assert "".join(translator.stream_tokens(line))
        (_,) = translator.score([(line, text)])


def resident() -> float:
    """Memory in MiB, as Linux tells it."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def main() -> None:
    """Do it."""
    root, *counts = sys.argv[1:]
    translator = load(root, "native")
    for count in counts:
        use(translator, int(count))
        sys.stdout.write(f"{resident()}\n")


if __name__ == "__main__":
    main()
