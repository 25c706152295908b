"""`python -m course` is the command `course`."""

from .cli import app

if __name__ == "__main__":
    app()
