"""Connections, deadlines and access of a web server that knows nothing of models. Needs the extra `serve`."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "access": [
        "Access",
        "Guard",
        "hosts_of",
        "is_loopback",
    ],
    "connections": [
        "ConnectionBook",
        "HttpConnection",
    ],
    "disconnect": [
        "EventStream",
        "read_body",
        "unless_gone",
    ],
    "limits": [
        "Limits",
        "open_files_allowed",
        "room_for",
    ],
    "uvicorn_server": [
        "WebServer",
        "listen",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .access import Access as Access
    from .access import Guard as Guard
    from .access import hosts_of as hosts_of
    from .access import is_loopback as is_loopback
    from .connections import ConnectionBook as ConnectionBook
    from .connections import HttpConnection as HttpConnection
    from .disconnect import EventStream as EventStream
    from .disconnect import read_body as read_body
    from .disconnect import unless_gone as unless_gone
    from .limits import Limits as Limits
    from .limits import open_files_allowed as open_files_allowed
    from .limits import room_for as room_for
    from .uvicorn_server import WebServer as WebServer
    from .uvicorn_server import listen as listen
