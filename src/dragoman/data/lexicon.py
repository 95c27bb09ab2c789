"""The words of the little English-French language in ``phrases``, with all their forms.

An asterisk before a French word marks an *h* that blocks elision (``le hibou``, but ``l'homme``); it is never shown.
Every English word here has one French word and the other way round: no ``you`` (tu, vous), no ``they`` (ils, elles), no
``his`` and ``her`` (both son), no ``that`` beside ``this`` (both ce).
"""

from dataclasses import dataclass
from enum import IntEnum


class Person(IntEnum):
    """Who the verb agrees with; also the place of its form in a row of four."""

    I = 0  # noqa: E741
    HE = 1
    WE = 2
    THEY = 3

    @property
    def plural(self) -> bool:
        """Whether more than one is meant."""
        return self >= Person.WE


Words = tuple[str, ...]
Row = tuple[str, str, str, str]
"""A verb's forms for I, he or she, we, they."""


@dataclass(frozen=True)
class Noun:
    """A thing that can be named; ``kind`` says what can be said of it."""

    english: str
    english_plural: str
    "Empty where the plural is not used: some bread, my mother."
    french: str
    french_plural: str
    feminine: bool
    kind: str

    @property
    def mass(self) -> bool:
        """Whether it is poured or cut off, not counted."""
        return self.kind in ("meal", "drink", "mass", "ground")


@dataclass(frozen=True)
class Adjective:
    """A property; French forms agree with the noun."""

    english: str
    masculine: str
    feminine: str
    masculine_plural: str
    before: bool = False
    "Whether French puts it before the noun."
    before_vowel: str = ""
    "The masculine singular before a vowel, where it differs: un vieil homme."
    predicative: bool = True
    "Whether it may follow *is*; a shirt that is new is not *nouvelle*, though a new one may be."

    @property
    def epicene(self) -> bool:
        """Whether the two genders look the same, as they must where the gender is not known (I, we)."""
        return self.masculine == self.feminine

    def form(self, feminine: bool, plural: bool) -> str:
        """The French form that agrees."""
        if feminine:
            return self.feminine + "s" * plural
        return self.masculine_plural if plural else self.masculine


@dataclass(frozen=True)
class Verb:
    """An action or a state; forms that are not used are empty."""

    english: str
    third: str
    "He has."
    ing: str
    past: str
    french: Row
    participle: str = ""
    with_be: bool = False
    "Whether the French past is made with être, its participle agreeing with the subject."
    after: Words = ()
    "English words between the verb and its object: look for."


@dataclass(frozen=True)
class Relation:
    """Where one thing is as seen from another."""

    english: Words
    french: Words


@dataclass(frozen=True)
class Site:
    """A relation, the kinds of things found in it, and the nouns it is said of."""

    relation: Relation
    figures: str
    grounds: str


M, F = False, True

NOUNS = (
    Noun("man", "men", "homme", "hommes", M, "person"),
    Noun("woman", "women", "femme", "femmes", F, "person"),
    Noun("friend", "friends", "ami", "amis", M, "person"),
    Noun("teacher", "teachers", "professeur", "professeurs", M, "person"),
    Noun("boy", "boys", "garçon", "garçons", M, "kid"),
    Noun("girl", "girls", "fille", "filles", F, "kid"),
    Noun("child", "children", "enfant", "enfants", M, "kid"),
    Noun("baby", "babies", "bébé", "bébés", M, "baby"),
    Noun("mother", "", "mère", "", F, "kin"),
    Noun("father", "", "père", "", M, "kin"),
    Noun("sister", "sisters", "sœur", "sœurs", F, "kin"),
    Noun("brother", "brothers", "frère", "frères", M, "kin"),
    Noun("cat", "cats", "chat", "chats", M, "pet"),
    Noun("dog", "dogs", "chien", "chiens", M, "pet"),
    Noun("mouse", "mice", "souris", "souris", F, "pet"),
    Noun("rabbit", "rabbits", "lapin", "lapins", M, "pet"),
    Noun("bird", "birds", "oiseau", "oiseaux", M, "pet"),
    Noun("owl", "owls", "*hibou", "*hiboux", M, "pet"),
    Noun("horse", "horses", "cheval", "chevaux", M, "cattle"),
    Noun("cow", "cows", "vache", "vaches", F, "cattle"),
    Noun("donkey", "donkeys", "âne", "ânes", M, "cattle"),
    Noun("apple", "apples", "pomme", "pommes", F, "food"),
    Noun("orange", "oranges", "orange", "oranges", F, "food"),
    Noun("egg", "eggs", "œuf", "œufs", M, "food"),
    Noun("cake", "cakes", "gâteau", "gâteaux", M, "food"),
    Noun("bread", "", "pain", "", M, "meal"),
    Noun("cheese", "", "fromage", "", M, "meal"),
    Noun("soup", "", "soupe", "", F, "meal"),
    Noun("water", "", "eau", "", F, "drink"),
    Noun("milk", "", "lait", "", M, "drink"),
    Noun("tea", "", "thé", "", M, "drink"),
    Noun("oil", "", "huile", "", F, "mass"),
    Noun("book", "books", "livre", "livres", M, "text"),
    Noun("letter", "letters", "lettre", "lettres", F, "text"),
    Noun("newspaper", "newspapers", "journal", "journaux", M, "text"),
    Noun("key", "keys", "clé", "clés", F, "gear"),
    Noun("clock", "clocks", "horloge", "horloges", F, "gear"),
    Noun("umbrella", "umbrellas", "parapluie", "parapluies", M, "gear"),
    Noun("ball", "balls", "balle", "balles", F, "gear"),
    Noun("flower", "flowers", "fleur", "fleurs", F, "flower"),
    Noun("knife", "knives", "couteau", "couteaux", M, "ware"),
    Noun("glass", "glasses", "verre", "verres", M, "ware"),
    Noun("plate", "plates", "assiette", "assiettes", F, "ware"),
    Noun("hat", "hats", "chapeau", "chapeaux", M, "clothes"),
    Noun("coat", "coats", "manteau", "manteaux", M, "clothes"),
    Noun("shirt", "shirts", "chemise", "chemises", F, "clothes"),
    Noun("mat", "mats", "tapis", "tapis", M, "furniture"),
    Noun("table", "tables", "table", "tables", F, "furniture"),
    Noun("chair", "chairs", "chaise", "chaises", F, "furniture"),
    Noun("bed", "beds", "lit", "lits", M, "furniture"),
    Noun("bench", "benches", "banc", "bancs", M, "furniture"),
    Noun("desk", "desks", "bureau", "bureaux", M, "furniture"),
    Noun("box", "boxes", "boîte", "boîtes", F, "container"),
    Noun("bag", "bags", "sac", "sacs", M, "container"),
    Noun("car", "cars", "voiture", "voitures", F, "vehicle"),
    Noun("door", "doors", "porte", "portes", F, "opening"),
    Noun("window", "windows", "fenêtre", "fenêtres", F, "opening"),
    Noun("house", "houses", "maison", "maisons", F, "building"),
    Noun("school", "", "école", "", F, "building"),
    Noun("church", "", "église", "", F, "building"),
    Noun("station", "", "gare", "", F, "building"),
    Noun("hotel", "", "hôtel", "", M, "building"),
    Noun("castle", "", "château", "", M, "building"),
    Noun("kitchen", "", "cuisine", "", F, "room"),
    Noun("garden", "", "jardin", "", M, "outdoors"),
    Noun("park", "", "parc", "", M, "outdoors"),
    Noun("market", "", "marché", "", M, "outdoors"),
    Noun("field", "fields", "champ", "champs", M, "outdoors"),
    Noun("tree", "trees", "arbre", "arbres", M, "outdoors"),
    Noun("roof", "", "toit", "", M, "outdoors"),
    Noun("grass", "", "herbe", "", F, "ground"),
)

ADJECTIVES = (
    Adjective("small", "petit", "petite", "petits", before=True),
    Adjective("big", "grand", "grande", "grands", before=True),
    Adjective("good", "bon", "bonne", "bons", before=True),
    Adjective("young", "jeune", "jeune", "jeunes", before=True),
    Adjective("old", "vieux", "vieille", "vieux", before=True, before_vowel="vieil"),
    Adjective("new", "nouveau", "nouvelle", "nouveaux", before=True, before_vowel="nouvel", predicative=False),
    Adjective("beautiful", "beau", "belle", "beaux", before=True, before_vowel="bel"),
    Adjective("black", "noir", "noire", "noirs"),
    Adjective("white", "blanc", "blanche", "blancs"),
    Adjective("red", "rouge", "rouge", "rouges"),
    Adjective("cold", "froid", "froide", "froids"),
    Adjective("happy", "heureux", "heureuse", "heureux"),
    Adjective("sad", "triste", "triste", "tristes"),
    Adjective("sick", "malade", "malade", "malades"),
)

ATTRIBUTES = {
    "person": "old young",
    "kid": "small happy sad sick",
    "kin": "",
    "baby": "small happy sick",
    "pet": "small big old young beautiful black white",
    "cattle": "small big old young beautiful black white",
    "food": "small beautiful",
    "meal": "good",
    "drink": "good",
    "mass": "",
    "text": "old new good beautiful",
    "gear": "old new small big",
    "flower": "beautiful white red small",
    "ware": "small big new old white",
    "clothes": "black white red new old beautiful",
    "furniture": "small big old new beautiful black white",
    "container": "small big old red black",
    "vehicle": "small big old new black white red",
    "opening": "big small old new white",
    "building": "old new big small beautiful",
    "room": "small big beautiful new",
    "outdoors": "small big beautiful",
    "ground": "",
}
"""Kind of noun -> the adjectives that may stand beside it."""

STATES = {
    **ATTRIBUTES,
    "person": "happy sad sick old young",
    "kid": "happy sad sick small",
    "kin": "happy sad sick old young",
    "pet": "sick small big old young black white",
    "cattle": "sick big old young black white",
    "food": "good small cold beautiful",
    "meal": "good cold",
    "drink": "good cold",
    "mass": "cold",
    "text": "old good beautiful",
}
"""Kind of noun -> the adjectives that may follow *is*."""

BE: Row = ("am", "is", "are", "are")
DO: Row = ("do", "does", "do", "do")
ETRE: Row = ("suis", "est", "sommes", "sont")
AVOIR: Row = ("ai", "a", "avons", "ont")

SLEEP = Verb("sleep", "", "sleeping", "slept", ("dors", "dort", "dormons", "dorment"), "dormi")
PLAY = Verb("play", "", "playing", "played", ("joue", "joue", "jouons", "jouent"), "joué")
WORK = Verb("work", "", "working", "worked", ("travaille", "travaille", "travaillons", "travaillent"), "travaillé")
SING = Verb("sing", "", "singing", "sang", ("chante", "chante", "chantons", "chantent"), "chanté")
EAT = Verb("eat", "", "eating", "ate", ("mange", "mange", "mangeons", "mangent"), "mangé")
DRINK = Verb("drink", "", "drinking", "drank", ("bois", "boit", "buvons", "boivent"), "bu")
BUY = Verb("buy", "", "buying", "bought", ("achète", "achète", "achetons", "achètent"), "acheté")
READ = Verb("read", "", "reading", "", ("lis", "lit", "lisons", "lisent"))
WASH = Verb("wash", "", "washing", "washed", ("lave", "lave", "lavons", "lavent"), "lavé")
OPEN = Verb("open", "", "opening", "opened", ("ouvre", "ouvre", "ouvrons", "ouvrent"), "ouvert")
WATCH = Verb("watch", "", "watching", "", ("regarde", "regarde", "regardons", "regardent"))
SEEK = Verb("look", "", "looking", "", ("cherche", "cherche", "cherchons", "cherchent"), after=("for",))
WEAR = Verb("wear", "", "wearing", "", ("porte", "porte", "portons", "portent"))
GO = Verb("go", "", "going", "went", ("vais", "va", "allons", "vont"), "allé", with_be=True)
RETURN = Verb(
    "come", "", "coming", "came", ("reviens", "revient", "revenons", "reviennent"), "revenu", True, after=("back",)
)
HAVE = Verb("have", "has", "", "", AVOIR)
SEE = Verb("see", "sees", "", "saw", ("vois", "voit", "voyons", "voient"), "vu")
WANT = Verb("want", "wants", "", "", ("veux", "veut", "voulons", "veulent"))
LIKE = Verb("like", "likes", "", "", ("aime", "aime", "aimons", "aiment"))

ON = Relation(("on",), ("sur",))
UNDER = Relation(("under",), ("sous",))
IN = Relation(("in",), ("dans",))
BEHIND = Relation(("behind",), ("derrière",))
BEFORE = Relation(("in", "front", "of"), ("devant",))
BESIDE = Relation(("next", "to"), ("à", "côté", "de"))
NEAR = Relation(("near",), ("près", "de"))

THINGS = "text gear ware clothes food flower"
PEOPLE = "person kid kin"
ANIMALS = "pet cattle"
BEINGS = f"{PEOPLE} baby {ANIMALS}"
LANDMARKS = "house tree car church school station castle hotel door"

SITES = (
    Site(ON, f"{THINGS} container", "table chair bed desk bench"),
    Site(ON, f"{THINGS} pet kid baby", "mat"),
    Site(ON, "meal", "table desk"),
    Site(ON, "pet", "table chair bed bench desk roof grass"),
    Site(ON, f"{PEOPLE} baby", "bed chair bench"),
    Site(UNDER, THINGS, "table chair bed desk bench mat"),
    Site(UNDER, "pet", "table chair bed desk bench tree"),
    Site(UNDER, f"{PEOPLE} baby cattle", "tree"),
    Site(IN, f"{THINGS} meal", "box bag kitchen car house"),
    Site(IN, "drink mass", "glass kitchen house"),
    Site(IN, "pet", "box house garden kitchen tree grass field park car"),
    Site(IN, f"{PEOPLE} baby", "house garden kitchen car park field church castle hotel school"),
    Site(IN, "cattle", "field garden park"),
    Site(IN, "furniture container", "kitchen house garden school hotel"),
    Site(BEHIND, f"{BEINGS} vehicle", LANDMARKS),
    Site(BEFORE, f"{BEINGS} vehicle", f"{LANDMARKS} window"),
    Site(BESIDE, f"{BEINGS} vehicle", LANDMARKS),
    Site(NEAR, f"{BEINGS} vehicle", f"{LANDMARKS} market window"),
    Site(BEHIND, THINGS, "door chair bed clock box"),
    Site(BEFORE, THINGS, "door window clock"),
    Site(BESIDE, f"{THINGS} container", "bed chair door window"),
    Site(NEAR, f"{THINGS} furniture container", "door window bed"),
)
"""What may be where."""
