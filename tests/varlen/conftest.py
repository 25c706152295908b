"""For all tests of a pass over many requests."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_pass_is_too_small():
    """What is for speed is used in passes of few blocks too, in which it would cost more than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nanolm.varlen.varlen_batch._FEW_BLOCKS", 0)
        patch.setattr("nanolm.varlen.paged_rows._SMALL", 0)
        yield
