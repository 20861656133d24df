"""What may be sent again at all: path family × Idempotency-Key × method, counted by the upstreams."""

import pytest

from tests.fakes.runtime import NO_REPEATS

FREE, WITH_KEY, NEVER = (True, True), (False, True), (False, False)
"""Sent again without a key, with one."""

PATHS = {
    "/v1/images/generations": NEVER,
    "/v1/images/edits": NEVER,
    "/v1beta/models/imagen:predict": NEVER,
    "/v1beta/models/veo:predictLongRunning": NEVER,
    "/v1/audio/speech": WITH_KEY,
    "/v1/videos": WITH_KEY,
    "/v1/video/generations": WITH_KEY,
    "/v1/music/generations": WITH_KEY,
    "/v1/responses": WITH_KEY,
    "/v1/chat/completions": FREE,
    "/v1/completions": FREE,
    "/v1/embeddings": FREE,
    "/v1/moderations": FREE,
    "/v1/messages": FREE,
    "/v1/rerank": FREE,
    "/v1beta/models/g:generateContent": FREE,
    "/v1beta/models/g:streamGenerateContent": FREE,
    "/v1beta/models/g:embedContent": FREE,
    "/v1beta/models/g:countTokens": FREE,
    "/v1/batches": NEVER,
    "/v1/fine_tuning/jobs": NEVER,
    "/v1/files": NEVER,
    "/v1/uploads": NEVER,
    "/v1/assistants": NEVER,
    "/v1/threads": NEVER,
    "/v1/vector_stores": NEVER,
    "/v1/containers": NEVER,
    "/v1beta/models/g:batchGenerateContent": NEVER,
    "/v1/systemone": FREE,
    "/images/generations": NEVER,
    "/chat/completions": FREE,
}
READS = ("GET", "HEAD")
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.mark.parametrize("key", [None, "", "  ", "k"])
@pytest.mark.parametrize("method", [*READS, *WRITES])
@pytest.mark.parametrize("path", PATHS)
async def test_a_503_of_the_first_channel(bench, path, method, key):
    bench.control.current = NO_REPEATS
    await bench.channel(503)
    await bench.channel(503)
    await bench.ask(path=path, method=method, dialect="opaque", stream=False, idempotency_key=key)
    without_key, with_key = PATHS[path]
    is_sent_again = method in READS or (with_key if key == "k" else without_key)
    assert bench.received == ([11, 21] if is_sent_again else [11])
