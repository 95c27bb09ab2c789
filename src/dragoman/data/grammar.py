"""How the words of ``lexicon`` become sentences: noun phrases, clauses and their spelling, in both languages at once.

French words are put together in their full form (``le arbre``, ``de le jardin``); ``spell_french`` joins them as French
does (``l'arbre``, ``du jardin``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.data.lexicon import AVOIR, BE, DO, ETRE, Adjective, Noun, Person, Verb, Words

FRENCH_VOWELS = frozenset("aàâeéèêiîoôuùûyhœ")
ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "je": "j'", "que": "qu'"}
BEFORE_VOWEL = {"ma": "mon", "ce": "cet"}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}


@dataclass(frozen=True)
class Phrase:
    """The same words in both languages, and what a verb or an adjective has to agree with."""

    english: Words = ()
    french: Words = ()
    denied_english: Words | None = None
    "What it becomes after a negated verb, where that differs: some bread, any bread."
    denied_french: Words | None = None
    words: frozenset[str] = frozenset()
    "The content words, in their English base form."
    person: Person = Person.HE
    feminine: bool | None = False
    "None where the words do not tell: I, we."
    definite: bool = True

    @property
    def _denied(self) -> tuple[Words, Words]:
        english = self.english if self.denied_english is None else self.denied_english
        return english, self.french if self.denied_french is None else self.denied_french

    def denied(self) -> "Phrase":
        """The phrase as it is after a negated verb."""
        english, french = self._denied
        return replace(self, english=english, french=french)

    def steadfast(self) -> "Phrase":
        """The phrase after a preposition, where a negated verb does not change it: not in a box."""
        return replace(self, denied_english=None, denied_french=None)

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(
            self.english + other.english,
            self.french + other.french,
            self._denied[0] + other._denied[0],
            self._denied[1] + other._denied[1],
            self.words | other.words,
            self.person,
            self.feminine,
            self.definite,
        )


def fixed(english: str, french: str, *words: str) -> Phrase:
    """Words that agree with nothing; ``words`` are the content words among them."""
    return Phrase(tuple(english.split()), tuple(french.split()), words=frozenset(words))


@dataclass(frozen=True)
class Determiner:
    """What stands before a noun and says which one is meant."""

    english: str
    english_plural: str
    french: tuple[str, str, str]
    "Masculine, feminine, plural."


THE = Determiner("the", "the", ("le", "la", "les"))
THIS = Determiner("this", "these", ("ce", "cette", "ces"))
OWNED = (
    Determiner("my", "my", ("mon", "ma", "mes")),
    Determiner("our", "our", ("notre", "notre", "nos")),
    Determiner("their", "their", ("leur", "leur", "leurs")),
)
NUMBERS = {"two": "deux", "three": "trois"}


def definite(determiner: Determiner, noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> Phrase:
    """The, this or my black cat."""
    bare = _described(noun, plural, adjective)
    english = determiner.english_plural if plural else determiner.english
    french = determiner.french[2 if plural else int(noun.feminine)]
    return replace(bare, english=(english, *bare.english), french=(french, *bare.french))


def indefinite(noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> Phrase:
    """A cat, some cats, some bread; after a negated verb a cat, any cats, any bread (French always ``de``)."""
    bare = _described(noun, plural, adjective)
    single = not (plural or noun.mass)
    return replace(
        bare,
        english=("a" if single else "some", *bare.english),
        french=(*_some(noun, plural, adjective), *bare.french),
        denied_english=("a" if single else "any", *bare.english),
        denied_french=("de", *bare.french),
        definite=False,
    )


def counted(number: str, noun: Noun, adjective: Adjective | None = None) -> Phrase:
    """Two cats."""
    bare = _described(noun, True, adjective)
    return replace(bare, english=(number, *bare.english), french=(NUMBERS[number], *bare.french), definite=False)


def _some(noun: Noun, plural: bool, adjective: Adjective | None) -> Words:
    """The French indefinite or partitive article; *des* is *de* before an adjective (de petits chats)."""
    if noun.mass:
        return ("de", "la" if noun.feminine else "le")
    if plural:
        return ("de",) if adjective and adjective.before else ("des",)
    return ("une" if noun.feminine else "un",)


def _described(noun: Noun, plural: bool, adjective: Adjective | None) -> Phrase:
    """Noun and adjective, without a determiner."""
    english, french = (noun.english_plural, noun.french_plural) if plural else (noun.english, noun.french)
    bare = Phrase(
        (english,),
        (french,),
        words=frozenset({noun.english}),
        person=Person.THEY if plural else Person.HE,
        feminine=noun.feminine,
    )
    if adjective is None:
        return bare
    form = adjective.form(noun.feminine, plural)
    if adjective.before_vowel and not noun.feminine and not plural and opens_with_vowel(french):
        form = adjective.before_vowel
    return replace(
        bare,
        english=(adjective.english, english),
        french=(form, french) if adjective.before else (french, form),
        words=bare.words | {adjective.english},
    )


@dataclass(frozen=True)
class Clause:
    """A subject and its predicate, ready to be affirmed, denied or asked."""

    subject: Phrase
    auxiliary: str
    "is, does or did: goes before *not* and opens a question."
    finite: Words
    "The English verb where nothing is denied or asked."
    bare: Words
    "What is left of it beside ``auxiliary``."
    verb: str
    "The French verb, between *ne* and *pas*."
    middle: Words
    "The French participle."
    tail: Phrase

    def statement(self) -> Phrase:
        """That it is so."""
        english = (*self.subject.english, *self.finite, *self.tail.english)
        return self._phrase(english, (*self.subject.french, *self._predicate()))

    def denial(self) -> Phrase:
        """That it is not so."""
        tail = self.tail.denied()
        english = (*self.subject.english, self.auxiliary, "not", *self.bare, *tail.english)
        return self._phrase(english, (*self.subject.french, "ne", self.verb, "pas", *self.middle, *tail.french))

    def question(self) -> Phrase:
        """Whether it is so."""
        english = (self.auxiliary, *self.subject.english, *self.bare, *self.tail.english)
        return self._phrase(english, ("est-ce", "que", *self.subject.french, *self._predicate()))

    def question_what(self) -> Phrase:
        """What the object is, where the clause has none."""
        english = ("what", self.auxiliary, *self.subject.english, *self.bare, *self.tail.english)
        return self._phrase(english, ("qu'est-ce", "que", *self.subject.french, *self._predicate()))

    def _predicate(self) -> Words:
        return (self.verb, *self.middle, *self.tail.french)

    def _phrase(self, english: Words, french: Words) -> Phrase:
        return Phrase(english, french, words=self.subject.words | self.tail.words)


def being(subject: Phrase, tail: Phrase) -> Clause:
    """What or where it is."""
    be = BE[subject.person]
    return Clause(subject, be, (be,), (), ETRE[subject.person], (), tail)


def feeling(subject: Phrase, tail: Phrase) -> Clause:
    """What English *is* and French *has*: hungry, afraid."""
    return replace(being(subject, tail), verb=AVOIR[subject.person])


def doing(subject: Phrase, verb: Verb, tail: Phrase) -> Clause:
    """What goes on now: is eating."""
    be = BE[subject.person]
    bare = (verb.ing, *verb.after)
    return Clause(subject, be, (be, *bare), bare, verb.french[subject.person], (), _told(verb, tail))


def simply(subject: Phrase, verb: Verb, tail: Phrase) -> Clause:
    """What goes on for a while: wants, likes."""
    finite = verb.third if subject.person is Person.HE else verb.english
    return Clause(
        subject, DO[subject.person], (finite,), (verb.english,), verb.french[subject.person], (), _told(verb, tail)
    )


def done(subject: Phrase, verb: Verb, tail: Phrase) -> Clause:
    """What was done: bought, went; with être the participle agrees with the subject."""
    ending = "e" * bool(subject.feminine) + "s" * subject.person.plural if verb.with_be else ""
    auxiliary = (ETRE if verb.with_be else AVOIR)[subject.person]
    finite, bare = (verb.past, *verb.after), (verb.english, *verb.after)
    return Clause(subject, "did", finite, bare, auxiliary, (verb.participle + ending,), _told(verb, tail))


def _told(verb: Verb, tail: Phrase) -> Phrase:
    return replace(tail, words=tail.words | {verb.english})


def spell_english(words: Sequence[str], end: str) -> str:
    """Write English words as a sentence: *an* before a vowel, a capital, the final mark."""
    spelled = [
        "an" if word == "a" and after.startswith(tuple("aeiou")) else word
        for word, after in zip(words, [*words[1:], ""], strict=True)
    ]
    return _capital(" ".join(spelled)) + end


def spell_french(words: Sequence[str], end: str) -> str:
    """Write French words as a sentence: contraction, elision, a capital, the final mark (a space before ``?``)."""
    contracted = _contract(words)
    spelled = "".join(_join(word, after) for word, after in zip(contracted, [*contracted[1:], ""], strict=True))
    return _capital(spelled.strip().replace("*", "")) + (" ?" if end == "?" else end)


def opens_with_vowel(french: str) -> bool:
    """Whether the word before it elides; an aspirated *h* stands behind an asterisk and does not count."""
    return french[:1] in FRENCH_VOWELS


def _contract(words: Sequence[str]) -> list[str]:
    """Join à and de with le and les, unless le is to be elided (``à l'hôtel``, ``de l'arbre``)."""
    joined: list[str] = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        pair = (joined[-1] if joined else "", word)
        if pair in CONTRACTED and not (word == "le" and opens_with_vowel(after)):
            joined[-1] = CONTRACTED[pair]
        else:
            joined.append(word)
    return joined


def _join(word: str, after: str) -> str:
    """The word and what parts it from the next."""
    if not opens_with_vowel(after):
        return word + " "
    return ELIDED[word] if word in ELIDED else BEFORE_VOWEL.get(word, word) + " "


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
