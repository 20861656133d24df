"""The tokenizer: known counts of o200k, and texts that its package refuses."""

import pytest

from billing.tokenizer import PIECE, tokens_count


@pytest.mark.parametrize(
    ("text", "tokens"),
    # Counts of tiktoken's o200k_base for its documentation's examples.
    [("", 0), ("hello world", 2), ("Hello, world!", 4), ("tiktoken is great!", 6), ("お誕生日おめでとう", 8)],
)
def test_known_counts(text: str, tokens: int) -> None:
    assert tokens_count(text) == tokens


def test_special_tokens_and_lone_surrogates_are_text() -> None:
    assert tokens_count("<|endoftext|>") > 1
    assert tokens_count("\ud800") >= 1


@pytest.mark.parametrize("length", [PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 3])
def test_pieces_give_the_total_of_the_whole(length: int) -> None:
    sentence = "The quick brown fox jumps over the lazy dog. "
    text = (sentence * (length // len(sentence) + 1))[:length]
    per_sentence = (tokens_count(sentence * 20) - tokens_count(sentence * 10)) / 10
    assert abs(tokens_count(text) - per_sentence * length / len(sentence)) < 12


def test_a_text_without_spaces_is_counted_too() -> None:
    assert tokens_count("x" * (3 * PIECE)) == 3 * tokens_count("x" * PIECE)
