"""Plain short sentences, which learners type first: "The dog sleeps.", "Open the door!".

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from collections.abc import Callable

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of, times_in
from tools.demo_text.lexicon import (
    ADJECTIVES,
    BE,
    DEGREES,
    LIVING,
    MODALS,
    NOMINATIVE,
    NOUNS,
    PORTABLE,
    RAIN,
    Adjective,
    Adverbial,
    Noun,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    NO,
    SHE,
    SPEAKER,
    THE,
    THEY,
    WE,
    WHAT,
    WHO,
    YOU,
    A,
    Clause,
    Phrase,
)
from tools.demo_text.plain_clauses import (
    ASKED_FOR,
    COMMANDS,
    LOCATED,
    OWNERS,
    PRONOUNS,
    SPOUSES,
    TRANSPORT,
    complete,
    draw_adjective,
    draw_deed,
    draw_phrase,
    draw_somebody,
    draw_spot,
)
from tools.demo_text.sentences import Sentence


def statement(dice: Dice) -> Sentence:
    """The cat sings. / Die Katze singt."""
    clause = draw_deed(dice)
    fronted = clause.time is not None and dice.chance(25)
    return english.statement(given_to(dice, clause), fronted), german.statement(clause, fronted)


def given_to(dice: Dice, clause: Clause) -> Clause:
    """The clause for English, where a recipient may follow: "gives the book to Anna"."""
    to = clause.recipient
    if to is None or clause.object is None:
        return clause
    if clause.object.english != "it" and dice.chance(60):
        return clause
    words = phrases.ENGLISH_OBJECT.get(to.english, to.english)
    return clause._replace(recipient=None, company=Adverbial(f"to {words}", ""))


def question(dice: Dice) -> Sentence:
    """Does the dog sleep? / Schläft der Hund?"""
    clause = draw_deed(dice, subject=YOU if dice.chance(25) else None)
    return english.question(given_to(dice, clause)) + "?", german.question(clause) + "?"


def question_word(dice: Dice) -> Sentence:
    """Who is sleeping? Where does she work? What do you see? / Wer schläft? Wo arbeitet sie?"""
    ask = dice.choose(("who", "where", "what"))
    if ask == "who":
        clause = draw_deed(dice, subject=WHO, negated=False)
        return english.statement(clause) + "?", german.statement(clause) + "?"
    verbs = LOCATED if ask == "where" else ASKED_FOR
    subject = YOU if dice.chance(25) else None
    clause = draw_deed(dice, verbs=verbs, subject=subject, negated=False)
    if ask == "where":
        wo = "wohin" if clause.verb.destination else "wo"
        clause = clause._replace(place=None)
        return english.question(clause, ask) + "?", german.question(clause, wo) + "?"
    asked, clause = clause.object, clause._replace(object=None)
    assert asked is not None
    if asked.human:
        frage = WHO.german[clause.verb.case]
        return english.question(clause, "who") + "?", german.question(clause, frage) + "?"
    return english.question(clause, "what") + "?", german.question(clause, "was") + "?"


def quality(dice: Dice) -> Sentence:
    """The house is red. / Das Haus ist rot."""
    noun = dice.choose(NOUNS)
    subject = draw_phrase(dice, noun)
    if dice.chance(25):
        subject = dice.choose((*PRONOUNS, *PRONOUNS, IT, IT, IT, *NAME_PHRASES))
        noun = dice.choose(nouns_of("person child"))
    word = dice.choose(ADJECTIVES) if subject is IT else draw_adjective(dice, noun)
    return described_as(dice, subject, word, negated=dice.chance(12), degrees=15)


def described_as(
    dice: Dice, subject: Phrase, word: Adjective, *, negated: bool, degrees: int
) -> Sentence:
    """The house is red; "very" or "quite" so in `degrees` percent of the affirmative sentences."""
    predicate = Adverbial(word.english, word.german)
    if word.graded and not negated and dice.chance(degrees):
        degree = dice.choose(DEGREES)
        predicate = Adverbial(f"{degree[0]} {word.english}", f"{degree[1]} {word.german}")
    tense = dice.choose(("now", "now", "now", "now", "past"))
    return as_question_or_statement(
        dice, Clause(subject, BE, tense, negated=negated, predicate=predicate)
    )


def as_question_or_statement(dice: Dice, clause: Clause) -> Sentence:
    """The clause as a statement or, sometimes, a question."""
    if dice.chance(15):
        return english.question(clause) + "?", german.question(clause) + "?"
    return english.statement(clause), german.statement(clause)


def place(dice: Dice) -> Sentence:
    """The cat is in the kitchen. Where is my key? / Die Katze ist in der Küche. Wo ist ...?"""
    subject = draw_somebody(dice, f"{LIVING} {PORTABLE} food {TRANSPORT} device")
    tense = dice.choose(("now", "now", "now", "now", "past"))
    clause = Clause(subject, BE, tense, negated=dice.chance(10))
    if dice.chance(25):
        clause = clause._replace(negated=False)
        return english.question(clause, "where") + "?", german.question(clause, "wo") + "?"
    return as_question_or_statement(dice, clause._replace(place=draw_spot(dice)))


THIS_IS = Phrase("this", ("das", "das", "das"), gender="n")
THESE_ARE = Phrase("these", ("das", "das", "das"), person=2, gender="n")
JOBS = ("teacher", "doctor", "student", "waiter", "waitress", "actress")


def identity(dice: Dice) -> Sentence:
    """This is my dog. He is a doctor. Who is this? / Das ist mein Hund. Er ist Arzt."""
    if dice.chance(8):
        ask = dice.choose((WHO, WHAT))
        return f"{ask.english} is this?", f"{ask.german[0]} ist das?"
    if dice.chance(60):
        subject, noun = dice.choose((THIS_IS, THIS_IS, THIS_IS, THESE_ARE, IT)), dice.choose(NOUNS)
    else:
        noun = dice.choose(nouns_of("person family child"))
        gender = "f" if noun.gender == "f" or noun.english == "girl" else "m"
        of_gender = tuple(p for p in (HE, SHE, *NAME_PHRASES) if p.gender == gender)
        twin = draw_phrase(dice, noun, (THE,))
        subject = dice.choose((SPEAKER, YOU, *of_gender, *of_gender, twin, WE, THEY))
    return identified(dice, subject, noun)


def identified(dice: Dice, subject: Phrase, noun: Noun) -> Sentence:
    """This is not my dog. / Das ist nicht mein Hund."""
    plural = subject.person == 2
    if plural and not noun.english_plural:
        subject, plural = HE if noun.gender == "m" else SHE, False
    owners = () if noun.english in SPOUSES else OWNERS
    determiner = dice.choose((BARE, BARE, *owners) if plural else (A, A, A, *owners, THE))
    adjective = draw_adjective(dice, noun) if dice.chance(25) else None
    what = phrases.noun_phrase(determiner, adjective, noun, plural)
    words = what.german[NOMINATIVE]
    negated, theirs = dice.chance(15), False
    if noun.english in JOBS and determiner is A and not adjective:
        words = noun.german  # er ist Arzt
    if negated:
        kein = determiner in (A, BARE)
        theirs = not kein
        if kein:
            words = phrases.noun_phrase(NO, adjective, noun, plural).german[NOMINATIVE]
    ours = Clause(subject, BE, "now", negated=negated, predicate=Adverbial(what.english, ""))
    other = Clause(subject, BE, "now", negated=theirs, predicate=Adverbial("", words))
    if dice.chance(15):
        return english.question(ours) + "?", german.question(other) + "?"
    return english.statement(ours), german.statement(other)


WILL = next(modal for modal in MODALS if modal.english == "will")


def weather(dice: Dice) -> Sentence:
    """It is raining. / Es regnet."""
    tense = dice.choose(("now", "habit", "past", "modal"))
    modal = WILL if tense == "modal" else None
    clause = Clause(IT, RAIN, tense, modal, negated=dice.chance(15))
    if dice.chance(50):
        clause = clause._replace(time=dice.choose(times_in(clause.tense)))
    elif dice.chance(30):
        clause = clause._replace(place=draw_spot(dice))
    return as_question_or_statement(dice, clause)


MANNERS = tuple(a for a in ADJECTIVES if a.english in ("quiet", "friendly", "polite", "happy"))


def command(dice: Dice) -> Sentence:
    """Close the window, please! / Mach das Fenster zu, bitte!"""
    verb, negated = dice.choose(COMMANDS), dice.chance(15)
    clause = complete(dice, Clause(YOU, verb, "habit", negated=negated))
    clause = clause._replace(time=None, frequency=None)
    if dice.chance(7):
        word = dice.choose(MANNERS)
        predicate = Adverbial(word.english, word.german)
        clause = Clause(YOU, BE, "now", negated=negated, predicate=predicate)
    ours, theirs = english.imperative(given_to(dice, clause)), german.imperative(clause)
    please = dice.choose(tuple(range(10)))
    if please == 0:
        ours, theirs = f"please {ours}", f"bitte {theirs}"
    elif please == 1:
        ours, theirs = f"{ours}, please", f"{theirs}, bitte"
    mark = "!" if dice.chance(35) else ""
    return ours + mark, theirs + mark


PLAIN: tuple[Callable[[Dice], Sentence], ...] = (
    *(statement,) * 24,
    *(question,) * 4,
    *(question_word,) * 3,
    *(quality,) * 11,
    *(place,) * 4,
    *(identity,) * 4,
    weather,
    *(command,) * 7,
)


def draw_plain(dice: Dice) -> Sentence:
    """One plain sentence in both languages, with its capital letter and its stop."""
    ours, theirs = (text[0].upper() + text[1:] for text in dice.choose(PLAIN)(dice))
    stop = "" if ours.endswith(("?", "!")) else "."
    return ours + stop, theirs + stop
