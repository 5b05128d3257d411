"""The words that everyday clauses use beyond the lexicon: verbs, adjectives, times, modals."""

import dataclasses

from tools.demo_text import further_words
from tools.demo_text.everyday_basics import (
    CLEAN,
    COME,
    DRINK,
    KNOW,
    LEARN,
    LIVE,
    LOOK_AT,
    MOTION,
    SPEAK,
    SWIM,
    WRITE,
    verbs_of,
)
from tools.demo_text.lexicon import (
    DEGREES,
    HAVE,
    LIKE,
    MODALS,
    PEOPLE,
    PORTABLE,
    WANT,
    Adjective,
    Adverbial,
    Modal,
    Noun,
    Time,
    Verb,
)
from tools.demo_text.phrases import (
    STRONG_ADJECTIVE,
    UNDECLINED,
    Determiner,
    Phrase,
)
from tools.demo_text.plain import WILL
from tools.demo_text.plain_clauses import (
    INTRANSITIVE,
    TRANSITIVE,
)

SAY = Verb("say said saying", "sagen sagt gesagt")
DO = Verb("do did doing", "machen macht gemacht")
UNDERSTAND = Verb(
    "understand understood understanding", "verstehen versteht verstanden", simple=True
)
UNDERSTAND_IT = dataclasses.replace(UNDERSTAND, objects=f"{PEOPLE} text")
GET = Verb("get got getting", "bekommen bekommt bekommen", "text container", simple=True)
LEAVE = tuple(
    Verb(f"{ours} away", f"weg|{theirs}", perfect="sein")
    for ours, theirs in (
        ("go went going", "gehen geht weggegangen"),
        ("run ran running", "laufen läuft weggelaufen"),
        ("swim swam swimming", "schwimmen schwimmt weggeschwommen"),
        ("drive drove driving", "fahren fährt weggefahren"),
    )
)
COME_IN = Verb("come came coming in", "herein|kommen kommt hereingekommen", perfect="sein")
SHINE = Verb("shine shone shining", "scheinen scheint geschienen")
SUN = Phrase("the sun", ("die Sonne", "die Sonne", "der Sonne"), gender="f", human=False)
LISTEN = Verb("listen listened listening to", "hören hört gehört")
MUSIC = (
    *(Phrase("music", ("Musik", "Musik", "Musik"), definite=False, human=False),) * 2,
    Phrase("the radio", ("Radio", "Radio", "Radio"), definite=False, human=False),
)
MISS = Verb("miss missed missing", "vermissen vermisst vermisst", PEOPLE)
STOP = Verb("stop stopped stopping", "auf|hören hört aufgehört")
BRING = Verb(
    "bring brought bringing", "bringen bringt gebracht", f"food {PORTABLE}", recipient=True
)
LOVE = verbs_of("love")
MUCH_DONE = (*verbs_of("eat", "work", "read"), DRINK)
OF_CITIES = (KNOW, LIKE, *LOVE, *verbs_of("visit", "see"))
OF_NAMES = (KNOW, *verbs_of("forget"), UNDERSTAND_IT)
WRITE_TO = dataclasses.replace(WRITE, recipient=True)
GO_BY = Verb("go went going", "fahren fährt gefahren", perfect="sein")
MEET_UP = Verb("meet met meeting", "treffen trifft getroffen")
OURSELVES = Phrase("", ("uns", "uns", "uns"))
THEMSELVES = Phrase("", ("sich", "sich", "sich"))
TRY = Verb("try tried trying", "versuchen versucht versucht")

MOTIONS = (*MOTION, COME)
VERBS = (
    *(*INTRANSITIVE, *TRANSITIVE, *TRANSITIVE, LOOK_AT, SWIM, COME_IN, UNDERSTAND),
    *(*(MISS,) * 4, STOP, *(WRITE_TO,) * 2, *(BRING,) * 3, *(GET,) * 3, *(LISTEN,) * 3),
    *(*LEAVE, *LEAVE, COME, COME, UNDERSTAND_IT, CLEAN, CLEAN, CLEAN, HAVE, HAVE, LIKE, LIKE, WANT),
    *(*(KNOW,) * 4, *(WRITE,) * 5, *(DRINK,) * 5, *(SPEAK,) * 5, *(LEARN,) * 4, *(LIVE,) * 4),
    *(*further_words.ALONE, *further_words.TRANSITIVE),
)
DELIBERATE = tuple(verb for verb in VERBS if not verb.simple and verb not in (LIKE, HAVE, WANT))
STATIVE = (KNOW, UNDERSTAND, UNDERSTAND_IT, HAVE, LIKE, WANT, *verbs_of("need"))

TIME = Noun("substance", "time", "", "f", "Zeit", "")
FUN = Noun("substance", "fun", "", "m", "Spaß", "")
LUCK = Noun("substance", "luck", "", "n", "Glück", "")
HELP = Noun("substance", "help", "", "f", "Hilfe", "")
ANY = Determiner(("any", "any"), "", UNDECLINED, STRONG_ADJECTIVE)
BIRTHDAY = Noun("event", "birthday", "birthdays", "m", "Geburtstag", "Geburtstage")
NAME = Noun("event", "name", "names", "m", "Name", "Namen", weak="Namen")
MANY = tuple(
    Determiner((ours, None), theirs, UNDECLINED, STRONG_ADJECTIVE)
    for ours, theirs in (("too much", "zu viel"), ("so much", "so viel"))
)
STRONGLY = (Adverbial("very much", "sehr"), Adverbial("so much", "so sehr"))
A_LOT = (Adverbial("so much", "so viel"), Adverbial("too much", "zu viel"))

GOOD = (Adjective("good", "gut", ""), Adjective("bad", "schlecht", ""))
WARM = (
    *(Adjective("warm", "warm", ""), Adjective("cold", "kalt", ""), Adjective("hot", "heiß", "")),
)
CAREFUL = Adjective("careful", "vorsichtig", "")
READY = Adjective("ready", "fertig", "")
LATE = Adjective("late", "spät dran", "")
BACK = Adjective("back", "zurück", "", graded=False)
ON_TIME = Adjective("on time", "pünktlich", "", graded=False)
WEATHER = (*WARM, Adjective("late", "spät", ""), Adjective("early", "früh", ""))
TOO = (*DEGREES, DEGREES[0], Adverbial("so", "so"), Adverbial("too", "zu"))

DAYS = (("Monday", "Montag"), ("Friday", "Freitag"), ("Saturday", "Samstag"), ("Sunday", "Sonntag"))
TIMES = (
    *(Time(f"on {ours}", f"am {theirs}", "past future") for ours, theirs in DAYS),
    *(Time(f"every {ours}", f"jeden {theirs}", "habit") for ours, theirs in DAYS),
    *(Time("last night", "letzte Nacht", "past"), Time("next year", "nächstes Jahr", "future")),
    *(Time("yesterday", "gestern", "past"), Time("yesterday", "gestern", "past")),
    *(Time("last week", "letzte Woche", "past"), Time("last year", "letztes Jahr", "past")),
    *(Time("this morning", "heute Morgen", "past"), Time("this evening", "heute Abend", "future")),
    *(Time("today", "heute", "now past future"), Time("now", "jetzt", "now")),
    *(Time("tomorrow", "morgen", "future"), Time("tomorrow", "morgen", "future")),
    *(Time("next week", "nächste Woche", "future"), Time("every day", "jeden Tag", "habit")),
    *(Time("every morning", "jeden Morgen", "habit"), Time("every week", "jede Woche", "habit")),
    Time("every evening", "jeden Abend", "habit"),
    *(Time("in the morning", "am Morgen", "habit future"),) * 2,
    *(Time("in the evening", "am Abend", "habit future"),) * 2,
    Time("at night", "nachts", "habit"),
    *(Time("late in the evening", "spät am Abend", "past habit future"),) * 2,
    *(Time("early in the morning", "früh am Morgen", "past habit future"),) * 2,
    *(Time(f"early on {ours}", f"früh am {theirs}", "past future") for ours, theirs in DAYS),
)
LATE_OR_EARLY = (
    Time("late", "spät", "past future habit"),
    Time("early", "früh", "past future habit"),
)

MUST = MODALS[1]
MUST_NOT = Modal("must", ("darf", "darf", "dürfen", "darfst"))
HAVE_TO = Modal("have", MUST.german)
HAD_TO = Modal("had", ("musste", "musste", "mussten", "musstest"))
WANTED = Modal("wanted", ("wollte", "wollte", "wollten", "wolltest"))
WOULD_LIKE = Modal("would like", ("möchte", "möchte", "möchten", "möchtest"))
WOULD = Modal("would", ("würde", "würde", "würden", "würdest"))
COULD = Modal("could", ("könnte", "könnte", "könnten", "könntest"))
LIKE_TO = Modal("like", ("", "", "", ""))
GOING = Modal("going", ("", "", "", ""))
FUTURE = (WILL, WILL, WILL, *MODALS[:4], HAVE_TO, HAVE_TO, WOULD_LIKE, WOULD_LIKE)


GENITIVES = {
    **{"father": "Vaters", "brother": "Bruders", "son": "Sohnes", "uncle": "Onkels"},
    **{"neighbor": "Nachbarn", "mother": "Mutter", "sister": "Schwester"},
    **{"daughter": "Tochter", "aunt": "Tante"},
    **further_words.GENITIVES,
}
