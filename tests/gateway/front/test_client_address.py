"""Whose address counts when proxies stand between."""

from ipaddress import ip_network

import pytest

from gateway.front.connection import ClientConnection, client_address

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "1.1.1.1", "203.0.113.7"),  # not a proxy of ours: its word counts for nothing
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),  # the left one is the sender's own claim
        ("10.0.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2", "1.1.1.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),  # all ours: the first of them
        ("10.0.0.1", "1.1.1.1:5000", "1.1.1.1"),
        ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "::ffff:1.1.1.1", "1.1.1.1"),
        ("::ffff:10.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("fd00::1", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1,", "10.0.0.1"),
    ],
)
def test_client_address(peer: str, forwarded: str, expected: str) -> None:
    assert client_address({"client": (peer, 1)}, forwarded, TRUSTED) == expected


def test_unix_socket_has_no_address() -> None:
    assert client_address({"client": None}, "1.1.1.1", TRUSTED) == ""


def test_without_trusted_proxies_the_socket_counts() -> None:
    assert client_address({"client": ("10.0.0.1", 1)}, "1.1.1.1", ()) == "10.0.0.1"


def test_connection_of_another_server_is_harmless() -> None:
    connection = ClientConnection.from_scope({"type": "http"})
    connection.abort()
    assert (connection.can_abort, connection.unsent(), connection.unacknowledged()) == (False, 0, None)
