"""Vectors, images and sound: bodies that pass byte for byte, and the usage that is read on the way."""

import json

import pytest

from relay.core.dialects import IMAGES, SPEECH, TRANSCRIPTIONS, VECTORS
from relay.core.dialects.base import AggregationFailed, EventKind, ReadsForms
from relay.core.errors import Refusal
from relay.core.estimate import BYTES_PER_TOKEN, MEDIA_TOKENS
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import events_of
from tests.relay.core.dialects.responses_samples import events_of as cut_events_of

ALL = (VECTORS, IMAGES, SPEECH, TRANSCRIPTIONS)
FORM_TYPE = "multipart/form-data; boundary=XyZ"


def form(*fields: tuple[str, bytes]) -> bytes:
    """With a file in it that holds every byte."""
    file = (
        b'--XyZ\r\nContent-Disposition: form-data; name="file"; filename="\xe7\x8c\xab.wav"\r\n\r\n'
        + bytes(range(256))
    )
    parts = [
        b'--XyZ\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s' % (n.encode(), v) for n, v in fields
    ]
    return b"\r\n".join([*parts[:1], file, *parts[1:], b"--XyZ--\r\n"])


def built(dialect, ask, *, model: str | None = None, overrides=None) -> bytes:
    return dialect.build_request(
        ask,
        model=ask.model if model is None else model,
        stream=True,
        request_usage=True,
        overrides=overrides or {},
    )


@pytest.mark.parametrize("dialect", ALL, ids=lambda one: one.name)
class TestEveryOne:
    BODY = b'{ "model":"m",  "input": "gr\\u00f6\xc3\x9fe", "x":[1, 2.50] }'

    def test_the_body_passes_as_it_came(self, dialect):
        assert built(dialect, dialect.parse_request(self.BODY)) == self.BODY

    def test_only_what_must_change_does(self, dialect):
        sent = json.loads(built(dialect, dialect.parse_request(self.BODY), model="other", overrides={"x": 1}))
        assert sent == {"model": "other", "input": "größe", "x": 1}

    def test_policies_find_nothing_to_do(self, dialect):
        ask = dialect.parse_request(self.BODY)
        assert ask.is_raw or not ask.has_streamed_form
        with pytest.raises(AggregationFailed):
            dialect.aggregator(ask).whole()
        with pytest.raises(ValueError, match="no events"):
            dialect.whole_to_events(b"{}", ask)

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b"{", b'{"model":7}', b'{"model":"%s"}' % (b"m" * 257), b"model=m"]
    )
    def test_bad_bodies(self, dialect, body):
        with pytest.raises(Refusal) as refused:
            dialect.parse_request(body)
        assert refused.value.status == 400

    @pytest.mark.parametrize(
        "body", [b'{"model":"cheap","model":"m"}', b'{"model":"cheap","mod\\u0065l":"m"}']
    )
    def test_a_repeated_model_reaches_the_upstream_once(self, dialect, body):
        ask = dialect.parse_request(body)
        assert ask.model == "m"
        assert built(dialect, ask) == b'{"model":"m"}'


@pytest.mark.parametrize(
    ("dialect", "expected"), [(VECTORS, False), (SPEECH, False), (IMAGES, True), (TRANSCRIPTIONS, True)]
)
def test_who_reads_forms(dialect, expected):
    assert isinstance(dialect, ReadsForms) is expected


@pytest.mark.parametrize("dialect", [SPEECH, TRANSCRIPTIONS])
def test_sound_needs_a_model(dialect):
    with pytest.raises(Refusal) as refused:
        dialect.parse_request(b'{"input":"x"}')
    assert refused.value.param == "model"


@pytest.mark.parametrize("dialect", [VECTORS, IMAGES])
def test_others_have_a_default_of_their_own(dialect):
    assert dialect.parse_request(b'{"input":"x"}').model == ""


@pytest.mark.parametrize("dialect", [IMAGES, TRANSCRIPTIONS])
class TestForms:
    def test_what_is_read(self, dialect):
        body = form(("model", b"m"), ("stream", b"True"), ("n", b"2"), ("size", b"1024x1024"))
        ask = dialect.parse_form(body, FORM_TYPE)
        assert (ask.model, ask.stream, ask.is_raw) == ("m", True, True)
        assert {name: json.loads(bytes(raw)) for name, raw in ask.fields.items()} == {
            "model": "m", "stream": "True", "n": 2, "size": "1024x1024",
        }  # fmt: skip
        assert built(dialect, ask, overrides={"x": 1}) == body

    def test_a_file_is_a_prompt_of_its_own_size_to_nobody(self, dialect):
        """What is held for a request goes by its prompt: a recording of 20 MB is not 7 million tokens."""
        ask = dialect.parse_form(form(("model", b"m"), ("prompt", b"x" * 600)), FORM_TYPE)
        assert ask.prompt_bytes == 601 + MEDIA_TOKENS * BYTES_PER_TOKEN
        assert dialect.parse_request(b'{"model":"m"}').prompt_bytes is None

    def test_only_the_models_name_changes(self, dialect):
        body = form(("prompt", b"model"), ("model", b"m"))
        sent = built(dialect, dialect.parse_form(body, FORM_TYPE), model="another/model")
        assert sent == body.replace(b"\r\n\r\nm\r\n", b"\r\n\r\nanother/model\r\n")

    @pytest.mark.parametrize(
        "fields",
        [[("model", b"a"), ("model", b"b")], [("model", b"m"), ("n", b"two")], [("model", b"m" * 257)]],
    )
    def test_what_is_refused(self, dialect, fields):
        with pytest.raises(Refusal) as refused:
            dialect.parse_form(form(*fields), FORM_TYPE)
        assert refused.value.status == 400


def test_a_picture_form_without_a_model_is_never_renamed():
    body = form(("prompt", b"a hat"))
    ask = IMAGES.parse_form(body, FORM_TYPE)
    assert (ask.model, built(IMAGES, ask, model="mapped")) == ("", body)


def test_a_recording_without_a_model():
    with pytest.raises(Refusal, match="model"):
        TRANSCRIPTIONS.parse_form(form(("prompt", b"x")), FORM_TYPE)


@pytest.mark.parametrize(
    ("fields", "is_raw"),
    [([], False), ([("response_format", b"json")], False), ([("response_format", b"verbose_json")], False),
     ([("response_format", b"srt")], True), ([("response_format", b"text")], True), ([("stream", b"true")], True),
     ([("stream", b"false")], False)],
)  # fmt: skip
def test_only_json_answers_of_transcriptions_are_read_whole(fields, is_raw):
    ask = TRANSCRIPTIONS.parse_form(form(("model", b"whisper-1"), *fields), FORM_TYPE)
    assert ask.is_raw is ask.has_streamed_form is is_raw


# Whole answers.

VECTOR = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # https://platform.openai.com/docs/api-reference/embeddings/create
        ({"data": [VECTOR], "model": "e", "usage": {"prompt_tokens": 8, "total_tokens": 8}}, TokenUsage(input=8, output=0)),
        # vLLM adds completion_tokens: 0 and prompt_tokens_details: null.
        (
            {"data": [], "usage": {"prompt_tokens": 8, "completion_tokens": 0, "total_tokens": 8, "prompt_tokens_details": None}},
            TokenUsage(input=8, output=0),
        ),
        # Jina and vLLM rerank: a total alone.
        ({"results": [], "usage": {"total_tokens": 19}}, TokenUsage(input=19, output=0)),
        # Cohere v2 rerank and embed.
        ({"results": [], "meta": {"billed_units": {"search_units": 1}}}, TokenUsage(output=0)),
        ({"embeddings": [[1]], "meta": {"billed_units": {"input_tokens": 5}}}, TokenUsage(input=5, output=0)),
        # OpenAI's moderations report none.
        ({"results": [{"flagged": False}], "model": "omni-moderation-latest"}, TokenUsage(output=0)),
        # infinity-emb, text-embeddings-inference: none or null.
        ({"data": [VECTOR], "usage": None}, TokenUsage(output=0)),
    ],
)  # fmt: skip
def test_vectors_have_no_output(answer, expected):
    found = VECTORS.inspect_whole(json.dumps(answer).encode())
    assert found.usage == expected
    assert (found.model, found.error, found.soft_errors) == (answer.get("model", ""), None, ())


def test_an_absurd_count():
    found = VECTORS.inspect_whole(b'{"data":[],"usage":{"prompt_tokens":-1,"total_tokens":-1}}')
    assert (found.usage, found.soft_errors) == (TokenUsage(output=0), ("usage_absurd",))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # gpt-image-1: https://platform.openai.com/docs/api-reference/images/object
        (
            {
                "data": [{"b64_json": "AAAA"}, {"b64_json": "BBBB"}],
                "usage": {"input_tokens": 50, "output_tokens": 8320, "total_tokens": 8370,
                          "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}},
            },
            TokenUsage(input=50, image_input=40, output=8320, image_output=8320, images=2),
        ),
        # gpt-image-1.5 thinks in text before it draws.
        (
            {
                "data": [{"b64_json": "AAAA"}],
                "usage": {"input_tokens": 5, "output_tokens": 100, "total_tokens": 105,
                          "output_tokens_details": {"text_tokens": 20, "image_tokens": 80}},
            },
            TokenUsage(input=5, output=100, image_output=80, images=1),
        ),
        # dall-e-3 has no usage, and tells how it understood the prompt.
        ({"data": [{"url": "https://x.org/1.png", "revised_prompt": "a hat"}]}, TokenUsage(images=1)),
        # A filter took one of two; an empty list.
        ({"data": [{"b64_json": "AAAA"}, {"b64_json": None, "error": "filtered"}]}, TokenUsage(images=1)),
        ({"data": []}, TokenUsage(images=0)),
    ],
)  # fmt: skip
def test_pictures_are_counted(answer, expected):
    assert IMAGES.inspect_whole(json.dumps(answer).encode()).usage == expected


@pytest.mark.parametrize(
    ("answer", "expected", "soft"),
    [
        # gpt-4o-transcribe: details in the singular.
        (
            {"text": "x", "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59,
                                    "input_token_details": {"text_tokens": 10, "audio_tokens": 4}}},
            TokenUsage(input=14, audio_input=4, output=45), (),
        ),
        # whisper-1: by length, which is what it bills; verbose_json has both.
        ({"text": "x", "usage": {"type": "duration", "seconds": 9}}, TokenUsage(input=0, output=0, audio_ms=9000), ()),
        ({"text": "x", "duration": 8.47, "usage": {"type": "duration", "seconds": 9}}, TokenUsage(input=0, output=0, audio_ms=9000), ()),
        ({"text": "x", "duration": 8.470000267028809, "segments": []}, TokenUsage(input=0, output=0, audio_ms=8470), ()),
        # Older answers, and Groq's: a text.
        ({"text": "x", "duration": "8.47"}, TokenUsage(input=0, output=0, audio_ms=8470), ()),
        ({"text": "x"}, None, ()),
        ({"text": "x", "usage": None, "duration": None}, None, ()),
        ({"text": "x", "duration": -1}, None, ("usage_absurd",)),
        ({"text": "x", "duration": "long"}, None, ("usage_absurd",)),
        ({"text": "x", "duration": [1]}, None, ("usage_absurd",)),
        ({"text": "x", "duration": "1e999"}, None, ("usage_absurd",)),
        ({"text": "x", "duration": "nan"}, None, ("usage_absurd",)),
        ({"text": "x", "usage": {"type": "duration", "seconds": 10**12}}, None, ("usage_absurd",)),
    ],
)  # fmt: skip
def test_recordings(answer, expected, soft):
    found = TRANSCRIPTIONS.inspect_whole(json.dumps(answer).encode())
    assert (found.usage, found.soft_errors) == (expected, soft)


@pytest.mark.parametrize("dialect", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"error":{"message":"no","code":"c"}}', "c"), (b'{"object":"error","message":"no","code":"v"}', "v")],
)
def test_an_error_inside_a_200(dialect, body, code):
    assert dialect.inspect_whole(body).error.code == code


@pytest.mark.parametrize("dialect", [VECTORS, IMAGES])
@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"{}", b'{"data":"x"}', b'{"choices":[]}'])
def test_what_is_no_answer(dialect, body):
    with pytest.raises(ValueError, match=r".*"):
        dialect.inspect_whole(body)


@pytest.mark.parametrize(("text", "characters"), [("hello", 5), ("größe 猫", 7), ("", 0), ("\U0001f600", 1)])
def test_speech_is_paid_by_its_characters(text, characters):
    ask = SPEECH.parse_request(json.dumps({"model": "tts-1", "input": text}).encode())
    assert ask.known_usage == TokenUsage(characters=characters)
    assert ask.is_raw
    assert not ask.stream


def test_speech_in_events():
    assert SPEECH.parse_request(b'{"model":"m","input":"x","stream_format":"sse"}').stream


def test_speech_of_something_else_than_text():
    with pytest.raises(Refusal, match="input"):
        SPEECH.parse_request(b'{"model":"tts-1","input":["a"]}')


# Streams.


def event(kind: str, **members: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **members}).encode())


PARTIAL = event("image_generation.partial_image", partial_image_index=0, b64_json="AAAA")
IMAGE_USAGE = {"input_tokens": 5, "output_tokens": 100, "total_tokens": 105}
DRAWN = event("image_generation.completed", b64_json="BBBB", usage=IMAGE_USAGE)
SAID = event("transcript.text.delta", delta="größe")
WRITTEN = event(
    "transcript.text.done", text="größe", usage={"type": "tokens", "input_tokens": 14, "output_tokens": 2}
)
SPOKEN = event("speech.audio.delta", audio="AAAA")
SPOKEN_OUT = event("speech.audio.done", usage={"input_tokens": 14, "output_tokens": 101, "total_tokens": 115})


def judged(dialect, ask, *frames: bytes, cuts=()):
    inspector = dialect.stream_inspector(ask)
    seen = [inspector.observe(one, 3) for one in cut_events_of(b"".join(frames), cuts)]
    return inspector.facts, [kind for kind, _ in seen], b"".join(out for _, out in seen)


STREAMS = [
    (
        IMAGES,
        b'{"model":"m","stream":true}',
        [PARTIAL, DRAWN],
        TokenUsage(input=5, output=100, image_output=100, images=1),
    ),
    (TRANSCRIPTIONS, b'{"model":"m","stream":true}', [SAID, SAID, WRITTEN], TokenUsage(input=14, output=2)),
    (
        SPEECH,
        b'{"model":"m","input":"x","stream_format":"sse"}',
        [SPOKEN, SPOKEN_OUT],
        TokenUsage(input=14, output=101),
    ),
]


@pytest.mark.parametrize(
    ("dialect", "asked", "frames", "usage"), STREAMS, ids=["image", "transcript", "speech"]
)
class TestStreams:
    def test_whole_and_at_every_split(self, dialect, asked, frames, usage):
        ask, data = dialect.parse_request(asked), b"".join(frames)
        for cuts in [(), *([cut] for cut in range(1, len(data))), range(1, len(data))]:
            facts, kinds, out = judged(dialect, ask, data, cuts=cuts)
            assert (out, kinds) == (data, [EventKind.CONTENT] * len(frames))
            assert facts.terminal_seen
            assert facts.usage == usage

    def test_without_its_last_event_it_is_unfinished(self, dialect, asked, frames, usage):
        facts, _, _ = judged(dialect, dialect.parse_request(asked), *frames[:-1])
        assert not facts.terminal_seen
        assert facts.terminal_required
        assert not facts.every_choice_finished
        assert facts.usage is None is not usage

    def test_nothing_follows_the_last_event(self, dialect, asked, frames, usage):
        facts, _, out = judged(dialect, dialect.parse_request(asked), *frames, b"data: [DONE]\n\n", frames[0])
        assert (out, facts.usage) == (b"".join(frames), usage)

    @pytest.mark.parametrize(
        "frame",
        [
            b'event: error\ndata: {"type":"error","error":{"message":"no","code":"c"}}\n\n',
            b'data: {"error":{"message":"no","code":"c"}}\n\n',
        ],
    )
    def test_errors(self, dialect, asked, frames, usage, frame):
        facts, kinds, out = judged(dialect, dialect.parse_request(asked), frames[0], frame)
        assert kinds == [EventKind.CONTENT, EventKind.ERROR]
        assert (out, facts.error.code) == (frames[0], "c")
        assert usage is not None

    def test_what_is_no_event(self, dialect, asked, frames, usage):
        facts, kinds, out = judged(
            dialect, dialect.parse_request(asked), b"data: oops\n\n", b": hi\n\n", b"id: 1\n" + frames[0]
        )
        assert kinds == [EventKind.INVALID, EventKind.COMMENT, EventKind.CONTENT]
        assert out == b": hi\n\n" + frames[0]
        assert [one.error_class for one in facts.soft_errors] == ["not_json"]
        assert usage is not None


@pytest.mark.parametrize(
    "asked", [b'{"model":"m","stream":true,"n":2}', form(("model", b"m"), ("n", b"2"), ("stream", b"true"))]
)
def test_two_pictures_are_two_ends(asked):
    """The usage is that of the request: the last one counts, and is not added up."""
    ask = IMAGES.parse_form(asked, FORM_TYPE) if asked.startswith(b"--") else IMAGES.parse_request(asked)
    facts, _, _ = judged(IMAGES, ask, PARTIAL, DRAWN)
    assert (facts.terminal_seen, facts.usage.images) == (False, 1)
    facts, _, out = judged(IMAGES, ask, PARTIAL, DRAWN, DRAWN)
    assert (facts.terminal_seen, facts.usage.images, facts.usage.output) == (True, 2, 100)
    assert out == PARTIAL + DRAWN + DRAWN


def test_a_transcripts_text_is_kept_for_an_estimate():
    facts, _, _ = judged(
        TRANSCRIPTIONS, TRANSCRIPTIONS.parse_request(b'{"model":"m","stream":true}'), SAID, SAID
    )
    assert facts.received.text == "größegröße"


def test_the_usage_beside_a_member_of_another_type_counts():
    asked = TRANSCRIPTIONS.parse_request(b'{"model":"m","stream":true}')
    usage = {"type": "tokens", "input_tokens": 14, "output_tokens": 2}
    facts, _, _ = judged(
        TRANSCRIPTIONS, asked, event("transcript.text.done", text="\ud83d", delta=7, usage=usage)
    )
    assert facts.usage == TokenUsage(input=14, output=2)


def test_vllms_transcripts_end_with_done():
    """https://docs.vllm.ai, Transcriptions API: chunks like chat's, and a usage if it was asked for."""
    chunk = b'data: {"object":"transcription.chunk","choices":[{"delta":{"content":"x"}}]}\n\n'
    usage = b'data: {"object":"transcription.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
    done = b"data: [DONE]\n\n"
    ask = TRANSCRIPTIONS.parse_request(b'{"model":"m","stream":true}')
    facts, kinds, out = judged(TRANSCRIPTIONS, ask, chunk, usage, done)
    assert kinds == [EventKind.CONTENT, EventKind.CONTENT, EventKind.TERMINAL]
    assert (out, facts.terminal_seen, facts.usage) == (
        chunk + usage + done,
        True,
        TokenUsage(input=9, output=4),
    )


def test_samples_are_what_a_parser_reads():
    assert [one.event for one in events_of(PARTIAL, DRAWN)] == [
        "image_generation.partial_image",
        "image_generation.completed",
    ]
