"""Everyday clauses of any kind: each subject with each predicate, tense and time.

Here constructions combine, so that a model learns to translate every word of a sentence that is
built like none before.
"""

from typing import Any, NamedTuple

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, adjectives_for, nouns_of
from tools.demo_text.everyday_basics import (
    AT,
    CITIES,
    COME,
    DRINK,
    DRINKS,
    FOODS,
    JOBS,
    LANGUAGES,
    LEARN,
    LIVE,
    MOODS,
    NONES,
    ONES,
    ROLES,
    SNOW,
    SOMEONE,
    SPEAK,
    TO,
    draw_situation,
    verbs_of,
)
from tools.demo_text.everyday_words import (
    A_LOT,
    BACK,
    CAREFUL,
    COME_IN,
    FUN,
    FUTURE,
    GENITIVES,
    GO_BY,
    GOING,
    GOOD,
    HAD_TO,
    HELP,
    LATE,
    LATE_OR_EARLY,
    LEAVE,
    LIKE_TO,
    LISTEN,
    LOVE,
    LUCK,
    MANY,
    MEET_UP,
    MOTIONS,
    MUCH_DONE,
    MUSIC,
    MUST,
    MUST_NOT,
    NAME,
    OF_CITIES,
    OF_NAMES,
    ON_TIME,
    OURSELVES,
    READY,
    SHINE,
    STATIVE,
    STRONGLY,
    SUN,
    THEMSELVES,
    TIME,
    TIMES,
    TOO,
    VERBS,
    WANTED,
    WARM,
    WEATHER,
)
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    FREQUENCIES,
    HAVE,
    LIKE,
    LIVING,
    PEOPLE,
    PLACES,
    PORTABLE,
    RAIN,
    STATES,
    WANT,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    IT,
    QUANTITIES,
    SPEAKER,
    STRONG_ADJECTIVE,
    THE,
    THIS,
    UNDECLINED,
    WE,
    A,
    Clause,
    Determiner,
    Phrase,
    joined,
    noun_phrase,
)
from tools.demo_text.plain import WILL, given_to
from tools.demo_text.plain_clauses import (
    OWNERS,
    PRONOUNS,
    TRANSITIVE,
    TRANSPORT,
    draw_adjective,
    draw_object,
    draw_phrase,
    draw_spot,
)
from tools.demo_text.sentences import Sentence


class Both(NamedTuple):
    """A clause for English and for German, which differ in tense and mood."""

    english: Clause
    german: Clause

    def replace(self, **changes: Any) -> "Both":
        """Both clauses with the changes."""
        return Both(self.english._replace(**changes), self.german._replace(**changes))

    def statement(self) -> Sentence:
        """The clause in both languages."""
        return english.statement(self.english), german.statement(self.german)

    def question(self, ask: str = "", frage: str = "") -> Sentence:
        """The clause as a question in both languages, after a question word."""
        return (
            english.question(self.english, ask) + "?",
            german.question(self.german, frage) + "?",
        )


INDOORS = nouns_of("eatery sight public shop")


def spot_of(dice: Dice) -> Adverbial:
    """In or at a place: "at the museum" as well as "in the museum", im Museum."""
    if dice.chance(75):
        return draw_spot(dice)
    noun = dice.choose(INDOORS)
    phrase = noun_phrase(dice.choose((THE, THE, THE, THE, THIS, *OWNERS)), None, noun, False)
    return phrases.location(phrase, noun)._replace(english=f"at {phrase.english}")


def owned(dice: Dice, noun: Noun) -> Phrase:
    """Anna's old car; my father's house. / Annas altes Auto; das Haus meines Vaters."""
    plural = bool(noun.english_plural) and dice.chance(25)
    described = noun.kind != "event" and dice.chance(20)
    adjective = draw_adjective(dice, noun) if described else None
    if dice.chance(60):
        names = (*NAME_PHRASES, *NAME_PHRASES, *SOMEONE)
        name = dice.choose(tuple(n.english for n in names if n.english[-1] not in "sxz"))
        whose = Determiner(
            (f"{name}'s", f"{name}'s"), f"{name}s", UNDECLINED, STRONG_ADJECTIVE, definite=True
        )
        return noun_phrase(whose, adjective, noun, plural)
    owner, relative = dice.choose(OWNERS), dice.choose(nouns_of("family"))
    phrase = noun_phrase(THE, adjective, noun, plural)
    ending = "er" if relative.gender == "f" else "es"
    whose = f"{owner.german}{ending} {GENITIVES[relative.english]}"
    words = f"{owner.english[0]} {relative.english}'s {phrase.english.removeprefix('the ')}"
    nominative, accusative, dative = (f"{form} {whose}" for form in phrase.german)
    return phrase._replace(english=words, german=(nominative, accusative, dative))


def subject_of(dice: Dice, kinds: str = LIVING) -> Phrase:
    """A pronoun, a name, or a noun, most often with "the" or "my"; or two of them."""
    if kinds == LIVING and dice.chance(5):
        first, second = (_one(dice, kinds) for _ in range(2))
        if not {first, second} & set(PRONOUNS):
            return joined(first, SPEAKER if dice.chance(50) else second)
    return _one(dice, kinds)


def placed(phrase: Phrase, spot: Adverbial) -> Phrase:
    """The phrase with a place: "the lamp in the bedroom"."""
    nominative, accusative, dative = (f"{form} {spot.german}" for form in phrase.german)
    words = f"{phrase.english} {spot.english}"
    return phrase._replace(english=words, german=(nominative, accusative, dative))


def _one(dice: Dice, kinds: str) -> Phrase:
    roll = dice.choose(tuple(range(20)))
    if roll < 8 and kinds == LIVING:
        return dice.choose(PRONOUNS)
    if roll < 11 and kinds == LIVING:
        return dice.choose((*NAME_PHRASES, *NAME_PHRASES, *SOMEONE))
    noun = dice.choose(nouns_of(kinds))
    if dice.chance(12):
        return owned(dice, noun)
    determiners = (THE, THE, THE, THE, THE, A, THIS, *OWNERS, *QUANTITIES[:2], BARE)
    if dice.chance(5):
        phrase = draw_phrase(dice, noun, (THE,))
        return placed(phrase, draw_spot(dice))
    return draw_phrase(dice, noun, determiners)


def _adjective(dice: Dice, noun: Noun | None) -> Adjective:
    """An adjective for the noun; None stands for somebody."""
    if noun is None:
        states = (CAREFUL, READY, LATE, BACK, ON_TIME, *STATES)
        living = dice.choose(nouns_of("person child"))
        return dice.choose((*MOODS, *MOODS, *states, draw_adjective(dice, living)))
    if noun.kind == "transport" and dice.chance(40):
        return dice.choose((LATE, ON_TIME))
    if noun.kind == "substance" or (noun.kind == "food" and dice.chance(50)):
        return dice.choose((*GOOD, *WARM, *adjectives_for("food")))
    return draw_adjective(dice, noun) if dice.chance(85) else GOOD[0]


def quality(dice: Dice, noun: Noun | None) -> Adverbial:
    """An adjective, perhaps with a degree or a second one: "very old", "big and modern"."""
    word, other = _adjective(dice, noun), _adjective(dice, noun)
    if dice.chance(25) and word.graded:
        degree = dice.choose(TOO)
        return Adverbial(f"{degree.english} {word.english}", f"{degree.german} {word.german}")
    if dice.chance(25) and other.english != word.english:
        ours, theirs = dice.choose(((" and", " und"), (" and", " und"), (" but", ", aber")))
        if dice.chance(30):  # "cheap but very clean"
            degree = dice.choose((*TOO, Adverbial("not", "nicht"), Adverbial("not", "nicht")))
            ours, theirs = f" but {degree.english}", f", aber {degree.german}"
        return Adverbial(
            f"{word.english}{ours} {other.english}", f"{word.german}{theirs} {other.german}"
        )
    return Adverbial(word.english, word.german)


def in_city(dice: Dice) -> Adverbial:
    """In a city, which has one name in both languages."""
    return Adverbial(*2 * (f"in {dice.choose(CITIES)}",))


def being(dice: Dice, subject: Phrase | None) -> Clause:
    """The subject is tired, here, at home, in the garden, a doctor; without a tense."""
    roll = dice.choose(tuple(range(20)))
    if subject is None and roll < 8:
        return _thing_being(dice)
    if subject is None and roll < 10:
        if dice.chance(65):
            return _weather_being(dice)
        thing = subject_of(dice, f"{PORTABLE} food {TRANSPORT} vehicle")
        return Clause(thing, BE, "", place=dice.choose((draw_spot(dice), draw_situation(dice))))
    subject = subject or subject_of(dice)
    if roll < 15:
        return Clause(subject, BE, "", predicate=quality(dice, None))
    if roll < 17 or subject.person == 2 or not subject.human:
        place = dice.choose((*AT, spot_of(dice), spot_of(dice), spot_of(dice)))
        return Clause(subject, BE, "", place=in_city(dice) if dice.chance(20) else place)
    return Clause(subject, BE, "", predicate=_job(dice, subject))


def _thing_being(dice: Dice) -> Clause:
    """The lamp in the bedroom is broken. Good coffee is expensive. / Die Lampe im ..."""
    things = f"{PORTABLE} food device {TRANSPORT} vehicle furniture room {PLACES}"
    noun = dice.choose((*nouns_of(things), *DRINKS, *FOODS))
    if noun.kind == "substance" and dice.chance(30):
        adjective = dice.choose((*GOOD, *WARM, *adjectives_for("food")))
        thing = noun_phrase(ONES, adjective if dice.chance(60) else None, noun, False)
    else:
        plural = bool(noun.english_plural) and dice.chance(25)
        determiner = dice.choose((THE, THE, THE, THIS, *OWNERS))
        thing = noun_phrase(determiner, None, noun, plural)
        if dice.chance(12):
            thing = placed(thing, draw_spot(dice))
    return Clause(thing, BE, "", predicate=quality(dice, noun))


def _weather_being(dice: Dice) -> Clause:
    """It is very warm in Salzburg. / Es ist in Salzburg sehr warm."""
    word, degree = dice.choose(WEATHER), dice.choose((*TOO, *(Adverbial("", ""),) * 6))
    spot = dice.choose((AT[-1], draw_spot(dice), in_city(dice)))
    predicate = Adverbial(
        phrases.join_words(degree.english, word.english),
        phrases.join_words(degree.german, word.german),
    )
    return Clause(IT, BE, "", place=spot if dice.chance(25) else None, predicate=predicate)


def _job(dice: Dice, subject: Phrase) -> Adverbial:
    feminine = subject.gender == "f"
    jobs = tuple((ours, her if feminine else his) for ours, his, her in JOBS)
    ours, theirs = dice.choose((*jobs, *ROLES["f" if feminine else "m"]))
    if dice.chance(25):  # "she is a good doctor": eine gute Ärztin
        word = dice.choose((GOOD[0], *adjectives_for("person")))
        degree = dice.choose((*TOO[:1], *(Adverbial("", ""),) * 2))
        ein, ending = ("eine", "e") if feminine else ("ein", "er")
        ending = f"{word.stem or word.german}{ending}"
        ours = phrases.join_words(degree.english, word.english, ours)
        theirs = phrases.join_words(ein, degree.german, ending, theirs)
    return Adverbial(f"{'an' if ours[0] in 'aeiou' else 'a'} {ours}", theirs)


def thing_of(dice: Dice, verb: Verb, subject: Phrase, negated: bool) -> Phrase | None:
    """The object of the verb, sometimes two; or None."""
    thing = _thing_of(dice, verb, subject, negated)
    if thing is None or negated or thing.english == "it" or not dice.chance(7):
        return thing
    other = _thing_of(dice, verb, subject, negated)
    personal = tuple(phrase.english for phrase in PRONOUNS)
    if other is None or {thing.english, other.english} & {"it", *personal}:
        return thing
    return joined(thing, other)._replace(human=thing.human, definite=thing.definite)


def _thing_of(dice: Dice, verb: Verb, subject: Phrase, negated: bool) -> Phrase | None:
    base = verb.english.split()[0]
    if verb is LISTEN or (verb in (LIKE, *LOVE) and dice.chance(10)):
        return dice.choose(MUSIC if verb is LISTEN else MUSIC[:1])
    if dice.chance(30) and (verb is HAVE or base == "need"):
        noun = dice.choose((TIME, FUN, LUCK) if verb is HAVE else (HELP, TIME))
        return noun_phrase(NONES if negated else ONES, None, noun, False)
    if verb in OF_CITIES and dice.chance(10):
        city = dice.choose(CITIES)
        return Phrase(city, (city, city, city), gender="n", human=False)
    if verb in OF_NAMES and dice.chance(12):
        owner = noun_phrase(dice.choose(OWNERS), None, NAME, False)
        return dice.choose((owner, owner, owned(dice, NAME)))
    substances = {DRINK: DRINKS, SPEAK: LANGUAGES, LEARN: LANGUAGES}.get(verb)
    if base == "eat" and dice.chance(40):
        substances = FOODS
    elif verb in (HAVE, LIKE, WANT) or base in ("buy", "need"):
        substances = DRINKS + FOODS if dice.chance(25) else None
    if substances:
        language = substances is LANGUAGES
        determiners = (NONES,) if negated else (ONES,) if language else (ONES, ONES, ONES, THE)
        if not (language or negated) and dice.chance(12):
            return noun_phrase(dice.choose(MANY), None, dice.choose(substances), False)
        adjectives = GOOD[:1] if language else (*GOOD, *WARM, *adjectives_for("food"))
        adjective = dice.choose(adjectives) if dice.chance(45) else None
        return noun_phrase(dice.choose(determiners), adjective, dice.choose(substances), False)
    if verb not in TRANSITIVE and not verb.objects:
        return None
    if not negated and not verb.preposition and dice.chance(7):
        return owned(dice, dice.choose(nouns_of(verb.objects or f"{LIVING} {PORTABLE} vehicle")))
    return draw_object(dice, verb, subject, negated)


def doing(
    dice: Dice, subject: Phrase | None, *, negated: bool, verbs: tuple[Verb, ...] = VERBS
) -> Clause:
    """The subject does something, perhaps somewhere; without a tense."""
    subject = subject or subject_of(dice)
    verb = dice.choose(verbs)
    if dice.chance(15):
        verb = dice.choose(MOTIONS)
    clause = Clause(
        subject, verb, "", negated=negated, object=thing_of(dice, verb, subject, negated)
    )
    if subject.person == 2 and dice.chance(4):
        us = subject is WE or subject.english.endswith(" I")
        clause = Clause(subject, MEET_UP, "", negated=negated)
        clause = clause._replace(object=OURSELVES if us else THEMSELVES)
        return clause._replace(place=spot_of(dice) if dice.chance(60) else None)
    if verb.recipient:
        others = tuple(p for p in (*PRONOUNS, *NAME_PHRASES) if p is not subject)
        family = draw_phrase(dice, dice.choose(nouns_of(PEOPLE)), (THE, *OWNERS))
        clause = clause._replace(recipient=dice.choose((*others, family, family, family)))
    if verb is SPEAK and dice.chance(40) and not negated:
        well = dice.choose((Adverbial("well", "gut"), Adverbial("very well", "sehr gut")))
        return clause._replace(predicate=well)
    roll = dice.choose(tuple(range(20)))
    if (verb is LIKE or verb in LOVE) and not negated and roll < 4:
        return clause._replace(predicate=dice.choose(STRONGLY))
    if verb in MUCH_DONE and roll < 2:
        return clause._replace(predicate=dice.choose(A_LOT), object=None)
    if verb in MOTIONS:
        places = (*TO, draw_spot(dice, motion=True), draw_spot(dice, motion=True))
        return clause._replace(place=dice.choose(places) if roll < 17 else None)
    if verb is LIVE or roll < (4 if clause.object else 7):
        if (verb in STATIVE and verb is not LIVE) or verb in (COME_IN, *LEAVE):
            return clause
        return clause._replace(place=dice.choose((*AT, *(spot_of(dice) for _ in range(5)))))
    if roll < 9 and verb.social:
        return clause._replace(company=phrases.company(subject_of(dice)))
    if roll == 8 and clause.object and not verb.recipient and verb not in STATIVE:
        somebody = draw_phrase(dice, dice.choose(nouns_of("family child")), (THE, *OWNERS))
        words = somebody.german[ACCUSATIVE]
        return clause._replace(company=Adverbial(f"for {somebody.english}", f"für {words}"))
    return clause


def in_tense(dice: Dice, clause: Clause, *, tense: str = "") -> Both:
    """The clause in a tense or with a modal, perhaps with a time or a frequency."""
    be = clause.verb is BE
    simple = be or clause.verb.simple or clause.verb in STATIVE
    if not tense:
        tenses = ("now",) * 6 if simple else ("now", "now", "now", "habit", "habit", "habit")
        past = ("past",) * 3 if be else ("past", "past", "was", "perfect", "perfect")
        tense = dice.choose((*tenses, *past, "future", "future", "future"))
        if tense == "was" and simple:
            tense = "past"
        if (
            tense == "habit"
            and clause.verb.english.startswith("read ")
            and clause.subject.person != 1
        ):
            tense = "now"  # "they read" would be past as well
    time = _time(dice, "habit" if simple and tense == "now" and not be else tense, clause)
    often = None
    if (
        time is None
        and tense in ("now", "habit", "past")
        and not clause.negated
        and dice.chance(15)
    ):
        often = dice.choose(FREQUENCIES)
        tense = "habit" if tense == "now" and not be and not simple else tense
    clause = clause._replace(tense=tense, time=time, frequency=often)
    if tense == "future":
        return _modal(dice, clause)
    theirs = clause._replace(tense="past") if tense in ("was", "perfect") else clause
    return Both(given_to(dice, clause), theirs)


def _time(dice: Dice, tense: str, clause: Clause) -> Adverbial | None:
    if not dice.chance(30):
        return None
    wanted = "past" if tense == "was" else tense
    alone = clause.object is None and clause.verb is not BE
    times = TIMES + (LATE_OR_EARLY * 3 if alone and not clause.negated else ())
    fitting = tuple(time for time in times if wanted in time.tenses.split())
    time = dice.choose(fitting) if fitting else None
    return Adverbial(time.english, time.german) if time else None


def _modal(dice: Dice, clause: Clause) -> Both:
    """The clause with a modal, "going to", or "like to", which German says with "gern"."""
    modal = dice.choose((*FUTURE, WANTED, HAD_TO, LIKE_TO, GOING, GOING))
    if clause.negated and dice.chance(40):
        modal = MUST
    if (
        clause.subject in (IT, SUN)
        or clause.verb in STATIVE
        or (clause.verb is BE and modal in (LIKE_TO, WANTED, HAD_TO))
    ):
        modal = WILL
    if modal is GOING and clause.verb in verbs_of("work", "go"):  # "is going to work"
        modal = WILL
    if modal in (WANTED, HAD_TO, LIKE_TO):
        clause = clause._replace(time=None)
    clause = clause._replace(tense="modal")
    ours, theirs = given_to(dice, clause)._replace(modal=modal), clause._replace(modal=modal)
    if modal is GOING:
        ours, theirs = ours._replace(tense="going", modal=None), theirs._replace(modal=WILL)
    elif modal is MUST and clause.negated:
        theirs = theirs._replace(modal=MUST_NOT)
    elif modal is LIKE_TO:
        denies = clause.negated and not (clause.object and clause.object.negative)
        gladly = Adverbial("", "nicht gern" if denies else "gern")
        theirs = clause._replace(tense="habit", negated=False, frequency=gladly)
    return Both(ours, theirs)


def clause_of(
    dice: Dice, subject: Phrase | None = None, *, negated: bool | None = None, tense: str = ""
) -> Both:
    """Any clause: somebody or something is or does something."""
    if negated is None:
        negated = dice.chance(12)
    if subject is SUN or (subject is None and dice.chance(3)):
        return in_tense(dice, dice.choose(WEATHER_CLAUSES), tense=tense)
    if subject is None and dice.chance(4):
        clause = riding(dice, negated)
    elif dice.chance(40):
        clause = being(dice, subject)._replace(negated=negated)
        if negated and clause.predicate and clause.predicate.english.startswith(UNDENIED):
            clause = clause._replace(negated=False)  # others deny jobs: "kein Arzt"
    else:
        clause = doing(dice, subject, negated=negated)
    return in_tense(dice, clause, tense=tense)


def riding(dice: Dice, negated: bool) -> Clause:
    """The train goes to Frankfurt. / Der Zug fährt nach Frankfurt."""
    subject = subject_of(dice, TRANSPORT)
    verb = dice.choose((GO_BY, GO_BY, COME, *verbs_of("arrive"), LEAVE[3]))
    clause = Clause(subject, verb, "", negated=negated)
    city = dice.choose(CITIES)
    place = dice.choose((Adverbial(f"to {city}", f"nach {city}"), draw_spot(dice, motion=True)))
    return clause._replace(place=place) if verb is GO_BY else clause


UNDENIED = ("late", "back", "a ", "an ")
WEATHER_CLAUSES = (
    *(Clause(IT, RAIN, ""), Clause(IT, SNOW, ""), Clause(SUN, SHINE, "")),
    *(Clause(IT, RAIN, "", negated=True), Clause(SUN, SHINE, "")),
)
