"""The health store as its users see it. Must not import: models, Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class HealthUnavailable(Exception):
    """The store did not answer in time. What was told may be lost: health is a hint, not money."""


class RouteKind(StrEnum):
    CHANNEL = "channel"
    KEY = "key"


class Route(NamedTuple):
    """A channel or an upstream key, by its row's id."""

    kind: RouteKind
    id: int


@dataclass(frozen=True, slots=True)
class RouteHealth:
    """failures: in a row. cooling_s: seconds it still rests, 0 = it does not. reason: a word of ours."""

    failures: int = 0
    cooling_s: float = 0.0
    reason: str = ""


class HealthStore(Protocol):
    """Thread-safe; called off the event loop. Errors of every method: HealthUnavailable."""

    def failed(self, route: Route) -> int:
        """One more failure; how many there are in a row now."""
        ...

    def succeeded(self, route: Route) -> None:
        """The row of failures is over, and so is a rest."""
        ...

    def cool(self, route: Route, seconds: float, reason: str) -> None:
        """Let it rest; of two rests the one that ends later counts."""
        ...

    def clear(self, routes: Sequence[Route]) -> None:
        """Forget failures and rests: an operator said so, or it was switched on again."""
        ...

    def states(self) -> Mapping[Route, RouteHealth]:
        """Every route of which something is known."""
        ...
