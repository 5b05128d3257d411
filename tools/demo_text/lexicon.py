"""The words of the grammar: tables only, one row a word.

Each English word has one German word, so that an English sentence has one translation.

A noun's *kind* says what it is; verbs and adjectives name the kinds that they go with, which keeps
the sentences sensible: one eats `food`, reads `text`, and turns on a `device`.
"""

from dataclasses import dataclass
from typing import NamedTuple

NOMINATIVE, ACCUSATIVE, DATIVE = 0, 1, 2

# Groups of kinds that several words share.
ADULTS = "person family"
PEOPLE = f"{ADULTS} child"
LIVING = f"{PEOPLE} animal"
AWAY = "town shop eatery public sight outdoors"
PLACES = f"home {AWAY}"
PORTABLE = "text clothes thing container"
GOODS = "food text clothes vehicle device thing furniture"
SOLID = "vehicle device furniture part"
BIG_OR_SMALL = f"animal food vehicle thing furniture container part room {PLACES}"
# What one calls one's own. Nobody says "my tourist", and "my woman" would be a wife (meine Frau).
OWNED = f"family animal {GOODS} container part room home"


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun, and for a place the prepositions that go with it."""

    kind: str
    english: str
    english_plural: str  # "" if only the singular is used
    gender: str  # m, f or n
    german: str
    german_plural: str
    weak: str = ""
    """Accusative and dative singular of a weak noun (der Junge, den Jungen)."""
    at: str = "in in"
    """English and German preposition of rest: "at an" = at the station, am Bahnhof."""
    to: str = "in"
    """German preposition of motion: in den Garten, zum Bahnhof."""


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective and the kinds of nouns it describes."""

    english: str
    german: str
    kinds: str
    graded: bool = True
    """Can be very or quite so."""
    stem: str = ""
    """What endings are added to, where it is not `german` (teuer, ein teures Auto)."""


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb by its principal parts, from which all forms are made, and what it goes with."""

    english: str
    """Infinitive, past, -ing form and perhaps a particle: "pick picked picking up"."""
    german: str
    """Infinitive, third person, participle: "ab|holen holt abgeholt"; | ends a separable prefix."""
    objects: str = ""
    """Kinds of the object; "" if the verb takes none."""
    place: str = ""
    """Kinds of places where it may be done."""
    reasons: str = ""
    """Qualities of the object that are a reason to do it: one washes what is dirty."""
    case: int = ACCUSATIVE
    preposition: str = ""
    """German preposition of the object: "auf" in auf den Bus warten."""
    recipient: bool = False
    """Takes a person in the dative before the object: jemandem etwas geben."""
    perfect: str = "haben"
    """Auxiliary of the perfect: haben or, with motion and change, sein."""
    destination: str = ""
    """Kinds of places to which it leads; such a verb always has one."""
    simple: bool = False
    """Not deliberate: English has no progressive (needs, not is needing), nor "should need"."""
    repeated: bool = False
    """May be done to the same object every day: one feeds a dog daily, but sells it once."""
    subjects: str = PEOPLE
    """Kinds of those who do it."""
    social: bool = False
    """Done in company: one dances with somebody."""


class Adverbial(NamedTuple):
    """A phrase of time, frequency, place or company, or a predicate, in both languages."""

    english: str
    german: str


class Time(NamedTuple):
    """A time and the tenses (see `phrases.Clause`) that go with it."""

    english: str
    german: str
    tenses: str


class Modal(NamedTuple):
    """A modal verb: English; German for ich, er, wir and du."""

    english: str
    german: tuple[str, str, str, str]


NOUNS = (
    Noun("person", "man", "men", "m", "Mann", "Männer"),
    Noun("person", "woman", "women", "f", "Frau", "Frauen"),
    Noun("child", "boy", "boys", "m", "Junge", "Jungen", weak="Jungen"),
    Noun("child", "girl", "girls", "n", "Mädchen", "Mädchen"),
    Noun("child", "child", "children", "n", "Kind", "Kinder"),
    Noun("person", "teacher", "teachers", "m", "Lehrer", "Lehrer"),
    Noun("person", "doctor", "doctors", "m", "Arzt", "Ärzte"),
    Noun("person", "student", "students", "m", "Student", "Studenten", weak="Studenten"),
    Noun("person", "guest", "guests", "m", "Gast", "Gäste"),
    Noun("person", "waiter", "waiters", "m", "Kellner", "Kellner"),
    Noun("person", "waitress", "waitresses", "f", "Kellnerin", "Kellnerinnen"),
    Noun("person", "actress", "actresses", "f", "Schauspielerin", "Schauspielerinnen"),
    Noun("person", "tourist", "tourists", "m", "Tourist", "Touristen", weak="Touristen"),
    Noun("family", "father", "", "m", "Vater", ""),
    Noun("family", "mother", "", "f", "Mutter", ""),
    Noun("family", "brother", "brothers", "m", "Bruder", "Brüder"),
    Noun("family", "sister", "sisters", "f", "Schwester", "Schwestern"),
    Noun("family", "son", "sons", "m", "Sohn", "Söhne"),
    Noun("family", "daughter", "daughters", "f", "Tochter", "Töchter"),
    Noun("family", "uncle", "uncles", "m", "Onkel", "Onkel"),
    Noun("family", "neighbor", "neighbors", "m", "Nachbar", "Nachbarn", weak="Nachbarn"),
    Noun("family", "aunt", "aunts", "f", "Tante", "Tanten"),
    Noun("animal", "dog", "dogs", "m", "Hund", "Hunde"),
    Noun("animal", "cat", "cats", "f", "Katze", "Katzen"),
    Noun("animal", "horse", "horses", "n", "Pferd", "Pferde"),
    Noun("animal", "bird", "birds", "m", "Vogel", "Vögel"),
    Noun("animal", "duck", "ducks", "f", "Ente", "Enten"),
    Noun("animal", "rabbit", "rabbits", "n", "Kaninchen", "Kaninchen"),
    Noun("food", "apple", "apples", "m", "Apfel", "Äpfel"),
    Noun("food", "pear", "pears", "f", "Birne", "Birnen"),
    Noun("food", "egg", "eggs", "n", "Ei", "Eier"),
    Noun("food", "cake", "cakes", "m", "Kuchen", "Kuchen"),
    Noun("food", "banana", "bananas", "f", "Banane", "Bananen"),
    Noun("food", "tomato", "tomatoes", "f", "Tomate", "Tomaten"),
    Noun("food", "sausage", "sausages", "f", "Wurst", "Würste"),
    Noun("food", "roll", "rolls", "n", "Brötchen", "Brötchen"),
    Noun("text", "book", "books", "n", "Buch", "Bücher"),
    Noun("text", "letter", "letters", "m", "Brief", "Briefe"),
    Noun("text", "postcard", "postcards", "f", "Postkarte", "Postkarten"),
    Noun("text", "poem", "poems", "n", "Gedicht", "Gedichte"),
    Noun("text", "novel", "novels", "m", "Roman", "Romane"),
    Noun("clothes", "coat", "coats", "m", "Mantel", "Mäntel"),
    Noun("clothes", "shirt", "shirts", "n", "Hemd", "Hemden"),
    Noun("clothes", "dress", "dresses", "n", "Kleid", "Kleider"),
    Noun("clothes", "hat", "hats", "m", "Hut", "Hüte"),
    Noun("clothes", "jacket", "jackets", "f", "Jacke", "Jacken"),
    Noun("clothes", "skirt", "skirts", "m", "Rock", "Röcke"),
    Noun("vehicle", "car", "cars", "n", "Auto", "Autos"),
    Noun("vehicle", "bicycle", "bicycles", "n", "Fahrrad", "Fahrräder"),
    Noun("vehicle", "boat", "boats", "n", "Boot", "Boote"),
    Noun("transport", "bus", "buses", "m", "Bus", "Busse"),
    Noun("transport", "train", "trains", "m", "Zug", "Züge"),
    Noun("transport", "taxi", "taxis", "n", "Taxi", "Taxis"),
    Noun("device", "lamp", "lamps", "f", "Lampe", "Lampen"),
    Noun("device", "computer", "computers", "m", "Computer", "Computer"),
    Noun("device", "radio", "radios", "n", "Radio", "Radios"),
    Noun("device", "camera", "cameras", "f", "Kamera", "Kameras"),
    Noun("furniture", "chair", "chairs", "m", "Stuhl", "Stühle"),
    Noun("furniture", "table", "tables", "m", "Tisch", "Tische"),
    Noun("thing", "bag", "bags", "f", "Tasche", "Taschen"),
    Noun("thing", "picture", "pictures", "n", "Bild", "Bilder"),
    Noun("thing", "umbrella", "umbrellas", "m", "Regenschirm", "Regenschirme"),
    Noun("thing", "knife", "knives", "n", "Messer", "Messer"),
    Noun("thing", "flower", "flowers", "f", "Blume", "Blumen"),
    Noun("thing", "cup", "cups", "f", "Tasse", "Tassen"),
    Noun("thing", "ball", "balls", "m", "Ball", "Bälle"),
    Noun("thing", "key", "keys", "m", "Schlüssel", "Schlüssel"),
    Noun("thing", "glass", "glasses", "n", "Glas", "Gläser"),
    Noun("container", "suitcase", "suitcases", "m", "Koffer", "Koffer"),
    Noun("container", "box", "boxes", "f", "Kiste", "Kisten"),
    Noun("container", "parcel", "parcels", "n", "Paket", "Pakete"),
    Noun("part", "door", "doors", "f", "Tür", "Türen"),
    Noun("part", "window", "windows", "n", "Fenster", "Fenster"),
    Noun("room", "kitchen", "kitchens", "f", "Küche", "Küchen"),
    Noun("room", "bedroom", "bedrooms", "n", "Schlafzimmer", "Schlafzimmer"),
    Noun("room", "office", "offices", "n", "Büro", "Büros"),
    Noun("room", "garage", "garages", "f", "Garage", "Garagen"),
    Noun("home", "garden", "gardens", "m", "Garten", "Gärten"),
    Noun("home", "house", "houses", "n", "Haus", "Häuser"),
    Noun("town", "city", "cities", "f", "Stadt", "Städte"),
    Noun("town", "village", "villages", "n", "Dorf", "Dörfer"),
    Noun("shop", "shop", "shops", "m", "Laden", "Läden"),
    Noun("shop", "market", "markets", "m", "Markt", "Märkte", at="at auf", to="auf"),
    Noun("eatery", "restaurant", "restaurants", "n", "Restaurant", "Restaurants"),
    Noun("eatery", "café", "cafés", "n", "Café", "Cafés"),
    Noun("eatery", "hotel", "hotels", "n", "Hotel", "Hotels"),
    Noun("outdoors", "park", "parks", "m", "Park", "Parks"),
    Noun("public", "school", "schools", "f", "Schule", "Schulen", at="at in"),
    Noun("sight", "museum", "museums", "n", "Museum", "Museen"),
    Noun("sight", "church", "churches", "f", "Kirche", "Kirchen"),
    Noun("public", "library", "libraries", "f", "Bibliothek", "Bibliotheken"),
    Noun("sight", "theater", "theaters", "n", "Theater", "Theater"),
    Noun("public", "station", "stations", "m", "Bahnhof", "Bahnhöfe", at="at an", to="zu"),
    Noun("outdoors", "beach", "beaches", "m", "Strand", "Strände", at="at an", to="an"),
)

ADJECTIVES = (
    Adjective("old", "alt", f"person animal transport {SOLID} {PORTABLE} {PLACES}"),
    Adjective("new", "neu", f"transport {SOLID} {PORTABLE} {PLACES}"),
    Adjective("young", "jung", "person animal"),
    Adjective("big", "groß", BIG_OR_SMALL),
    Adjective("small", "klein", BIG_OR_SMALL),
    Adjective("beautiful", "schön", f"animal clothes thing furniture room text {PLACES}"),
    Adjective("expensive", "teuer", "clothes vehicle device thing furniture eatery", stem="teur"),
    Adjective("cheap", "billig", "food clothes vehicle device thing furniture eatery"),
    Adjective("red", "rot", "clothes vehicle thing furniture container part", graded=False),
    Adjective("blue", "blau", "clothes vehicle thing furniture container part", graded=False),
    Adjective("black", "schwarz", "animal clothes vehicle thing furniture container", graded=False),
    Adjective("white", "weiß", "animal clothes vehicle furniture container part", graded=False),
    Adjective("friendly", "freundlich", "person child"),
    Adjective("polite", "höflich", "person child"),
    Adjective("clever", "klug", "person child animal"),
    Adjective("tired", "müde", LIVING, stem="müd"),
    Adjective("hungry", "hungrig", LIVING),
    Adjective("sick", "krank", LIVING),
    Adjective("happy", "glücklich", PEOPLE),
    Adjective("fresh", "frisch", "food"),
    Adjective("delicious", "lecker", "food"),
    Adjective("heavy", "schwer", "container"),
    Adjective("dirty", "schmutzig", "clothes vehicle part room"),
    Adjective("clean", "sauber", "clothes room"),
    Adjective("broken", "kaputt", "vehicle device", graded=False),
    Adjective("famous", "berühmt", "person sight"),
    Adjective("interesting", "interessant", "text town sight"),
    Adjective("boring", "langweilig", "text"),
    Adjective("modern", "modern", "device room eatery"),
    Adjective("quiet", "ruhig", "room eatery town outdoors"),
)
STATES = tuple(a for a in ADJECTIVES if a.english in ("tired", "hungry", "sick"))

VERBS = (
    # with an object in the accusative
    Verb("buy bought buying", "kaufen kauft gekauft", GOODS, "shop town", "cheap beautiful"),
    Verb(
        "sell sold selling",
        "verkaufen verkauft verkauft",
        GOODS,
        "shop",
        "old",
        subjects=ADULTS,
    ),
    Verb("look looked looking for", "suchen sucht gesucht", f"animal {PORTABLE}", "home room"),
    Verb("find found finding", "finden findet gefunden", PORTABLE, "home outdoors", simple=True),
    Verb("see saw seeing", "sehen sieht gesehen", LIVING, "town outdoors", simple=True),
    Verb("love loved loving", "lieben liebt geliebt", "family animal", simple=True),
    Verb("need needed needing", "brauchen braucht gebraucht", "clothes vehicle thing", simple=True),
    Verb("lose lost losing", "verlieren verliert verloren", "clothes thing", simple=True),
    Verb("forget forgot forgetting", "vergessen vergisst vergessen", PORTABLE, simple=True),
    Verb("meet met meeting", "treffen trifft getroffen", PEOPLE, "eatery public", repeated=True),
    Verb("visit visited visiting", "besuchen besucht besucht", f"{PEOPLE} sight", repeated=True),
    Verb("invite invited inviting", "ein|laden lädt eingeladen", PEOPLE, repeated=True),
    Verb("call called calling", "an|rufen ruft angerufen", PEOPLE, repeated=True),
    Verb("pick picked picking up", "ab|holen holt abgeholt", PEOPLE, "public", repeated=True),
    Verb("draw drew drawing", "zeichnen zeichnet gezeichnet", "animal home sight", "outdoors"),
    Verb("feed fed feeding", "füttern füttert gefüttert", "animal", "home outdoors", repeated=True),
    Verb("wash washed washing", "waschen wäscht gewaschen", "clothes vehicle", "", "dirty"),
    Verb(
        "repair repaired repairing",
        "reparieren repariert repariert",
        "vehicle device",
        "",
        "broken old",
        subjects=ADULTS,
    ),
    Verb("turn turned turning on", "ein|schalten schaltet eingeschaltet", "device", repeated=True),
    Verb("turn turned turning off", "aus|schalten schaltet ausgeschaltet", "device", repeated=True),
    Verb("open opened opening", "auf|machen macht aufgemacht", "part container", repeated=True),
    Verb("close closed closing", "zu|machen macht zugemacht", "part container", repeated=True),
    Verb("tidy tidied tidying up", "auf|räumen räumt aufgeräumt", "room", repeated=True),
    Verb(
        "try tried trying on",
        "an|probieren probiert anprobiert",
        "clothes",
        "shop",
        "beautiful",
    ),
    Verb("bring brought bringing along", "mit|bringen bringt mitgebracht", f"food {PORTABLE}"),
    Verb("eat ate eating", "essen isst gegessen", "food", "eatery home", "fresh delicious"),
    Verb("read read reading", "lesen liest gelesen", "text", "home eatery", "interesting"),
    Verb("translate translated translating", "übersetzen übersetzt übersetzt", "text", "home room"),
    # with a recipient in the dative and an object in the accusative
    Verb("give gave giving", "geben gibt gegeben", "food text clothes thing", recipient=True),
    Verb("show showed showing", "zeigen zeigt gezeigt", f"animal vehicle {PLACES}", recipient=True),
    Verb("send sent sending", "schicken schickt geschickt", "text clothes", recipient=True),
    Verb("lend lent lending", "leihen leiht geliehen", "text vehicle device", recipient=True),
    # with an object in the dative
    Verb("help helped helping", "helfen hilft geholfen", PEOPLE, case=DATIVE, repeated=True),
    Verb("thank thanked thanking", "danken dankt gedankt", PEOPLE, case=DATIVE, repeated=True),
    Verb(
        "listen listened listening to",
        "zu|hören hört zugehört",
        PEOPLE,
        case=DATIVE,
        repeated=True,
    ),
    Verb(
        "follow followed following",
        "folgen folgt gefolgt",
        LIVING,
        case=DATIVE,
        perfect="sein",
        repeated=True,
    ),
    # with a prepositional object
    Verb(
        "wait waited waiting for",
        "warten wartet gewartet",
        f"{PEOPLE} transport",
        "town",
        preposition="auf",
        repeated=True,
    ),
    Verb(
        "talk talked talking to",
        "sprechen spricht gesprochen",
        PEOPLE,
        "eatery home public",
        case=DATIVE,
        preposition="mit",
        repeated=True,
    ),
    Verb(
        "dream dreamed dreaming of",
        "träumen träumt geträumt",
        "vehicle home animal",
        case=DATIVE,
        preposition="von",
    ),
    # without an object
    Verb(
        "work worked working",
        "arbeiten arbeitet gearbeitet",
        "",
        f"{PLACES} room",
        social=True,
        subjects=ADULTS,
    ),
    Verb("sleep slept sleeping", "schlafen schläft geschlafen", "", "home room", subjects=LIVING),
    Verb("play played playing", "spielen spielt gespielt", "", "home outdoors", social=True),
    Verb("sing sang singing", "singen singt gesungen", "", "home sight room", social=True),
    Verb("dance danced dancing", "tanzen tanzt getanzt", "", "home outdoors eatery", social=True),
    Verb(
        "cook cooked cooking",
        "kochen kocht gekocht",
        "",
        "home eatery",
        social=True,
        subjects=ADULTS,
    ),
    Verb("get got getting up", "auf|stehen steht aufgestanden", perfect="sein"),
    Verb(
        "fall fell falling asleep",
        "ein|schlafen schläft eingeschlafen",
        perfect="sein",
    ),
    Verb(
        "arrive arrived arriving",
        "an|kommen kommt angekommen",
        "",
        "town",
        perfect="sein",
        simple=True,
    ),
    Verb("come came coming back", "zurück|kommen kommt zurückgekommen", perfect="sein"),
    # of motion
    Verb("go went going", "gehen geht gegangen", destination=PLACES, perfect="sein"),
    Verb(
        "drive drove driving",
        "fahren fährt gefahren",
        destination=AWAY,
        perfect="sein",
        subjects=ADULTS,
    ),
    Verb(
        "run ran running",
        "laufen läuft gelaufen",
        destination="home outdoors",
        perfect="sein",
        subjects=LIVING,
    ),
)
HAVE = Verb("have had having", "haben hat gehabt", simple=True)
LIKE = Verb("like liked liking", "mögen mag gemocht", simple=True)
WANT = Verb("want wanted wanting", "wollen will gewollt", simple=True)
RAIN = Verb("rain rained raining", "regnen regnet geregnet")
BE = Verb("be was being", "sein ist gewesen", perfect="sein")
REPORTS = (  # verbs with a clause: "Anna says that ...", "Anna asks whether ..."
    (Verb("say said saying", "sagen sagt gesagt", simple=True), "that", "dass"),
    (Verb("think thought thinking", "glauben glaubt geglaubt", simple=True), "that", "dass"),
    (Verb("know knew knowing", "wissen weiß gewusst", simple=True), "that", "dass"),
    (Verb("hope hoped hoping", "hoffen hofft gehofft", simple=True), "that", "dass"),
    (Verb("ask asked asking", "fragen fragt gefragt", simple=True), "whether", "ob"),
)

MODALS = (
    Modal("can", ("kann", "kann", "können", "kannst")),
    Modal("must", ("muss", "muss", "müssen", "musst")),
    Modal("should", ("sollte", "sollte", "sollten", "solltest")),
    Modal("want", ("will", "will", "wollen", "willst")),
    Modal("will", ("werde", "wird", "werden", "wirst")),
)
NAMES = (
    *((name, "f") for name in ("Anna", "Maria", "Julia", "Laura", "Emma", "Sophie")),
    *((name, "m") for name in ("Peter", "Paul", "Thomas", "David", "Max", "Felix")),
)
TIMES = (
    Time("yesterday", "gestern", "past"),
    Time("last week", "letzte Woche", "past"),
    Time("last year", "letztes Jahr", "past"),
    Time("this morning", "heute Morgen", "past"),
    Time("on Monday", "am Montag", "past modal"),
    Time("on Friday", "am Freitag", "past modal"),
    Time("on Sunday", "am Sonntag", "past modal"),
    Time("today", "heute", "now past modal"),
    Time("now", "jetzt", "now"),
    Time("tomorrow", "morgen", "modal"),
    Time("next week", "nächste Woche", "modal"),
    Time("every day", "jeden Tag", "habit"),
    Time("every morning", "jeden Morgen", "habit"),
    Time("every Saturday", "jeden Samstag", "habit"),
)
FREQUENCIES = (
    Adverbial("often", "oft"),
    Adverbial("always", "immer"),
    Adverbial("sometimes", "manchmal"),
    Adverbial("never", "nie"),
    Adverbial("rarely", "selten"),
)
DEGREES = (Adverbial("very", "sehr"), Adverbial("quite", "ziemlich"))
