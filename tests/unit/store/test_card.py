import re

from dragoman.store.card import CardFacts, DataFact, ScoreFact, render

FACTS = CardFacts(
    name="my-en-de",
    version="0.1.0",
    src_lang="en",
    tgt_lang="de",
    licence="CC BY 4.0",
    data=[
        DataFact("train", {"train.en": "a" * 64, "train.de": "b" * 64}, 29_000),
        DataFact("valid", {"valid.tsv": "c" * 64}, 1014),
    ],
    sizes={"parameters": 2_600_000, "vocabulary": 8000, "preset": "tiny"},
    scores=[ScoreFact("test_2016_flickr", "BLEU", 41.019, "nrefs:1|case:lc|tok:13a"), ScoreFact("valid", "chrF", 60.0)],
    command=["dragoman", "train", "train.en", "train.de", "--out", "my en-de"],
    seconds=5400.0,
)


def test_every_fact_is_told() -> None:
    card = render(FACTS)
    assert card.startswith("# my-en-de\n\nA translation model. Languages: en -> de. Licence: CC BY 4.0.\n")
    assert "| train | 29,000 | train.en | " + "a" * 64 + " |\n" in card
    assert "| train | 29,000 | train.de | " + "b" * 64 + " |\n" in card
    assert r"| test\_2016\_flickr | BLEU | 41.02 | nrefs:1\|case:lc\|tok:13a |" in card
    assert "| parameters | 2,600,000 |\n| vocabulary | 8,000 |\n| preset | tiny |\n" in card
    assert "Made with dragoman 0.1.0. The training took 1 h 30 min." in card
    assert "    dragoman train train.en train.de --out 'my en-de'\n" in card
    for command in ("check train.en train.de", "train train.en train.de --valid valid.en valid.de --out my-model"):
        assert f"    dragoman {command}\n" in card
    assert "    dragoman translate --model my-en-de < input.txt > output.txt\n" in card
    assert "    dragoman evaluate --model my-en-de test.en test.de\n" in card


def test_equal_facts_give_equal_cards() -> None:
    assert render(FACTS) == render(FACTS)


def test_what_is_not_known_is_said_or_left_out() -> None:
    card = render(CardFacts(name="model", version="0.1.0", licence="  "))
    assert "Languages: unknown -> unknown. Licence: not stated." in card
    assert "## Scores" not in card
    assert "## Data" not in card
    assert "The training took" not in card
    assert "The command was" not in card
    assert card.endswith("Made with dragoman 0.1.0.\n")


def test_strings_cannot_break_out() -> None:
    evil = "x\n# <script>alert(1)</script> | [a](javascript:b) `c` \x1b[31m\u202e"
    facts = CardFacts(
        name=evil,
        version="1",
        licence=evil,
        src_lang=evil,
        tgt_lang=evil,
        data=[DataFact(evil, {evil: evil}, 1)],
        sizes={evil: evil},
        scores=[ScoreFact(evil, evil, 1.0, evil)],
        command=[evil],
    )
    card, plain = render(facts), render(CardFacts(name="m", version="1"))
    shown = [line for line in card.split("\n") if not line.startswith("    ")]
    assert not any("<script>" in line and "\\<script" not in line for line in shown)
    assert sum(line.startswith("#") for line in card.split("\n")) == plain.count("\n## ") + 1 + 3
    assert "\x1b" not in card
    assert "\u202e" not in card
    rows = [line for line in card.split("\n") if line.startswith("|") and "alert" in line]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in rows] == [3, 5, 5]


def test_short_trainings() -> None:
    assert "took 2 min." in render(CardFacts(name="m", version="1", seconds=100.0))
    assert "took 0 min." in render(CardFacts(name="m", version="1", seconds=-3.0))
