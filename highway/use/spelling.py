"""Conversion between text and the symbols of a language model's vocabulary."""

import re

from highway.errors import Refused


class Spelling:
    """A vocabulary of words, characters or bytes that encodes text as numbers, and decodes them."""

    def __init__(self, vocabulary: list[str], in_words: bool, in_bytes: bool) -> None:
        self.vocabulary, self.in_words, self.in_bytes = vocabulary, in_words, in_bytes
        self.numbers = {symbol: number for number, symbol in enumerate(vocabulary)}

    def numbers_of(self, text: str) -> list[int]:
        """Encode a text as numbers of symbols."""
        if self.in_words:
            symbols = re.sub("\n", " <eos> ", text).split()
        else:
            symbols = [chr(byte) for byte in text.encode()] if self.in_bytes else list(text)
        unknown = [symbol for symbol in symbols if symbol not in self.numbers]
        if unknown:
            symbol = f"the byte {ord(unknown[0]):#x}" if self.in_bytes else repr(unknown[0])
            raise Refused(f"the text has {symbol}, which the model's vocabulary lacks. Remove or replace it.")
        return [self.numbers[symbol] for symbol in symbols]

    def spelled(self, number: int) -> bytes:
        """Decode a symbol as UTF-8, or as a single byte of a character."""
        symbol = self.vocabulary[number]
        if self.in_words:
            return b"\n" if symbol == "<eos>" else f"{symbol} ".encode()
        return bytes([ord(symbol)]) if self.in_bytes else symbol.encode()
