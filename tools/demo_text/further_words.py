"""More words of a beginner's course: tables for everyday sentences only.

`draw.with_words` adds the nouns and adjectives to those of `lexicon`. It also adds the nouns of
`nouns.txt` (`LISTED`), but less often. The modules `further_*` use the verbs, times and phrases.
The columns are those of `lexicon`.
"""

import dataclasses
from pathlib import Path

from tools.demo_text.lexicon import (
    LIVING,
    PEOPLE,
    PORTABLE,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)


def _nouns(kind: str, *rows: str) -> tuple[Noun, ...]:
    """Nouns of a kind. A row: English/plural, gender, German/plural, and perhaps weak form.

    An underscore stands for a space inside a noun.
    """
    nouns = []
    for row in rows:
        ours, gender, theirs, *weak = (part.strip() for part in row.split(","))
        english, _, english_plural = ours.partition("/")
        german, _, german_plural = theirs.partition("/")
        nouns.append(Noun(kind, english, english_plural, gender, german, german_plural, *weak))
    return tuple(nouns)


def _places(kind: str, *rows: str) -> tuple[Noun, ...]:
    """Places. A row: as in `_nouns`, with the prepositions of rest and motion at the end."""
    places = []
    for row in rows:
        words, at, to = row.rsplit(",", 2)
        places.append(dataclasses.replace(_nouns(kind, words)[0], at=at.strip(), to=to.strip()))
    return tuple(places)


def _listed_nouns() -> tuple[Noun, ...]:
    """The nouns of `nouns.txt`. A row with four commas is a place."""
    nouns: list[Noun] = []
    for line in Path(__file__).with_name("nouns.txt").read_text(encoding="utf-8").splitlines():
        kind, _, row = line.partition(": ")
        if kind.startswith("#"):
            continue
        nouns.extend((_places if row.count(",") == 4 else _nouns)(kind, row))
    return tuple(nouns)


LISTED = _listed_nouns()
NOUNS = (
    *_nouns(
        "person",
        *("friend/friends, m, Freund/Freunde", "friend/friends, m, Freund/Freunde"),
        *("boss/bosses, m, Chef/Chefs", "farmer/farmers, m, Bauer/Bauern, Bauern"),
        *(
            "singer/singers, m, Sänger/Sänger",
            "nurse/nurses, f, Krankenschwester/Krankenschwestern",
        ),
        *("queen/queens, f, Königin/Königinnen", "king/kings, m, König/Könige"),
        *("policeman/policemen, m, Polizist/Polizisten, Polizisten",),
        *("driver/drivers, m, Fahrer/Fahrer", "baker/bakers, m, Bäcker/Bäcker"),
        "colleague/colleagues, m, Kollege/Kollegen, Kollegen",
    ),
    *_nouns("child", "baby/babies, n, Baby/Babys", "kid/kids, n, Kind/Kinder"),
    *_nouns(
        "family",
        *("grandmother/, f, Großmutter", "grandfather/, m, Großvater", "wife/, f, Frau"),
        *("husband/, m, Mann", "cousin/cousins, m, Cousin/Cousins"),
        *("girlfriend/, f, Freundin", "boyfriend/, m, Freund", "mom/, f, Mama", "dad/, m, Papa"),
        *("grandma/, f, Oma", "grandpa/, m, Opa"),
    ),
    *_nouns(
        "animal",
        *("cow/cows, f, Kuh/Kühe", "mouse/mice, f, Maus/Mäuse", "pig/pigs, n, Schwein/Schweine"),
        *("fish/, m, Fisch", "bear/bears, m, Bär/Bären, Bären", "sheep/, n, Schaf"),
        *("lion/lions, m, Löwe/Löwen, Löwen", "monkey/monkeys, m, Affe/Affen, Affen"),
        *("chicken/chickens, n, Huhn/Hühner", "frog/frogs, m, Frosch/Frösche"),
        *("snake/snakes, f, Schlange/Schlangen", "spider/spiders, f, Spinne/Spinnen"),
        *("wolf/wolves, m, Wolf/Wölfe", "tiger/tigers, m, Tiger/Tiger"),
        *("animal/animals, n, Tier/Tiere", "pet/pets, n, Haustier/Haustiere"),
    ),
    *_nouns(
        "food",
        *("orange/oranges, f, Orange/Orangen", "potato/potatoes, f, Kartoffel/Kartoffeln"),
        *("carrot/carrots, f, Karotte/Karotten", "lemon/lemons, f, Zitrone/Zitronen"),
        *("sandwich/sandwiches, n, Sandwich/Sandwiches", "cookie/cookies, m, Keks/Kekse"),
        "strawberry/strawberries, f, Erdbeere/Erdbeeren",
    ),
    *_nouns(
        "text",
        *("newspaper/newspapers, f, Zeitung/Zeitungen", "story/stories, f, Geschichte/Geschichten"),
        "newspaper/newspapers, f, Zeitung/Zeitungen",
    ),
    *_nouns(
        "clothes",
        *("shoe/shoes, m, Schuh/Schuhe", "shoe/shoes, m, Schuh/Schuhe"),
        *("sock/socks, f, Socke/Socken", "sweater/sweaters, m, Pullover/Pullover"),
        *("tie/ties, f, Krawatte/Krawatten", "scarf/scarves, m, Schal/Schals"),
    ),
    *_nouns(
        "vehicle",
        *("bike/bikes, n, Fahrrad/Fahrräder", "bike/bikes, n, Fahrrad/Fahrräder"),
        *("ship/ships, n, Schiff/Schiffe", "truck/trucks, m, Lastwagen/Lastwagen"),
        "motorcycle/motorcycles, n, Motorrad/Motorräder",
    ),
    *_nouns("transport", "plane/planes, n, Flugzeug/Flugzeuge"),
    *_nouns(
        "device",
        *("phone/phones, n, Handy/Handys", "phone/phones, n, Handy/Handys"),
        *("television/televisions, m, Fernseher/Fernseher", "clock/clocks, f, Uhr/Uhren"),
    ),
    *_nouns(
        "furniture",
        *("bed/beds, n, Bett/Betten", "sofa/sofas, n, Sofa/Sofas"),
        *("desk/desks, m, Schreibtisch/Schreibtische", "mirror/mirrors, m, Spiegel/Spiegel"),
        "bench/benches, f, Bank/Bänke",
    ),
    *_nouns(
        "thing",
        *("pen/pens, m, Stift/Stifte", "pencil/pencils, m, Bleistift/Bleistifte"),
        *("plate/plates, m, Teller/Teller", "spoon/spoons, m, Löffel/Löffel"),
        *("fork/forks, f, Gabel/Gabeln", "bottle/bottles, f, Flasche/Flaschen"),
        *(
            "watch/watches, f, Uhr/Uhren",
            "ring/rings, m, Ring/Ringe",
            "photo/photos, n, Foto/Fotos",
        ),
        *("guitar/guitars, f, Gitarre/Gitarren", "piano/pianos, n, Klavier/Klaviere"),
        *("ticket/tickets, f, Fahrkarte/Fahrkarten", "passport/passports, m, Pass/Pässe"),
        *("present/presents, n, Geschenk/Geschenke", "toy/toys, n, Spielzeug/Spielzeuge"),
        *("doll/dolls, f, Puppe/Puppen", "tree/trees, m, Baum/Bäume"),
        *("game/games, n, Spiel/Spiele", "card/cards, f, Karte/Karten"),
        *(
            "star/stars, m, Stern/Sterne",
            "rose/roses, f, Rose/Rosen",
            "menu/menus, f, Speisekarte/Speisekarten",
            "stone/stones, m, Stein/Steine",
        ),
        "basket/baskets, m, Korb/Körbe",
    ),
    *_nouns("container", "fridge/fridges, m, Kühlschrank/Kühlschränke"),
    *_nouns("container", "cupboard/cupboards, m, Schrank/Schränke"),
    *_nouns("part", "wall/walls, f, Wand/Wände", "roof/roofs, n, Dach/Dächer"),
    *_nouns("home", "apartment/apartments, f, Wohnung/Wohnungen"),
    *_nouns(
        "room",
        *("room/rooms, n, Zimmer/Zimmer", "room/rooms, n, Zimmer/Zimmer"),
        *("bathroom/bathrooms, n, Badezimmer/Badezimmer",),
        *("living_room/living_rooms, n, Wohnzimmer/Wohnzimmer",),
        "classroom/classrooms, n, Klassenzimmer/Klassenzimmer",
    ),
    *_places(
        "public",
        *("hospital/hospitals, n, Krankenhaus/Krankenhäuser, in in, in",),
        *(
            "bank/banks, f, Bank/Banken, at in, zu",
            "airport/airports, m, Flughafen/Flughäfen, at an, zu",
        ),
        *("train_station/train_stations, m, Bahnhof/Bahnhöfe, at an, zu",) * 2,
        *("university/universities, f, Universität/Universitäten, at an, zu",),
        "post_office/, f, Post, at bei, zu",
    ),
    *_places(
        "shop",
        *("supermarket/supermarkets, m, Supermarkt/Supermärkte, in in, in",) * 2,
        *("store/stores, m, Laden/Läden, in in, in",),
        *("bakery/bakeries, f, Bäckerei/Bäckereien, in in, zu",),
        "pharmacy/pharmacies, f, Apotheke/Apotheken, in in, zu",
    ),
    *_places(
        "sight",
        *("cinema/cinemas, n, Kino/Kinos, in in, in", "cinema/cinemas, n, Kino/Kinos, in in, in"),
        *("castle/castles, n, Schloss/Schlösser, in in, zu", "zoo/zoos, m, Zoo/Zoos, in in, in"),
        "bridge/bridges, f, Brücke/Brücken, on auf, zu",
    ),
    *_places(
        "outdoors",
        *(
            "street/streets, f, Straße/Straßen, in auf, auf",
            "forest/forests, m, Wald/Wälder, in in, in",
        ),
        *("lake/lakes, m, See/Seen, at an, an", "river/rivers, m, Fluss/Flüsse, at an, an"),
        *("sea/, n, Meer, at an, an", "mountain/mountains, m, Berg/Berge, on auf, auf"),
        *("farm/farms, m, Bauernhof/Bauernhöfe, on auf, auf",),
        "swimming_pool/swimming_pools, n, Schwimmbad/Schwimmbäder, in in, in",
    ),
    *_places("town", "town/towns, f, Stadt/Städte, in in, in"),
)
GENITIVES = {
    **{"grandmother": "Großmutter", "grandfather": "Großvaters", "wife": "Frau"},
    **{"husband": "Mannes", "cousin": "Cousins", "girlfriend": "Freundin"},
    **{"boyfriend": "Freundes", "mom": "Mama", "dad": "Papas", "grandma": "Oma"},
    **{"grandpa": "Opas", "nephew": "Neffen", "niece": "Nichte"},
    **{"grandson": "Enkels", "mum": "Mama", "granddaughter": "Enkelin"},
    **{"grandchild": "Enkelkinds", "daddy": "Papas", "granny": "Oma"},
}

_COLORED = "animal clothes vehicle thing furniture container part"
_ANY = f"{PORTABLE} vehicle device furniture"
ADJECTIVES = (
    *(Adjective(ours, theirs, _COLORED, graded=False) for ours, theirs in (("green", "grün"),) * 2),
    Adjective("yellow", "gelb", _COLORED, graded=False),
    Adjective("brown", "braun", _COLORED, graded=False),
    Adjective("gray", "grau", _COLORED, graded=False),
    Adjective("grey", "grau", _COLORED, graded=False),
    Adjective("nice", "nett", PEOPLE),
    Adjective("nice", "nett", PEOPLE),
    Adjective("kind", "nett", PEOPLE),
    Adjective("tall", "groß", PEOPLE),
    Adjective("tall", "groß", PEOPLE),
    Adjective("strong", "stark", LIVING),
    Adjective("smart", "klug", LIVING),
    Adjective("pretty", "hübsch", "person clothes home"),
    Adjective("cute", "süß", "animal child"),
    Adjective("busy", "beschäftigt", PEOPLE),
    Adjective("nervous", "nervös", PEOPLE),
    Adjective("shy", "schüchtern", PEOPLE),
    Adjective("little", "klein", "animal child vehicle furniture home room"),
    Adjective("little", "klein", "animal child vehicle furniture home room"),
    Adjective("large", "groß", "animal vehicle furniture home room town"),
    Adjective("great", "toll", "text vehicle food person"),
    Adjective("comfortable", "bequem", "clothes furniture"),
    Adjective("weak", "schwach", LIVING),
    Adjective("rich", "reich", PEOPLE),
    Adjective("poor", "arm", PEOPLE),
    Adjective("healthy", "gesund", f"{LIVING} food"),
    Adjective("ill", "krank", LIVING),
    Adjective("thirsty", "durstig", LIVING),
    Adjective("angry", "wütend", PEOPLE),
    Adjective("funny", "lustig", f"{PEOPLE} text"),
    Adjective("lazy", "faul", LIVING),
    Adjective("brave", "mutig", LIVING),
    Adjective("fast", "schnell", "animal vehicle transport"),
    Adjective("slow", "langsam", "animal vehicle transport"),
    Adjective("long", "lang", "text clothes furniture"),
    Adjective("short", "kurz", "text clothes"),
    Adjective("dangerous", "gefährlich", "animal vehicle outdoors"),
    Adjective("sweet", "süß", "food"),
    Adjective("empty", "leer", "container eatery sight"),
    Adjective("full", "voll", "container eatery transport"),
    Adjective("loud", "laut", "child device eatery"),
    Adjective("dark", "dunkel", "room", stem="dunkl"),
    Adjective("bright", "hell", "room"),
    Adjective("wet", "nass", "clothes"),
    Adjective("soft", "weich", "furniture food"),
    Adjective("hard", "hart", "furniture food"),
    Adjective("sharp", "scharf", "thing"),
    Adjective("round", "rund", "furniture thing"),
    Adjective("deep", "tief", "outdoors"),
    Adjective("fat", "dick", "animal"),
    Adjective("dry", "trocken", "clothes"),
    Adjective("ugly", "hässlich", f"animal {_ANY}"),
    Adjective("important", "wichtig", "text person"),
    Adjective("difficult", "schwierig", "text"),
    Adjective("easy", "einfach", "text"),
)
# English and German comparatives and superlative stems; kinds of what is compared.
COMPARED = (
    *(("taller", "größer", "tallest", "größte", PEOPLE),) * 3,
    *(("bigger", "größer", "biggest", "größte", "animal vehicle furniture room home town"),) * 3,
    *(("older", "älter", "oldest", "älteste", f"person family animal {_ANY}"),) * 3,
    *(("smaller", "kleiner", "smallest", "kleinste", "animal vehicle furniture room home"),) * 2,
    *(("younger", "jünger", "youngest", "jüngste", "person family animal"),) * 2,
    *(("better", "besser", "best", "beste", "food text vehicle device person eatery"),) * 3,
    ("worse", "schlechter", "worst", "schlechteste", "food text eatery"),
    ("faster", "schneller", "fastest", "schnellste", "animal vehicle transport"),
    ("slower", "langsamer", "slowest", "langsamste", "animal vehicle transport"),
    ("stronger", "stärker", "strongest", "stärkste", LIVING),
    ("longer", "länger", "longest", "längste", "text clothes"),
    ("shorter", "kürzer", "shortest", "kürzeste", "text clothes"),
    ("cheaper", "billiger", "cheapest", "billigste", "food clothes vehicle eatery"),
    ("heavier", "schwerer", "heaviest", "schwerste", "container"),
    ("nicer", "netter", "nicest", "netteste", PEOPLE),
    ("happier", "glücklicher", "happiest", "glücklichste", PEOPLE),
    ("warmer", "wärmer", "warmest", "wärmste", "room clothes food"),
    ("colder", "kälter", "coldest", "kälteste", "room food"),
    ("cleaner", "sauberer", "cleanest", "sauberste", "room clothes"),
    ("richer", "reicher", "richest", "reichste", PEOPLE),
    *(("more expensive", "teurer", "most expensive", "teuerste", "food clothes vehicle"),) * 2,
    ("more beautiful", "schöner", "most beautiful", "schönste", "animal clothes room home town"),
    ("more interesting", "interessanter", "most interesting", "interessanteste", "text"),
    ("more dangerous", "gefährlicher", "most dangerous", "gefährlichste", "animal"),
    ("more important", "wichtiger", "most important", "wichtigste", "text"),
)

MEAT = tuple(
    Noun("substance", ours, "", gender, theirs, "")
    for ours, gender, theirs in (
        *(("meat", "n", "Fleisch"), ("fish", "m", "Fisch"), ("rice", "m", "Reis")),
        *(("butter", "f", "Butter"), ("salad", "m", "Salat"), ("chocolate", "f", "Schokolade")),
        *(("ice_cream", "n", "Eis"), ("sugar", "m", "Zucker"), ("salt", "n", "Salz")),
        ("fruit", "n", "Obst"),
    )
)
JUICE = tuple(
    Noun("substance", ours, "", gender, theirs, "")
    for ours, gender, theirs in (
        ("juice", "m", "Saft"),
        ("beer", "n", "Bier"),
        ("wine", "m", "Wein"),
    )
)
TONGUES = tuple(
    Noun("substance", ours, "", "n", theirs, "")
    for ours, theirs in (
        ("French", "Französisch"),
        ("Spanish", "Spanisch"),
        ("Italian", "Italienisch"),
    )
)
MONEY = Noun("substance", "money", "", "n", "Geld", "")

# Seated, standing and lying: English, German, subjects.
POSTURES = (
    *(Verb("sit sat sitting", "sitzen sitzt gesessen", subjects=LIVING),) * 3,
    *(Verb("stand stood standing", "stehen steht gestanden", subjects=LIVING),) * 2,
    Verb("lie lay lying", "liegen liegt gelegen", subjects=LIVING),
)
STAY = Verb("stay stayed staying", "bleiben bleibt geblieben", perfect="sein")
FLY = Verb("fly flew flying", "fliegen fliegt geflogen", perfect="sein")
WALK = Verb("walk walked walking", "laufen läuft gelaufen", perfect="sein")
TRAVEL = Verb("travel traveled traveling", "reisen reist gereist", perfect="sein")
JUMP = Verb("jump jumped jumping", "springen springt gesprungen", perfect="sein")
LAUGH = Verb("laugh laughed laughing", "lachen lacht gelacht")
CRY = Verb("cry cried crying", "weinen weint geweint")
SMOKE = Verb("smoke smoked smoking", "rauchen raucht geraucht")
SHOP = Verb("shop shopped shopping", "ein|kaufen kauft eingekauft")
WATCH_TV = Verb("watch watched watching TV", "fern|sehen sieht ferngesehen")
BREAKFAST = Verb("have had having breakfast", "frühstücken frühstückt gefrühstückt")
PAY = Verb("pay paid paying", "bezahlen bezahlt bezahlt")
STUDY = Verb("study studied studying", "lernen lernt gelernt")
WAKE = Verb("wake woke waking up", "auf|wachen wacht aufgewacht", perfect="sein")
WIN = Verb("win won winning", "gewinnen gewinnt gewonnen")
CLIMB = Verb("climb climbed climbing", "klettern klettert geklettert", perfect="sein")
CELEBRATE = Verb("celebrate celebrated celebrating", "feiern feiert gefeiert")
START = Verb("start started starting", "beginnen beginnt begonnen")
ALONE = (
    *(STAY, LAUGH, LAUGH, CRY, SMOKE, SHOP, SHOP, WATCH_TV, WATCH_TV, BREAKFAST, BREAKFAST, PAY),
    *(STUDY, JUMP, TRAVEL, FLY, WAKE, WAKE, WIN, CLIMB, CELEBRATE),
)
TAKE = Verb("take took taking", "nehmen nimmt genommen", f"food {PORTABLE}")
MAKE = Verb("make made making", "machen macht gemacht", "food")
TRANSITIVE = (
    *(Verb("wear wore wearing", "tragen trägt getragen", "clothes", repeated=True),) * 2,
    *(Verb("miss missed missing", "verpassen verpasst verpasst", "transport"),) * 2,
    *(Verb("put put putting on", "an|ziehen zieht angezogen", "clothes"),) * 2,
    Verb("take took taking off", "aus|ziehen zieht ausgezogen", "clothes"),
    Verb("carry carried carrying", "tragen trägt getragen", "container thing animal"),
    *(TAKE, TAKE, MAKE),
    Verb("hold held holding", "halten hält gehalten", "thing animal", subjects=PEOPLE),
    Verb("break broke breaking", "zerbrechen zerbricht zerbrochen", "thing"),
    Verb("throw threw throwing", "werfen wirft geworfen", "thing"),
    Verb("catch caught catching", "fangen fängt gefangen", "animal thing"),
    *(Verb("use used using", "benutzen benutzt benutzt", "device thing"),) * 2,
    *(Verb("hear heard hearing", "hören hört gehört", LIVING, simple=True),) * 2,
    Verb("kiss kissed kissing", "küssen küsst geküsst", PEOPLE),
    Verb("hate hated hating", "hassen hasst gehasst", f"{LIVING} food", simple=True),
    Verb("paint painted painting", "malen malt gemalt", "animal home thing"),
    Verb("order ordered ordering", "bestellen bestellt bestellt", "food"),
    Verb("bite bit biting", "beißen beißt gebissen", "person child"),
    Verb("touch touched touching", "berühren berührt berührt", "animal thing"),
    Verb("steal stole stealing", "stehlen stiehlt gestohlen", "thing vehicle"),
    Verb("build built building", "bauen baut gebaut", "home"),
    Verb("cut cut cutting", "schneiden schneidet geschnitten", "food"),
)
PUT = Verb("put put putting", "legen legt gelegt")
TELL = Verb("tell told telling", "erzählen erzählt erzählt", recipient=True)

# What one plays, without an article in German.
GAMES = tuple(
    Adverbial(ours, theirs)
    for ours, theirs in (
        *(("football", "Fußball"), ("football", "Fußball"), ("soccer", "Fußball")),
        *(("tennis", "Tennis"), ("chess", "Schach"), ("cards", "Karten")),
        *(("the guitar", "Gitarre"), ("the piano", "Klavier"), ("basketball", "Basketball")),
        ("video games", "Videospiele"),
    )
)
# Things that one can know, have or understand.
_MATTERS = _nouns(
    "matter",
    *("question/questions, f, Frage/Fragen", "answer/answers, f, Antwort/Antworten"),
    *("word/words, n, Wort/Wörter", "problem/problems, n, Problem/Probleme"),
    *("idea/ideas, f, Idee/Ideen", "mistake/mistakes, m, Fehler/Fehler"),
    *("song/songs, n, Lied/Lieder", "movie/movies, m, Film/Filme", "film/films, m, Film/Filme"),
    *("job/jobs, m, Job/Jobs", "sentence/sentences, m, Satz/Sätze", "test/tests, m, Test/Tests"),
    *("language/languages, f, Sprache/Sprachen", "class/classes, f, Klasse/Klassen"),
    *("family/families, f, Familie/Familien", "plan/plans, m, Plan/Pläne"),
    *(
        "message/messages, f, Nachricht/Nachrichten",
        "hobby/hobbies, n, Hobby/Hobbys",
        "color/colors, f, Farbe/Farben",
        "food/, n, Essen",
        "party/parties, f, Party/Partys",
        "country/countries, n, Land/Länder",
    ),
)
# The common nouns are drawn more often.
MATTERS = (*_MATTERS, *_MATTERS, *(noun for noun in LISTED if noun.kind in ("event", "abstract")))
MATTER_ADJECTIVES = (
    *(Adjective("good", "gut", ""), Adjective("new", "neu", ""), Adjective("big", "groß", "")),
    *(Adjective("difficult", "schwierig", ""), Adjective("easy", "einfach", "")),
    *(Adjective("important", "wichtig", ""), Adjective("interesting", "interessant", "")),
    *(
        Adjective("long", "lang", ""),
        Adjective("short", "kurz", ""),
        Adjective("bad", "schlecht", ""),
    ),
    *(Adjective("wrong", "falsch", ""), Adjective("beautiful", "schön", "")),
)
_BODY = _nouns(
    "body",
    *("head/, m, Kopf", "hand/hands, f, Hand/Hände", "leg/legs, n, Bein/Beine"),
    *("arm/arms, m, Arm/Arme", "foot/feet, m, Fuß/Füße", "eye/eyes, n, Auge/Augen"),
    *("tooth/teeth, m, Zahn/Zähne", "ear/ears, n, Ohr/Ohren", "nose/, f, Nase"),
    *("back/, m, Rücken", "finger/fingers, m, Finger/Finger", "wing/wings, m, Flügel/Flügel"),
)
BODY = (*_BODY, *_BODY, *(noun for noun in LISTED if noun.kind == "body"))
NATURE = _nouns(
    "nature",
    *("sky/, m, Himmel", "moon/, m, Mond", "sun/, f, Sonne", "grass/, n, Gras", "snow/, m, Schnee"),
    *("weather/, n, Wetter", "weather/, n, Wetter", "wind/, m, Wind", "rain/, m, Regen"),
)

# Plural nouns without a singular here.
PLURALS = (
    *(Noun("family", "parent", "parents", "m", "Elternteil", "Eltern"),) * 3,
    Noun("family", "grandparent", "grandparents", "m", "Großelternteil", "Großeltern"),
)
FOLK = Noun("person", "person", "people", "f", "Person", "Leute")

COUNTRIES = (
    *(("Germany", "Deutschland"), ("Germany", "Deutschland"), ("England", "England")),
    *(("France", "Frankreich"), ("Italy", "Italien"), ("Spain", "Spanien"), ("China", "China")),
    *(("Austria", "Österreich"), ("America", "Amerika"), ("Japan", "Japan"), ("India", "Indien")),
    *(("Munich", "München"), ("Vienna", "Wien"), ("Rome", "Rom"), ("Cologne", "Köln")),
    *(("Russia", "Russland"), ("Canada", "Kanada"), ("Europe", "Europa"), ("Poland", "Polen")),
    *(("Berlin", "Berlin"), ("London", "London"), ("Paris", "Paris"), ("New York", "New York")),
)
NUMBERS = (
    *(("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs")),
    *(("seven", "sieben"), ("eight", "acht"), ("nine", "neun"), ("ten", "zehn")),
    *(("eleven", "elf"), ("twelve", "zwölf")),
)
TENS = (
    *(("fifteen", "fünfzehn"), ("sixteen", "sechzehn"), ("eighteen", "achtzehn")),
    *(("twenty", "zwanzig"), ("thirty", "dreißig"), ("forty", "vierzig"), ("fifty", "fünfzig")),
    *(("eighty", "achtzig"), ("one hundred", "hundert")),
)
# "Half past six" is "halb sieben": half of the seventh hour.
HALVES = (
    *(("half past six", "halb sieben"), ("half past seven", "halb acht")),
    *(("half past eight", "halb neun"), ("half past nine", "halb zehn")),
    *(("half past ten", "halb elf"), ("half past two", "halb drei")),
    *(("half past three", "halb vier"), ("half past five", "halb sechs")),
)
MONTHS = tuple(
    (month, month_in_german)
    for month, month_in_german in (
        *(("January", "Januar"), ("March", "März"), ("April", "April"), ("May", "Mai")),
        *(("June", "Juni"), ("July", "Juli"), ("August", "August"), ("September", "September")),
        *(("October", "Oktober"), ("December", "Dezember"), ("February", "Februar")),
        *(("November", "November"), ("winter", "Winter"), ("summer", "Sommer")),
        *(("spring", "Frühling"), ("winter", "Winter"), ("summer", "Sommer"), ("autumn", "Herbst")),
    )
)
WEEKDAYS = (
    *(("Monday", "Montag"), ("Tuesday", "Dienstag"), ("Wednesday", "Mittwoch")),
    *(("Thursday", "Donnerstag"), ("Friday", "Freitag"), ("Saturday", "Samstag")),
    ("Sunday", "Sonntag"),
)
# When: English, German, tenses.
WHEN = (
    *(("tonight", "heute Abend", "now future"),) * 2,
    *(
        ("yesterday evening", "gestern Abend", "past"),
        ("this afternoon", "heute Nachmittag", "future"),
    ),
    *(("at the weekend", "am Wochenende", "habit future"),),
    *(("on the weekend", "am Wochenende", "habit future"),),
    *(("this weekend", "dieses Wochenende", "future"), ("next month", "nächsten Monat", "future")),
    *(("last month", "letzten Monat", "past"), ("next summer", "nächsten Sommer", "future")),
    *(
        ("all day", "den ganzen Tag", "past habit"),
        ("soon", "bald", "future"),
        ("soon", "bald", "future"),
    ),
    *(("again", "wieder", "now past future"),) * 3,
    *(("after school", "nach der Schule", "past habit future"),),
    *(("this week", "diese Woche", "future now"), ("all night", "die ganze Nacht", "past")),
    *(("all day", "den ganzen Tag", "past"), ("very early", "sehr früh", "habit past")),
    *(("very late", "sehr spät", "habit past"),) * 2,
    *(("after work", "nach der Arbeit", "past habit future"),),
    *(("every night", "jede Nacht", "habit"), ("every year", "jedes Jahr", "habit")),
    *(
        ("in the afternoon", "am Nachmittag", "habit future"),
        ("last Sunday", "letzten Sonntag", "past"),
    ),
    ("tomorrow morning", "morgen früh", "future"),
)
# Words before the verb in English and in the middle of the German clause.
ADVERBS = (
    *(Adverbial("usually", "normalerweise"), Adverbial("already", "schon")),
    *(Adverbial("really", "wirklich"), Adverbial("also", "auch"), Adverbial("also", "auch")),
    *(Adverbial("still", "noch"), Adverbial("only", "nur"), Adverbial("just", "gerade")),
)
AT_THE_END = (
    *(
        Adverbial("together", "zusammen"),
        Adverbial("alone", "allein"),
        Adverbial("fast", "schnell"),
    ),
    *(Adverbial("slowly", "langsam"), Adverbial("a lot", "viel"), Adverbial("loudly", "laut")),
    *(Adverbial("more", "mehr"), Adverbial("better", "besser"), Adverbial("alone", "allein")),
)
BY = (
    *(Adverbial("by bus", "mit dem Bus"), Adverbial("by train", "mit dem Zug")),
    *(Adverbial("by car", "mit dem Auto"), Adverbial("by bike", "mit dem Fahrrad")),
)
JOBS = (
    *(("engineer", "Ingenieur", "Ingenieurin"), ("singer", "Sänger", "Sängerin")),
    *(("pilot", "Pilot", "Pilotin"), ("cook", "Koch", "Köchin"), ("lawyer", "Anwalt", "Anwältin")),
    *(("farmer", "Bauer", "Bäuerin"), ("nurse", "Krankenpfleger", "Krankenschwester")),
)
