"""Path families: the replay table, what is withheld, and the one spelling of a path."""

import pytest

from relay.core.path_families import (
    REPLAY,
    PathFamily,
    classify,
    is_image,
    is_object_read,
    is_replayable,
    is_withheld,
    normalise_path,
)

# path, family, replay without a key, replay with one
TABLE = [
    ("/v1/images/generations", PathFamily.IMAGES, False, False),
    ("/v1/images/edits", PathFamily.IMAGES, False, False),
    ("/images/variations", PathFamily.IMAGES, False, False),
    ("/v1beta/models/imagen-4:predict", PathFamily.GEMINI_PREDICT, False, False),
    ("/v1beta/models/veo-3:predictLongRunning", PathFamily.GEMINI_PREDICT, False, False),
    ("/v1/audio/speech", PathFamily.AUDIO, False, True),
    ("/v1/audio/transcriptions", PathFamily.AUDIO, False, True),
    ("/v1/videos", PathFamily.VIDEOS, False, True),
    ("/v1/video/generations", PathFamily.VIDEOS, False, True),
    ("/v1/music/generations", PathFamily.MUSIC, False, True),
    ("/v1/responses", PathFamily.RESPONSES, False, True),
    ("/v1/responses/resp_1/cancel", PathFamily.RESPONSES, False, True),
    ("/v1/chat/completions", PathFamily.CHAT, True, True),
    ("/v1/completions", PathFamily.COMPLETIONS, True, True),
    ("/v1/embeddings", PathFamily.EMBEDDINGS, True, True),
    ("/v1/moderations", PathFamily.MODERATIONS, True, True),
    ("/v1/messages", PathFamily.MESSAGES, True, True),
    ("/v1/messages/count_tokens", PathFamily.MESSAGES, True, True),
    ("/v1/rerank", PathFamily.RERANK, True, True),
    ("/v1beta/models/gemini-2.5-pro:generateContent", PathFamily.GEMINI_GENERATE, True, True),
    ("/v1/models/gemini-2.5-pro:streamGenerateContent", PathFamily.GEMINI_GENERATE, True, True),
    ("/v1beta/models/e:embedContent", PathFamily.GEMINI_GENERATE, True, True),
    ("/v1beta/models/m:countTokens", PathFamily.GEMINI_GENERATE, True, True),
    ("/v1beta/models/m:batchGenerateContent", PathFamily.GEMINI_BATCH, False, False),
    ("/v1beta/models/m:batchEmbedContents", PathFamily.GEMINI_BATCH, False, False),
    ("/v1beta/models/m:asyncBatchEmbedContent", PathFamily.GEMINI_BATCH, False, False),
    *[
        (f"/v1/{name}", PathFamily.CREATED_OBJECTS, False, False)
        for name in (
            "batches", "fine_tuning/jobs", "files", "uploads", "assistants", "threads", "threads/t_1/runs",
            "vector_stores", "containers", "messages/batches",
        )
    ],
    ("/v1/systemone", PathFamily.CUSTOM, True, True),
    ("/v1/imagesque", PathFamily.CUSTOM, True, True),
    ("/v1/models", PathFamily.CUSTOM, True, True),
    ("/v1", PathFamily.CUSTOM, True, True),
    ("/", PathFamily.CUSTOM, True, True),
    ("/v1/IMAGES/generations", PathFamily.IMAGES, False, False),
    ("/v1beta/openai/images/generations", PathFamily.IMAGES, False, False),
    ("/v1/images/", PathFamily.IMAGES, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "family", "without_key", "with_key"), TABLE)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_replay_table(path: str, family: PathFamily, without_key: bool, with_key: bool, method: str) -> None:
    assert classify(path) is family
    assert is_replayable(family, method, idempotency_key=None) is without_key
    assert is_replayable(family, method, idempotency_key="order-7") is with_key
    assert is_replayable(family, method, idempotency_key="") is without_key
    assert is_replayable(family, method, idempotency_key=" \t") is without_key


@pytest.mark.parametrize("family", PathFamily)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reads_are_always_replayable(family: PathFamily, method: str) -> None:
    assert is_replayable(family, method, idempotency_key=None)
    assert is_replayable(family, method, idempotency_key=None, artefact=True)


@pytest.mark.parametrize("family", PathFamily)
def test_artefact_models_follow_the_row_of_images(family: PathFamily) -> None:
    assert not is_replayable(family, "POST", idempotency_key=None, artefact=True)
    assert not is_replayable(family, "POST", idempotency_key="k", artefact=True)


def test_every_family_has_a_row() -> None:
    assert set(REPLAY) == set(PathFamily)


def test_image_families() -> None:
    assert {family for family in PathFamily if is_image(family)} == {
        PathFamily.IMAGES,
        PathFamily.GEMINI_PREDICT,
    }


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files", "/v1/files/file-1/content", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/assistants",
        "/v1/threads/t/runs", "/v1/vector_stores", "/v1/containers", "/v1/organization/costs",
        "/v1/organizations/users", "/v1/projects/p", "/v1/admin/keys", "/v1beta/files", "/v1/FILES", "/files",
        "/v1/messages/batches", "/v1/messages/batches/b/results", "/v1beta/openai/files", "/v1/v1/files",
    ],
)  # fmt: skip
def test_withheld(path: str) -> None:
    assert is_withheld(path)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/systemone",
        "/v1/messages",
        "/v1/models/files",
        "/v1/filesystem",
        "/v1",
        "/",
    ],
)
def test_not_withheld(path: str) -> None:
    assert not is_withheld(path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"), ("DELETE", "/v1/responses/resp_1"), ("HEAD", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"), ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/videos/video_1"), ("GET", "/v1/videos"), ("GET", "/v1/videos/video_1/content"),
        ("POST", "/v1/videos/video_1/remix"), ("GET", "/v1/video/generations/t"), ("GET", "/v1/music/task"),
        ("GET", "/v1/images/i"), ("GET", "/v1/audio/a"), ("DELETE", "/v1/uploads/u"),
        ("GET", "/v1/chat/completions"), ("GET", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/chat/completions/chatcmpl-1"), ("GET", "/v1/conversations/c"),
        ("POST", "/v1/conversations/c/items"), ("GET", "/v1beta/models/veo/operations/o"),
        ("GET", "/v1beta/operations/o"), ("GET", "/v1beta/cachedContents"), ("DELETE", "/v1/models/ft:mine"),
        ("GET", "/V1/Responses/resp_1"), ("POST", "/v1/uploads/u/cancel"), ("POST", "/v1/uploads/u/parts"),
        ("POST", "/v1beta/operations/o:cancel"), ("POST", "/v1beta/models/veo/operations/o:cancel"),
    ],
)  # fmt: skip
def test_object_reads(method: str, path: str) -> None:
    assert is_object_read(method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"), ("GET", "/v1/models/gpt-4o"), ("GET", "/v1/models/a/b"), ("GET", "/v1/systemone"),
        ("GET", "/v1/systemone/status"), ("POST", "/v1/responses"), ("POST", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens"), ("POST", "/v1/videos"), ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/speech"), ("POST", "/v1/chat/completions"), ("POST", "/v1/video/generations"),
        ("OPTIONS", "/v1/responses/resp_1"), ("POST", "/v1beta/models/m:generateContent"),
        ("GET", "/v1/realtime"), ("POST", "/v1/conversations"), ("POST", "/v1/uploads"), ("GET", "/v1"),
    ],
)  # fmt: skip
def test_not_object_reads(method: str, path: str) -> None:
    assert not is_object_read(method, path)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/", "/"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions/"),
        ("/v1/%66iles", "/v1/files"),
        ("/v1/a%7Eb%2Dc", "/v1/a~b-c"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("/v1beta/models/m%3AgenerateContent", "/v1beta/models/m:generateContent"),
        ("/v1/models/a%2Fb", "/v1/models/a%2Fb"),
        ("/v1/models/a%2fb%2Fc", "/v1/models/a%2fb%2Fc"),
        ("/v1/.well-known/x", "/v1/.well-known/x"),
        ("/v1/a..b/...", "/v1/a..b/..."),
        ("/v1/caf%C3%A9%20x", "/v1/caf%C3%A9%20x"),
    ],
)
def test_accepted_paths(raw: str, path: str) -> None:
    assert normalise_path(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "", "v1/files", "http://evil/v1/files", "//evil/v1", "/v1//files", "/v1/files//", "/v1/../files",
        "/v1/./files", "/v1/..", "/v1/.", "/v1/%2e%2e/files", "/v1/.%2E/files", "/v1/%2E", "/v1/a%2Fb", "/v1%2Ffiles",
        "/v1/a%5Cb", "/v1/a%5cb", "/v1/a\\b", "/v1/a%252Fb", "/v1/a%00", "/v1/a%0Ab", "/v1/a%7F", "/v1/a\nb",
        "/v1/a b", "/v1/a\tb", "/v1/a\x7f", "/v1/é", "/v1/%zz", "/v1/%2", "/v1/files;x=1", "/v1/x?y", "/v1/x#y",
        "/v1/models/..%2F..%2Ffiles", "/v1/models/a%2F..%2Fb", "/v1/models/a%2F%2Fb", "/v1/models/a%2F",
        "/v1/models/%2Fa", "/v1/modelsx/a%2Fb", "/v2/models/a%2Fb", "*", "/v1/x\u2028", "/v1/files\n",
    ],
)  # fmt: skip
def test_refused_paths(raw: str) -> None:
    assert normalise_path(raw) is None


def test_hostile_paths_take_linear_time() -> None:
    for raw in ("/a" * 40_000 + "%", "/" * 60_000, "/v1/" + "%61" * 20_000 + " ", "/.a" * 30_000):
        normalise_path(raw)  # the suite's time-out is the assertion
