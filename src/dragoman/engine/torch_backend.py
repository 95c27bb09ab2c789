"""The PyTorch model as the search wants it: ids and log-probabilities as numpy arrays."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.data.batch import pad
from dragoman.model.cache import DecoderCache
from dragoman.model.families import EncoderDecoder
from dragoman.search.beam import Found, beam_search
from dragoman.search.request import SourceRequest
from dragoman.search.stepper import Candidates, FloatArray, IntArray
from dragoman.text.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True)
class TorchState:
    """A decoder's cache behind the interface of :class:`dragoman.search.stepper.State`."""

    cache: DecoderCache

    def select(self, rows: IntArray) -> "TorchState":
        """See :meth:`DecoderCache.select`."""
        with torch.inference_mode():
            return TorchState(self.cache.select(torch.from_numpy(rows)))

    def join(self, other: "TorchState") -> "TorchState":
        """See :meth:`DecoderCache.join`."""
        with torch.inference_mode():
            return TorchState(self.cache.join(other.cache))


class TorchBackend:
    """Steps, scores and aligns with a PyTorch model, which must be in evaluation mode.

    Args:
        pieces: ids that a tokenizer knows; the few above them, which only fill the vocabulary up to a multiple of 8,
            are never produced, and neither are padding and BOS.
    """

    def __init__(self, model: EncoderDecoder, pieces: int) -> None:
        self.model = model
        self.vocab_size = model.output.out_features
        self.bos_id = BOS
        self.eos_id = EOS
        self.never = torch.zeros(self.vocab_size)
        self.never[[PAD, BOS]] = -torch.inf
        self.never[pieces:] = -torch.inf

    def start(self, sources: Sequence[Sequence[int]]) -> TorchState:
        """Encode; ``sources`` end with EOS."""
        with torch.inference_mode():
            src, src_mask = pad(sources)
            return TorchState(self.model.start(self.model.encode(src, src_mask), src_mask))

    def step_top(self, ids: IntArray, state: TorchState, k: int) -> tuple[Candidates, TorchState]:
        """See :meth:`dragoman.search.stepper.Stepper.step_top`."""
        with torch.inference_mode():
            log_probs, state = self._step(ids, state)
            best, which = log_probs.topk(k)
            return Candidates(which.numpy(), best.numpy()), state

    def step_full(self, ids: IntArray, state: TorchState) -> tuple[FloatArray, TorchState]:
        """See :meth:`dragoman.search.stepper.Stepper.step_full`."""
        with torch.inference_mode():
            log_probs, state = self._step(ids, state)
            return log_probs.numpy(), state

    def beam_search(self, requests: Iterable[SourceRequest], settings: SearchConfig, slots: int) -> Iterator[Found]:
        """See :func:`dragoman.search.beam.beam_search`."""
        return beam_search(self, requests, settings, slots)

    def log_probs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of every token of given targets (with EOS) after given sources (with EOS)."""
        with torch.inference_mode():
            src, src_mask = pad(sources)
            tgt, _ = pad([[BOS, *target] for target in targets])
            log_probs = self.model(src, src_mask, tgt[:, :-1]).log_softmax(-1)
            chosen = log_probs.gather(-1, tgt[:, 1:, None]).squeeze(-1)
            return [row[: len(target)].tolist() for row, target in zip(chosen, targets, strict=True)]

    def align(self, source: Sequence[int], target: Sequence[int]) -> FloatArray:
        """How much each target token (row) looked at each source token (column).

        It is the cross-attention of the last layer, mean over its heads; every row sums to 1.

        Args:
            source: ids with EOS.
            target: ids, with EOS if the end was reached.
        """
        seen: list[Tensor] = []

        def observe(weights: Tensor) -> Tensor:
            seen.append(weights)
            return weights

        layer = self.model.decoder.layers[-1]
        layer.cross_attention.observer = observe  # type: ignore[union-attr]
        try:
            self.log_probs([source], [target])
        finally:
            layer.cross_attention.observer = None  # type: ignore[union-attr]
        return seen[0][0].mean(0).numpy()

    def _step(self, ids: IntArray, state: TorchState) -> tuple[Tensor, TorchState]:
        logits, cache = self.model.step(torch.from_numpy(np.ascontiguousarray(ids))[:, None], state.cache)
        return logits[:, 0].log_softmax(-1) + self.never, TorchState(cache)
