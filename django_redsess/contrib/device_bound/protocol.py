"""
The protocol of device-bound sessions: the W3C draft of February 2026, as Chromium 156 has it.

A *proof* is the value of the short-lived cookie. It has the id of a binding and the time at which it was issued. A
*challenge* is a text that the browser signs: in a registration with a new key, which it sends along; in a refresh with
the key of the binding. Both are authenticated by keys that are derived from ``SECRET_KEY``, so neither is stored.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.core.signals import setting_changed
from django.http.response import HttpResponseBase
from django.urls import NoReverseMatch, reverse

from django_redsess.conf import conf
from django_redsess.session.binding import ID_SIZE, TIME_SIZE
from django_redsess.transport.agreement import derived_key
from django_redsess.transport.keys import prefix

COOKIE_SUFFIX = "_proof"
MAC_SIZE = 16

CHALLENGE_MS = 60_000
"""The life of a challenge."""

JUST_BOUND_MS = 10_000
"""For so long after a registration, requests may be under way that the browser sent before."""

UNDER_WAY_MS = 60_000
"""For how long a proof counts after its cookie has ended: a request may take so long to get here."""

JWS_MAX = 4096
"""In characters. The signature and the key of 4096 bits for RS256 have 684 each."""

POINT_SIZE = 33
RSA_BITS, RSA_EXPONENT = range(2048, 4097), 65537
ALGORITHMS = ("ES256", "RS256")

STRANGE = (jwt.PyJWTError, ValueError, TypeError, RecursionError)
"""What PyJWT and JSON raise for a stranger's text, which may have more levels than Python allows."""


PROOF_LENGTH = -(-4 * (ID_SIZE + TIME_SIZE + MAC_SIZE) // 3)
"""In characters. Other texts are no proof, and need not be kept in memory."""


class JwsRefused(Exception):  # noqa: N818
    """A JWS of a browser is refused. The argument is the reason: one word, which is no secret."""


class Proof(NamedTuple):
    """The content of a proof cookie of this site: the binding for which it was issued, and the time."""

    id: bytes
    issued_ms: int


def proof_cookie_name() -> str:
    """Return the name of the proof cookie."""
    return settings.SESSION_COOKIE_NAME + COOKIE_SUFFIX


def make_proof(binding_id: bytes, now_ms: int) -> str:
    """Return the value of a proof cookie for the binding with this id."""
    return _signed("proof", binding_id + now_ms.to_bytes(TIME_SIZE, "big"))


@lru_cache(maxsize=2048)
def read_proof(text: str) -> Proof | None:
    """Return what ``text`` proves. None if this site has not made it. It may be old, and of any binding."""
    said = _said("proof", text, ID_SIZE + TIME_SIZE)
    return Proof(said[:ID_SIZE], int.from_bytes(said[ID_SIZE:])) if said else None


def is_fresh(proof: Proof, now_ms: int) -> bool:
    """Tell whether ``proof`` is good at the server's time ``now_ms``, whose clock may have stepped back."""
    return abs(now_ms - proof.issued_ms) <= conf.DEVICE_BOUND_SECONDS * 1000 + UNDER_WAY_MS


def set_proof_cookie(response: HttpResponseBase, binding_id: bytes, now_ms: int) -> None:
    """Set the proof cookie, which goes wherever the session cookie goes. No script can read it."""
    response.set_cookie(
        proof_cookie_name(),
        make_proof(binding_id, now_ms),
        max_age=conf.DEVICE_BOUND_SECONDS,
        secure=True,
        httponly=True,
        **_cookie_attributes(),
    )


def delete_proof_cookie(response: HttpResponseBase) -> None:
    """Delete the proof cookie. The browser then asks for another one."""
    response.delete_cookie(proof_cookie_name(), **_cookie_attributes())


def proof_attributes() -> str:
    """Return the attributes of the proof cookie for the instructions. A browser compares them with the cookie's."""
    of_session = [f"{name}={value}" for name, value in _cookie_attributes().items() if value]
    return "; ".join([*of_session, "Secure", "HttpOnly"])


def _cookie_attributes() -> dict[str, Any]:
    of_session = settings.SESSION_COOKIE_PATH, settings.SESSION_COOKIE_DOMAIN, settings.SESSION_COOKIE_SAMESITE
    return dict(zip(("path", "domain", "samesite"), of_session, strict=True))


def path_of(name: str) -> str:
    """Return the path of the endpoint ``register`` or ``refresh``. ``""`` if the site has not included the URLs."""
    try:
        return reverse(f"redsess_device_bound:{name}")
    except NoReverseMatch:
        return ""


def is_endpoint(request: Any) -> bool:
    """Tell whether ``request`` is for one of the two endpoints."""
    # The end of the path comes first: each request of the site gets here.
    name = request.path_info[-8:].removeprefix("/")
    return name in ("register", "refresh") and bool(request.path == unquote(path_of(name)))


def make_registration_challenge(user_id: str, login_ms: int) -> str:
    """Return the challenge for the browser that has signed in as this user, in the session of this login time."""
    return _signed("register", b"", _sign_in(user_id, login_ms))


def is_registration_challenge(text: str, user_id: str, login_ms: int) -> bool:
    """Tell whether ``text`` is the challenge of this sign-in, whatever its time."""
    return _said("register", text, 0, _sign_in(user_id, login_ms)) is not None


def make_refresh_challenge(binding_id: bytes, at_ms: int) -> str:
    """Return a challenge for the key of this binding. ``at_ms`` is stored when it is accepted."""
    return _signed("refresh", at_ms.to_bytes(TIME_SIZE, "big"), binding_id)


def read_refresh_challenge(text: str, binding_id: bytes) -> int | None:
    """Return the time in a challenge for this binding, in milliseconds. None if this site has not made it for it."""
    said = _said("refresh", text, TIME_SIZE, binding_id)
    return int.from_bytes(said) if said else None


def _sign_in(user_id: str, login_ms: int) -> bytes:
    # Two sites may share a SECRET_KEY, and each has a user 1.
    return login_ms.to_bytes(TIME_SIZE, "big") + f"{prefix()}\0{user_id}".encode()


def _signed(purpose: str, said: bytes, about: bytes = b"") -> str:
    mac = _macs(purpose)[0].copy()
    mac.update(said + about)
    return urlsafe_b64encode(said + mac.digest()).decode().rstrip("=")


def _said(purpose: str, text: str, size: int, about: bytes = b"") -> bytes | None:
    """Return the ``size`` bytes in a text that :func:`_signed` has made. None for any other text."""
    try:
        packed = _decoded(text)
    except ValueError:
        return None
    said, digest = packed[:size], packed[size:]
    for key in _macs(purpose):
        mac = key.copy()
        mac.update(said + about)
        if compare_digest(digest, mac.digest()):
            return said
    return None


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@lru_cache(maxsize=4)
def _macs(purpose: str) -> list[blake2b]:
    # One for each key that may have signed, the present one first. They are copied, as those of seals are.
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [blake2b(digest_size=MAC_SIZE, key=derived_key(key, b"redsess.device", purpose)) for key in keys]


def _forget_macs(*, setting: str, **kwargs: Any) -> None:
    if setting in ("SECRET_KEY", "SECRET_KEY_FALLBACKS"):
        _macs.cache_clear()
        read_proof.cache_clear()


setting_changed.connect(_forget_macs)


def read_jws(field: str, public_key: bytes = b"") -> tuple[str, bytes]:
    """
    Return the challenge that a browser has signed, and the public key. Raises JwsRefused.

    ``field`` is the request's header ``Secure-Session-Response``. ``public_key`` is that of the binding. Without one,
    this is a registration: the browser has sent its key along.
    """
    # A structured field is a string in quotes. Its parameters mean nothing.
    jws = field.strip()
    jws = jws[1:].partition('"')[0] if jws.startswith('"') else jws.partition(";")[0]
    if len(jws) > JWS_MAX:
        raise JwsRefused("too_long")
    try:
        header = jwt.get_unverified_header(jws)
        if header.get("typ") != "dbsc+jwt":
            raise JwsRefused("wrong_typ")
        if header.get("alg") not in ALGORITHMS:
            raise JwsRefused("wrong_alg")
        if ("jwk" in header) == bool(public_key):
            raise JwsRefused("jwk_in_refresh" if public_key else "no_jwk")
        public_key = public_key or _packed_key(header["jwk"])
        key, algorithm = _unpacked_key(public_key)
        claims = json.loads(jwt.PyJWS().decode_complete(jws, key, algorithms=[algorithm])["payload"])
    except jwt.InvalidSignatureError:
        raise JwsRefused("wrong_signature") from None
    except jwt.InvalidAlgorithmError:
        raise JwsRefused("wrong_alg") from None
    except STRANGE:
        raise JwsRefused("no_jws") from None
    challenge = claims.get("jti") if isinstance(claims, dict) else None
    if not isinstance(challenge, str):
        raise JwsRefused("no_challenge")
    return challenge, public_key


def _packed_key(jwk: Any) -> bytes:
    """Return a public key as a record stores it: the compressed point of P-256, or the modulus of RSA."""
    try:
        if jwk["kty"] == "EC" and jwk["crv"] == "P-256":
            x, y = (_decoded(jwk[name]) for name in "xy")
            if len(x) == len(y) == POINT_SIZE - 1:
                # Raises ValueError if the point is not on the curve.
                numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), ec.SECP256R1())
                return numbers.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        elif jwk["kty"] == "RSA" and int.from_bytes(_decoded(jwk["e"])) == RSA_EXPONENT:
            modulus = int.from_bytes(_decoded(jwk["n"]))
            if modulus.bit_length() in RSA_BITS:
                return modulus.to_bytes((modulus.bit_length() + 7) // 8)
    except (KeyError, TypeError, ValueError):
        pass
    raise JwsRefused("wrong_key")


def _unpacked_key(packed: bytes) -> tuple[Any, str]:
    """Return the public key that :func:`_packed_key` has packed, and the only algorithm for it."""
    if len(packed) == POINT_SIZE:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), packed), "ES256"
    return rsa.RSAPublicNumbers(RSA_EXPONENT, int.from_bytes(packed)).public_key(), "RS256"
