"""`POST responses/compact`, `responses/input_tokens` and the like: passed on, answers looked at for usage.

They take the fields of a response, and so name stored objects in the same places. Sources:
https://platform.openai.com/docs/api-reference/responses/compact and /responses/input-tokens.
"""

from relay.core.dialects.base import Ask, WholeAnswer
from relay.core.dialects.opaque import Opaque
from relay.core.dialects.openai_responses.request import parse_action
from relay.core.dialects.token_counts import inspect_count


class ResponsesActions(Opaque):
    """The `Dialect` of what is done with the fields of a response."""

    name = "openai_responses_actions"

    def parse_request(self, body: bytes) -> Ask:
        return parse_action(body, is_count=False)


class ResponsesInputTokens(ResponsesActions):
    """`responses/input_tokens`: asked like a response, answered with a number, never streamed or billed."""

    name = "openai_responses_input_tokens"

    def parse_request(self, body: bytes) -> Ask:
        return parse_action(body, is_count=True)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Raises ValueError when the body is neither a count nor an error."""
        return inspect_count(body, "input_tokens")


RESPONSES_ACTIONS = ResponsesActions()
RESPONSES_INPUT_TOKENS = ResponsesInputTokens()
