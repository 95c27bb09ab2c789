"""A contender of bench_decode.py in a process of its own: ids in, ids out, timed; requests and answers are JSON lines.

    python benchmarks/decode_contenders.py NAME --folder MODEL --ctranslate2 CONVERTED --threads 2

NAME is `dragoman-native` or `dragoman-torch`, `ct2-TYPE-INTERxINTRA` such as `ct2-int8-2x1`, or `hf-float32`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

Ids = Sequence[Sequence[int]]
EOS = 2


class Contender(Protocol):
    """Translates ids, which end with EOS."""

    kind: str
    "What it turned out to compute with."

    def translate(self, sources: Ids, length: int | None, beam: int, batch: int) -> list[list[int]]:
        """Exactly ``length`` tokens for each source, or (None) as many as the model wants; EOS is left out.

        Args:
            batch: sentences computed at once, where the contender leaves that to its user; 0: as many as there are.
        """
        ...


class Dragoman:
    """The search as `dragoman translate` runs it, without text."""

    def __init__(self, folder: Path, backend: str, threads: int) -> None:
        from dragoman.engine.loading import load

        self.translator = load(folder, backend=backend, threads=threads)
        if backend == "torch":
            self.kind = "float32"
        else:
            from dragoman.engine.library import instruction_set

            self.kind = instruction_set()

    def translate(self, sources: Ids, length: int | None, beam: int, batch: int) -> list[list[int]]:
        """See :class:`Contender`."""
        from dragoman.config import SearchConfig
        from dragoman.engine.translator import SLOTS
        from dragoman.search.request import SourceRequest

        order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
        requests = [SourceRequest(tuple(sources[place]), max_length=length, min_length=length) for place in order]
        settings = SearchConfig(beam_size=beam, length_penalty=1.0)
        found = dict(self.translator.backend.beam_search(requests, settings, SLOTS))
        best = {order[turn]: list(hypotheses[0].ids) for turn, hypotheses in found.items()}
        return [best[place] for place in range(len(sources))]


class CTranslate2:
    """CTranslate2's Translator; the names of its ids are made before the clock runs."""

    def __init__(self, converted: Path, compute: str, inter: int, intra: int) -> None:
        import ctranslate2

        self.translator = ctranslate2.Translator(
            str(converted), device="cpu", compute_type=compute, inter_threads=inter, intra_threads=intra
        )
        self.kind = self.translator.compute_type
        self.inter = inter
        shared = converted / "shared_vocabulary.json"
        files = (
            [shared, shared] if shared.exists() else [converted / f"{s}_vocabulary.json" for s in ("source", "target")]
        )
        self.names = json.loads(files[0].read_text(encoding="utf-8"))
        self.ids = {name: place for place, name in enumerate(json.loads(files[1].read_text(encoding="utf-8")))}

    def translate(self, sources: Ids, length: int | None, beam: int, batch: int) -> list[list[int]]:
        """See :class:`Contender`."""
        named = [[self.names[one] for one in source] for source in sources]
        limits = {} if length is None else {"min_decoding_length": length, "max_decoding_length": length}
        batch = batch or (-(-len(sources) // self.inter) if self.inter > 1 else 0)
        found = self.translator.translate_batch(
            named, beam_size=beam, length_penalty=1.0, max_batch_size=batch, **limits
        )
        return [[self.ids[name] for name in one.hypotheses[0]] for one in found]


class HuggingFace:
    """MarianMT's generate."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch
        from decode_models import Folder, marian

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = marian(Folder(folder))
        self.kind = "float32"

    def translate(self, sources: Ids, length: int | None, beam: int, batch: int) -> list[list[int]]:
        """See :class:`Contender`."""
        longest = max(map(len, sources))
        ids = self.torch.tensor([[*source, *[0] * (longest - len(source))] for source in sources])
        limits = {"max_new_tokens": 256} if length is None else {"min_new_tokens": length, "max_new_tokens": length}
        with self.torch.inference_mode():
            found = self.model.generate(
                ids,
                attention_mask=(ids != 0).long(),
                num_beams=beam,
                do_sample=False,
                early_stopping=False,
                length_penalty=1.0,
                **limits,
            )
        return [[one for one in row if one not in (0, EOS)] for row in found[:, 1:].tolist()]


def build(name: str, folder: Path, converted: Path, threads: int) -> Contender:
    """The contender called ``name``."""
    kind, _, rest = name.partition("-")
    if kind == "dragoman":
        return Dragoman(folder, rest, threads)
    if kind == "hf":
        return HuggingFace(folder, threads)
    compute, _, split = rest.rpartition("-")
    inter, intra = split.split("x")
    return CTranslate2(converted, compute, int(inter), int(intra))


def serve(contender: Contender) -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        for _ in range(asked["repetitions"]):
            found = contender.translate(asked["sources"], asked["length"], asked["beam"], asked["batch"])
        seconds = (time.perf_counter() - started) / asked["repetitions"]
        say({"seconds": seconds, "rss_mib": peak_memory(), "found": found})


def peak_memory() -> float:
    """Peak resident memory in MiB; getrusage would count what the parent had when it started this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def say(facts: dict[str, Any]) -> None:
    """One line that cannot be taken for a library's chatter."""
    sys.stdout.write(f"ANSWER {json.dumps(facts)}\n")
    sys.stdout.flush()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ctranslate2", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    contender = build(options.name, options.folder, options.ctranslate2, options.threads)
    say({"kind": contender.kind})
    serve(contender)


if __name__ == "__main__":
    main()
