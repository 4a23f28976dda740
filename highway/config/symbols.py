"""The four pieces that every vocabulary of a translation begins with."""

PADDING, UNKNOWN, START, END = range(4)
