"""An engine to look at: its passes, blocks, prefix tree and queue as events, while somebody watches."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "camera": [
        "Camera",
        "Frame",
        "words_of",
    ],
    "endpoints": [
        "WatchApi",
    ],
    "feed": [
        "Feed",
        "Full",
        "MOST_QUEUED",
        "MOST_WATCHERS",
        "Watcher",
        "steer",
    ],
    "forecast": [
        "Forecast",
    ],
    "pace": [
        "MOST_SECONDS",
        "PATIENCE_SECONDS",
        "Pace",
    ],
    "page": [
        "PAGE_HEADERS",
        "embedded",
        "module_text",
        "page_of",
        "served_page",
    ],
    "recording": [
        "FORMAT",
        "MOST_FRAMES",
        "Recording",
        "recorded",
    ],
    "state": [
        "BLOCK_STATES",
        "MOST_BLOCKS",
        "MOST_NODES",
        "MOST_WAITING",
        "neighbours",
        "number",
        "pool_of",
        "state_of",
        "tree_of",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .camera import Camera as Camera
    from .camera import Frame as Frame
    from .camera import words_of as words_of
    from .endpoints import WatchApi as WatchApi
    from .feed import Feed as Feed
    from .feed import Full as Full
    from .feed import MOST_QUEUED as MOST_QUEUED
    from .feed import MOST_WATCHERS as MOST_WATCHERS
    from .feed import Watcher as Watcher
    from .feed import steer as steer
    from .forecast import Forecast as Forecast
    from .pace import MOST_SECONDS as MOST_SECONDS
    from .pace import PATIENCE_SECONDS as PATIENCE_SECONDS
    from .pace import Pace as Pace
    from .page import PAGE_HEADERS as PAGE_HEADERS
    from .page import embedded as embedded
    from .page import module_text as module_text
    from .page import page_of as page_of
    from .page import served_page as served_page
    from .recording import FORMAT as FORMAT
    from .recording import MOST_FRAMES as MOST_FRAMES
    from .recording import Recording as Recording
    from .recording import recorded as recorded
    from .state import BLOCK_STATES as BLOCK_STATES
    from .state import MOST_BLOCKS as MOST_BLOCKS
    from .state import MOST_NODES as MOST_NODES
    from .state import MOST_WAITING as MOST_WAITING
    from .state import neighbours as neighbours
    from .state import number as number
    from .state import pool_of as pool_of
    from .state import state_of as state_of
    from .state import tree_of as tree_of
