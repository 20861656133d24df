"""The error tree of the relay.

`Refusal` is what a client is told; a dialect renders it. `AttemptFailed` is what one attempt met; the
retry tables decide what follows. Neither ever carries an upstream secret, URL or prompt text.
"""

import traceback

from relay.core.end_reasons import EndReason


class RelayError(Exception):
    """Root of everything the relay raises on purpose."""


class Refusal(RelayError):
    """An answer that is an error, to be rendered in the client's dialect.

    status: HTTP status. kind: OpenAI's `type`, e.g. `invalid_request_error`. code: machine-readable
    reason. param: the offending field. retry_after_s: seconds, becomes `Retry-After`. headers: more that
    the client gets, such as `x-ratelimit-*`.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.headers = headers
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s


class SecretUnavailable(RelayError):
    """A channel's credential cannot be unsealed. Says why in a word, never with the sealed text."""


class AttemptFailed(RelayError):
    """One attempt gave no whole answer. Before its commit point another one may follow.

    status: the upstream's HTTP status, if it sent one. error_class: a short scrubbed word for records
    (`ConnectError`, `html`, `overloaded_error`). message: scrubbed text for the client where the upstream
    gave one, else "".
    """

    def __init__(
        self,
        reason: EndReason,
        *,
        status: int | None = None,
        error_class: str = "",
        message: str = "",
        code: str | None = None,
        kind: str | None = None,
        param: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(f"{reason} {status or ''} {error_class}".strip())
        self.reason = reason
        self.status = status
        self.error_class = error_class
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.retry_after = retry_after


def described(error: BaseException) -> str:
    """An exception for the log: its class and where it was raised. Its message may quote prompts."""
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    return f"{type(error).__module__}.{type(error).__qualname__}\n{frames}"
