"""German: where the verb stands, and what stands between its two parts.

German sentences stand between two brackets: the finite verb opens, the rest of the verb
closes, and what the clause tells lies in the middle.

    front field   opening   middle field               closing
    Gestern       hat       Anna den Brief nicht       abgeschickt.     (main clause, verb second)
                  Hat       Anna den Brief             abgeschickt?     (question, verb first)
    , weil                  Anna den Brief             abgeschickt hat. (subordinate, verb final)
"""

from functools import cache
from typing import NamedTuple

from tools.demo_text.lexicon import BE, DATIVE, NOMINATIVE, Adverbial, Verb
from tools.demo_text.phrases import Clause, join_words, prepositional

HABEN = ("habe", "hat", "haben", "hast")
SEIN = ("bin", "ist", "sind", "bist")
WAR = ("war", "war", "waren", "warst")


class GermanVerb(NamedTuple):
    """The forms of a German verb; the prefix is that of a separable verb."""

    prefix: str
    infinitive: str
    present: tuple[str, str, str, str]
    participle: str


@cache
def verb_forms(verb: Verb) -> GermanVerb:
    """All forms from the principal parts."""
    infinitive, third, participle = verb.german.split()
    prefix, _, infinitive = infinitive.rpartition("|")
    stem = infinitive.removesuffix("n").removesuffix("e")
    # The first person adds -e to the stem; ich weiß, like the modals, is like er weiß.
    first = stem + "e" if third.endswith("t") else third
    if infinitive.endswith("eln"):
        first = stem.removesuffix("el") + "le"  # lächeln, ich lächle
    # Du adds -st, of which a stem in -s or -z keeps the -t alone: du liest, du tanzt. A stem in -t
    # whose vowel changes keeps its own -t: er hält, du hältst.
    short = third if stem.endswith("t") and not third.endswith("et") else third.removesuffix("t")
    second = short + ("t" if short[-1] in "sßz" else "st")
    return GermanVerb(prefix, infinitive, (first, third, infinitive, second), participle)


def _brackets(clause: Clause) -> tuple[str, str]:
    """The finite verb, which opens the clause, and what closes it.

    German tells the past in the perfect, by haben or, for motion and change, by sein; but to be
    has its own: war. A separable prefix stays behind when the finite verb moves forward.
    """
    person = clause.subject.person
    forms = verb_forms(clause.verb)
    if clause.verb is BE and not clause.modal:
        return (WAR if clause.tense == "past" else SEIN)[person], ""
    if clause.modal:
        return clause.modal.german[person], forms.prefix + forms.infinitive
    if clause.tense == "past":
        auxiliary = SEIN if clause.verb.perfect == "sein" else HABEN
        return auxiliary[person], forms.participle
    return forms.present[person], forms.prefix


def _middle(clause: Clause, time: bool = True) -> list[str]:
    """The middle field, from the known to the new.

    Pronouns, es before others, definite persons and definite datives come first; other definite
    objects after the time (hat Peter heute das Buch gegeben), but before it with nicht, which
    stands behind both (hat Peter das Buch heute nicht gegeben); indefinite objects later still. An
    object with kein needs no nicht. Last comes what is bound to the verb: company, place,
    prepositional object, predicate.
    """
    verb = clause.verb
    early, late, new, bound = [], [], [], ""
    es = clause.object is not None and clause.object.english == "it"
    objects = [(clause.recipient, DATIVE), (clause.object, verb.case)]
    for phrase, case in reversed(objects) if es else objects:
        if phrase and verb.preposition:
            bound = prepositional(verb.preposition, phrase.german[case])
        elif phrase:
            first = phrase.human or case == DATIVE or clause.negated or es
            (new if not phrase.definite else early if first else late).append(phrase.german[case])
    kein = clause.object is not None and clause.object.negative
    return [
        *early,
        _german(clause.time) if time else "",
        *late,
        _german(clause.frequency),
        *new,
        "nicht" if clause.negated and not kein else "",
        _german(clause.company),
        _german(clause.place),
        bound,
        _german(clause.predicate),
    ]


def _german(adverbial: Adverbial | None) -> str:
    return adverbial.german if adverbial else ""


def statement(clause: Clause, fronted: bool = False) -> str:
    """A main clause: one phrase, the finite verb second, the rest."""
    opening, closing = _brackets(clause)
    subject = clause.subject.german[NOMINATIVE]
    if fronted and clause.time:
        middle = _middle(clause, time=False)
        return join_words(clause.time.german, opening, subject, *middle, closing)
    return join_words(subject, opening, *_middle(clause), closing)


def question(clause: Clause, opener: str = "") -> str:
    """The finite verb first or after a question word; also a main clause after a subordinate."""
    opening, closing = _brackets(clause)
    return join_words(opener, opening, clause.subject.german[NOMINATIVE], *_middle(clause), closing)


def subordinate(clause: Clause, opener: str) -> str:
    """A clause after a conjunction or relative pronoun: the finite verb goes to the end.

    `opener` is empty if the subject itself is the relative pronoun.
    """
    opening, closing = _brackets(clause)
    # A separable verb in the present meets its prefix again: weil er das Fenster aufmacht.
    together = closing and closing == verb_forms(clause.verb).prefix
    verb = closing + opening if together else join_words(closing, opening)
    return join_words(opener, clause.subject.german[NOMINATIVE], *_middle(clause), verb)


def infinitive(clause: Clause) -> str:
    """Um ... zu, where zu goes inside a separable verb: um seinen Bruder abzuholen."""
    prefix, infinitive, *_ = verb_forms(clause.verb)
    verb = f"{prefix}zu{infinitive}" if prefix else f"zu {infinitive}"
    return join_words("um", *_middle(clause), verb)


def imperative(clause: Clause) -> str:
    """The clause as a command to one whom we call du: "mach die Tür nicht auf"."""
    return join_words(_command(clause.verb), *_middle(clause), verb_forms(clause.verb).prefix)


@cache
def _command(verb: Verb) -> str:
    """The imperative: schlaf, hilf, warte.

    Verbs that change e to i in the third person do it here too, those that change a to ä do not.
    Some stems are hard to say without an -e.
    """
    if verb is BE:
        return "sei"
    _, infinitive, (first, third, *_), _ = verb_forms(verb)
    stem, changed = infinitive.removesuffix("n").removesuffix("e"), third.removesuffix("t")
    if "e" in stem and "i" in changed and "i" not in stem:
        return third if third.endswith("tt") else changed  # treten, er tritt, tritt
    if infinitive.endswith("eln"):
        return first  # lächeln, ich lächle, lächle
    hard = stem.endswith(("d", "t", "n", "lg", "dank", "tz", "er", "tm", "dig", "tig"))
    return stem + ("e" if hard else "")
