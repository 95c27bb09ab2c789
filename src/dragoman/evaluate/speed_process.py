"""One model at work in a process of its own, so that its start and its memory can be measured too.

It gets requests and gives answers as lines of JSON. The first answer comes when the first sentence is translated.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from dragoman import config as configuration
from dragoman.engine.loading import load, read_tokenizers, sizes_of, source_limit
from dragoman.engine.native_loading import load_native, open_engine
from dragoman.engine.translator import Translation, Translator
from dragoman.errors import DragomanError
from dragoman.store.folder import ModelFolder


def open_translator(root: Path, precision: str, threads: int) -> Translator:
    """A translator that computes as ``precision`` says.

    Args:
        precision: ``int8`` and ``float32`` in the CPU engine, ``torch`` with PyTorch in float32.

    Raises:
        DragomanError: as :func:`dragoman.engine.loading.load`.
    """
    if precision == "torch":
        return load(root, "torch", threads)
    folder = ModelFolder.open(root)
    config = configuration.load(folder.config)
    engine = open_engine(folder, is_exact=precision == "float32")
    src, tgt = read_tokenizers(folder, config)
    backend = load_native(folder, sizes_of(config, src, tgt), threads, engine)
    return Translator(src, tgt, backend, config.search, source_limit(config))


def measure(translator: Translator, lines: Sequence[str], batch: int, beam: int, seconds: float) -> dict[str, Any]:
    """Translate ``lines`` in batches, again from the first when they are used up, for about so many seconds.

    Returns:
        ``seconds`` of each batch, and ``tokens`` written in all of them, ends of sentences included.
    """
    changes = {"beam_size": beam, "n_best": 1, "sample": False}
    search = replace(translator.search, **changes)
    endless, durations, tokens = cycle(lines), list[float](), 0
    while not durations or sum(durations) < seconds:
        started = time.perf_counter()
        found = list(translator.stream(list(islice(endless, batch)), search))
        durations.append(time.perf_counter() - started)
        tokens += sum(_tokens(translations[0]) for translations in found)
    return {"seconds": durations, "tokens": tokens}


def peak_memory() -> float:
    """Peak resident memory of this process in MiB.

    On Linux getrusage would also count what the parent had when it started this process.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def answers(asked: dict[str, Any], requests: IO[str]) -> Iterator[dict[str, Any]]:
    """What this process says: once for its start, then for each request.

    Args:
        asked: folder, precision, threads and the first line.
    """
    try:
        translator = open_translator(Path(asked["folder"]), asked["precision"], asked["threads"])
        translator.translate(asked["line"])
        yield {"rss_mib": peak_memory()}
        for request in requests:
            yield {**measure(translator, **json.loads(request)), "rss_mib": peak_memory()}
    except DragomanError as error:
        yield {"error": str(error)}


def main() -> None:
    """Serve until standard input ends."""
    for answer in answers(json.loads(sys.argv[1]), sys.stdin):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _tokens(translation: Translation) -> int:
    return sum(len(part.target_ids) for part in translation.parts)
