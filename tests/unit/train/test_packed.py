"""The fused update against PyTorch's: loss, every gradient, dropout, the optimizer; and what is refused."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.config import Config, merge
from dragoman.data.batch import Batch, collate
from dragoman.engine.library import open_library
from dragoman.errors import EngineError
from dragoman.loss import token_loss
from dragoman.model.dropout import Dropout
from dragoman.model.families import EncoderDecoder
from dragoman.train.loop import SEEDS_APART
from dragoman.train.packed import Packed
from dragoman.train.path import FusedPath, PlainPath, choose
from dragoman.train.state import Training, begin
from dragoman.train.step import drawn

VOCAB, LONGEST = 104, 40
SIZES = {"d_model": 64, "num_heads": 2, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
SHAPES = [
    {"norm_first": norm_first, "activation": activation, "positions": positions, "tied": tied}
    for norm_first, (activation, positions, tied) in itertools.product(
        (True, False),
        (
            ("relu", "sinusoidal", "three-way"),
            ("gelu", "learned", "output"),
            ("swiglu", "sinusoidal_half", "none"),
            ("geglu", "learned", "three-way"),
        ),
    )
]


def config(train: dict[str, Any] | None = None, **model: Any) -> Config:
    """Settings of a small model, in float32 unless ``train`` says otherwise, also where bfloat16 is fast."""
    sizes, steps = {**SIZES, "max_positions": 64, **model}, {"precision": "float32", **(train or {})}
    return merge([{"model": sizes, "train": steps, "data": {"max_length": 39}}])


def pairs(count: int, seed: int = 5) -> Batch:
    """Random pairs of 1 to 30 tokens."""
    draws = np.random.default_rng(seed)
    sides = [draws.integers(3, VOCAB, draws.integers(1, 30)).tolist() for _ in range(2 * count)]
    return collate(list(zip(sides[::2], sides[1::2], strict=True)))


def training(settings: Config) -> Training:
    """A training whose vectors are not all zeros and ones."""
    begun = begin(settings, VOCAB, VOCAB)
    draws = torch.Generator().manual_seed(4)
    for model in (begun.model, begun.average):
        draws.manual_seed(4)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data += 0.1 * torch.randn(parameter.shape, generator=draws)
    return begun


def packed(begun: Training, settings: Config) -> Packed:
    """The fused update of ``begun``."""
    return Packed(begun.model, begun.average, begun.optimizer, settings.model, settings.train, LONGEST)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """A copy of every gradient."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def reference(model: EncoderDecoder, batch: Batch, smoothing: float = 0.1) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients by PyTorch."""
    model.zero_grad()
    logits = model(batch.src, batch.src_mask, batch.tgt_in)
    loss = token_loss(logits, batch.tgt_out, batch.tgt_mask, smoothing) / batch.tgt_tokens
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), gradients(model)


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor], error: float, cosine: float) -> None:
    """Each gradient as long as the other and in its direction.

    A bias of the keys has none: it moves all scores of a query alike; what is found there is rounding.
    """
    assert found.keys() == wanted.keys()
    for name, right in wanted.items():
        left = found[name]
        if name.endswith("key_value.bias"):
            left, right = left.chunk(2)[1], right.chunk(2)[1]
        assert float((left - right).norm()) <= error * float(right.norm()), name
        assert float(nn.functional.cosine_similarity(left.flatten(), right.flatten(), 0)) >= cosine, name


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_are_those_of_pytorch(shape: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    settings = config(dropout=0.0, **shape)
    begun, batch = training(settings), pairs(60)
    loss, wanted = reference(begun.model, batch)
    fused = packed(begun, settings)
    assert fused.accumulate([batch], batch.tgt_tokens, 1) == pytest.approx(loss, rel=1e-5)
    assert_same(gradients(begun.model), wanted, 2e-5, 0.999999)
    squares = sum(float(gradient.double().square().sum()) for gradient in gradients(begun.model).values())
    assert fused.norm() == pytest.approx(squares**0.5, rel=1e-5)


class DrawnMask(nn.Module):
    """Dropout with the masks that the kernels draw for one place in the model."""

    def __init__(self, site: int, seed: int, dropped: int, mask: Tensor) -> None:
        super().__init__()
        self.site, self.seed, self.dropped, self.mask = site, seed, dropped, mask

    def forward(self, x: Tensor) -> Tensor:
        """``x`` times the mask, rows being counted over the real tokens of the batch."""
        factors = np.empty((int(self.mask.sum()), x.shape[-1]), np.float32)
        open_library().dragoman_dropout(self.seed, self.site, self.dropped, 0, *factors.shape, factors.ctypes.data)
        return x * torch.zeros_like(x).masked_scatter(self.mask[..., None], torch.from_numpy(factors))


def dropouts(model: EncoderDecoder) -> Iterator[tuple[nn.Module, str, bool]]:
    """Each dropout in the order of the kernels: its owner, its name, whether it stands on the source's side."""
    yield model.src_embedding, "dropout", True
    yield model.tgt_embedding, "dropout", False
    for is_source, stack in ((True, model.encoder), (False, model.decoder)):
        for layer in stack.layers:
            for name in ("self_attention_residual", "cross_attention_residual", "feed_forward_residual"):
                if name in dict(layer.named_children()):
                    yield getattr(layer, name), "dropout", is_source


def draw_like_kernels(model: EncoderDecoder, batch: Batch, rate: float, seed: int) -> None:
    """Give ``model`` the masks that the kernels draw for ``batch``."""
    for site, (owner, name, is_source) in enumerate(dropouts(model)):
        mask = batch.src_mask if is_source else batch.tgt_mask
        setattr(owner, name, DrawnMask(site, drawn(seed, 0), Dropout(rate).dropped, mask))


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients_with_dropout_are_those_of_pytorch_with_the_same_masks(norm_first: bool) -> None:
    settings = config(dropout=0.3, norm_first=norm_first)
    begun, batch = training(settings), pairs(40)
    fused = packed(begun, settings)
    loss = fused.accumulate([batch], batch.tgt_tokens, 9)
    found = gradients(begun.model)
    draw_like_kernels(begun.model, batch, 0.3, 9)
    wanted_loss, wanted = reference(begun.model, batch)
    assert loss == pytest.approx(wanted_loss, rel=1e-5)
    assert_same(found, wanted, 3e-5, 0.999999)


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients_in_eval_mode_are_those_of_pytorch(norm_first: bool) -> None:
    """Without dropout, and nothing else is different: the kernels made for the other mode find other gradients."""
    settings = config(dropout=0.3, norm_first=norm_first)
    begun, batch = training(settings), pairs(40)
    in_training = packed(begun, settings)
    other = in_training.accumulate([batch], batch.tgt_tokens, 1)
    begun.model.eval()
    loss, wanted = reference(begun.model, batch)
    fused = packed(begun, settings)
    assert fused.accumulate([batch], batch.tgt_tokens, 1) == pytest.approx(loss, rel=1e-5)
    assert_same(gradients(begun.model), wanted, 2e-5, 0.999999)
    assert abs(other - loss) > 1e-3
    with pytest.raises(EngineError, match="its other mode"):
        in_training.accumulate([batch], batch.tgt_tokens, 1)


def test_masks_are_as_dense_as_asked_and_differ_by_row_site_and_seed() -> None:
    def drawn(seed: int, site: int, rate: float = 0.25) -> np.ndarray:
        out = np.empty((2000, 80), np.float32)
        open_library().dragoman_dropout(seed, site, Dropout(rate).dropped, 0, *out.shape, out.ctypes.data)
        return out

    one = drawn(1, 0)
    assert set(np.unique(one)) == {np.float32(0), np.float32(1 / 0.75)}
    kept = one > 0
    assert abs(kept.mean() - 0.75) < 0.004
    assert np.abs(kept.mean(0) - 0.75).max() < 0.06
    for other in (drawn(2, 0) > 0, drawn(1, 1) > 0, np.roll(kept, 1, axis=0), np.roll(kept, 1, axis=1)):
        agreement = (kept == other).mean()
        assert abs(agreement - (0.75**2 + 0.25**2)) < 0.006


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_products_of_halves_are_close(shape: dict[str, Any], rate: float) -> None:
    """A rounding moves some sums over zero, where the slope of the ReLU jumps; other activations have no such place.

    What a trained model makes of it is in docs/notes/0009-training.md.
    """
    error, cosine = (0.055, 0.998) if shape["activation"] == "relu" else (0.015, 0.9999)
    settings = config({"precision": "bfloat16"}, dropout=rate, **shape)
    begun, batch = training(settings), pairs(60)
    loss = packed(begun, settings).accumulate([batch], batch.tgt_tokens, 9)
    found = gradients(begun.model)
    draw_like_kernels(begun.model, batch, rate, 9)
    wanted_loss, wanted = reference(begun.model, batch)
    assert loss == pytest.approx(wanted_loss, rel=2e-4)
    assert_same(found, wanted, error, cosine)


def test_small_batches_add_up_to_a_big_one() -> None:
    settings = config(dropout=0.0)
    begun, batches = training(settings), [pairs(10, 1), pairs(25, 2), pairs(1, 3)]
    total = sum(batch.tgt_tokens for batch in batches)
    losses, parts = zip(*(reference(begun.model, batch) for batch in batches), strict=True)
    shares = [batch.tgt_tokens / total for batch in batches]
    loss = packed(begun, settings).accumulate(batches, total, 1)
    assert loss == pytest.approx(sum(share * each for share, each in zip(shares, losses, strict=True)), rel=1e-5)
    wanted = {name: sum(share * part[name] for share, part in zip(shares, parts, strict=True)) for name in parts[0]}
    assert_same(gradients(begun.model), wanted, 2e-5, 0.999999)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize(("threads", "activation"), [(1, "relu"), (3, "swiglu")])
def test_updates_are_those_of_pytorch_and_of_the_average(
    optimizer: str, decay: float, threads: int, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A large epsilon: else Adam makes whole steps of gradients that are hardly more than rounding.
    train = {"optimizer": optimizer, "weight_decay": decay, "ema_decay": 0.9, "clip_norm": 0.5, "adam_epsilon": 1e-3}
    settings = config(train, dropout=0.0, activation=activation)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    begun, other = training(settings), training(settings)
    fused, plain = FusedPath(begun, settings), PlainPath(other, settings)
    for step in range(1, 6):
        batch = pairs(20, step)
        for path in (fused, plain):
            path.update(path.gradient([batch], step), 3e-3, step)
    for mine, theirs in ((begun.model, other.model), (begun.average, other.average)):
        for (name, left), right in zip(mine.named_parameters(), theirs.parameters(), strict=True):
            if name.endswith("key_value.bias"):
                left, right = left.chunk(2)[1], right.chunk(2)[1]
            assert torch.allclose(left, right, atol=1e-5), name
    assert {float(state["step"]) for state in begun.optimizer.state.values()} == {5.0}


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_an_update_is_the_same_on_any_number_of_threads(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, for one gradient; the gradient itself is added up thread by thread."""
    settings = config({"optimizer": optimizer}, activation="swiglu")
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        begun = training(settings)
        fused = packed(begun, settings)
        for step in range(1, 4):
            fused.gradient.copy_(torch.randn(fused.gradient.shape, generator=torch.Generator().manual_seed(step)))
            fused.update(3e-3, 0.5, 0.9)
        found.append([*begun.model.parameters(), *begun.average.parameters()])
    for others in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], others, strict=True))


def test_a_norm_is_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may differ in it, and clip by the same number all the same."""
    norms = set[float]()
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
        settings = config()
        fused = packed(training(settings), settings)
        fused.gradient.copy_(torch.randn(fused.gradient.shape, generator=torch.Generator().manual_seed(1)))
        norms.add(fused.norm())
    assert len(norms) == 1


def test_an_empty_side_is_as_good_as_any() -> None:
    """It has an EOS."""
    settings = config(dropout=0.0)
    begun = training(settings)
    sides: list[list[int]] = [[], [5], [6, 7, 8, 9]]
    batch = collate(list(itertools.product(sides, sides)))
    loss, wanted = reference(begun.model, batch)
    fused = packed(begun, settings)
    assert fused.accumulate([batch], batch.tgt_tokens, 1) == pytest.approx(loss, rel=1e-5)
    assert_same(gradients(begun.model), wanted, 2e-5, 0.999999)


@pytest.mark.parametrize("is_fast", [0, 1])
def test_factors_are_halves_where_that_is_fast(is_fast: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine:
        dragoman_has_bfloat16 = staticmethod(lambda: is_fast)

        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

    library = open_library()
    monkeypatch.setattr("dragoman.train.packed.open_library", Machine)
    found = [
        packed(training(settings), settings).precision
        for settings in (config({"precision": each}) for each in ("auto", "float32", "bfloat16"))
    ]
    assert found == ["bfloat16" if is_fast else "float32", "float32", "bfloat16"]


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_every_bit_of_a_seed_counts_for_dropout(backend: str) -> None:
    """Two seeds, and two workers, draw other masks for the same update; one draws the same again."""
    settings = config({"backend": backend}, dropout=0.3)
    path, batch = choose(training(settings), settings, lambda _: None), pairs(20)
    seeds = [(seed << 32) + step for seed, step in ((1, 5), (2, 5), (1 + SEEDS_APART, 5), (1, 6), (1, 5))]
    losses = [path.gradient([batch], seed).loss for seed in seeds]
    assert len(set(losses)) == 4
    assert losses[-1] == losses[0]


def test_what_the_kernels_do_not_fit_is_trained_by_pytorch() -> None:
    told: list[str] = []
    settings = config(d_model=40, num_heads=2)
    assert isinstance(choose(training(settings), settings, told.append), PlainPath)
    assert "d_model / num_heads is 20" in told[0]
    forced = config({"backend": "native"}, d_model=40, num_heads=2)
    with pytest.raises(EngineError, match="not a multiple of 16"):
        choose(training(forced), forced, told.append)
    plain = config({"backend": "torch"})
    assert isinstance(choose(training(plain), plain, told.append), PlainPath)
    assert isinstance(choose(training(config()), config(), told.append), FusedPath)
    assert len(told) == 1


def test_a_pair_that_is_too_long_is_refused_in_words() -> None:
    settings = config()
    long = collate([([5] * 50, [6])])
    with pytest.raises(EngineError, match="the source of pair 0 has 51 tokens; 1 to 40 are possible"):
        packed(training(settings), settings).accumulate([long], 2, 1)


def test_lack_of_memory_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config()
    fused = packed(training(settings), settings)
    monkeypatch.setattr("dragoman.train.packed.last_error", lambda _: "out of memory")
    with pytest.raises(MemoryError):
        fused.accumulate([collate([([5] * 50, [6])])], 2, 1)
