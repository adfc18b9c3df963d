"""Run the command line as ``python -m captum_dig``."""

from captum_dig.cli import main

if __name__ == "__main__":
    main()
