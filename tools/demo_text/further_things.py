"""Sentences about things, matters and numbers: "I have a good idea.", "May I have some water?"

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english
from tools.demo_text import further_words as words
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of
from tools.demo_text.everyday_basics import (
    DRINK,
    DRINKS,
    FOODS,
    KNOW,
    LEARN,
    NONES,
    ONES,
    SPEAK,
    THAT_IS,
    draw_situation,
    existence,
    verbs_of,
)
from tools.demo_text.everyday_clauses import Both, clause_of, doing, in_tense
from tools.demo_text.everyday_words import DELIBERATE, GO_BY, UNDERSTAND
from tools.demo_text.further_sentences import DEFINITE, same, say, somebody
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DATIVE,
    HAVE,
    LIKE,
    LIVING,
    NOMINATIVE,
    PEOPLE,
    PORTABLE,
    WANT,
    Adverbial,
    Modal,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    KEIN,
    QUANTITIES,
    SHE,
    SPEAKER,
    STRONG,
    STRONG_ADJECTIVE,
    THE,
    THEY,
    THIS,
    UNDECLINED,
    WE,
    WEAK_ADJECTIVE,
    YOU,
    YOUR,
    A,
    Clause,
    Determiner,
    Phrase,
    noun_phrase,
    with_degree,
)
from tools.demo_text.plain import THIS_IS
from tools.demo_text.plain_clauses import OWNERS, draw_phrase, draw_spot
from tools.demo_text.sentences import Sentence

HURT = Verb("hurt hurt hurting", "weh|tun tut wehgetan", simple=True)

FEATURES = (
    *(("blue eyes", "blaue Augen"), ("brown eyes", "braune Augen"), ("green eyes", "grüne Augen")),
    *(("long hair", "lange Haare"), ("short hair", "kurze Haare"), ("brown hair", "braune Haare")),
    *(("black hair", "schwarze Haare"), ("long legs", "lange Beine"), ("big feet", "große Füße")),
    *(("a headache", "Kopfschmerzen"), ("a cold", "eine Erkältung"), ("big hands", "große Hände")),
)


def body(dice: Dice) -> Sentence:
    """My head hurts. A cat has four legs. She has blue eyes. / Mein Kopf tut weh. ..."""
    noun, roll = dice.choose(words.BODY), dice.choose(tuple(range(10)))
    if roll < 4:
        plural = bool(noun.english_plural) and dice.chance(35)
        part = noun_phrase(dice.choose(OWNERS), None, noun, plural)
        return say(dice, same(Clause(part, HURT, "habit", negated=dice.chance(10))))
    if roll < 6 and noun.english_plural:
        animal = draw_phrase(dice, dice.choose(nouns_of("animal child")), (A, THE, BARE, *OWNERS))
        things = noun_phrase(dice.choose((*QUANTITIES[:3], *FEW)), None, noun, True)
        return say(dice, same(Clause(animal, HAVE, "now", object=things)))
    if roll < 7 and noun.english_plural:
        wash = verbs_of("wash")[0]
        owner, subject, whom = dice.choose(
            (("my", SPEAKER, "mir"), ("your", YOU, "dir"), ("his", HE, "sich"), ("our", WE, "uns"))
        )
        thing = Phrase(f"{owner} hands", ("die Hände",) * 3, human=False)
        both = in_tense(dice, Clause(subject, wash, "", object=thing))
        theirs = both.german._replace(recipient=Phrase("", (whom, whom, whom)))
        return say(dice, both._replace(german=theirs))
    ours, theirs = dice.choose(FEATURES)
    has = Phrase(ours, (theirs, theirs, theirs), human=False, definite=False)
    tense = dice.choose(("now", "now", "past"))
    return say(dice, same(Clause(somebody(dice), HAVE, tense, object=has)))


FEW = tuple(
    Determiner((None, ours), theirs, UNDECLINED, STRONG_ADJECTIVE)
    for ours, theirs in (*words.NUMBERS, ("twenty", "zwanzig"), ("a few", "ein paar"))
)


def counted(dice: Dice) -> Sentence:
    """I have five cats. There are many people in the park. / Ich habe fünf Katzen. ..."""
    if dice.chance(35):
        people = noun_phrase(
            dice.choose((QUANTITIES[3], QUANTITIES[3], *FEW)), None, words.FOLK, True
        )
        if dice.chance(50):
            place = draw_spot(dice)
            return existence(people, place, past=dice.chance(25), asked=dice.chance(15))
        return say(dice, clause_of(dice, people))
    things = tuple(n for n in nouns_of(f"{LIVING} {PORTABLE} food furniture") if n.english_plural)
    thing = noun_phrase(dice.choose(FEW), None, dice.choose(things), True)
    if dice.chance(25):
        place = draw_spot(dice) if dice.chance(60) else draw_situation(dice)
        return existence(thing, place, past=dice.chance(20), asked=dice.chance(15))
    verb = dice.choose((HAVE, HAVE, *verbs_of("see", "buy", "need", "find")))
    return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=thing)))


def afraid(dice: Dice) -> Sentence:
    """The boy is afraid of spiders. She is married. / Der Junge hat Angst vor Spinnen. ..."""
    subject, roll = somebody(dice), dice.choose(tuple(range(3)))
    if roll == 0:
        noun = dice.choose(nouns_of("animal"))
        plural = bool(noun.english_plural) and dice.chance(60)
        what = noun_phrase(BARE if plural else THE, None, noun, plural)
        tense = dice.choose(("now", "now", "past"))
        ours = Clause(subject, BE, tense, predicate=Adverbial(f"afraid of {what.english}", ""))
        theirs = Clause(
            subject, HAVE, "now", predicate=Adverbial("", f"Angst vor {what.german[DATIVE]}")
        )
        if tense == "past":
            hatte = ("hatte", "hatte", "hatten", "hattest")[subject.person]
            words_ = f"{subject.german[0]} {hatte} Angst vor {what.german[DATIVE]}"
            return english.statement(ours), words_
        return say(dice, Both(ours, theirs))
    if roll == 1:
        to = draw_phrase(dice, dice.choose(nouns_of("person")), (A, A, *OWNERS))
        ours, theirs = dice.choose(
            (
                ("married", "verheiratet"),
                (f"married to {to.english}", f"mit {to.german[DATIVE]} verheiratet"),
            )
        )
    else:
        ours, theirs = dice.choose(
            (
                *(("on holiday", "im Urlaub"), ("on vacation", "im Urlaub"), ("alone", "allein")),
                *(("right", ""), ("wrong", ""), ("thirsty", "durstig"), ("well", "")),
            )
        )
        haben = {"right": "recht", "wrong": "unrecht"}.get(ours)
        if haben:
            theirs_ = Clause(subject, HAVE, "now", predicate=Adverbial("", haben))
            ours_ = Clause(subject, BE, "now", predicate=Adverbial(ours, ""))
            return say(dice, Both(ours_, theirs_))
        if not theirs:
            ours, theirs = "at home", "zu Hause"
    clause = Clause(subject, BE, "", predicate=Adverbial(ours, theirs), negated=dice.chance(12))
    return say(dice, in_tense(dice, clause))


THINGS = (
    "color/Farbe/f",
    "food/Essen/n",
    "book/Buch/n",
    "animal/Tier/n",
    "song/Lied/n",
    "movie/Film/m",
)


def favorite(dice: Dice) -> Sentence:
    """What is your favorite color? / Was ist deine Lieblingsfarbe?"""
    ours, theirs, gender = dice.choose(THINGS).split("/")
    word = dice.choose(("favorite", "favorite", "favourite"))
    if word == "favourite":
        ours = ours.replace("color", "colour")
    noun = Noun("matter", f"{word} {ours}", "", gender, f"Lieblings{theirs.lower()}", "")
    mine_ = noun_phrase(dice.choose(OWNERS), None, noun, False)
    if dice.chance(40):
        return same(Clause(mine_, BE, "now")).question("what", "was")
    color = dice.choose(("blue/blau", "red/rot", "green/grün", "yellow/gelb", "black/schwarz"))
    value = color.partition("/")[::2]
    if ours == "food":
        dish = dice.choose((*FOODS, *words.MEAT))
        value = dish.english, dish.german
    elif ours == "animal":
        animal = noun_phrase(THE, None, dice.choose(nouns_of("animal")), False)
        value = animal.english, animal.german[NOMINATIVE]
    elif "colo" not in ours:
        value = ours, theirs
        thing = noun_phrase(THIS, None, Noun("matter", ours, "", gender, theirs, ""), False)
        return f"{thing.english} is {mine_.english}", f"{thing.german[0]} ist {mine_.german[0]}"
    return f"{mine_.english} is {value[0]}", f"{mine_.german[0]} ist {value[1]}"


def matter(dice: Dice) -> Sentence:
    """I have a question. That is a good idea. / Ich habe eine Frage. Das ist eine gute Idee."""
    noun = dice.choose(words.MATTERS)
    adjective = dice.choose(words.MATTER_ADJECTIVES)
    roll = dice.choose(tuple(range(10)))
    if roll < 3:
        subject = noun_phrase(
            dice.choose(DEFINITE), None, noun, bool(noun.english_plural) and dice.chance(15)
        )
        degree = dice.choose(
            (*(Adverbial("", ""),) * 3, Adverbial("very", "sehr"), Adverbial("too", "zu"))
        )
        predicate = with_degree(degree, adjective)
        clause = Clause(subject, BE, "", negated=dice.chance(12), predicate=predicate)
        return say(dice, in_tense(dice, clause, tense=dice.choose(("now", "now", "past"))))
    negated = dice.chance(20)
    if roll < 5:
        a = noun_phrase(KEIN if negated else A, adjective if dice.chance(60) else None, noun, False)
        subject = dice.choose((THIS_IS, THAT_IS, THAT_IS, IT))
        tense = dice.choose(("now", "now", "now", "past"))
        ours = noun_phrase(A, adjective if adjective.english in a.english else None, noun, False)
        both = Both(
            Clause(subject, BE, tense, negated=negated, predicate=Adverbial(ours.english, "")),
            Clause(subject, BE, tense, predicate=Adverbial("", a.german[NOMINATIVE])),
        )
        return say(dice, both)
    adjective = adjective if dice.chance(30) else None
    plural = bool(noun.english_plural) and dice.chance(20)
    determiner = (
        dice.choose((BARE, THE, *FEW[:4], *OWNERS)) if plural else dice.choose((A, A, *DEFINITE))
    )
    if negated:
        determiner = dice.choose((KEIN, THE, THIS))
    thing = noun_phrase(determiner, adjective, noun, plural)
    subject, verb = (
        somebody(dice),
        dice.choose((HAVE, HAVE, KNOW, LIKE, *verbs_of("need", "forget"), WANT)),
    )
    if noun.english in ("question", "word", "sentence", "answer", "language") and dice.chance(50):
        verb = dice.choose((UNDERSTAND, UNDERSTAND, LEARN, *verbs_of("forget", "read")))
    if noun.english in ("movie", "film") and dice.chance(50):
        verb = Verb("watch watched watching", "sehen sieht gesehen")
    if noun.english in ("mistake",) and dice.chance(60):
        verb = words.MAKE
    if noun.english == "song" and dice.chance(60):
        verb = dice.choose(
            (*verbs_of("sing"), Verb("hear heard hearing", "hören hört gehört", simple=True))
        )
    clause = Clause(subject, verb, "", negated=negated, object=thing)
    return say(dice, in_tense(dice, clause), 20)


def asked(dice: Dice) -> Sentence:
    """She asked me a question. He answered the question. / Sie hat mir eine Frage gestellt. ..."""
    subject = dice.choose((HE, SHE, SPEAKER, WE, THEY, *NAME_PHRASES[:4]))
    to = dice.choose(tuple(p for p in (SPEAKER, HE, SHE, WE, THEY) if p is not subject))
    adjective = dice.choose((*(None,) * 4, *words.MATTER_ADJECTIVES[3:6]))
    question_ = noun_phrase(A, adjective, words.MATTERS[0], False)
    story = noun_phrase(
        dice.choose((A, A, THE, THIS)), adjective, dice.choose(nouns_of("text")), False
    )
    roll = dice.choose(tuple(range(3)))
    if roll == 0:
        verb = Verb("ask asked asking", "stellen stellt gestellt")
        clause = Clause(subject, verb, "", recipient=to, object=question_)
    elif roll == 1:
        verb = Verb("answer answered answering", "beantworten beantwortet beantwortet")
        clause = Clause(
            subject,
            verb,
            "",
            object=noun_phrase(dice.choose(DEFINITE), None, words.MATTERS[0], False),
        )
    else:
        clause = Clause(
            subject,
            dice.choose((words.TELL, *verbs_of("read", "give"))),
            "",
            recipient=to,
            object=story,
        )
        clause = clause._replace(
            verb=words.TELL if "story" in story.english else verbs_of("give")[0]
        )
    return say(dice, in_tense(dice, clause, tense=dice.choose(("past", "past", "habit", "future"))))


MAY = Modal("may", ("darf", "darf", "dürfen", "darfst"))


def may(dice: Dice) -> Sentence:
    """May I open the door? Can I have some water, please? / Darf ich die Tür aufmachen? ..."""
    if dice.chance(50):
        who = dice.choose((SPEAKER, SPEAKER, WE))
        modal, kann = dice.choose((("can", "kann"), ("could", "könnte"), ("may", "darf")))
        if who is WE:
            kann = {"kann": "können", "könnte": "könnten", "darf": "dürfen"}[kann]
        some = dice.choose((*DRINKS, *DRINKS, *FOODS, *words.MEAT, *words.JUICE))
        thing = Phrase(f"some {some.english}", ("", f"etwas {some.german}", ""))
        if dice.chance(40):
            noun = dice.choose(nouns_of("food thing text clothes"))
            thing = noun_phrase(dice.choose((A, THE, YOUR)), None, noun, False)
        please, bitte = dice.choose((("", ""), (", please", ", bitte")))
        return (
            f"{modal} {who.english} have {thing.english}{please}?",
            f"{kann} {who.german[0]} {thing.german[ACCUSATIVE]} haben{bitte}?",
        )
    clause = doing(dice, dice.choose((SPEAKER, SPEAKER, WE, YOU)), negated=False, verbs=DELIBERATE)
    both = same(clause._replace(tense="modal", modal=MAY))
    return both.statement() if clause.subject is YOU else both.question()


WHICH = Determiner(("which", "which"), "welch", STRONG, WEAK_ADJECTIVE, definite=True)


def which(dice: Dice) -> Sentence:
    """Which bus goes to the airport? Which book do you like? / Welcher Bus fährt ..."""
    if dice.chance(40):
        noun = dice.choose((*nouns_of("transport"), *nouns_of(PEOPLE)))
        subject = noun_phrase(WHICH, None, noun, False)
        if noun.kind == "transport":
            clause = Clause(subject, GO_BY, "habit", place=draw_spot(dice, motion=True))
            both = same(clause)
        else:
            both = clause_of(dice, subject, negated=False)
        ours, theirs = both.replace(time=None).statement()
        return f"{ours}?", f"{theirs}?"
    noun = dice.choose((*nouns_of(f"{PORTABLE} food animal vehicle"), *words.MATTERS))
    plural = bool(noun.english_plural) and dice.chance(20)
    thing = noun_phrase(WHICH, None, noun, plural)
    verb = dice.choose(
        (
            LIKE,
            WANT,
            *verbs_of("see", "buy", "need", "find"),
            *((LEARN, SPEAK) if noun.english == "language" else ()),
        )
    )
    both = in_tense(dice, Clause(somebody(dice), verb, "")).replace(time=None, frequency=None)
    return both.question(thing.english, thing.german[ACCUSATIVE])


def some(dice: Dice) -> Sentence:
    """He likes fish. We drank some juice. She speaks French. / Er mag Fisch. ..."""
    verb, nouns = dice.choose(
        (
            (verbs_of("eat")[0], words.MEAT),
            (
                dice.choose((LIKE, HAVE, WANT, *verbs_of("buy", "need", "love"))),
                (*words.MEAT, *words.JUICE),
            ),
            (DRINK, words.JUICE),
            (dice.choose((SPEAK, LEARN, UNDERSTAND)), words.TONGUES),
            (dice.choose((HAVE, *verbs_of("need", "find", "lose"), WANT)), (words.MONEY,)),
        )
    )
    noun, negated = dice.choose(nouns), dice.chance(20)
    determiner = (
        NONES
        if negated
        else dice.choose((ONES, ONES, ONES, THE) if nouns is not words.TONGUES else (ONES,))
    )
    if not negated and nouns is not words.TONGUES and dice.chance(15):
        determiner = SOME
    thing = noun_phrase(determiner, None, noun, False)
    return say(
        dice, in_tense(dice, Clause(somebody(dice), verb, "", negated=negated, object=thing)), 20
    )


SOME = Determiner(("some", None), "etwas", UNDECLINED, STRONG_ADJECTIVE)


def thing(dice: Dice) -> Sentence:
    """The apples are green. My shoes are new. / Die Äpfel sind grün. Meine Schuhe sind neu."""
    adjective = dice.choose(words.ADJECTIVES)
    kinds = adjective.kinds.split()
    noun = dice.choose(nouns_of(dice.choose(tuple(kinds))))
    subject = draw_phrase(dice, noun, (*DEFINITE, THE, THE))
    if noun.kind in PEOPLE.split() and dice.chance(50):
        subject = somebody(dice)
    if dice.chance(40):
        described = noun_phrase(dice.choose((A, A, THE, *OWNERS)), adjective, noun, False)
        verb = dice.choose((HAVE, *verbs_of("see", "buy", "need", "love"), LIKE, WANT))
        return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=described)))
    degree = dice.choose(
        (*(Adverbial("", ""),) * 4, Adverbial("very", "sehr"), Adverbial("too", "zu"))
    )
    degree = degree if adjective.graded else Adverbial("", "")
    predicate = with_degree(degree, adjective)
    clause = Clause(subject, BE, "", negated=dice.chance(12), predicate=predicate)
    return say(dice, in_tense(dice, clause), 20)


FURTHER_THINGS = (
    *(*(body,) * 3, *(counted,) * 4, *(afraid,) * 2, favorite, *(matter,) * 7, asked),
    *(*(may,) * 3, *(which,) * 2, *(some,) * 5, *(thing,) * 7),
)
