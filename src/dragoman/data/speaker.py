"""What is said in the little English-French language of ``phrases``: who does what to what, where and when.

An English sentence has one French translation and the other way round. To that end actions are progressive in English
(``is sleeping``, dort), never simple (``sleeps``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dragoman.data import lexicon
from dragoman.data.grammar import (
    NUMBERS,
    OWNED,
    THE,
    THIS,
    Clause,
    Determiner,
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
from dragoman.data.lexicon import (
    ADJECTIVES,
    ANIMALS,
    BE,
    BEINGS,
    ETRE,
    NOUNS,
    PEOPLE,
    SITES,
    THINGS,
    Adjective,
    Noun,
    Person,
    Relation,
    Verb,
)

T = TypeVar("T")

BELONGINGS = f"{THINGS} container pet"
COUNTABLE = f"person kid baby {ANIMALS} {THINGS} container"
OWNERLESS = "man woman boy girl bird owl mouse church station hotel castle park market field roof"
"""Nouns of which nobody says *my*."""
DESTINATIONS = "school market station park hotel church castle"

PRONOUNS = (
    Phrase(("I",), ("je",), person=Person.I, feminine=None),
    Phrase(("he",), ("il",), feminine=False),
    Phrase(("she",), ("elle",), feminine=True),
    Phrase(("we",), ("nous",), person=Person.WE, feminine=None),
)
NOUN = {noun.english: noun for noun in NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
DESCRIBED = 0.27
"""Share of the nouns that have an adjective."""
WHO = Phrase(("who",), ("qui",))
NOTHING = Phrase()
NOW = (fixed("now", "maintenant"), fixed("today", "aujourd'hui"))
YESTERDAY = fixed("yesterday", "hier")
FEELINGS = (
    fixed("hungry", "faim", "hungry"),
    fixed("thirsty", "soif", "thirsty"),
    fixed("cold", "froid", "cold"),
)


@dataclass(frozen=True)
class Activity:
    """What can be done without an object, by which kinds, and where if not anywhere."""

    verb: Verb
    subjects: str
    places: str = ""


@dataclass(frozen=True)
class Deed:
    """What can be done to something: to which kinds or nouns, and by which."""

    verb: Verb
    objects: str
    subjects: str = PEOPLE


ACTIVITIES = (
    Activity(lexicon.SLEEP, BEINGS),
    Activity(lexicon.PLAY, "kid baby pet"),
    Activity(lexicon.WORK, "person kin", "garden kitchen field school hotel castle park"),
    Activity(lexicon.SING, PEOPLE),
    Activity(lexicon.EAT, BEINGS),
)
DEEDS = (
    Deed(lexicon.EAT, "food meal", f"{PEOPLE} baby"),
    Deed(lexicon.DRINK, "drink", f"{PEOPLE} baby"),
    Deed(lexicon.BUY, f"{THINGS} meal drink mass furniture container"),
    Deed(lexicon.READ, "text"),
    Deed(lexicon.WASH, "ware clothes vehicle opening apple"),
    Deed(lexicon.OPEN, "opening container letter umbrella book"),
    Deed(lexicon.WATCH, f"{ANIMALS} kid baby", f"{PEOPLE} pet"),
    Deed(lexicon.SEEK, f"{THINGS} pet container"),
    Deed(lexicon.WEAR, "clothes"),
)
CONDITIONS = (
    Deed(lexicon.HAVE, f"{BELONGINGS} furniture vehicle"),
    Deed(lexicon.WANT, f"{BELONGINGS} meal drink mass"),
    Deed(lexicon.SEE, f"{BEINGS} {THINGS} building vehicle"),
)

Utterance = tuple[Phrase, str]
"""A sentence not yet spelled, and its final mark."""
Naming = Callable[[Noun], Phrase]
"""How a clause calls its subject: a cat, my cats, she, who."""


class Speaker:
    """Says one sentence of the language after another, led by chance.

    Args:
        chance: Gives numbers from 0 up to 1. ``Random(seed).random`` gives the same ones in every Python.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._nouns: dict[str, list[Noun]] = {}

    def sentence(self) -> tuple[str, str, frozenset[str]]:
        """The English sentence, its French translation, and its content words in their English base form."""
        forms: dict[Callable[[], Utterance], float] = {
            self._assertion: 78,
            self._existence: 7,
            self._who: 5,
            self._what: 2,
            self._where: 4,
            self._introduction: 4,
        }
        phrase, end = self._weighted(forms)()
        return spell_english(phrase.english, end), spell_french(phrase.french, end), phrase.words

    # Sentences.

    def _assertion(self) -> Utterance:
        topics: dict[Callable[[Naming], Clause], float] = {
            self._located: 30,
            self._state: 22,
            self._active: 16,
            self._deed: 20,
            self._condition: 14,
            self._liking: 5,
            self._journey: 11,
            self._feeling: 3,
            self._fear: 3,
        }
        clause = self._weighted(topics)(self._subject)
        if not clause.subject.definite or self._is(0.68):
            return clause.statement(), "."
        return (clause.denial(), ".") if self._is(0.55) else (clause.question(), "?")

    def _existence(self) -> Utterance:
        noun = self._noun(f"{COUNTABLE} meal drink mass")
        place = self._place(noun)
        if self._is(0.2):
            none = self._indefinite(noun).denied()
            none = replace(none, english=("no", *none.english[1:]))
            return Phrase(("there", BE[none.person]), ("il", "ne", "y", "a", "pas")) + none + place, "."
        what = self._some(noun)
        if self._is(0.2):
            return Phrase((BE[what.person], "there"), ("est-ce", "que", "il", "y", "a")) + what + place, "?"
        return Phrase(("there", BE[what.person]), ("il", "y", "a")) + what + place, "."

    def _who(self) -> Utterance:
        topics: dict[Callable[[Naming], Clause], float] = {
            self._active: 3,
            self._deed: 4,
            self._condition: 3,
            self._journey: 1,
            self._feeling: 1,
        }
        return self._weighted(topics)(lambda _: WHO).statement(), "?"

    def _what(self) -> Utterance:
        deed = self._one((*DEEDS, *CONDITIONS))
        subject = self._known(self._noun(deed.subjects))
        if deed in CONDITIONS:
            return simply(subject, deed.verb, NOTHING).question_what(), "?"
        return self._told(subject, deed.verb, NOTHING).question_what(), "?"

    def _where(self) -> Utterance:
        noun = self._noun(f"{BEINGS} {THINGS} container furniture building vehicle")
        subject = self._named(noun)
        return Phrase(("where", BE[subject.person]), ("où", ETRE[subject.person])) + subject, "?"

    def _introduction(self) -> Utterance:
        noun = self._noun(f"{COUNTABLE} meal drink mass building")
        what = self._described_as(noun)
        plural = what.person.plural
        this, be, est = ("these", "are", "sont") if plural else ("this", "is", "est")
        if self._is(0.3):
            return Phrase((this, be, "not"), ("ce", "ne", est, "pas")) + what, "."
        return Phrase((this, be), ("ce", "sont") if plural else ("c'est",)) + what, "."

    # Clauses.

    def _located(self, naming: Naming) -> Clause:
        noun = self._noun(f"{BEINGS} {THINGS} container furniture vehicle")
        subject = naming(noun)
        if noun.kind in PEOPLE.split() and self._is(0.3):
            return being(subject, self._destination("at", "à"))
        return being(subject, self._place(noun))

    def _state(self, _: Naming) -> Clause:
        noun = self._noun(f"{BEINGS} {THINGS} meal drink mass furniture container vehicle opening building room")
        subject = self._known(noun, described=0)
        fitting = [ADJECTIVE[name] for name in lexicon.STATES[noun.kind].split()]
        adjective = self._one([adjective for adjective in fitting if _fits(adjective, subject)])
        form = adjective.form(bool(subject.feminine), subject.person.plural)
        return being(subject, fixed(adjective.english, form, adjective.english))

    def _active(self, naming: Naming) -> Clause:
        activity = self._one(ACTIVITIES)
        noun = self._noun(activity.subjects)
        place = NOTHING
        if self._is(0.6):
            place = self._somewhere(lexicon.IN, self._noun(activity.places)) if activity.places else self._place(noun)
        return self._told(naming(noun), activity.verb, place)

    def _deed(self, naming: Naming) -> Clause:
        deed = self._one(DEEDS)
        return self._told(naming(self._noun(deed.subjects)), deed.verb, self._object(deed.objects))

    def _condition(self, naming: Naming) -> Clause:
        deed = self._one(CONDITIONS)
        subject = naming(self._noun(deed.subjects))
        if deed.verb.past and self._is(0.3):
            return done(subject, deed.verb, self._object(deed.objects) + self._when(YESTERDAY))
        return simply(subject, deed.verb, self._object(deed.objects))

    def _liking(self, naming: Naming) -> Clause:
        noun = self._noun(f"food meal drink flower {ANIMALS}")
        english, french = (noun.english, noun.french) if noun.mass else (noun.english_plural, noun.french_plural)
        article = THE.french[int(noun.feminine)] if noun.mass else THE.french[2]
        subject = naming(self._noun(PEOPLE))
        return simply(subject, lexicon.LIKE, fixed(english, f"{article} {french}", noun.english))

    def _journey(self, naming: Naming) -> Clause:
        verb, english, french = self._one(((lexicon.GO, "to", "à"), (lexicon.RETURN, "from", "de")))
        if self._is(0.15):
            subject, place = naming(self._noun("cattle")), self._fields(english, french)
        else:
            subject, place = naming(self._noun(PEOPLE)), self._destination(english, french)
        if subject.feminine is not None and self._is(0.45):
            return done(subject, verb, place + self._when(YESTERDAY))
        return doing(subject, verb, place + self._when(*NOW))

    def _feeling(self, naming: Naming) -> Clause:
        return feeling(naming(self._noun(BEINGS)), self._one(FEELINGS))

    def _fear(self, naming: Naming) -> Clause:
        noun = self._noun(f"kid baby {ANIMALS}")
        feared = self._noun(f"{ANIMALS} water", but=noun.english)
        return feeling(naming(noun), fixed("afraid of", "peur de", "afraid") + self._named(feared))

    def _told(self, subject: Phrase, verb: Verb, tail: Phrase) -> Clause:
        """An action in one of its times."""
        if verb.past and self._is(0.3):
            return done(subject, verb, tail + self._when(YESTERDAY))
        return doing(subject, verb, tail + self._when(*NOW))

    # Phrases.

    def _subject(self, noun: Noun) -> Phrase:
        return self._known(noun) if self._is(0.82) else self._some(noun)

    def _known(self, noun: Noun, described: float = DESCRIBED) -> Phrase:
        if noun.kind in PEOPLE.split() and self._is(0.5):
            return self._one(PRONOUNS)
        return self._named(noun, described)

    def _named(self, noun: Noun, described: float = DESCRIBED) -> Phrase:
        """The, this or my: what needs no introduction."""
        plural = self._is_plural(noun, 0.33)
        return definite(self._determiner(noun), noun, plural, self._attribute(noun, described))

    def _some(self, noun: Noun) -> Phrase:
        """A, some or two; of one's family only my, our, their."""
        if noun.kind == "kin":
            return self._named(noun)
        if self._is_plural(noun, 0.2):
            return counted(self._one(list(NUMBERS)), noun, self._attribute(noun))
        return self._indefinite(noun)

    def _indefinite(self, noun: Noun) -> Phrase:
        """A cat, some cats; not some mice, whose negation French does not tell from that of a mouse (pas de souris)."""
        plural = noun.french != noun.french_plural and self._is_plural(noun, 0.3)
        return indefinite(noun, plural, self._attribute(noun))

    def _object(self, kinds: str) -> Phrase:
        noun = self._noun(kinds)
        if noun.kind == "drink" and self._is(0.3):
            return indefinite(NOUN["glass"]) + fixed(f"of {noun.english}", f"de {noun.french}", noun.english)
        return self._named(noun) if self._is(0.5) else self._some(noun)

    def _described_as(self, noun: Noun) -> Phrase:
        """What something is said to be: my cat, a cat, cats."""
        plural = self._is_plural(noun, 0.3)
        if self._is(0.5):
            determiner = self._determiner(noun)
            return definite(THE if determiner is THIS else determiner, noun, plural, self._attribute(noun))
        what = indefinite(noun, plural, self._attribute(noun)).steadfast()
        return replace(what, english=what.english[1:]) if plural or noun.mass else what

    def _place(self, noun: Noun) -> Phrase:
        """A place where such a thing may be."""
        site = self._one([site for site in SITES if noun.kind in site.figures.split()])
        return self._somewhere(site.relation, self._noun(site.grounds, but=noun.english))

    def _somewhere(self, relation: Relation, noun: Noun) -> Phrase:
        ground = self._ground(noun) if noun.mass or self._is(0.92) else indefinite(noun).steadfast()
        return Phrase(relation.english, relation.french) + ground

    def _ground(self, noun: Noun) -> Phrase:
        plural = self._is_plural(noun, 0.1)
        determiner = THE if self._is(0.75) else self._determiner(noun)
        return definite(determiner, noun, plural, self._attribute(noun, 0.08))

    def _destination(self, english: str, french: str) -> Phrase:
        """At, to or from a public place; school goes without an article."""
        noun = self._noun(DESTINATIONS)
        place = definite(THE, noun)
        if noun.english == "school":
            place = replace(place, english=place.english[1:])
        return Phrase((english,), (french,)) + place

    def _fields(self, english: str, french: str) -> Phrase:
        return Phrase((english,), (french,)) + definite(THE, NOUN["field"], plural=True)

    def _when(self, *times: Phrase) -> Phrase:
        return self._one(times) if self._is(0.25) else NOTHING

    # Words.

    def _noun(self, kinds: str, but: str = "") -> Noun:
        """A noun of one of these kinds, or one of these nouns."""
        if kinds not in self._nouns:
            wanted = set(kinds.split())
            self._nouns[kinds] = [noun for noun in NOUNS if not wanted.isdisjoint((noun.kind, noun.english))]
        return self._one([noun for noun in self._nouns[kinds] if noun.english != but] if but else self._nouns[kinds])

    def _determiner(self, noun: Noun) -> Determiner:
        chance = self._chance()
        if chance < 0.6 or noun.mass:
            return THE
        if noun.english in OWNERLESS.split() or (chance < 0.72 and noun.kind != "kin"):
            return THIS
        return self._one(OWNED)

    def _attribute(self, noun: Noun, share: float = DESCRIBED) -> Adjective | None:
        fitting = lexicon.ATTRIBUTES[noun.kind].split()
        return ADJECTIVE[self._one(fitting)] if fitting and self._is(share) else None

    # Chance.

    def _is(self, share: float) -> bool:
        return self._chance() < share

    def _is_plural(self, noun: Noun, share: float) -> bool:
        return bool(noun.english_plural) and self._is(share)

    def _one(self, options: Sequence[T]) -> T:
        return options[int(self._chance() * len(options))]

    def _weighted(self, options: dict[T, float]) -> T:
        left = self._chance() * sum(options.values())
        for option, weight in options.items():
            left -= weight
            if left < 0:
                return option
        return option


def _fits(adjective: Adjective, subject: Phrase) -> bool:
    """Whether it can follow *is*, in one form where the gender is not known."""
    return adjective.predicative and (subject.feminine is not None or adjective.epicene)
