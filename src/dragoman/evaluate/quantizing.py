"""Quantize a model's matrices to int8, measure what that changes, and keep in float32 what it changes too much."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dragoman import __version__, config
from dragoman.engine import native_loading
from dragoman.engine.library import instruction_set, open_library
from dragoman.engine.loading import read_tokenizers, sizes_of, source_limit
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_loading import Sizes
from dragoman.engine.packing import pack
from dragoman.engine.translator import Translation, Translator
from dragoman.errors import DataError, EngineError
from dragoman.evaluate.certificate import (
    Certificate,
    best_translations,
    common_share,
    compare_forced,
    parts_of,
    scores_of,
)
from dragoman.store import records, tensors
from dragoman.store.folder import ModelFolder
from dragoman.store.tensors import Array
from dragoman.text.tokenizer import Tokenizer

KEPT = (0, 8, 4, 2)
"""One matrix in so many stays float32, attempt by attempt; 0: none does. Beyond half of them int8 is not worth it."""

SAMPLE = 32
"""Sentences on which the effect of each single matrix is measured."""

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Subject:
    """A model to be quantized, both ways packed, and what its float32 form says of the sentences."""

    sizes: Sizes
    src: Tokenizer
    tgt: Tokenizer
    weights_sha256: str
    exact: Mapping[str, Array]
    whole: Mapping[str, Array]
    "All matrices int8."
    backend: NativeBackend
    "With ``exact``."
    pairs: Pairs
    data: str
    translations: Sequence[Translation]

    def mixed(self, precise: Collection[str]) -> dict[str, Array]:
        """The arrays with the matrices ``precise`` in float32 and all others in int8."""
        arrays = {name: array for name, array in self.whole.items() if name.rpartition(".")[0] not in precise}
        return arrays | {name: array for name, array in self.exact.items() if name.rpartition(".")[0] in precise}

    def translator(self, backend: NativeBackend) -> Translator:
        """The same model on another backend."""
        return Translator(self.src, self.tgt, backend, self.sizes.config.search, source_limit(self.sizes.config))


def quantize(folder: ModelFolder, pairs: Pairs, data: str, force: bool, tell: Callable[[str], None]) -> Certificate:
    """Write int8 weights and their certificate into ``folder``.

    Where all matrices in int8 change too much, those that change most are kept in float32, in up to three attempts.

    Args:
        pairs: sentences with their translations, not trained on.
        data: where they come from, for the certificate.
        force: write the last attempt though it changes more than the limits of :mod:`certificate` allow.
        tell: told each attempt's outcome in a line.

    Raises:
        EngineError: there is no engine; or quantizing changes too much, and nothing was written.
        DataError: there is no sentence to measure with.
    """
    open_library()
    subject = _subject(folder, [pair for pair in pairs if pair[0].strip()], data)
    order: list[str] = []
    for kept in KEPT:
        if kept and not order:
            order = by_effect(subject)
        precise = order[: -(-len(order) // kept)] if kept else []
        arrays = subject.mixed(precise)
        certificate = measure(subject, arrays, precise)
        tell(certificate.summary())
        if certificate.is_passed:
            break
    if not certificate.is_passed and not force:
        raise EngineError(
            f"quantizing changes too much ({certificate.summary()}; allowed are a BLEU loss of"
            f" {certificate.max_bleu_loss} and {certificate.min_agreement:.0%} agreement): nothing was written;"
            " --force writes it all the same"
        )
    native_loading.write_engine(folder, arrays, precise, subject.weights_sha256)
    certificate = replace(certificate, engine_sha256=tensors.read_header(folder.engine).sha256)
    records.write(folder.certificate, certificate.to_json())
    return certificate


def by_effect(subject: Subject) -> list[str]:
    """The matrices, first the one that changes the model's expectations most when it alone is int8."""
    parts = parts_of(subject.translations[:SAMPLE])
    effects = {}
    for name in subject.sizes.matrices:
        others = [other for other in subject.sizes.matrices if other != name]
        backend = native_loading.to_backend(subject.mixed(others), subject.sizes, 0)
        effects[name] = compare_forced(subject.backend, backend, parts).divergence
    return sorted(effects, key=lambda name: -effects[name])


def measure(subject: Subject, arrays: Mapping[str, Array], precise: Sequence[str]) -> Certificate:
    """The certificate of one way to quantize."""
    backend = native_loading.to_backend(arrays, subject.sizes, 0)
    references, language = [tgt for _, tgt in subject.pairs], subject.sizes.config.text.tgt_lang
    mine = best_translations(subject.translator(backend), [src for src, _ in subject.pairs])
    forced = compare_forced(subject.backend, backend, parts_of(subject.translations))
    bleu_float32, chrf_float32 = scores_of(subject.translations, references, language)
    bleu, chrf = scores_of(mine, references, language)
    return Certificate(
        dragoman=__version__,
        instruction_set=instruction_set(),
        weights_sha256=subject.weights_sha256,
        engine_sha256="",
        precise=tuple(sorted(precise)),
        matrices=len(subject.sizes.matrices),
        data=subject.data,
        sentences=len(references),
        places=forced.places,
        agreement=forced.agreement,
        largest_difference=forced.largest_difference,
        translated_agreement=common_share(subject.translations, mine),
        bleu_float32=bleu_float32,
        bleu=bleu,
        chrf_float32=chrf_float32,
        chrf=chrf,
    )


def _subject(folder: ModelFolder, pairs: Pairs, data: str) -> Subject:
    if not pairs:
        raise DataError(f"{data} has no sentence to measure with; give files SOURCE and TARGET of held-out pairs")
    settings = config.load(folder.config)
    src, tgt = read_tokenizers(folder, settings)
    sizes = sizes_of(settings, src, tgt)
    digest = tensors.read_header(folder.weights).sha256
    weights = native_loading.read_weights(folder, sizes)
    exact = pack(weights, settings.model, sizes.tgt_vocab)
    whole = pack(weights, settings.model, sizes.tgt_vocab, precise=())
    backend = native_loading.to_backend(exact, sizes, 0)
    translator = Translator(src, tgt, backend, settings.search, source_limit(settings))
    translations = best_translations(translator, [src for src, _ in pairs])
    return Subject(sizes, src, tgt, digest, exact, whole, backend, pairs, data, translations)
