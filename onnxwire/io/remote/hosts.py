"""The servers that requests for one model may go to: its own, those that it is redirected to, and those allowed."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urljoin, urlsplit

from onnxwire.io.remote.address import DEFAULT_PORTS, WEB_SCHEMES, quote_path, quote_query, site_of
from onnxwire.io.remote.failures import RefusedError, UnknownHostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.io.remote.address import Site

MAX_REDIRECTS = 10

# How far an IP address reaches. A request that reached further is never led to one that reaches less far.
THIS_HOST = 0  # loopback, link-local (metadata services of clouds), unspecified, multicast, reserved
PRIVATE = 1
GLOBAL = 2
_PRIVATE_NETWORKS = [
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")
]
# IPv6 networks whose last 32 bits are an IPv4 address that is reached.
_IPV4_INSIDE = [ip_network("::/96"), ip_network("64:ff9b::/96")]


def reach_of(address: str) -> int:
    """How far an IP address reaches: THIS_HOST, PRIVATE or GLOBAL."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and not (ip.is_loopback or ip.is_unspecified):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and any(ip in network for network in _IPV4_INSIDE):
            inner = IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return reach_of(str(inner))
    if any(ip in network for network in _PRIVATE_NETWORKS):
        return PRIVATE
    return GLOBAL if ip.is_global and not ip.is_multicast else THIS_HOST


def addresses_of(host: str, port: int) -> list[str]:
    """The IP addresses of a host, in the order to try. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


class Hosts:
    """The hosts that the requests for one model, and for the external data beside it, may go to.

    own: the model's server. allowed: more hosts, as `host` (of the default ports) or `host:port`, to which redirects
    may lead; with any, the model's own too may lead to no other. Raises ValueError for one that can't be.
    """

    def __init__(self, own: Site, allowed: Iterable[str] = ()) -> None:
        self._own = own
        self._allowed = {_host_and_port(text) for text in allowed}
        self._of_model: set[tuple[str, int]] = set()
        self._reach: int | None = None

    def check_redirect(self, before: Site, target: Site, is_model: bool) -> None:
        """Raise RefusedError for a server that a redirect may not lead to."""
        if before.scheme == "https" and target.scheme == "http":
            raise RefusedError(f"the server redirects from https to http://{target.netloc}, which is not followed")
        known = {self._own.host_and_port, *self._allowed}
        if target.host_and_port in known or (not is_model and target.host_and_port in self._of_model):
            return
        if is_model and not self._allowed:
            return
        what = "" if is_model else "external data "
        raise UnknownHostError(
            f"the server redirects {what}to {target.netloc}, which is not followed; name that host in allow_hosts= if "
            "it may be asked"
        )

    def add_redirects(self, sites: Iterable[Site]) -> None:
        """Note the servers that a request for the model itself was redirected to, and answered by."""
        self._of_model.update(site.host_and_port for site in sites)

    def reachable(self, site: Site, reached: int | None) -> list[tuple[str, int]]:
        """The IP addresses of a server to connect to, in the order to try, each with how far it reaches.

        reached: how far the requests before it in a chain of redirects reached, or None for the first. A host that has
        global addresses is not connected to at others. Raises RefusedError where none may be connected to.
        """
        found = [(address, reach_of(address)) for address in addresses_of(site.host, site.port)]
        least = self.least_reach(reached)
        if any(reach == GLOBAL for _, reach in found):
            least = GLOBAL
        allowed = [(address, reach) for address, reach in found if reach >= least]
        if not allowed:
            raise self.too_near(site)
        return allowed

    def least_reach(self, reached: int | None) -> int:
        """How far an address must reach to be connected to."""
        return max(reached if reached is not None else THIS_HOST, self._reach if reached is None and self._reach else 0)

    def too_near(self, site: Site) -> RefusedError:
        """The error for a server whose addresses reach less far than those before."""
        return RefusedError(
            f"{site.netloc} has a loopback, link-local or private address, to which no public server may lead"
        )

    def note_reach(self, reach: int) -> None:
        """Note how far the model's own server reaches: its name may have another address the next time."""
        self._reach = reach if self._reach is None else max(reach, self._reach)


def _host_and_port(text: str) -> tuple[str, int]:
    host = text.strip()
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    site = site_of("https", host)
    return site.host, 0 if site.port in DEFAULT_PORTS.values() else site.port


def redirect_target(url: str, location: str | None) -> tuple[Site, str]:
    """The server, and the path with the query, that a Location header leads to.

    url: of the request that was answered so. Raises RefusedError.
    """
    if not location:
        raise RefusedError("the server redirects without saying where to")
    # Python reads headers as Latin-1.
    text = location.encode("latin-1", "replace").decode("utf-8", "replace").strip(" \t")
    if any(letter <= " " or letter == "\\" or "\x7f" <= letter <= "\x9f" for letter in text):
        raise RefusedError("the server redirects to an address that can't be")
    try:
        parts = urlsplit(urljoin(url, text))
        if parts.scheme not in WEB_SCHEMES or "@" in parts.netloc:
            raise RefusedError("the server redirects to what is no plain http or https address")
        site = site_of(parts.scheme, parts.netloc)
    except ValueError:
        raise RefusedError("the server redirects to an address that can't be") from None
    return site, quote_path(parts.path) + quote_query(f"?{parts.query}" if parts.query else "")
