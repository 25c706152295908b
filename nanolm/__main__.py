"""`python -m nanolm` is the command `nanolm`."""

from .cli.generate import app

if __name__ == "__main__":
    app()
