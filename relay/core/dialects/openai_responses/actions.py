"""`POST responses/compact`, `responses/input_tokens` and the like: passed on, answers looked at for usage.

They take the fields of a response, and so name stored objects in the same places.
"""

from relay.core.dialects.base import Ask
from relay.core.dialects.opaque import Opaque
from relay.core.dialects.openai_responses.request import refuse_stored_objects


class ResponsesActions(Opaque):
    """The `Dialect` of what is done with the fields of a response."""

    name = "openai_responses_actions"

    def parse_request(self, body: bytes) -> Ask:
        ask = super().parse_request(body)
        refuse_stored_objects(ask.fields)
        return ask


RESPONSES_ACTIONS = ResponsesActions()
