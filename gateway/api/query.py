"""The query of a request that the gateway answers itself: names, and sizes of pages."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from django.http import HttpRequest

from gateway.front.request import client_request
from relay.core.errors import Refusal

Query = Mapping[str, list[str]]

_DIGITS_READ = 7
"""More are more than any page has; thousands could not even be read."""


def query_of(request: HttpRequest) -> Query:
    return parse_qs(client_request(request).scope["query_string"].decode("ascii", "replace"))


def count_asked(query: Query, name: str) -> int | None:
    """A number of 1 or more; None where there is none. Raises Refusal 400 for anything else."""
    given = query.get(name)
    if given is None:
        return None
    digits = given[-1].lstrip("0")
    if not (digits.isascii() and digits.isdecimal()):
        raise Refusal(400, f"'{name}' must be a number of 1 or more.", code="invalid_value", param=name)
    return int(digits[:_DIGITS_READ])
