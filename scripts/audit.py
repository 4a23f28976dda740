"""highway audit"""

from highway.cli import main

if __name__ == "__main__":
    main("audit")
