"""What a damaged file of a model must come to: it is read, or refused in one sentence that names it."""

from contextlib import suppress


def assert_read_or_refused(load, path, place, what):
    """Load from a path; an error must hold `place` and be one line. `what` says which damage it was."""
    try:
        model, _ = load(path)
    except ValueError as error:
        said = str(error)
        is_one = place in said and "\n" not in said and len(said) < 1000
        assert is_one, f"{what} is told as {said!r}"
    except Exception as error:
        raise AssertionError(f"{what} ends in {type(error).__name__}") from error
    else:
        with suppress(ValueError):  # weights that are numbers still may be too large to compute with
            model.generate([5, 6], 2)
