"""The training loop: update, look, keep - until the steps are done, nothing gets better, or somebody stops it."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType
from typing import Any

import torch

from dragoman.data.batch import Batch
from dragoman.errors import FolderError, TrainingError
from dragoman.evaluate.metrics import corpus_scores
from dragoman.model.build import named_weights
from dragoman.store import checkpoint
from dragoman.train import costs, duration, recovery, validation
from dragoman.train.board import Board
from dragoman.train.clock import Clock
from dragoman.train.journal import Journal
from dragoman.train.memory import keep_freed_memory
from dragoman.train.path import choose
from dragoman.train.prepare import Prepared, longest_side
from dragoman.train.saving import Attempts
from dragoman.train.schedule import learning_rate
from dragoman.train.shortage import Fitted, within_memory
from dragoman.train.state import Counters, Training, begin, contents, restore
from dragoman.train.step import Gradient, Place
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

    def __init__(self, prepared: Prepared, watcher: Watcher, clock: Clock | None = None) -> None:
        self.prepared = prepared
        self.config = prepared.config.train
        self.watcher = watcher
        self.clock = clock or Clock()
        self.costs = costs.read(prepared.folder)
        self.training = self._begin()
        self.path = choose(self.training, prepared.config, watcher.message)
        self.clock.resume(self.training.counters.seconds)
        self.parameters = sum(parameter.numel() for parameter in self.training.model.parameters())
        watcher.message(self._sizes())
        self.journal = Journal(prepared.folder.journal, self.training.counters.journal_bytes)
        board = prepared.folder.root / "tensorboard"
        self.board = Board(board, self.training.counters.step) if self.config.tensorboard else None
        self.pace = Pace()
        self.attempts = Attempts(watcher.message, self._note)

    def run(self, stop: Callable[[], int]) -> Outcome:
        """Train until done, or until ``stop`` answers with the number of a signal; then save and return."""
        begun = self.training.counters
        batches = self.prepared.reader().read(begun.place)
        while self.training.counters.step < self.config.steps and not self._is_stale() and not self._is_over():
            group = list(islice(batches, self.config.accumulate))
            self._update([batch for batch, _ in group], group[-1][1])
            self._recover()
            self._look()
            if signal_number := stop():
                self._save(last=True, regular=self.training.counters.step == self.config.steps)
                return Outcome(self.training.counters, self.parameters, signal_number)
        if self.training.counters.step < self.config.steps and self._is_over():
            self._end_early()
        if self.training.counters != begun:
            self._save(last=True)
        return Outcome(self.training.counters, self.parameters)

    def _begin(self) -> Training:
        fresh = begin(self.prepared.config, self.prepared.src.vocab_size, self.prepared.tgt.vocab_size)
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

    def _update(self, batches: list[Batch], place: Place) -> None:
        counters = self.training.counters
        step = counters.step + 1
        started = time.monotonic()
        rate = learning_rate(step, self.config, counters.rate_factor)
        fitted = self._backpropagate(batches, step)
        gradient = fitted.gradient
        if gradient.is_finite:
            self.path.update(gradient, rate, step)
        spent = time.monotonic() - started
        self.training = self.training.at(
            replace(
                counters,
                step=step,
                place=place,
                bad_steps=0 if gradient.is_finite else counters.bad_steps + 1,
                skipped=counters.skipped + (not gradient.is_finite),
                tokens=counters.tokens + gradient.tokens,
                lost=counters.lost + fitted.lost,
                trend=counters.trend.after(gradient.loss) if gradient.is_finite and gradient.tokens else counters.trend,
            )
        )
        self._tell(gradient, rate, spent)

    def _backpropagate(self, batches: list[Batch], step: int) -> Fitted:
        def compute(group: Sequence[Batch]) -> Gradient:
            return self.path.gradient(group, (self.config.seed << 32) + step)

        fitted = within_memory(compute, batches)
        if fitted.lost or fitted.batches > len(batches):
            self._note("out of memory", {"step": step, "batches": fitted.batches, "lost": fitted.lost})
            without = f", {fitted.lost} pairs that do not fit alone left out" if fitted.lost else ""
            self.watcher.message(f"update {step:,}: out of memory; cut into {fitted.batches} smaller batches{without}")
        return fitted

    def _tell(self, gradient: Gradient, rate: float, spent: float) -> None:
        counters = self.training.counters
        if not gradient.is_finite:
            self._note("skipped", {"step": counters.step, "loss": gradient.loss, "norm": gradient.norm})
            self.watcher.message(f"update {counters.step} skipped: loss {gradient.loss}, gradient norm {gradient.norm}")
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
        if self.config.budget:
            left = min(left, max(self.config.budget - self.clock.seconds, 0.0))
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

    def _recover(self) -> None:
        """Step back if the training diverges."""
        counters = self.training.counters
        complaint = recovery.complaint(counters, self.config)
        if not complaint:
            return
        if counters.steps_back == recovery.MOST_STEPS_BACK:
            raise TrainingError(
                f"update {counters.step:,}: {complaint}; {counters.steps_back} steps back did not help; the last"
                f" good checkpoint is in {self.prepared.folder.checkpoints}; lower train.learning_rate in a new"
                " folder"
            )
        self.training = recovery.step_back(self.prepared, self.training)
        self.path = choose(self.training, self.prepared.config, self.watcher.message)
        now = self.training.counters
        self._note(
            "step back",
            {"step": now.step, "to": now.anchor, "reason": complaint, "rate_factor": now.rate_factor},
        )
        self.watcher.message(
            f"update {now.step:,}: {complaint}; back to the weights of update {now.anchor:,} with {now.rate_factor:g}"
            f" times the learning rate (step back {now.steps_back} of at most {recovery.MOST_STEPS_BACK})"
        )
        self._save(last=False)

    def _is_over(self) -> bool:
        """Whether the budget leaves no time for another update before the end."""
        return 0 < self.config.budget < self.clock.seconds + self.pace.seconds + self.costs.end

    def _end_early(self) -> None:
        counters = self.training.counters
        self.watcher.message(
            f"the {duration.exact(self.config.budget)} are over after update {counters.step:,} of {self.config.steps:,}"
        )
        if counters.looked < counters.step:
            self._validate()

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
            translator = validation.translator(self.training.average, self.prepared.src, self.prepared.tgt, config)
            translations = translator.translate(list(pairs.sources))
        bleu, chrf = corpus_scores(translations, pairs.references, pairs.target_language)
        score = bleu if math.isfinite(loss) else -math.inf
        is_better = math.isfinite(score) and (counters.best is None or score > counters.best)
        is_best = is_better and self._keep_weights()
        seconds = time.monotonic() - started
        self.costs = replace(self.costs, validation=seconds)
        self.training = self.training.at(
            replace(
                counters,
                looked=counters.step,
                best=score if is_best else counters.best,
                best_step=counters.step if is_best else counters.best_step,
                stale=0 if is_better else counters.stale + 1,
            )
        )
        seen = Validation(counters.step, loss, bleu, chrf, is_best, translations[0] if translations else "")
        facts = {"step": seen.step, "loss": loss, "bleu": bleu, "chrf": chrf, "best": is_best}
        examples = translations[: validation.EXAMPLES]
        self._note("validation", {**facts, "seconds": round(seconds, 3), "examples": examples})
        self.watcher.validation(seen)

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        self.journal.write(event, facts)
        if self.board:
            self.board.write(event, facts)

    def _is_stale(self) -> bool:
        return 0 < self.config.patience <= self.training.counters.stale

    def _keep_weights(self) -> bool:
        """Make the running average the model of the folder. Where that fails, the next best one will be."""
        step = self.training.counters.step

        def write() -> None:
            self.prepared.folder.write_weights(named_weights(self.training.average))

        return self.attempts.attempt("best model", write, step, last=step == self.config.steps or self._is_over())

    def _save(self, last: bool, regular: bool = True) -> None:
        """Write a checkpoint.

        Args:
            regular: it is written here whether or not the training was ever interrupted; to others no step back leads.
        """
        before = self.training
        counters = before.counters
        if regular and not counters.bad_steps and counters.trend.is_calm:
            self.training = before.at(replace(counters, anchor=counters.step))
        if not self.attempts.attempt("checkpoint", self._write_checkpoint, counters.step, last):
            self.training = before

    def _write_checkpoint(self) -> None:
        self.journal.sync()
        if self.board:
            self.board.sync()
        counters = replace(self.training.counters, journal_bytes=self.journal.size, seconds=self.clock.seconds)
        self.training = self.training.at(counters)
        files = contents(self.training, self.prepared.identity)
        folder, keep = self.prepared.folder.checkpoints, self.config.keep
        saved = checkpoint.save(folder, counters.step, files, {}, keep, spared=counters.anchor)
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


def run(prepared: Prepared, watcher: Watcher, clock: Clock | None = None) -> Outcome:
    """Train in ``prepared.folder`` from its newest checkpoint, or from the beginning.

    SIGTERM, SIGINT and SIGHUP let the running update finish, save, and return; a second one kills at once, which loses
    nothing but the updates since the last checkpoint. Those that were ignored before (`nohup`) stay ignored.

    Args:
        clock: runs since the command began; None begins now.

    Raises:
        TrainingError: loss or gradient stay not finite, or the loss explodes, after several steps back too.
        FolderError: the last checkpoint, or too many in a row, could not be written (what was saved before is intact),
            or none is sound.
    """
    if prepared.config.train.threads:
        torch.set_num_threads(prepared.config.train.threads)
    keep_freed_memory()
    with _signals() as stop:
        return Loop(prepared, watcher, clock).run(stop)


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
