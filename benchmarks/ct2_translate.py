"""Translate a file with CTranslate2, as its users do: tokenizer, translate_batch, tokenizer. A line in, a line out.

python benchmarks/ct2_translate.py CONVERTED tokenizer.src.json tokenizer.tgt.json FILE --compute int8 --split 2x1
"""

import argparse
import sys
from pathlib import Path

import ctranslate2
import tokenizers


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("src")
    parser.add_argument("tgt")
    parser.add_argument("file", type=Path)
    parser.add_argument("--compute", default="int8")
    parser.add_argument("--split", default="1x1", help="translations at once x threads of each")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--beam", type=int, default=4)
    options = parser.parse_args()
    inter, intra = map(int, options.split.split("x"))
    translator = ctranslate2.Translator(
        options.model, compute_type=options.compute, inter_threads=inter, intra_threads=intra
    )
    src, tgt = (tokenizers.Tokenizer.from_file(path) for path in (options.src, options.tgt))
    tgt.decoder = tokenizers.decoders.ByteLevel()
    lines = options.file.read_text(encoding="utf-8").splitlines()
    encoded = src.encode_batch_fast([f" {line}" for line in lines], add_special_tokens=False)
    names = {place: name for name, place in src.get_vocab().items()}
    sources = [[*(names[place] for place in one.ids), "<eos>"] for one in encoded]
    found = translator.translate_batch(
        sources, beam_size=options.beam, length_penalty=1.0, max_batch_size=options.batch
    )
    ids = [[tgt.token_to_id(token) for token in one.hypotheses[0]] for one in found]
    sys.stdout.writelines(f"{text.removeprefix(' ')}\n" for text in tgt.decode_batch(ids))


if __name__ == "__main__":
    main()
