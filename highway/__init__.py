"""Highway: the tables of four papers on gating, from one command each."""

__version__ = "0.1.0"
