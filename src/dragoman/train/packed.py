"""Updates by the kernels in ``native/``: tokens without padding, every step of the pass fused, logits never kept."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import Config, ModelConfig, TrainConfig
from dragoman.data.batch import Batch
from dragoman.engine.library import ACTIVATIONS, CAdam, CNetwork, COrthogonal, CPairs, last_error, open_library
from dragoman.errors import EngineError
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.dropout import Dropout
from dragoman.model.families import EncoderDecoder
from dragoman.model.feedforward import FeedForward
from dragoman.model.positions import LearnedPositions
from dragoman.train.optimizer import start_state
from dragoman.train.orthogonal import MARGIN, MOMENTUM, POLYNOMIALS, SIZE, TINY
from dragoman.train.step import drawn

BLOCK = 16
"""What the kernels want the widths of heads and of the feed-forward network to be multiples of."""


def obstacle(config: ModelConfig) -> str:
    """Why the kernels cannot train a model of these sizes; empty where they can."""
    for name, width in (("d_model / num_heads", config.d_model // config.num_heads), ("d_ff", config.d_ff)):
        if width % BLOCK:
            return f"model.{name} is {width}, not a multiple of {BLOCK}"
    return ""


def require(config: Config) -> None:
    """See, before a corpus is read to its end, that ``train.backend`` is to be had.

    Raises:
        EngineError: it is ``native``, and there are no kernels, or none that fit.
    """
    if config.train.backend == "native":
        open_library()
        if reason := obstacle(config.model):
            raise EngineError(f"the training kernels do not fit: {reason}")


class Packed:
    """The gradient of a model, and its update, computed by the shared library in threads of its own.

    The parameters stay where they are: the library reads and writes the memory of the tensors. There is dropout if the
    model is in training mode now; it must stay in its mode.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        average: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: ModelConfig,
        train: TrainConfig,
        longest: int,
        memory: Callable[[int], Tensor] = torch.zeros,
    ) -> None:
        """See above.

        Args:
            longest: tokens of the longest side of a pair, EOS included.
            memory: of which the gradient is made; zeros, as many as asked for.

        Raises:
            EngineError: there is no library, or it cannot train a model of these sizes.
        """
        if reason := obstacle(config):
            raise EngineError(f"the training kernels do not fit: {reason}")
        self.library = open_library()
        self.model, self.average, self.optimizer, self.train = model, average, optimizer, train
        self.parameters = list(_in_order(model))
        self.averages = list(_in_order(average))  # type: ignore[arg-type]
        self.gradient = _flat_gradient(model, memory)
        self._is_training = model.training
        self._settings = _Settings(optimizer, self.parameters)
        self.precision = _precision(train)
        self._kept = _Network(model, config, self.precision, self.parameters, longest)
        self._trainer = self.library.dragoman_trainer_new(ctypes.byref(self._kept.network))
        if not self._trainer:
            raise self._failure()

    def __del__(self) -> None:
        if getattr(self, "_trainer", None):
            self.library.dragoman_trainer_free(self._trainer)

    def accumulate(self, batches: Sequence[Batch], total: int, seed: int) -> float:
        """Set the gradient to that of the loss of ``batches`` divided by ``total``, and return that loss.

        Raises:
            MemoryError: there is not enough.
            EngineError: a pair is too long, or the model has changed its mode.
        """
        if self.model.training != self._is_training:
            raise EngineError(
                "the kernels were made for the model in its other mode, train() or eval(); make them anew"
            )
        loss = 0.0
        if not batches:
            self.gradient.zero_()
        for number, batch in enumerate(batches):
            found = ctypes.c_double()
            pairs = _Pairs(batch)
            self._check(
                self.library.dragoman_trainer_gradient(
                    self._trainer,
                    ctypes.byref(pairs.pairs),
                    drawn(seed, number),
                    self.train.label_smoothing,
                    1 / total,
                    number > 0,
                    ctypes.byref(found),
                )
            )
            loss += found.value / total
        return loss

    def norm(self) -> float:
        """Length of the whole gradient."""
        norm = float(self.library.dragoman_trainer_norm(self._trainer))
        self._check(-1 if norm < 0 else 0)
        return norm

    def update(self, rate: float, scale: float, keep: float) -> None:
        """One update of weights, moments and average; see :func:`dragoman.train.optimizer.build_optimizer`.

        Args:
            scale: what the gradient is multiplied with first.
            keep: what the average keeps of itself.

        Raises:
            MemoryError: there is not enough; nothing has moved.
        """
        states = [
            self.optimizer.state[parameter] or start_state(self.optimizer, parameter, rows == 0)
            for parameter, (rows, *_) in zip(self.parameters, self._settings.blocks, strict=True)
        ]
        step = float(states[0]["step"]) + 1
        beta1, beta2 = self.train.adam_betas
        adam = CAdam(
            rate,
            beta1,
            beta2,
            self.train.adam_epsilon,
            1 - beta1**step,
            1 - beta2**step,
            scale,
            keep,
            self._settings.decays.ctypes.data,
        )
        tables = [
            _pointers([state["exp_avg"] for state in states]),
            _pointers([state.get("exp_avg_sq") for state in states]),
            _pointers(self.averages),
        ]
        self._check(
            self.library.dragoman_trainer_update(
                self._trainer,
                ctypes.byref(adam),
                ctypes.byref(self._settings.orthogonal),
                *(table.ctypes.data for table in tables),
            )
        )
        for state in {id(state): state for state in states}.values():
            state["step"] += 1

    def _check(self, result: int) -> None:
        if result < 0:
            raise self._failure()

    def _failure(self) -> Exception:
        message = last_error(self.library)
        return MemoryError(message) if message == "out of memory" else EngineError(message)


def _precision(train: TrainConfig) -> Literal["float32", "bfloat16"]:
    """What ``train.precision`` means here."""
    if train.precision != "auto":
        return train.precision
    return "bfloat16" if open_library().dragoman_has_bfloat16() else "float32"


class _Network:
    """The model as the library wants it told, and the arrays that the telling points to."""

    def __init__(
        self, model: EncoderDecoder, config: ModelConfig, precision: str, parameters: list[Tensor], longest: int
    ) -> None:
        learned = [each.position for each in (model.src_embedding, model.tgt_embedding)]
        is_learned = isinstance(learned[0], LearnedPositions)
        rows = config.max_positions if is_learned else longest
        is_half = precision == "bfloat16"
        places = torch.arange(rows)
        self.tables = [position(places).detach().contiguous() for position in learned]
        self.weights = _pointers(parameters)
        self.gradients = _pointers([parameter.grad for parameter in parameters if parameter.grad is not None])
        self.counts = np.array([parameter.numel() for parameter in parameters], np.int64)
        self.network = CNetwork(
            *(config.d_model, config.num_heads, config.d_ff, config.num_encoder_layers, config.num_decoder_layers),
            *(model.src_embedding.token.weight.shape[0], model.tgt_embedding.token.weight.shape[0]),
            *(config.norm_first, ACTIVATIONS.index(config.activation), is_half),
            *(Dropout(config.dropout).dropped if model.training else 0, rows, torch.get_num_threads(), len(parameters)),
            (ctypes.c_int32 * 6)(0, 1, 2, *((3, 4, 5) if is_learned else (-1, -1, 3))),
            *(table.data_ptr() for table in self.tables),
            *(self.weights.ctypes.data, self.gradients.ctypes.data, self.counts.ctypes.data),
        )


class _Settings:
    """What an update does with each parameter, and the arrays that say it."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> None:
        groups = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
        mine = [groups[parameter] for parameter in parameters]
        shapes = [
            (*group["block"], parameter.shape[1]) if group["block"] else (0, 0, 0)
            for group, parameter in zip(mine, parameters, strict=True)
        ]
        self.decays = np.array([group["weight_decay"] for group in mine], np.float32)
        self.blocks = np.array(shapes, np.int32)
        self.polynomials = np.array(POLYNOMIALS, np.float32)
        self.orthogonal = COrthogonal(
            *(MOMENTUM, SIZE, MARGIN, TINY, len(POLYNOMIALS)),
            *(self.polynomials.ctypes.data, self.blocks.ctypes.data),
        )


class _Pairs:
    """A batch without its padding."""

    def __init__(self, batch: Batch) -> None:
        self.ids = [
            np.ascontiguousarray(ids[mask].numpy(), np.int32)
            for ids, mask in (
                (batch.src, batch.src_mask),
                (batch.tgt_in, batch.tgt_mask),
                (batch.tgt_out, batch.tgt_mask),
            )
        ]
        self.offsets = [_offsets(batch.src_mask), _offsets(batch.tgt_mask)]
        src, tgt_in, tgt_out = (ids.ctypes.data for ids in self.ids)
        src_offsets, tgt_offsets = (offsets.ctypes.data for offsets in self.offsets)
        self.pairs = CPairs(len(batch.src), src, src_offsets, tgt_in, tgt_out, tgt_offsets)


def _offsets(mask: Tensor) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(mask.sum(1).numpy())]).astype(np.int64)


def _pointers(tensors: Sequence[Tensor | None]) -> np.ndarray:
    return np.array([0 if tensor is None else tensor.data_ptr() for tensor in tensors], np.uint64)


def _flat_gradient(model: nn.Module, memory: Callable[[int], Tensor]) -> Tensor:
    """All gradients in one piece of memory, each parameter's ``grad`` a view of its part."""
    parameters = list(model.parameters())
    flat = memory(sum(-(-parameter.numel() // BLOCK) * BLOCK for parameter in parameters))
    start = 0
    for parameter in parameters:
        parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
        start += -(-parameter.numel() // BLOCK) * BLOCK
    return flat


def _in_order(model: EncoderDecoder) -> Iterator[Tensor]:
    """The parameters in the order of ``dragoman_network``."""
    yield model.src_embedding.token.weight
    yield model.tgt_embedding.token.weight
    yield model.output.weight
    for embedding in (model.src_embedding, model.tgt_embedding):
        if isinstance(embedding.position, LearnedPositions):
            yield embedding.position.weight
    for layer in model.encoder.layers:
        yield from _self_attention(layer)
        yield from _feed_forward(layer)
    for layer in model.decoder.layers:
        yield from _self_attention(layer)
        yield from _attention(layer.cross_attention)  # type: ignore[arg-type]
        yield from layer.cross_attention_residual.norm.parameters()  # type: ignore[union-attr]
        yield from _feed_forward(layer)
    for stack in (model.encoder, model.decoder):
        yield from stack.norm.parameters()


def _self_attention(layer: nn.Module) -> Iterator[Tensor]:
    yield from _attention(layer.self_attention)  # type: ignore[arg-type]
    yield from layer.self_attention_residual.norm.parameters()  # type: ignore[union-attr]


def _attention(attention: MultiHeadAttention) -> Iterator[Tensor]:
    for linear in (attention.query, attention.key_value, attention.output):
        yield from linear.parameters()


def _feed_forward(layer: nn.Module) -> Iterator[Tensor]:
    network: FeedForward = layer.feed_forward  # type: ignore[assignment]
    yield from network.inner.parameters()
    yield from network.outer.parameters()
    yield from layer.feed_forward_residual.norm.parameters()  # type: ignore[union-attr]
