"""OpenAI's endpoints that are no conversation: vectors, images, sound. Bodies pass byte for byte, both ways.

Read of them are model, usage and errors. Stream policies do not touch them; images and sound stream only
when the client asks. One subject a module: vectors (embeddings, moderations, rerank), images, speech,
transcriptions, events (their streams), forms. Sources: https://platform.openai.com/docs/api-reference
(embeddings, images, images-streaming, audio), https://jina.ai/reranker.
"""

from relay.core.dialects.openai_json.images import Images
from relay.core.dialects.openai_json.speech import Speech
from relay.core.dialects.openai_json.transcriptions import Transcriptions
from relay.core.dialects.openai_json.vectors import Vectors

VECTORS = Vectors()
IMAGES = Images()
SPEECH = Speech()
TRANSCRIPTIONS = Transcriptions()
