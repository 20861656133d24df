"""`tool_call_guard`: text passes as it comes, tool calls only once they are whole and valid.

From the first piece of a tool call on all is held, so that the order stays, until every choice has finished.
A broken call never reaches the client. If it has got nothing yet, the attempt has failed, and one without
streaming may follow; else it is told in-band.
"""

from relay.core.dialects.base import EventKind
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.hedging import is_replayable_without_key
from relay.core.sse import Event
from relay.upstream.attempt import Attempt
from relay.upstream.readings.common import MAX_WHOLE_BYTES, broken_tool_call
from relay.upstream.readings.events import demand_event_stream
from relay.upstream.readings.stream import StreamRelay


async def read_by_policy(attempt: Attempt) -> EndReason:
    """A stream for a stream, guarded if the attempt's policy says so."""
    await demand_event_stream(attempt)
    relay = GuardedRelay if attempt.plan.policy.tool_call_guard else StreamRelay
    return await relay(attempt).run()


class GuardedRelay(StreamRelay):
    """Looks at each event by itself: what carries a tool call must not pass with the text before it."""

    __slots__ = ("_calls", "_calls_passed", "_calls_size")

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._calls: list[bytes] = []
        self._calls_size = 0
        self._calls_passed = 0

    @property
    def _is_withheld(self) -> bool:
        return bool(self._calls)

    def _take(self, data: bytes) -> bytes:
        return self._take_last(self._reader.feed(data))

    def _take_last(self, events: list[Event]) -> bytes:
        ready: list[bytes] = []
        try:
            for event in events:
                self._take_one(event, ready)
        except AttemptFailed:
            self._pump.put_now(b"".join(ready))  # what came whole before the failure is the client's
            raise
        if self._is_ripe():
            ready.append(self._commit())
        return b"".join(ready)

    def _pass_on(self, data: bytes) -> bool:  # noqa: ARG002  each read takes its turn
        return False

    def _release(self) -> None:
        if not self._is_withheld:
            super()._release()

    def _take_one(self, event: Event, ready: list[bytes]) -> None:
        attempt = self._attempt
        kind, out = self._reader.judge_one(event)
        if kind is EventKind.TERMINAL and not attempt.events:
            raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="only_terminal")
        if attempt.is_committed:
            ready.append(self._checked(out))
        elif kind is not EventKind.COMMENT or self._held_events:
            self._hold(self._checked(out))
            if kind is EventKind.CONTENT and not self._is_withheld:
                ready.append(self._commit())

    def _is_ripe(self) -> bool:
        """Nothing but preamble is held, and that for long enough."""
        attempt = self._attempt
        if attempt.is_committed or not attempt.events or self._is_withheld:
            return False
        if self._facts.terminal_seen or self._is_hold_over():
            return True
        self._start_hold_timer()
        return False

    def _checked(self, out: bytes) -> bytes:
        """What may pass now: `out`, nothing, or all that was held. AttemptFailed for a broken tool call."""
        facts = self._facts
        if not self._calls and facts.tool_call_count <= self._calls_passed:
            return out
        self._calls.append(out)
        self._calls_size += len(out)
        if self._calls_size > MAX_WHOLE_BYTES:
            raise AttemptFailed(EndReason.RESPONSE_TOO_LARGE, error_class="tool_calls")
        return self._settled() if facts.every_choice_finished or facts.terminal_seen else b""

    def _settled(self) -> bytes:
        facts = self._facts
        if not facts.every_choice_finished:
            self._reader.inspector.closing()  # looks at the calls of choices that never finished
        if facts.is_tool_call_broken:
            self._tell_now_or_never()
            raise broken_tool_call()
        self._calls_passed = facts.tool_call_count
        self._calls_size = 0
        whole = b"".join(self._calls)
        self._calls.clear()
        return whole

    def _tell_now_or_never(self) -> None:
        """Where asking again needs an `Idempotency-Key`, it is not done: the answer begins, with an error."""
        attempt = self._attempt
        if not attempt.is_committed and not is_replayable_without_key(attempt.request):
            self._held.clear()
            self._commit()
