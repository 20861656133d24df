"""The behaviours that only Gemini's shape has, and the calls that are not streamed."""

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, hear

CONTENT = {"parts": [{"text": QUESTION}]}


async def ask(simulator: Simulator, model: str, verb: str, **body):
    return await hear(simulator, f"/v1beta/models/{model}:{verb}", body or {"contents": [CONTENT]})


async def test_an_unknown_key_is_a_400_with_a_reason(simulator: Simulator):
    heard = await ask(simulator, "api-key-invalid", "generateContent")
    assert (heard.status, heard.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert heard.json["error"]["details"][0]["reason"] == "API_KEY_INVALID"


async def test_a_round_of_code_finishes_twice(simulator: Simulator):
    heard = await ask(simulator, "code-round-0", "streamGenerateContent?alt=sse")
    candidates = [chunk["candidates"][0] for chunk in heard.chunks]
    assert [next(iter(each["content"]["parts"][0])) for each in candidates[:2]] == [
        "executableCode",
        "codeExecutionResult",
    ]
    assert [number for number, each in enumerate(candidates) if "finishReason" in each] == [
        2,
        len(candidates) - 1,
    ]


async def test_many_vectors_and_pictures(simulator: Simulator):
    many = await ask(simulator, "m", "batchEmbedContents", requests=[{"content": CONTENT}] * 3)
    assert [bool(each["values"]) for each in many.json["embeddings"]] == [True] * 3
    drawn = await ask(simulator, "m", "predict", instances=[{"prompt": "x"}], parameters={"sampleCount": 2})
    pictures = [each["bytesBase64Encoded"] for each in drawn.json["predictions"]]
    assert len(set(pictures)) == 2


async def test_tuned_models_answer_like_others(simulator: Simulator):
    heard = await hear(simulator, "/v1beta/tunedModels/echo:generateContent", {"contents": [CONTENT]})
    assert heard.json["candidates"][0]["content"]["parts"] == [{"text": QUESTION}]
