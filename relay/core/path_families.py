"""What kind of request a path is: its family, whether it may be replayed, whether it passes at all.

A request that makes and bills an artefact is not replayed: the upstream may have accepted and billed it.
Do not widen the tables to raise the success rate: each entry is a picture that may be paid twice.
Must not import anything that knows channels, dialects or HTTP servers.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class PathFamily(StrEnum):
    """The first segment after an optional `/v1` or `/v1beta`; for Gemini the verb behind the model."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    MODERATIONS = "moderations"
    RERANK = "rerank"
    IMAGES = "images"
    AUDIO = "audio"
    VIDEOS = "videos"
    MUSIC = "music"
    GEMINI_GENERATE = "gemini_generate"
    GEMINI_PREDICT = "gemini_predict"
    GEMINI_BATCH = "gemini_batch"
    CREATED_OBJECTS = "created_objects"
    """Batches, files, fine-tuning and the like: each call creates something at the upstream."""
    CUSTOM = "custom"


class Replay(NamedTuple):
    """May a failed request of this family be sent again, without and with an `Idempotency-Key`?"""

    without_key: bool
    with_key: bool


_FREE = Replay(without_key=True, with_key=True)
_WITH_KEY = Replay(without_key=False, with_key=True)
_NEVER = Replay(without_key=False, with_key=False)

REPLAY: dict[PathFamily, Replay] = {
    PathFamily.CHAT: _FREE,
    PathFamily.COMPLETIONS: _FREE,
    PathFamily.RESPONSES: _WITH_KEY,
    PathFamily.MESSAGES: _FREE,
    PathFamily.EMBEDDINGS: _FREE,
    PathFamily.MODERATIONS: _FREE,
    PathFamily.RERANK: _FREE,
    PathFamily.IMAGES: _NEVER,  # the key cannot dedupe across upstream keys and channels
    PathFamily.AUDIO: _WITH_KEY,
    PathFamily.VIDEOS: _WITH_KEY,
    PathFamily.MUSIC: _WITH_KEY,
    PathFamily.GEMINI_GENERATE: _FREE,
    PathFamily.GEMINI_PREDICT: _NEVER,
    PathFamily.GEMINI_BATCH: _NEVER,
    PathFamily.CREATED_OBJECTS: _NEVER,
    PathFamily.CUSTOM: _FREE,
}

_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_CREATED = frozenset(
    {"batches", "fine_tuning", "files", "uploads", "assistants", "threads", "vector_stores", "containers"}
)
_BY_SEGMENT: dict[str, PathFamily] = {
    "chat": PathFamily.CHAT,
    "completions": PathFamily.COMPLETIONS,
    "responses": PathFamily.RESPONSES,
    "messages": PathFamily.MESSAGES,
    "embeddings": PathFamily.EMBEDDINGS,
    "moderations": PathFamily.MODERATIONS,
    "rerank": PathFamily.RERANK,
    "images": PathFamily.IMAGES,
    "audio": PathFamily.AUDIO,
    "videos": PathFamily.VIDEOS,
    "video": PathFamily.VIDEOS,
    "music": PathFamily.MUSIC,
    **dict.fromkeys(_CREATED, PathFamily.CREATED_OBJECTS),
}
_GEMINI_GENERATING = frozenset({"generatecontent", "streamgeneratecontent", "embedcontent", "counttokens"})

_VERSION_SEGMENTS = frozenset({"v1", "v1beta", "v1alpha", "openai"})
"""`openai` too: Gemini serves an OpenAI surface under `/v1beta/openai`."""

_ACCOUNT = frozenset({"organization", "organizations", "projects", "admin", "dashboard"})
"""The operator's account at the upstream: never a tenant's business."""
_WITHHELD = _ACCOUNT | _CREATED - {"uploads"}

_HANDS_OUT_IDS = frozenset(
    {"responses", "videos", "video", "music", "images", "audio", "uploads", "conversations", "chat", "evals"}
    | {"operations", "cachedcontents", "tunedmodels", "corpora"}
)
_ID_THEN_ACTION = frozenset({"responses", "videos"})
"""`POST responses/{id}/cancel` names an object, `POST responses/compact` does not."""
_ID_THEN_ALL = frozenset({"conversations", "uploads", "operations"})
"""Behind these there is nothing but objects."""

_PLAIN_PATH = re.compile(r"/|(?:/[\w~!$&'()*+,=:@-][\w.~!$&'()*+,=:@-]*)+/?", re.ASCII)
_LEGAL_PATH = re.compile(r"(?:/(?:[\w.~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})*)+", re.ASCII)
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[\w.~-]", re.ASCII)
_ROUTE_CHANGING = re.compile("%(?:[01][0-9A-F]|7F|25|5C)", re.IGNORECASE)
"""Encoded control characters, `%` (a second decoding) and backslash."""
_COLON = re.compile("%3[Aa]")
_MODEL_PATH = re.compile("/v1(?:beta)?/models/", re.ASCII)


@lru_cache(maxsize=1024)
def classify(path: str) -> PathFamily:
    """The family of a normalised path, without query."""
    segments = _segments(path)
    if not segments:
        return PathFamily.CUSTOM
    if _is_message_batch(segments):
        return PathFamily.CREATED_OBJECTS
    family = _BY_SEGMENT.get(segments[0])
    if family is not None:
        return family
    _, colon, verb = segments[-1].rpartition(":")
    return _gemini_family(verb) if colon else PathFamily.CUSTOM


def is_read(method: str) -> bool:
    """Methods that create nothing: asked again, they do no harm."""
    return method in _READS


def is_replayable(
    family: PathFamily, method: str, *, idempotency_key: str | None, artefact: bool = False
) -> bool:
    """Whether a failed attempt may be followed by another one.

    artefact: the model route says that this model makes artefacts whatever the path; the row of images
    then applies. A blank key counts as absent. Reads are always replayable.
    """
    if is_read(method):
        return True
    replay = REPLAY[PathFamily.IMAGES if artefact else family]
    return replay.with_key if idempotency_key and idempotency_key.strip() else replay.without_key


def is_image(family: PathFamily) -> bool:
    """Paths that draw: the image timers and image failover apply. Gemini draws by `:predict`."""
    return family is PathFamily.IMAGES or family is PathFamily.GEMINI_PREDICT


def is_withheld(path: str) -> bool:
    """Whether a path answers 404 whatever the method.

    Account administration never passes. Objects of the shared upstream account do not pass as long as
    nobody remembers which tenant they belong to.
    """
    segments = _segments(path)
    return bool(segments) and (segments[0] in _WITHHELD or _is_message_batch(segments))


def is_object_read(method: str, path: str) -> bool:
    """Whether a request names or lists objects that an upstream handed out; such requests answer 404.

    True for every method but POST and OPTIONS under a family that hands out ids (`GET /v1/responses/x`,
    `GET /v1/videos`: the list would be that of all tenants), for deleting a model, for Gemini
    operations, and for a POST that acts on an id (`responses/{id}/cancel`). Custom paths such as
    `GET /v1/systemone` and reading models are not object reads.
    """
    if method == "OPTIONS":
        return False
    segments = _segments(path)
    if not segments:
        return False
    head = segments[0]
    if head == "models":
        return method == "DELETE" or "operations" in segments[2:]
    if method != "POST":
        return head in _HANDS_OUT_IDS
    if head == "chat":
        return len(segments) > 2
    return (head in _ID_THEN_ACTION and len(segments) > 2) or (head in _ID_THEN_ALL and len(segments) > 1)


def normalise_path(raw_path: str) -> str | None:
    """The one spelling of a path, for routing and forwarding alike; None for one that is not accepted.

    raw_path: the request target as it came, without query. Percent-encoded unreserved characters are
    decoded, so that `/v1/%66iles` cannot pass for something else; all other bytes stay. Not accepted:
    dot segments, empty segments, encoded slashes, backslashes, controls or percent signs, `;`,
    absolute-form targets. A model's name may hold an encoded slash: `/v1/models/a%2Fb` is accepted. Colons
    are decoded there: behind the last one stands Gemini's verb, for which servers take either spelling.
    """
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path
    if not _LEGAL_PATH.fullmatch(raw_path) or _ROUTE_CHANGING.search(raw_path):
        return None
    path = _ESCAPE.sub(_decode_unreserved, raw_path)
    if _MODEL_PATH.match(path):
        path = _COLON.sub(":", path)
    segments = re.split("/|%2[Ff]", path)[1:]
    if "" in segments[:-1] or "." in segments or ".." in segments:
        return None
    if ("%2F" in path or "%2f" in path) and not (_MODEL_PATH.match(path) and segments[-1]):
        return None
    return path


def _decode_unreserved(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if _UNRESERVED.fullmatch(character) else escape[0]


def _segments(path: str) -> list[str]:
    """Lower-case segments behind the version: an upstream may not care for case."""
    segments = path.lower().strip("/").split("/")
    while segments and segments[0] in _VERSION_SEGMENTS:
        del segments[0]
    return segments if segments != [""] else []


def _is_message_batch(segments: list[str]) -> bool:
    return segments[:2] == ["messages", "batches"]


def _gemini_family(verb: str) -> PathFamily:
    if verb in _GEMINI_GENERATING:
        return PathFamily.GEMINI_GENERATE
    if verb.startswith("predict"):
        return PathFamily.GEMINI_PREDICT
    if verb.startswith(("batch", "asyncbatch")):
        return PathFamily.GEMINI_BATCH
    return PathFamily.CUSTOM
