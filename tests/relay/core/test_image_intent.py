"""Which requests count as drawing: each row is one way to ask, or to look as if."""

import json

import msgspec
import pytest

from relay.core.image_intent import is_image_request

PATTERNS = ("gpt-image-*", "dall-e-3")
IMAGE_TOOL = {"type": "image_generation"}
FUNCTION = {"type": "function", "name": "image_generation"}


def asks(path: str, *, method: str = "POST", patterns=PATTERNS, **fields: object) -> bool:
    raw = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in fields.items()}
    model = fields.get("model", "gpt-5")
    return is_image_request(method, path, model=str(model), fields=raw, model_patterns=patterns)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/images/variations",
        "/images/edits",
        "/v1/Images/Edits/",
    ],
)
def test_paths_that_draw(path):
    assert asks(path)
    assert not asks(path, method="GET")


@pytest.mark.parametrize(
    "path",
    ["/v1/images", "/v1/images/other", "/v1/images/generations/7", "/v1/own/images/generations",
     "/v1/chat/completions", "/v1beta/models/imagen-4:predict", "/v1/videos"],
)  # fmt: skip
def test_paths_that_do_not(path):
    assert not asks(path, model="dall-e-3", tools=[IMAGE_TOOL])


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "dall-e-3"},
        {"model": "gpt-image-1.5"},
        {"tools": [IMAGE_TOOL]},
        {"tools": [{"type": "web_search"}, {**IMAGE_TOOL, "size": "1024x1024"}]},
        {"tool_choice": IMAGE_TOOL},
        {"tool_choice": "image_generation"},
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x"}, IMAGE_TOOL]}},
        {"tool_choice": {"type": "hosted_tool", "name": "image_generation"}},
    ],
)
def test_responses_that_draw(fields):
    assert asks("/v1/responses", **fields)
    assert not asks("/v1/chat/completions", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": "gpt-5"},
        {"model": "my-dall-e-3"},
        {"tools": [FUNCTION]},
        {"tools": []},
        {"tools": None, "tool_choice": None},
        {"tools": "image_generation"},
        {"tools": {"type": "image_generation"}},
        {"tools": [["image_generation"], 7, None]},
        {"tool_choice": "auto"},
        {"tool_choice": {"type": "function", "name": "draw"}},
        {"tool_choice": ["image_generation"]},
        {"input": "image_generation"},
    ],
)
def test_responses_that_do_not(fields):
    assert not asks("/v1/responses", **fields)


@pytest.mark.parametrize(
    "path", ["/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/resp_1/cancel"]
)
def test_what_is_done_with_a_response_draws_nothing(path):
    assert not asks(path, tools=[IMAGE_TOOL])


def test_no_patterns_no_models():
    assert not asks("/v1/responses", model="dall-e-3", patterns=())
    assert asks("/v1/images/generations", patterns=())
