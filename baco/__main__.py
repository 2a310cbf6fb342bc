"""`python -m baco`: the same as the `baco` command."""

from baco.main import main

if __name__ == "__main__":
    main()
