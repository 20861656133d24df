"""The registry of dialects: one wire protocol each, all shaped after `base.Dialect`.

To add one: a module or package beside these, an entry here, its fixtures in tests/relay/core/dialects.
"""

from collections.abc import Mapping

from relay.core.dialects.anthropic import ANTHROPIC, ANTHROPIC_COUNT_TOKENS
from relay.core.dialects.base import Dialect
from relay.core.dialects.gemini import GEMINI_DIALECTS
from relay.core.dialects.opaque import OPAQUE
from relay.core.dialects.openai_chat import OPENAI_CHAT
from relay.core.dialects.openai_completions import OPENAI_COMPLETIONS
from relay.core.dialects.openai_json import IMAGES, SPEECH, TRANSCRIPTIONS, VECTORS
from relay.core.dialects.openai_responses import OPENAI_RESPONSES
from relay.core.dialects.openai_responses.actions import RESPONSES_ACTIONS, RESPONSES_INPUT_TOKENS

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        OPENAI_CHAT,
        OPENAI_RESPONSES,
        RESPONSES_ACTIONS,
        RESPONSES_INPUT_TOKENS,
        OPENAI_COMPLETIONS,
        VECTORS,
        IMAGES,
        SPEECH,
        TRANSCRIPTIONS,
        ANTHROPIC,
        ANTHROPIC_COUNT_TOKENS,
        *GEMINI_DIALECTS,
        OPAQUE,
    )
}
