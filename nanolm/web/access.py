"""Who may ask: the names that the server goes by, the web pages that may use it, and the key.

A browser lets any page send requests to this machine. It says where the page comes from (Origin), and a name that
somebody has pointed at this machine shows as that name (Host): so both are looked at before anything else is.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..openai_api.refusal import Refusal

_VERSIONS = ("1.0", "1.1")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What says only that the server is there, which a balancer asks without a key; and the page and its script, in which
# nobody's data are: a browser opens them without one, and the page sends the key that it is given.
_WITHOUT_KEY = ("/health", "/ready", "/", "/watch.js")


@dataclass(frozen=True)
class Access:
    """Whose requests are taken.

    Attributes:
        hosts: names that the Host header may hold, without ports; None: any.
        origins: web pages that may ask, as "https://example.org"; "*": any.
        api_key: what they must bring as `Authorization: Bearer KEY`; None: nothing.

    Raises:
        ValueError: an origin that is none, an empty key or one that no header can hold.
    """

    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    api_key: str | None = None

    def __post_init__(self) -> None:
        for origin in self.origins:
            scheme, _, rest = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not rest or "/" in rest):
                raise ValueError(f"cors is {origin!r}; it must be an origin as https://example.org, or *")
        key = self.api_key
        if key is not None and (not key or not key.isascii() or not key.isprintable() or key != key.strip()):
            raise ValueError("api_key is empty, or has characters that no header can hold; use letters and digits")

    def refusal(self, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is not taken; None if it is."""
        host = _name_in(headers.get("host", ""))
        if self.hosts is not None and host not in self.hosts:
            why = f"Host is {host[:100]!r}; this server goes by {', '.join(self.hosts)}"
            return Refusal(403, why, "Host", "host_not_allowed")
        origin = headers.get("origin")
        if origin is not None and not self._takes(origin, headers.get("host", "")):
            why = f"Origin is {origin[:100]!r}; web pages may use this server if it is started with --cors ORIGIN"
            return Refusal(403, why, "Origin", "origin_not_allowed")
        if self.api_key is not None and path not in _WITHOUT_KEY and not self._has_key(headers):
            why = "Authorization must be 'Bearer KEY' with the key that the server was started with"
            return Refusal(401, why, "Authorization", "invalid_api_key", WWW_Authenticate="Bearer")
        return None

    def _takes(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may ask: one of those given, or the server's own.

        Its own comes from where it asks. A stranger's page could say so by a name that it has pointed here; so the
        name must be known to be the server's, or be an address, which nobody else can have.
        """
        is_own = origin in (f"http://{host}", f"https://{host}") and (self.hosts is not None or _is_address(host))
        return is_own or "*" in self.origins or origin in self.origins

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        assert self.api_key is not None
        same = hmac.compare_digest(given.strip().encode(), self.api_key.encode())  # takes as long wherever they differ
        return same and scheme.lower() == "bearer"


def hosts_of(bind: str, more: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return the names that a server goes by: on this machine alone its own and `more`; else `more`, or any.

    Args:
        bind: where it listens.
    """
    if is_loopback(bind):
        return tuple(dict.fromkeys((*_LOOPBACK, bind.lower(), *(name.lower() for name in more))))
    return tuple(name.lower() for name in more) or None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(_name_in(host)))
    except ValueError:
        return False


class Guard:
    """An application that asks `Access` first."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            return await self.app(scope, receive, send)
        await JSONResponse(refusal.body(), refusal.status, refusal.headers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        version = scope["http_version"]
        if version not in _VERSIONS:  # the first line of HTTP/2, before any header
            return Refusal(505, f"HTTP/{version} is not spoken here; use HTTP/1.1", None, "http_version_not_supported")
        return self.access.refusal(scope["path"], Headers(scope=scope))


def _name_in(host: str) -> str:
    """The name in a Host header, without a port: "[::1]:8000" is "::1"."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")
