"""Everyday sentences whose constructions `plain` lacks: "There is a cat on the table.", "Hello!".

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from collections.abc import Callable

from tools.demo_text import english, german, phrases
from tools.demo_text.combinations import COMBINATIONS
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of, times_in, with_words
from tools.demo_text.everyday_basics import (
    DRINK,
    DRINKS,
    FOODS,
    LIVE,
    SNOW,
    SOMEONE,
    SWIM,
    THAT_IS,
    WRITE,
    because,
    doing,
    existence,
    feeling,
    fixed,
    home,
    irregular,
    job,
    know_where,
    known,
    name,
    opinion,
    said,
    sometimes,
    state,
    substance,
    that,
    there_is,
    two_adjectives,
    verb,
    verbs_of,
    where,
    who_are_you,
)
from tools.demo_text.everyday_words import GOOD, WARM
from tools.demo_text.free_sentences import free
from tools.demo_text.further_clauses import FURTHER_CLAUSES
from tools.demo_text.further_sentences import FURTHER_SENTENCES
from tools.demo_text.further_things import FURTHER_THINGS
from tools.demo_text.further_times import FURTHER_TIMES
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DEGREES,
    HAVE,
    LIVING,
    NOMINATIVE,
    PLACES,
    PORTABLE,
    RAIN,
    REPORTS,
    WANT,
    Adverbial,
    Noun,
)
from tools.demo_text.more_clauses import MORE_CLAUSES
from tools.demo_text.phrasebook import phrase_book
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    NO,
    SHE,
    SPEAKER,
    THE,
    THIS,
    WE,
    YOU,
    A,
    Clause,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain import THESE_ARE, THIS_IS, WILL, as_question_or_statement
from tools.demo_text.plain_clauses import (
    COMMANDS,
    OWNERS,
    PRONOUNS,
    complete,
    draw_adjective,
    draw_deed,
    draw_object,
    draw_phrase,
    draw_somebody,
)
from tools.demo_text.rare_words import rare_word
from tools.demo_text.sentences import Sentence

TASTES = (GOOD[0], *GOOD, *WARM)
DAYS = (
    *(Noun("time", "day", "days", "m", "Tag", "Tage"), Noun("time", "week", "", "f", "Woche", "")),
    *(
        Noun("time", "evening", "", "m", "Abend", ""),
        Noun("time", "morning", "", "m", "Morgen", ""),
    ),
)
HERE = (Adverbial("here", "hier"), Adverbial("here", "hier"), Adverbial("there", "dort"))
GREETINGS = (
    *(("hello", "hallo"), ("good morning", "guten Morgen"), ("good evening", "guten Abend")),
    *(("good night", "gute Nacht"), ("goodbye", "auf Wiedersehen"), ("thank you", "danke")),
    *(("thanks", "danke"), ("I am sorry", "es tut mir leid"), ("good luck", "viel Glück")),
    *(("happy birthday", "alles Gute zum Geburtstag"), ("have fun", "viel Spaß")),
    ("see you tomorrow", "bis morgen"),
)
OPENERS = (
    *(("excuse me", "Entschuldigung"), ("excuse me", "Entschuldigung"), ("hello", "hallo")),
    *(
        ("yes", "ja"),
        ("no", "nein"),
        ("of course", "natürlich"),
        ("I am sorry", "es tut mir leid"),
        ("thank you", "danke"),
    ),
)
EVERYONE = (*SOMEONE, *NAME_PHRASES, *NAME_PHRASES)


def greeting(dice: Dice) -> Sentence:
    """Good evening, Anna! Excuse me, where is the station? / Guten Abend, Anna! ..."""
    if dice.chance(50):
        (ours, theirs), name = dice.choose(GREETINGS), dice.choose(EVERYONE).english
        mark = dice.choose(("", "!"))
        return f"{ours}, {name}{mark}", f"{theirs}, {name}{mark}"
    ours, theirs = dice.choose(OPENERS)
    if ours == "excuse me":
        subject = draw_phrase(dice, dice.choose(nouns_of(f"room {PLACES}")), (THE, THE, A, *OWNERS))
        clause = Clause(subject, BE, "now")
        question = english.question(clause, "where"), german.question(clause, "wo")
        return f"{ours}, {question[0]}?", f"{theirs}, {question[1]}?"
    clause = doing(dice, ()) if dice.chance(50) else feeling(dice, draw_somebody(dice))
    return f"{ours}, {english.statement(clause)}", f"{theirs}, {german.statement(clause)}"


def very(dice: Dice) -> Sentence:
    """My aunt has a very small house. / Meine Tante hat ein sehr kleines Haus."""
    noun = dice.choose(nouns_of(f"animal {PORTABLE} food vehicle furniture home room"))
    graded = tuple(a for a in (draw_adjective(dice, noun), *GOOD[:1]) if a.graded)
    adjective, plural = dice.choose(graded), dice.chance(20)
    plural = plural and bool(noun.english_plural)
    phrase = noun_phrase(BARE if plural else A, adjective, noun, plural)
    *_, last, end = phrase.english.split()
    degree = dice.choose(DEGREES)
    german_forms = []
    for form in phrase.german:
        *rest, word, name = form.split()
        german_forms.append(" ".join([*rest, degree.german, word, name]))
    nominative, accusative, dative = german_forms
    words = f"{degree.english} {last} {end}" if plural else f"a {degree.english} {last} {end}"
    phrase = phrase._replace(english=words, german=(nominative, accusative, dative))
    if dice.chance(40):
        subject = THESE_ARE if plural else dice.choose((THIS_IS, THAT_IS, IT))
        predicate = Adverbial(words, nominative)
        return as_question_or_statement(dice, Clause(subject, BE, "now", predicate=predicate))
    clause = draw_deed(dice, verbs=(HAVE, HAVE, *verbs_of("see", "buy", "need")), negated=False)
    return as_question_or_statement(dice, clause._replace(object=phrase))


def good(dice: Dice) -> Sentence:
    """The coffee is very good. It was a good day. / Der Kaffee ist sehr gut. ..."""
    word, tense = dice.choose(TASTES), dice.choose(("now", "now", "past"))
    degree = dice.choose(DEGREES) if dice.chance(40) else Adverbial("", "")
    negated = dice.chance(12)
    if dice.chance(30):
        phrase = noun_phrase(A, word, dice.choose(DAYS), False)
        subject = dice.choose((IT, THIS_IS, THAT_IS))
        predicate = Adverbial(phrase.english, phrase.german[NOMINATIVE])
        return as_question_or_statement(dice, Clause(subject, BE, tense, predicate=predicate))
    nouns = (*DRINKS, *FOODS, *DRINKS, *FOODS, *nouns_of(f"food text room {PLACES}"))
    determiner = dice.choose((THE, THE, THE, THIS, *OWNERS))
    subject = noun_phrase(determiner, None, dice.choose(nouns), False)
    if dice.chance(20):
        subject = IT
    predicate = Adverbial(
        phrases.join_words(degree.english, word.english),
        phrases.join_words(degree.german, word.german),
    )
    clause = Clause(subject, BE, tense, negated=negated, predicate=predicate)
    return as_question_or_statement(dice, clause)


def _portion(dice: Dice) -> Phrase:
    drink = dice.choose(DRINKS)
    hot = drink.english in ("coffee", "tea")
    one, two = (("cup", "cups"), ("glass", "glasses"))[not hot]
    if dice.chance(25):
        words = f"zwei {'Tassen' if hot else 'Gläser'} {drink.german}"
        return Phrase(f"two {two} of {drink.english}", (words, words, words), definite=False)
    words = f"{'eine Tasse' if hot else 'ein Glas'} {drink.german}"
    dative = f"{'einer Tasse' if hot else 'einem Glas'} {drink.german}"
    return Phrase(f"a {one} of {drink.english}", (words, words, dative), definite=False)


def wish(dice: Dice) -> Sentence:
    """I would like a cup of tea. / Ich möchte eine Tasse Tee."""
    roll = dice.choose(tuple(range(10)))
    if roll < 4:
        thing = _portion(dice)
    else:
        nouns = nouns_of("food text clothes thing device animal")
        thing = draw_phrase(dice, dice.choose(nouns), (A, A, A, THIS, THE))
    if roll in (0, 1):
        verbs = (HAVE, *verbs_of("need", "bring", "buy"), DRINK, DRINK)
        clause = doing(dice, verbs, thing)._replace(negated=False, recipient=None)
        return said(dice, clause)
    subject = dice.choose((SPEAKER, SPEAKER, YOU, WE, HE, SHE, dice.choose(EVERYONE)))
    form = ("möchte", "möchte", "möchten", "möchtest")[subject.person]
    rest = thing.german[ACCUSATIVE]
    if subject is YOU or dice.chance(15):
        return f"would {subject.english} like {thing.english}?", (
            f"{form} {subject.german[0]} {rest}?"
        )
    please, bitte = dice.choose((("", ""), ("", ""), (", please", ", bitte")))
    return f"{subject.english} would like {thing.english}{please}", (
        f"{subject.german[0]} {form} {rest}{bitte}"
    )


def well(dice: Dice) -> Sentence:
    """She sings well. / Sie singt gut."""
    verbs = (*verbs_of("sing", "dance", "cook", "sleep", "work", "play"), SWIM)
    clause = draw_deed(dice, verbs=verbs, subject=dice.choose((YOU, SPEAKER, None, None)))
    clause = clause._replace(place=None, company=None, predicate=Adverbial("well", "gut"))
    if dice.chance(20):
        speaker = dice.choose((SPEAKER, WE, HE, SHE))
        says, _, dass = dice.choose(REPORTS[:4])
        main = Clause(speaker, says, "habit")
        ours = f"{english.statement(main)} {english.statement(clause)}"
        return ours, f"{german.statement(main)}, {german.subordinate(clause, dass)}"
    return as_question_or_statement(dice, clause)


def for_somebody(dice: Dice) -> Sentence:
    """I am buying a cake for my mother. / Ich kaufe einen Kuchen für meine Mutter."""
    verbs = verbs_of("buy", "read", "draw", "open", "cook", "sing", "translate", "work", "bring")
    clause = draw_deed(dice, verbs=(*verbs, WRITE), subject=dice.choose((YOU, SPEAKER, None)))
    if clause.verb is WRITE:
        thing = draw_object(dice, WRITE, clause.subject, clause.negated)
        clause = clause._replace(object=thing)
    somebody = dice.choose(tuple(p for p in PRONOUNS if p is not clause.subject))
    if dice.chance(70):
        somebody = draw_phrase(dice, dice.choose(nouns_of("family child person")), (THE, *OWNERS))
    ours = phrases.ENGLISH_OBJECT.get(somebody.english, somebody.english)
    company = Adverbial(f"for {ours}", f"für {somebody.german[ACCUSATIVE]}")
    return said(dice, clause._replace(company=company, place=None))


def here(dice: Dice) -> Sentence:
    """I work here. Is there a restaurant here? / Ich arbeite hier. ..."""
    place = dice.choose(HERE)
    if dice.chance(40):
        noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} {PLACES} room"))
        phrase = draw_phrase(dice, noun, (A, A, A, BARE, NO))
        return existence(phrase, place, past=False, asked=dice.chance(50))
    verbs = (LIVE, *verbs_of("work", "sleep", "play", "sing", "dance", "cook", "eat"))
    clause = draw_deed(dice, verbs=verbs, subject=dice.choose((SPEAKER, YOU, None)))
    return said(dice, clause._replace(place=place, object=None))


def if_(dice: Dice) -> Sentence:
    """If you are hungry, eat an apple. / Wenn du hungrig bist, iss einen Apfel."""
    rains = Clause(IT, dice.choose((RAIN, RAIN, SNOW)), "habit")
    if dice.chance(40):
        inner = feeling(dice, YOU)
        main = complete(dice, Clause(YOU, dice.choose(COMMANDS), "habit", negated=dice.chance(12)))
        main = main._replace(time=None, frequency=None)
        ours, theirs = english.imperative(main), german.imperative(main)
    else:
        subject = dice.choose((*PRONOUNS, *NAME_PHRASES[:3]))
        inner = feeling(dice, subject) if dice.chance(50) else rains
        main = draw_deed(dice, subject=subject)._replace(time=None)
        if dice.chance(60):
            main = main._replace(tense="modal", modal=WILL, frequency=None)
        elif main.tense == "past":
            main = main._replace(tense="habit")
        ours, theirs = english.statement(main), german.question(main)
    return (
        f"if {english.statement(inner)}, {ours}",
        f"{german.subordinate(inner, 'wenn')}, {theirs}",
    )


def why(dice: Dice) -> Sentence:
    """Why didn't you call me? When does he work? / Warum hast du mich nicht angerufen? ..."""
    ask, frage = dice.choose((("why", "warum"), ("why", "warum"), ("when", "wann")))
    subject = dice.choose((YOU, YOU, None, None))
    if ask == "why" and dice.chance(40):
        clause = feeling(dice, subject or draw_somebody(dice))
    else:
        clause = draw_deed(dice, subject=subject, negated=ask == "why" and dice.chance(35))
        clause = clause._replace(time=None, frequency=None)
        if dice.chance(35) and clause.tense != "modal" and not clause.verb.simple:
            clause = clause._replace(tense="past")
    return english.question(clause, ask) + "?", german.question(clause, frage) + "?"


def know_what(dice: Dice) -> Sentence:
    """I do not know where he lives. / Ich weiß nicht, wo er wohnt."""
    ask, frage = dice.choose((("where", "wo"), ("what", "was"), ("why", "warum")))
    verbs = (LIVE, LIVE, *verbs_of("work", "sleep", "play")) if ask == "where" else ()
    if ask == "what":
        verbs = (*verbs_of("see", "buy", "eat", "read", "need", "find"), WANT)
    clause = draw_deed(dice, verbs=verbs, negated=False)._replace(time=None, frequency=None)
    if ask != "why":
        clause = clause._replace(place=None, object=None, company=None)
    return known(dice, english.statement(clause), german.subordinate(clause, frage), ask)


def snow(dice: Dice) -> Sentence:
    """It is snowing. / Es schneit."""
    clause = Clause(IT, SNOW, dice.choose(("now", "habit", "past")), negated=dice.chance(15))
    if dice.chance(50):
        clause = clause._replace(time=dice.choose(times_in(clause.tense)))
    return as_question_or_statement(dice, clause)


WORK = verbs_of("work")


def going_to(dice: Dice) -> Sentence:
    """I am going to buy a car. / Ich werde ein Auto kaufen."""
    clause = draw_deed(dice, subject=dice.choose((SPEAKER, YOU, None, None)))
    if clause.verb.simple or clause.verb in WORK:  # "going to work" is also zur Arbeit gehen
        clause = draw_deed(dice, verbs=verbs_of("sing", "sleep", "cook"), subject=clause.subject)
    clause = clause._replace(tense="modal", modal=WILL, frequency=None, time=None)
    be, subject = english.ARE[clause.subject.person], clause.subject.english
    rest = english.infinitive(clause)
    negation = "not" if clause.negated else ""
    if dice.chance(20):
        ours = phrases.join_words(be, subject, negation, "going", rest)
        return ours + "?", german.question(clause) + "?"
    return phrases.join_words(subject, be, negation, "going", rest), german.statement(clause)


EVERYDAY: tuple[Callable[[Dice], Sentence], ...] = (
    *(verb,) * 5,
    *(irregular,) * 7,
    *(that,) * 6,
    who_are_you,
    *(state,) * 2,
    *(where,) * 5,
    *(home,) * 2,
    *(there_is,) * 3,
    *(sometimes,) * 2,
    *(opinion,) * 4,
    *(because,) * 4,
    *(know_where,) * 2,
    *(two_adjectives,) * 5,
    *(job,) * 4,
    *(substance,) * 4,
    *(name,) * 8,
    *(fixed,) * 12,
    *(greeting,) * 3,
    *(very,) * 3,
    *(good,) * 4,
    *(wish,) * 3,
    *(well,) * 2,
    *(for_somebody,) * 2,
    *(here,) * 2,
    *(if_,) * 3,
    *(why,) * 4,
    *(know_what,) * 3,
    snow,
    *(going_to,) * 3,
    *(free,) * 100,
    *COMBINATIONS,
    *MORE_CLAUSES,
)


FURTHER = FURTHER_SENTENCES + FURTHER_TIMES + FURTHER_THINGS + FURTHER_CLAUSES


def _kind(roll: int) -> tuple[Callable[[Dice], Sentence], ...]:
    """The sentences from which a roll of a hundred chooses."""
    if roll < 2:
        return (fixed,)
    if roll < 34:
        return (phrase_book,)
    if roll < 60:
        return (rare_word,)
    return FURTHER if roll < 80 else EVERYDAY


def draw_everyday(dice: Dice) -> Sentence:
    """One everyday sentence in both languages, with its capital letter and its stop."""
    kind = _kind(dice.choose(tuple(range(100))))
    # A fifth of the sentences draw from all words, and three fifths from all but the rare nouns.
    with with_words(dice.choose((0, 1, 1, 1, 2))):
        pair = dice.choose(kind)(dice)
        if len(pair[0].split()) > 20:
            pair = free(dice)
    ours, theirs = (text[0].upper() + text[1:].replace("_", " ") for text in pair)
    ours = ours.replace("-", " ")  # a translator hides unknown marks: "twenty-one" is "twenty one"
    stop = "" if ours.endswith(("?", "!")) else "."
    return ours + stop, theirs + stop
