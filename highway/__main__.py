"""`python -m highway` is the same as `highway`."""

from highway.cli import main

if __name__ == "__main__":
    main()
