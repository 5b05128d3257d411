"""Everyday words, and sentences about what is where, who knows whom, and names.

Each function draws one: (English, German), uncapitalised, as in `sentences`.
"""

from pathlib import Path

from tools.demo_text import english, german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of
from tools.demo_text.lexicon import (
    ACCUSATIVE,
    BE,
    DATIVE,
    FREQUENCIES,
    HAVE,
    LIKE,
    LIVING,
    NOMINATIVE,
    PEOPLE,
    PLACES,
    PORTABLE,
    REPORTS,
    STATES,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    NO,
    QUANTITIES,
    SHE,
    SPEAKER,
    STRONG,
    THE,
    THIS,
    WE,
    WEAK_ADJECTIVE,
    YOU,
    A,
    Clause,
    Determiner,
    Phrase,
    noun_phrase,
)
from tools.demo_text.plain import THIS_IS, as_question_or_statement, identified
from tools.demo_text.plain_clauses import (
    ANYTHING,
    INTRANSITIVE,
    OWNERS,
    PLAIN_VERBS,
    PRONOUNS,
    TRANSPORT,
    complete,
    draw_adjective,
    draw_deed,
    draw_object,
    draw_phrase,
    draw_somebody,
    draw_spot,
)
from tools.demo_text.sentences import Sentence

THAT = Determiner(("that", "those"), "dies", STRONG, WEAK_ADJECTIVE, definite=True)
THAT_IS = Phrase("that", ("das", "das", "das"), gender="n")
THOSE_ARE = Phrase("those", ("das", "das", "das"), person=2, gender="n")

KNOW = Verb("know knew knowing", "kennen kennt gekannt", f"{LIVING} {PLACES}", simple=True)
LOOK_AT = Verb("look looked looking at", "an|sehen sieht angesehen", ANYTHING)
CLEAN = Verb("clean cleaned cleaning", "putzen putzt geputzt", "room part vehicle furniture")
WRITE = Verb("write wrote writing", "schreiben schreibt geschrieben", "text")
COME = Verb("come came coming", "kommen kommt gekommen", perfect="sein")
SWIM = Verb("swim swam swimming", "schwimmen schwimmt geschwommen", perfect="sein")
DRINK = Verb("drink drank drinking", "trinken trinkt getrunken")
SPEAK = Verb("speak spoke speaking", "sprechen spricht gesprochen")
LEARN = Verb("learn learned learning", "lernen lernt gelernt")
SNOW = Verb("snow snowed snowing", "schneien schneit geschneit")
LIVE = Verb("live lived living", "wohnen wohnt gewohnt")
NEW_VERBS = (KNOW, KNOW, KNOW, LOOK_AT, CLEAN, WRITE, COME, COME, SWIM)


def verbs_of(*bases: str) -> tuple[Verb, ...]:
    """The verbs of the lexicon with these English infinitives."""
    return tuple(verb for verb in PLAIN_VERBS if verb.english.split()[0] in bases)


# Verbs whose forms a learner gets wrong: du siehst, hilf, vergiss, ich liebe.
IRREGULAR = verbs_of("see", "help", "forget", "love", "eat", "read", "give", "need", "find")
FORGET = verbs_of("forget")
WILLING = FORGET + verbs_of(
    "help", "forget", "eat", "read", "give", "bring", "wait", "open", "close"
)
MOTION = (*verbs_of("go", "drive", "run"), COME)


def said(dice: Dice, clause: Clause) -> Sentence:
    """A statement, a question or a command."""
    if clause.subject is YOU and not clause.verb.simple and dice.chance(40):
        return commanded(dice, clause._replace(tense="habit", modal=None))
    return as_question_or_statement(dice, clause)


def commanded(dice: Dice, clause: Clause) -> Sentence:
    """Please help us! / Bitte hilf uns!"""
    clause = clause._replace(time=None, frequency=None)
    mark = "!" if dice.chance(40) else ""
    ours, theirs = english.imperative(clause), german.imperative(clause)
    if dice.chance(20):
        ours, theirs = f"please {ours}", f"bitte {theirs}"
    return ours + mark, theirs + mark


def doing(dice: Dice, verbs: tuple[Verb, ...], object_: Phrase | None = None) -> Clause:
    """Somebody does something; verbs of the lexicon get their object by themselves."""
    subject = dice.choose((YOU, YOU, SPEAKER, None, None, None))
    clause = draw_deed(dice, verbs=verbs, subject=subject)
    if object_ is None and clause.verb.objects and clause.object is None:
        object_ = draw_object(dice, clause.verb, clause.subject, clause.negated)
    return clause._replace(object=object_) if object_ else clause


def verb(dice: Dice) -> Sentence:
    """Do you know her? Clean the kitchen! / Kennst du sie? Putz die Küche!"""
    return said(dice, doing(dice, NEW_VERBS))


def irregular(dice: Dice) -> Sentence:
    """Do you see the dog? Help us! / Siehst du den Hund? Hilf uns!"""
    if dice.chance(40):
        verb_ = dice.choose(WILLING)
        negated = dice.chance(60 if verb_ in FORGET else 30)
        return commanded(dice, complete(dice, Clause(YOU, verb_, "habit", negated=negated)))
    clause = doing(dice, IRREGULAR)
    if clause.subject is YOU and dice.chance(50):
        return english.question(clause) + "?", german.question(clause) + "?"
    return as_question_or_statement(dice, clause)


def that(dice: Dice) -> Sentence:
    """That is my car. That house is old. Who is that man? / Das ist mein Auto. ..."""
    noun = dice.choose(nouns_of(ANYTHING))
    kind = dice.choose(tuple(range(10)))
    if kind < 4:
        return identified(dice, dice.choose((THAT_IS, THAT_IS, THAT_IS, THOSE_ARE)), noun)
    if kind < 5:
        ask, frage = dice.choose((("who is", "wer ist"), ("what is", "was ist")))
        return f"{ask} that?", f"{frage} das?"
    person = kind < 6
    noun = dice.choose(nouns_of(PEOPLE)) if person else noun
    determiners = (THAT, THAT, THIS, THE) if person else (THAT,)
    phrase = draw_phrase(dice, noun, determiners)
    if person:
        ask, frage = ("who are", "wer sind") if phrase.person == 2 else ("who is", "wer ist")
        return f"{ask} {phrase.english}?", f"{frage} {phrase.german[NOMINATIVE]}?"
    if kind < 9:
        word = draw_adjective(dice, noun)
        predicate = Adverbial(word.english, word.german)
        clause = Clause(phrase, BE, "now", negated=dice.chance(12), predicate=predicate)
        return as_question_or_statement(dice, clause)
    return as_question_or_statement(dice, doing(dice, verbs_of("see", "buy", "need"), phrase))


def who_are_you(dice: Dice) -> Sentence:
    """Who are you? / Wer bist du?"""
    subject = dice.choose((*PRONOUNS, *NAME_PHRASES[:2]))
    clause = Clause(subject, BE, dice.choose(("now", "now", "past")))
    ask, frage = dice.choose((("who", "wer"), ("where", "wo")))
    return english.question(clause, ask) + "?", german.question(clause, frage) + "?"


DEFINITE = (THE, THE, THE, THE, THIS, THAT, *OWNERS)


def state(dice: Dice) -> Sentence:
    """Is the door open? / Ist die Tür offen?"""
    noun = dice.choose(nouns_of("part container shop eatery sight public"))
    word = dice.choose((Adverbial("open", "offen"), Adverbial("closed", "geschlossen")))
    subject = draw_phrase(dice, noun, DEFINITE)
    tense = dice.choose(("now", "now", "past"))
    clause = Clause(subject, BE, tense, negated=dice.chance(12), predicate=word)
    return as_question_or_statement(dice, clause)


SITUATIONS = (  # English, German, kinds of nouns
    ("on", "auf", "furniture"),
    ("on", "auf", "furniture"),
    ("under", "unter", "furniture vehicle"),
    ("behind", "hinter", "home part vehicle shop sight"),
    ("in front of", "vor", "home vehicle shop eatery sight public"),
    ("next to", "neben", "furniture home vehicle device animal"),
    ("in", "in", "container vehicle"),
    ("in", "in", "container vehicle"),
)
IN_THINGS = ("bag", "cup", "glass")


def draw_situation(dice: Dice) -> Adverbial:
    """On, under, behind or in a thing."""
    ours, theirs, kinds = dice.choose(SITUATIONS)
    nouns = nouns_of(kinds)
    if ours == "in":
        nouns += tuple(noun for noun in nouns_of("thing") if noun.english in IN_THINGS)
    noun = dice.choose(nouns)
    phrase = noun_phrase(dice.choose((THE, THE, THE, A, *OWNERS)), None, noun, False)
    words = phrases.prepositional(theirs, phrase.german[DATIVE])
    return Adverbial(f"{ours} {phrase.english}", words)


AT = (
    *(Adverbial("at home", "zu Hause"), Adverbial("at school", "in der Schule")),
    *(Adverbial("at work", "bei der Arbeit"), Adverbial("in bed", "im Bett")),
    *(Adverbial("here", "hier"), Adverbial("there", "dort"), Adverbial("outside", "draußen")),
)
TO = (
    *(Adverbial("home", "nach Hause"), Adverbial("home", "nach Hause")),
    *(Adverbial("to school", "zur Schule"), Adverbial("to work", "zur Arbeit")),
    Adverbial("to bed", "ins Bett"),
)


def where(dice: Dice) -> Sentence:
    """The book is on the table. Anna is at home. / Das Buch ist auf dem Tisch. ..."""
    tense, negated = dice.choose(("now", "now", "now", "past")), dice.chance(12)
    if dice.chance(35):
        subject, place = draw_somebody(dice), dice.choose(AT)
    else:
        kinds = dice.choose((LIVING, f"{PORTABLE} food device {TRANSPORT}"))
        subject, place = draw_somebody(dice, kinds), draw_situation(dice)
    clause = Clause(subject, BE, tense, negated=negated, place=place)
    return as_question_or_statement(dice, clause)


def home(dice: Dice) -> Sentence:
    """We go to school. Go home! / Wir gehen zur Schule. Geh nach Hause!"""
    subject = dice.choose((YOU, SPEAKER, None, None))
    clause = draw_deed(dice, verbs=MOTION, subject=subject)
    return said(dice, clause._replace(place=dice.choose(TO)))


def there_is(dice: Dice) -> Sentence:
    """There is a dog in the garden. / Es gibt einen Hund im Garten."""
    noun = dice.choose(nouns_of(f"{LIVING} {PORTABLE} food {TRANSPORT} device furniture"))
    phrase = draw_phrase(dice, noun, (A, A, A, A, BARE, BARE, NO, *QUANTITIES))
    place = draw_spot(dice) if dice.chance(60) else draw_situation(dice)
    return existence(phrase, place, past=dice.chance(20), asked=dice.chance(25))


def existence(phrase: Phrase, place: Adverbial, *, past: bool, asked: bool) -> Sentence:
    """Is there a dog in the garden? / Gibt es einen Hund im Garten?"""
    plural, gibt = phrase.person == 2, "gab" if past else "gibt"
    be = (("was", "were") if past else ("is", "are"))[plural]
    ours = f"{phrase.english} {place.english}"
    theirs = f"{phrase.german[ACCUSATIVE]} {place.german}"
    if " " not in place.german:  # "hier eine Katze", but "eine Katze im Garten"
        theirs = f"{place.german} {phrase.german[ACCUSATIVE]}"
    if asked:
        return f"{be} there {ours}?", f"{gibt} es {theirs}?"
    return f"there {be} {ours}", f"es {gibt} {theirs}"


def sometimes(dice: Dice) -> Sentence:
    """Sometimes she dreams. / Manchmal träumt sie."""
    clause = draw_deed(dice, negated=False)
    clause = clause._replace(tense="habit", modal=None, frequency=None, time=None)
    often = dice.choose((FREQUENCIES[2], FREQUENCIES[2], FREQUENCIES[0]))
    ours, theirs = english.statement(clause), clause._replace(time=often)
    return f"{often.english} {ours}", german.statement(theirs, fronted=True)


MOODS = (*STATES, Adjective("sad", "traurig", LIVING), Adjective("happy", "glücklich", LIVING))


def feeling(dice: Dice, subject: Phrase) -> Clause:
    """The subject is tired, clever or the like."""
    living = nouns_of("person child")
    word = dice.choose(MOODS) if dice.chance(50) else draw_adjective(dice, dice.choose(living))
    predicate = Adverbial(word.english, word.german)
    return Clause(subject, BE, "now", negated=dice.chance(15), predicate=predicate)


def opinion(dice: Dice) -> Sentence:
    """I think that she is clever. / Ich glaube, dass sie klug ist."""
    speaker = dice.choose((SPEAKER, SPEAKER, SPEAKER, HE, SHE, WE, *NAME_PHRASES[:4]))
    says, that_word, dass = dice.choose(REPORTS[:4])
    main = Clause(speaker, says, "habit", negated=says is not REPORTS[0][0] and dice.chance(15))
    subject = draw_somebody(dice)
    inner = feeling(dice, subject) if dice.chance(60) else draw_deed(dice, subject=subject)
    that_word = "" if dice.chance(30) and not main.negated else that_word
    ours = phrases.join_words(english.statement(main), that_word, english.statement(inner))
    return ours, f"{german.statement(main)}, {german.subordinate(inner, dass)}"


def because(dice: Dice) -> Sentence:
    """I sleep because I am tired. / Ich schlafe, weil ich müde bin."""
    subject = dice.choose((*PRONOUNS, SPEAKER, HE, SHE))
    main = draw_deed(dice, verbs=INTRANSITIVE if dice.chance(70) else (), subject=subject)
    inner = feeling(dice, subject)
    return (
        f"{english.statement(main)} because {english.statement(inner)}",
        f"{german.statement(main)}, {german.subordinate(inner, 'weil')}",
    )


def know_where(dice: Dice) -> Sentence:
    """Do you know where Anna is? / Weißt du, wo Anna ist?"""
    ask, frage = dice.choose((("where", "wo"), ("where", "wo"), ("who", "wer")))
    kinds = PEOPLE if ask == "who" else f"{LIVING} {PORTABLE} {TRANSPORT}"
    inner = Clause(draw_somebody(dice, kinds), BE, dice.choose(("now", "now", "past")))
    return known(dice, english.statement(inner), german.subordinate(inner, frage), ask)


def known(dice: Dice, inner: str, inner_german: str, ask: str) -> Sentence:
    """The clause after "do you know where" or the like; the German one has its question word."""
    ours, theirs, mark = dice.choose(
        (
            ("do you know", "weißt du", "?"),
            ("I do not know", "ich weiß nicht", ""),
            ("I know", "ich weiß", ""),
        )
    )
    return (
        f"{ours} {ask} {inner}{mark}",
        f"{theirs}, {inner_german}{mark}",
    )


def two_adjectives(dice: Dice) -> Sentence:
    """A small red bird is singing. / Ein kleiner roter Vogel singt."""
    noun = dice.choose(nouns_of(f"animal {PORTABLE} vehicle furniture home"))
    first, second = draw_adjective(dice, noun), draw_adjective(dice, noun)
    plural, determiner = dice.chance(25), dice.choose((THE, THE, THAT, *OWNERS))
    plural = plural and bool(noun.english_plural)
    if not plural and dice.chance(50):
        determiner = A
    phrase = described(determiner, (first, second), noun, plural)
    if noun.kind == "animal" and dice.chance(60):
        return as_question_or_statement(dice, draw_deed(dice, subject=phrase))
    if dice.chance(40):
        word = draw_adjective(dice, noun)
        predicate = Adverbial(word.english, word.german)
        return as_question_or_statement(dice, Clause(phrase, BE, "now", predicate=predicate))
    verbs = (*verbs_of("see", "buy", "need", "love", "find", "draw"), HAVE, LIKE)
    clause = draw_deed(dice, verbs=verbs, negated=False)
    return as_question_or_statement(dice, clause._replace(object=phrase))


def described(
    determiner: Determiner, adjectives: tuple[Adjective, Adjective], noun: Noun, plural: bool
) -> Phrase:
    """Determiner, two adjectives and noun, in agreement: "a small red bird"."""
    first, second = adjectives
    phrase = noun_phrase(determiner, first, noun, plural)
    if first is second:
        return phrase
    *start, end = phrase.english.split()
    stem, german_forms = second.stem or second.german, []
    for form in phrase.german:
        *rest, adjective, word = form.split()
        ending = adjective.removeprefix(first.stem or first.german)  # the same for both
        german_forms.append(" ".join([*rest, adjective, stem + ending, word]))
    nominative, accusative, dative = german_forms
    words = " ".join([*start, second.english, end])
    return phrase._replace(english=words, german=(nominative, accusative, dative))


JOBS = (  # English, German for a man and for a woman
    *(("teacher", "Lehrer", "Lehrerin"), ("doctor", "Arzt", "Ärztin")),
    ("student", "Student", "Studentin"),
)
ROLES = {
    "f": (("waitress", "Kellnerin"), ("actress", "Schauspielerin")),
    "m": (("waiter", "Kellner"),),
}


def job(dice: Dice) -> Sentence:
    """She is a teacher. My father is a teacher. / Sie ist Lehrerin. Mein Vater ist Lehrer."""
    gender, pronoun = dice.choose((("f", SHE), ("m", HE)))
    jobs = (*((ours, her if gender == "f" else his) for ours, his, her in JOBS), *ROLES[gender])
    ours, theirs = dice.choose(jobs)
    relatives = tuple(n for n in nouns_of("family") if n.gender == gender)
    names = tuple(name for name in (*NAME_PHRASES, *SOMEONE) if name.gender == gender)
    subject = dice.choose((pronoun, pronoun, dice.choose(names)))
    if dice.chance(45):
        subject = noun_phrase(dice.choose(OWNERS), None, dice.choose(relatives), False)
    article = "an" if ours[0] in "aeiou" else "a"
    clause = Clause(subject, BE, "now", predicate=Adverbial(f"{article} {ours}", theirs))
    return as_question_or_statement(dice, clause)


def _substance(ours: str, theirs: str, gender: str) -> Noun:
    return Noun("substance", ours, "", gender, theirs, "")


DRINKS = (
    *(_substance("coffee", "Kaffee", "m"), _substance("tea", "Tee", "m")),
    *(_substance("water", "Wasser", "n"), _substance("milk", "Milch", "f")),
)
FOODS = (
    *(_substance("bread", "Brot", "n"), _substance("soup", "Suppe", "f")),
    *(_substance("cheese", "Käse", "m"), _substance("pizza", "Pizza", "f")),
)
LANGUAGES = (_substance("English", "Englisch", "n"), _substance("German", "Deutsch", "n"))
ONES = Determiner(("", None), "", phrases.UNDECLINED, phrases.STRONG_ADJECTIVE)
NONES = Determiner(("", None), "kein", phrases.POSSESSIVE, phrases.MIXED_ADJECTIVE, negative=True)


def substance(dice: Dice) -> Sentence:
    """I drink coffee. She does not eat bread. / Ich trinke Kaffee. Sie isst kein Brot."""
    wishes = (HAVE, LIKE, LIKE, *verbs_of("buy", "need", "bring"))
    verbs, nouns = dice.choose(
        (
            ((DRINK,), DRINKS),
            ((DRINK,), DRINKS),
            (verbs_of("eat"), FOODS),
            (wishes, DRINKS + FOODS),
            ((SPEAK, LEARN), LANGUAGES),
        )
    )
    clause = doing(dice, verbs, IT)._replace(recipient=None)
    noun = dice.choose(nouns)
    determiner = dice.choose((ONES, ONES, THE)) if nouns is not LANGUAGES else ONES
    if clause.negated and determiner is ONES:
        determiner = NONES
    return said(dice, clause._replace(object=noun_phrase(determiner, None, noun, False)))


WOMEN = (
    *("Alice", "Amy", "Barbara", "Betty", "Carol", "Clara", "Diana", "Eva", "Fatima", "Grace"),
    *("Hannah", "Helen", "Ida", "Irina", "Jane", "Jenny", "Karen", "Kate", "Lena", "Linda"),
    *("Lisa", "Lucy", "Mary", "Mia", "Nina", "Olga", "Petra", "Rosa", "Ruth", "Sarah", "Susan"),
    *("Tina", "Vera", "Yuki", "Zoe"),
)
MEN = (
    *("Adam", "Ahmed", "Alex", "Ben", "Bob", "Carlos", "Chris", "Daniel", "Eric", "Frank"),
    *("George", "Hans", "Harry", "Ivan", "Jack", "James", "Jim", "John", "Karl", "Kevin", "Leo"),
    *("Lukas", "Mark", "Martin", "Mike", "Nick", "Oliver", "Otto", "Pablo", "Robert", "Sam"),
    *("Simon", "Stefan", "Tom", "Tim", "Victor", "Walter", "Yusuf"),
)
CITIES = (
    *("Amsterdam", "Berlin", "Boston", "Dresden", "Dublin", "Frankfurt", "Hamburg", "Istanbul"),
    *("Kiel", "Leipzig", "London", "Lyon", "Madrid", "Oslo", "Oxford", "Paris", "Salzburg"),
    *("Seattle", "Stuttgart", "Toronto"),
)
SOMEONE = (
    *(phrases.name_phrase(name, "f") for name in WOMEN),
    *(phrases.name_phrase(name, "m") for name in MEN),
)


def name(dice: Dice) -> Sentence:
    """My name is Tom. I live in Berlin. / Mein Name ist Tom. Ich wohne in Berlin."""
    somebody, city = dice.choose(SOMEONE), dice.choose(CITIES)
    kind = dice.choose(tuple(range(8)))
    if kind == 0:
        owner = dice.choose(OWNERS)
        rest = somebody.english
        return f"{owner.english[0]} name is {rest}", f"{owner.german} Name ist {rest}"
    if kind == 1:
        subject = dice.choose((THIS_IS, THAT_IS, SPEAKER, HE, SHE))
        clause = Clause(subject, BE, "now", predicate=Adverbial(*2 * (somebody.english,)))
        return as_question_or_statement(dice, clause)
    if kind == 2:
        place = Adverbial(f"in {city}", f"in {city}")
        verbs = (LIVE, LIVE, LIVE, *verbs_of("work", "sing"))
        return as_question_or_statement(dice, doing(dice, verbs)._replace(place=place))
    if kind == 3:
        place = Adverbial(f"to {city}", f"nach {city}")
        clause = draw_deed(dice, verbs=verbs_of("drive"))._replace(place=place)
        return as_question_or_statement(dice, clause)
    if kind == 4:
        place = Adverbial(f"in {city}", f"in {city}")
        clause = Clause(draw_somebody(dice), BE, "now", negated=dice.chance(10), place=place)
        return as_question_or_statement(dice, clause)
    if kind < 7:
        return as_question_or_statement(dice, draw_deed(dice, subject=somebody))
    verbs = (KNOW, *verbs_of("see", "love", "help", "call", "visit", "meet", "invite"))
    return said(dice, doing(dice, verbs, somebody))


_LINES = (Path(__file__).parent / "fixed_phrases.tsv").read_text(encoding="utf-8").splitlines()
FIXED: dict[str, str] = dict(line.split("\t") for line in _LINES)


def fixed(dice: Dice) -> Sentence:
    """How are you? / Wie geht es dir?"""
    ours, theirs = dice.choose(tuple(FIXED.items()))
    return (ours.rstrip("!"), theirs.rstrip("!")) if dice.chance(40) else (ours, theirs)
