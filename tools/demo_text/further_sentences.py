"""Sentences with more constructions of a beginner's course: "Anna is taller than her brother."

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from tools.demo_text import english, german, phrases
from tools.demo_text import further_words as words
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of
from tools.demo_text.everyday_basics import (
    AT,
    COME,
    KNOW,
    LIVE,
    THAT_IS,
    TO,
    draw_situation,
    verbs_of,
)
from tools.demo_text.everyday_clauses import Both, clause_of, doing, in_tense, subject_of
from tools.demo_text.everyday_words import GO_BY, UNDERSTAND
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DATIVE,
    HAVE,
    LIKE,
    NOMINATIVE,
    PEOPLE,
    PLACES,
    PORTABLE,
    WANT,
    Adjective,
    Adverbial,
    Verb,
)
from tools.demo_text.phrases import (
    HE,
    IT,
    SHE,
    SPEAKER,
    THE,
    THEY,
    THIS,
    WE,
    YOU,
    A,
    Clause,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain import THIS_IS
from tools.demo_text.plain_clauses import OWNERS, PRONOUNS, draw_adjective, draw_phrase, draw_spot
from tools.demo_text.sentences import Sentence

DEFINITE = (THE, THE, THE, THIS, *OWNERS)


def say(dice: Dice, both: Both, asked: int = 15) -> Sentence:
    """Both clauses as a statement, sometimes as a question."""
    return both.question() if dice.chance(asked) else both.statement()


def same(clause: Clause) -> Both:
    """One clause for both languages."""
    return Both(clause, clause)


def somebody(dice: Dice) -> Phrase:
    """A person: most often a pronoun, sometimes parents or a name with a title."""
    roll = dice.choose(tuple(range(12)))
    if roll < 6:
        return dice.choose(PRONOUNS)
    if roll < 8:
        return dice.choose(NAME_PHRASES)
    if roll < 9:
        return noun_phrase(dice.choose(OWNERS), None, dice.choose(words.PLURALS), True)
    return draw_phrase(dice, dice.choose(nouns_of(PEOPLE)), DEFINITE)


def _compared(dice: Dice, kinds: str) -> Phrase:
    return draw_phrase(dice, dice.choose(nouns_of(kinds)), DEFINITE)


def comparing(dice: Dice) -> Sentence:
    """Anna is taller than her brother. / Anna ist größer als ihr Bruder."""
    ours, theirs, _, _, kinds = dice.choose(words.COMPARED)
    human = kinds == PEOPLE or ("person" in kinds and dice.chance(60))
    subject = somebody(dice) if human else _compared(dice, kinds)
    other = somebody(dice) if human else _compared(dice, kinds)
    if subject is other or other.english == subject.english:
        other = dice.choose(NAME_PHRASES[:4])
    degree = dice.choose((*(Adverbial("", ""),) * 5, Adverbial("much", "viel")))
    if dice.chance(20):  # as old as
        noun = dice.choose(nouns_of("person" if human else kinds))
        word = draw_adjective(dice, noun)
        degree, ours, theirs = Adverbial("as", "so"), f"{word.english} as", f"{word.german} wie"
    elif not human and dice.chance(20):  # than mine
        mine = ["meiner", "meine", "meins", "meine"][phrases.GENDERS.index(subject.gender)]
        dein = mine.replace("m", "d", 1)
        other = dice.choose(
            (Phrase("mine", (mine, mine, mine)), Phrase("yours", (dein, dein, dein)))
        )
        ours, theirs = f"{ours} than", f"{theirs} als"
    elif dice.chance(20):
        other = Phrase("", ("", "", ""))
    else:
        ours, theirs = f"{ours} than", f"{theirs} als"
    name = phrases.ENGLISH_OBJECT.get(other.english, other.english)
    predicate = Adverbial(
        phrases.join_words(degree.english, ours, name),
        phrases.join_words(degree.german, theirs, other.german[NOMINATIVE]),
    )
    tense, negated = dice.choose(("now", "now", "now", "past")), dice.chance(12)
    return say(dice, same(Clause(subject, BE, tense, negated=negated, predicate=predicate)))


def best(dice: Dice) -> Sentence:
    """This is the biggest house. I need a bigger bag. / Das ist das größte Haus. ..."""
    ours, theirs, top, most, kinds = dice.choose(words.COMPARED)
    noun = dice.choose(nouns_of(kinds))
    if dice.chance(40):
        thing = noun_phrase(A, Adjective(ours, theirs, kinds), noun, False)
        verb = dice.choose((HAVE, WANT, *verbs_of("need", "buy", "find", "see")))
        return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=thing)))
    best_ = noun_phrase(
        dice.choose((THE, THE, THE, *OWNERS)),
        Adjective(top, most, kinds, stem=most.removesuffix("e")),
        noun,
        bool(noun.english_plural) and dice.chance(10),
    )
    if dice.chance(20) and best_.person == 1:  # "this soup is the best"
        subject = noun_phrase(dice.choose((THE, THIS, *OWNERS)), None, noun, False)
        article = phrases.ARTICLE[0][phrases.GENDERS.index(noun.gender)]
        predicate = Adverbial(f"the {top}", f"{article} {most}")
        return say(dice, same(Clause(subject, BE, "now", predicate=predicate)))
    world = Adverbial("in the world", "der Welt") if dice.chance(15) else Adverbial("", "")
    predicate = Adverbial(
        phrases.join_words(best_.english, world.english),
        phrases.join_words(best_.german[NOMINATIVE], world.german),
    )
    subject = dice.choose((THIS_IS, THAT_IS, IT, THIS_IS))
    if noun.kind in PEOPLE.split():
        subject = dice.choose((HE, THIS_IS) if noun.gender == "m" else (SHE, THIS_IS))
    if best_.person == 2:
        subject = THEY
    return say(dice, same(Clause(subject, BE, "now", predicate=predicate)))


def origin(dice: Dice) -> Sentence:
    """Where are you from? I am from Germany. / Woher kommst du? Ich komme aus Deutschland."""
    subject = dice.choose((YOU, SPEAKER, somebody(dice)))
    theirs = Clause(subject, COME, "habit", negated=dice.chance(10))
    be = theirs._replace(verb=BE, tense="now") if dice.chance(65) else theirs
    if dice.chance(30):
        asked = Both(be._replace(negated=False), theirs._replace(negated=False))
        ours, german_ = asked.question("where", "woher")
        return f"{ours[:-1]} from?", german_
    where, wo = dice.choose(words.COUNTRIES)
    both = Both(
        be._replace(place=Adverbial(f"from {where}", "")),
        theirs._replace(place=Adverbial("", f"aus {wo}")),
    )
    return say(dice, both, 25)


BEEN = Verb("be been being", "")


def abroad(dice: Dice) -> Sentence:
    """We live in Germany. Have you ever been to Italy? / Wir wohnen in Deutschland. ..."""
    subject, (where, wo) = somebody(dice), dice.choose(words.COUNTRIES)
    roll = dice.choose(tuple(range(10)))
    if roll < 2:
        ever, denied = dice.choose((("ever", "schon einmal"), ("never", "noch nie")))
        ours = Clause(subject, BEEN, "perfect")
        ours = ours._replace(
            frequency=Adverbial(ever, ""), place=Adverbial(f"to {where}", f"in {wo}")
        )
        theirs = Clause(subject, BE, "past", frequency=Adverbial("", denied), place=ours.place)
        if ever == "never":
            return english.statement(ours), german.statement(theirs)
        auxiliary = "has" if subject.person == 1 else "have"
        return (
            f"{auxiliary} {subject.english} ever been to {where}?",
            german.question(theirs) + "?",
        )
    if roll < 5:
        verb = dice.choose((GO_BY, GO_BY, words.FLY, words.TRAVEL, *verbs_of("drive")))
        place = Adverbial(f"to {where}", f"nach {wo}")
    elif roll < 9:
        verb = dice.choose((LIVE, LIVE, BE, *verbs_of("work")))
        place = Adverbial(f"in {where}", f"in {wo}")
    else:
        thing = Phrase(where, (wo, wo, wo), gender="n", human=False)
        verb = dice.choose((*verbs_of("love", "visit"), LIKE))
        return say(dice, in_tense(dice, Clause(subject, verb, "", object=thing)))
    return say(dice, in_tense(dice, Clause(subject, verb, "", place=place)))


RIDE = Verb("ride rode riding", "fahren fährt gefahren", perfect="sein")


def playing(dice: Dice) -> Sentence:
    """He can play the guitar. We go swimming. / Er kann Gitarre spielen. Wir gehen schwimmen."""
    subject, negated = somebody(dice), dice.chance(12)
    if dice.chance(25):
        ours, theirs = dice.choose(
            (
                *(("swimming", "schwimmen"), ("shopping", "einkaufen"), ("dancing", "tanzen")),
                *(("for a walk", "spazieren"), ("for a walk", "spazieren")),
            )
        )
        verb, what = verbs_of("go")[0], Adverbial(ours, theirs)
    else:
        verb, what = verbs_of("play")[0], dice.choose(words.GAMES)
        if dice.chance(15):
            verb, what = RIDE, Adverbial("a bike", "Fahrrad")
    both = in_tense(dice, Clause(subject, verb, "", negated=negated, predicate=what))
    return say(dice, both.replace(frequency=None) if negated else both)


PARTS_OF_CROWD = (
    Phrase("nobody", ("niemand", "niemanden", "niemandem")),
    Phrase("no one", ("niemand", "niemanden", "niemandem")),
    Phrase("someone", ("jemand", "jemanden", "jemandem")),
    Phrase("everyone", ("jeder", "jeden", "jedem")),
    Phrase("everybody", ("jeder", "jeden", "jedem")),
)

SOMETHING = Phrase("something", ("etwas",) * 3, human=False, definite=False)

NOTHING = Phrase("nothing", ("nichts",) * 3, human=False, definite=False, negative=True)


def nobody(dice: Dice) -> Sentence:
    """Nobody knows the answer. I did not eat anything. / Niemand kennt die Antwort. ..."""
    if dice.chance(55):
        subject = dice.choose(PARTS_OF_CROWD)
        if dice.chance(25):
            matter = noun_phrase(THE, None, dice.choose(words.MATTERS[:3]), False)
            verb = dice.choose((KNOW, UNDERSTAND))
            return say(dice, same(Clause(subject, verb, "now", object=matter)))
        return say(dice, clause_of(dice, subject, negated=False))
    verb = dice.choose(
        (HAVE, WANT, *verbs_of("see", "buy", "eat", "need", "find", "read", "bring"))
    )
    subject, thing = somebody(dice), dice.choose((SOMETHING, NOTHING))
    both = in_tense(dice, Clause(subject, verb, "", object=thing)).replace(frequency=None)
    if thing is NOTHING and dice.chance(60):
        ours = both.english._replace(negated=True, object=thing._replace(english="anything"))
        both = both._replace(english=ours)
    return say(dice, both)


BELONG = Verb("belong belonged belonging to", "gehören gehört gehört", simple=True, case=DATIVE)

MINE = (
    *(("mine", SPEAKER), ("mine", SPEAKER), ("yours", YOU), ("his", HE), ("hers", SHE)),
    *(("ours", WE), ("theirs", THEY)),
)


def mine(dice: Dice) -> Sentence:
    """This book is mine. Whose bag is this? / Dieses Buch gehört mir. Wessen Tasche ist das?"""
    noun = dice.choose(nouns_of(f"animal {PORTABLE} furniture vehicle"))
    if dice.chance(30):
        plural = bool(noun.english_plural) and dice.chance(25)
        ours, theirs = (
            (noun.english_plural, noun.german_plural) if plural else (noun.english, noun.german)
        )
        be, ist, this = ("are", "sind", "these") if plural else ("is", "ist", "this")
        return f"whose {ours} {be} {this}?", f"wessen {theirs} {ist} das?"
    thing = draw_phrase(dice, noun, (THE, THIS, THIS))
    word, owner = dice.choose(MINE)
    negated = dice.chance(15)
    theirs = Clause(thing, BELONG, "habit", negated=negated, object=owner)
    if dice.chance(20):
        return say(dice, same(theirs))
    ours = Clause(thing, BE, "now", negated=negated, predicate=Adverbial(word, ""))
    return say(dice, Both(ours, theirs))


def riding(dice: Dice) -> Sentence:
    """We go to school by bus. I take the bus to work. / Wir fahren mit dem Bus zur Schule. ..."""
    subject, by = somebody(dice), dice.choose(words.BY)
    place = dice.choose((*TO[:4], draw_spot(dice, motion=True)))
    theirs = Clause(subject, GO_BY, "", company=Adverbial("", by.german), place=place)
    take = dice.chance(40) and by.english in ("by bus", "by train")
    both = in_tense(dice, theirs, tense=dice.choose(("habit", "habit", "now", "past", "future")))
    if take:
        vehicle = Phrase(f"the {by.english[3:]}", ("", "", ""))
        ours = both.english._replace(verb=words.TAKE, object=vehicle, company=None)
    else:
        ours = both.english._replace(
            company=None, place=Adverbial(f"{place.english} {by.english}", "")
        )
    return say(dice, both._replace(english=ours), 20)


def near(dice: Dice) -> Sentence:
    """The hotel is not far from the beach. / Das Hotel ist nicht weit vom Strand."""
    subject = draw_phrase(dice, dice.choose(nouns_of(f"home {PLACES}")), DEFINITE)
    to = noun_phrase(
        dice.choose((THE, THE, THE, *OWNERS)), None, dice.choose(nouns_of(PLACES)), False
    )
    away = phrases.prepositional("von", to.german[DATIVE])
    ours, theirs = dice.choose(
        (
            (f"far from {to.english}", f"weit von {away.removeprefix('von ')}"),
            (f"near {to.english}", f"in der Nähe {away}"),
            (f"near {to.english}", f"in der Nähe {away}"),
            ("far", "weit"),
            ("near here", "hier in der Nähe"),
        )
    )
    if ours.startswith("far from") and away.startswith("vom"):
        theirs = f"weit {away}"
    if ours == "near here" and dice.chance(60):
        noun = dice.choose(nouns_of(PLACES))
        thing = noun_phrase(A, None, noun, False)
        return (
            f"is there {thing.english} near here?",
            f"gibt es hier in der Nähe {thing.german[ACCUSATIVE]}?",
        )
    place = Adverbial(ours, theirs)
    if ours == "far":
        return say(
            dice, same(Clause(subject, BE, "now", negated=dice.chance(50), predicate=place)), 30
        )
    if ours.startswith("near") and dice.chance(40):
        verb = dice.choose((LIVE, LIVE, *verbs_of("work")))
        return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", place=place)))
    return say(dice, same(Clause(subject, BE, "now", negated=dice.chance(20), place=place)))


def seated(dice: Dice) -> Sentence:
    """The cat is sitting on the chair. / Die Katze sitzt auf dem Stuhl."""
    subject = subject_of(dice)
    verb = dice.choose((*words.POSTURES, *words.POSTURES, *verbs_of("sleep")))
    place = draw_situation(dice) if dice.chance(65) else dice.choose((*AT, draw_spot(dice)))
    clause = Clause(subject, verb, "", negated=dice.chance(8), place=place)
    return say(
        dice,
        in_tense(dice, clause, tense=dice.choose(("now", "now", "now", "past", "was", "habit"))),
    )


def putting(dice: Dice) -> Sentence:
    """Put the book on the table. The cat jumps on the bed. / Leg das Buch auf den Tisch. ..."""
    onto = draw_phrase(dice, dice.choose(nouns_of("furniture")), (THE, THE, THE, *OWNERS))
    ours, theirs = dice.choose(
        (("on", "auf"), ("on", "auf"), ("under", "unter"), ("next to", "neben"))
    )
    if dice.chance(20):
        onto = draw_phrase(dice, dice.choose(nouns_of("container")), (THE, THE, *OWNERS))
        ours, theirs = "in", "in"
    place = Adverbial(
        f"{ours} {onto.english}", phrases.prepositional(theirs, onto.german[ACCUSATIVE])
    )
    if ours == "on" and dice.chance(25):
        verb = words.JUMP
        return say(dice, in_tense(dice, Clause(subject_of(dice), verb, "", place=place)))
    thing = draw_phrase(dice, dice.choose(nouns_of(PORTABLE)), DEFINITE)
    clause = Clause(YOU, words.PUT, "habit", object=thing, place=place)
    if dice.chance(50):
        mark = dice.choose(("", "", "!"))
        return english.imperative(clause) + mark, german.imperative(clause) + mark
    return say(dice, in_tense(dice, clause._replace(tense="", subject=somebody(dice))))


TITLES = (
    *(("Mr", "Herr", "Herrn", "m"), ("Mrs", "Frau", "Frau", "f"), ("Mr.", "Herr", "Herrn", "m")),
    *(("Mrs.", "Frau", "Frau", "f"), ("Ms", "Frau", "Frau", "f")),
)

SURNAMES = ("Smith", "Brown", "Miller", "Schmidt", "Müller", "Weber", "Johnson", "Meyer", "Fischer")


def titled(dice: Dice) -> Sentence:
    """Mrs Smith is our teacher. Good morning, Mr Brown! / Frau Smith ist unsere Lehrerin. ..."""
    ours, theirs, weak, gender = dice.choose(TITLES)
    name = dice.choose(SURNAMES)
    if dice.chance(25):
        hello, hallo = dice.choose(
            (
                ("good morning", "guten Morgen"),
                ("good evening", "guten Abend"),
                ("thank you", "danke"),
                ("hello", "hallo"),
                ("goodbye", "auf Wiedersehen"),
            )
        )
        return f"{hello}, {ours} {name}", f"{hallo}, {theirs} {name}"
    phrase = Phrase(
        f"{ours} {name}", (f"{theirs} {name}", f"{weak} {name}", f"{weak} {name}"), gender=gender
    )
    if dice.chance(30):
        verb = dice.choose((KNOW, *verbs_of("see", "call", "visit", "help")))
        return say(dice, in_tense(dice, Clause(somebody(dice), verb, "", object=phrase)))
    return say(dice, clause_of(dice, phrase))


def relatives(dice: Dice) -> Sentence:
    """My parents live in Berlin. / Meine Eltern wohnen in Berlin."""
    parents = noun_phrase(dice.choose(OWNERS), None, dice.choose(words.PLURALS), True)
    if dice.chance(30):
        verb = dice.choose((KNOW, *verbs_of("see", "call", "visit", "help", "love")))
        subject = dice.choose(PRONOUNS)
        return say(dice, in_tense(dice, Clause(subject, verb, "", object=parents)))
    return say(dice, clause_of(dice, parents))


def simply(dice: Dice) -> Sentence:
    """The baby is crying. / Das Baby weint."""
    verb = dice.choose((*words.ALONE, *words.TRANSITIVE))
    subject = somebody(dice) if dice.chance(60) else subject_of(dice)
    return say(
        dice, in_tense(dice, doing(dice, subject, negated=dice.chance(12), verbs=(verb,))), 20
    )


def work(dice: Dice) -> Sentence:
    """He works as an engineer. She wants to be a pilot. / Er arbeitet als Ingenieur. ..."""
    ours, his, her = dice.choose(words.JOBS)
    subject = dice.choose((HE, SHE, SPEAKER, *NAME_PHRASES, HE, SHE))
    if dice.chance(30):
        relative = dice.choose(nouns_of("family"))
        subject = noun_phrase(dice.choose(OWNERS), None, relative, False)
    title = her if subject.gender == "f" else his
    a = f"{'an' if ours[0] in 'aeiou' else 'a'} {ours}"
    if dice.chance(50):
        return say(dice, in_tense(dice, Clause(subject, BE, "", predicate=Adverbial(a, title))))
    clause = Clause(
        subject, verbs_of("work")[0], "", predicate=Adverbial(f"as {a}", f"als {title}")
    )
    return say(dice, in_tense(dice, clause))


FURTHER_SENTENCES = (
    *(*(comparing,) * 4, *(best,) * 3, *(origin,) * 3, *(abroad,) * 4, *(playing,) * 4),
    *(*(nobody,) * 3, *(mine,) * 2, *(riding,) * 3, *(near,) * 2, *(seated,) * 4),
    *(*(putting,) * 2, titled, *(relatives,) * 2, *(simply,) * 8, work),
)
