"""Word order and verb forms: one clause, said in both languages, against hand-written pairs."""

import pytest

from tools.demo_text import english, german
from tools.demo_text.lexicon import (
    BE,
    FREQUENCIES,
    MODALS,
    NOUNS,
    REPORTS,
    TIMES,
    VERBS,
    Adverbial,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    KEIN,
    POSSESSIVES,
    SHE,
    SPEAKER,
    THE,
    THEY,
    WE,
    WHO,
    YOU,
    A,
    Clause,
    Determiner,
    Phrase,
    company,
    direction,
    location,
    name_phrase,
    noun_phrase,
    relative_pronoun,
)

ANNA, PETER = name_phrase("Anna", "f"), name_phrase("Peter", "m")
HIS = POSSESSIVES[1]


def verb(words: str) -> Verb:
    """The verb by its English infinitive: "open", "pick up"."""
    base, *particle = words.split()
    return next(
        verb for verb in VERBS if english.verb_forms(verb)[::4] == (base, " ".join(particle))
    )


def np(determiner: Determiner, word: str, plural: bool = False) -> Phrase:
    return noun_phrase(determiner, None, next(n for n in NOUNS if n.english == word), plural)


def at(word: str) -> Adverbial:
    return location(np(THE, word), next(n for n in NOUNS if n.english == word))


def to(word: str) -> Adverbial:
    return direction(np(THE, word), next(n for n in NOUNS if n.english == word))


def modal(word: str):
    return next(m for m in MODALS if m.english == word)


def time(words: str) -> Adverbial:
    return next(Adverbial(t.english, t.german) for t in TIMES if t.english == words)


CAR, A_CAR, CHILD = np(THE, "car"), np(A, "car"), np(THE, "child")
BOUGHT = Clause(ANNA, verb("buy"), "past", object=CAR)
OPENS = Clause(ANNA, verb("open"), "now", object=np(THE, "door"))
GIVES = Clause(ANNA, verb("give"), "past", recipient=CHILD, object=np(THE, "book"))
OFTEN = FREQUENCIES[0]

STATEMENTS = [
    # the perfect with haben and, for motion and change, sein
    (BOUGHT, "Anna bought the car", "Anna hat das Auto gekauft"),
    (
        Clause(WE, verb("go"), "past", place=to("station")),
        "we went to the station",
        "wir sind zum Bahnhof gegangen",
    ),
    (Clause(THEY, verb("get up"), "past"), "they got up", "sie sind aufgestanden"),
    # separable verbs
    (OPENS, "Anna is opening the door", "Anna macht die Tür auf"),
    (
        Clause(SPEAKER, verb("pick up"), "modal", modal("want"), object=np(HIS, "brother")),
        "I want to pick up his brother",
        "ich will seinen Bruder abholen",
    ),
    # modals, the future among them
    (
        Clause(SHE, verb("buy"), "modal", modal("will"), object=A_CAR, time=time("tomorrow")),
        "she will buy a car tomorrow",
        "sie wird morgen ein Auto kaufen",
    ),
    # dative verbs, prepositional objects
    (
        Clause(ANNA, verb("help"), "past", object=np(THE, "boy")),
        "Anna helped the boy",
        "Anna hat dem Jungen geholfen",
    ),
    (
        Clause(HE, verb("wait for"), "now", object=np(THE, "bus"), place=at("city")),
        "he is waiting for the bus in the city",
        "er wartet in der Stadt auf den Bus",
    ),
    (
        Clause(HE, verb("dream of"), "past", object=np(THE, "house")),
        "he dreamed of the house",
        "er hat vom Haus geträumt",
    ),
    # the middle field: known persons, time, other objects
    (
        GIVES._replace(time=time("today")),
        "Anna gave the child the book today",
        "Anna hat dem Kind heute das Buch gegeben",
    ),
    (
        GIVES._replace(time=time("today"), negated=True),
        "Anna did not give the child the book today",
        "Anna hat dem Kind das Buch heute nicht gegeben",
    ),
    (
        Clause(PETER, verb("call"), "habit", object=SHE, time=time("every day")),
        "Peter calls her every day",
        "Peter ruft sie jeden Tag an",
    ),
    (
        Clause(THEY, verb("read"), "habit", frequency=OFTEN, object=np(BARE, "book", True)),
        "they often read books",
        "sie lesen oft Bücher",
    ),
    # negation: nicht after a definite object, before a place or a prefix; kein for ein
    (
        OPENS._replace(negated=True),
        "Anna is not opening the door",
        "Anna macht die Tür nicht auf",
    ),
    (
        BOUGHT._replace(negated=True, object=np(KEIN, "car")),
        "Anna did not buy a car",
        "Anna hat kein Auto gekauft",
    ),
    (
        Clause(ANNA, verb("eat"), "habit", negated=True, object=np(KEIN, "egg", True)),
        "Anna does not eat any eggs",
        "Anna isst keine Eier",
    ),
    (
        Clause(ANNA, verb("work"), "modal", modal("can"), True, place=at("garden")),
        "Anna cannot work in the garden",
        "Anna kann nicht im Garten arbeiten",
    ),
    (
        Clause(ANNA, verb("wait for"), "past", negated=True, object=np(THE, "train")),
        "Anna did not wait for the train",
        "Anna hat nicht auf den Zug gewartet",
    ),
    (
        Clause(ANNA, verb("dance"), "now", company=company(HE), place=at("beach")),
        "Anna is dancing with him at the beach",
        "Anna tanzt mit ihm am Strand",
    ),
    # to be: its own past, a predicate without ending
    (
        Clause(np(THE, "car", True), BE, "past", predicate=Adverbial("very old", "sehr alt")),
        "the cars were very old",
        "die Autos waren sehr alt",
    ),
    (Clause(SPEAKER, REPORTS[2][0], "now"), "I know", "ich weiß"),
]


@pytest.mark.parametrize(("clause", "ours", "theirs"), STATEMENTS)
def test_statement(clause: Clause, ours: str, theirs: str) -> None:
    assert (english.statement(clause), german.statement(clause)) == (ours, theirs)


def test_the_verb_stays_second_when_the_time_comes_first() -> None:
    clause = BOUGHT._replace(time=time("yesterday"))
    assert english.statement(clause, fronted=True) == "yesterday, Anna bought the car"
    assert german.statement(clause, fronted=True) == "gestern hat Anna das Auto gekauft"


@pytest.mark.parametrize(
    ("clause", "asked", "ours", "theirs"),
    [
        (BOUGHT, ("", ""), "did Anna buy the car", "hat Anna das Auto gekauft"),
        (OPENS, ("", ""), "is Anna opening the door", "macht Anna die Tür auf"),
        (
            BOUGHT._replace(object=None),
            ("what", "was"),
            "what did Anna buy",
            "was hat Anna gekauft",
        ),
        (
            Clause(ANNA, verb("help"), "habit", time=time("every day")),
            ("who", "wem"),
            "who does Anna help every day",
            "wem hilft Anna jeden Tag",
        ),
        (
            Clause(THEY, verb("run"), "modal", modal("want")),
            ("where", "wohin"),
            "where do they want to run",
            "wohin wollen sie laufen",
        ),
    ],
)
def test_question(clause: Clause, asked: tuple[str, str], ours: str, theirs: str) -> None:
    assert english.question(clause, asked[0]) == ours
    assert german.question(clause, asked[1]) == theirs


def test_who_as_subject_needs_no_do() -> None:
    clause = BOUGHT._replace(subject=WHO)
    assert english.statement(clause) == "who bought the car"
    assert german.statement(clause) == "wer hat das Auto gekauft"


@pytest.mark.parametrize(
    ("clause", "theirs"),
    [
        (BOUGHT, "weil Anna das Auto gekauft hat"),
        (OPENS, "weil Anna die Tür aufmacht"),
        (OPENS._replace(tense="modal", modal=modal("must")), "weil Anna die Tür aufmachen muss"),
        (OPENS._replace(tense="past"), "weil Anna die Tür aufgemacht hat"),
        (OPENS._replace(negated=True), "weil Anna die Tür nicht aufmacht"),
        (Clause(SPEAKER, verb("come back"), "past"), "weil ich zurückgekommen bin"),
    ],
)
def test_the_verb_ends_a_subordinate_clause(clause: Clause, theirs: str) -> None:
    assert german.subordinate(clause, "weil") == theirs


def test_relative_clause() -> None:
    pronoun = relative_pronoun(np(THE, "man"))
    clause = BOUGHT._replace(subject=pronoun)
    assert english.statement(clause) == "who bought the car"
    assert german.subordinate(clause, "") == "der das Auto gekauft hat"


@pytest.mark.parametrize(
    ("clause", "ours", "theirs"),
    [
        (OPENS, "to open the door", "um die Tür aufzumachen"),
        (BOUGHT._replace(object=A_CAR), "to buy a car", "um ein Auto zu kaufen"),
        (
            Clause(ANNA, verb("talk to"), "now", object=np(THE, "teacher", True)),
            "to talk to the teachers",
            "um mit den Lehrern zu sprechen",
        ),
    ],
)
def test_purpose(clause: Clause, ours: str, theirs: str) -> None:
    assert (english.infinitive(clause), german.infinitive(clause)) == (ours, theirs)


@pytest.mark.parametrize(
    ("words", "third"),
    [("wash", "washes"), ("tidy up", "tidies"), ("play", "plays"), ("go", "goes")],
)
def test_english_third_person(words: str, third: str) -> None:
    assert english.verb_forms(verb(words)).third == third


@pytest.mark.parametrize(
    ("words", "present"),
    [
        ("feed", ("füttere", "füttert", "füttern", "fütterst")),
        ("work", ("arbeite", "arbeitet", "arbeiten", "arbeitest")),
        ("sleep", ("schlafe", "schläft", "schlafen", "schläfst")),
    ],
)
def test_german_present(words: str, present: tuple[str, str, str, str]) -> None:
    assert german.verb_forms(verb(words)).present == present


@pytest.mark.parametrize(
    ("parts", "present", "command"),
    [
        ("lächeln lächelt gelächelt", "lächle lächelt lächeln lächelst", "lächle"),
        ("spielen spielt gespielt", "spiele spielt spielen spielst", "spiel"),
        ("treten tritt getreten", "trete tritt treten trittst", "tritt"),
        ("atmen atmet geatmet", "atme atmet atmen atmest", "atme"),
        ("kündigen kündigt gekündigt", "kündige kündigt kündigen kündigst", "kündige"),
        (
            "bestätigen bestätigt bestätigt",
            "bestätige bestätigt bestätigen bestätigst",
            "bestätige",
        ),
        ("zeigen zeigt gezeigt", "zeige zeigt zeigen zeigst", "zeig"),
    ],
)
def test_german_present_and_imperative(parts: str, present: str, command: str) -> None:
    word = Verb("do did doing", parts)
    assert " ".join(german.verb_forms(word).present) == present
    assert german.imperative(Clause(YOU, word, "habit")) == command
