"""Search by enumeration: a toy language model given as a table, and every output it can produce, scored and sorted.

Slow and obvious; shares no code with ``dragoman.search`` but the types of its interface.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.search.stepper import Candidates

Ids = tuple[int, ...]
Norm = Literal["power", "gnmt"]


@dataclass(frozen=True)
class TableModel:
    """Random next-token distributions, each depending on the source and on the whole prefix."""

    vocab_size: int
    seed: int = 0
    sharpness: float = 1.5
    "Standard deviation of the logits; 0 makes all tokens equally likely."
    eos_bonus: float = 0.0
    "Added to the logit of the end of sentence."
    impossible: Ids = ()
    "Ids of probability zero."
    whole: bool = False
    "Round log-probabilities down to whole numbers: then ties abound, and they are exact."
    bos_id: int = 1
    eos_id: int = 2

    def log_probs(self, source: Ids, prefix: Ids) -> NDArray[np.float64]:
        """Log-probabilities of the token after ``prefix`` (without the beginning of sentence)."""
        return _table(self, source, prefix).copy()

    def score_tokens(self, source: Ids, tokens: Ids) -> list[float]:
        """The log-probability of each of ``tokens`` after those before it."""
        return [float(self.log_probs(source, tokens[:at])[token]) for at, token in enumerate(tokens)]


@lru_cache(maxsize=500_000)
def _table(model: TableModel, source: Ids, prefix: Ids) -> NDArray[np.float64]:
    rng = np.random.default_rng([model.seed, len(source), *source, *prefix])
    logits = model.sharpness * rng.standard_normal(model.vocab_size)
    logits[model.eos_id] += model.eos_bonus
    logits[list(model.impossible)] = -np.inf
    highest = float(logits.max())
    log_probs = logits - (highest + float(np.log(np.exp(logits - highest).sum())))
    return np.floor(log_probs) if model.whole else log_probs


@dataclass(frozen=True)
class ToyState:
    """Of each row its source and the tokens it was fed."""

    rows: tuple[tuple[Ids, Ids], ...]

    def select(self, rows: NDArray[np.int64]) -> "ToyState":
        return ToyState(tuple(self.rows[row] for row in rows.tolist()))

    def join(self, other: "ToyState") -> "ToyState":
        return ToyState(self.rows + other.rows)


@dataclass
class ToyStepper:
    """A ``Stepper`` that looks its answers up in a table model."""

    model: TableModel
    dtype: type[np.floating] = np.float64
    full_steps: int = 0
    top_steps: int = 0
    widest: int = 0
    "Most rows in one step."
    started: list[int] = field(default_factory=list)
    "Sentences started, call by call."

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    @property
    def bos_id(self) -> int:
        return self.model.bos_id

    @property
    def eos_id(self) -> int:
        return self.model.eos_id

    def start(self, sources: Sequence[Sequence[int]]) -> ToyState:
        self.started.append(len(sources))
        return ToyState(tuple((tuple(source), ()) for source in sources))

    def step_top(self, ids: NDArray[np.int64], state: ToyState, k: int) -> tuple[Candidates, ToyState]:
        if not 1 <= k <= self.vocab_size:
            raise ValueError(f"k={k}")
        self.top_steps += 1
        log_probs, state = self._step(ids, state)
        order = np.argsort(np.where(np.isnan(log_probs), -np.inf, -log_probs), axis=1, kind="stable")[:, :k]
        return Candidates(order, np.take_along_axis(log_probs, order, axis=1)), state

    def step_full(self, ids: NDArray[np.int64], state: ToyState) -> tuple[NDArray[np.floating], ToyState]:
        self.full_steps += 1
        return self._step(ids, state)

    def log_probs(self, source: Ids, prefix: Ids) -> NDArray[np.float64]:
        """What a step says; overridden where a test wants a model that misbehaves."""
        return self.model.log_probs(source, prefix)

    def _step(self, ids: NDArray[np.int64], state: ToyState) -> tuple[NDArray[np.floating], ToyState]:
        if len(ids) != len(state.rows) or len(ids) == 0:
            raise ValueError(f"{len(ids)} ids for {len(state.rows)} rows")
        self.widest = max(self.widest, len(ids))
        fed = [(source, (*tokens, token)) for (source, tokens), token in zip(state.rows, ids.tolist(), strict=True)]
        if any(tokens[0] != self.bos_id for _, tokens in fed):
            raise ValueError("a row did not begin with the beginning of sentence")
        log_probs = np.stack([self.log_probs(source, tokens[1:]) for source, tokens in fed])
        return log_probs.astype(self.dtype), ToyState(tuple(fed))


@dataclass(frozen=True)
class Rules:
    """What an output must obey, in the words of the request."""

    max_length: int
    min_length: int = 0
    prefix: Ids = ()
    no_repeat_ngram: int = 0
    suppress: Ids = ()

    def allow(self, tokens: Ids, token: int, eos_id: int) -> bool:
        """Whether ``token`` may follow ``tokens``."""
        if len(tokens) < len(self.prefix):
            return token == self.prefix[len(tokens)]
        if token in self.suppress or (token == eos_id and len(tokens) < self.min_length):
            return False
        n = self.no_repeat_ngram
        seen = {tokens[at : at + n] for at in range(len(tokens) - n + 1)}
        return n == 0 or (*tokens, token)[-n:] not in seen


@dataclass(frozen=True)
class Output:
    """One possible output of the model."""

    ids: Ids
    "Without the end of sentence."
    ended: bool
    log_prob: float
    score: float


def enumerate_outputs(model: TableModel, source: Ids, rules: Rules, alpha: float, norm: Norm) -> list[Output]:
    """Every output with a probability that ends, or is as long as allowed; best first, equal ones lexicographically."""
    leaves = _leaves(model, source, rules, (), 0.0)
    return _sorted([_output(model, tokens, log_prob, alpha, norm) for tokens, log_prob in leaves])


def greedy_tokens(model: TableModel, source: Ids, rules: Rules) -> Ids:
    """The likeliest allowed token, again and again; with the end of sentence, if it was reached."""
    tokens: Ids = ()
    while len(tokens) < rules.max_length and tokens[-1:] != (model.eos_id,):
        log_probs = model.log_probs(source, tokens)
        allowed = [token for token in range(model.vocab_size) if rules.allow(tokens, token, model.eos_id)]
        tokens = (*tokens, max(allowed, key=lambda token: (log_probs[token], -token)))
    return tokens


def plain_beam(model: TableModel, source: Ids, rules: Rules, beam_size: int, alpha: float, norm: Norm) -> list[Output]:
    """Beam search by its documented rules, one sentence, one candidate at a time, and never stopped early."""
    outputs: list[Output] = []
    live: list[tuple[float, Ids]] = [(0.0, ())]
    while live:
        candidates = sorted(
            (-(log_prob + value), (*ids, token))
            for log_prob, ids in live
            for token, value in enumerate(model.log_probs(source, ids).tolist())
            if value > -np.inf and rules.allow(ids, token, model.eos_id)
        )[: beam_size - len(outputs)]
        live = []
        for negative, tokens in candidates:
            if tokens[-1] == model.eos_id or len(tokens) == rules.max_length:
                outputs.append(_output(model, tokens, -negative, alpha, norm))
            else:
                live.append((-negative, tokens))
    return _sorted(outputs)


def _output(model: TableModel, tokens: Ids, log_prob: float, alpha: float, norm: Norm) -> Output:
    penalty = len(tokens) ** alpha if norm == "power" else ((5 + len(tokens)) / 6) ** alpha
    ended = tokens[-1] == model.eos_id
    return Output(tokens[:-1] if ended else tokens, ended, log_prob, log_prob / penalty)


def _sorted(outputs: list[Output]) -> list[Output]:
    return sorted(outputs, key=lambda output: (-output.score, output.ids))


def _leaves(model: TableModel, source: Ids, rules: Rules, tokens: Ids, log_prob: float) -> Iterator[tuple[Ids, float]]:
    for token, value in enumerate(model.log_probs(source, tokens).tolist()):
        if value == -np.inf or not rules.allow(tokens, token, model.eos_id):
            continue
        longer = (*tokens, token)
        if token == model.eos_id or len(longer) == rules.max_length:
            yield longer, log_prob + value
        else:
            yield from _leaves(model, source, rules, longer, log_prob + value)
