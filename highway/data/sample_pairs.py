"""A sample corpus for translation, from a grammar of ours: an invented Romance source and an English-like target.

A translator has to learn on it, as on the real pair:

    reordering    adjectives follow the noun in the source and precede it in the target
    agreement     source articles and adjectives agree with the noun in gender and number; target verbs with the subject
    dropped words a source verb without a subject shows the person by its ending; the target needs the pronoun
    questions     marked at the end of the source, and by an auxiliary at the beginning of the target
"""

import random
from functools import cache

from highway.data.sample_texts import CONSONANTS, VOWELS

PAIRS = {"train": 6000, "valid": 200, "test": 200}
SEED = 20231018
Splits = dict[str, list[tuple[str, str]]]
PERSONS = (("o", "i"), ("as", "you"), ("amos", "we"), ("em", "they"))  # ending of the source's verb, target's pronoun


@cache
def translation() -> Splits:
    """Return pairs of source and target by split; no sentence of valid or test is in train."""
    language = Language(random.Random(SEED))
    seen: set[str] = set()
    splits: Splits = {}
    for split in ("test", "valid", "train"):
        pairs = splits[split] = []
        while len(pairs) < PAIRS[split]:
            pair = language.sentence()
            if split == "train" or pair[0] not in seen:
                pairs.append(pair)
        if split != "train":
            seen |= {source for source, _ in pairs}
    splits["train"] = [pair for pair in splits["train"] if pair[0] not in seen]
    return {split: splits[split] for split in PAIRS}


class Language:
    """A grammar and its dictionary; `rng` makes every choice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        words = self._words(60)
        self.nouns = [(words.pop(), words.pop(), rng.random() < 0.5) for _ in range(12)]  # source, target, feminine
        self.adjectives = [(words.pop(), words.pop()) for _ in range(6)]
        self.verbs = [(words.pop(), words.pop()) for _ in range(6)]
        self.adverbs = [(words.pop(), words.pop()) for _ in range(3)]

    def _words(self, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            syllables = (self.rng.choice(CONSONANTS) + self.rng.choice(VOWELS) for _ in range(2))
            words["".join(syllables) + self.rng.choice("lmnrt")] = None
        return list(words)

    def sentence(self) -> tuple[str, str]:
        rng = self.rng
        verb = rng.choice(self.verbs)
        if rng.random() < 0.25:  # no subject: the ending shows the person
            ending, pronoun = rng.choice(PERSONS)
            source, target = [verb[0] + ending], [pronoun, verb[1]]
            plural = True
        else:
            plural = rng.random() < 0.5
            subject = self.phrase(plural)
            source = [*subject[0], verb[0] + ("em" if plural else "e")]
            target = [*subject[1], verb[1] + ("" if plural else "s")]
        thing = self.phrase(rng.random() < 0.5)
        source, target = source + thing[0], target + thing[1]
        if rng.random() < 0.3:
            adverb = rng.choice(self.adverbs)
            source, target = [adverb[0] + "mente", *source], [*target, adverb[1] + "ly"]
        if rng.random() < 0.2:
            auxiliary = "do" if plural else "does"
            bare = [verb[1] if word == verb[1] + "s" else word for word in target]
            return " ".join([*source, "?"]), " ".join([auxiliary, *bare, "?"])
        return " ".join([*source, "."]), " ".join([*target, "."])

    def phrase(self, plural: bool) -> tuple[list[str], list[str]]:
        """Return a noun phrase in source and target: an article, a noun and sometimes an adjective."""
        source, target, feminine = self.rng.choice(self.nouns)
        ending = ("a" if feminine else "o") + ("s" if plural else "")
        definite = self.rng.random() < 0.5
        articles = ending if definite else {"o": "um", "a": "uma", "os": "uns", "as": "umas"}[ending]
        before, after = [], []
        if self.rng.random() < 0.5:
            adjective = self.rng.choice(self.adjectives)
            after, before = [adjective[0] + ending], [adjective[1]]
        article = "the" if definite else ("some" if plural else "a")
        return [articles, source + ending, *after], [article, *before, target + ("s" if plural else "")]
