"""Decide to which servers requests for one model may be sent: its own, its redirects, and those the caller allows."""

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

# The reach of an IP address. A redirect never leads to an address with a smaller reach than those before it.
THIS_HOST = 0  # loopback, link-local (metadata services of clouds), unspecified, multicast, reserved
PRIVATE = 1
GLOBAL = 2
_PRIVATE_NETWORKS = [
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")
]
# IPv6 networks whose last 32 bits are the IPv4 address that is contacted.
_IPV4_INSIDE = [ip_network("::/96"), ip_network("64:ff9b::/96")]


def reach_of(address: str) -> int:
    """Return the reach of an IP address: THIS_HOST, PRIVATE or GLOBAL."""
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
    """Return the IP addresses of a host, in the order to try. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


class Hosts:
    """The hosts to which requests for one model and its external data may be sent.

    own: the model's server. allowed: more hosts, as `host` (default ports) or `host:port`, that redirects may lead to;
    if any are given, requests for the model itself may not be redirected elsewhere either. may_redirect: whether other
    redirects than those to allowed hosts are followed; False for untrusted models, whose redirects on the model's own
    server are refused, too. Raises ValueError for an invalid host.
    """

    def __init__(self, own: Site, allowed: Iterable[str] = (), *, may_redirect: bool = True) -> None:
        self._may_redirect = may_redirect
        self._own = own
        self._allowed = {_host_and_port(text) for text in allowed}
        self._of_model: set[tuple[str, int]] = set()
        self._reach: int | None = None

    def check_redirect(self, before: Site, target: Site, is_model: bool) -> None:
        """Raise RefusedError if a redirect may not lead to the target."""
        if before.scheme == "https" and target.scheme == "http":
            raise RefusedError(f"the server redirects from https to http://{target.netloc}, which is not followed")
        if not self._may_redirect:
            if target.host_and_port in self._allowed:
                return
            raise RefusedError(
                f"the server redirects to {target.netloc}, which is not followed for untrusted models; add that host "
                "to allow_hosts= if it is trusted"
            )
        known = {self._own.host_and_port, *self._allowed}
        if target.host_and_port in known or (not is_model and target.host_and_port in self._of_model):
            return
        if is_model and not self._allowed:
            return
        what = "" if is_model else "external data "
        raise UnknownHostError(
            f"the server redirects {what}to {target.netloc}, which is not followed; add that host to allow_hosts= if "
            "it is trusted"
        )

    def add_redirects(self, sites: Iterable[Site]) -> None:
        """Record the servers that a successful request for the model itself was redirected to."""
        self._of_model.update(site.host_and_port for site in sites)

    def reachable(self, site: Site, reached: int | None) -> list[tuple[str, int]]:
        """Return the allowed IP addresses of a server with their reach, in the order to try.

        reached: the largest reach so far in a chain of redirects, or None for the first request. If a host has global
        addresses, only those are allowed. Raises RefusedError if no address is allowed.
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
        """Return the minimum reach of an address to connect to."""
        return max(reached if reached is not None else THIS_HOST, self._reach if reached is None and self._reach else 0)

    def too_near(self, site: Site) -> RefusedError:
        """Return the error for a server whose reach is too small."""
        return RefusedError(
            f"{site.netloc} has a loopback, link-local or private address, to which no public server may lead"
        )

    def note_reach(self, reach: int) -> None:
        """Record the reach of the model's server, whose name may resolve to another address the next time."""
        self._reach = reach if self._reach is None else max(reach, self._reach)


def _host_and_port(text: str) -> tuple[str, int]:
    host = text.strip()
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    site = site_of("https", host)
    return site.host, 0 if site.port in DEFAULT_PORTS.values() else site.port


def redirect_target(url: str, location: str | None) -> tuple[Site, str]:
    """Return the server, and the path with the query, of a Location header.

    url: the URL of the redirected request. Raises RefusedError.
    """
    if not location:
        raise RefusedError("the server redirects without a Location header")
    # http.client decodes headers as Latin-1.
    text = location.encode("latin-1", "replace").decode("utf-8", "replace").strip(" \t")
    if any(letter <= " " or letter == "\\" or "\x7f" <= letter <= "\x9f" for letter in text):
        raise RefusedError("the server redirects to an invalid address")
    try:
        parts = urlsplit(urljoin(url, text))
        if parts.scheme not in WEB_SCHEMES or "@" in parts.netloc:
            raise RefusedError("the server redirects to an address that is not plain http or https")
        site = site_of(parts.scheme, parts.netloc)
    except ValueError:
        raise RefusedError("the server redirects to an invalid address") from None
    return site, quote_path(parts.path) + quote_query(f"?{parts.query}" if parts.query else "")
