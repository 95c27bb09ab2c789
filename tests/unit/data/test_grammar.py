import pytest

from dragoman.data import lexicon
from dragoman.data.grammar import (
    OWNED,
    THE,
    THIS,
    Phrase,
    being,
    counted,
    definite,
    doing,
    done,
    feeling,
    fixed,
    indefinite,
    simply,
    spell_english,
    spell_french,
)
from dragoman.data.lexicon import ADJECTIVES, NOUNS, Person

NOUN = {noun.english: noun for noun in NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
MY = OWNED[0]
I = Phrase(("I",), ("je",), person=Person.I, feminine=None)  # noqa: E741
SHE = Phrase(("she",), ("elle",), feminine=True)
WE = Phrase(("we",), ("nous",), person=Person.WE, feminine=None)


def said(phrase: Phrase) -> tuple[str, str]:
    return spell_english(phrase.english, "."), spell_french(phrase.french, ".")


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        ("le arbre", "L'arbre."),
        ("la école", "L'école."),
        ("le homme", "L'homme."),
        ("le *hibou", "Le hibou."),
        ("de le jardin", "Du jardin."),
        ("de le arbre", "De l'arbre."),
        ("de le *hibou", "Du hibou."),
        ("de la huile", "De l'huile."),
        ("de les oiseaux", "Des oiseaux."),
        ("à le parc", "Au parc."),
        ("à les champs", "Aux champs."),
        ("à la église", "À l'église."),
        ("ce arbre", "Cet arbre."),
        ("ce *hibou", "Ce hibou."),
        ("ma assiette", "Mon assiette."),
        ("pas de œufs", "Pas d'œufs."),
        ("je ne ai pas", "Je n'ai pas."),
        ("je aime", "J'aime."),
        ("ce ne est pas", "Ce n'est pas."),
        ("il ne y a pas", "Il n'y a pas."),
    ],
)
def test_french_words_join(words: str, spelled: str) -> None:
    assert spell_french(words.split(), ".") == spelled


def test_a_french_question_mark_stands_apart() -> None:
    question = fixed("does she have a cat", "est-ce que elle a un chat")
    assert spell_french(question.french, "?") == "Est-ce qu'elle a un chat ?"
    assert spell_english(question.english, "?") == "Does she have a cat?"


@pytest.mark.parametrize(
    ("noun", "adjective", "english", "french"),
    [
        ("man", "old", "This old man.", "Ce vieil homme."),
        ("woman", "old", "This old woman.", "Cette vieille femme."),
        ("owl", "old", "This old owl.", "Ce vieux hibou."),
        ("bird", "beautiful", "This beautiful bird.", "Ce bel oiseau."),
        ("hotel", "new", "This new hotel.", "Ce nouvel hôtel."),
        ("mouse", "white", "This white mouse.", "Cette souris blanche."),
        ("child", "happy", "This happy child.", "Cet enfant heureux."),
        ("tree", None, "This tree.", "Cet arbre."),
    ],
)
def test_singular_noun_phrases(noun: str, adjective: str | None, english: str, french: str) -> None:
    phrase = definite(THIS, NOUN[noun], adjective=ADJECTIVE[adjective] if adjective else None)
    assert said(phrase) == (english, french)


@pytest.mark.parametrize(
    ("noun", "adjective", "english", "french"),
    [
        ("man", "old", "The old men.", "Les vieux hommes."),
        ("woman", "old", "The old women.", "Les vieilles femmes."),
        ("horse", "beautiful", "The beautiful horses.", "Les beaux chevaux."),
        ("newspaper", "new", "The new newspapers.", "Les nouveaux journaux."),
        ("mouse", "white", "The white mice.", "Les souris blanches."),
        ("mat", "black", "The black mats.", "Les tapis noirs."),
    ],
)
def test_plural_noun_phrases(noun: str, adjective: str, english: str, french: str) -> None:
    assert said(definite(THE, NOUN[noun], plural=True, adjective=ADJECTIVE[adjective])) == (english, french)


def test_my_before_a_vowel_or_an_adjective() -> None:
    plate = NOUN["plate"]
    assert said(definite(MY, plate))[1] == "Mon assiette."
    assert said(definite(MY, plate, adjective=ADJECTIVE["small"]))[1] == "Ma petite assiette."
    assert said(definite(MY, plate, plural=True))[1] == "Mes assiettes."


def test_indefinite_phrases_and_what_a_negation_makes_of_them() -> None:
    assert said(indefinite(NOUN["owl"])) == ("An owl.", "Un hibou.")
    assert said(indefinite(NOUN["owl"]).denied()) == ("An owl.", "De hibou.")
    cats = indefinite(NOUN["cat"], plural=True)
    assert said(cats) == ("Some cats.", "Des chats.")
    assert said(cats.denied()) == ("Any cats.", "De chats.")
    assert said(indefinite(NOUN["cat"], plural=True, adjective=ADJECTIVE["small"]))[1] == "De petits chats."
    assert said(indefinite(NOUN["cat"], plural=True, adjective=ADJECTIVE["black"]))[1] == "Des chats noirs."
    assert said(indefinite(NOUN["water"])) == ("Some water.", "De l'eau.")
    assert said(indefinite(NOUN["bread"]).denied()) == ("Any bread.", "De pain.")
    assert said(counted("two", NOUN["knife"])) == ("Two knives.", "Deux couteaux.")


def test_a_clause_is_affirmed_denied_and_asked() -> None:
    clause = simply(SHE, lexicon.HAVE, indefinite(NOUN["plate"]))
    assert said(clause.statement()) == ("She has a plate.", "Elle a une assiette.")
    assert said(clause.denial()) == ("She does not have a plate.", "Elle n'a pas d'assiette.")
    question = clause.question()
    assert spell_english(question.english, "?") == "Does she have a plate?"
    assert spell_french(question.french, "?") == "Est-ce qu'elle a une assiette ?"


def test_what_is_asked_without_the_object() -> None:
    question = doing(SHE, lexicon.SEEK, fixed("now", "maintenant")).question_what()
    assert spell_english(question.english, "?") == "What is she looking for now?"
    assert spell_french(question.french, "?") == "Qu'est-ce qu'elle cherche maintenant ?"


def test_the_verb_agrees() -> None:
    bread = definite(THE, NOUN["bread"])
    cats = definite(THE, NOUN["cat"], plural=True)
    assert said(doing(I, lexicon.EAT, bread).statement()) == ("I am eating the bread.", "Je mange le pain.")
    assert said(doing(WE, lexicon.EAT, bread).statement()) == ("We are eating the bread.", "Nous mangeons le pain.")
    assert said(doing(cats, lexicon.EAT, Phrase()).denial()) == (
        "The cats are not eating.",
        "Les chats ne mangent pas.",
    )
    assert said(simply(I, lexicon.LIKE, fixed("tea", "le thé")).statement()) == ("I like tea.", "J'aime le thé.")


@pytest.mark.parametrize(
    ("noun", "plural", "french"),
    [
        ("boy", False, "Le garçon est allé au parc."),
        ("boy", True, "Les garçons sont allés au parc."),
        ("girl", False, "La fille est allée au parc."),
        ("girl", True, "Les filles sont allées au parc."),
    ],
)
def test_a_participle_with_etre_agrees(noun: str, plural: bool, french: str) -> None:
    place = fixed("to the park", "à le parc")
    assert said(done(definite(THE, NOUN[noun], plural), lexicon.GO, place).statement())[1] == french


def test_a_participle_with_avoir_does_not() -> None:
    eggs = indefinite(NOUN["egg"], plural=True)
    clause = done(definite(THE, NOUN["girl"], plural=True), lexicon.BUY, eggs)
    assert said(clause.statement()) == ("The girls bought some eggs.", "Les filles ont acheté des œufs.")
    assert said(clause.denial()) == ("The girls did not buy any eggs.", "Les filles n'ont pas acheté d'œufs.")


def test_being_and_feeling() -> None:
    assert said(being(WE, fixed("sad", "tristes")).denial()) == ("We are not sad.", "Nous ne sommes pas tristes.")
    assert said(feeling(I, fixed("hungry", "faim")).statement()) == ("I am hungry.", "J'ai faim.")


def test_content_words_are_remembered_in_their_base_form() -> None:
    clause = doing(definite(THE, NOUN["mouse"], True, ADJECTIVE["white"]), lexicon.EAT, indefinite(NOUN["cheese"]))
    assert clause.denial().words == {"mouse", "white", "eat", "cheese"}
