import json
import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

from dragoman.errors import DataError, RequestError
from dragoman.evaluate.metrics import evaluate, exact_match

REFERENCES = ["a b c d", "the cat sat on the mat"]


def test_an_empty_hypothesis_costs_its_length_and_nothing_more() -> None:
    scores = evaluate(["", "the cat sat on the mat"], REFERENCES)
    assert scores.bleu.value == pytest.approx(51.3417, abs=1e-4)
    assert scores.exact == 50.0


def test_a_right_sentence_in_the_wrong_place_is_worth_nothing() -> None:
    assert evaluate(["the cat sat on the mat", ""], REFERENCES).bleu.value == 0.0


def test_nothing_but_empty_hypotheses() -> None:
    scores = evaluate(["", ""], REFERENCES)
    assert (scores.bleu.value, scores.chrf.value, scores.ter.value, scores.exact) == (0.0, 0.0, 100.0, 0.0)


def test_an_empty_hypothesis_of_an_empty_reference_is_exact() -> None:
    scores = evaluate(["", "a b c d"], ["", "a b c d"])
    assert (scores.bleu.value, scores.ter.value, scores.exact) == (pytest.approx(100.0), 0.0, 100.0)


@pytest.mark.parametrize(
    ("hypotheses", "references"), [(["a"], ["a", "b"]), (["a", "b"], ["a"]), ([], ["a", "b", "c"])]
)
def test_unequal_counts_are_refused_with_both(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(DataError, match=rf"^{len(hypotheses)} hypotheses but {len(references)} references"):
        evaluate(hypotheses, references)


def test_nothing_to_evaluate_is_refused() -> None:
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate([], [])


def test_a_sentence_without_a_reference_is_named() -> None:
    with pytest.raises(DataError, match="line 2 has no reference"):
        evaluate(["a", "b"], ["a", ()])


def test_references_come_by_sentence_and_not_transposed() -> None:
    """Two hypotheses and two references of each: sacreBLEU would read the same lists the other way round."""
    references = [("the cat sat on the mat", "a cat was on the mat"), ("a b c d e", "e d c b a")]
    scores = evaluate(["a cat was on the mat", "a b c d e"], references)
    assert scores.bleu.value == pytest.approx(100.0)
    assert scores.exact == 100.0
    assert "nrefs:2" in scores.bleu.signature


def test_sentences_may_differ_in_their_number_of_references() -> None:
    scores = evaluate(["a b c d", "e f g h"], [("x", "a b c d"), "e f g h"])
    assert scores.bleu.value == pytest.approx(100.0)
    assert "nrefs:var" in scores.bleu.signature


def test_scores_are_sacrebleus_own() -> None:
    hypotheses = ["the cat sits on a mat", "a b d", "The end ."]
    references = ["the cat sat on the mat", "a b c d", "The end."]
    theirs = BLEU().corpus_score(hypotheses, [references]).score
    assert evaluate(hypotheses, references).bleu.value == theirs


def test_13a_parts_the_full_stop() -> None:
    assert evaluate(["The cat sat on the mat ."], ["The cat sat on the mat."]).bleu.value == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), ("", "13a"), ("zh", "zh"), ("zh-CN", "zh"), ("ZH_Hant", "zh"), ("zho_Hans", "zh"), ("yue", "zh")],
)
def test_the_target_language_chooses_the_tokenizer(language: str, tokenizer: str) -> None:
    scores = evaluate(["我爱北京。"], ["我爱北京。"], language)
    assert f"|tok:{tokenizer}|" in scores.bleu.signature
    assert scores.bleu.value == (pytest.approx(100.0) if tokenizer == "zh" else 0.0)


def test_chinese_edits_are_counted_by_character() -> None:
    scores = evaluate(["我爱南京。"], ["我爱北京。"], "zh")
    assert scores.ter.value == pytest.approx(20.0)
    assert "asian:yes" in scores.ter.signature


@pytest.mark.parametrize(
    ("language", "module", "tokenizer"),
    [("ja", "tokenizer_ja_mecab", "ja-mecab"), ("ko-KR", "tokenizer_ko_mecab", "ko-mecab")],
)
def test_a_missing_tokenizer_is_one_line_with_the_remedy(
    language: str, module: str, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"sacrebleu.tokenizers.{module}.MeCab", None)
    with pytest.raises(RequestError) as caught:
        evaluate(["a"], ["a"], language)
    assert tokenizer in str(caught.value)
    assert "pip install dragoman[eastasian]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lowercase_is_an_option_and_in_the_signature() -> None:
    cased, lowered = (evaluate(["THE CAT SAT DOWN"], ["the cat sat down"], lowercase=lower) for lower in (False, True))
    assert (cased.bleu.value, cased.exact) == (0.0, 0.0)
    assert (lowered.bleu.value, lowered.exact) == (pytest.approx(100.0), 100.0)
    assert lowered.chrf.value == pytest.approx(100.0)
    assert "case:mixed" in cased.bleu.signature
    assert "case:lc" in lowered.bleu.signature


def test_exact_match_sees_accents_and_not_outer_spaces() -> None:
    assert exact_match([" Le chat \n", "la cle"], ["Le chat", "la clé"]) == 50.0


def test_json_holds_every_score_and_signature() -> None:
    scores = evaluate(["café"], ["café"])
    told = json.loads(scores.to_json())
    assert told["lines"] == 1
    assert told["exact"] == 100.0
    assert {"value", "signature"} == set(told["chrf"])
    assert told["ter"]["signature"] == scores.ter.signature


def test_importing_the_room_does_not_import_sacrebleu() -> None:
    code = "import sys, dragoman.evaluate.metrics, dragoman.evaluate.bootstrap; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
