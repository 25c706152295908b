"""What a server gives to one request, to one connection, and to all of them together."""

from dataclasses import dataclass

from .._require import require_count, require_not_negative, require_positive

# Open files that are none of a client's: the libraries', the log, the loop's own.
_OTHER_FILES = 64
_BACKLOG = 128


@dataclass(frozen=True)
class Limits:
    """What requests and connections may take.

    Attributes:
        max_body_bytes: of a request.
        max_prompt_tokens: None leaves it at the model's context.
        max_seconds: from a request's first byte to its last token.
        grace_seconds: for requests under way when the server is told to stop.
        max_connections: at a time. One more takes the place of whichever has waited longest for a request to be
            complete; where none waits it gets 503.
        receive_seconds: for the headers of a request, and again for its body.
        stalled_seconds: how long a client may read nothing of an answer that waits to be sent.

    Raises:
        ValueError: a number that is none, or too small.
    """

    max_body_bytes: int = 2**18
    max_prompt_tokens: int | None = None
    max_seconds: float = 120.0
    grace_seconds: float = 10.0
    max_connections: int = 512
    receive_seconds: float = 20.0
    stalled_seconds: float = 30.0

    def __post_init__(self) -> None:
        require_count(1, max_body_bytes=self.max_body_bytes, max_connections=self.max_connections)
        if self.max_prompt_tokens is not None:
            require_count(1, max_prompt_tokens=self.max_prompt_tokens)
        require_positive(
            max_seconds=self.max_seconds, receive_seconds=self.receive_seconds, stalled_seconds=self.stalled_seconds
        )
        require_not_negative(grace_seconds=self.grace_seconds)


def room_for(max_connections: int, max_files: int | None) -> tuple[int, int]:
    """Return how many connections to keep, and how many may wait to be accepted, where so many files may be open.

    All that wait are accepted at once, before any is counted: so there is room for both, or the system refuses to
    accept, which asyncio answers with a traceback for each.

    Args:
        max_files: what the system allows the process; None where it does not say.
    """
    if max_files is None:
        return max_connections, _BACKLOG
    backlog = max(8, min(_BACKLOG, max_files // 8))
    return max(1, min(max_connections, max_files - backlog - _OTHER_FILES)), backlog


def open_files_allowed() -> int | None:
    """Return how many files this process may have open, None where the system does not say (Windows)."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
