"""Before the first update: report, configuration, tokenizer, ids on disk, provenance; or the checks of a resumption."""

import math
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from dragoman import __version__
from dragoman import config as configuration
from dragoman.config import DEFAULTS, Config, Layer
from dragoman.data import tokenfile
from dragoman.data.corpus import Corpus
from dragoman.data.language import languages
from dragoman.data.report import examine
from dragoman.engine.loading import read_tokenizers, source_limit
from dragoman.engine.translator import GROWTH
from dragoman.errors import ConfigError, DataError, FolderError
from dragoman.search.request import check_settings
from dragoman.store import files, records
from dragoman.store.folder import ModelFolder
from dragoman.text.dropout import BpeDropout
from dragoman.text.sample import bounded
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import Words
from dragoman.train import board, packed, presets
from dragoman.train.curve import can_draw
from dragoman.train.memory import return_freed_memory
from dragoman.train.presets import CorpusSize
from dragoman.train.start import Start
from dragoman.train.step import Reader
from dragoman.train.validation import ValidationSet
from dragoman.train.watcher import Watcher

SAMPLE_PIECES = 10_000_000
"""Target pieces, about, from all over the corpus, of which the vocabulary is learned: half a million sentences. More
hardly change it and cost memory."""

HELD_OUT, SHARE = 1000, 20
"""Pairs put aside for validation where none are given; at most one in ``SHARE`` of the corpus."""

FREE = {
    *("steps", "budget", "save_every", "validate_every", "validate_limit"),
    *("keep", "patience", "max_bad_steps", "tensorboard", "device", "sharded"),
}
"""Keys of [train] that shape nothing that was computed so far."""


@dataclass(frozen=True)
class Prepared:
    """Everything that the loop needs, and that lies in the folder for the next time."""

    folder: ModelFolder
    config: Config
    src: Tokenizer
    tgt: Tokenizer
    tokens: tokenfile.TokenFile
    validation: ValidationSet
    identity: dict[str, str]

    def reader(self) -> Reader:
        """The training batches."""
        text, data, seed = self.config.text, self.config.data, self.config.train.seed
        src_dropout = tgt_dropout = None
        if text.bpe_dropout:
            src_dropout, tgt_dropout = (
                BpeDropout(side, text.bpe_dropout, seed, longest_side(self.config)) for side in (self.src, self.tgt)
            )
        return Reader(self.tokens, data.batch_tokens, seed, src_dropout, tgt_dropout)


class Plan(Protocol):
    """How long a training is to be, where the user wants it otherwise than the preset.

    All methods answer with settings, which the user's other ones override.
    """

    def defaults(self, size: CorpusSize, layers: Sequence[Layer], watcher: Watcher) -> Layer:
        """Model and schedule for a corpus of this size; ``layers`` is what will override them."""
        ...

    def begin(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """Lay a new training out; ``prepared`` has the preset's length."""
        ...

    def resume(self, prepared: Prepared, watcher: Watcher) -> Layer:
        """The same wish for a training that has begun; no more than it says itself."""
        ...


@dataclass(frozen=True)
class Sources:
    """What the user trains on."""

    train: Corpus
    valid: Corpus | None
    accept_changed_data: bool = False
    start: Start | None = None
    "The model that a new training begins with, instead of a vocabulary of its own and random weights."


def prepare(
    folder: ModelFolder,
    sources: Sources,
    layers: Sequence[Layer],
    watcher: Watcher,
    plan: Plan | None = None,
    workers: int = 1,
) -> Prepared:
    """Make ``folder`` ready for training, or see that it still is.

    Everything is made in an order in which an interruption leaves a folder that is simply prepared again: the
    configuration, which says that a folder is prepared, is written last.

    Args:
        layers: what the user wants to differ from the preset, weakest first.
        plan: how long the training is to be; None leaves it to the preset.
        workers: processes that the training is begun with; noted for plans that depend on it.

    Raises:
        ConfigError, DataError, FolderError: see there; among others when an earlier training in the folder had another
            configuration or other data.
    """
    if not can_draw():
        lacking = "matplotlib is not installed (pip install 'dragoman[train]')"
        watcher.message(f"warning: there will be no {folder.curve.name}: {lacking}")
    fingerprints = _fingerprints(sources)
    if folder.config.exists():
        config = configuration.load(folder.config)
        _check_data(folder, fingerprints, sources.accept_changed_data)
        _check_start(folder, sources.start)
        if not _ids(folder).is_dir():
            _write_ids_again(folder, config, sources.train, watcher)
        begun = _open(folder, config)
        wanted = [*([plan.resume(begun, watcher)] if plan else []), *layers]
        check_layers(folder, config, wanted)
        return _change(begun, wanted)
    config = _make(folder, sources, fingerprints, layers, watcher, plan, workers)
    if plan:
        config = configuration.merge([config.to_dict(), plan.begin(_open(folder, config), watcher), *layers])
    files.write_atomic(folder.config, config.to_toml().encode())
    return _open(folder, config)


def reopen(folder: ModelFolder) -> Prepared:
    """The folder that another process has just prepared."""
    return _open(folder, configuration.load(folder.config))


def held_out(line: int, every: int) -> bool:
    """Whether a pair is put aside for validation: one of ``every``, chosen by its line alone."""
    return every > 0 and (line * 0x9E3779B97F4A7C15 % 2**64) >> 32 < 2**32 // every


def _make(
    folder: ModelFolder,
    sources: Sources,
    fingerprints: dict[str, Any],
    layers: Sequence[Layer],
    watcher: Watcher,
    plan: Plan | None,
    workers: int,
) -> Config:
    size = _examine(folder, sources, layers, watcher)
    every = max(size.pairs // HELD_OUT, SHARE) if size.pairs >= SHARE and not sources.valid else 0
    if not sources.valid:
        aside = f"one pair in {every} is put aside" if every else "the first pair is used"
        watcher.message(f"no --valid given: {aside} for validation")
    src_lang, tgt_lang = languages(sources.train.paths)
    told = {"text": {"src_lang": src_lang, "tgt_lang": tgt_lang}}
    start = sources.start
    over = [told, *([start.layer] if start else []), *layers]
    defaults = plan.defaults(size, over, watcher) if plan else presets.for_corpus(size, over)
    config = configuration.merge([defaults, *over])
    packed.require(config)
    with files.explained("delete", folder.start):  # of an earlier attempt that did not come far
        folder.start.unlink(missing_ok=True)
    if start:
        start.check(config)
        src, tgt = start.tokenizers()
        start.copy_weights(folder.start)
    else:
        watcher.message(f"learning a vocabulary of {config.text.vocab_size} pieces from {size.pairs:,} pairs")
        src, tgt = _learn(config, _sample(sources.train, size, every))
        return_freed_memory()
    for path, tokenizer in zip(folder.tokenizers(config.text.shared), (src, tgt), strict=False):
        files.write_atomic(path, tokenizer.to_json().encode())
    _check_search(config, tgt)
    validation = _validation_pairs(sources, every, config.train.validate_limit)
    files.write_atomic(folder.corpus / "valid.json", records.encode(validation))
    if sources.valid:  # before the long work; pairs of the corpus itself are too long only if it is
        _check_validation(validation, config, src, tgt)
    watcher.message("writing the ids")
    counts = _build_tokens(folder, config, _training_pairs(sources.train, every), src, tgt)
    return_freed_memory()
    _check_validation(validation, config, src, tgt)
    _check_untouched(fingerprints)
    if sources.train.skipped.total:
        watcher.message(f"skipped in the training data: {sources.train.skipped.summary()}")
    for reason in ("too long", "duplicate"):
        if counts[reason]:
            watcher.message(f"dropped {counts[reason]:,} pairs: {reason}")
    provenance: dict[str, Any] = {
        "dragoman": __version__,
        "workers": workers,
        "data": fingerprints,
        "pairs": {"read": size.pairs, "held_out_every": every, "validation": len(validation), **counts},
        "skipped": dict(sources.train.skipped.counts),
        **({"start": start.facts} if start else {}),
    }
    files.write_atomic(folder.provenance, records.encode(provenance))
    return config


def _examine(folder: ModelFolder, sources: Sources, layers: Sequence[Layer], watcher: Watcher) -> CorpusSize:
    """Write the report on the corpus, and pass on what is serious about it."""
    watcher.message("reading the corpus")
    wanted = configuration.merge(layers)
    if wanted.train.tensorboard:
        board.require()
    report = examine(sources.train, sources.valid, drop_duplicates=wanted.data.drop_duplicates)
    files.write_atomic(folder.report, records.encode(report.to_json()))
    for finding in report.findings:
        what = f"{finding.where}: {finding.what}{'; ' if finding.remedy else ''}{finding.remedy}"
        if finding.level == "error":
            raise DataError(what)
        if finding.level == "warning":
            watcher.message(f"warning: {what}")
    return CorpusSize.of(report.train)


def free_keys(config: Config) -> set[str]:
    """Keys of [train] that may change on resuming; a schedule that ends with the last step fixes the steps."""
    return FREE if config.train.schedule == "noam" else FREE - {"steps"}


def longest_side(config: Config) -> int:
    """Pieces beyond which a pair is not trained on: what the user allows, and what learned positions reach with EOS."""
    reach = config.model.max_positions - 1 if config.model.positions == "learned" else config.data.max_length
    return min(config.data.max_length, reach)


def _change(begun: Prepared, layers: Sequence[Layer]) -> Prepared:
    """Give a training that has begun the settings that are free to change."""
    keys = free_keys(begun.config)
    free = [
        {
            "search": layer.get("search", {}),
            "train": {key: value for key, value in layer.get("train", {}).items() if key in keys},
        }
        for layer in layers
    ]
    config = configuration.merge([begun.config.to_dict(), *free])
    if config == begun.config:
        return begun
    files.write_atomic(begun.folder.config, config.to_toml().encode())
    return _open(begun.folder, config)


def _open(folder: ModelFolder, config: Config) -> Prepared:
    src, tgt = read_tokenizers(folder, config)
    _check_search(config, tgt)
    tokens = tokenfile.TokenFile.open(_ids(folder))
    pairs = records.read(folder.corpus / "valid.json")[: config.train.validate_limit]
    validation = ValidationSet([src for src, _ in pairs], [tgt for _, tgt in pairs], config.text.tgt_lang)
    shaping = {
        "text": config.text.to_dict(),
        "model": config.model.to_dict(),
        "data": config.data.to_dict(),
        "train": {key: value for key, value in config.train.to_dict().items() if key not in FREE},
    }
    chosen = {
        f"{section}.{key}": value
        for section, values in shaping.items()
        for key, value in values.items()
        if value != DEFAULTS.to_dict()[section][key]  # so that later versions may add keys
    }
    counts = records.read(folder.provenance)["pairs"]
    identity = {"configuration": records.digest(chosen), "data": records.digest(counts)}
    return Prepared(folder, config, src, tgt, tokens, validation, identity)


def _check_data(folder: ModelFolder, fingerprints: dict[str, Any], accept_changed_data: bool) -> None:
    has_ids = _ids(folder).is_dir()
    if not has_ids and not any(folder.checkpoints.iterdir()):
        raise FolderError(f"{folder.root} holds a finished model without its training/ part; train into a new folder")
    before = records.read(folder.provenance)["data"]
    if _contents(before) == _contents(fingerprints):
        return
    if not has_ids:
        raise DataError(
            f"{_ids(folder)} is gone, and the data are not those it was made of; give the same files, or train into a"
            " new folder"
        )
    if not accept_changed_data:
        raise DataError(
            f"the data are not those that {folder.root} was begun with; give the same files, train into a new folder,"
            " or pass --accept-changed-data to go on with the data read then"
        )


def _write_ids_again(folder: ModelFolder, config: Config, corpus: Corpus, watcher: Watcher) -> None:
    """As they were, for the data are the same: somebody has deleted them."""
    watcher.message("writing the ids again")
    pairs = records.read(folder.provenance)["pairs"]
    src, tgt = read_tokenizers(folder, config)
    counts = _build_tokens(folder, config, _training_pairs(corpus, pairs["held_out_every"]), src, tgt)
    if any(pairs[key] != count for key, count in counts.items()):
        shutil.rmtree(_ids(folder))
        raise DataError(f"the data give other pairs than when {folder.root} was begun; train into a new folder")


def _check_start(folder: ModelFolder, start: Start | None) -> None:
    before = records.read(folder.provenance).get("start", {})
    if start and start.facts["weights_sha256"] != before.get("weights_sha256"):
        began = f"with {before['model']}" if before else "with random weights"
        raise FolderError(
            f"{folder.root} was begun {began}, not with the model that is now in {start.folder.root}; leave --from out"
            " to go on, or train into a new folder"
        )


def _check_untouched(fingerprints: dict[str, Any]) -> None:
    """See that what was read in several passes is what the fingerprints were taken of."""
    for entry in (entry for entries in fingerprints.values() for entry in entries):
        status = Path(entry["path"]).stat()
        if (status.st_size, status.st_mtime_ns) != (entry["bytes"], entry["mtime_ns"]):
            raise DataError(f"{entry['path']} changed while it was read; start again when nobody writes to it")


def check_layers(folder: ModelFolder, config: Config, layers: Sequence[Layer]) -> None:
    """See that ``layers`` change nothing of a training that has begun with ``config`` but what is free to change.

    Raises:
        ConfigError: they do.
    """
    free, stored = free_keys(config), config.to_dict()
    wanted = configuration.merge([stored, *layers]).to_dict()
    for section, values in wanted.items():
        for key, value in values.items():
            if value != stored[section][key] and not (section == "search" or (section == "train" and key in free)):
                raise ConfigError(
                    f"{folder.root} was begun with {section}.{key}={stored[section][key]!r}, not {value!r};"
                    " leave it as it was, or train into a new folder"
                )


def _fingerprints(sources: Sources) -> dict[str, Any]:
    return {
        "train": sources.train.fingerprint(),
        "valid": sources.valid.fingerprint() if sources.valid else [],
    }


def _contents(fingerprints: dict[str, Any]) -> dict[str, list[Any]]:
    """What was in the files, wherever they lie and whenever they were touched."""
    return {role: [entry["sha256"] for entry in entries] for role, entries in fingerprints.items()}


def _training_pairs(corpus: Corpus, every: int) -> Iterator[tuple[str, str]]:
    return ((pair.src, pair.tgt) for pair in corpus if not held_out(pair.line, every))


def _validation_pairs(sources: Sources, every: int, limit: int) -> list[list[str]]:
    if sources.valid:
        return [[pair.src, pair.tgt] for pair in islice(sources.valid, limit)]
    aside = [[pair.src, pair.tgt] for pair in sources.train if held_out(pair.line, every)][:limit]
    return aside or [[pair.src, pair.tgt] for pair in islice(sources.train, 1)]


def _check_search(config: Config, tgt: Tokenizer) -> None:
    """See that validations will be able to translate."""
    check_settings(config.search, len(tgt.vocab))
    if config.search.min_length >= (ceiling := GROWTH * source_limit(config)):
        raise ConfigError(
            f"search.min_length is {config.search.min_length} pieces, but this model writes fewer than {ceiling};"
            " lower it"
        )


def _check_validation(pairs: list[list[str]], config: Config, src: Tokenizer, tgt: Tokenizer) -> None:
    """See that a validation loss can be computed at all."""
    longest = longest_side(config)
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    encoded = zip(src.encode_batch(sources), tgt.encode_batch(targets), strict=True)
    if all(max(map(len, pair)) > longest for pair in encoded):
        raise DataError(f"every validation pair is longer than {longest} pieces; give shorter ones with --valid")


def _sample(corpus: Corpus, size: CorpusSize, every: int) -> list[tuple[str, ...]]:
    """Pairs to learn the vocabulary from, spread over the corpus and in random order, so that any part is a sample."""
    stride = max(1, math.ceil(size.pairs * size.tgt / SAMPLE_PIECES))
    chosen: list[tuple[str, ...]] = list(islice(_training_pairs(corpus, every), 0, None, stride))
    random.Random(len(chosen)).shuffle(chosen)
    return chosen


def _learn(config: Config, sample: list[tuple[str, ...]]) -> tuple[Tokenizer, Tokenizer]:
    """Learn one vocabulary or two from ``sample``, which is empty afterwards."""
    size = -(-config.text.vocab_size // 8) * 8
    if config.text.shared:
        shared = Tokenizer.learn(bounded(_drain(sample)), size)
        return shared, shared
    sides: list[list[tuple[str, ...]]] = [[(pair[side],) for pair in sample] for side in (0, 1)]
    sample.clear()
    src, tgt = (Tokenizer.learn(bounded(_drain(side)), size) for side in sides)
    return src, tgt


def _ids(folder: ModelFolder) -> Path:
    return folder.corpus / "train"


def _drain(sample: list[tuple[str, ...]]) -> Iterator[str]:
    """All texts, each forgotten when it was given: learning begins after the last and needs the memory."""
    try:
        while sample:
            yield from sample.pop()
    finally:
        sample.clear()


def _build_tokens(
    folder: ModelFolder, config: Config, pairs: Iterable[tuple[str, str]], src: Tokenizer, tgt: Tokenizer
) -> dict[str, int]:
    path = _ids(folder)
    if path.exists():
        shutil.rmtree(path)
    src_words = Words(src)
    tgt_words = src_words if tgt is src else Words(tgt)
    longest = longest_side(config)
    limit = "data.max_length" if longest == config.data.max_length else "model.max_positions - 1"
    counts = tokenfile.build(path, pairs, src_words, tgt_words, longest, config.data.drop_duplicates, limit)
    with files.explained("write", path):
        files.sync_folder(path)
        files.sync_folder(path.parent)
    return {key: counts[key] for key in ("kept", "too long", "duplicate")}
