"""Multi30k by the recipe: train (or resume), then measure the three test sets. Prints one JSON line a test set.

    python benchmarks/bench_multi30k.py DATA de --out multi30k-en-de [--prepared DIR] [--evaluate-only]

DATA holds {train,val,test_2016_flickr,test_2017_flickr,test_2017_mscoco}.{en,de,fr}.gz. Beside sacreBLEU's own numbers
stands BLEU in the published manner: lower-cased, Moses-tokenized (see published_bleu.py). With ``--prepared`` the model
is trained on what published_text.py has made of DATA, as the papers do, and translates that; the recipe to French was
measured so, the one to German on plain text.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from published_text import TESTS

HERE = Path(__file__).parent


def dragoman(*arguments: object) -> None:
    """Run a command of the command line, output passing through."""
    subprocess.run([sys.executable, "-m", "dragoman", *map(str, arguments)], check=True)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("language", choices=["de", "fr"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prepared", type=Path)
    parser.add_argument("--evaluate-only", action="store_true")
    options = parser.parse_args()
    sides = ("en", options.language)
    plain = {name: [options.data / f"{name}.{side}.gz" for side in sides] for name in ("train", "val", *TESTS)}
    files = plain
    if options.prepared:
        files = {name: [options.prepared / path.stem for path in paths] for name, paths in plain.items()}
    if not options.evaluate_only:
        recipe = HERE.parent / "recipes" / f"multi30k-en-{options.language}.toml"
        dragoman("train", *files["train"], "--valid", *files["val"], "--out", options.out, "--config", recipe)
    for name in TESTS:
        output = options.out / f"{name}.{options.language}"
        dragoman("evaluate", "--model", options.out, *files[name], "--output", output, "--json")
        published = [HERE / "published_bleu.py", output, plain[name][1], "--language", options.language]
        published += ["--tokenized"] if options.prepared else []
        subprocess.run([sys.executable, *map(str, published)], check=True)


if __name__ == "__main__":
    main()
