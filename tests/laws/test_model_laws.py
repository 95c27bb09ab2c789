"""Laws 1-5, 9 and 15 of the model, in float64, over its variants: who sees what, and many ways to one number."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.data.batch import collate, pad
from dragoman.loss import token_loss
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention, attend, attend_fused, attention_weights
from dragoman.model.families import EncoderDecoder
from toys import VARIANTS, VOCAB, name_of, toy_model

every_pair_of_choices = pytest.mark.parametrize("variant", VARIANTS, ids=name_of)

SOURCES = [[5, 3, 3, 12, 2], [4, 2], [9, 9, 8, 2]]
TARGETS = [[1, 7, 0, 7], [1, 6, 5, 4, 3, 11], [1]]


def logits_of(model: EncoderDecoder, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    """Each row's logits at its real positions."""
    src, src_mask = pad(sources)
    tgt, _ = pad(targets)
    logits = model(src, src_mask, tgt)
    return [row[: len(target)] for row, target in zip(logits, targets, strict=True)]


def close(mine: Tensor, reference: Tensor, tolerance: float = 1e-10) -> bool:
    return mine.shape == reference.shape and bool(((mine - reference).abs() <= tolerance).all())


@every_pair_of_choices
def test_the_future_changes_no_earlier_logit(variant: dict[str, Any]) -> None:
    """Law 1, to the last bit, also in training mode, where dropout draws the same for the same seed."""
    for model in (toy_model(**variant), toy_model(**variant, dropout=0.3).train()):
        tgt = torch.tensor([[1, 7, 5, 7, 4]])
        before = seeded(model, tgt)
        for place in range(1, 5):
            changed = tgt.clone()
            changed[0, place] = 9
            after = seeded(model, changed)
            assert torch.equal(before[:, :place], after[:, :place])
            assert (before[:, place:] != after[:, place:]).any(-1).all()


def seeded(model: EncoderDecoder, tgt: Tensor) -> Tensor:
    torch.manual_seed(5)
    return model(torch.tensor([SOURCES[0]]), None, tgt)


@every_pair_of_choices
def test_every_source_token_reaches_every_position(variant: dict[str, Any]) -> None:
    model = toy_model(**variant)
    src = torch.tensor([SOURCES[0]])
    before = model.encode(src, None)
    for place in range(src.shape[1]):
        changed = src.clone()
        changed[0, place] = 10
        assert (model.encode(changed, None) != before).any(-1).all()


@every_pair_of_choices
def test_padding_has_no_content(variant: dict[str, Any]) -> None:
    """Law 2, to the last bit: other ids under the padding of both sides, and another amount of padding."""
    model = toy_model(**variant)
    src, src_mask = pad(SOURCES)
    tgt, tgt_mask = pad(TARGETS)
    logits = model(src, src_mask, tgt)
    other = model(torch.where(src_mask, src, 11), src_mask, torch.where(tgt_mask, tgt, 8))
    assert torch.equal(logits[tgt_mask], other[tgt_mask])
    wider = torch.nn.functional.pad
    longer = model(wider(src, (0, 3)), wider(src_mask, (0, 3)), wider(tgt, (0, 2)))
    assert longer.shape == (3, 8, VOCAB)
    assert close(longer[:, :6][tgt_mask], logits[tgt_mask])


@every_pair_of_choices
def test_neighbours_do_not_matter(variant: dict[str, Any]) -> None:
    """Laws 3 and 15: in any order, and alone."""
    model = toy_model(**variant)
    together = logits_of(model, SOURCES, TARGETS)
    order = [2, 0, 1]
    permuted = logits_of(model, [SOURCES[i] for i in order], [TARGETS[i] for i in order])
    for place, i in enumerate(order):
        [alone] = logits_of(model, [SOURCES[i]], [TARGETS[i]])
        assert close(permuted[place], together[i])
        assert close(alone, together[i])


@every_pair_of_choices
@pytest.mark.parametrize("chunks", [[1] * 6, [3, 1, 2], [6]], ids=str)
def test_step_by_step_is_all_at_once(variant: dict[str, Any], chunks: list[int]) -> None:
    """Law 4."""
    model = toy_model(**variant)
    tgt = torch.tensor([[1, 7, 0, 7, 3, 4], [1, 6, 5, 4, 3, 11], [1, 2, 2, 9, 0, 12]])
    src, src_mask = pad(SOURCES)
    cache = model.start(model.encode(src, src_mask), src_mask)
    steps = []
    for ids in tgt.split(chunks, dim=1):
        logits, cache = model.step(ids, cache)
        steps.append(logits)
    assert close(torch.cat(steps, dim=1), model(src, src_mask, tgt))


def test_step_by_step_in_float32() -> None:
    model = toy_model(torch.float32, num_decoder_layers=3)
    tgt = torch.randint(3, VOCAB, (3, 20), generator=torch.Generator().manual_seed(1))
    src, src_mask = pad(SOURCES)
    cache = model.start(model.encode(src, src_mask), src_mask)
    expected = model(src, src_mask, tgt)
    for place in range(20):
        logits, cache = model.step(tgt[:, place : place + 1], cache)
        assert close(logits[:, 0], expected[:, place], 1e-5)


MODELS = [toy_model(**VARIANTS[number]) for number in (0, 3, 6, 9)]
FRESH = st.lists(st.lists(st.integers(3, VOCAB - 1), max_size=5).map(lambda ids: [*ids, 2]), min_size=1, max_size=3)


@settings(max_examples=20)
@given(st.data())
def test_any_life_of_a_cache(data: st.DataObject) -> None:
    """Law 5 and more: rows are repeated, dropped, reordered and joined by others at any step, and each goes on alone.

    After every step each row's logits and keys are those of its own sentence and prefix, computed all at once.
    """
    model = data.draw(st.sampled_from(MODELS))
    rows = [(source, [1]) for source in data.draw(FRESH)]
    cache = start(model, [source for source, _ in rows])
    for deed in data.draw(st.lists(st.sampled_from(["step", "step", "select", "join"]), min_size=2, max_size=7)):
        if deed == "select":
            chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
            rows, cache = [rows[i] for i in chosen], cache.select(torch.tensor(chosen))
        elif deed == "join":
            fresh = data.draw(FRESH)
            rows = [*rows, *((source, [1]) for source in fresh)]
            cache = cache.join(start(model, fresh))
        else:
            logits, cache = model.step(torch.tensor([[prefix[-1]] for _, prefix in rows]), cache)
            for row, (source, prefix) in enumerate(rows):
                expected, alone = model.step(torch.tensor([prefix]), start(model, [source]))
                assert close(logits[row, 0], expected[0, -1])
                assert close(keys_of(cache, row), keys_of(alone, 0))
            new = data.draw(st.lists(st.integers(0, VOCAB - 1), min_size=len(rows), max_size=len(rows)))
            rows = [(source, [*prefix, token]) for (source, prefix), token in zip(rows, new, strict=True)]


def start(model: EncoderDecoder, sources: list[list[int]]) -> Any:
    src, src_mask = pad(sources)
    return model.start(model.encode(src, src_mask), src_mask)


def keys_of(cache: Any, row: int) -> Tensor:
    """Keys and values of a row in all layers, without the columns before its first token."""
    filled = cache.filled[row]
    return torch.stack([torch.stack([layer.keys[row], layer.values[row]]) for layer in cache.layers])[..., filled, :]


def test_a_cache_is_a_value() -> None:
    model = toy_model()
    cache = start(model, SOURCES)
    first, stepped = model.step(torch.tensor([[1], [1], [1]]), cache)
    again, _ = model.step(torch.tensor([[1], [1], [1]]), cache)
    stepped.select(torch.tensor([2, 0])).join(cache)
    second, _ = model.step(torch.tensor([[4], [5], [6]]), stepped)
    assert torch.equal(first, again)
    assert cache.filled.shape == (3, 0)
    assert torch.equal(second, model.step(torch.tensor([[4], [5], [6]]), stepped)[0])


def test_the_order_of_beams_does_not_matter() -> None:
    """Rows of one sentence read its keys together, whether they stand side by side or not."""
    model = toy_model()
    _, cache = model.step(torch.tensor([[1], [1], [1]]), start(model, SOURCES))
    grouped = cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    mixed = cache.select(torch.tensor([0, 1, 2, 0, 1, 2]))
    order = torch.tensor([0, 2, 4, 1, 3, 5])
    ids = torch.arange(3, 9)[:, None]
    assert close(model.step(ids, grouped)[0][order], model.step(ids[order], mixed)[0])


def test_no_rows_at_all() -> None:
    model = toy_model()
    _, cache = model.step(torch.tensor([[1], [1], [1]]), start(model, SOURCES))
    nobody = cache.select(torch.tensor([], dtype=torch.int64))
    logits, nobody = model.step(torch.empty(0, 1, dtype=torch.int64), nobody)
    assert logits.shape == (0, 1, VOCAB)
    logits, _ = model.step(torch.tensor([[1], [1], [1]]), nobody.join(start(model, SOURCES)))
    assert close(logits[:, 0], model(*pad(SOURCES), torch.ones(3, 1, dtype=torch.int64))[:, 0])


@st.composite
def attentions(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys, values and a mask of any shape that broadcasts; it may hide everything from a query."""
    batch, heads, q_len, k_len = (draw(st.integers(1, 3)) for _ in range(4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shapes = ((batch, heads, length, 4) for length in (q_len, k_len, k_len))
    queries, keys, values = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    kind = draw(st.sampled_from(["none", "random", "causal", "padding", "nothing"]))
    if kind == "none":
        return queries, keys, values, None
    if kind == "causal":
        return queries, keys, values, masks.causal(q_len, k_len)[None, None]
    if kind == "padding":
        lengths = torch.randint(0, k_len + 1, (batch,), generator=generator)
        return queries, keys, values, masks.padding(lengths, k_len)[:, None, None]
    shape = [draw(st.sampled_from([1, size])) for size in (batch, heads, q_len)]
    looks = torch.rand(*shape, k_len, generator=generator) < (0.6 if kind == "random" else 0.0)
    return queries, keys, values, looks


@settings(max_examples=80)
@given(attentions())
def test_fused_is_explicit(drawn: tuple[Tensor, Tensor, Tensor, Tensor | None]) -> None:
    """Law 9, values and gradients; a query that may look at nothing gets zeros, and all gradients are finite."""
    *inputs, mask = drawn
    weights = attention_weights(inputs[0], inputs[1], mask)
    shape = weights.shape
    looks = torch.ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
    assert (weights[~looks] == 0).all()
    assert close(weights.sum(-1), looks.any(-1).double())
    outcomes = [values_and_gradients(way, inputs, mask) for way in (attend, attend_fused)]
    for explicit, fused in zip(*outcomes, strict=True):
        assert explicit.isfinite().all()
        assert close(explicit, fused)
    assert (outcomes[1][0][~looks.any(-1)] == 0).all()


def values_and_gradients(way: Callable[..., Tensor], inputs: list[Tensor], mask: Tensor | None) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    mixed = way(*leaves, mask)
    weights = torch.arange(1.0, mixed.numel() + 1, dtype=torch.float64).reshape(mixed.shape)
    return [mixed.detach(), *torch.autograd.grad((mixed * weights).sum(), leaves)]


@every_pair_of_choices
def test_being_watched_changes_nothing(variant: dict[str, Any]) -> None:
    """Law 9 for the whole model: with an observer in every attention the logits and gradients are the same.

    The weights seen are those of section 3.2.1, before anything random, also in training mode.
    """
    model = toy_model(**variant)
    src, src_mask = pad([*SOURCES, []])
    tgt, _ = pad([*TARGETS, [1, 3]])
    plain = model(src, src_mask, tgt)
    wanted = torch.autograd.grad(plain.sin().sum(), list(model.parameters()), allow_unused=True)
    seen = watch(model)
    watched = model(src, src_mask, tgt)
    found = torch.autograd.grad(watched.sin().sum(), list(model.parameters()), allow_unused=True)
    assert close(watched, plain)
    for gradient, expected in zip(found, wanted, strict=True):
        assert gradient is expected is None or close(gradient, expected, 1e-8)
    assert len(seen) == 4
    encoder, _, _, cross = seen
    assert close(encoder[:3].sum(-1), torch.ones_like(encoder[:3].sum(-1)))
    assert close(cross[:3].sum(-1), torch.ones_like(cross[:3].sum(-1)))
    assert (encoder[1, :, :, 2:] == 0).all()
    assert (encoder[3] == 0).all()
    assert (cross[3] == 0).all()


def watch(model: EncoderDecoder) -> list[Tensor]:
    seen: list[Tensor] = []

    def observe(weights: Tensor) -> Tensor:
        seen.append(weights.detach())
        return weights

    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.observer = observe
    return seen


def test_an_observer_sees_weights_without_dropout_and_may_change_them() -> None:
    model = toy_model(dropout=0.5).train()
    seen = watch(model)
    logits = model(torch.tensor([SOURCES[0]]), None, torch.tensor([TARGETS[0]]))
    for weights in seen:
        assert close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    model.eval().decoder.layers[0].cross_attention.observer = torch.zeros_like
    ablated = model(torch.tensor([SOURCES[0]]), None, torch.tensor([TARGETS[0]]))
    assert not torch.allclose(ablated, logits)


@every_pair_of_choices
def test_a_sentence_without_tokens_poisons_nothing(variant: dict[str, Any]) -> None:
    """A source of length 0 has finite logits, and a batch with one has the gradient of the batch without it."""
    model = toy_model(**variant)
    parameters = list(model.parameters())

    def gradients(sources: list[list[int]], targets: list[list[int]], counted: int) -> list[Tensor]:
        src, src_mask = pad(sources)
        tgt, real = pad(targets)
        real[counted:] = False
        logits = model(src, src_mask, tgt)
        assert logits.isfinite().all()
        return list(torch.autograd.grad(token_loss(logits, tgt, real, 0.1), parameters))

    with_empty = gradients([*SOURCES, []], [*TARGETS, [1, 3]], counted=3)
    without = gradients(SOURCES, TARGETS, counted=3)
    for gradient, expected in zip(with_empty, without, strict=True):
        assert close(gradient, expected, 1e-9)
    everyone = gradients([*SOURCES, []], [*TARGETS, [1, 3]], counted=4)
    assert all(gradient.isfinite().all() for gradient in everyone)


def test_an_empty_line_is_a_source_of_one_token() -> None:
    """In a batch an empty side carries EOS, so that no real row is ever blind."""
    batch = collate([([5, 6], [7]), ([], []), ([8], [])])
    assert batch.src.tolist() == [[5, 6, 2], [2, 0, 0], [8, 2, 0]]
    assert batch.tgt_out.tolist() == [[7, 2], [2, 0], [2, 0]]
    assert batch.tgt_mask.tolist() == [[True, True], [True, False], [True, False]]
    model = toy_model()
    loss = token_loss(model(batch.src, batch.src_mask, batch.tgt_in), batch.tgt_out, batch.tgt_mask, 0.1)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("variant", [VARIANTS[number] for number in (1, 3, 4, 6, 8, 15)], ids=name_of)
def test_gradients_by_finite_differences(variant: dict[str, Any]) -> None:
    """Along a random direction in each parameter alone, the loss grows as the gradient says; every choice is met."""
    model = toy_model(**variant)
    src, src_mask = pad(SOURCES)
    tgt, real = pad([[1, 7, 0, 7, 2], [1, 6, 5, 4], [1, 2]])

    def loss() -> Tensor:
        return token_loss(model(src, src_mask, tgt[:, :-1]), tgt[:, 1:], real[:, 1:], 0.1)

    generator = torch.Generator().manual_seed(7)
    gradients = torch.autograd.grad(loss(), list(model.parameters()))
    step = 1e-5
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        direction /= direction.norm()
        with torch.no_grad():
            parameter += step * direction
            above = loss()
            parameter -= 2 * step * direction
            below = loss()
            parameter += step * direction
        measured, expected = float((above - below) / (2 * step)), float((gradient * direction).sum())
        assert measured == pytest.approx(expected, rel=1e-6, abs=1e-8), name
