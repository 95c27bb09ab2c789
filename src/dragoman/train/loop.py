"""The training loop: update, look, keep - until the steps are done, nothing gets better, or somebody stops it."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType
from typing import Any

import torch

from dragoman.data.batch import Batch
from dragoman.engine.loading import source_limit
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import Translator
from dragoman.errors import FolderError, TrainingError
from dragoman.evaluate.metrics import corpus_scores
from dragoman.model.build import build, initialize, named_weights
from dragoman.store import checkpoint
from dragoman.text.dropout import BpeDropout
from dragoman.train import validation
from dragoman.train.board import Board
from dragoman.train.journal import Journal
from dragoman.train.memory import keep_freed_memory
from dragoman.train.optimizer import build_optimizer, update_average
from dragoman.train.prepare import Prepared, longest_side
from dragoman.train.saving import Attempts
from dragoman.train.schedule import learning_rate
from dragoman.train.state import Counters, Training, contents, restore
from dragoman.train.step import Gradient, Place, Reader, backpropagate
from dragoman.train.watcher import Progress, Validation, Watcher


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    counters: Counters
    parameters: int
    "Numbers that were learned."
    stopped_by: int = 0
    "The signal that ended it; 0 where it ran to its end."


class Loop:
    """One training in one process. Everything that changes is in ``training``; see :func:`run`."""

    def __init__(self, prepared: Prepared, watcher: Watcher) -> None:
        self.prepared = prepared
        self.config = prepared.config.train
        self.watcher = watcher
        self.training = self._begin()
        self.parameters = sum(parameter.numel() for parameter in self.training.model.parameters())
        watcher.message(self._sizes())
        self.journal = Journal(prepared.folder.journal, self.training.counters.journal_bytes)
        board = prepared.folder.root / "tensorboard"
        self.board = Board(board, self.training.counters.step) if self.config.tensorboard else None
        self.pace = Pace()
        self.attempts = Attempts(watcher.message, self._note)

    def run(self, stop: Callable[[], int]) -> Outcome:
        """Train until done, or until ``stop`` answers with the number of a signal; then save and return."""
        begun = self.training.counters.step
        batches = self._reader().read(self.training.counters.place)
        while self.training.counters.step < self.config.steps and not self._is_stale():
            group = list(islice(batches, self.config.accumulate))
            self._update([batch for batch, _ in group], group[-1][1])
            self._look()
            if signal_number := stop():
                self._save(last=True)
                return Outcome(self.training.counters, self.parameters, signal_number)
        if self.training.counters.step > begun:
            self._save(last=True)
        return Outcome(self.training.counters, self.parameters)

    def _begin(self) -> Training:
        vocabs = self.prepared.src.vocab_size, self.prepared.tgt.vocab_size
        model, average = (build(self.prepared.config.model, *vocabs) for _ in range(2))
        for each in (model, average):
            initialize(each, self.config.seed)
        fresh = Training(model.train(), average.eval(), build_optimizer(model, self.config), Counters())
        found, damaged = checkpoint.newest(self.prepared.folder.checkpoints)
        for bad in damaged:
            self.watcher.message(f"checkpoint {bad.path.name} is damaged and not used: {bad.reason}")
        if found is None:
            if damaged:
                raise FolderError(
                    f"every checkpoint in {self.prepared.folder.checkpoints} is damaged"
                    f" ({', '.join(bad.path.name for bad in damaged)}); restore one, or train into a new folder"
                )
            return fresh
        self.watcher.message(f"resuming after update {found.step:,}")
        return restore(fresh, found, self.prepared.identity)

    def _sizes(self) -> str:
        model, vocab = self.prepared.config.model, self.prepared.tgt.vocab_size
        layers = f"{model.num_encoder_layers} + {model.num_decoder_layers} layers"
        return (
            f"a model of {self.parameters:,} parameters ({self.parameters * 4 / 1e6:,.1f} MB):"
            f" {layers} of width {model.d_model}, {vocab:,} pieces"
        )

    def _reader(self) -> Reader:
        text, data = self.prepared.config.text, self.prepared.config.data
        src_dropout = tgt_dropout = None
        if text.bpe_dropout:
            src_dropout = BpeDropout(self.prepared.src, text.bpe_dropout, self.config.seed)
            tgt_dropout = BpeDropout(self.prepared.tgt, text.bpe_dropout, self.config.seed)
        return Reader(self.prepared.tokens, data.batch_tokens, self.config.seed, src_dropout, tgt_dropout)

    def _update(self, batches: list[Batch], place: Place) -> None:
        counters = self.training.counters
        step = counters.step + 1
        started = time.monotonic()
        rate = learning_rate(step, self.config)
        torch.manual_seed((self.config.seed << 32) + step)
        gradient = backpropagate(
            self.training.model, batches, self.config.label_smoothing, self.config.clip_norm, self.config.precision
        )
        if gradient.is_finite:
            self._apply(rate, step)
        spent = time.monotonic() - started
        self.training = self.training.at(
            replace(
                counters,
                step=step,
                place=place,
                bad_steps=0 if gradient.is_finite else counters.bad_steps + 1,
                skipped=counters.skipped + (not gradient.is_finite),
                tokens=counters.tokens + gradient.tokens,
                seconds=counters.seconds + spent,
            )
        )
        self._tell(gradient, rate, spent)

    def _apply(self, rate: float, step: int) -> None:
        for group in self.training.optimizer.param_groups:
            group["lr"] = rate
        self.training.optimizer.step()
        update_average(self.training.average, self.training.model, self.config.ema_decay, step)

    def _tell(self, gradient: Gradient, rate: float, spent: float) -> None:
        counters = self.training.counters
        if not gradient.is_finite:
            self._note("skipped", {"step": counters.step, "loss": gradient.loss, "norm": gradient.norm})
            self.watcher.message(f"update {counters.step} skipped: loss {gradient.loss}, gradient norm {gradient.norm}")
            if counters.bad_steps >= self.config.max_bad_steps:
                raise TrainingError(
                    f"{counters.bad_steps} updates in a row had a loss or gradient that is not finite; the last good"
                    f" checkpoint is in {self.prepared.folder.checkpoints}; lower train.learning_rate in a new folder"
                )
            return
        self.pace.add(gradient.loss, gradient.tokens, spent)
        if counters.step % 50 == 0 or counters.step == self.config.steps:
            self._note(
                "update",
                {
                    "step": counters.step,
                    "epoch": counters.place.epoch,
                    "loss": round(self.pace.loss, 6),
                    "norm": round(gradient.norm, 6),
                    "learning_rate": rate,
                    "tokens": counters.tokens,
                    "tokens_per_second": round(self.pace.tokens_per_second, 1),
                },
            )
        left = (self.config.steps - counters.step) * self.pace.seconds
        self.watcher.progress(
            Progress(
                counters.step,
                self.config.steps,
                counters.place.epoch,
                self.pace.loss,
                rate,
                self.pace.tokens_per_second,
                left,
            )
        )

    def _look(self) -> None:
        counters = self.training.counters
        last = counters.step == self.config.steps
        if last or counters.step % self.config.validate_every == 0:
            self._validate()
        if not last and counters.step % self.config.save_every == 0:
            self._save(last=False)

    def _validate(self) -> None:
        counters = self.training.counters
        started = time.monotonic()
        pairs, config = self.prepared.validation, self.prepared.config
        loss = validation.mean_loss(
            self.training.average, pairs, self.prepared.src, self.prepared.tgt, longest_side(config)
        )
        translations = [""] * len(pairs.sources)
        if math.isfinite(loss):
            translations = self._translator().translate(list(pairs.sources))
        bleu, chrf = corpus_scores(translations, pairs.references, pairs.target_language)
        score = bleu if math.isfinite(loss) else -math.inf
        is_better = math.isfinite(score) and (counters.best is None or score > counters.best)
        is_best = is_better and self._keep_weights()
        seconds = time.monotonic() - started
        self.training = self.training.at(
            replace(
                counters,
                best=score if is_best else counters.best,
                best_step=counters.step if is_best else counters.best_step,
                stale=0 if is_better else counters.stale + 1,
                seconds=counters.seconds + seconds,
            )
        )
        seen = Validation(counters.step, loss, bleu, chrf, is_best, translations[0] if translations else "")
        facts = {"step": seen.step, "loss": loss, "bleu": bleu, "chrf": chrf, "best": is_best}
        self._note("validation", {**facts, "seconds": round(seconds, 3)})
        self.watcher.validation(seen)

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        self.journal.write(event, facts)
        if self.board:
            self.board.write(event, facts)

    def _translator(self) -> Translator:
        """Greedy, for speed; else the same path as `dragoman translate`."""
        config = self.prepared.config
        backend = TorchBackend(self.training.average, len(self.prepared.tgt.vocab))
        greedy = config.search.model_copy(update={"beam_size": 1, "n_best": 1, "sample": False})
        return Translator(self.prepared.src, self.prepared.tgt, backend, greedy, source_limit(config))

    def _is_stale(self) -> bool:
        return 0 < self.config.patience <= self.training.counters.stale

    def _keep_weights(self) -> bool:
        """Make the running average the model of the folder. Where that fails, the next best one will be."""
        step = self.training.counters.step

        def write() -> None:
            self.prepared.folder.write_weights(named_weights(self.training.average))

        return self.attempts.attempt("best model", write, step, last=step == self.config.steps)

    def _save(self, last: bool) -> None:
        self.attempts.attempt("checkpoint", self._write_checkpoint, self.training.counters.step, last)

    def _write_checkpoint(self) -> None:
        self.journal.sync()
        if self.board:
            self.board.sync()
        counters = replace(self.training.counters, journal_bytes=self.journal.size)
        self.training = self.training.at(counters)
        files = contents(self.training, self.prepared.identity)
        saved = checkpoint.save(self.prepared.folder.checkpoints, counters.step, files, {}, self.config.keep)
        for warning in saved.warnings:
            self.watcher.message(warning)


class Pace:
    """Loss and speed of the last updates, as running means."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.seconds = 0.0
        self.tokens = 0.0
        self._count = 0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        """Note one update."""
        self._count += 1
        weight = max(1.0 / self._count, 0.02)
        self.loss += weight * (loss - self.loss)
        self.seconds += weight * (seconds - self.seconds)
        self.tokens += weight * (tokens - self.tokens)

    @property
    def tokens_per_second(self) -> float:
        """Real source and target tokens."""
        return self.tokens / self.seconds if self.seconds else 0.0


def run(prepared: Prepared, watcher: Watcher) -> Outcome:
    """Train in ``prepared.folder`` from its newest checkpoint, or from the beginning.

    SIGTERM, SIGINT and SIGHUP let the running update finish, save, and return; a second one kills at once, which loses
    nothing but the updates since the last checkpoint. Those that were ignored before (`nohup`) stay ignored.

    Raises:
        TrainingError: loss or gradient stay not finite.
        FolderError: the last checkpoint, or too many in a row, could not be written (what was saved before is intact),
            or none is sound.
    """
    if prepared.config.train.threads:
        torch.set_num_threads(prepared.config.train.threads)
    keep_freed_memory()
    with _signals() as stop:
        return Loop(prepared, watcher).run(stop)


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    received: list[int] = []
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    watched = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in watched}
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
