"""Everyday sentences that join sentences, or combine words that `free_sentences` keeps apart.

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, adjectives_for, nouns_of
from tools.demo_text.everyday_basics import (
    DRINKS,
    FOODS,
    ONES,
    verbs_of,
)
from tools.demo_text.everyday_clauses import (
    Both,
    being,
    clause_of,
    doing,
    in_tense,
    subject_of,
)
from tools.demo_text.everyday_words import (
    DELIBERATE,
    GOOD,
    STOP,
    TRY,
    WEATHER,
)
from tools.demo_text.free_sentences import is_about_us, let_us, with_infinitive
from tools.demo_text.lexicon import (
    BE,
    DATIVE,
    HAVE,
    LIVING,
    PLACES,
    PORTABLE,
    RAIN,
    STATES,
    Adverbial,
    Verb,
)
from tools.demo_text.more_clauses import ASK, HOPE
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    SHE,
    SPEAKER,
    THE,
    WE,
    YOU,
    A,
    Clause,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain import given_to
from tools.demo_text.plain_clauses import OWNERS, PRONOUNS, TRANSPORT, draw_adjective, draw_phrase
from tools.demo_text.sentences import Sentence

SINGLE = verbs_of("sing", "dance", "cook", "sleep", "work", "play", "eat")


def short_clause(dice: Dice) -> Both:
    """A clause of few words: "she cooks", "the soup is cold"."""
    if dice.chance(12):
        word = dice.choose((*WEATHER, *WEATHER[-2:]))
        clause = Clause(IT, BE, "", predicate=Adverbial(word.english, word.german))
        return in_tense(dice, clause, tense=dice.choose(("now", "now", "past"))).replace(time=None)
    if dice.chance(50):
        noun = dice.choose(nouns_of(f"{LIVING} food device vehicle room"))
        subject = draw_phrase(dice, noun, (THE, THE, *OWNERS)) if dice.chance(50) else None
        subject = subject or dice.choose((*PRONOUNS, YOU, IT))
        human = subject.human
        word = dice.choose(STATES) if human and dice.chance(50) else None
        word = word or draw_adjective(dice, noun if not human else nouns_of("person")[0])
        clause = Clause(subject, BE, "", predicate=Adverbial(word.english, word.german))
        clause = clause._replace(negated=dice.chance(15))
        return in_tense(dice, clause, tense=dice.choose(("now", "now", "past"))).replace(time=None)
    verb = dice.choose((*SINGLE, RAIN) if dice.chance(20) else SINGLE)
    subject = IT if verb is RAIN else dice.choose((*PRONOUNS, YOU, subject_of(dice)))
    clause = Clause(subject, verb, "", negated=dice.chance(15))
    both = in_tense(dice, clause, tense=dice.choose(("now", "habit", "past")))
    return both.replace(time=None, frequency=None)


def side_by_side(dice: Dice) -> Sentence:
    """She cooks and he cleans. The girl is reading, the boy is sleeping. / Sie kocht und ..."""
    first = short_clause(dice) if dice.chance(60) else clause_of(dice)
    second = short_clause(dice) if dice.chance(70) else clause_of(dice)
    links = ((" and", " und"), (" and", " und"), (", but", ", aber"), (",", ","), (",", ","))
    (ours, theirs), (one, eins), (other, zwei) = (
        dice.choose(links),
        first.statement(),
        second.statement(),
    )
    return f"{one}{ours} {other}", f"{eins}{theirs} {zwei}"


def more_of_it(dice: Dice) -> Sentence:
    """His jacket is not blue, it is white. / Seine Jacke ist nicht blau, sie ist weiß."""
    noun = dice.choose(nouns_of(f"{PORTABLE} animal vehicle furniture room person"))
    subject = noun_phrase(dice.choose((THE, *OWNERS)), None, noun, dice.chance(15))
    if noun.gender == "n" and subject.human and subject.gender == "n":
        subject = dice.choose(NAME_PHRASES)
    words = (draw_adjective(dice, noun), draw_adjective(dice, noun))
    it = phrases.pronoun_for(subject)
    negated = dice.chance(50)
    first, second = (
        Clause(who, BE, "now", predicate=Adverbial(word.english, word.german))
        for who, word in zip((subject, it), words, strict=True)
    )
    first = first._replace(negated=negated)
    ours, theirs = (",", ",") if negated else dice.choose(((" and", " und"), (", but", ", aber")))
    return (
        f"{english.statement(first)}{ours} {english.statement(second)}",
        f"{german.statement(first)}{theirs} {german.statement(second)}",
    )


OPENERS = (
    *(("good morning", "guten Morgen"), ("good evening", "guten Abend"), ("hello", "hallo")),
    *(("good night", "gute Nacht"), ("thank you", "danke"), ("yes", "ja"), ("no", "nein")),
    *(("please", "bitte"), ("excuse me", "Entschuldigung"), ("I am sorry", "es tut mir leid")),
)


def opened(dice: Dice) -> Sentence:
    """Good morning, how are you? Be quiet, it is late. / Guten Morgen, wie geht es dir? ..."""
    roll = dice.choose(tuple(range(10)))
    if roll < 4:
        ours, theirs = dice.choose(OPENERS)
        second = _order(dice) if dice.chance(35) else _asked(dice)
        if dice.chance(35):
            second = short_clause(dice).statement()
        return f"{ours}, {second[0]}", f"{theirs}, {second[1]}"
    if roll < 7:
        first, second = _order(dice), short_clause(dice).statement()
    else:
        first = short_clause(dice).statement()
        second = _order(dice) if dice.chance(50) else _asked(dice)
    return f"{first[0]}, {second[0]}", f"{first[1]}, {second[1]}"


def _asked(dice: Dice) -> Sentence:
    """How are you? Where is the taxi? Are you tired? / Wie geht es dir? ..."""
    roll = dice.choose(tuple(range(4)))
    if roll == 0:
        return "how are you?", "wie geht es dir?"
    if roll == 1:
        noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} {PLACES} {TRANSPORT} room"))
        clause = Clause(draw_phrase(dice, noun, (THE, THE, *OWNERS)), BE, "now")
        return english.question(clause, "where") + "?", german.question(clause, "wo") + "?"
    return clause_of(dice, YOU).replace(time=None).question()


def _order(dice: Dice) -> Sentence:
    clause = doing(dice, YOU, negated=dice.chance(15), verbs=DELIBERATE)._replace(tense="habit")
    if dice.chance(12) and not clause.negated and not is_about_us(clause):
        return let_us(clause)
    if dice.chance(12):
        thing = draw_phrase(dice, dice.choose(nouns_of(f"{PORTABLE} animal child")), (THE, *OWNERS))
        return f"be careful with {thing.english}", f"sei vorsichtig mit {thing.german[DATIVE]}"
    if dice.chance(20):
        word = dice.choose((GOOD[0], *adjectives_for("child")))
        predicate = Adverbial(word.english, word.german)
        clause = Clause(YOU, BE, "", negated=clause.negated, predicate=predicate)
    return english.imperative(given_to(dice, clause)), german.imperative(clause)


def two_orders(dice: Dice) -> Sentence:
    """Sit down and wait! / Setz dich und warte!"""
    (ours, theirs), (more, mehr) = _order(dice), _order(dice)
    mark = dice.choose(("", "!"))
    return f"{ours} and {more}{mark}", f"{theirs} und {mehr}{mark}"


def listed(dice: Dice) -> Sentence:
    """We need bread, milk and eggs. / Wir brauchen Brot, Milch und Eier."""
    foods = (*DRINKS, *FOODS, *nouns_of("food"))
    things = nouns_of(f"{PORTABLE} {LIVING}") if dice.chance(40) else foods
    parts: list[Phrase] = []
    while len(parts) < dice.choose((2, 3, 3)):
        noun = dice.choose(things)
        if things is foods:
            plural = bool(noun.english_plural)
            part = noun_phrase(BARE if plural else ONES, None, noun, plural)
        else:
            part = draw_phrase(dice, noun, (A, A, THE, *OWNERS))
        if part.english not in [one.english for one in parts]:
            parts.append(part)
    forms = zip(*(part.german for part in parts), strict=True)
    nominative, accusative, dative = (_and("und", form) for form in forms)
    thing = Phrase(
        _and("and", [part.english for part in parts]),
        (nominative, accusative, dative),
        person=2,
        gender="p",
        human=False,
        definite=False,
    )
    verbs = (HAVE, HAVE, *verbs_of("see", "buy", "need", "find", "love", "eat"))
    clause = Clause(subject_of(dice), dice.choose(verbs), "", object=thing)
    both = in_tense(dice, clause)
    return both.question() if dice.chance(20) else both.statement()


def _and(word: str, parts: list[str] | tuple[str, ...]) -> str:
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def danced(dice: Dice) -> Sentence:
    """We danced, sang and drank. / Wir haben getanzt, gesungen und getrunken."""
    subject, tense = subject_of(dice), dice.choose(("past", "past", "habit"))
    verbs: list[Verb] = []
    while len(verbs) < dice.choose((2, 3)):
        verb = dice.choose(SINGLE)
        if verb not in verbs:
            verbs.append(verb)
    clauses = [Clause(subject, verb, tense) for verb in verbs]
    nobody = subject._replace(english="")
    ours = [english.statement(clauses[0])]
    ours += [english.statement(clause._replace(subject=nobody)) for clause in clauses[1:]]
    if tense == "past":
        first = german.statement(clauses[0])
        theirs = [first, *(german.verb_forms(verb).participle for verb in verbs[1:])]
    else:
        theirs = [german.statement(clauses[0])]
        theirs += [german.verb_forms(v).present[subject.person] for v in verbs[1:]]
    return _and("and", ours), _and("und", theirs)


def asking(dice: Dice) -> Sentence:
    """She asked me whether I was hungry. Ask him where he lives. / Sie hat mich gefragt, ..."""
    somebody = dice.choose((*PRONOUNS, *PRONOUNS, *NAME_PHRASES, subject_of(dice)))
    ours, theirs = dice.choose((("whether", "ob"), ("if", "ob"), ("where", "wo"), ("why", "warum")))
    inner_subject = dice.choose((somebody, subject_of(dice)))
    order = dice.chance(30)
    if order and somebody in (YOU, SPEAKER):
        somebody = dice.choose(NAME_PHRASES)
    if ours == "where":
        deeds = verbs_of("live", "work", "sleep", "play", "cook")
        inner = in_tense(dice, Clause(inner_subject, dice.choose(deeds), ""))
    else:
        inner = clause_of(dice, inner_subject)
    inner = inner.replace(time=None)
    asker = dice.choose((*PRONOUNS, *NAME_PHRASES[:3], subject_of(dice)))
    if asker is somebody:
        asker = dice.choose(NAME_PHRASES[3:])
    clause = Clause(YOU if order else asker, ASK, "habit" if order else "past", object=somebody)
    if not order and dice.chance(30):
        clause = clause._replace(object=None)
    main = english.imperative(clause) if order else english.statement(clause)
    frage = german.imperative(clause) if order else german.statement(clause)
    return (
        f"{main} {ours} {english.statement(inner.english)}",
        f"{frage}, {german.subordinate(inner.german, theirs)}",
    )


def hoping(dice: Dice) -> Sentence:
    """He hopes to find work. I hope you understand me. / Er hofft, Arbeit zu finden. ..."""
    subject = subject_of(dice)
    if dice.chance(45):
        inner = clause_of(dice, dice.choose((None, None, YOU)))
        main = Clause(dice.choose((SPEAKER, SPEAKER, subject)), HOPE, "habit")
        that = "that " if dice.chance(40) else ""
        return (
            f"{english.statement(main)} {that}{english.statement(inner.english)}",
            f"{german.statement(main)}, {german.subordinate(inner.german, 'dass')}",
        )
    main = Clause(subject, dice.choose((HOPE, TRY)), dice.choose(("habit", "past")))
    inner = doing(dice, subject, negated=False, verbs=DELIBERATE)
    return with_infinitive((english.statement(main), german.statement(main)), inner)


def when_you(dice: Dice) -> Sentence:
    """Call me when you arrive. I was reading when you called. / Ruf mich an, wenn ... ankommst."""
    subject = dice.choose((YOU, YOU, SPEAKER, HE, SHE, WE, subject_of(dice)))
    if dice.chance(30):
        first, second = (
            in_tense(dice, doing(dice, who, negated=False), tense=tense).replace(time=None)
            for who, tense in ((None, "was"), (subject, "past"))
        )
        return (
            f"{english.statement(first.english)} when {english.statement(second.english)}",
            f"{german.statement(first.german)}, {german.subordinate(second.german, 'als')}",
        )
    ours, theirs = dice.choose(
        (("when", "wenn"), ("if", "wenn"), ("because", "weil"), ("although", "obwohl"))
    )
    if theirs == "wenn":
        second = in_tense(dice, doing(dice, subject, negated=dice.chance(10)), tense="habit")
        first = _order(dice)
        if dice.chance(45):
            first = clause_of(dice, tense=dice.choose(("habit", "future"))).statement()
    else:
        second = short_clause(dice) if dice.chance(50) else clause_of(dice, subject)
        first = (short_clause(dice) if dice.chance(40) else clause_of(dice)).statement()
    second = second.replace(time=None)
    return (
        f"{first[0]} {ours} {english.statement(second.english)}",
        f"{first[1]}, {german.subordinate(second.german, theirs)}",
    )


def stop(dice: Dice) -> Sentence:
    """She stopped singing. Stop talking! / Sie hat aufgehört zu singen. ..."""
    inner = Clause(YOU, dice.choose(SINGLE), "habit")
    word, infinitive = english.verb_forms(inner.verb), german.verb_forms(inner.verb).infinitive
    if dice.chance(40):
        return f"stop {word.progressive}!", f"hör auf zu {infinitive}!"
    both = in_tense(dice, Clause(subject_of(dice), STOP, "", negated=dice.chance(20)))
    both = both.replace(time=None, frequency=None)
    ours, theirs = both.statement()
    return f"{ours} {word.progressive}", f"{theirs} zu {infinitive}"


def is_it_not(dice: Dice) -> Sentence:
    """The book is boring, isn't it? / Das Buch ist langweilig, nicht wahr?"""
    clause = being(dice, None)._replace(tense="now", negated=False)
    it = clause.subject
    if it not in (*PRONOUNS, IT) and not (it.human and it.gender == "n"):
        it = phrases.pronoun_for(it)
    be = {0: "am I not", 1: f"isn't {it.english}"}.get(it.person, f"aren't {it.english}")
    if it.english not in ("I", "he", "she", "it", "we", "they"):
        return english.statement(clause), german.statement(clause)
    return f"{english.statement(clause)}, {be}?", f"{german.statement(clause)}, nicht wahr?"


COMBINATIONS = (
    *(*(side_by_side,) * 4, *(more_of_it,) * 2, *(opened,) * 4, two_orders, *(listed,) * 2, danced),
    *(*(asking,) * 3, *(hoping,) * 3, *(when_you,) * 4, stop, is_it_not),
)
