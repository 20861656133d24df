"""llama.cpp's own server, with a model of random weights that is written here: no download, no sense.

Runs in an environment of its own (`xllamacpp`, `gguf`, `numpy`): it imports nothing of this project. Prints
its address, then serves until its standard input ends.

    python llama_server.py DIRECTORY
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 2, 64, 4, 128, 1024
WORDS = ["▁the", "▁river", "▁gate", "▁opens", "▁and", "▁water", "▁falls", "▁slowly", "▁down", "▁again"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?-_<>|[]()'\"/", "▁"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def vocabulary() -> list[tuple[str, int]]:
    """(text, type): a SentencePiece vocabulary that can spell every byte."""
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    spelled = [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    return special + spelled + [(text, NORMAL) for text in LETTERS + WORDS]


def write_model(path: Path) -> None:
    tokens = vocabulary()
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, weights in tensors(tokens).items():
        writer.add_tensor(name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(tokens: list[tuple[str, int]]) -> dict[str, np.ndarray]:
    """The first feature is the same for every token and outweighs the rest, so it can favour the words."""
    chance = np.random.default_rng(7)

    def small(*shape: int) -> np.ndarray:
        return chance.normal(0.0, 0.05, shape)

    embedding, output = small(len(tokens), WIDTH), small(len(tokens), WIDTH)
    embedding[:, 0] = 1.0
    output[:, 0] = [0.5 if text in WORDS else -2.0 for text, _ in tokens]
    found = {"token_embd.weight": embedding, "output.weight": output, "output_norm.weight": np.ones(WIDTH)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[f"{block}{name}.weight"] = small(WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            found[f"{block}{name}.weight"] = small(FEED_FORWARD, WIDTH)
        found[f"{block}ffn_down.weight"] = small(WIDTH, FEED_FORWARD)
        for name in ("attn_norm", "ffn_norm"):
            found[f"{block}{name}.weight"] = np.ones(WIDTH)
    return found


def main() -> None:
    path = Path(sys.argv[1]) / "random.gguf"
    write_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = CONTEXT
    params.n_parallel = 2
    params.cpuparams.n_threads = 2
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)  # noqa: T201  the test reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
