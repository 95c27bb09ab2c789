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
    comparative: str = ""
    "English: bigger. Empty where it is not used."
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
    """An action or a state."""

    english: str
    third: str
    ing: str
    past: str
    "Empty where the past is not used."
    french: Row
    infinitive: str
    participle: str = ""
    with_be: bool = False
    "Whether the French past is made with être, its participle agreeing with the subject."
    after: tuple[str, ...] = ()
    "English words between the verb and its object: look for."


@dataclass(frozen=True)
class Relation:
    """Where one thing is as seen from another."""

    english: tuple[str, ...]
    french: tuple[str, ...]


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
    Noun("doctor", "doctors", "médecin", "médecins", M, "person"),
    Noun("teacher", "teachers", "professeur", "professeurs", M, "person"),
    Noun("boy", "boys", "garçon", "garçons", M, "kid"),
    Noun("girl", "girls", "fille", "filles", F, "kid"),
    Noun("child", "children", "enfant", "enfants", M, "kid"),
    Noun("baby", "babies", "bébé", "bébés", M, "baby"),
    Noun("mother", "", "mère", "", F, "kin"),
    Noun("father", "", "père", "", M, "kin"),
    Noun("sister", "sisters", "sœur", "sœurs", F, "kin"),
    Noun("brother", "brothers", "frère", "frères", M, "kin"),
    Noun("uncle", "uncles", "oncle", "oncles", M, "kin"),
    Noun("cat", "cats", "chat", "chats", M, "pet"),
    Noun("dog", "dogs", "chien", "chiens", M, "pet"),
    Noun("mouse", "mice", "souris", "souris", F, "pet"),
    Noun("rabbit", "rabbits", "lapin", "lapins", M, "pet"),
    Noun("hen", "hens", "poule", "poules", F, "pet"),
    Noun("bird", "birds", "oiseau", "oiseaux", M, "pet"),
    Noun("owl", "owls", "*hibou", "*hiboux", M, "pet"),
    Noun("horse", "horses", "cheval", "chevaux", M, "cattle"),
    Noun("cow", "cows", "vache", "vaches", F, "cattle"),
    Noun("donkey", "donkeys", "âne", "ânes", M, "cattle"),
    Noun("apple", "apples", "pomme", "pommes", F, "food"),
    Noun("orange", "oranges", "orange", "oranges", F, "food"),
    Noun("pear", "pears", "poire", "poires", F, "food"),
    Noun("egg", "eggs", "œuf", "œufs", M, "food"),
    Noun("cake", "cakes", "gâteau", "gâteaux", M, "food"),
    Noun("bread", "", "pain", "", M, "meal"),
    Noun("cheese", "", "fromage", "", M, "meal"),
    Noun("soup", "", "soupe", "", F, "meal"),
    Noun("meat", "", "viande", "", F, "meal"),
    Noun("water", "", "eau", "", F, "drink"),
    Noun("milk", "", "lait", "", M, "drink"),
    Noun("tea", "", "thé", "", M, "drink"),
    Noun("coffee", "", "café", "", M, "drink"),
    Noun("oil", "", "huile", "", F, "mass"),
    Noun("book", "books", "livre", "livres", M, "text"),
    Noun("letter", "letters", "lettre", "lettres", F, "text"),
    Noun("newspaper", "newspapers", "journal", "journaux", M, "text"),
    Noun("key", "keys", "clé", "clés", F, "gear"),
    Noun("clock", "clocks", "horloge", "horloges", F, "gear"),
    Noun("umbrella", "umbrellas", "parapluie", "parapluies", M, "gear"),
    Noun("ball", "balls", "balle", "balles", F, "gear"),
    Noun("lamp", "lamps", "lampe", "lampes", F, "gear"),
    Noun("flower", "flowers", "fleur", "fleurs", F, "flower"),
    Noun("knife", "knives", "couteau", "couteaux", M, "ware"),
    Noun("glass", "glasses", "verre", "verres", M, "ware"),
    Noun("cup", "cups", "tasse", "tasses", F, "ware"),
    Noun("plate", "plates", "assiette", "assiettes", F, "ware"),
    Noun("hat", "hats", "chapeau", "chapeaux", M, "clothes"),
    Noun("coat", "coats", "manteau", "manteaux", M, "clothes"),
    Noun("shirt", "shirts", "chemise", "chemises", F, "clothes"),
    Noun("mat", "mats", "tapis", "tapis", M, "furniture"),
    Noun("table", "tables", "table", "tables", F, "furniture"),
    Noun("chair", "chairs", "chaise", "chaises", F, "furniture"),
    Noun("bed", "beds", "lit", "lits", M, "furniture"),
    Noun("sofa", "sofas", "canapé", "canapés", M, "furniture"),
    Noun("bench", "benches", "banc", "bancs", M, "furniture"),
    Noun("desk", "desks", "bureau", "bureaux", M, "furniture"),
    Noun("shelf", "shelves", "étagère", "étagères", F, "furniture"),
    Noun("box", "boxes", "boîte", "boîtes", F, "container"),
    Noun("bag", "bags", "sac", "sacs", M, "container"),
    Noun("basket", "baskets", "panier", "paniers", M, "container"),
    Noun("drawer", "drawers", "tiroir", "tiroirs", M, "container"),
    Noun("car", "cars", "voiture", "voitures", F, "vehicle"),
    Noun("boat", "boats", "bateau", "bateaux", M, "boat"),
    Noun("door", "doors", "porte", "portes", F, "opening"),
    Noun("window", "windows", "fenêtre", "fenêtres", F, "opening"),
    Noun("house", "houses", "maison", "maisons", F, "building"),
    Noun("school", "schools", "école", "écoles", F, "building"),
    Noun("church", "churches", "église", "églises", F, "building"),
    Noun("station", "stations", "gare", "gares", F, "building"),
    Noun("hotel", "hotels", "hôtel", "hôtels", M, "building"),
    Noun("hospital", "hospitals", "hôpital", "hôpitaux", M, "building"),
    Noun("castle", "castles", "château", "châteaux", M, "building"),
    Noun("bridge", "bridges", "pont", "ponts", M, "building"),
    Noun("kitchen", "kitchens", "cuisine", "cuisines", F, "room"),
    Noun("garden", "gardens", "jardin", "jardins", M, "outdoors"),
    Noun("park", "parks", "parc", "parcs", M, "outdoors"),
    Noun("market", "", "marché", "", M, "outdoors"),
    Noun("beach", "", "plage", "", F, "outdoors"),
    Noun("street", "streets", "rue", "rues", F, "outdoors"),
    Noun("field", "fields", "champ", "champs", M, "outdoors"),
    Noun("forest", "", "forêt", "", F, "outdoors"),
    Noun("river", "rivers", "rivière", "rivières", F, "outdoors"),
    Noun("tree", "trees", "arbre", "arbres", M, "outdoors"),
    Noun("wall", "walls", "mur", "murs", M, "outdoors"),
    Noun("roof", "", "toit", "", M, "outdoors"),
    Noun("grass", "", "herbe", "", F, "ground"),
)

ADJECTIVES = (
    Adjective("small", "petit", "petite", "petits", before=True, comparative="smaller"),
    Adjective("big", "grand", "grande", "grands", before=True, comparative="bigger"),
    Adjective("good", "bon", "bonne", "bons", before=True),
    Adjective("young", "jeune", "jeune", "jeunes", before=True, comparative="younger"),
    Adjective("old", "vieux", "vieille", "vieux", before=True, before_vowel="vieil", comparative="older"),
    Adjective("new", "nouveau", "nouvelle", "nouveaux", before=True, before_vowel="nouvel", predicative=False),
    Adjective("beautiful", "beau", "belle", "beaux", before=True, before_vowel="bel", comparative="more beautiful"),
    Adjective("black", "noir", "noire", "noirs"),
    Adjective("white", "blanc", "blanche", "blancs"),
    Adjective("red", "rouge", "rouge", "rouges"),
    Adjective("blue", "bleu", "bleue", "bleus"),
    Adjective("green", "vert", "verte", "verts"),
    Adjective("clean", "propre", "propre", "propres"),
    Adjective("dirty", "sale", "sale", "sales"),
    Adjective("empty", "vide", "vide", "vides"),
    Adjective("heavy", "lourd", "lourde", "lourds"),
    Adjective("hot", "chaud", "chaude", "chauds"),
    Adjective("cold", "froid", "froide", "froids"),
    Adjective("happy", "heureux", "heureuse", "heureux"),
    Adjective("tired", "fatigué", "fatiguée", "fatigués"),
    Adjective("sad", "triste", "triste", "tristes"),
    Adjective("sick", "malade", "malade", "malades"),
)

ATTRIBUTES = {
    "person": "old young",
    "kid": "small happy sad sick tired",
    "kin": "",
    "baby": "small happy tired sick",
    "pet": "small big old young beautiful black white",
    "cattle": "small big old young beautiful black white",
    "food": "small good",
    "meal": "good",
    "drink": "good",
    "mass": "",
    "text": "old new beautiful",
    "gear": "old new small big",
    "flower": "beautiful white red blue small",
    "ware": "clean dirty small big new old",
    "clothes": "black white red blue green clean dirty new old beautiful",
    "furniture": "small big old new beautiful black white red green",
    "container": "small big empty heavy old red blue green",
    "vehicle": "small big old new black white red blue green",
    "boat": "small big old new white red blue",
    "opening": "big small old new green blue white",
    "building": "old new big small beautiful",
    "room": "small big beautiful new",
    "outdoors": "small big beautiful",
    "ground": "",
}
"""Kind of noun -> the adjectives that may stand beside it."""

STATES = {
    **ATTRIBUTES,
    "person": "happy tired sad sick old young",
    "kid": "happy tired sad sick small",
    "kin": "happy tired sad sick old young",
    "pet": "tired sick small big old young black white",
    "cattle": "tired sick big old young black white",
    "food": "good small cold hot",
    "meal": "good cold hot",
    "drink": "good cold hot",
    "mass": "hot cold",
    "text": "old beautiful",
}
"""Kind of noun -> the adjectives that may follow *is*."""

BE: Row = ("am", "is", "are", "are")
DO: Row = ("do", "does", "do", "do")
ETRE: Row = ("suis", "est", "sommes", "sont")
AVOIR: Row = ("ai", "a", "avons", "ont")

SLEEP = Verb("sleep", "sleeps", "sleeping", "slept", ("dors", "dort", "dormons", "dorment"), "dormir", "dormi")
PLAY = Verb("play", "plays", "playing", "played", ("joue", "joue", "jouons", "jouent"), "jouer", "joué")
WORK = Verb(
    "work",
    "works",
    "working",
    "worked",
    ("travaille", "travaille", "travaillons", "travaillent"),
    "travailler",
    "travaillé",
)
SING = Verb("sing", "sings", "singing", "sang", ("chante", "chante", "chantons", "chantent"), "chanter", "chanté")
RUN = Verb("run", "runs", "running", "ran", ("cours", "court", "courons", "courent"), "courir", "couru")
SWIM = Verb("swim", "swims", "swimming", "swam", ("nage", "nage", "nageons", "nagent"), "nager", "nagé")
WAIT = Verb(
    "wait", "waits", "waiting", "waited", ("attends", "attend", "attendons", "attendent"), "attendre", "attendu"
)
CRY = Verb("cry", "cries", "crying", "cried", ("pleure", "pleure", "pleurons", "pleurent"), "pleurer", "pleuré")

EAT = Verb("eat", "eats", "eating", "ate", ("mange", "mange", "mangeons", "mangent"), "manger", "mangé")
DRINK = Verb("drink", "drinks", "drinking", "drank", ("bois", "boit", "buvons", "boivent"), "boire", "bu")
BUY = Verb("buy", "buys", "buying", "bought", ("achète", "achète", "achetons", "achètent"), "acheter", "acheté")
READ = Verb("read", "reads", "reading", "", ("lis", "lit", "lisons", "lisent"), "lire")
WRITE = Verb("write", "writes", "writing", "wrote", ("écris", "écrit", "écrivons", "écrivent"), "écrire", "écrit")
WASH = Verb("wash", "washes", "washing", "washed", ("lave", "lave", "lavons", "lavent"), "laver", "lavé")
OPEN = Verb("open", "opens", "opening", "opened", ("ouvre", "ouvre", "ouvrons", "ouvrent"), "ouvrir", "ouvert")
CLOSE = Verb("close", "closes", "closing", "closed", ("ferme", "ferme", "fermons", "ferment"), "fermer", "fermé")
WATCH = Verb(
    "watch", "watches", "watching", "watched", ("regarde", "regarde", "regardons", "regardent"), "regarder", "regardé"
)
SEEK = Verb(
    "look", "looks", "looking", "", ("cherche", "cherche", "cherchons", "cherchent"), "chercher", after=("for",)
)
WEAR = Verb("wear", "wears", "wearing", "", ("porte", "porte", "portons", "portent"), "porter")
FIND = Verb("find", "finds", "finding", "found", ("trouve", "trouve", "trouvons", "trouvent"), "trouver", "trouvé")
LOSE = Verb("lose", "loses", "losing", "lost", ("perds", "perd", "perdons", "perdent"), "perdre", "perdu")
GIVE = Verb("give", "gives", "giving", "gave", ("donne", "donne", "donnons", "donnent"), "donner", "donné")
GO = Verb("go", "goes", "going", "went", ("vais", "va", "allons", "vont"), "aller", "allé", with_be=True)
RETURN = Verb(
    "come",
    "comes",
    "coming",
    "came",
    ("reviens", "revient", "revenons", "reviennent"),
    "revenir",
    "revenu",
    True,
    ("back",),
)

HAVE = Verb("have", "has", "having", "", AVOIR, "avoir")
SEE = Verb("see", "sees", "seeing", "saw", ("vois", "voit", "voyons", "voient"), "voir", "vu")
WANT = Verb("want", "wants", "wanting", "", ("veux", "veut", "voulons", "veulent"), "vouloir")
NEED = Verb("need", "needs", "needing", "", AVOIR, "avoir")
LIKE = Verb("like", "likes", "liking", "", ("aime", "aime", "aimons", "aiment"), "aimer")
THINK = Verb("think", "thinks", "thinking", "", ("crois", "croit", "croyons", "croient"), "croire")

ON = Relation(("on",), ("sur",))
UNDER = Relation(("under",), ("sous",))
IN = Relation(("in",), ("dans",))
BEHIND = Relation(("behind",), ("derrière",))
BEFORE = Relation(("in", "front", "of"), ("devant",))
BESIDE = Relation(("next", "to"), ("à", "côté", "de"))
NEAR = Relation(("near",), ("près", "de"))

THINGS = "text gear ware clothes food flower"
PEOPLE = "person kid kin"
BEINGS = f"{PEOPLE} baby pet cattle"
LANDMARKS = "house tree car church school wall station castle hotel hospital door"

SITES = (
    Site(ON, f"{THINGS} container", "table chair bed desk bench shelf"),
    Site(ON, f"{THINGS} pet kid baby", "mat"),
    Site(ON, "pet", "table chair bed sofa bench desk roof wall grass"),
    Site(ON, f"{PEOPLE} baby", "bed sofa chair bench bridge beach"),
    Site(ON, "cattle", "bridge grass"),
    Site(ON, "boat", "river beach"),
    Site(UNDER, THINGS, "table chair bed desk bench mat"),
    Site(UNDER, "pet", "table chair bed desk bench sofa tree bridge"),
    Site(UNDER, f"{PEOPLE} baby cattle", "tree bridge"),
    Site(UNDER, "boat", "bridge"),
    Site(IN, THINGS, "box bag basket drawer kitchen car house"),
    Site(ON, "meal", "table shelf desk"),
    Site(IN, "meal", "kitchen house basket bag"),
    Site(IN, "drink mass", "glass cup kitchen house"),
    Site(IN, "pet", "box basket house garden kitchen tree grass field street forest park car boat"),
    Site(
        IN,
        f"{PEOPLE} baby",
        "house garden kitchen car boat street forest park field church castle hotel hospital school",
    ),
    Site(IN, "cattle", "field garden forest street park"),
    Site(IN, "furniture container", "kitchen house garden school hotel"),
    Site(IN, "vehicle", "street field park"),
    Site(BEHIND, f"{BEINGS} vehicle", LANDMARKS),
    Site(BEFORE, f"{BEINGS} vehicle", f"{LANDMARKS} window"),
    Site(BESIDE, f"{BEINGS} vehicle", f"{LANDMARKS} river bridge"),
    Site(NEAR, f"{BEINGS} vehicle", f"{LANDMARKS} river bridge beach market forest window"),
    Site(BEHIND, THINGS, "door chair bed lamp clock box"),
    Site(BEFORE, THINGS, "door window clock lamp"),
    Site(BESIDE, f"{THINGS} container", "bed chair door window lamp"),
    Site(NEAR, f"{THINGS} furniture container", "door window bed wall"),
    Site(NEAR, "boat", "river bridge beach castle"),
)
"""What may be where."""
