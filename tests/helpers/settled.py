"""A pytest plugin: what a long collection has made is taken out of the garbage collector's sight.

Ten thousand tests, their parameters and the modules behind them live until the run ends. Each full collection walks
over all of them, and a test that makes many objects sets off dozens: a third of a process's time in a whole run.
"""

import gc

# Below this a run is a student's or one file's, and has little to walk over.
MANY_TESTS = 1000
# Full collections, which walk over all that the tests themselves have kept, are asked for this seldom.
OLDEST = 100


def pytest_collection_finish(session) -> None:
    if len(session.items) > MANY_TESTS:
        settle()


def settle() -> None:
    """Collect once, then leave all that exists by now out of later collections."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLDEST)
