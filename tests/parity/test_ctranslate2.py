"""Every kind of model says the same in CTranslate2, converted as the benchmark of decoding converts it."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import SearchConfig
from dragoman.engine.loading import load
from dragoman.search.request import SourceRequest
from folders import PIECES, write_model
from toys import VARIANTS, name_of

pytest.importorskip("ctranslate2")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SOURCES = [[3 + (7 * row + 11 * place) % (PIECES - 3) for place in range(5 + row)] + [2] for row in range(6)]


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_the_same_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: dict[str, Any]) -> None:
    """Greedy: where pieces are forbidden CTranslate2 renormalises and we do not, which can turn a beam."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    models, contenders = (importlib.import_module(name) for name in ("decode_models", "decode_contenders"))
    root = write_model(tmp_path / "model", model={**variant, "d_model": 16, "num_heads": 2, "d_ff": 24})
    converted = models.write_ctranslate2(models.Folder(root), tmp_path / "converted")
    theirs = contenders.CTranslate2(converted, "float32", 1, 1)
    found = theirs.translator.translate_batch(
        [[theirs.names[one] for one in source] for source in SOURCES],
        beam_size=1,
        min_decoding_length=8,
        max_decoding_length=8,
        suppress_sequences=[["<pad>"], ["<bos>"]],
    )
    requests = [SourceRequest(source, max_length=8, min_length=8) for source in SOURCES]
    ours = dict(load(root, "torch", 1).backend.beam_search(requests, SearchConfig(beam_size=1), 8))
    for place, one in enumerate(found):
        assert list(ours[place][0].ids) == [theirs.ids[name] for name in one.hypotheses[0]]
