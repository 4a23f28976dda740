"""Numbers that are too small or too large for a float, which would become 0 or infinite without a word."""

import math
import re

DIGITS = r"(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)"
NUMBER = re.compile(rf"(?<![^\s=:,\[({{])[+-]?(?P<digits>{DIGITS})(?:[eE][+-]?[0-9]+)?(?![^\s,\])}}])")


def lost_number(text: str) -> str | None:
    """Return what is wrong with the first number of a text that a float cannot hold; None if it can hold all."""
    for match in NUMBER.finditer(text):
        value = float(match[0])
        if math.isinf(value) or (value == 0 and re.search("[1-9]", match["digits"])):
            size = "large" if value else "small"
            return f"a number is too {size} for a float, which would be {value:g}. Write one from 1e-307 to 1e308"
    return None
