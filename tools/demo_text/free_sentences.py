"""Everyday sentences that combine freely: statements, questions and pairs of clauses.

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, adjectives_for, nouns_of
from tools.demo_text.everyday_basics import (
    DRINK,
    DRINKS,
    FOODS,
    KNOW,
    SOMEONE,
    THAT_IS,
    THOSE_ARE,
    known,
    verbs_of,
)
from tools.demo_text.everyday_clauses import (
    Both,
    clause_of,
    doing,
    in_tense,
    owned,
    quality,
    riding,
    subject_of,
)
from tools.demo_text.everyday_words import (
    ANY,
    BIRTHDAY,
    CAREFUL,
    COULD,
    DELIBERATE,
    DO,
    GOOD,
    LIKE_TO,
    MOTIONS,
    MUST,
    MUST_NOT,
    SAY,
    SUN,
    TIMES,
    TRY,
    WOULD,
)
from tools.demo_text.lexicon import (
    ADJECTIVES,
    BE,
    DATIVE,
    HAVE,
    LIKE,
    LIVING,
    MODALS,
    NOMINATIVE,
    PEOPLE,
    PLACES,
    PORTABLE,
    REPORTS,
    WANT,
    Adverbial,
)
from tools.demo_text.phrases import (
    HE,
    IT,
    SHE,
    SPEAKER,
    THE,
    THIS,
    WE,
    YOU,
    Clause,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain import THESE_ARE, THIS_IS, WILL, as_question_or_statement, given_to
from tools.demo_text.plain_clauses import (
    OWNERS,
    PRONOUNS,
    TRANSPORT,
    draw_phrase,
    draw_spot,
)
from tools.demo_text.sentences import Sentence
from tools.demo_text.unknown import unknown_word


def statement(dice: Dice) -> Sentence:
    """Yesterday we were in the park. / Gestern waren wir im Park."""
    ours, theirs = clause_of(dice)
    late = ours.time is not None and ours.time.english in ("late", "early")
    fronted = ours.time is not None and not late and dice.chance(30)
    return english.statement(ours, fronted), german.statement(theirs, fronted)


CONTRACTED = ("is", "are", "was", "were", "do", "does", "did", "have", "has", "would", "could")


def _contracted(text: str) -> str:
    """The negative question "is she not here" as "isn't she here"."""
    auxiliary, rest = text.split(" ", 1)
    return f"{auxiliary}n't {rest.replace('not ', '', 1)}" if auxiliary in CONTRACTED else text


def question(dice: Dice) -> Sentence:
    """Will you be here tomorrow? / Wirst du morgen hier sein?"""
    subject = dice.choose((YOU, YOU, YOU, None, None, None))
    ours, theirs = clause_of(dice, subject, negated=dice.chance(15))
    if subject is YOU and ours.modal is WILL and ours.verb is not BE and dice.chance(60):
        modal = dice.choose((COULD, WOULD)) if ours.verb is not LIKE else COULD
        ours, theirs = ours._replace(modal=modal), theirs._replace(modal=modal)
    asked = Both(ours, theirs).question()
    if ours.negated and dice.chance(70):
        return _contracted(asked[0]), asked[1]
    return _any(dice, subject) if dice.chance(6) else asked


def _any(dice: Dice, subject: Phrase | None) -> Sentence:
    """Do you have any milk? / Hast du Milch?"""
    verb = dice.choose((HAVE, HAVE, *verbs_of("need", "buy", "see", "eat"), WANT))
    kinds = verb.objects or f"family animal {PORTABLE} food"
    substances = () if verb in verbs_of("see") else (*DRINKS, *FOODS)
    noun = dice.choose((*substances, *(n for n in nouns_of(kinds) if n.english_plural)))
    thing = noun_phrase(ANY, None, noun, bool(noun.english_plural))
    asked = subject if subject is not None else subject_of(dice)
    clause = Clause(asked, verb, dice.choose(("habit", "past")), object=thing)
    return Both(clause, clause).question()


QUESTION_WORDS = (
    *(("why", "warum"), ("why", "warum"), ("when", "wann"), ("when", "wann"), ("where", "wo")),
    *(("what", "was"), ("what", "was"), ("who", "wer")),
)


def question_word(dice: Dice) -> Sentence:
    """Why are you so sad? What did he say? When will she be back? / ..."""
    subject = dice.choose((YOU, YOU, None, None, None))
    ask, frage = dice.choose(QUESTION_WORDS)
    if ask in ("why", "when"):
        both = clause_of(dice, subject, negated=ask == "why" and dice.chance(20))
        both = both.replace(time=None)
        if ask == "when":
            both = both.replace(frequency=None) if both.english.modal is not LIKE_TO else both
    elif ask == "where":
        both = in_tense(dice, doing(dice, subject, negated=False)._replace(place=None))
        verb = both.english.verb
        if verb in MOTIONS:
            frage = "wohin"
    elif ask == "what":
        verbs = (SAY, DO, DO, *verbs_of("see", "buy", "eat", "read", "need", "find", "draw"), DRINK)
        clause = Clause(subject or subject_of(dice), dice.choose(verbs), "")
        both = in_tense(dice, clause)
    else:
        both = clause_of(dice, phrases.WHO)
        ours, theirs = both.statement()
        return f"{ours}?", f"{theirs}?"
    ours, theirs = both.question(frage=frage)
    if both.english.negated and dice.chance(70):
        ours = _contracted(ours)
    return f"{ask} {ours}", theirs


COUNTED = ("see", "buy", "need", "find", "have", "eat", "read")


def how(dice: Dice) -> Sentence:
    """How many children do you have? How much is the cake? How big is the house? / ..."""
    kind = dice.choose(tuple(range(10)))
    subject = dice.choose((YOU, YOU, subject_of(dice)))
    if kind < 4:
        return _how_many(dice, subject)
    if kind < 6:
        return _how_much(dice)
    if kind < 7:
        return _how_is(dice)
    noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} {PLACES} vehicle furniture room"))
    old, *others = (a for a in ADJECTIVES if a.english in ("old", "big", "small", "heavy"))
    person = noun.kind in LIVING.split()
    word = old if person else dice.choose((old, *others))
    subject = draw_phrase(dice, noun, (THE, THE, THIS, *OWNERS))
    if person and dice.chance(50):
        subject = subject_of(dice)
    clause = Clause(subject, BE, dice.choose(("now", "now", "past")))
    return Both(clause, clause).question(f"how {word.english}", f"wie {word.german}")


def _how_many(dice: Dice, subject: Phrase) -> Sentence:
    verb = dice.choose((HAVE, HAVE, *verbs_of(*COUNTED)))
    kinds = verb.objects or f"family child animal {PORTABLE} vehicle room"
    things = dice.choose(tuple(noun for noun in nouns_of(kinds) if noun.english_plural))
    if dice.chance(25):
        noun, place = dice.choose(nouns_of(f"{LIVING} {PORTABLE} furniture")), draw_spot(dice)
        if noun.english_plural:
            ours = f"how many {noun.english_plural} are there {place.english}"
            return f"{ours}?", f"wie viele {noun.german_plural} gibt es {place.german}?"
    both = in_tense(dice, Clause(subject, verb, ""))
    return both.question(f"how many {things.english_plural}", f"wie viele {things.german_plural}")


def _how_much(dice: Dice) -> Sentence:
    goods = (*nouns_of(f"food clothes text thing device vehicle {TRANSPORT}"), *DRINKS, *FOODS)
    noun, plural = dice.choose(goods), dice.chance(25)
    plural = plural and bool(noun.english_plural)
    thing = noun_phrase(dice.choose((THE, THE, THIS)), None, noun, plural)
    be, does, costs, has = (
        ("are", "do", "kosten", "haben") if plural else ("is", "does", "kostet", "hat")
    )
    ours, theirs = thing.english, thing.german[NOMINATIVE]
    if dice.chance(20):
        return f"how much did {ours} cost?", f"wie viel {has} {theirs} gekostet?"
    if dice.chance(30):
        return f"how much {does} {ours} cost?", f"wie viel {costs} {theirs}?"
    return f"how much {be} {ours}?", f"wie viel {costs} {theirs}?"


def _how_is(dice: Dice) -> Sentence:
    if dice.chance(40):
        noun = dice.choose(nouns_of(f"food text {PLACES} room"))
        thing = draw_phrase(dice, noun, (THE, THIS, *OWNERS))
        clause = Clause(thing, BE, dice.choose(("now", "now", "past")))
        return Both(clause, clause).question("how", "wie")
    somebody = subject_of(dice)
    ours = f"how {english.ARE[somebody.person]} {somebody.english}?"
    return ours, f"wie geht es {somebody.german[DATIVE]}?"


def trying(dice: Dice) -> Sentence:
    """Paul is trying to sleep. / Paul versucht zu schlafen."""
    subject = subject_of(dice)
    main = in_tense(dice, Clause(subject, TRY, "", negated=dice.chance(10))).replace(time=None)
    inner = doing(dice, subject, negated=False, verbs=DELIBERATE)
    mark = "?" if dice.chance(15) else ""
    ours, theirs = (text.rstrip("?") for text in (main.question() if mark else main.statement()))
    ours, theirs = with_infinitive((ours, theirs), inner)
    return ours + mark, theirs + mark


def with_infinitive(main: Sentence, inner: Clause) -> Sentence:
    """Paul tries + Paul sleeps: Paul tries to sleep. / Paul versucht zu schlafen."""
    words = german.infinitive(inner).removeprefix("um").strip()
    comma = "," if words.count(" ") > 1 else ""
    return (
        phrases.join_words(main[0], english.infinitive(inner)),
        phrases.join_words(main[1] + comma, words),
    )


def asleep(dice: Dice) -> Sentence:
    """The dog is asleep. / Der Hund schläft."""
    subject, negated = subject_of(dice), dice.chance(12)
    sleep = verbs_of("sleep")[0]
    tense = dice.choose(("now", "now", "past"))
    both = in_tense(dice, Clause(subject, sleep, "", negated=negated), tense=tense)
    now = Adverbial("now", "jetzt") if tense == "now" and dice.chance(30) else None
    both = both.replace(tense=tense, frequency=None, time=now)
    both = Both(both.english._replace(verb=BE, predicate=Adverbial("asleep", "")), both.german)
    return both.question() if dice.chance(25) else both.statement()


def also(dice: Dice) -> Sentence:
    """She sings and dances. / Sie singt und tanzt."""
    subject, tense = subject_of(dice), dice.choose(("now", "habit", "modal"))
    first, second = (doing(dice, subject, negated=False, verbs=DELIBERATE) for _ in range(2))
    modal = dice.choose((WILL, *MODALS[:3])) if tense == "modal" else None
    first, second = (c._replace(tense=tense, modal=modal) for c in (first, second))
    nobody = Phrase("", ("", "", ""), person=subject.person)
    ours, theirs = english.statement(first), german.statement(first)
    if modal:
        rest = english.infinitive(second).removeprefix("to ")
        others = german.statement(second._replace(subject=nobody))
        others = others.removeprefix(modal.german[subject.person]).strip()
    else:
        rest = english.statement(second._replace(subject=nobody))
        rest = rest.removeprefix(english.ARE[subject.person] + " ") if tense == "now" else rest
        others = german.statement(second._replace(subject=nobody))
    return f"{ours} and {rest}", f"{theirs} und {others}"


def relative(dice: Dice) -> Sentence:
    """The man who lives here is famous. / Der Mann, der hier wohnt, ist berühmt."""
    noun = dice.choose(nouns_of(PEOPLE))
    head = draw_phrase(dice, noun, (THE, THE, THE, THIS))
    who = phrases.relative_pronoun(head)
    tense = dice.choose(("now", "habit", "past"))
    both = in_tense(dice, doing(dice, who, negated=dice.chance(8)), tense=tense)
    inner = english.statement(both.english), german.subordinate(both.german, "")
    head = phrases.with_relative(head, *inner)
    if dice.chance(50):
        clause = Clause(head, BE, "", negated=dice.chance(10), predicate=quality(dice, noun))
        both = in_tense(dice, clause, tense=dice.choose(("now", "now", "past")))
        both = both.replace(time=None)
    else:
        subject = dice.choose((*PRONOUNS, dice.choose(NAME_PHRASES)))
        verb = dice.choose((KNOW, KNOW, LIKE, *verbs_of("see", "help", "meet", "love")))
        both = in_tense(dice, Clause(subject, verb, "", object=head), tense="now")
        both = both.replace(time=None, frequency=None)
    ours, theirs = both.statement()
    return ours, theirs.rstrip(",")


def fine(dice: Dice) -> Sentence:
    """She is fine. / Ihr geht es gut."""
    subject, tense = subject_of(dice), dice.choose(("now", "now", "past"))
    word = dice.choose(("fine", "fine", "well"))
    be, geht = (english.WERE, "ging") if tense == "past" else (english.ARE, "geht")
    ours = f"{subject.english} {be[subject.person]} {word}"
    theirs = f"{subject.german[DATIVE]} {geht} es gut"
    if dice.chance(25):
        return (
            f"{be[subject.person]} {subject.english} {word}?",
            f"{geht} es {subject.german[DATIVE]} gut?",
        )
    if dice.chance(20):
        return f"{ours}, thank you", f"{theirs}, danke"
    return ours, theirs


def birthday(dice: Dice) -> Sentence:
    """My birthday is on Friday. / Mein Geburtstag ist am Freitag."""
    subject = (
        noun_phrase(dice.choose(OWNERS), None, BIRTHDAY, False)
        if dice.chance(60)
        else owned(dice, BIRTHDAY)
    )
    tense = dice.choose(("now", "now", "past"))
    if dice.chance(30):
        predicate = Adverbial(subject.english, subject.german[NOMINATIVE])
        clause = Clause(dice.choose((IT, THIS_IS)), BE, tense, predicate=predicate)
    else:
        fitting = "past" if tense == "past" else "future"
        times = tuple(t for t in TIMES if fitting in t.tenses.split() and "ly " not in t.english)
        time = dice.choose(tuple(t for t in times if "late" not in t.english))
        clause = Clause(subject, BE, tense, time=Adverbial(time.english, time.german))
    return as_question_or_statement(dice, clause)


def whose(dice: Dice) -> Sentence:
    """Is this Anna's bag? / Ist das Annas Tasche?"""
    thing = owned(dice, dice.choose(nouns_of(f"{LIVING} {PORTABLE} vehicle device room home")))
    if thing.person == 2:
        subject = dice.choose((THESE_ARE, THOSE_ARE))
    else:
        subject = dice.choose((THIS_IS, THAT_IS, THIS_IS, IT))
    predicate = Adverbial(thing.english, thing.german[NOMINATIVE])
    clause = Clause(subject, BE, "now", negated=dice.chance(15), predicate=predicate)
    both = Both(clause, clause)
    return both.question() if dice.chance(30) else both.statement()


def forbidden(dice: Dice) -> Sentence:
    """You must not swim here. / Du darfst hier nicht schwimmen."""
    subject = dice.choose((YOU, YOU, YOU, subject_of(dice)))
    clause = doing(dice, subject, negated=True, verbs=DELIBERATE)._replace(tense="modal")
    return Both(clause._replace(modal=MUST), clause._replace(modal=MUST_NOT)).statement()


def known_when(dice: Dice) -> Sentence:
    """Do you know when the train arrives? / Weißt du, wann der Zug ankommt?"""
    if dice.chance(30):
        clause = riding(dice, False)._replace(place=None)
        both = in_tense(dice, clause, tense=dice.choose(("now", "habit")))
    else:
        both = clause_of(dice, negated=False)
    both = both.replace(time=None)
    inner = german.subordinate(both.german, "wann")
    return known(dice, english.statement(both.english), inner, "when")


LINKS = (("because", "weil"), ("because", "weil"), ("when", "wenn"), ("if", "wenn"))


def two(dice: Dice) -> Sentence:
    """She is happy because the sun is shining. / Sie ist glücklich, weil die Sonne scheint."""
    kind = dice.choose(tuple(range(10)))
    first = clause_of(dice)
    subject = dice.choose((first.english.subject, subject_of(dice), SUN, None, None))
    if subject is not None and subject is not SUN and not subject.human:
        subject = None
    if kind < 4:
        ours, theirs = dice.choose(LINKS)
        past = first.english.tense in ("past", "was", "perfect")
        if past and ours == "when" and dice.chance(50):  # "when you called": als du angerufen hast
            theirs = "als"
            second = clause_of(dice, subject, tense="past", negated=False)
        elif ours in ("when", "if"):
            first = clause_of(dice, tense=dice.choose(("habit", "future"))) if past else first
            second = clause_of(dice, subject, tense="now", negated=dice.chance(8))
            if second.english.verb is not BE:
                second = second.replace(tense="habit")
        else:
            second = clause_of(dice, subject, tense="past" if past else "")
        if ours in ("when", "if") and dice.chance(50):
            return (
                f"{ours} {english.statement(second.english)}, {english.statement(first.english)}",
                f"{german.subordinate(second.german, theirs)}, {german.question(first.german)}",
            )
        return (
            f"{english.statement(first.english)} {ours} {english.statement(second.english)}",
            f"{german.statement(first.german)}, {german.subordinate(second.german, theirs)}",
        )
    if kind < 7:
        ours, theirs = dice.choose((("and", "und"), ("but", "aber")))
        second = clause_of(dice, subject)
        comma = "," if ours == "but" or dice.chance(50) else ""
        return (
            f"{english.statement(first.english)}{comma} {ours} {english.statement(second.english)}",
            f"{german.statement(first.german)}{',' if ours == 'but' else ''} {theirs} "
            f"{german.statement(second.german)}",
        )
    speaker = dice.choose((SPEAKER, SPEAKER, SPEAKER, WE, HE, SHE, dice.choose(NAME_PHRASES)))
    says, that_word, dass = dice.choose((*REPORTS[:4], *REPORTS))
    if dass == "ob":
        that_word = dice.choose(("if", "if", "whether"))
    past = first.english.tense in ("past", "was") and dice.chance(50)
    main = Clause(speaker, says, "past" if past else "habit")
    that_word = "" if dice.chance(40) and dass != "ob" else that_word
    return (
        phrases.join_words(english.statement(main), that_word, english.statement(first.english)),
        f"{german.statement(main)}, {german.subordinate(first.german, dass)}",
    )


def is_about_us(clause: Clause) -> bool:
    """Whether the object is a pronoun that does not go with "let us"."""
    return clause.object is not None and clause.object.english in ("it", "we", "you", "I")


def let_us(clause: Clause) -> Sentence:
    """Let us go home. / Lass uns nach Hause gehen."""
    us = clause._replace(subject=WE, tense="modal", modal=WILL)
    theirs = german.statement(us).removeprefix("wir werden")
    return f"let us{english.infinitive(clause).removeprefix('to')}", f"lass uns{theirs}"


def command(dice: Dice) -> Sentence:
    """Be careful! Do not run away! Let's go home! / Sei vorsichtig! ..."""
    clause = doing(dice, YOU, negated=dice.chance(20), verbs=DELIBERATE)
    if dice.chance(15):
        word = dice.choose((CAREFUL, CAREFUL, GOOD[0], *adjectives_for("child")))
        clause = Clause(
            YOU, BE, "", negated=clause.negated, predicate=Adverbial(word.english, word.german)
        )
    clause = clause._replace(tense="habit")
    if not clause.negated and dice.chance(12) and not is_about_us(clause):
        return let_us(clause)
    ours, theirs = english.imperative(given_to(dice, clause)), german.imperative(clause)
    if dice.chance(20):
        ours, theirs = dice.choose(
            ((f"please {ours}", f"bitte {theirs}"), (f"{ours}, please", f"{theirs}, bitte"))
        )
    elif dice.chance(12):
        name = dice.choose((*NAME_PHRASES, *SOMEONE)).english
        ours, theirs = f"{ours}, {name}", f"{theirs}, {name}"
    mark = "!" if dice.chance(50) else ""
    return ours + mark, theirs + mark


FREE = (
    *(statement,) * 20,
    *(question,) * 8,
    *(question_word,) * 6,
    *(how,) * 3,
    *(two,) * 6,
    *(also,) * 2,
    relative,
    fine,
    birthday,
    whose,
    known_when,
    forbidden,
    trying,
    asleep,
    *(command,) * 3,
    *(unknown_word,) * 6,
)


def free(dice: Dice) -> Sentence:
    """One sentence of any construction, of at most 20 words."""
    pair = dice.choose(FREE)(dice)
    return pair if len(pair[0].split()) <= 20 else statement(dice)
