"""Sample corpora: text generated from a seed, so that demos and tests need neither network nor licences.

The text is built so that a better model does measurably better on it:

    Zipfian words   the r-th stem of a class is drawn with probability proportional to 1 / r
    agreement       a verb agrees in number with its subject across relative clauses and phrases between
                    them ("the tavo that the milus near a keson rade bunats itself")
    nesting         relative clauses and brackets nest, and each bracket that opens must close
"""

import random
from functools import cache
from itertools import accumulate

CONSONANTS, VOWELS = "bdfgklmnprstv", "aeiou"
SENTENCES = {"train": 6000, "valid": 400, "test": 400}
PAGES = 1200
SEED = 20200714


@cache
def penn_treebank(characters: bool = False) -> dict[str, str]:
    """Return the three splits in the layout of the Penn Treebank: a blank before and after the words of each line."""
    grammar = Grammar(random.Random(SEED))
    splits = {
        split: "".join(f" {' '.join(grammar.sentence())} \n" for _ in range(count))
        for split, count in SENTENCES.items()
    }
    if not characters:
        return splits
    return {split: _spelled(text) for split, text in splits.items()}


@cache
def wikipedia() -> bytes:
    """Return pages in mark-up, as in enwik8. The title's word recurs on its page, so that memory helps to spell it."""
    grammar = Grammar(random.Random(SEED))
    pages = []
    for number in range(1, PAGES + 1):
        topic = grammar.nouns.draw() + grammar.nouns.draw()
        lines = []
        for _ in range(grammar.rng.randint(3, 6)):
            words = grammar.sentence()
            words[grammar.rng.randrange(len(words))] = f"[[{topic}]]"
            lines.append(f"{' '.join(words).capitalize()}.")
        text = "\n".join(lines)
        pages.append(
            f"  <page>\n    <title>{topic}</title>\n    <id>{number}</id>\n    <text>{text}</text>\n  </page>\n"
        )
    return "".join(pages).encode()


def _spelled(text: str) -> str:
    """Spell a text as the ptb.char files do: blanks between characters, `_` for a blank between words."""
    return "".join(f" {' '.join(line.strip().replace(' ', '_'))} \n" for line in text.splitlines())


class Grammar:
    """A random grammar with a vocabulary of its own; `rng` makes every choice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        stems = self._stems(230)
        self.nouns = Zipf(rng, stems[:80])
        self.verbs = Zipf(rng, stems[80:140])
        self.adjectives = Zipf(rng, stems[140:200])
        self.adverbs = Zipf(rng, stems[200:])
        self.prepositions = Zipf(rng, ["of", "near", "with", "under", "for"])

    def _stems(self, count: int) -> list[str]:
        """Return distinct words of two or three syllables."""
        stems: dict[str, None] = {}
        while len(stems) < count:
            syllables = [
                self.rng.choice(CONSONANTS) + self.rng.choice(VOWELS) for _ in range(self.rng.choice((2, 2, 3)))
            ]
            stems["".join(syllables) + self.rng.choice(("", "n", "r", "t"))] = None
        return list(stems)

    def sentence(self) -> list[str]:
        words = self.clause()
        while self.rng.random() < 0.2:
            words += [self.rng.choice(("and", "but", "because")), *self.clause()]
        return words

    def clause(self) -> list[str]:
        plural = self.rng.random() < 0.5
        words = [*self.noun_phrase(plural, depth=0), *self.verb(plural)]
        if self.rng.random() < 0.3:
            return [*words, "themselves" if plural else "itself"]
        return [*words, *self.noun_phrase(self.rng.random() < 0.5, depth=1)]

    def noun_phrase(self, plural: bool, depth: int) -> list[str]:
        words = [self.rng.choice(("the", "these", "some") if plural else ("the", "this", "a"))]
        if self.rng.random() < 0.4:
            words.append(self.adjectives.draw() + "y")
        words.append(self.nouns.draw() + ("s" if plural else ""))
        deeper = 0.5 / (1 + depth)
        if self.rng.random() < deeper * 0.6:
            words += [self.prepositions.draw(), *self.noun_phrase(self.rng.random() < 0.5, depth + 1)]
        if self.rng.random() < deeper * 0.5:
            inner = self.rng.random() < 0.5
            words += ["that", *self.noun_phrase(inner, depth + 1), *self.verb(inner)]
        elif self.rng.random() < deeper * 0.4:
            words += ["(", *self.clause(), ")"]
        return words

    def verb(self, plural: bool) -> list[str]:
        adverb = [self.adverbs.draw() + "ly"] if self.rng.random() < 0.15 else []
        return [*adverb, self.verbs.draw() + ("" if plural else "s")]


class Zipf:
    """A list of words from which the r-th is drawn with a probability proportional to 1 / r."""

    def __init__(self, rng: random.Random, words: list[str]) -> None:
        self.rng = rng
        self.words = words
        self.cumulative = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))

    def draw(self) -> str:
        return self.rng.choices(self.words, cum_weights=self.cumulative)[0]
