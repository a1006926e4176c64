"""Decide to which servers requests for one model may be sent: its own, targets of its redirects, and allowed ones."""

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

# The reach of an IP address. A redirect may not lead to an address with a smaller reach than the previous addresses.
LOCAL = 0  # loopback, link-local (metadata services of clouds), unspecified, multicast, reserved
PRIVATE = 1
GLOBAL = 2
_PRIVATE_NETWORKS = [
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")
]
# IPv6 networks in which the last 32 bits of an address are the IPv4 address that is contacted.
_IPV4_IN_IPV6_NETWORKS = [ip_network("::/96"), ip_network("64:ff9b::/96")]


def reach_of(address: str) -> int:
    """Return the reach of an IP address: LOCAL, PRIVATE or GLOBAL."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and not (ip.is_loopback or ip.is_unspecified):
        ipv4 = ip.ipv4_mapped or ip.sixtofour
        if ipv4 is None and any(ip in network for network in _IPV4_IN_IPV6_NETWORKS):
            ipv4 = IPv4Address(int(ip) & 0xFFFFFFFF)
        if ipv4 is not None:
            return reach_of(str(ipv4))
    if any(ip in network for network in _PRIVATE_NETWORKS):
        return PRIVATE
    return GLOBAL if ip.is_global and not ip.is_multicast else LOCAL


def addresses_of(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host, in the order to try. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(socket_address[0]) for *_, socket_address in infos))


class Hosts:
    """The hosts to which requests for one model and its external data may be sent.

    model_site: the model's server. allowed_hosts: more hosts, as `host` (default ports) or `host:port`, to which
    redirects may lead; if there are any, requests for the model itself may be redirected only to them and to the
    model's server. may_redirect: whether redirects to other hosts than allowed_hosts are followed; False for untrusted
    models, for which even redirects to the model's own server are refused. Raises ValueError for an invalid host.
    """

    def __init__(self, model_site: Site, allowed_hosts: Iterable[str] = (), *, may_redirect: bool = True) -> None:
        self._may_redirect = may_redirect
        self._model_site = model_site
        # Hosts and ports; the port 0 means a default port.
        self._allowed = {_host_and_port(text) for text in allowed_hosts}
        self._model_redirects: set[tuple[str, int]] = set()
        self._reach: int | None = None  # of the model's server; None before the first request

    def check_redirect(self, source: Site, target: Site, is_model: bool) -> None:
        """Raise RefusedError if a redirect may not lead to the target; UnknownHostError if nothing allows its host.

        source: the server that redirects. is_model: whether the request is for the model itself.
        """
        if source.scheme == "https" and target.scheme == "http":
            raise RefusedError(f"the server redirects from https to http://{target.netloc}, which is not followed")
        if not self._may_redirect:
            if target.host_and_port in self._allowed:
                return
            raise RefusedError(
                f"the server redirects to {target.netloc}, which is not followed for untrusted models; add that host "
                "to allow_hosts= if it is trusted"
            )
        known_hosts = {self._model_site.host_and_port, *self._allowed}
        if target.host_and_port in known_hosts or (not is_model and target.host_and_port in self._model_redirects):
            return
        if is_model and not self._allowed:
            return
        subject = "" if is_model else "external data "
        raise UnknownHostError(
            f"the server redirects {subject}to {target.netloc}, which is not followed; add that host to allow_hosts= "
            "if it is trusted"
        )

    def add_redirects(self, sites: Iterable[Site]) -> None:
        """Record the servers that a successful request for the model itself was redirected to."""
        self._model_redirects.update(site.host_and_port for site in sites)

    def allowed_addresses(self, site: Site, chain_reach: int | None) -> list[tuple[str, int]]:
        """Return the allowed IP addresses of a server with their reach, in the order to try.

        chain_reach: the largest reach so far in a chain of redirects, or None for the first request. If a host has
        global addresses, only those are allowed. Raises RefusedError if no address is allowed, OSError for an unknown
        host.
        """
        addresses = [(address, reach_of(address)) for address in addresses_of(site.host, site.port)]
        min_reach = self.min_reach(chain_reach)
        if any(reach == GLOBAL for _, reach in addresses):
            min_reach = GLOBAL
        allowed = [(address, reach) for address, reach in addresses if reach >= min_reach]
        if not allowed:
            raise self.reach_error(site)
        return allowed

    def min_reach(self, chain_reach: int | None) -> int:
        """Return the minimum reach of an address to connect to. chain_reach: as for `allowed_addresses`."""
        return max(
            chain_reach if chain_reach is not None else LOCAL, self._reach if chain_reach is None and self._reach else 0
        )

    def reach_error(self, site: Site) -> RefusedError:
        """Return the error for a server whose reach is too small."""
        return RefusedError(
            f"{site.netloc} has a loopback, link-local or private address, or a reserved one; requests for this model "
            "were sent to a more public address before, so they may not be sent to this one"
        )

    def note_reach(self, reach: int) -> None:
        """Record the reach of the model's server, whose name may resolve to another address the next time."""
        self._reach = reach if self._reach is None else max(reach, self._reach)


def _host_and_port(text: str) -> tuple[str, int]:
    """Return the host and port of `host` or `host:port`, as in `Site.host_and_port`. Raises ValueError."""
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
            raise RefusedError("the server redirects to an address that is not plain http or https, or has a user")
        site = site_of(parts.scheme, parts.netloc)
    except ValueError:
        raise RefusedError("the server redirects to an invalid address") from None
    return site, quote_path(parts.path) + quote_query(f"?{parts.query}" if parts.query else "")
