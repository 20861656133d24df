"""Which URLs and addresses an upstream may have: public ones, and the private networks that are allowed.

Judges text only. Names are resolved elsewhere, and every resolved address is put to
`is_allowed_address` before it is dialled. Must not import socket or an HTTP library.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from relay.core.errors import RelayError
from relay.core.path_families import normalise_path

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
_HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+", re.ASCII)
_VERSION_TAIL = re.compile(r"/v1(?:beta)?/*$", re.ASCII)
_VERSION_HEAD = re.compile(r"/v1(?:beta)?(?:/|$)", re.ASCII)


class UnsafeUrl(RelayError):
    """A URL that a channel must not have; the text says why, without repeating the URL."""


def is_allowed_address(address: str, allowed_private: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether an IP address may be dialled. Text that is no address is refused.

    IPv6 addresses that wrap an IPv4 one (mapped, NAT64, 6to4) are judged by what they wrap.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if _is_within(ip, allowed_private):
        return True
    if isinstance(ip, IPv6Address):
        wrapped = _wrapped_ipv4(ip)
        if wrapped is None:
            return ip in _GLOBAL_UNICAST and ip.is_global and not ip.is_multicast
        ip = wrapped
    return _is_within(ip, allowed_private) or (ip.is_global and not ip.is_multicast and not ip.is_reserved)


def check_base_url(url: str, allowed_private: Sequence[IPv4Network | IPv6Network]) -> str:
    """The base URL in the form channels keep it: no trailing slash, no final `/v1`.

    Raises `UnsafeUrl`.
    """
    if any(character <= " " or character == "\x7f" for character in url) or "\\" in url:
        raise UnsafeUrl("The URL contains spaces, control characters or backslashes.")
    parts, port = _split(url)
    host = _checked_host(parts.hostname or "", allowed_private)
    path = parts.path.rstrip("/")
    if path and normalise_path(path) != path:
        raise UnsafeUrl("The URL's path contains dot segments, empty segments or encoded characters.")
    path = path.removesuffix("/v1")
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def join_url(base_url: str, path: str, query: str = "") -> str:
    """Joins a channel's base URL and a path; neither slashes nor `/v1` come out doubled.

    query: without `?`; "" = none. Nothing is added that neither side has.
    """
    if not path.startswith("/"):
        path = f"/{path}"
    if _VERSION_HEAD.match(path):
        base_url = _VERSION_TAIL.sub("", base_url)
    url = base_url.rstrip("/") + path
    return f"{url}?{query}" if query else url


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UnsafeUrl("The URL's host or port is not valid.") from error
    if parts.scheme not in {"http", "https"}:
        raise UnsafeUrl("The URL must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise UnsafeUrl("The URL must not contain a user name or password.")
    if "?" in url:
        raise UnsafeUrl("The URL must not contain a query.")
    if "#" in url:
        raise UnsafeUrl("The URL must not contain a fragment.")
    if not parts.hostname:
        raise UnsafeUrl("The URL names no host.")
    return parts, port


def _checked_host(host: str, allowed_private: Sequence[IPv4Network | IPv6Network]) -> str:
    """The host as it belongs into a URL: lower case, IPv6 in brackets, IPv4 in its usual form."""
    if ":" in host:
        return f"[{_checked_literal(host, allowed_private)}]"
    host = host.removesuffix(".")
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        if not any(is_allowed_address(address, allowed_private) for address in ("127.0.0.1", "::1")):
            raise UnsafeUrl(
                "localhost is a loopback address, which is not among the allowed private networks."
            )
        return host
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _checked_literal(_dotted(host), allowed_private)
    if len(host) > 253 or not _HOST_NAME.fullmatch(host):
        raise UnsafeUrl("The URL's host is not a valid name; international names must be in their xn-- form.")
    return host


def _checked_literal(address: str, allowed_private: Sequence[IPv4Network | IPv6Network]) -> str:
    try:
        ip = ip_address(address)
    except ValueError as error:
        raise UnsafeUrl("The URL's host is not a valid address.") from error
    if "%" in address or not is_allowed_address(address, allowed_private):
        raise UnsafeUrl(
            "The URL's address is private, loopback or otherwise not public, "
            "and not among the allowed private networks."
        )
    return ip.compressed


def _dotted(host: str) -> str:
    """Resolves the old spellings of IPv4 (decimal, octal, hex, fewer parts) as every resolver does."""
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise UnsafeUrl("The URL's host is not a valid address.")
    try:
        numbers = [_number(part) for part in parts]
    except ValueError as error:
        raise UnsafeUrl("The URL's host is not a valid address.") from error
    *heads, tail = numbers
    if any(head > 255 for head in heads) or tail >= 256 ** (4 - len(heads)):
        raise UnsafeUrl("The URL's host is not a valid address.")
    return str(IPv4Address(sum(head << (24 - 8 * at) for at, head in enumerate(heads)) + tail))


def _number(part: str) -> int:
    if part[:2].lower() == "0x":
        return int(part[2:] or "0", 16)
    return int(part, 8) if len(part) > 1 and part[0] == "0" else int(part)


def _is_within(ip: IPv4Address | IPv6Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(ip in network for network in networks)


def _wrapped_ipv4(ip: IPv6Address) -> IPv4Address | None:
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour
