"""English: auxiliaries, do-support, and an order of words that changes only in questions."""

from functools import cache
from typing import NamedTuple

from tools.demo_text.lexicon import BE, Verb
from tools.demo_text.phrases import ENGLISH_OBJECT, Clause, join_words

ARE = ("am", "is", "are", "are")
# Verbs before "to" and an infinitive, as modals: their base, third person and, in the past, past.
BEFORE_TO = {
    "want": ("want", "wants", ""),
    "like": ("like", "likes", ""),
    "have": ("have", "has", ""),
    "need": ("need", "needs", ""),
    "wanted": ("want", "", "wanted"),
    "had": ("have", "", "had"),
}
PARTICIPLES = {
    word.split()[0]: word.split()[1]
    for word in (
        *("see seen", "forget forgotten", "draw drawn", "eat eaten", "give given", "show shown"),
        *("sing sung", "fall fallen", "come come", "go gone", "drive driven", "run run"),
        *("know known", "write written", "swim swum", "drink drunk", "speak spoken", "do done"),
        *("take taken", "break broken", "fly flown", "throw thrown", "bite bitten", "wear worn"),
        *("steal stolen", "lie lain"),
    )
}
WERE = ("was", "was", "were", "were")


class EnglishVerb(NamedTuple):
    """The forms of an English verb: open, opens, opened, opening; and its particle."""

    base: str
    third: str
    past: str
    progressive: str
    particle: str


@cache
def verb_forms(verb: Verb) -> EnglishVerb:
    """All forms from the principal parts."""
    base, past, progressive, *particle = verb.english.split()
    third = base + "s"
    if base.endswith(("s", "sh", "ch", "x", "o")):
        third = base + "es"
    elif base[-1] == "y" and base[-2] not in "aeiou":
        third = base[:-1] + "ies"
    elif base == "have":
        third = "has"
    return EnglishVerb(base, third, past, progressive, " ".join(particle))


class VerbGroup(NamedTuple):
    """An English verb in a clause: auxiliary ("does"), main verb ("pick"), particle ("up")."""

    auxiliary: str
    main: str
    particle: str


def _group(clause: Clause, inverted: bool) -> VerbGroup:
    """The verb with the auxiliary that tense, negation and question ask for."""
    person, tense = clause.subject.person, clause.tense
    be = (WERE if tense == "past" else ARE)[person]
    forms = verb_forms(clause.verb)
    infinitive = f"to {forms.base} {forms.particle}".rstrip()
    if tense == "going":
        return VerbGroup(be, "going", infinitive)
    if clause.verb is BE and not clause.modal:
        return VerbGroup(be, "", "")
    if tense == "was":
        return VerbGroup(WERE[person], forms.progressive, forms.particle)
    if tense == "perfect":
        participle = PARTICIPLES.get(forms.base, forms.past)
        return VerbGroup("has" if person == 1 else "have", participle, forms.particle)
    if clause.modal and clause.modal.english == "would like":
        return VerbGroup("would", "like", infinitive)
    if clause.modal and clause.modal.english not in BEFORE_TO:
        return VerbGroup(clause.modal.english, forms.base, forms.particle)
    if tense == "now" and not clause.verb.simple:
        return VerbGroup(be, forms.progressive, forms.particle)
    main, third, past, particle = forms.base, forms.third, forms.past, forms.particle
    if clause.modal:  # "want to" is a verb like others: "does not want to open"
        main, third, past = BEFORE_TO[clause.modal.english]
        particle, tense = infinitive, "past" if past else tense
    # Do-support: only negation and inversion need the auxiliary. Else the verb shows the tense.
    if clause.negated or inverted:
        do = "did" if tense == "past" else ("do", "does", "do", "do")[person]
        return VerbGroup(do, main, particle)
    return VerbGroup("", past if tense == "past" else third if person == 1 else main, particle)


def _rest(clause: Clause, time: bool = True) -> list[str]:
    """What follows the verb: recipient, object, predicate, company, place, time."""
    objects = [
        ENGLISH_OBJECT.get(phrase.english, phrase.english)
        for phrase in (clause.recipient, clause.object)
        if phrase
    ]
    adverbials = (clause.predicate, clause.company, clause.place, clause.time if time else None)
    return objects + [adverbial.english for adverbial in adverbials if adverbial]


def statement(clause: Clause, fronted: bool = False) -> str:
    """Subject, verb, rest; also the order of every subordinate clause."""
    auxiliary, main, particle = _group(clause, inverted=False)
    front = f"{clause.time.english}," if fronted and clause.time else ""
    negation = "not" if clause.negated else ""
    if negation and auxiliary == "can":
        auxiliary, negation = "cannot", ""
    often = clause.frequency.english if clause.frequency else ""
    rest = _rest(clause, time=not fronted)
    subject = clause.subject.english
    return join_words(front, subject, auxiliary, negation, often, main, particle, *rest)


def question(clause: Clause, opener: str = "") -> str:
    """Auxiliary, subject, verb, rest."""
    auxiliary, main, particle = _group(clause, inverted=True)
    negation = "not" if clause.negated else ""
    often = clause.frequency.english if clause.frequency else ""
    subject = clause.subject.english
    rest = _rest(clause)
    return join_words(opener, auxiliary, subject, negation, often, main, particle, *rest)


def infinitive(clause: Clause) -> str:
    """The clause without its subject: "to pick up his brother"."""
    forms = verb_forms(clause.verb)
    return join_words("to", forms.base, forms.particle, *_rest(clause))


def imperative(clause: Clause) -> str:
    """The clause as a command: "open the door", "do not open the door", "be quiet"."""
    base, _, _, _, particle = verb_forms(clause.verb)
    return join_words("do not" if clause.negated else "", base, particle, *_rest(clause))
