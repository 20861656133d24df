"""API-key digests and sealed secrets: rotation, unknown key ids, tampering, and that nothing shows."""

import copy
import hashlib
import pickle

import pytest

from channels_admin import crypto
from channels_admin.crypto import (
    BadSealingKeys,
    BrokenSeal,
    SealedSecret,
    Sealer,
    UnknownSealingKey,
    api_key_digest,
    api_key_prefix,
    generate_api_key,
    mask,
)
from relay.core.errors import SecretUnavailable

OLD, NEW = "2025:an old secret of enough letters", "2026:a new secret of enough letters"
PLAIN = "sk-upstream-0123456789abcdef"


def test_api_key_has_256_random_bits_and_a_mark():
    keys = {generate_api_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("sk-") and len(key) == 3 + 43 for key in keys)


def test_digest_is_sha256_in_hex_even_of_text_that_is_no_utf8():
    assert api_key_digest("sk-x") == hashlib.sha256(b"sk-x").hexdigest()
    assert len(api_key_digest("sk-\ud800")) == 64


def test_prefix_shows_the_mark_and_six_letters():
    assert api_key_prefix("sk-abcdefghijkl") == "sk-abcdef"


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("", "…"),
        ("short", "…"),
        ("sk-0123456789", "sk…89"),
        (PLAIN, "sk-u…cdef"),
    ],
)
def test_mask_never_shows_more_than_a_third(plain, shown):
    assert mask(plain) == shown
    assert len(mask(plain)) - 1 <= len(plain) / 3


def test_seal_names_the_newest_key_and_hides_the_secret():
    sealed = Sealer([NEW, OLD]).seal(PLAIN)
    assert sealed.startswith("2026:")
    assert PLAIN not in sealed


def test_sealing_twice_gives_different_texts():
    sealer = Sealer([NEW])
    assert sealer.seal(PLAIN) != sealer.seal(PLAIN)


def test_rotation_old_seals_open_until_the_old_key_is_dropped():
    sealed = Sealer([OLD]).seal(PLAIN)
    rotated = Sealer([NEW, OLD])
    assert rotated.unseal(sealed) == PLAIN
    assert not rotated.is_current(sealed)
    assert rotated.is_current(rotated.seal(PLAIN))
    with pytest.raises(UnknownSealingKey, match="'2025'"):
        Sealer([NEW]).unseal(sealed)


def test_tampering_and_a_changed_secret_are_told():
    sealed = Sealer([NEW]).seal(PLAIN)
    middle = len(sealed) // 2
    other = "A" if sealed[middle] != "A" else "B"
    with pytest.raises(BrokenSeal):
        Sealer([NEW]).unseal(sealed[:middle] + other + sealed[middle + 1 :])
    with pytest.raises(BrokenSeal):
        Sealer(["2026:another secret of enough letters"]).unseal(sealed)
    with pytest.raises(BrokenSeal):
        Sealer([NEW]).unseal("2026:not a token, and not ASCII either: é")


def test_errors_never_hold_a_secret():
    with pytest.raises(UnknownSealingKey) as unknown:
        Sealer([NEW]).unseal(Sealer([OLD]).seal(PLAIN))
    assert "secret of enough" not in str(unknown.value)
    assert PLAIN not in str(unknown.value)
    assert "secret of enough" not in repr(Sealer([NEW, OLD]))


@pytest.mark.parametrize(
    "keys",
    [
        [],
        ["no colon in this text"],
        [":an empty id of a long secret"],
        ["id:short"],
        ["two words:a long secret text"],
        [NEW, NEW],
    ],
)
def test_unusable_sealing_keys_are_refused(keys):
    with pytest.raises(BadSealingKeys) as error:
        Sealer(keys)
    assert "secret of enough" not in str(error.value)


def test_fingerprint_is_keyed_stable_and_found_after_rotation():
    old, rotated = Sealer([OLD]), Sealer([NEW, OLD])
    assert old.fingerprint(PLAIN) == old.fingerprint(PLAIN)
    assert old.fingerprint(PLAIN) != old.fingerprint(PLAIN + "x")
    assert hashlib.sha256(PLAIN.encode()).hexdigest() not in old.fingerprint(PLAIN)
    assert rotated.fingerprint(PLAIN) != old.fingerprint(PLAIN)
    assert old.fingerprint(PLAIN) in rotated.fingerprints(PLAIN)


def test_sealed_secret_unseals_once_on_first_use(settings, monkeypatch):
    settings.SEALING_KEYS = (NEW,)
    secret = SealedSecret(crypto.sealer().seal(PLAIN))
    calls = []
    unseal = Sealer.unseal
    monkeypatch.setattr(Sealer, "unseal", lambda self, sealed: calls.append(1) or unseal(self, sealed))
    assert not calls
    assert [secret.reveal(), secret.reveal()] == [PLAIN, PLAIN]
    assert len(calls) == 1


def test_sealed_secret_shows_and_pickles_nothing(settings):
    settings.SEALING_KEYS = (NEW,)
    secret = SealedSecret(crypto.sealer().seal(PLAIN))
    secret.reveal()
    assert PLAIN not in f"{secret!r} {secret}"
    assert PLAIN.encode() not in pickle.dumps(secret)
    assert copy.deepcopy(secret).reveal() == PLAIN


def test_sealed_secret_with_an_unknown_key_id_tells_so(settings):
    settings.SEALING_KEYS = (OLD,)
    sealed = crypto.sealer().seal(PLAIN)
    settings.SEALING_KEYS = (NEW,)
    with pytest.raises(SecretUnavailable, match="UnknownSealingKey"):
        SealedSecret(sealed).reveal()


def test_sealed_answers_open_after_a_rotation_and_never_when_changed():
    plain = b"\x00an answer\xff"
    sealed = Sealer([OLD]).seal_answer(plain)
    assert plain not in sealed
    assert Sealer([NEW, OLD]).unseal_answer(sealed) == plain
    with pytest.raises(UnknownSealingKey):
        Sealer([NEW]).unseal_answer(sealed)
    for broken in (sealed[:-1], sealed[:-9] + bytes([sealed[-9] ^ 1]) + sealed[-8:]):
        with pytest.raises(BrokenSeal):
            Sealer([OLD]).unseal_answer(broken)


def test_a_sealed_answer_is_no_sealed_upstream_key_and_the_other_way_round():
    sealer = Sealer([NEW])
    with pytest.raises(BrokenSeal):
        sealer.unseal(sealer.seal_answer(b"answer").decode())
    with pytest.raises(BrokenSeal):
        sealer.unseal_answer(sealer.seal(PLAIN).encode())
