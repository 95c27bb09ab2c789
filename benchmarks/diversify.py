"""Three times the pairs, from one corpus and two translators of it (Nguyen et al. 2020, "Data Diversification").

    python benchmarks/diversify.py TEXT LANGUAGE --forward MODEL --backward MODEL --out DIR [--translated FILE]

TEXT holds train.en and train.LANGUAGE; the models translate from English and into it. DIR gets the same two files with
three parts each: the corpus, its English with what ``forward`` makes of it, and what ``backward`` makes of the other
side with that side; with FILE, which another translator made of the English line by line, a fourth. No text is added
from outside. What it brought stands in docs/log.md.
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
    parser.add_argument("--translated", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    english, other = (options.text / f"train.{side}" for side in ("en", options.language))
    for path in filter(None, (english, other, options.translated)):
        if not path.is_file() or not path.read_bytes().endswith(b"\n"):
            parser.error(f"{path} is no text file whose last line ends")
    corpus = english.read_bytes(), other.read_bytes()
    parts = [corpus]
    if options.translated:
        parts.append((corpus[0], options.translated.read_bytes()))
    for sides in parts:
        lines = [side.count(b"\n") for side in sides]
        if lines[0] != lines[1]:
            parser.error(f"{lines[0]:,} lines of English and {lines[1]:,} of the other side")
    parts += [(corpus[0], translated(options.forward, english)), (translated(options.backward, other), corpus[1])]
    options.out.mkdir(parents=True, exist_ok=True)
    for side, path in enumerate((english, other)):
        (options.out / path.name).write_bytes(b"".join(part[side] for part in parts))


if __name__ == "__main__":
    main()
