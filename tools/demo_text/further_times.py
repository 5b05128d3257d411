"""Sentences about times, the weather and habits: "The movie starts at half past eight."

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english, german, phrases
from tools.demo_text import further_words as words
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of
from tools.demo_text.everyday_basics import (
    AT,
    LANGUAGES,
    LEARN,
    LIVE,
    ONES,
    SPEAK,
    SWIM,
    verbs_of,
)
from tools.demo_text.everyday_clauses import Both, clause_of, doing, in_tense
from tools.demo_text.everyday_words import DELIBERATE
from tools.demo_text.further_sentences import DEFINITE, same, say, somebody
from tools.demo_text.lexicon import (
    BE,
    LIKE,
    Adverbial,
    Verb,
)
from tools.demo_text.phrases import (
    HE,
    IT,
    SHE,
    SPEAKER,
    THE,
    WE,
    YOU,
    Clause,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain_clauses import draw_phrase, draw_spot
from tools.demo_text.sentences import Sentence


def oclock(dice: Dice) -> Adverbial:
    """At six o'clock; at half past eight."""
    ours, theirs = dice.choose(words.NUMBERS)
    if dice.chance(25):
        half, halb = dice.choose(words.HALVES)
        return Adverbial(f"at {half}", f"um {halb}")
    long = dice.chance(65)
    return Adverbial(
        f"at {ours}{long * ' o’clock'}".replace("’", "'"), f"um {theirs}{long * ' Uhr'}"
    )


def _when(dice: Dice, tense: str) -> Adverbial:
    """At six o'clock, on Tuesday, in May, in five minutes, two days ago, tonight."""
    roll = dice.choose(tuple(range(10)))
    number, zahl = dice.choose(words.NUMBERS)
    if roll < 2:
        return oclock(dice)
    day, tag = dice.choose(words.WEEKDAYS)
    if roll < 4 and tense == "habit":
        return dice.choose(
            (Adverbial(f"on {day}s", f"{tag.lower()}s"), Adverbial(f"every {day}", f"jeden {tag}"))
        )
    if roll < 3 and tense != "now":
        return Adverbial(f"on {day}", f"am {tag}")
    if roll < 4 and tense in ("past", "future"):
        ours, theirs = ("last", "letzten") if tense == "past" else ("next", "nächsten")
        return Adverbial(f"{ours} {day}", f"{theirs} {tag}")
    if roll < 5 and tense != "now":
        month, monat = dice.choose(words.MONTHS)
        return Adverbial(f"in {month}", f"im {monat}")
    unit, einheit = dice.choose(
        (("minutes", "Minuten"), ("hours", "Stunden"), ("days", "Tagen"), ("weeks", "Wochen"))
    )
    if roll < 6 and tense == "future":
        return Adverbial(f"in {number} {unit}", f"in {zahl} {einheit}")
    if roll < 7 and tense == "past":
        return Adverbial(f"{number} {unit} ago", f"vor {zahl} {einheit}")
    if roll < 8 and tense == "past" and unit != "weeks":
        return Adverbial(f"for {number} {unit}", f"{zahl} {einheit.replace('Tagen', 'Tage')}")
    fitting = tuple(row for row in words.WHEN if tense in row[2].split())
    ours, theirs, _ = dice.choose(fitting) if fitting else ("today", "heute", "")
    return Adverbial(ours, theirs)


def timed(dice: Dice) -> Sentence:
    """I get up at six o'clock. We met two days ago. / Ich stehe um sechs Uhr auf. ..."""
    tense = dice.choose(("habit", "habit", "past", "past", "future", "now"))
    both = clause_of(dice, None if dice.chance(50) else somebody(dice), negated=dice.chance(8))
    clause = both.english._replace(tense="", modal=None, time=None, frequency=None)
    if clause.recipient is None and clause.company and clause.company.english.startswith("to "):
        clause = both.german._replace(tense="", modal=None, time=None, frequency=None)
    if clause.verb.simple and tense == "habit":
        tense = "now"
    both = in_tense(dice, clause, tense=tense).replace(frequency=None)
    time = _when(dice, "habit" if clause.verb is BE and tense == "now" else tense)
    both = both.replace(time=time)
    if dice.chance(20):
        return both.question()
    front = dice.chance(25) and "again" not in time.english
    return english.statement(both.english, front), german.statement(both.german, front)


OPENS = (
    *(Verb("open opened opening", "auf|machen macht aufgemacht"),) * 2,
    *(Verb("close closed closing", "zu|machen macht zugemacht"),) * 2,
)


def starting(dice: Dice) -> Sentence:
    """It is six o'clock. The movie starts at eight. / Es ist sechs Uhr. Der Film beginnt um ..."""
    number, zahl = dice.choose(words.NUMBERS)
    if dice.chance(12):
        return "what time is it?", "wie spät ist es?"
    if dice.chance(25):
        ours, theirs = dice.choose(((f"{number} o'clock", f"{zahl} Uhr"), *words.HALVES))
        return say(dice, same(Clause(IT, BE, "now", predicate=Adverbial(ours, theirs))))
    if dice.chance(50):
        subject = draw_phrase(dice, dice.choose(nouns_of("shop eatery sight public")), DEFINITE)
        verb = dice.choose(OPENS)
    else:
        names = ("movie", "film", "party", "class", "test")
        events = tuple(noun for noun in words.MATTERS if noun.english in names)
        subject = noun_phrase(dice.choose(DEFINITE), None, dice.choose(events), False)
        verb = words.START
    clause = Clause(subject, verb, dice.choose(("habit", "habit", "past")))
    if dice.chance(25):
        ask, frage = dice.choose((("when", "wann"), ("what time", "um wie viel Uhr")))
        return same(clause).question(ask, frage)
    return say(dice, same(clause._replace(time=oclock(dice))))


def since(dice: Dice) -> Sentence:
    """I have lived here for ten years. / Ich wohne seit zehn Jahren hier."""
    subject, (number, zahl) = somebody(dice), dice.choose(words.NUMBERS)
    unit, einheit = dice.choose((("years", "Jahren"), ("months", "Monaten"), ("weeks", "Wochen")))
    verb = dice.choose((LIVE, LIVE, *verbs_of("work"), LEARN))
    where, wo = dice.choose(words.COUNTRIES)
    place = dice.choose((AT[4], Adverbial(f"in {where}", f"in {wo}"), draw_spot(dice)))
    clause = Clause(subject, verb, "perfect", place=place)
    if verb is LEARN:
        tongue = dice.choose((*words.TONGUES, *LANGUAGES[::-1]))
        clause = clause._replace(place=None, object=noun_phrase(ONES, None, tongue, False))
    time = Adverbial(f"for {number} {unit}", f"seit {zahl} {einheit}")
    return say(dice, Both(clause, clause._replace(tense="habit")).replace(time=time))


def adverb(dice: Dice) -> Sentence:
    """She has already eaten. He drives fast. / Sie hat schon gegessen. Er fährt schnell."""
    if dice.chance(45):
        verbs = (
            *verbs_of("work", "sing", "play", "eat", "cook", "dance", "sleep", "drive", "run"),
        )
        verb = dice.choose((*verbs, words.WALK, SPEAK, SWIM, words.LAUGH))
        clause = Clause(somebody(dice), verb, "", negated=dice.chance(10))
        if dice.chance(20):
            clause = clause._replace(
                subject=YOU, tense="habit", predicate=dice.choose(words.AT_THE_END)
            )
            return english.imperative(clause), german.imperative(clause)
        both = in_tense(dice, clause).replace(time=None, frequency=None)
        return say(dice, both.replace(predicate=dice.choose(words.AT_THE_END)))
    word = dice.choose(words.ADVERBS)
    both = clause_of(dice, somebody(dice), negated=False).replace(time=None, frequency=None)
    if word.english == "already":
        subject = somebody(dice)
        clause = doing(dice, subject, negated=False, verbs=DELIBERATE)
        both = in_tense(dice, clause, tense="perfect").replace(time=None, frequency=None)
    if word.english == "also" and dice.chance(50):
        return english.statement(both.english) + " too", german.statement(
            both.german._replace(frequency=word)
        )
    if both.english.verb is BE and not both.english.modal:  # "is also tired"
        ours, theirs = both.replace(frequency=word).statement()
        return ours, theirs
    return say(dice, both.replace(frequency=word), 10)


SKIES = {
    "sky": "blue/blau gray/grau dark/dunkel clear/klar",
    "moon": "bright/hell beautiful/schön big/groß",
    "sun": "hot/heiß bright/hell warm/warm",
    "grass": "green/grün wet/nass dry/trocken",
    "snow": "white/weiß cold/kalt beautiful/schön",
    "weather": "nice/schön nice/schön good/gut bad/schlecht cold/kalt warm/warm beautiful/schön",
    "wind": "cold/kalt strong/stark",
    "rain": "cold/kalt warm/warm",
}

SUNNY = (
    "sunny/sonnig windy/windig cloudy/bewölkt dark/dunkel rainy/regnerisch foggy/neblig nice/schön"
)


def weather(dice: Dice) -> Sentence:
    """The weather is nice today. It is sunny. / Das Wetter ist heute schön. Es ist sonnig."""
    if dice.chance(8):
        return "how is the weather?", "wie ist das Wetter?"
    noun = dice.choose(words.NATURE)
    subject, found = noun_phrase(THE, None, noun, False), SKIES[noun.english]
    if dice.chance(35):
        subject, found = IT, SUNNY
    ours, _, theirs = dice.choose(tuple(found.split())).partition("/")
    degree = dice.choose(
        (*(Adverbial("", ""),) * 4, Adverbial("very", "sehr"), Adverbial("so", "so"))
    )
    predicate = Adverbial(
        phrases.join_words(degree.english, ours), phrases.join_words(degree.german, theirs)
    )
    tense = dice.choose(("now", "now", "now", "past", "future"))
    clause = Clause(subject, BE, "", negated=dice.chance(12), predicate=predicate)
    return say(dice, in_tense(dice, clause, tense=tense), 20)


def meal(dice: Dice) -> Sentence:
    """We have dinner at seven. My mother is cooking dinner. / Wir essen um sieben zu Abend. ..."""
    subject = somebody(dice)
    ours, theirs, name = dice.choose(
        (("lunch", "zu Mittag", "das Mittagessen"), ("dinner", "zu Abend", "das Abendessen"))
    )
    if dice.chance(35):
        made = Phrase(ours, (name, name, name), human=False)
        verb = dice.choose((*verbs_of("cook"), words.MAKE))
        if dice.chance(20):
            made = Phrase("breakfast", ("das Frühstück",) * 3, human=False)
        return say(dice, in_tense(dice, Clause(subject, verb, "", object=made)))
    verb = Verb(f"have had having {ours}", "essen isst gegessen")
    clause = Clause(subject, verb, "", predicate=Adverbial("", theirs))
    if dice.chance(40):
        clause = clause._replace(verb=words.BREAKFAST, predicate=None)
    tense = dice.choose(("habit", "now", "past", "future"))
    both = in_tense(dice, clause, tense=tense)
    return say(dice, both.replace(time=_when(dice, tense)) if dice.chance(40) else both, 20)


def aged(dice: Dice) -> Sentence:
    """My brother is ten years old. I was born in May. / Mein Bruder ist zehn Jahre alt. ..."""
    subject = somebody(dice)
    if dice.chance(25):
        month, monat = dice.choose(words.MONTHS)
        where, wo = dice.choose(words.COUNTRIES)
        ours, theirs = dice.choose(((f"in {month}", f"im {monat}"), (f"in {where}", f"in {wo}")))
        bin_ = german.SEIN[subject.person]
        if dice.chance(25):
            frage = dice.choose((("when", "wann"), ("where", "wo")))
            return (
                f"{frage[0]} {english.WERE[subject.person]} {subject.english} born?",
                f"{frage[1]} {bin_} {subject.german[0]} geboren?",
            )
        was = english.WERE[subject.person]
        return (
            f"{subject.english} {was} born {ours}",
            f"{subject.german[0]} {bin_} {theirs} geboren",
        )
    number, zahl = dice.choose((*words.NUMBERS, *words.TENS, *words.TENS))
    predicate = Adverbial(f"{number} years old", f"{zahl} Jahre alt")
    return say(
        dice, same(Clause(subject, BE, dice.choose(("now", "now", "past")), predicate=predicate))
    )


def enjoying(dice: Dice) -> Sentence:
    """I like swimming in the lake. / Ich schwimme gern im See."""
    subject = somebody(dice)
    verbs = (SWIM, *verbs_of("sing", "dance", "cook", "sleep", "read", "eat", "play", "draw"))
    verb = dice.choose((*verbs, words.TRAVEL, words.SHOP, words.WATCH_TV, words.STUDY))
    clause = doing(dice, subject, negated=False, verbs=(verb,))._replace(tense="habit")
    if clause.verb is not verb and clause.verb.destination:
        clause = Clause(subject, SWIM, "habit")
    forms = english.verb_forms(clause.verb)
    rest = english.infinitive(clause).removeprefix(f"to {forms.base}")
    verb_words = f"to {forms.base}" if dice.chance(25) else forms.progressive
    gerund = f"{verb_words}{rest}"
    main = Clause(subject, dice.choose((LIKE, LIKE, *verbs_of("love"))), "habit")
    negated = dice.chance(12)
    gladly = Adverbial(
        "", "nicht gern" if negated else "sehr gern" if main.verb is not LIKE else "gern"
    )
    if main.verb is not LIKE and negated:
        main = main._replace(verb=LIKE)
    main, theirs = main._replace(negated=negated), clause._replace(frequency=gladly)
    if dice.chance(20):
        return f"{english.question(main)} {gerund}?", german.question(theirs) + "?"
    return f"{english.statement(main)} {gerund}", german.statement(theirs)


def while_(dice: Dice) -> Sentence:
    """I read while she cooks. When I was young, I lived here. / Ich lese, während sie kocht. ..."""
    if dice.chance(35):
        subject = dice.choose((SPEAKER, HE, SHE, WE, dice.choose(NAME_PHRASES)))
        word = dice.choose(
            ("young/jung", "small/klein", "a child/ein Kind", "sick/krank", "in Berlin/in Berlin")
        )
        ours, theirs = word.split("/")
        inner = Clause(subject, BE, "past", predicate=Adverbial(ours, theirs))
        main = in_tense(dice, doing(dice, subject, negated=dice.chance(10)), tense="past").replace(
            time=None
        )
        return (
            f"when {english.statement(inner)}, {english.statement(main.english)}",
            f"{german.subordinate(inner, 'als')}, {german.question(main.german)}",
        )
    ours, theirs = dice.choose((("while", "während"), ("before", "bevor"), ("until", "bis")))
    first, second = clause_of(dice, tense="habit"), clause_of(dice, negated=False, tense="habit")
    first, second = first.replace(time=None), second.replace(time=None, frequency=None)
    return (
        f"{english.statement(first.english)} {ours} {english.statement(second.english)}",
        f"{german.statement(first.german)}, {german.subordinate(second.german, theirs)}",
    )


FURTHER_TIMES = (
    *(*(timed,) * 10, *(starting,) * 2, since, *(adverb,) * 5, *(weather,) * 4, *(meal,) * 3),
    *(*(aged,) * 2, *(enjoying,) * 3, *(while_,) * 3),
)
