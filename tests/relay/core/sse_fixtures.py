"""Event streams as upstreams send them, with the events a client must see.

Each expected event is (event, data, id, retry). Shared by the tests of the parser, dialects and pump.
"""

from dataclasses import dataclass

from relay.core.sse import Event


@dataclass(frozen=True, slots=True)
class StreamFixture:
    name: str
    body: bytes
    events: tuple[Event, ...]


def _fixture(name: str, body: str | bytes, *events: Event) -> StreamFixture:
    return StreamFixture(name, body.encode() if isinstance(body, str) else body, events)


OPENAI_CHUNK = (
    '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    '"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}'
)
OPENAI_FINISH = '{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
AZURE_FIRST = (
    '{"choices":[],"created":0,"id":"","model":"","object":"",'
    '"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}'
)
ANTHROPIC_START = '{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":7}}}'
ANTHROPIC_DELTA = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé"}}'
UNICODE_ENDS = '{"t":"a\u2028b\u2029c\u0085d\x0be\x0cf"}'
GEMINI_CHUNK = '{"candidates":[{"content":{"parts":[{"text":"Hallo 🌍"}]}}]}'

FIXTURES: tuple[StreamFixture, ...] = (
    _fixture(
        "openai",
        f"data: {OPENAI_CHUNK}\n\ndata: {OPENAI_FINISH}\n\ndata: [DONE]\n\n",
        Event("message", OPENAI_CHUNK),
        Event("message", OPENAI_FINISH),
        Event("message", "[DONE]"),
    ),
    _fixture(
        "anthropic",
        f'event: message_start\ndata: {ANTHROPIC_START}\n\nevent: ping\ndata: {{"type": "ping"}}\n\n'
        f"event: content_block_delta\ndata: {ANTHROPIC_DELTA}\n\n",
        Event("message_start", ANTHROPIC_START),
        Event("ping", '{"type": "ping"}'),
        Event("content_block_delta", ANTHROPIC_DELTA),
    ),
    _fixture(
        "azure_prompt_filter_first",
        f"data: {AZURE_FIRST}\n\ndata: {OPENAI_CHUNK}\n\ndata: [DONE]\n\n",
        Event("message", AZURE_FIRST),
        Event("message", OPENAI_CHUNK),
        Event("message", "[DONE]"),
    ),
    _fixture(
        "gemini_crlf",
        f"data: {GEMINI_CHUNK}\r\n\r\ndata: {GEMINI_CHUNK}\r\n\r\n",
        Event("message", GEMINI_CHUNK),
        Event("message", GEMINI_CHUNK),
    ),
    _fixture(
        "cr_only",
        "event: a\rdata: 1\r\rdata: 2\r\r",
        Event("a", "1"),
        Event("message", "2"),
    ),
    _fixture(
        "mixed_line_ends",
        "data: 1\r\n\ndata: 2\n\r\ndata: 3\r\rdata: 4\n\ndata: 5\r\n\r\n",
        *(Event("message", str(number)) for number in range(1, 6)),
    ),
    _fixture(
        "bom_at_the_start_only",
        b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: lost\n\ndata: \xef\xbb\xbf2\n\n",
        Event("message", "1"),
        Event("message", "\ufeff2"),
    ),
    _fixture(
        "multi_line_data",
        'data: {\ndata: "a": 1\ndata: }\n\ndata:\ndata:\n\ndata\n\n',
        Event("message", '{\n"a": 1\n}'),
        Event("message", "\n"),
        Event("message", ""),
    ),
    _fixture(
        "comments",
        ": OPENROUTER PROCESSING\n\n: keepalive\ndata: 1\n: inside\n\n:\n\ndata: 2\n\n",
        Event("message", "1"),
        Event("message", "2"),
    ),
    _fixture(
        "unicode_line_ends_are_text",
        f"data: {UNICODE_ENDS}\n\ndata: {OPENAI_FINISH}\n\n",
        Event("message", UNICODE_ENDS),
        Event("message", OPENAI_FINISH),
    ),
    _fixture(
        "no_space_after_the_colon",
        f"data:{OPENAI_CHUNK}\n\nevent:x\ndata:  two spaces\n\ndata:[DONE]\n\n",
        Event("message", OPENAI_CHUNK),
        Event("x", " two spaces"),
        Event("message", "[DONE]"),
    ),
    _fixture(
        "ids",
        "id: 1\ndata: a\n\ndata: b\n\nid: x\0y\ndata: c\n\nid: 2\n\ndata: d\n\nid\ndata: e\n\n",
        Event("message", "a", "1"),
        Event("message", "b", "1"),
        Event("message", "c", "1"),
        Event("message", "d", "2"),
        Event("message", "e", ""),
    ),
    _fixture(
        "retry_digits_only",
        f"retry: 3000\ndata: a\n\nretry: 1s\ndata: b\n\nretry: -1\ndata: c\n\nretry:٣\ndata: d\n\n"
        f"retry: {'9' * 5000}\ndata: e\n\n",
        Event("message", "a", "", 3000),
        *(Event("message", letter) for letter in "bcde"),
    ),
    _fixture(
        "event_name_without_data_is_forgotten",
        "event: lost\n\ndata: a\n\nevent:\ndata: b\n\nevent: one\nevent: two\ndata: c\n\n",
        Event("message", "a"),
        Event("message", "b"),
        Event("two", "c"),
    ),
    _fixture(
        "unknown_fields_and_case",
        "Data: x\n data: y\nfoo: z\ndata: a\n\nEVENT: q\ndata: b\n\n",
        Event("message", "a"),
        Event("message", "b"),
    ),
    _fixture(
        "blank_lines_between",
        "\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n",
        Event("message", "a"),
        Event("message", "b"),
    ),
    _fixture(
        "bytes_that_are_not_utf8",
        b"data: \xff\xfe \xe2\x82 \xf0\x9f\n\nevent: \xc3\ndata: \xc3\ndata: \xa9\n\n",
        Event("message", "\ufffd\ufffd \ufffd \ufffd"),
        Event("\ufffd", "\ufffd\n\ufffd"),
    ),
    _fixture(
        "undelimited_tail_is_not_an_event",
        "data: a\n\nevent: b\ndata: not whole\n",
        Event("message", "a"),
    ),
)
