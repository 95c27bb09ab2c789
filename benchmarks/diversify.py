"""Three times the pairs, from one corpus and two translators of it (Nguyen et al. 2020, "Data Diversification").

    python benchmarks/diversify.py TEXT LANGUAGE --forward MODEL --backward MODEL --out DIR

TEXT holds train.en and train.LANGUAGE; the models translate from English and into it. DIR gets the same two files with
three parts each: the corpus, its English with what ``forward`` makes of it, and what ``backward`` makes of the other
side with that side. No text is added from outside. What it brought stands in docs/log.md.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def translated(model: Path, text: Path) -> bytes:
    """What the model makes of every line."""
    command = [sys.executable, "-m", "dragoman", "translate", "--model", str(model), "--file", str(text)]
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if ran.returncode:
        sys.exit(ran.returncode)  # the command has said why
    return ran.stdout


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("language", choices=["de", "fr"])
    parser.add_argument("--forward", type=Path, required=True)
    parser.add_argument("--backward", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    english, other = (options.text / f"train.{side}" for side in ("en", options.language))
    forward, backward = translated(options.forward, english), translated(options.backward, other)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / english.name).write_bytes(english.read_bytes() * 2 + backward)
    (options.out / other.name).write_bytes(other.read_bytes() + forward + other.read_bytes())


if __name__ == "__main__":
    main()
