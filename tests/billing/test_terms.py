"""What is set aside before a request runs."""

import datetime
from decimal import Decimal

import msgspec
import orjson
import pytest

from billing.admission.open_record import AdmissionAsk
from billing.admission.redis.codec import admit_arguments
from billing.core.money import STORED_NANO_MAX
from billing.core.price_book import PriceBook
from billing.core.prices import PriceParts, PriceRow
from billing.terms import DEFAULT_OUTPUT_TOKENS, PICTURE_TOKENS, hold_nano, terms_of
from relay.core.dialects import DIALECTS
from relay.core.estimate import MEDIA_TOKENS
from relay.core.limits_asked import output_limit
from relay.core.path_families import classify, is_image
from relay.core.request import RelayRequest
from relay.core.types import Caller

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def a_request(path: str, dialect: str, **fields: object) -> RelayRequest:
    body = orjson.dumps({"model": "m", **fields})
    family = classify(path)
    return RelayRequest(
        id="r",
        caller=Caller(api_key_id=1, tenant_id=1, tenant_name="t", group="g"),
        method="POST",
        path=path,
        query="",
        headers=(),
        body=body,
        family=family,
        dialect=DIALECTS[dialect],
        ask=DIALECTS[dialect].parse_request(body),
        is_replayable=False,
        is_image=is_image(family),
        received_at=0.0,
    )


def a_book(**parts: str) -> PriceBook:
    usd = PriceParts(**{name: Decimal(value) for name, value in parts.items()})
    return PriceBook([PriceRow(id=1, model="*", group="", effective_from=NOW, parts=usd)])


def held(request: RelayRequest, **parts: str) -> int:
    return hold_nano(request, terms_of(request, a_book(**parts), NOW))


def chat(**fields: object) -> RelayRequest:
    return a_request(
        "/v1/chat/completions", "openai_chat", messages=[{"role": "user", "content": "x"}], **fields
    )


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [({}, DEFAULT_OUTPUT_TOKENS), ({"max_tokens": 10}, 10), ({"max_completion_tokens": 10, "n": 3}, 30)],
)
def test_the_longest_answer_is_set_aside(fields, tokens):
    assert held(chat(**fields), output="2") == tokens * 2_000


def test_a_longer_prompt_holds_more():
    long = a_request(
        "/v1/chat/completions", "openai_chat", messages=[{"role": "user", "content": "x" * 3_000}]
    )
    assert held(long, input="1") - held(chat(), input="1") in range(995_000, 1_005_000)


def test_a_picture_in_the_prompt_holds_flat():
    url = "data:image/png;base64," + "iVBORw0KGgo" * 100_000
    parts = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": url}}]
    seen = a_request("/v1/chat/completions", "openai_chat", messages=[{"role": "user", "content": parts}])
    assert held(seen, input="1") in range(MEDIA_TOKENS * 1_000, MEDIA_TOKENS * 1_100)


def image(**fields: object) -> RelayRequest:
    return a_request("/v1/images/generations", "openai_images", prompt="x", **fields)


def test_pictures_that_are_paid_each_hold_their_price_only():
    assert held(image(n=2), per_image="0.04") == 80_000_000


def test_pictures_that_are_paid_in_tokens_hold_those_of_the_dearest():
    assert held(image(n=2), image_output="40") == 2 * PICTURE_TOKENS * 40_000


def test_what_has_no_price_holds_nothing():
    request = chat()
    assert hold_nano(request, terms_of(request, PriceBook(), NOW)) == 0


def speech(text: str) -> RelayRequest:
    return a_request("/v1/audio/speech", "openai_speech", input=text, voice="v")


def test_text_to_be_spoken_holds_its_characters():
    assert held(speech("x" * 4_000), per_character="15") == 4_000 * 15_000


def test_a_recording_holds_what_its_size_can_last():
    sound = b"\0" * 400_000
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    form += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n' + sound
    form += b"\r\n--b--\r\n"
    ask = DIALECTS["openai_transcriptions"].parse_form(form, "multipart/form-data; boundary=b")
    request = msgspec.structs.replace(
        speech(""),
        path="/v1/audio/transcriptions",
        ask=ask,
        body=form,
        family=classify("/v1/audio/transcriptions"),
    )
    hundred_seconds = 100 * 100_000
    assert held(request, per_audio_second="0.0001") in range(hundred_seconds, hundred_seconds * 101 // 100)
    assert held(chat(), per_audio_second="0.0001") == 0


def test_no_hold_is_larger_than_a_store_can_keep():
    """`n` and `max_tokens` are the client's: it hears that the balance does not cover it."""
    hold = held(chat(n=10**9, max_tokens=10**9), output="10")
    assert hold == STORED_NANO_MAX
    assert admit_arguments("epoch", "ticket", AdmissionAsk(request_id="r", account_id=1, hold_nano=hold))


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"prompt": "x"}, 1),
        ({"prompt": ["x", "y", "z"]}, 3),
        ({"prompt": [[1, 2], [3]], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": []}, 1),
        ({"prompt": "x", "n": 2, "best_of": 5}, 5),
    ],
)
def test_each_of_many_prompts_holds_its_answers(fields: dict[str, object], answers: int) -> None:
    request = a_request("/v1/completions", "openai_completions", max_tokens=100, **fields)
    assert held(request, output="2") == answers * 100 * 2_000
    assert output_limit(request.ask.fields) == answers * 100, "what the upstream may report"
