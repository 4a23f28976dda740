"""highway benchmark"""

from highway.cli import main

if __name__ == "__main__":
    main("benchmark")
