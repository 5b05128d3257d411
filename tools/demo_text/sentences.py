"""The kinds of sentences. Each function draws one: (English, German), uncapitalised.

Questions end in "?"; the full stop of the others is left to `draw_sentence`.
"""

from collections.abc import Callable
from functools import cache

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import (
    DEFINITE,
    Dice,
    adjectives_for,
    draw_clause,
    draw_head,
    draw_noun_phrase,
    draw_place,
    draw_quality,
    draw_subject,
    nouns_of,
)
from tools.demo_text.lexicon import (
    ADULTS,
    NOUNS,
    RAIN,
    REPORTS,
    STATES,
    VERBS,
    Adjective,
    Noun,
    Verb,
)
from tools.demo_text.phrases import IT, THE, WHAT, WHO, Clause, Phrase

Sentence = tuple[str, str]

TRANSITIVE = tuple(verb for verb in VERBS if verb.objects)
ASKED_FOR = tuple(verb for verb in TRANSITIVE if not verb.preposition)
MOTION = tuple(verb for verb in VERBS if verb.destination)
LOCATED = tuple(verb for verb in VERBS if verb.place)
DELIBERATE = tuple(verb for verb in VERBS if not verb.simple)
CHOSEN = ("past", "now", "modal")  # tenses of a single deed


@cache
def _verbs_for(kind: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in TRANSITIVE if kind in verb.objects.split())


@cache
def _reasons(kind: str, verb: Verb) -> tuple[Adjective, ...]:
    """The qualities for which one does it to things of the kind."""
    return tuple(a for a in adjectives_for(kind) if a.english in verb.reasons.split())


@cache
def _shared_places(motion: Verb, aim: Verb) -> str:
    """Kinds of places to which the motion leads and where the aim may be done."""
    return " ".join(kind for kind in aim.place.split() if kind in motion.destination.split())


def _same_time(clause: Clause) -> str:
    """The tense of a clause at the same time."""
    return "past" if clause.tense == "past" else "now"


def statement(dice: Dice) -> Sentence:
    """Yesterday, Anna bought a car. / Gestern hat Anna ein Auto gekauft."""
    clause = draw_clause(dice, dice.choose(VERBS))
    fronted = clause.time is not None and dice.chance(50)
    return english.statement(clause, fronted), german.statement(clause, fronted)


def description(dice: Dice) -> Sentence:
    """My coat is very small. / Mein Mantel ist sehr klein."""
    noun = dice.choose(NOUNS)
    subject = draw_noun_phrase(dice, noun, DEFINITE, plain=True)
    tense = dice.choose(("now", "now", "past"))
    clause = draw_quality(dice, subject, adjectives_for(noun.kind), tense=tense, negated=None)
    if dice.chance(30):
        return english.question(clause) + "?", german.question(clause) + "?"
    return english.statement(clause), german.statement(clause)


def yes_no_question(dice: Dice) -> Sentence:
    """Did Anna buy a car? / Hat Anna ein Auto gekauft?"""
    clause = draw_clause(dice, dice.choose(VERBS))
    return english.question(clause) + "?", german.question(clause) + "?"


def subject_question(dice: Dice) -> Sentence:
    """Who bought the car? / Wer hat das Auto gekauft?"""
    clause = draw_clause(dice, dice.choose(TRANSITIVE), subject=WHO, negated=False)
    return english.statement(clause) + "?", german.statement(clause) + "?"


def object_question(dice: Dice) -> Sentence:
    """Who did Anna help? What did Peter buy? / Wem hat Anna geholfen? Was hat Peter gekauft?"""
    verb = dice.choose(ASKED_FOR)
    noun = dice.choose(nouns_of(verb.objects))
    clause = draw_clause(dice, verb, noun=noun, negated=False)._replace(object=None)
    asked = WHAT if _is_thing(noun) else WHO
    return (
        english.question(clause, asked.english) + "?",
        german.question(clause, asked.german[verb.case]) + "?",
    )


def adverbial_question(dice: Dice) -> Sentence:
    """Where, when or why did Anna buy the car? / Wo, wann, warum hat Anna das Auto gekauft?"""
    ask, frage, verbs = dice.choose(
        (
            ("where", "wo", LOCATED),
            ("where", "wohin", MOTION),
            ("when", "wann", DELIBERATE),
            ("why", "warum", VERBS),
        )
    )
    tense = dice.choose(("past", "modal")) if ask == "when" else None
    clause = draw_clause(
        dice, dice.choose(verbs), tense=tense, negated=None if ask == "why" else False
    )
    if ask == "where":
        clause = clause._replace(place=None)
    if ask == "when":
        clause = clause._replace(time=None)
    return english.question(clause, ask) + "?", german.question(clause, frage) + "?"


def report(dice: Dice) -> Sentence:
    """Anna says that Peter bought a car. / Anna sagt, dass Peter ein Auto gekauft hat."""
    verb, that, dass = dice.choose(REPORTS)
    outer = Clause(draw_subject(dice), verb, "now")
    inner = draw_clause(dice, dice.choose(VERBS))
    return _subordinated(outer, inner, (that, dass))


def _subordinated(
    main: Clause, side: Clause, conjunction: tuple[str, str], *, side_first: bool = False
) -> Sentence:
    """Both clauses with the conjunction.

    A German main clause that comes second starts with its verb, as a question does: the whole
    subordinate clause fills the front field.
    """
    ours, theirs = conjunction
    ours, theirs = f"{ours} {english.statement(side)}", german.subordinate(side, theirs)
    if side_first:
        return f"{ours}, {english.statement(main)}", f"{theirs}, {german.question(main)}"
    return f"{english.statement(main)} {ours}", f"{german.statement(main)}, {theirs}"


BECAUSE, ALTHOUGH = ("because", "weil"), ("although", "obwohl")
IF, WHEN = ("if", "wenn"), ("when", "wenn")
REASONABLE = tuple(
    (verb, noun)
    for verb in VERBS
    for noun in nouns_of(verb.objects)
    if verb.reasons and _reasons(noun.kind, verb)
)


def reason(dice: Dice) -> Sentence:
    """Anna bought the hat because it was cheap. / Anna hat den Hut gekauft, weil er billig war."""
    verb, noun = dice.choose(REASONABLE)
    main = draw_clause(dice, verb, tense=dice.choose(CHOSEN), noun=noun, negated=False)
    assert main.object is not None
    it = phrases.pronoun_for(main.object)
    qualities = _reasons(noun.kind, verb)
    side = draw_quality(dice, it, qualities, tense=_same_time(main))
    return _subordinated(main, side, BECAUSE)


def circumstance(dice: Dice) -> Sentence:
    """Although Anna is tired, she wants to cook. / Obwohl Anna müde ist, will sie kochen."""
    tense = dice.choose(("past", "modal"))
    conjunctions = (BECAUSE, ALTHOUGH) if tense == "past" else (BECAUSE, ALTHOUGH, WHEN, IF)
    conjunction = dice.choose(conjunctions)
    verb = dice.choose(DELIBERATE)
    subject = draw_subject(dice, verb.subjects, referable=True)
    # Although one is tired, one does it; because, when or if one is tired, one does not.
    main = draw_clause(
        dice, verb, subject=subject, tense=tense, negated=conjunction != ALTHOUGH
    )._replace(time=None)
    side_first = dice.chance(50)
    if dice.chance(25):
        side = Clause(IT, RAIN, _same_time(main))
        return _subordinated(main, side, conjunction, side_first=side_first)
    # The clause that comes first names the person, the other takes up the name: he, she, they.
    side = draw_quality(dice, subject, STATES, tense=_same_time(main))
    again = phrases.pronoun_for(subject)
    if side_first:
        main = main._replace(subject=again)
    else:
        side = side._replace(subject=again)
    return _subordinated(main, side, conjunction, side_first=side_first)


def _is_thing(noun: Noun) -> bool:
    return not phrases.noun_phrase(THE, None, noun, False).human


def _relative(
    dice: Dice, head: Phrase, noun: Noun, *, as_subject: bool, tense: str | None = None
) -> tuple[Clause, Sentence]:
    """A relative clause, and the clause it was made of.

    The head is its subject (who bought the car / der das Auto gekauft hat) or its object (that
    Anna bought / das Anna gekauft hat), in the case and with the preposition that its verb asks.
    """
    pronoun = phrases.relative_pronoun(head)
    if as_subject:
        verb = dice.choose(tuple(v for v in VERBS if noun.kind in v.subjects.split()))
        clause = draw_clause(dice, verb, subject=pronoun, tense=tense)
        return clause, (english.statement(clause), german.subordinate(clause, ""))
    verb = dice.choose(_verbs_for(noun.kind))
    clause = draw_clause(dice, verb, noun=noun, tense=tense)._replace(object=None)
    opener = f"{verb.preposition} {pronoun.german[verb.case]}".strip()
    return clause, (f"that {english.statement(clause)}", german.subordinate(clause, opener))


# A relative clause singles one out of many: "the man who ...", but hardly "my mother who ...".
DEEDS = tuple((v, n) for v in TRANSITIVE for n in nouns_of(v.objects) if n.kind != "family")
HEADS = tuple(dict.fromkeys(noun for _, noun in DEEDS))


def described_by_deed(dice: Dice) -> Sentence:
    """The car that Anna bought was old. / Das Auto, das Anna gekauft hat, war alt."""
    noun = dice.choose(HEADS)
    head = draw_head(dice, noun, plain=True)
    as_subject = head.human and dice.chance(50)
    inner, relative = _relative(dice, head, noun, as_subject=as_subject)
    subject = phrases.with_relative(head, *relative)
    main = draw_quality(
        dice, subject, adjectives_for(noun.kind), tense=_same_time(inner), negated=None
    )
    return english.statement(main), german.statement(main)


def deed_to_described(dice: Dice) -> Sentence:
    """Anna called the man who bought it. / Anna hat den Mann angerufen, der es gekauft hat."""
    verb, noun = dice.choose(DEEDS)
    main = draw_clause(dice, verb, tense=dice.choose(CHOSEN), noun=noun, negated=False)
    head = draw_head(dice, noun)
    main = main._replace(object=head, place=None, time=None)
    as_subject = head.human and dice.chance(50)
    _, (ours, theirs) = _relative(dice, head, noun, as_subject=as_subject, tense="past")
    # The relative clause follows the closing bracket: den Mann angerufen, der ...
    return f"{english.statement(main)} {ours}", f"{german.statement(main)}, {theirs}"


ERRANDS = tuple(
    (motion, aim)
    for motion in MOTION
    for aim in DELIBERATE
    if aim.perfect == "haben" and _shared_places(motion, aim)
)


def purpose(dice: Dice) -> Sentence:
    """Anna went to the shop to buy a hat. / Anna ist in den Laden gegangen, um ... zu kaufen."""
    motion, aim = dice.choose(ERRANDS)
    tense = dice.choose(CHOSEN)
    main = draw_clause(dice, motion, subject=draw_subject(dice, ADULTS), tense=tense, negated=False)
    main = main._replace(place=draw_place(dice, _shared_places(motion, aim), motion=True))
    deed = draw_clause(dice, aim, subject=main.subject, tense=tense, negated=False)
    deed = deed._replace(place=None, time=None)
    return (
        f"{english.statement(main)} {english.infinitive(deed)}",
        f"{german.statement(main)}, {german.infinitive(deed)}",
    )


def contrast(dice: Dice) -> Sentence:
    """Anna is cooking, but Peter is dancing. / Anna kocht, aber Peter tanzt: order unchanged."""
    first = draw_clause(dice, dice.choose(DELIBERATE))
    second = draw_clause(dice, dice.choose(DELIBERATE), tense=first.tense)
    return (
        f"{english.statement(first)}, but {english.statement(second)}",
        f"{german.statement(first)}, aber {german.statement(second)}",
    )


SENTENCES: tuple[Callable[[Dice], Sentence], ...] = (
    *(statement,) * 8,
    *(description,) * 2,
    *(yes_no_question,) * 3,
    subject_question,
    object_question,
    adverbial_question,
    *(report,) * 2,
    *(reason,) * 2,
    *(circumstance,) * 2,
    described_by_deed,
    deed_to_described,
    *(purpose,) * 2,
    contrast,
)


def draw_sentence(dice: Dice) -> Sentence:
    """One sentence in both languages, with its capital letter and its stop."""
    ours, theirs = (text[0].upper() + text[1:] for text in dice.choose(SENTENCES)(dice))
    stop = "" if ours.endswith("?") else "."
    return ours + stop, theirs + stop
