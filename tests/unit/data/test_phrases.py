"""The language is checked by a second grammarian who shares no code with the first: word lists and patterns."""

import hashlib
import re
from collections import Counter
from itertools import combinations
from random import Random

import pytest

from dragoman.data.phrases import SHOWPIECE, SIZE, Split, all_pairs, split
from dragoman.data.speaker import Speaker


def listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


VOWEL = "[aeiouyhâàéèêëîïôöûùœ]"
FEMININE = listed(
    "femme fille mère sœur souris vache pomme orange soupe eau huile lettre clé horloge balle fleur assiette chemise "
    "table chaise boîte voiture porte fenêtre maison école église gare cuisine herbe"
)
MASCULINE = listed(
    "homme ami professeur garçon enfant bébé père frère chat chien lapin oiseau hibou cheval âne œuf gâteau pain "
    "fromage lait thé livre journal parapluie couteau verre chapeau manteau tapis lit banc bureau sac hôtel château "
    "jardin parc marché champ arbre toit"
)
IRREGULAR_PLURALS = {
    "chevaux": "cheval",
    "journaux": "journal",
    "oiseaux": "oiseau",
    "gâteaux": "gâteau",
    "couteaux": "couteau",
    "chapeaux": "chapeau",
    "manteaux": "manteau",
    "bureaux": "bureau",
    "hiboux": "hibou",
}
INVARIABLE = frozenset({"souris", "tapis"})
ADJECTIVES = {
    "petit petits petite petites",
    "grand grands grande grandes",
    "bon bons bonne bonnes",
    "jeune jeunes jeune jeunes",
    "vieux/vieil vieux vieille vieilles",
    "nouveau/nouvel nouveaux nouvelle nouvelles",
    "beau/bel beaux belle belles",
    "noir noirs noire noires",
    "blanc blancs blanche blanches",
    "rouge rouges rouge rouges",
    "froid froids froide froides",
    "heureux heureux heureuse heureuses",
    "triste tristes triste tristes",
    "malade malades malade malades",
}
SINGULAR = {
    **dict.fromkeys(("un", "le", "du", "au", "ce", "cet"), "m"),
    **dict.fromkeys(("une", "la", "cette", "ma"), "f"),
    **dict.fromkeys(("mon", "notre", "leur", "l'"), "mf"),
}
PLURAL = listed("les des aux mes nos leurs ces deux trois")
SINGULAR_VERBS = listed(
    "est a dort joue travaille chante mange boit achète lit lave ouvre regarde cherche porte va revient voit veut aime"
)
PLURAL_VERBS = listed(
    "sont ont dorment jouent travaillent chantent mangent boivent achètent lisent lavent ouvrent regardent "
    "cherchent portent vont reviennent voient veulent aiment"
)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return all_pairs()


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(1)


def tokens(french: str) -> list[str]:
    """Lower-case words, elided ones on their own (``l'``, ``arbre``)."""
    return re.findall(r"[\wâàéèêëîïôöûùœ-]+'?", french.lower().replace("aujourd'hui", "aujourdhui"))


def forms(adjective: str) -> dict[str, set[str]]:
    """Form -> the genders and numbers it may have: ms, mp, fs, fp."""
    allowed: dict[str, set[str]] = {}
    for slot, written in zip(("ms", "mp", "fs", "fp"), adjective.split(), strict=True):
        for form in written.split("/"):
            allowed.setdefault(form, set()).add(slot)
    return allowed


ALLOWED: dict[str, set[str]] = {form: slots for line in ADJECTIVES for form, slots in forms(line).items()}
NOMINAL = FEMININE | MASCULINE | ALLOWED.keys()


def singular(noun: str) -> str:
    return noun if noun in INVARIABLE else IRREGULAR_PLURALS.get(noun, noun.removesuffix("s"))


def gender(noun: str) -> str:
    return "f" if noun in FEMININE else "m" if noun in MASCULINE else ""


def disagreement(french: str) -> str:
    """What is wrong in the sentence's noun phrases and their verbs; empty where nothing is."""
    words = tokens(french)
    for at, word in enumerate(words):
        if word not in SINGULAR and word not in PLURAL:
            continue
        rest = words[at + 1 :]
        before = rest[0] if rest and rest[0] in ALLOWED and not gender(rest[0]) else ""
        rest = rest[1:] if before else rest
        if not rest or not gender(singular(rest[0])):
            continue
        noun, after = rest[0], rest[1] if len(rest) > 1 and rest[1] in ALLOWED else ""
        number = "p" if word in PLURAL else "s"
        if number == "s" and not gender(noun):
            return f"{word} {noun}: a plural noun"
        if number == "p" and noun == singular(noun) and noun not in INVARIABLE:
            return f"{word} {noun}: a singular noun"
        kind = gender(singular(noun))
        if number == "s" and kind not in SINGULAR[word]:
            return f"{word} {noun}: gender"
        for adjective in filter(None, (before, after)):
            if kind + number not in ALLOWED[adjective]:
                return f"{adjective} {noun}: agreement"
    return ""


def test_the_pairs_are_distinct_on_both_sides_and_always_the_same(pairs: list[tuple[str, str]]) -> None:
    assert len(pairs) == SIZE == len({english for english, _ in pairs}) == len({french for _, french in pairs})
    assert pairs[0] == SHOWPIECE
    digest = hashlib.sha256("".join(f"{english}\t{french}\n" for english, french in pairs).encode()).hexdigest()
    assert digest.startswith("7db056aba109"), "the language has changed: train the models that were trained on it again"


def test_no_sentence_has_two_translations() -> None:
    speaker = Speaker(Random(5).random)
    french_of: dict[str, str] = {}
    english_of: dict[str, str] = {}
    for _ in range(8_000):
        english, french, _ = speaker.sentence()
        assert french_of.setdefault(english, french) == french
        assert english_of.setdefault(french, english) == english


def test_sentences_are_written_as_sentences(pairs: list[tuple[str, str]]) -> None:
    for english, french in pairs:
        assert re.fullmatch(r"[A-Z][A-Za-z ]+[.?]", english), english
        assert re.fullmatch(r"[A-ZÀŒÉ][\w' -]+(\.| \?)", french), french
        assert english[-1] == french[-1]
        assert "  " not in english + french
        assert "*" not in english + french


def test_english_articles_fit_the_next_sound(pairs: list[tuple[str, str]]) -> None:
    for english, _ in pairs:
        assert not re.search(r"\ba [aeiou]", english, re.IGNORECASE), english
        assert not re.search(r"\ban [^aeiou]", english, re.IGNORECASE), english


def test_english_verbs_agree(pairs: list[tuple[str, str]]) -> None:
    several = r"(these|two|three) (\w+ )?(men|women|children|mice|\w+s)"
    for english in (english.lower() for english, _ in pairs if english.endswith(".")):
        assert not re.search(rf"^{several} (is|has|does|wants|likes|sees)\b", english), english
        assert not re.search(r"^(this|an?) \w*( \w+)? (are|have|do|want|like|see)\b", english), english
        assert not re.search(r"^(this|an?) (\w+ )?(men|women|children|mice|knives)\b", english), english
        assert not re.search(r"\bi (is|are|has|does|wants|likes|sees)\b", english), english
        assert not re.search(r"\b(he|she) (am|are|have|do|want|like|see)\b", english), english
        assert not re.search(r"\bwe (is|am|has|does|wants|likes|sees)\b", english), english


def test_nothing_is_left_to_elide_or_to_contract(pairs: list[tuple[str, str]]) -> None:
    for _, french in pairs:
        text = french.lower()
        assert not re.search(rf"\b(le|la|de|ne|je|que|ce|ma) (?!hibou){VOWEL}", text), french
        assert not re.search(r"\b(à|de) les?\b(?! hôtel)", text), french
        assert not re.search(r"\b(de|des|du|à) (de|des|du)\b", text), french
        assert not re.search(rf"\b(l|d|n|j|qu)'(?!{VOWEL})", text), french
        assert not re.search(r"(l|d|n|j|qu)'hibou", text), french


def test_adjectives_before_a_vowel(pairs: list[tuple[str, str]]) -> None:
    for _, french in pairs:
        text = french.lower()
        assert not re.search(rf"\b(un|le|ce|du|au|mon|notre|leur) (beau|nouveau|vieux) (?!hibou){VOWEL}", text), french
        assert not re.search(rf"\b(bel|nouvel|vieil) ((?!{VOWEL})|hibou)", text), french


def test_determiner_noun_and_adjective_agree(pairs: list[tuple[str, str]]) -> None:
    for _, french in pairs:
        assert not disagreement(french), f"{french} {disagreement(french)}"


@pytest.mark.parametrize(
    "wrong", ["La chat dort.", "Les chat dorment.", "Une vieux femme.", "Le chats.", "Des souris blancs."]
)
def test_the_second_grammarian_is_awake(wrong: str) -> None:
    assert disagreement(wrong)


def test_subject_and_verb_agree(pairs: list[tuple[str, str]]) -> None:
    checked = Counter[str]()
    for _, french in pairs:
        words = [word for word in tokens(french) if word not in ("ne", "n'")]
        if words[0] not in (*SINGULAR, *PLURAL) or not NOMINAL & {words[1], singular(words[1])}:
            continue
        verb = next((word for word in words[2:5] if word in SINGULAR_VERBS | PLURAL_VERBS), "")
        assert verb in (PLURAL_VERBS if words[0] in PLURAL else SINGULAR_VERBS), french
        checked[verb] += 1
    assert len(checked) == len(SINGULAR_VERBS | PLURAL_VERBS)


def test_what_is_said_of_the_subject_agrees_with_it(pairs: list[tuple[str, str]]) -> None:
    """States, and participles with être: La fille est allée, Les maisons ne sont pas grandes."""
    participle = {
        f"{stem}{ending}": {slot}
        for stem in ("allé", "revenu")
        for ending, slot in (("", "ms"), ("s", "mp"), ("e", "fs"), ("es", "fp"))
    }
    checked = 0
    for _, french in pairs:
        words = [word for word in tokens(french) if word not in ("ne", "n'", "pas", "est-ce", "que", "qu'")]
        copula = next((at for at, word in enumerate(words) if word in ("est", "sont")), 0)
        said = words[copula + 1] if 0 < copula < len(words) - 1 else ""
        slots = participle.get(said) or (ALLOWED.get(said) if copula + 2 == len(words) else None)
        if slots is None:
            continue
        nouns = [singular(word) for word in words[:copula] if gender(singular(word))]
        kind = {"il": "m", "qui": "m", "elle": "f"}.get(words[copula - 1]) or gender(nouns[0])
        assert kind + ("p" if words[copula] == "sont" else "s") in slots, french
        checked += 1
    assert checked > 500


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_parts_share_nothing_and_the_showpiece_is_held_out(seed: int) -> None:
    parts = split(seed)
    train, valid, test = set(parts.train), set(parts.valid), set(parts.test)
    assert train.isdisjoint(valid)
    assert train.isdisjoint(test)
    assert valid.isdisjoint(test)
    assert train | valid | test <= set(all_pairs())
    assert SHOWPIECE in test
    assert not [pair for pair in parts.train if {"cat", "mat"} <= set(pair[0].lower().rstrip(".?").split())]


def test_the_parts_have_the_sizes_a_small_training_needs(parts: Split) -> None:
    assert 6_000 <= len(parts.train) <= 12_000
    assert len(parts.valid) >= 200
    assert len(parts.test) >= 300


def test_the_seed_draws_other_combinations(parts: Split) -> None:
    assert split(1) == parts
    assert set(split(2).test) != set(parts.test)


def test_every_held_out_word_occurs_in_training(parts: Split) -> None:
    for side in (0, 1):
        known = {word for pair in parts.train for word in pair[side].split()}
        for pair in (*parts.valid, *parts.test):
            assert known.issuperset(pair[side].split()), pair


def test_in_every_held_out_sentence_meet_two_words_that_never_meet_in_training(parts: Split) -> None:
    met = {
        meeting
        for english, _ in parts.train
        for meeting in combinations(sorted(set(english.rstrip(".?").lower().split())), 2)
    }
    for english, _ in (*parts.valid, *parts.test):
        words = sorted(set(english.rstrip(".?").lower().split()))
        assert not met.issuperset(combinations(words, 2)), english
