"""What a server is told when it starts."""

import json
from dataclasses import asdict, dataclass, field

from ..grading.limits import TEST_SECONDS
from .isolation import PLAIN


@dataclass(frozen=True)
class Limits:
    """What an exercise may take.

    Attributes:
        test_seconds: of one test, as in `check`.
        seconds: of all, after which the process is ended from outside.
        gigabytes: that it and its children may hold together.
    """

    test_seconds: float = TEST_SECONDS
    seconds: float = 75.0
    gigabytes: float = 5.0


@dataclass(frozen=True)
class Settings:
    """What a server is told when it starts; it travels as JSON.

    Attributes:
        exercises: the numbers of those whose tests are read.
        isolation: PLAIN, AS_USER or AS_ROOT.
        uid: whom forks become, AS_ROOT.
        processes: how many a user may have at once.
        limits: of one exercise.
        seed: any but 0, so that tests are read as an answer's.
    """

    exercises: tuple[str, ...]
    isolation: str = PLAIN
    uid: int = 0
    processes: int = 0
    limits: Limits = field(default_factory=Limits)
    seed: int = 1

    @classmethod
    def read(cls, text: str) -> "Settings":
        """Return the settings that a text of JSON holds."""
        found = json.loads(text)
        return cls(**found | {"exercises": tuple(found["exercises"]), "limits": Limits(**found["limits"])})

    def write(self) -> str:
        """Return them as a text for `read`."""
        return json.dumps(asdict(self))
