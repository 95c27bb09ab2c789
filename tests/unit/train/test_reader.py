"""The stream of training batches: a pure function of seed and corpus, which can be entered anywhere."""

from itertools import islice

import pytest

from dragoman.data import tokenfile
from dragoman.data.batch import Batch
from dragoman.data.tokenfile import TokenFile
from dragoman.text.dropout import BpeDropout
from dragoman.train.step import Place, Reader
from toys import LINES, toy_tokenizer

PAIRS = [(" ".join(f"{word}{number}" for word in line.split()[:4]), line) for number, line in enumerate(LINES * 3)]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    folder = tmp_path_factory.mktemp("corpus") / "train"
    tokenfile.build(folder, PAIRS, toy_tokenizer(), toy_tokenizer(), 1000, drop_duplicates=False)
    return TokenFile.open(folder)


def reader(tokens: TokenFile, rate: float = 0.0, seed: int = 1) -> Reader:
    dropout = BpeDropout(toy_tokenizer(), rate, seed) if rate else None
    return Reader(tokens, 200, seed, dropout, dropout)


def shown(batch: Batch) -> list[object]:
    return [batch.src.tolist(), batch.tgt_in.tolist(), batch.tgt_out.tolist()]


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_entering_anywhere(tokens: TokenFile, rate: float) -> None:
    """From each of the first 25 places the stream goes on as if it had never stopped, over the ends of epochs."""
    whole = list(islice(reader(tokens, rate).read(Place()), 30))
    assert whole[-1][1].epoch >= 2
    for stop in range(25):
        resumed = islice(reader(tokens, rate).read(whole[stop][1]), 5)
        for (batch, place), (expected, after) in zip(resumed, whole[stop + 1 :], strict=False):
            assert place == after
            assert shown(batch) == shown(expected)


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_each_epoch_has_each_pair_once(tokens: TokenFile, rate: float) -> None:
    tokenizer, seen = toy_tokenizer(), dict[int, list[tuple[str, str]]]()
    for batch, place in islice(reader(tokens, rate).read(Place()), 40):
        texts = seen.setdefault(place.epoch, [])
        for src, tgt in zip(batch.src.tolist(), batch.tgt_out.tolist(), strict=True):
            texts.append((tokenizer.decode(src), tokenizer.decode(tgt)))
    normal = sorted(
        (tokenizer.decode(tokenizer.encode(src)), tokenizer.decode(tokenizer.encode(tgt))) for src, tgt in PAIRS
    )
    for epoch in range(max(seen)):
        assert sorted(seen[epoch]) == normal
    assert seen[0] != seen[1]


def test_dropout_cuts_anew_each_epoch(tokens: TokenFile) -> None:
    stream = reader(tokens, 0.3).read(Place())
    cut: dict[int, set[tuple[int, ...]]] = {}
    for batch, place in islice(stream, 40):
        for row in batch.tgt_out.tolist():
            cut.setdefault(place.epoch, set()).add(tuple(token for token in row if token > 2))
    assert cut[0] != cut[1]


def test_seeds_differ(tokens: TokenFile) -> None:
    first, second = (next(reader(tokens, seed=seed).read(Place()))[0] for seed in (1, 2))
    assert shown(first) != shown(second)
