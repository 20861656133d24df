"""API-key digests, and upstream keys sealed with key ids. Knows no model and never logs.

Sealing keys are `id:secret`, newest first. The newest seals; all of them unseal, so a key is rotated by
putting a new one in front, sealing everything again, and only then dropping the old one. From each secret two
keys are derived (HKDF, RFC 5869, SHA-256): one for Fernet, one for fingerprints. Answers that are kept for a
while are sealed with a third one, so that neither kind of seal can be passed off as the other.
"""

import base64
import functools
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from relay.core.errors import SecretUnavailable

API_KEY_MARK = "sk-"
API_KEY_BYTES = 32
PREFIX_LETTERS = 9
SECRET_MIN_LETTERS = 16
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,32}")


class CryptoError(Exception):
    """Root of this module's errors. Messages name key ids, never secrets."""


class BadSealingKeys(CryptoError):
    """`SEALING_KEYS` cannot be used."""


class UnknownSealingKey(CryptoError):
    """Sealed with a key that `SEALING_KEYS` no longer has."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"The secret was sealed with key {key_id!r}, which SEALING_KEYS does not hold.")
        self.key_id = key_id


class BrokenSeal(CryptoError):
    """The sealed text was changed, or sealed with another secret of the same id."""


def api_key_digest(key: str) -> str:
    """SHA-256 in hex. Enough without salt or stretching: the key is 256 random bits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def generate_api_key() -> str:
    return API_KEY_MARK + secrets.token_urlsafe(API_KEY_BYTES)


def api_key_prefix(key: str) -> str:
    """What may be shown of an API key: its mark and six letters (36 of 256 bits)."""
    return key[:PREFIX_LETTERS]


def mask(plain: str) -> str:
    """prefix…suffix, never more than a third of the secret: `sk-1…9f3a`."""
    shown = min(4, len(plain) // 6)
    return f"{plain[:shown]}…{plain[-shown:]}" if shown else "…"


def _derived(secret: str, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret.encode())


@dataclass(frozen=True, slots=True, repr=False)
class _SealingKey:
    id: str
    fernet: Fernet
    answers: Fernet
    fingerprint_key: bytes

    @classmethod
    def parse(cls, text: str) -> "_SealingKey":
        key_id, colon, secret = text.partition(":")
        if not colon or not _KEY_ID.fullmatch(key_id):
            raise BadSealingKeys("Each of SEALING_KEYS is `id:secret`, the id of letters, digits and _ . -")
        if len(secret) < SECRET_MIN_LETTERS:
            raise BadSealingKeys(f"Sealing key {key_id!r} is shorter than {SECRET_MIN_LETTERS} letters.")
        return cls(
            id=key_id,
            fernet=Fernet(base64.urlsafe_b64encode(_derived(secret, b"sluice upstream key seal"))),
            answers=Fernet(base64.urlsafe_b64encode(_derived(secret, b"sluice answer seal"))),
            fingerprint_key=_derived(secret, b"sluice upstream key fingerprint"),
        )

    def fingerprint(self, plain: str) -> str:
        return f"{self.id}:{hmac.new(self.fingerprint_key, plain.encode(), hashlib.sha256).hexdigest()}"


class Sealer:
    """Seals and unseals with the given `id:secret` texts, newest first."""

    def __init__(self, keys: Sequence[str]) -> None:
        parsed = [_SealingKey.parse(text) for text in keys]
        if not parsed:
            raise BadSealingKeys("SEALING_KEYS is empty.")
        self._keys = {key.id: key for key in parsed}
        if len(self._keys) != len(parsed):
            raise BadSealingKeys("Two of SEALING_KEYS have the same id.")
        self._newest = parsed[0]

    def __repr__(self) -> str:
        return f"Sealer({', '.join(self._keys)})"

    def seal(self, plain: str) -> str:
        return f"{self._newest.id}:{self._newest.fernet.encrypt(plain.encode()).decode()}"

    def unseal(self, sealed: str) -> str:
        """Raises UnknownSealingKey or BrokenSeal."""
        key_id, _, token = sealed.partition(":")
        key = self._keys.get(key_id)
        if key is None:
            raise UnknownSealingKey(key_id)
        try:
            return key.fernet.decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise BrokenSeal(f"The secret sealed with key {key_id!r} does not unseal.") from error

    def seal_answer(self, plain: bytes) -> bytes:
        return self._newest.id.encode() + b":" + self._newest.answers.encrypt(plain)

    def unseal_answer(self, sealed: bytes) -> bytes:
        """Raises UnknownSealingKey or BrokenSeal."""
        named, _, token = sealed.partition(b":")
        key_id = named.decode("ascii", "replace")
        key = self._keys.get(key_id)
        if key is None:
            raise UnknownSealingKey(key_id)
        try:
            return key.answers.decrypt(token)
        except InvalidToken as error:
            raise BrokenSeal(f"The answer sealed with key {key_id!r} does not unseal.") from error

    def is_current(self, sealed: str) -> bool:
        """Sealed with the newest key: nothing to rotate."""
        return sealed.partition(":")[0] == self._newest.id

    def fingerprint(self, plain: str) -> str:
        """`key id:hex`, by the newest key. Equal for equal secrets; tells nothing without the key."""
        return self._newest.fingerprint(plain)

    def fingerprints(self, plain: str) -> tuple[str, ...]:
        """By every known key: rows that were not sealed again since a rotation are found too."""
        return tuple(key.fingerprint(plain) for key in self._keys.values())


@functools.cache
def _sealer(keys: tuple[str, ...]) -> Sealer:
    return Sealer(keys)


def sealer() -> Sealer:
    """The process's sealer, from settings.SEALING_KEYS."""
    return _sealer(tuple(settings.SEALING_KEYS))


class SealedSecret:
    """`relay.core.types.Secret` that unseals on first use and then remembers. Never shows itself."""

    __slots__ = ("_plain", "_sealed")

    def __init__(self, sealed: str) -> None:
        self._sealed = sealed
        self._plain: str | None = None

    def reveal(self) -> str:
        """Raises SecretUnavailable."""
        if self._plain is None:
            try:
                self._plain = sealer().unseal(self._sealed)
            except CryptoError as error:
                raise SecretUnavailable(type(error).__name__) from error
        return self._plain

    def __repr__(self) -> str:
        return "SealedSecret(…)"

    def __reduce__(self) -> tuple[type["SealedSecret"], tuple[str]]:
        """Copies and pickles carry the sealed text only."""
        return SealedSecret, (self._sealed,)
