"""The training loop: update, look, keep - until the steps are done, nothing gets better, or somebody stops it."""

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import torch

from dragoman.data.batch import Batch
from dragoman.errors import TrainingError, is_shortage
from dragoman.model.build import named_weights
from dragoman.model.families import EncoderDecoder
from dragoman.store import checkpoint
from dragoman.train import costs, duration, recovery, validation
from dragoman.train.board import Board
from dragoman.train.budget import last_update
from dragoman.train.clock import Clock
from dragoman.train.journal import Journal
from dragoman.train.memory import keep_freed_memory
from dragoman.train.pace import Pace
from dragoman.train.path import ALONE, choose
from dragoman.train.placement import place, whole
from dragoman.train.prepare import Prepared, longest_side
from dragoman.train.saving import Attempts
from dragoman.train.schedule import learning_rate
from dragoman.train.shortage import Fitted, HalfMade, Room
from dragoman.train.signals import caught
from dragoman.train.state import Counters, Training, checksum, contents, read_counters
from dragoman.train.step import Gradient, Place
from dragoman.train.watcher import Progress, Validation, Watcher
from dragoman.train.workers import Workers

OUT_OF_TIME = "the budget is over"

READINGS, PAUSE = 20, 1.0
"""How often a batch that finds no memory is read again, and the seconds in between."""

TOLD = 0.1
"""By such a share of the updates a plan may change without a word: a few more are planned than fit."""

SEEDS_APART = 0x9E3779B1
"""Between the seeds of dropout of two workers."""


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    counters: Counters
    parameters: int
    "Numbers that were learned."
    stopped_by: int = 0
    "The signal that ended it; 0 where it ran to its end."


class Loop:
    """One training in this process, and in the other ``workers``. What changes is in ``training``; see :func:`run`.

    Every worker makes the same updates. Only the first one validates, writes and talks; the others wait for it.
    """

    def __init__(
        self, prepared: Prepared, watcher: Watcher, clock: Clock | None = None, workers: Workers = ALONE
    ) -> None:
        self.prepared = prepared
        self.config = prepared.config.train
        self.watcher = watcher
        self.workers = workers
        self.clock = clock or Clock()
        self.costs = costs.read(prepared.folder)
        self.training = self._begin()
        self.path = choose(self.training, prepared.config, watcher.message, workers)
        workers.agree(zlib.crc32(self.path.manner.encode()), "computes updates in another way")
        self.clock.resume(self.training.counters.seconds)
        self.parameters = sum(parameter.numel() for parameter in self.training.model.parameters())
        watcher.message(self._sizes())
        folder, counters, is_first = prepared.folder, self.training.counters, workers.is_first
        self.journal = Journal(folder.journal, counters.journal_bytes) if is_first else None
        has_board = self.config.tensorboard and is_first
        self.board = Board(folder.root / "tensorboard", counters.step, watcher.message) if has_board else None
        self.stop: Callable[[], int] = lambda: 0
        self.told = 0
        self.pace = Pace()
        self.room = Room()
        self.attempts = Attempts(watcher.message, self._note)

    def run(self, stop: Callable[[], int]) -> Outcome:
        """Train until done, or until ``stop`` answers in any worker with a signal's number; then save and return."""
        begun, self.stop = self.training.counters, stop
        batches = self._read(begun.place)
        while not (why := self._end()):
            started = time.monotonic()
            group = list(islice(batches, self.config.accumulate))
            self._update([batch for batch, _ in group], group[-1][1], started)
            self._recover()
            self._settle_the_fall()
            self._look()
            if signal_number := self.told if self.workers.count > 1 else stop():
                why = self._end()
                self._note_end("" if why == OUT_OF_TIME else why)  # then the last validation is still to come
                self._save(last=True, regular=self.training.counters.step == self._last)
                return Outcome(self.training.counters, self.parameters, signal_number)
        if why == OUT_OF_TIME:
            self._end_early()
        if self.training.counters != begun:
            self._note_end(why)
            self._save(last=True, regular=why != OUT_OF_TIME)
        return Outcome(self.training.counters, self.parameters)

    @property
    def _last(self) -> int:
        """The last update, as far as is known."""
        return self.training.counters.end or self.config.steps

    def _settle_the_fall(self) -> None:
        """With a budget: let a plateau fall over the time that is left, see `budget.last_update`."""
        counters, config = self.training.counters, self.config
        if not config.budget or config.schedule != "plateau" or counters.fall:
            return
        left = config.budget - self.clock.seconds - self.costs.end
        last = last_update(counters.step, config, self.costs, left, self.pace.mean_seconds)
        if end := self.workers.share(last):
            self.training = self.training.at(replace(counters, fall=counters.step, end=end))
            self._note("plan", {"step": counters.step, "steps": end})
            if end < (1 - TOLD) * config.steps:
                self.watcher.message(
                    f"update {counters.step:,}: {end:,} updates fit into the time, not {config.steps:,}"
                )

    def _end(self) -> str:
        """Why the training is at its end; nothing if it is not."""
        if self.training.counters.step >= self._last:
            return "all updates are made"
        if 0 < self.config.patience <= self.training.counters.stale:
            return f"nothing became better in {self.config.patience} validations"
        return OUT_OF_TIME if self._is_over() else ""

    def _note_end(self, why: str) -> None:
        if why:
            self._note("end", {"step": self.training.counters.step, "reason": why})

    def _begin(self) -> Training:
        training = recovery.newest(self.prepared, self.watcher.message)
        if self.workers.count > 1:
            self.workers.agree(checksum(training), "begins with other weights")
        return place(training, self.prepared.config, self.workers)

    def _sizes(self) -> str:
        model, vocab = self.prepared.config.model, self.prepared.tgt.vocab_size
        layers = f"{model.num_encoder_layers} + {model.num_decoder_layers} layers"
        return (
            f"a model of {self.parameters:,} parameters ({self.parameters * 4 / 1e6:,.1f} MB):"
            f" {layers} of width {model.d_model}, {vocab:,} pieces"
        )

    def _read(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Batches from ``place`` on; one for which there is no memory yet is read again, :data:`READINGS` times."""
        failures = 0
        while True:
            try:
                for batch, after in self.prepared.reader().read(place, self.workers.rank, self.workers.count):
                    yield batch, after
                    place, failures = after, 0
            except Exception as error:
                if not is_shortage(error) or failures == READINGS:
                    raise
            failures += 1
            step = self.training.counters.step + 1
            self._note("out of memory", {"step": step, "what": "reading"})
            if failures == 1:
                self.watcher.message(f"update {step:,}: out of memory while pairs are read; trying again")
            time.sleep(PAUSE)

    def _update(self, batches: list[Batch], place: Place, started: float) -> None:
        counters = self.training.counters
        step = counters.step + 1
        rate = learning_rate(step, self.config, counters.rate_factor, counters.fall, counters.end)
        fitted = self._backpropagate(batches, step)
        gradient = fitted.gradient
        is_made = self._move(gradient, rate, step)
        spent = time.monotonic() - started
        counters = self.training.counters
        self.training = self.training.at(
            replace(
                counters,
                step=step,
                place=place,
                bad_steps=0 if gradient.is_finite else counters.bad_steps + 1,
                skipped=counters.skipped + (not is_made),
                tokens=counters.tokens + gradient.tokens,
                lost=counters.lost + fitted.lost,
                trend=counters.trend.after(gradient.loss) if gradient.is_finite and gradient.tokens else counters.trend,
            )
        )
        self._tell(gradient, rate, spent)

    def _backpropagate(self, batches: list[Batch], step: int) -> Fitted:
        seed = (self.config.seed + SEEDS_APART * self.workers.rank) % 2**31

        def compute(group: Sequence[Batch]) -> Gradient:
            return self.path.gradient(group, (seed << 32) + step)

        fitted = self.path.combine(self.room.fit(compute, batches))
        if fitted.failed:
            self._note("out of memory", {"step": step, "batches": fitted.batches, "lost": fitted.lost})
            without = f", {fitted.lost} pairs that do not fit alone left out" if fitted.lost else ""
            self.watcher.message(f"update {step:,}: out of memory; cut into {fitted.batches} smaller batches{without}")
        return fitted

    def _move(self, gradient: Gradient, rate: float, step: int) -> bool:
        """Move the weights if the gradient is finite, and answer whether that was done, or nothing was to be moved.

        Several workers tell each other how it went, and in the same breath whether anybody was told to stop.
        """
        failed = is_half = False
        try:
            if gradient.is_finite and gradient.tgt_tokens:
                self.path.update(gradient, rate, step)
        except (MemoryError, RuntimeError) as error:
            if not is_shortage(error):
                raise
            failed, is_half = True, isinstance(error, HalfMade)
        number = self.stop() if self.workers.count > 1 else 0
        failures, halves, numbers = zip(*self.workers.gather([failed, is_half, number]), strict=True)
        self.told = next((int(each) for each in numbers if each), 0)
        if not any(failures):
            return gradient.is_finite
        self._note("out of memory", {"step": step, "what": "update"})
        back = ""
        if any(halves) or not all(failures):
            self._take_up(recovery.last_good(self.prepared, self.training))
            back = f"; back to the weights of update {self.training.counters.anchor:,}"
        self.watcher.message(f"update {step:,} skipped: out of memory while the weights were moved{back}")
        return False

    def _take_up(self, training: Training) -> None:
        """Go on with other weights; none of the workers before all have read theirs, which the first may delete."""
        del self.path  # two have no room where there was too little
        self.training = place(training, self.prepared.config, self.workers)
        self.path = choose(self.training, self.prepared.config, self.watcher.message, self.workers)
        self.workers.gather([], patiently=True)

    def _tell(self, gradient: Gradient, rate: float, spent: float) -> None:
        counters = self.training.counters
        if not gradient.is_finite:
            self._note("skipped", {"step": counters.step, "loss": gradient.loss, "norm": gradient.norm})
            self.watcher.message(f"update {counters.step} skipped: loss {gradient.loss}, gradient norm {gradient.norm}")
            return
        self.pace.add(gradient.tokens, spent)
        left = (self._last - counters.step) * self.pace.seconds
        if self.config.budget:
            left = min(left, max(self.config.budget - self.clock.seconds, 0.0))
        if counters.step % 50 == 0 or counters.step == self._last:
            self._note(
                "update",
                {
                    "step": counters.step,
                    "epoch": counters.place.epoch,
                    "loss": round(counters.trend.mean, 6),
                    "norm": round(gradient.norm, 6),
                    "learning_rate": rate,
                    "tokens": counters.tokens,
                    "tokens_per_second": round(self.pace.tokens_per_second, 1),
                    "seconds_left": round(left, 1),
                },
            )
        self.watcher.progress(
            Progress(
                counters.step,
                self._last,
                counters.place.epoch,
                counters.trend.mean,
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
        self._take_up(recovery.step_back(self.prepared, self.training))
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
        """Whether the budget leaves no time for another update before the end, by the clock of the first worker."""
        return self.config.budget > 0 and bool(self.workers.share(self._is_late()))

    def _is_late(self) -> bool:
        return 0 < self.config.budget < self.clock.seconds + self.pace.seconds + self.costs.end

    def _end_early(self) -> None:
        counters = self.training.counters
        self.watcher.message(
            f"the {duration.exact(self.config.budget)} are over after update {counters.step:,} of {self._last:,}"
        )
        if counters.looked < counters.step:
            self._validate()

    def _look(self) -> None:
        counters = self.training.counters
        last = counters.step == self._last
        if last or counters.step % self.config.validate_every == 0:
            self._validate()
        if not last and counters.step % self.config.save_every == 0:
            self._save(last=False)

    def _whole(self) -> Training:
        with self.workers.explained():
            return whole(self.training, self.prepared.config, self.workers)

    def _by_first(self, act: Callable[[], None]) -> None:
        """Let the first worker do what only one may do; the others wait, and take over what it has counted."""
        if self.workers.is_first:
            act()
        if self.workers.count > 1:
            counted = self.workers.share(asdict(self.training.counters), patiently=True)
            self.training = self.training.at(read_counters(counted))

    def _validate(self) -> None:
        average = self._whole().average
        self._by_first(lambda: self._validate_with(average))

    def _validate_with(self, average: EncoderDecoder) -> None:
        started = time.monotonic()
        prepared, config = self.prepared, self.prepared.config
        pairs, longest = prepared.validation, longest_side(config)
        try:
            look = validation.look(average, pairs, prepared.src, prepared.tgt, config, longest)
        except MemoryError:
            self._miss(average)
        else:
            self._judge(average, look, started)

    def _miss(self, average: EncoderDecoder) -> None:
        """Go on without this validation. A folder without a model gets one of which nobody knows how good it is."""
        counters = self.training.counters
        self.training = self.training.at(replace(counters, looked=counters.step))
        self._note("out of memory", {"step": counters.step, "what": "validation"})
        self.watcher.message(f"warning: validation of update {counters.step:,} skipped: out of memory")
        if counters.best is None:
            self._keep_weights(average)

    def _judge(self, average: EncoderDecoder, look: validation.Look, started: float) -> None:
        counters = self.training.counters
        loss, translations = look.loss, look.translations
        bleu, chrf = look.bleu, look.chrf
        score = bleu if math.isfinite(loss) else -math.inf
        is_better = math.isfinite(score) and (counters.best is None or score > counters.best)
        is_best = is_better and self._keep_weights(average)
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
        if self.journal:
            self.journal.write(event, facts)
        if self.board:
            self.board.write(event, facts)

    def _keep_weights(self, average: EncoderDecoder) -> bool:
        """Make the running average the model of the folder. Where that fails, the next best one will be."""
        step = self.training.counters.step

        def write() -> None:
            self.prepared.folder.write_weights(named_weights(average))

        return self.attempts.attempt("best model", write, step, last=step == self._last or self._is_late())

    def _save(self, last: bool, regular: bool = True) -> None:
        """Write a checkpoint.

        Args:
            regular: it is written here whether or not the training was ever interrupted; to others no step back leads.
        """
        written = self._whole()
        self._by_first(lambda: self._try_to_save(written, last, regular))

    def _try_to_save(self, written: Training, last: bool, regular: bool) -> None:
        before = self.training
        counters = before.counters
        if regular and not counters.bad_steps and counters.trend.is_calm:
            self.training = before.at(replace(counters, anchor=counters.step))
        if not self.attempts.attempt("checkpoint", lambda: self._write_checkpoint(written), counters.step, last):
            self.training = before

    def _write_checkpoint(self, written: Training) -> None:
        counters = replace(self.training.counters, journal_bytes=self._sync(), seconds=self.clock.seconds)
        self.training = self.training.at(counters)
        files = contents(written.at(counters), self.prepared.identity)
        folder, keep = self.prepared.folder.checkpoints, self.config.keep
        saved = checkpoint.save(folder, counters.step, files, {}, keep, spared=counters.anchor)
        for warning in saved.warnings:
            self.watcher.message(warning)

    def _sync(self) -> int:
        """Make what was noted durable; the size of the journal."""
        if self.board:
            self.board.sync()
        if not self.journal:
            return 0
        self.journal.sync()
        return self.journal.size


def run(prepared: Prepared, watcher: Watcher, clock: Clock | None = None, workers: Workers = ALONE) -> Outcome:
    """Train in ``prepared.folder`` from its newest checkpoint, or from the beginning.

    SIGTERM, SIGINT and SIGHUP let the running update finish, save, and return; a second one kills at once, which loses
    nothing but the updates since the last checkpoint. Those that were ignored before (`nohup`) stay ignored.

    Args:
        clock: runs since the command began; None begins now.
        workers: all of them call this at the same time.

    Raises:
        TrainingError: loss or gradient stay not finite, or the loss explodes, after several steps back too; or a
            worker is gone.
        FolderError: checkpoints could not be written too many times in a row (what was saved before is intact),
            or none is sound.
    """
    if prepared.config.train.threads:
        torch.set_num_threads(prepared.config.train.threads)
    keep_freed_memory()
    with caught() as stop:
        return Loop(prepared, watcher, clock, workers).run(stop)
