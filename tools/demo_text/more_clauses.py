"""More everyday clauses: pronouns as objects, "every", "need to", cities, "for me".

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of
from tools.demo_text.everyday_basics import (
    AT,
    CITIES,
    COME,
    DRINKS,
    FOODS,
    JOBS,
    KNOW,
    LOOK_AT,
    ONES,
    SOMEONE,
    THAT,
    THAT_IS,
    draw_situation,
    verbs_of,
)
from tools.demo_text.everyday_clauses import (
    Both,
    clause_of,
    doing,
    in_tense,
    owned,
    placed,
    quality,
    spot_of,
    subject_of,
)
from tools.demo_text.everyday_words import (
    BIRTHDAY,
    BRING,
    COULD,
    DAYS,
    DELIBERATE,
    FUN,
    GO_BY,
    GOOD,
    LEAVE,
    LISTEN,
    LOVE,
    LUCK,
    MISS,
    MOTIONS,
    MUSIC,
    NAME,
    SAY,
    STATIVE,
    STRONGLY,
    TIME,
    TIMES,
    TOO,
    UNDERSTAND,
    WEATHER,
    WRITE_TO,
)
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DATIVE,
    FREQUENCIES,
    HAVE,
    LIKE,
    LIVING,
    MODALS,
    NOMINATIVE,
    PLACES,
    PORTABLE,
    RAIN,
    REPORTS,
    STATES,
    Adjective,
    Adverbial,
    Modal,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    NO,
    SHE,
    SPEAKER,
    STRONG,
    THE,
    THIS,
    WE,
    WEAK_ADJECTIVE,
    YOU,
    YOUR,
    A,
    Clause,
    Determiner,
    noun_phrase,
)
from tools.demo_text.plain import THIS_IS, as_question_or_statement, given_to
from tools.demo_text.plain_clauses import OWNERS, PRONOUNS, TRANSPORT, draw_adjective, draw_phrase
from tools.demo_text.sentences import Sentence

EVERY = Determiner(("every", None), "jed", STRONG, WEAK_ADJECTIVE)
LAST = (Adjective("last", "letzt", ""), Adjective("next", "nächst", ""))
HOPE = REPORTS[3][0]
ASK = Verb("ask asked asking", "fragen fragt gefragt")
CATCH = Verb("miss missed missing", "verpassen verpasst verpasst", TRANSPORT)
FUNCTION = Verb("work worked working", "funktionieren funktioniert funktioniert")
LOOK = Verb("look looked looking", "aus|sehen sieht ausgesehen")
SHUT = Verb("close closed closing", "zu|machen macht zugemacht")
NUMBERS = (("two", "zwei"), ("three", "drei"), ("four", "vier"))

PICK = Verb("pick picked picking", "ab|holen holt abgeholt")
BEG = Verb("ask asked asking", "bitten bittet gebeten")
COOK = Verb("cook cooked cooking", "kochen kocht gekocht")
PERSONAL = (
    *(PICK, PICK, MISS, UNDERSTAND, UNDERSTAND, LIKE, ASK, KNOW, *LOVE),
    *verbs_of("see", "call", "help", "visit", "invite", "meet", "thank", "find", "forget", "need"),
)
NEVER = next(often for often in FREQUENCIES if often.english == "never")
QUIET = Adjective("quiet", "ruhig", "")
TIDY = Verb("tidy tidied tidying", "auf|räumen räumt aufgeräumt")
NEED_TO = Modal("need", MODALS[1].german)
COULD_ONCE = Modal("could", ("konnte", "konnte", "konnten", "konntest"))


def every(dice: Dice) -> Sentence:
    """Every child likes bananas. / Jedes Kind mag Bananen."""
    noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} {PLACES} vehicle room"))
    subject = noun_phrase(EVERY, None, noun, False)
    if subject.human or noun.kind == "animal":
        return clause_of(dice, subject, negated=False).statement()
    if dice.chance(50):
        clause = Clause(subject, BE, "", predicate=quality(dice, noun))
        return in_tense(dice, clause).statement()
    verbs = verbs_of("see", "buy", "need", "find", "love", "read", "visit")
    clause = Clause(subject_of(dice), dice.choose((*verbs, KNOW)), "", object=subject)
    return in_tense(dice, clause).statement()


def last(dice: Dice) -> Sentence:
    """We missed the last bus. / Wir haben den letzten Bus verpasst."""
    noun = dice.choose((*nouns_of(TRANSPORT), *nouns_of("transport text food child")))
    word = dice.choose(LAST)
    thing = noun_phrase(THE, word if dice.chance(65) else None, noun, False)
    if noun.kind == "transport" and dice.chance(75):
        verb = dice.choose((CATCH, CATCH, CATCH, *verbs_of("see")))
        clause = Clause(subject_of(dice), verb, "", negated=dice.chance(12), object=thing)
    elif dice.chance(50):
        verb = dice.choose(verbs_of("see", "need", "find", "buy", "read", "eat"))
        clause = Clause(subject_of(dice), verb, "", object=thing)
    else:
        clause = Clause(thing, BE, "", predicate=quality(dice, noun))
    both = in_tense(dice, clause)
    return both.question() if dice.chance(20) else both.statement()


def give(dice: Dice) -> Sentence:
    """He gave her a red flower. Could you lend me your umbrella? / Er hat ihr eine rote ..."""
    subject = dice.choose((YOU, YOU, subject_of(dice), subject_of(dice)))
    verb = dice.choose((BRING, WRITE_TO, *verbs_of("give", "show", "send", "lend")))
    others = tuple(p for p in PRONOUNS if p is not subject)
    somebody = dice.choose((*others, *others, *NAME_PHRASES))
    noun = dice.choose(nouns_of(verb.objects))
    thing = draw_phrase(dice, noun, (A, A, A, THE, THE, *OWNERS))
    clause = Clause(subject, verb, "", negated=dice.chance(8), recipient=somebody, object=thing)
    if subject is YOU and dice.chance(50):
        modal = clause._replace(tense="modal", modal=COULD)
        both = Both(given_to(dice, modal), modal)
    else:
        both = in_tense(dice, clause)
    asked = subject is YOU or dice.chance(15)
    ours, theirs = both.question() if asked else both.statement()
    if asked and both.english.modal is COULD and dice.chance(40):
        return f"{ours[:-1]}, please?", f"{theirs[:-1]}, bitte?"
    return ours, theirs


def know(dice: Dice) -> Sentence:
    """Do you know this man? I know Laura's brother. / Kennst du diesen Mann? ..."""
    noun = dice.choose(nouns_of(f"{LIVING} {PLACES}"))
    thing = (
        draw_phrase(dice, noun, (THE, THAT, THAT, *OWNERS))
        if dice.chance(60)
        else owned(dice, noun)
    )
    if dice.chance(25):
        thing = dice.choose((*PRONOUNS, *SOMEONE))
    subject = dice.choose((YOU, YOU, SPEAKER, subject_of(dice)))
    subject = YOU if subject is thing else subject
    predicate = Adverbial("well", "gut") if dice.chance(20) else None
    clause = Clause(subject, KNOW, "", negated=dice.chance(15), object=thing, predicate=predicate)
    both = in_tense(dice, clause, tense=dice.choose(("now", "now", "now", "past")))
    both = both.replace(time=None)
    return both.question() if subject is YOU and dice.chance(80) else both.statement()


def looking(dice: Dice) -> Sentence:
    """Your shirt looks good. My camera does not work. / Dein Hemd sieht gut aus. ..."""
    negated = dice.chance(20)
    if dice.chance(50):
        noun = dice.choose(nouns_of("device vehicle"))
        subject = draw_phrase(dice, noun, (THE, THE, *OWNERS))
        clause = Clause(subject, FUNCTION, "", negated=negated or dice.chance(30))
        both = in_tense(dice, clause)
    else:
        noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} food clothes vehicle room"))
        living = noun.kind in LIVING.split()
        subject = draw_phrase(dice, noun, (THE, THE, *OWNERS))
        subject = dice.choose((subject, *PRONOUNS, YOU)) if living else subject
        word = (
            dice.choose((*STATES, GOOD[0]))
            if living
            else dice.choose((*GOOD, draw_adjective(dice, noun)))
        )
        degree = dice.choose((("", ""), ("", ""), ("very ", "sehr ")))
        predicate = Adverbial(degree[0] + word.english, degree[1] + word.german)
        clause = Clause(subject, LOOK, "", negated=negated, predicate=predicate)
        both = in_tense(dice, clause, tense=dice.choose(("habit", "habit", "past"))).replace(
            time=None
        )
    return both.question() if dice.chance(20) else both.statement()


def at_four(dice: Dice) -> Sentence:
    """The shop closes at four. / Der Laden macht um vier zu."""
    (ours, theirs), roll = dice.choose(NUMBERS), dice.choose(tuple(range(5)))
    both = in_tense(dice, doing(dice, None, negated=dice.chance(10)))
    if roll == 0:
        noun = dice.choose(nouns_of("shop public eatery sight"))
        subject, verb = noun_phrase(dice.choose((THE, THE, THIS)), None, noun, False), SHUT
        both = in_tense(dice, Clause(subject, verb, "", negated=dice.chance(10)))
    elif roll == 1:
        clause = Clause(subject_of(dice), BE, "", place=dice.choose((*AT, spot_of(dice))))
        both = in_tense(dice, clause)
    time = Adverbial(f"at {ours}", f"um {theirs}")
    if dice.chance(30):
        day, tag = dice.choose(DAYS)
        part, teil = dice.choose((("morning", "morgen"), ("evening", "abend")))
        time = Adverbial(f"on {day} {part}", f"am {tag}{teil}")
    both = both.replace(time=time)
    return both.question() if dice.chance(20) else both.statement()


def somewhere(dice: Dice) -> Sentence:
    """Yesterday it rained in London. She lost her umbrella in Paris. / Gestern hat es ..."""
    city, other = dice.choose(CITIES), dice.choose(CITIES)
    place = Adverbial(f"in {city}", f"in {city}")
    if city != other and dice.chance(12):
        place = Adverbial(f"in {city} and {other}", f"in {city} und {other}")
    if dice.chance(20):
        both = in_tense(dice, Clause(IT, RAIN, "", negated=dice.chance(10)))
    else:
        both = clause_of(dice)
    there = both.english.place
    if there is not None and both.english.verb is not BE:
        if there.english == "home" or there.english.startswith("to "):
            place = Adverbial(f"{there.english} {place.english}", f"{place.german} {there.german}")
        else:
            place = Adverbial(f"{there.english} {place.english}", f"{there.german} {place.german}")
    both = both.replace(place=place)
    fronted = both.english.time is not None and dice.chance(50)
    return english.statement(both.english, fronted), german.statement(both.german, fronted)


def with_somebody(dice: Dice) -> Sentence:
    """My aunt lives in Berlin with two cats. / Meine Tante wohnt mit zwei Katzen in Berlin."""
    both = in_tense(dice, doing(dice, None, negated=dice.chance(10)))
    someone = (
        subject_of(dice)
        if dice.chance(75)
        else draw_phrase(
            dice, dice.choose(nouns_of("animal thing container")), (THE, A, BARE, *OWNERS)
        )
    )
    if both.english.company is not None or not both.english.subject.human:
        return both.statement()
    both = both.replace(company=phrases.company(someone))
    return both.statement()


def pronouns(dice: Dice) -> Sentence:
    """I do not understand you. I will pick you up on Friday. / Ich verstehe dich nicht. ..."""
    subject = dice.choose((*PRONOUNS, *PRONOUNS, YOU, subject_of(dice)))
    thing = dice.choose(tuple(p for p in (YOU, YOU, YOU, *PRONOUNS) if p is not subject))
    verb = dice.choose(PERSONAL)
    negated = dice.chance(20)
    clause = Clause(subject, verb, "", negated=negated, object=thing)
    if verb is PICK:
        clause = clause._replace(predicate=Adverbial("up", ""))
    elif verb in (MISS, *LOVE, LIKE) and not negated and dice.chance(35):
        clause = clause._replace(predicate=dice.choose(STRONGLY))
    elif verb not in STATIVE and dice.chance(25):
        clause = clause._replace(place=dice.choose((*AT, spot_of(dice))))
    both = in_tense(dice, clause)
    if dice.chance(25):
        main = Clause(dice.choose(PRONOUNS), dice.choose((HOPE, REPORTS[1][0], SAY)), "habit")
        return (
            f"{english.statement(main)} {english.statement(both.english)}",
            f"{german.statement(main)}, {german.subordinate(both.german, 'dass')}",
        )
    if subject is YOU and dice.chance(60) or dice.chance(15):
        return both.question()
    return both.statement()


def to_a_person(dice: Dice) -> Sentence:
    """You should go to the doctor. I am going to Toronto. / Du solltest zum Arzt gehen. ..."""
    clause = Clause(subject_of(dice), dice.choose(MOTIONS), "", negated=dice.chance(12))
    if dice.chance(40):
        city = dice.choose(CITIES)
        clause = clause._replace(verb=GO_BY, place=Adverbial(f"to {city}", f"nach {city}"))
    else:
        person = draw_phrase(dice, dice.choose(nouns_of("person family")), (THE, THE, *OWNERS))
        words = phrases.prepositional("zu", person.german[DATIVE])
        clause = clause._replace(place=Adverbial(f"to {person.english}", words))
    both = in_tense(dice, clause)
    fronted = both.english.time is not None and dice.chance(40)
    if dice.chance(20):
        return both.question()
    return english.statement(both.english, fronted), german.statement(both.german, fronted)


def for_help(dice: Dice) -> Sentence:
    """The student asked the teacher for help. / Der Student hat den Lehrer um Hilfe gebeten."""
    what = dice.choose((*DRINKS, *FOODS))
    words = noun_phrase(ONES, None, what, False)
    ours, theirs = dice.choose((("for help", "um Hilfe"),) * 2 + (("", ""),))
    if not ours:
        ours, theirs = f"for {words.english}", f"um {words.german[ACCUSATIVE]}"
    somebody = dice.choose((*PRONOUNS, subject_of(dice)))
    subject = dice.choose(tuple(p for p in (*NAME_PHRASES[:4], HE, SHE, WE) if p is not somebody))
    clause = Clause(subject, BEG, "", negated=dice.chance(10), object=somebody)
    return in_tense(dice, clause._replace(predicate=Adverbial(ours, theirs))).statement()


def too_much_for(dice: Dice) -> Sentence:
    """That is too expensive for me. Thank you for the book. / Das ist zu teuer für mich. ..."""
    somebody = dice.choose((*PRONOUNS, YOU, subject_of(dice)))
    ours = phrases.ENGLISH_OBJECT.get(somebody.english, somebody.english)
    noun = dice.choose(nouns_of(f"{PORTABLE} food vehicle room"))
    if dice.chance(35):
        thing = draw_phrase(dice, noun, (THE, THE, *OWNERS))
        return f"thank you for {thing.english}", f"danke für {thing.german[ACCUSATIVE]}"
    word, degree = draw_adjective(dice, noun), dice.choose((*TOO, Adverbial("", "")))
    subject = dice.choose((THAT_IS, THIS_IS, IT, draw_phrase(dice, noun, (THE, *OWNERS))))
    predicate = Adverbial(
        phrases.join_words(degree.english, word.english, f"for {ours}"),
        phrases.join_words(degree.german, word.german, f"für {somebody.german[ACCUSATIVE]}"),
    )
    clause = Clause(subject, BE, "", negated=dice.chance(15), predicate=predicate)
    return in_tense(dice, clause, tense=dice.choose(("now", "now", "past"))).statement()


def whose_name(dice: Dice) -> Sentence:
    """What is your sister's name? / Wie heißt deine Schwester?"""
    noun = dice.choose(nouns_of(f"family {LIVING}"))
    somebody = noun_phrase(dice.choose((THE, *OWNERS, *OWNERS)), None, noun, False)
    is_ = dice.choose(("is", "is", "was"))
    heisst = "heißt" if is_ == "is" else "hieß"
    return f"what {is_} {somebody.english}'s name?", f"wie {heisst} {somebody.german[0]}?"


def in_the_past(dice: Dice) -> Sentence:
    """I could not sleep last night. I need to talk to you. / Ich konnte ... nicht schlafen. ..."""
    subject, negated = subject_of(dice), dice.chance(60)
    clause = doing(dice, subject, negated=negated, verbs=DELIBERATE)._replace(tense="modal")
    if dice.chance(40):
        need = clause._replace(modal=NEED_TO)
        return Both(given_to(dice, need), need).statement()
    fitting = tuple(time for time in TIMES if time.tenses == "past")
    time = dice.choose(fitting)
    time = Adverbial(time.english, time.german)
    clause = clause._replace(modal=COULD_ONCE, time=time)
    return Both(given_to(dice, clause), clause).statement()


def could_i(dice: Dice) -> Sentence:
    """Could I have the soup, please? / Könnte ich die Suppe haben, bitte?"""
    noun = dice.choose(nouns_of("food text clothes thing device"))
    thing = draw_phrase(dice, noun, (A, A, THE, THE, *OWNERS))
    if dice.chance(30):
        thing = noun_phrase(ONES, None, dice.choose((*DRINKS, *FOODS)), False)
    modal = dice.choose((COULD, COULD, MODALS[0]))
    verb = dice.choose((HAVE, HAVE, *verbs_of("see", "read", "buy")))
    subject = dice.choose((SPEAKER, SPEAKER, SPEAKER, WE))
    clause = Clause(subject, verb, "modal", modal, object=thing)
    ours, theirs = english.question(clause), german.question(clause)
    if dice.chance(60):
        return f"{ours}, please?", f"{theirs}, bitte?"
    return f"{ours}?", f"{theirs}?"


def often_then(dice: Dice) -> Sentence:
    """I never drink coffee in the evening. / Ich trinke am Abend nie Kaffee."""
    both = in_tense(dice, doing(dice, None, negated=False), tense="habit")
    times = tuple(time for time in TIMES if "habit" in time.tenses.split())
    time, often = dice.choose(times[-12:]), dice.choose(FREQUENCIES)
    if "every" in time.english:
        often = None
    both = both.replace(time=Adverbial(time.english, time.german), frequency=often)
    return both.statement()


def cooking(dice: Dice) -> Sentence:
    """My father is cooking soup in the kitchen. / Mein Vater kocht in der Küche Suppe."""
    noun = dice.choose((*FOODS, *nouns_of("food")))
    plural = bool(noun.english_plural)
    thing = noun_phrase(BARE if plural else ONES, None, noun, plural)
    if plural and dice.chance(60):
        thing = draw_phrase(dice, noun, (A, A, THE, *OWNERS))
    verb = dice.choose((COOK, COOK, *verbs_of("eat", "buy")))
    clause = Clause(subject_of(dice), verb, "", object=thing)
    place = dice.choose((*AT, spot_of(dice), spot_of(dice), spot_of(dice)))
    clause = clause._replace(place=place if dice.chance(60) else None)
    both = in_tense(dice, clause)
    return both.question() if dice.chance(15) else both.statement()


def behind_the_house(dice: Dice) -> Sentence:
    """The garage behind the house is open. / Die Garage hinter dem Haus ist ..."""
    noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} {PLACES} vehicle room"))
    head = draw_phrase(dice, noun, (THE, THE, THE, *OWNERS))
    spot = dice.choose((draw_situation(dice), spot_of(dice)))
    thing = placed(head, spot)
    if dice.chance(50):
        clause = Clause(thing, BE, "", negated=dice.chance(12), predicate=quality(dice, noun))
    elif noun.kind in LIVING.split():
        return clause_of(dice, thing).statement()
    else:
        verb = dice.choose((*verbs_of("see", "buy", "find", "need"), LOOK_AT))
        clause = Clause(subject_of(dice), verb, "", object=thing)
    both = in_tense(dice, clause)
    return both.question() if dice.chance(20) else both.statement()


def arriving(dice: Dice) -> Sentence:
    """Has the train arrived? The guests have not arrived. / Ist der Zug angekommen? ..."""
    noun = dice.choose(nouns_of(f"{TRANSPORT} person family"))
    subject = draw_phrase(dice, noun, (THE, THE, *OWNERS))
    subject = dice.choose((subject, subject, *PRONOUNS, YOU)) if noun.kind == "person" else subject
    verb = dice.choose((*verbs_of("arrive"), *verbs_of("arrive"), COME, *LEAVE[:1]))
    both = in_tense(dice, Clause(subject, verb, "", negated=dice.chance(30)))
    return both.question() if dice.chance(35) else both.statement()


def forgetting(dice: Dice) -> Sentence:
    """I never forget a birthday. / Ich vergesse nie einen Geburtstag."""
    noun = dice.choose((BIRTHDAY, BIRTHDAY, NAME))
    thing = noun_phrase(dice.choose((*OWNERS, *OWNERS, A, THIS)), None, noun, False)
    thing = owned(dice, noun) if dice.chance(20) else thing
    verb = dice.choose((*verbs_of("forget"), KNOW))
    both = in_tense(dice, Clause(subject_of(dice), verb, "", negated=dice.chance(15), object=thing))
    if verb is not KNOW and not both.english.negated and dice.chance(25):
        never = both.replace(tense="habit", time=None, modal=None, frequency=NEVER)
        return never.statement()
    return both.question() if dice.chance(20) else both.statement()


def no_time(dice: Dice) -> Sentence:
    """I have no time today. Do you have time? / Ich habe heute keine Zeit. Hast du Zeit?"""
    noun, subject = dice.choose((TIME, TIME, FUN, LUCK)), dice.choose((YOU, subject_of(dice)))
    negated = dice.chance(50)
    thing = noun_phrase(NO if negated else ONES, None, noun, False)
    clause = Clause(subject, HAVE, "", object=thing)
    both = in_tense(dice, clause)
    asked = not negated and (subject is YOU or dice.chance(20))
    return both.question() if asked else both.statement()


def her_job(dice: Dice) -> Sentence:
    """Is your aunt a doctor? She is my teacher. / Ist deine Tante Ärztin? Sie ist ..."""
    noun = dice.choose(nouns_of("family person"))
    subject = noun_phrase(dice.choose((*OWNERS, THE, THIS)), None, noun, False)
    subject = dice.choose((subject, subject, SHE, HE, *NAME_PHRASES))
    ours, his, her = dice.choose(JOBS)
    theirs = her if subject.gender == "f" else his
    if dice.chance(40):
        job = Noun("person", ours, "", "f" if subject.gender == "f" else "m", theirs, "")
        phrase = noun_phrase(dice.choose(OWNERS), None, job, False)
        predicate = Adverbial(phrase.english, phrase.german[NOMINATIVE])
    else:
        predicate = Adverbial(f"a {ours}", theirs)
    tense = dice.choose(("now", "now", "now", "past"))
    clause = Clause(subject, BE, tense, predicate=predicate)
    return as_question_or_statement(dice, clause)


def quiet(dice: Dice) -> Sentence:
    """It is always quiet in the library. / Es ist in der Bibliothek immer ruhig."""
    noun = dice.choose(nouns_of(f"room {PLACES}"))
    place = phrases.location(noun_phrase(dice.choose((THE, THE, *OWNERS)), None, noun, False), noun)
    word = dice.choose((QUIET, QUIET, *WEATHER[:3], *GOOD[:1]))
    predicate = Adverbial(word.english, word.german)
    clause = Clause(IT, BE, "", place=place, predicate=predicate)
    both = in_tense(dice, clause)
    return both.question() if dice.chance(15) else both.statement()


def tidy(dice: Dice) -> Sentence:
    """Tidy your bedroom! We listened to the radio. / Räum dein Schlafzimmer auf! ..."""
    noun = dice.choose(nouns_of("room"))
    room = noun_phrase(dice.choose((THE, YOUR, *OWNERS)), None, noun, False)
    clause = Clause(YOU, TIDY, "habit", object=room, negated=dice.chance(10))
    roll = dice.choose(tuple(range(4)))
    if roll < 2:
        now, jetzt = dice.choose((("", ""), ("", ""), (" now", " jetzt")))
        ours, theirs = english.imperative(clause), german.imperative(clause)
        return f"{ours}{now}", f"{theirs.removesuffix(' auf')}{jetzt} auf"
    somebody = subject_of(dice)
    if roll == 2:
        return in_tense(dice, clause._replace(subject=somebody, tense="")).statement()
    clause = Clause(somebody, LISTEN, "", negated=dice.chance(12), object=dice.choose(MUSIC))
    return in_tense(dice, clause).statement()


MORE_CLAUSES = (
    *(every, *(last,) * 2, *(give,) * 4, *(know,) * 3, *(looking,) * 3, *(at_four,) * 2),
    *(*(somewhere,) * 3, *(with_somebody,) * 2, *(pronouns,) * 6, *(to_a_person,) * 2, for_help),
    *(*(too_much_for,) * 2, whose_name, *(in_the_past,) * 2, could_i, *(often_then,) * 2),
    *(*(cooking,) * 2, *(behind_the_house,) * 2, every, *(arriving,) * 3, *(forgetting,) * 2),
    *(*(no_time,) * 2, *(her_job,) * 2, quiet, tidy, *(last,) * 2),
)
