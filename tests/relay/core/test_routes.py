"""Which model route holds."""

import itertools

import pytest

from relay.core.routes import RouteIndex
from relay.core.types import ModelRoute

ROUTES = [
    ModelRoute(1, "*"),
    ModelRoute(2, "gpt-*"),
    ModelRoute(3, "gpt-4o*"),
    ModelRoute(4, "gpt-4o"),
    ModelRoute(5, "gpt-*", "vip"),
    ModelRoute(6, "*-mini", "vip"),
]


@pytest.mark.parametrize(
    ("group", "model", "route"),
    [
        ("free", "claude", 1),
        ("free", "", 1),
        ("free", "gpt-3", 2),
        ("vip", "gpt-3", 5),
        ("vip", "gpt-4o", 4),
        ("vip", "gpt-4o-mini", 3),
        ("free", "o-mini", 1),
        ("vip", "o-mini", 6),
    ],
)
def test_the_longest_literal_pattern_wins_and_a_named_group_before_all(group, model, route):
    for order in itertools.islice(itertools.permutations(ROUTES), 0, 720, 97):
        index = RouteIndex(order)
        assert index.find(group, model).id == route
        assert index.find(group, model).id == route, "remembered"


def test_no_route():
    assert RouteIndex().find("g", "m") is None
    assert RouteIndex([ModelRoute(1, "m", "vip")]).find("free", "m") is None


def test_names_without_end_are_not_all_remembered():
    index = RouteIndex(ROUTES)
    for number in range(5000):
        index.find("free", f"m{number}")
    assert len(index._found) <= 1024
