"""`python -m coresift` is the command line."""

from coresift.cli import main

if __name__ == "__main__":
    main()
