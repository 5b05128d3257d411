"""More constructions of a beginner's course: "You look tired.", "How do I get to the station?"

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

import re

from tools.demo_text import english, german, phrases
from tools.demo_text import further_words as words
from tools.demo_text.draw import Dice, nouns_of
from tools.demo_text.everyday_basics import AT, DRINK, DRINKS, FOODS, JOBS, MOODS, ONES, verbs_of
from tools.demo_text.everyday_clauses import Both, clause_of, doing, in_city, in_tense
from tools.demo_text.everyday_words import DELIBERATE, DO, GET, GOOD, MEET_UP, WEATHER
from tools.demo_text.further_sentences import BEEN, say, somebody
from tools.demo_text.further_times import oclock
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DATIVE,
    HAVE,
    LIKE,
    LIVING,
    NOMINATIVE,
    PEOPLE,
    PLACES,
    PORTABLE,
    WANT,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    HE,
    SHE,
    SPEAKER,
    STRONG,
    STRONG_ADJECTIVE,
    THE,
    THEY,
    UNDECLINED,
    WE,
    WEAK_ADJECTIVE,
    YOU,
    A,
    Clause,
    Determiner,
    Phrase,
    noun_phrase,
    with_degree,
)
from tools.demo_text.plain_clauses import OWNERS, draw_adjective, draw_phrase, draw_spot
from tools.demo_text.sentences import Sentence


def cold(dice: Dice) -> Sentence:
    """I am cold. / Mir ist kalt."""
    subject, (ours, theirs) = somebody(dice), dice.choose((("cold", "kalt"), ("hot", "heiß")))
    degree = dice.choose((("", ""), ("", ""), ("very", "sehr"), ("too", "zu"), ("not", "nicht")))
    be, ist = (english.WERE, "war") if dice.chance(25) else (english.ARE, "ist")
    who = subject.german[2]
    if dice.chance(25) and degree[0] != "not":
        asked = phrases.join_words(be[subject.person], subject.english, degree[0], ours)
        return f"{asked}?", phrases.join_words(ist, who, degree[1], theirs) + "?"
    return (
        phrases.join_words(subject.english, be[subject.person], degree[0], ours),
        phrases.join_words(who, ist, degree[1], theirs),
    )


QUANTITIES = (
    *(Determiner((None, "a lot of"), "viel", STRONG, STRONG_ADJECTIVE),) * 2,
    Determiner((None, "lots of"), "viel", STRONG, STRONG_ADJECTIVE),
    *(Determiner((None, "some"), "einig", STRONG, STRONG_ADJECTIVE),) * 2,
    *(Determiner((None, "all the"), "all", STRONG, WEAK_ADJECTIVE),) * 2,
    Determiner(("another", None), "noch ein", phrases.POSSESSIVE, phrases.MIXED_ADJECTIVE),
)
MUCH = Determiner(("a lot of", None), "viel", UNDECLINED, STRONG_ADJECTIVE)


def quantity(dice: Dice) -> Sentence:
    """She has a lot of books. All the children are tired. / Sie hat viele Bücher. ..."""
    noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} food"))
    many = dice.choose(QUANTITIES)
    if many.english[1] is not None and not noun.english_plural:
        many = QUANTITIES[-1]
    thing = noun_phrase(many, None, noun, many.english[1] is not None)
    verb = dice.choose((HAVE, HAVE, *verbs_of("see", "buy", "need", "find"), LIKE))
    if dice.chance(20):
        food = dice.choose((*DRINKS, *FOODS, *words.MEAT, *words.JUICE, words.MONEY))
        thing = noun_phrase(MUCH, None, food, False)
    elif many.english[1] == "all the" and noun.kind in LIVING.split() and dice.chance(70):
        return say(dice, clause_of(dice, thing))
    return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=thing)))


LOOK = Verb("look looked looking", "aus|sehen sieht ausgesehen", simple=True)
TASTE = Verb("taste tasted tasting", "schmecken schmeckt geschmeckt", simple=True)
SMELL = Verb("smell smelled smelling", "riechen riecht gerochen", simple=True)


def seeming(dice: Dice) -> Sentence:
    """You look tired. The soup tastes good. / Du siehst müde aus. Die Suppe schmeckt gut."""
    degree = dice.choose(
        (*(Adverbial("", ""),) * 3, Adverbial("very", "sehr"), Adverbial("so", "so"))
    )
    if dice.chance(45):
        subject, verb = somebody(dice), LOOK
        word = dice.choose((*MOODS, *words.ADJECTIVES[6:20], *GOOD[:1]))
    else:
        food = dice.choose((*DRINKS, *FOODS, *words.MEAT, *nouns_of("food")))
        subject = noun_phrase(dice.choose((THE, THE, *OWNERS)), None, food, False)
        verb, word = dice.choose((TASTE, TASTE, SMELL)), dice.choose((GOOD[0], GOOD[0], GOOD[1]))
    predicate = with_degree(degree, word)
    tense = dice.choose(("habit", "habit", "past"))
    clause = Clause(subject, verb, tense, negated=dice.chance(10), predicate=predicate)
    return say(dice, Both(clause, clause))


def getting(dice: Dice) -> Sentence:
    """How do I get to the station? / Wie komme ich zum Bahnhof?"""
    noun = dice.choose(nouns_of(PLACES))
    to = phrases.direction(
        noun_phrase(dice.choose((THE, THE, THE, *OWNERS)), None, noun, False), noun
    )
    subject = dice.choose((SPEAKER, SPEAKER, WE))
    come = "komme" if subject is SPEAKER else "kommen"
    return (
        f"how do {subject.english} get {to.english}?",
        f"wie {come} {subject.german[NOMINATIVE]} {to.german}?",
    )


def into(dice: Dice) -> Sentence:
    """The teacher goes into the classroom. The cat jumps onto the bed. / Der Lehrer geht ..."""
    rooms = tuple(n for n in nouns_of(f"room home {PLACES}") if n.to == "in")
    noun = dice.choose(rooms)
    onto = dice.chance(35)
    if onto:
        noun = dice.choose(nouns_of("furniture"))
    goal = noun_phrase(dice.choose((THE, THE, THE, *OWNERS)), None, noun, False)
    ours, theirs = ("onto", "auf") if onto else ("into", "in")
    place = Adverbial(
        f"{ours} {goal.english}", phrases.prepositional(theirs, goal.german[ACCUSATIVE])
    )
    verb = words.JUMP if onto else dice.choose((*verbs_of("go", "run"), words.WALK, words.JUMP))
    clause = Clause(somebody(dice) if dice.chance(50) else _animal(dice), verb, "", place=place)
    return say(dice, in_tense(dice, clause))


def _animal(dice: Dice) -> Phrase:
    return draw_phrase(dice, dice.choose(nouns_of("animal child")), (THE, THE, *OWNERS))


def genitive(noun: Noun) -> str:
    """The genitive singular with its article: "des Hundes", "des Lehrers", "der Katze"."""
    if noun.gender == "f":
        return f"der {noun.german}"
    if noun.weak:
        return f"des {noun.weak}"
    syllables = len(re.findall(r"[aeiouäöüy]+", noun.german.lower()))
    long = syllables == 1 and noun.german not in ("Chef", "Huhn")
    return f"des {noun.german}{'es' if long or noun.german[-1] in 'sßxz' else 's'}"


def belonging(dice: Dice) -> Sentence:
    """The boy's ball is red. / Der Ball des Jungen ist rot."""
    owner = dice.choose(nouns_of("person child animal"))
    thing = dice.choose(nouns_of(f"{PORTABLE} food vehicle animal room family"))
    plural = bool(thing.english_plural) and dice.chance(20)
    of = noun_phrase(THE, None, thing, plural)
    ours = f"the {owner.english}'s {of.english.removeprefix('the ')}"
    forms = tuple(f"{form} {genitive(owner)}" for form in of.german)
    phrase = of._replace(english=ours, german=(forms[0], forms[1], forms[2]))
    if dice.chance(60):
        word = draw_adjective(dice, thing)
        predicate = Adverbial(word.english, word.german)
        clause = Clause(phrase, BE, "", negated=dice.chance(10), predicate=predicate)
        return say(dice, in_tense(dice, clause))
    verb = dice.choose((*verbs_of("see", "need", "find", "like", "love", "look"), LIKE))
    return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=phrase)))


def fun(dice: Dice) -> Sentence:
    """Dancing is fun. Swimming is healthy. / Tanzen macht Spaß. Schwimmen ist gesund."""
    bases = verbs_of(
        "sing", "dance", "cook", "work", "read", "draw", "run", "sleep", "play", "translate"
    )
    verb = dice.choose((*bases, words.TRAVEL, words.STUDY, words.SMOKE, words.FLY))
    ours = english.verb_forms(verb).progressive
    theirs = german.verb_forms(verb).infinitive.capitalize()
    degree = dice.choose((*(Adverbial("", ""),) * 3, Adverbial("very", "sehr")))
    word = dice.choose((*words.MATTER_ADJECTIVES[3:7], GOOD[0], GOOD[1]))
    tense = dice.choose(("now", "now", "now", "past"))
    be, ist, macht = ("was", "war", "hat") if tense == "past" else ("is", "ist", "macht")
    if dice.chance(50):
        spass = "Spaß gemacht" if tense == "past" else "Spaß"
        if dice.chance(15):
            return f"{be} {ours} fun?", f"{macht} {theirs} {spass}?"
        return f"{ours} {be} fun", f"{theirs} {macht} {spass}"
    return (
        phrases.join_words(ours, be, degree.english, word.english),
        phrases.join_words(theirs, ist, degree.german, word.german),
    )


def preferring(dice: Dice) -> Sentence:
    """I prefer tea to coffee. / Ich trinke lieber Tee als Kaffee."""
    subject = somebody(dice)
    verb, things = dice.choose(
        ((DRINK, (*DRINKS, *words.JUICE)), (verbs_of("eat")[0], (*FOODS, *words.MEAT)))
    )
    first, second = dice.choose(things), dice.choose(things)
    if first is second:
        second = things[0] if first is not things[0] else things[1]
    prefer = Verb("prefer preferred preferring", "", simple=True)
    ours = Clause(
        subject, prefer, "habit", predicate=Adverbial(f"{first.english} to {second.english}", "")
    )
    theirs = Clause(subject, verb, "habit")
    theirs = theirs._replace(predicate=Adverbial("", f"lieber {first.german} als {second.german}"))
    if dice.chance(30):
        ours = ours._replace(predicate=Adverbial(first.english, ""))
        theirs = theirs._replace(predicate=Adverbial("", f"lieber {first.german}"))
    return say(dice, Both(ours, theirs))


def homework(dice: Dice) -> Sentence:
    """She has already done her homework. / Sie hat ihre Hausaufgaben schon gemacht."""
    subject, ours, theirs = dice.choose(
        (
            *((SPEAKER, "my", "meine"), (YOU, "your", "deine"), (HE, "his", "seine")),
            *((SHE, "her", "ihre"), (WE, "our", "unsere"), (THEY, "their", "ihre")),
        )
    )
    thing = Phrase(f"{ours} homework", (f"{theirs} Hausaufgaben",) * 3, human=False)
    both = in_tense(dice, Clause(subject, DO, "", negated=dice.chance(20), object=thing))
    return say(dice, both, 20)


def no_longer(dice: Dice) -> Sentence:
    """My aunt does not work anymore. / Meine Tante arbeitet nicht mehr."""
    both = clause_of(dice, somebody(dice), negated=True, tense=dice.choose(("habit", "now")))
    both = both.replace(time=None, frequency=None)
    theirs = german.statement(both.german)
    if theirs.count(" nicht") != 1 or both.english.verb is BE:
        return both.statement()
    more, mehr = dice.choose(
        (("anymore", "nicht mehr"), ("any more", "nicht mehr"), ("yet", "noch nicht"))
    )
    return f"{english.statement(both.english)} {more}", theirs.replace("nicht", mehr)


def been(dice: Dice) -> Sentence:
    """My aunt has been sick for two weeks. / Meine Tante ist seit zwei Wochen krank."""
    subject, word = somebody(dice), dice.choose((*MOODS, *words.ADJECTIVES[14:20]))
    place = dice.choose((*AT, draw_spot(dice), in_city(dice)))
    ours = Clause(subject, BEEN, "perfect", predicate=Adverbial(word.english, ""))
    theirs = Clause(subject, BE, "past", predicate=Adverbial("", word.german))
    if dice.chance(40):
        ours, theirs = (c._replace(predicate=None, place=place) for c in (ours, theirs))
    if dice.chance(40):
        number, zahl = dice.choose(words.NUMBERS)
        unit, einheit = dice.choose(
            (("days", "Tagen"), ("weeks", "Wochen"), ("years", "Jahren"), ("hours", "Stunden"))
        )
        ours = ours._replace(time=Adverbial(f"for {number} {unit}", ""))
        theirs = theirs._replace(tense="now", time=Adverbial("", f"seit {zahl} {einheit}"))
    return english.statement(ours), german.statement(theirs)


def seasonal(dice: Dice) -> Sentence:
    """In winter it is very cold here. / Im Winter ist es hier sehr kalt."""
    month, monat = dice.choose(words.MONTHS)
    word = dice.choose(WEATHER[:3])
    degree = dice.choose(
        (*(Adverbial("", ""),) * 2, Adverbial("very", "sehr"), Adverbial("often", "oft"))
    )
    where, wo = dice.choose((("", ""), ("here", "hier"), ("outside", "draußen"), ("there", "dort")))
    ours = phrases.join_words("it is", degree.english, word.english, where)
    theirs = (wo, degree.german, word.german)
    if dice.chance(30) and degree.english != "often":
        return phrases.join_words("is it", degree.english, word.english, where) + "?", (
            phrases.join_words("ist es", *theirs) + "?"
        )
    if dice.chance(30):
        gets, wird = dice.choose((("dark", "dunkel"), ("cold", "kalt"), ("warm", "warm")))
        when, wann = dice.choose((("early", "früh"), ("late", "spät"), ("", "")))
        words_ = phrases.join_words("it gets", gets, when), phrases.join_words(wann, wird)
        return f"in {month} {words_[0]}", f"im {monat} wird es {words_[1]}"
    if dice.chance(50):
        return f"in {month} {ours}", phrases.join_words(f"im {monat} ist es", *theirs)
    return f"{ours} in {month}", phrases.join_words(f"es ist im {monat}", *theirs)


def daughters_job(dice: Dice) -> Sentence:
    """Her sister is a doctor. She wants to be a teacher. / Ihre Schwester ist Ärztin. ..."""
    ours, his, her = dice.choose((*JOBS, *JOBS, *words.JOBS))
    relative = dice.choose(nouns_of("family"))
    subject = noun_phrase(dice.choose(OWNERS), None, relative, False)
    subject = dice.choose((subject, subject, HE, SHE))
    title = her if subject.gender == "f" else his
    a = f"{'an' if ours[0] in 'aeiou' else 'a'} {ours}"
    if dice.chance(25):
        want = ("will", "will", "wollen", "willst")[subject.person]
        wants = "want" if subject.person != 1 else "wants"
        become = dice.choose(("be", "become"))
        return (
            f"{subject.english} {wants} to {become} {a}",
            f"{subject.german[0]} {want} {title} werden",
        )
    if dice.chance(20):
        ein = noun_phrase(
            phrases.NO, None, Noun("person", ours, "", subject.gender, title, ""), False
        )
        be = english.ARE[subject.person]
        return f"{subject.english} {be} not {a}", (
            f"{subject.german[0]} {german.SEIN[subject.person]} {ein.german[0]}"
        )
    clause = Clause(subject, BE, dice.choose(("now", "now", "past")), predicate=Adverbial(a, title))
    return say(dice, Both(clause, clause))


def each_other(dice: Dice) -> Sentence:
    """They know each other. We met in front of the library. / Sie kennen sich. ..."""
    subject = dice.choose((WE, THEY, THEY))
    us = "uns" if subject is WE else "sich"
    verb = dice.choose(
        (
            *verbs_of("see", "love", "help", "understand"),
            Verb("know knew knowing", "kennen kennt gekannt", simple=True),
            MEET_UP,
        )
    )
    ours = "" if verb.english.startswith("meet") else "each other"
    both = in_tense(dice, Clause(subject, verb, "", object=Phrase(ours, (us, us, us))))
    return say(dice, both)


def asked_nicely(dice: Dice) -> Sentence:
    """Do not forget to buy milk. / Vergiss nicht, Milch zu kaufen."""
    inner = doing(dice, YOU, negated=False, verbs=DELIBERATE)
    ours = english.infinitive(inner)
    theirs = german.infinitive(inner).removeprefix("um ")
    return f"do not forget {ours}", f"vergiss nicht, {theirs}"


def between(dice: Dice) -> Sentence:
    """The ball is between the trees. The lamp is above the table. / Der Ball ist zwischen ..."""
    thing = draw_phrase(dice, dice.choose(nouns_of(f"animal {PORTABLE}")), (THE, THE, *OWNERS))
    kinds = f"{PORTABLE} furniture vehicle home animal"
    other = noun_phrase(dice.choose((THE, THE, *OWNERS)), None, dice.choose(nouns_of(kinds)), False)
    ours, theirs = "above", "über"
    if dice.chance(60):
        ours, theirs = "between", "zwischen"
        many = tuple(noun for noun in nouns_of(kinds) if noun.english_plural)
        other = noun_phrase(dice.choose((THE, THE, *OWNERS)), None, dice.choose(many), True)
    place = Adverbial(
        f"{ours} {other.english}", phrases.prepositional(theirs, other.german[DATIVE])
    )
    verb = dice.choose((BE, BE, *words.POSTURES)) if thing.human else BE
    return say(dice, in_tense(dice, Clause(thing, verb, "", place=place)))


def without(dice: Dice) -> Sentence:
    """He comes without his wife. We go through the forest. / Er kommt ohne seine Frau. ..."""
    subject = somebody(dice)
    if dice.chance(50):
        noun = dice.choose(nouns_of(f"{PORTABLE} {PEOPLE} animal vehicle"))
        what = draw_phrase(dice, noun, (THE, *OWNERS, *OWNERS))
        if dice.chance(20):
            what = dice.choose(tuple(p for p in (SPEAKER, YOU, HE, SHE) if p is not subject))
        name = phrases.ENGLISH_OBJECT.get(what.english, what.english)
        company = Adverbial(f"without {name}", f"ohne {what.german[ACCUSATIVE]}")
        verbs = (*verbs_of("go", "work", "eat", "sleep", "sing", "play", "drive"), words.TRAVEL)
        clause = Clause(subject, dice.choose(verbs), "", company=company)
        return say(dice, in_tense(dice, clause))
    where = dice.choose(nouns_of(f"room home {PLACES}"))
    place = noun_phrase(dice.choose((THE, THE, THE, *OWNERS)), None, where, False)
    ours, theirs = dice.choose((("through", "durch"), ("through", "durch"), ("around", "um")))
    spot = Adverbial(f"{ours} {place.english}", f"{theirs} {place.german[ACCUSATIVE]}")
    verb = dice.choose((*verbs_of("go", "run", "drive"), words.WALK))
    return say(dice, in_tense(dice, Clause(subject, verb, "", place=spot)))


def from_somebody(dice: Dice) -> Sentence:
    """The letter is from my brother. / Der Brief ist von meinem Bruder."""
    thing = draw_phrase(dice, dice.choose(nouns_of(PORTABLE)), (THE, THE, *OWNERS))
    giver = somebody(dice)
    name = phrases.ENGLISH_OBJECT.get(giver.english, giver.english)
    source = Adverbial(f"from {name}", phrases.prepositional("von", giver.german[DATIVE]))
    if dice.chance(50):
        receiver = somebody(dice)
        if receiver is giver:
            receiver = WE if giver is not WE else THEY
        clause = Clause(receiver, GET, "", object=thing, company=source)
        return say(dice, in_tense(dice, clause, tense=dice.choose(("past", "past", "habit"))))
    clause = Clause(thing, BE, "now", negated=dice.chance(10), predicate=source)
    return say(dice, Both(clause, clause))


ONE = Determiner(("one", None), "ein", phrases.POSSESSIVE, phrases.MIXED_ADJECTIVE)


def one_and_two(dice: Dice) -> Sentence:
    """I have two brothers and one sister. / Ich habe zwei Brüder und eine Schwester."""
    first, second = _few(dice), _few(dice)
    thing = first
    if dice.chance(60) and first.english != second.english:
        thing = phrases.joined(first, second)._replace(human=False, definite=False)
    verb = dice.choose((HAVE, HAVE, HAVE, *verbs_of("see", "buy", "need")))
    return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=thing)))


def _few(dice: Dice) -> Phrase:
    things = tuple(n for n in nouns_of(f"{LIVING} {PORTABLE} food") if n.english_plural)
    number = dice.choose((*phrases.QUANTITIES[:3], ONE, ONE))
    return noun_phrase(number, None, dice.choose(things), number is not ONE)


def at_home(dice: Dice) -> Sentence:
    """I am staying home because I am sick. / Ich bleibe zu Hause, weil ich krank bin."""
    subject = somebody(dice)
    home = dice.choose((Adverbial("home", "zu Hause"), Adverbial("at home", "zu Hause")))
    verb = dice.choose((BE, words.STAY, words.STAY))
    clause = Clause(subject, verb, "", negated=dice.chance(10), place=home)
    both = in_tense(dice, clause)
    if dice.chance(40):
        inner = clause_of(dice, subject).replace(time=None)
        return (
            f"{english.statement(both.english)} because {english.statement(inner.english)}",
            f"{german.statement(both.german)}, {german.subordinate(inner.german, 'weil')}",
        )
    return say(dice, both)


def have_got(dice: Dice) -> Sentence:
    """Have you got a pen? / Hast du einen Stift?"""
    subject, thing = (
        somebody(dice),
        draw_phrase(dice, dice.choose(nouns_of(f"{PORTABLE} family")), (A, *OWNERS)),
    )
    clause = Clause(subject, HAVE, "now", object=thing)
    has = "has" if subject.person == 1 else "have"
    if dice.chance(50):
        return f"{has} {subject.english} got {thing.english}?", german.question(clause) + "?"
    return f"{subject.english} {has} got {thing.english}", german.statement(clause)


def either(dice: Dice) -> Sentence:
    """Does he drink tea or coffee? Is it big or small? / Trinkt er Tee oder Kaffee? ..."""
    if dice.chance(35):
        noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} vehicle home"))
        subject = draw_phrase(dice, noun, (THE, THE, *OWNERS))
        one, other = draw_adjective(dice, noun), draw_adjective(dice, noun)
        words_ = f"{one.english} or {other.english}", f"{one.german} oder {other.german}"
        clause = Clause(subject, BE, dice.choose(("now", "past")), predicate=Adverbial(*words_))
        if one.german == other.german:
            return either(dice)
        return say(dice, Both(clause, clause), 70)
    drinks = dice.chance(50)
    things = (*DRINKS, *words.JUICE) if drinks else (*FOODS, *words.MEAT)
    parts = [noun_phrase(ONES, None, dice.choose(things), False) for _ in range(2)]
    verb = dice.choose(
        (DRINK if drinks else verbs_of("eat")[0], LIKE, HAVE, WANT, *verbs_of("buy"))
    )
    if dice.chance(40):
        verb = dice.choose((HAVE, WANT, *verbs_of("see", "need", "buy")))
        nouns = nouns_of(f"{LIVING} {PORTABLE} vehicle")
        parts = [draw_phrase(dice, dice.choose(nouns), (A, A, THE, *OWNERS)) for _ in range(2)]
    first, second = parts
    if first.german == second.german:
        return either(dice)
    thing = phrases.joined(first, second)._replace(human=False, definite=first.definite)
    forms = tuple(form.replace(" und ", " oder ") for form in thing.german)
    thing = thing._replace(
        english=thing.english.replace(" and ", " or "), german=(forms[0], forms[1], forms[2])
    )
    subject = YOU if dice.chance(40) else somebody(dice)
    return say(dice, in_tense(dice, Clause(subject, verb, "", object=thing)), 60)


def for_breakfast(dice: Dice) -> Sentence:
    """I eat an egg for breakfast. / Ich esse ein Ei zum Frühstück."""
    ours, theirs = dice.choose(
        (
            *(("for breakfast", "zum Frühstück"), ("for lunch", "zum Mittagessen")),
            ("for dinner", "zum Abendessen"),
        )
    )
    if dice.chance(40):
        thing = noun_phrase(ONES, None, dice.choose((*DRINKS, *words.JUICE)), False)
        verb = DRINK
    else:
        food = dice.choose((*FOODS, *words.MEAT))
        thing, verb = noun_phrase(ONES, None, food, False), verbs_of("eat")[0]
        if dice.chance(50):
            thing = draw_phrase(
                dice, dice.choose(nouns_of("food")), (A, A, *phrases.QUANTITIES[:2])
            )
    clause = Clause(somebody(dice), verb, "", object=thing, company=Adverbial(ours, theirs))
    return say(dice, in_tense(dice, clause))


FUNCTION = Verb("work worked working", "funktionieren funktioniert funktioniert")
DEPART = Verb("leave left leaving", "ab|fahren fährt abgefahren", perfect="sein")
LEAVE = Verb("leave left leaving", "verlassen verlässt verlassen")
BARK = Verb("bark barked barking", "bellen bellt gebellt")


def functioning(dice: Dice) -> Sentence:
    """My phone does not work. The train leaves at six. / Mein Handy funktioniert nicht. ..."""
    roll = dice.choose(tuple(range(10)))
    if roll < 4:
        thing = draw_phrase(dice, dice.choose(nouns_of("device device vehicle")), (THE, *OWNERS))
        tense = dice.choose(("habit", "habit", "now", "past"))
        clause = Clause(thing, FUNCTION, tense, negated=dice.chance(55))
        return say(dice, Both(clause, clause))
    if roll < 6:
        on_land = tuple(n for n in nouns_of("transport") if n.english != "plane")
        subject = draw_phrase(dice, dice.choose(on_land), (THE, THE, *OWNERS))
        tense = dice.choose(("habit", "past", "future"))
        both = in_tense(dice, Clause(subject, DEPART, ""), tense=tense)
        return say(dice, both.replace(time=oclock(dice)) if dice.chance(60) else both)
    if roll < 9:
        place = draw_phrase(dice, dice.choose(nouns_of(f"room home {PLACES}")), (THE, THE, *OWNERS))
        return say(dice, in_tense(dice, Clause(somebody(dice), LEAVE, "", object=place)))
    dog = next(noun for noun in nouns_of("animal") if noun.english == "dog")
    subject = draw_phrase(dice, dog, (THE, THE, *OWNERS))
    return say(dice, in_tense(dice, Clause(subject, BARK, "", negated=dice.chance(12))))


FURTHER_CLAUSES = (
    *(*(quantity,) * 4, *(seeming,) * 4, getting, *(into,) * 2, *(belonging,) * 3, *(fun,) * 2),
    *(preferring, *(homework,) * 2, no_longer, *(been,) * 2, *(seasonal,) * 3),
    *(
        *(daughters_job,) * 6,
        cold,
        *(each_other,) * 2,
        asked_nicely,
        *(between,) * 2,
        *(without,) * 2,
        from_somebody,
    ),
    *(*(either,) * 3, *(for_breakfast,) * 2, *(functioning,) * 3),
    *(*(one_and_two,) * 2, *(at_home,) * 2, have_got, no_longer),
)
