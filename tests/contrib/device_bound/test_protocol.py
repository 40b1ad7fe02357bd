"""What a browser signs, and what this site signs: each refusal by its name. No server is needed."""

import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.http import HttpResponse
from hypothesis import given
from hypothesis import strategies as st

from django_redsess.contrib.device_bound import protocol
from django_redsess.contrib.device_bound.protocol import JwsRefused, read_jws
from tests.helpers.device_browser import jwk_of, make_key, sign

pytestmark = pytest.mark.unit

EC, RSA = make_key(), make_key("RS256")
ID, NOW = b"12345678", 1_790_000_000_000


def encoded(content: object) -> str:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def refusal(field: str, public_key: bytes = b"") -> str:
    with pytest.raises(JwsRefused) as refused:
        read_jws(field, public_key)
    return str(refused.value)


@pytest.mark.parametrize("key", [EC, RSA, make_key("RS256", bits=4096)], ids=["ES256", "RS256", "RS256 of 4096 bits"])
def test_a_key_signs_a_registration_and_then_refreshes(key) -> None:
    challenge, public_key = read_jws(sign(key, "first", jwk=jwk_of(key)))
    assert challenge == "first"
    assert len(public_key) in (33, 256, 512)
    assert read_jws(sign(key, "second"), public_key) == ("second", public_key)


@pytest.mark.parametrize("form", ["{}", "{};of=none", " {} "])
def test_a_browser_may_send_the_header_with_quotes_or_without(form: str) -> None:
    field = sign(EC, "c", jwk=jwk_of(EC))
    assert read_jws(form.format(field))[0] == read_jws(form.format(field.strip('"')))[0] == "c"


def hs256(key) -> str:
    """A JWS whose secret is the public key, which everybody may know."""
    text = key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return jwt.PyJWS().encode(b'{"jti": "c"}', text, "HS256", {"typ": "dbsc+jwt", "jwk": jwk_of(key)})


def unsigned(**header: object) -> str:
    return f"{encoded({'typ': 'dbsc+jwt', 'jwk': jwk_of(EC), **header})}.{encoded({'jti': 'c'})}."


def tampered(field: str) -> str:
    head, _, signature = field.strip('"').split(".")
    return f"{head}.{encoded({'jti': 'another'})}.{signature}"


OTHER_CURVE = ec.generate_private_key(ec.SECP384R1())
POINT = jwk_of(EC)
DEEP = encoded(b'{"typ":' + b"[" * 2900)

REGISTRATIONS = {
    "empty": ("no_jws", ""),
    "no JWS": ("no_jws", "abc"),
    "two dots": ("no_jws", ".."),
    "not base64": ("no_jws", "%.%.%"),
    "letters of another alphabet": ("no_jws", "é.é.é"),
    "a header that is a list": ("no_jws", f"{encoded([1])}.{encoded({})}.AAAA"),
    "a header that is no JSON": ("no_jws", f"{encoded(b'no')}.{encoded({})}.AAAA"),
    "more levels than Python has": ("no_jws", f"{DEEP}.e30.AAAA"),
    "four parts": ("no_jws", sign(EC, "c", jwk=POINT).strip('"') + ".AAAA"),
    "too long": ("too_long", sign(EC, "c" * 4096, jwk=POINT)),
    "no typ": ("wrong_typ", sign(EC, "c", jwk=POINT, typ=None)),
    "another typ": ("wrong_typ", sign(EC, "c", jwk=POINT, typ="JWT")),
    "a typ that is a list": ("wrong_typ", sign(EC, "c", jwk=POINT, typ=["dbsc+jwt"])),
    "alg none": ("wrong_alg", unsigned(alg="none")),
    "no alg": ("wrong_alg", unsigned()),
    "an alg that is a list": ("wrong_alg", unsigned(alg=["ES256"])),
    "HS256 with the public key": ("wrong_alg", hs256(EC)),
    "RS512": ("wrong_alg", sign(RSA, "c", alg="RS512", jwk=jwk_of(RSA))),
    "alg of another kind of key": ("wrong_alg", sign(RSA, "c", jwk=POINT)),
    "crit": ("no_jws", sign(EC, "c", jwk=POINT, crit=["exp"], exp=1)),
    "no jwk": ("no_jwk", sign(EC, "c")),
    "a jwk that is a text": ("wrong_key", sign(EC, "c", jwk="key")),
    "a jwk without numbers": ("wrong_key", sign(EC, "c", jwk={"kty": "EC", "crv": "P-256"})),
    "a symmetric jwk": ("wrong_key", sign(EC, "c", jwk={"kty": "oct", "k": "AAAA"})),
    "another curve": ("wrong_key", sign(EC, "c", jwk=jwk_of(OTHER_CURVE))),
    "another curve by the name of ours": ("wrong_key", sign(EC, "c", jwk={**jwk_of(OTHER_CURVE), "crv": "P-256"})),
    "a point that is not on the curve": ("wrong_key", sign(EC, "c", jwk={**POINT, "y": POINT["x"]})),
    "a number that is no text": ("wrong_key", sign(EC, "c", jwk={**POINT, "y": 5})),
    "a short coordinate": ("wrong_key", sign(EC, "c", jwk={**POINT, "x": "AAAA"})),
    "RSA of 1024 bits": ("wrong_key", sign(RSA, "c", jwk={**jwk_of(RSA), "n": encoded(b"\xff" * 128)})),
    "RSA of 4104 bits": ("wrong_key", sign(RSA, "c", jwk={**jwk_of(RSA), "n": encoded(b"\xff" * 513)})),
    "RSA with the exponent 3": ("wrong_key", sign(RSA, "c", jwk={**jwk_of(RSA), "e": "Aw"})),
    "signed by another key": ("wrong_signature", sign(make_key(), "c", jwk=POINT)),
    "another payload": ("wrong_signature", tampered(sign(EC, "c", jwk=POINT))),
}


@pytest.mark.parametrize(("reason", "field"), REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_a_registration_is_refused_by_name(reason: str, field: str) -> None:
    assert refusal(field) == reason


def signed(payload: bytes) -> str:
    return jwt.PyJWS().encode(payload, EC, "ES256", {"typ": "dbsc+jwt", "jwk": POINT})


@pytest.mark.parametrize("payload", [b"{}", b'{"jti": 5}', b"[]", b'"jti"'])
def test_a_payload_without_a_challenge_is_refused(payload: bytes) -> None:
    assert refusal(signed(payload)) == "no_challenge"


@pytest.mark.parametrize("payload", [b"", b"no", b"\xff", b"[" * 2500, b'{"jti": "'])
def test_a_payload_that_is_no_json_is_refused(payload: bytes) -> None:
    assert refusal(signed(payload)) == "no_jws"


def test_a_refresh_is_refused_by_name() -> None:
    _, public_key = read_jws(sign(EC, "c", jwk=POINT))
    assert refusal(sign(EC, "c", jwk=POINT), public_key) == "jwk_in_refresh"
    assert refusal(sign(make_key(), "c"), public_key) == "wrong_signature"
    assert refusal(sign(RSA, "c"), public_key) == "wrong_alg"
    assert refusal(sign(EC, "c", typ="JWT"), public_key) == "wrong_typ"
    assert refusal(unsigned(alg="none", jwk=None), public_key) == "wrong_alg"


@given(st.one_of(st.text(), st.binary().map(lambda some: f"{encoded(some)}.{encoded(some)}.{encoded(some)}")))
def test_no_text_of_a_stranger_raises_anything_else(text: str) -> None:
    assert refusal(text)
    assert refusal(text, b"\2" * 33)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)))
def test_no_jwk_of_a_stranger_raises_anything_else(value) -> None:
    for name in ("kty", "crv", "x", "y"):
        assert refusal(sign(EC, "c", jwk={**POINT, name: value})) == "wrong_key"
    assert refusal(sign(RSA, "c", jwk={**jwk_of(RSA), "n": value})) == "wrong_key"


def test_a_proof_says_for_which_binding_it_was_issued_and_when() -> None:
    text = protocol.make_proof(ID, NOW)
    proof = protocol.read_proof(text)
    assert proof == (ID, NOW)
    assert len(text) == protocol.PROOF_LENGTH == 40


@pytest.mark.parametrize("change", ["", "A" * 40, "é", "{}A", "A{}", "{}====", "%"])
def test_a_proof_that_was_changed_is_none(change: str) -> None:
    assert protocol.read_proof(change.format(protocol.make_proof(ID, NOW))) in (None, (ID, NOW) if "=" in change else 0)


def test_each_letter_of_a_proof_counts() -> None:
    text = protocol.make_proof(ID, NOW)
    for at, letter in enumerate(text):
        other = "B" if letter == "A" else "A"
        assert protocol.read_proof(text[:at] + other + text[at + 1 :]) is None


@pytest.mark.parametrize(
    ("seconds", "good"), [(0, True), (599, True), (660, True), (661, False), (-660, True), (-661, False)]
)
def test_a_proof_is_good_for_its_life_and_for_requests_under_way(seconds: int, good: bool) -> None:
    proof = protocol.read_proof(protocol.make_proof(ID, NOW))
    assert protocol.is_fresh(proof, NOW + seconds * 1000) is good


def test_a_challenge_is_for_one_binding() -> None:
    text = protocol.make_refresh_challenge(ID, NOW)
    assert protocol.read_refresh_challenge(text, ID) == NOW
    assert protocol.read_refresh_challenge(text, b"87654321") is None
    assert protocol.read_refresh_challenge("", ID) is None


def test_a_challenge_is_for_one_sign_in(settings) -> None:
    text = protocol.make_registration_challenge("7", NOW)
    is_ours = protocol.is_registration_challenge
    assert is_ours(text, "7", NOW)
    assert not is_ours(text, "8", NOW)
    assert not is_ours(text, "7", NOW + 1)
    assert not is_ours("", "7", NOW)
    settings.REDSESS = {**settings.REDSESS, "PREFIX": "another-site"}
    assert not is_ours(text, "7", NOW)


def test_no_text_serves_for_another_purpose() -> None:
    proof, challenge = protocol.make_proof(ID, NOW), protocol.make_refresh_challenge(ID, NOW)
    assert protocol.read_proof(challenge) is None
    assert protocol.read_refresh_challenge(proof, ID) is None
    assert not protocol.is_registration_challenge(challenge, "7", NOW)


def test_keys_of_before_are_read_and_not_written(settings) -> None:
    texts = protocol.make_proof(ID, NOW), protocol.make_refresh_challenge(ID, NOW)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    assert protocol.read_proof(texts[0])
    assert protocol.read_refresh_challenge(texts[1], ID) == NOW
    assert protocol.make_proof(ID, NOW) != texts[0]
    settings.SECRET_KEY_FALLBACKS = []
    assert protocol.read_proof(texts[0]) is None


def test_the_proof_cookie_has_the_attributes_of_the_session_cookie(settings) -> None:
    settings.SESSION_COOKIE_NAME, settings.SESSION_COOKIE_DOMAIN = "__Secure-shop", ".shop.example"
    settings.SESSION_COOKIE_PATH, settings.SESSION_COOKIE_SAMESITE = "/blog/", "None"
    response = HttpResponse()
    protocol.set_proof_cookie(response, ID, NOW)
    cookie = response.cookies["__Secure-shop_proof"]
    attributes = "path=/blog/; domain=.shop.example; samesite=None; Secure; HttpOnly"
    assert protocol.proof_attributes() == attributes
    assert (cookie["path"], cookie["domain"], cookie["samesite"]) == ("/blog/", ".shop.example", "None")
    assert (cookie["secure"], cookie["httponly"], cookie["max-age"]) == (True, True, 600)
    protocol.delete_proof_cookie(response)
    cookie = response.cookies["__Secure-shop_proof"]
    assert (cookie["max-age"], cookie["domain"], cookie["path"]) == (0, ".shop.example", "/blog/")


def test_a_host_cookie_has_no_domain(settings) -> None:
    settings.SESSION_COOKIE_NAME, settings.SESSION_COOKIE_SAMESITE = "__Host-shop", None
    assert protocol.proof_attributes() == "path=/; Secure; HttpOnly"
    response = HttpResponse()
    protocol.delete_proof_cookie(response)
    assert response.cookies["__Host-shop_proof"]["secure"]
