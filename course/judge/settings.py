"""What a server is told when it starts."""

from dataclasses import dataclass

from .isolation import PLAIN


@dataclass(frozen=True)
class Settings:
    """What a server is told when it starts; it travels as JSON.

    Attributes:
        exercises: the numbers of those whose tests are read.
        isolation: PLAIN, AS_USER or AS_ROOT.
        uid: whom forks become, AS_ROOT.
        processes: how many a user may have at once.
        seconds: after which a fork is ended from outside.
        gigabytes: that a fork and its children may hold together.
        seed: any but 0, so that tests are read as an answer's.
    """

    exercises: tuple[str, ...]
    isolation: str = PLAIN
    uid: int = 0
    processes: int = 0
    seconds: float = 75.0
    gigabytes: float = 5.0
    seed: int = 1
