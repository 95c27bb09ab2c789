import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest

from dragoman.errors import DataError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "published_bleu.py"
REFERENCES = ["Ein Mann sagt „Ja“ zum 1,5-jährigen Hund.", "Zwei Mädchen, die in der U-Bahn sitzen, lachen."]


def run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    *options: str,
    references: list[str] = REFERENCES,
) -> dict[str, object]:
    hypotheses, reference = tmp_path / "hyp", tmp_path / "ref.gz"
    hypotheses.write_bytes("".join(f"{line}\n" for line in lines).encode())
    reference.write_bytes(gzip.compress("".join(f"{line}\n" for line in references).encode()))
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(hypotheses), str(reference), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    told = json.loads(capsys.readouterr().out)
    assert isinstance(told, dict)
    return told


def test_plain_and_prepared_hypotheses_score_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published manner does not see case, quotation marks or the spaces of tokenization; sacreBLEU sees them."""
    prepared = ['ein mann sagt " ja " zum 1,5-jährigen hund .', "zwei mädchen , die in der u-bahn sitzen , lachen ."]
    told = run(tmp_path, capsys, monkeypatch, prepared)
    assert told["published_bleu"] == 100.0
    assert "tok:none|smooth:none" in str(told["published_signature"])
    assert float(str(told["sacrebleu_cased"])) < float(str(told["sacrebleu_lowercased"])) < 100.0
    assert "case:lc" in str(told["sacrebleu_lowercased_signature"])
    assert run(tmp_path, capsys, monkeypatch, REFERENCES)["published_bleu"] == 100.0


def test_prepared_hypotheses_can_be_taken_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing French tokens again would take `l'` apart; sacreBLEU sees plain text, which has no case any more."""
    plain, prepared = ["L'homme court sur l'herbe verte."], ["l' homme court sur l' herbe verte ."]
    told = run(tmp_path, capsys, monkeypatch, prepared, "--language", "fr", "--tokenized", references=plain)
    assert (told["published_bleu"], told["sacrebleu_cased"], told["sacrebleu_lowercased"]) == (100.0, None, 100.0)
    again = run(tmp_path, capsys, monkeypatch, prepared, "--language", "fr", references=plain)
    assert float(str(again["published_bleu"])) < 100.0


def test_unequal_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="1 hypotheses but 2 references"):
        run(tmp_path, capsys, monkeypatch, REFERENCES[:1])
