"""
A browser that binds sessions to its device, in Python: it makes keys, signs challenges, and holds requests meanwhile.

It does what Chromium 156 was seen to do. A test deletes the proof cookie when its life is over.
"""

import json
import re
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.conf import settings
from django.http import HttpResponse
from django.test import AsyncClient, Client

from tests.helpers.visitors import Browser

OFFER = re.compile(r'\(ES256 RS256\);path="([^"]+)";challenge="([\w-]+)"')
CHALLENGE = re.compile(r'"([\w-]+)";id="([^"]+)"')

TRIES_MAX = 3
"""How many challenges in a row are signed for one refresh."""


def make_key(algorithm: str = "ES256", **options: Any) -> Any:
    if algorithm == "ES256":
        return ec.generate_private_key(options.get("curve", ec.SECP256R1()))
    return rsa.generate_private_key(options.get("exponent", 65537), options.get("bits", 2048))


def jwk_of(key: Any) -> dict[str, str]:
    """Return the public key as a browser sends it."""
    is_ec = isinstance(key, ec.EllipticCurvePrivateKey)
    algorithm = jwt.algorithms.ECAlgorithm if is_ec else jwt.algorithms.RSAAlgorithm
    jwk = algorithm.to_jwk(key.public_key(), as_dict=True)
    return {name: jwk[name] for name in ("kty", "crv", "x", "y", "n", "e") if name in jwk}


def sign(key: Any, challenge: str, *, jwk: Any = None, alg: str = "", **header: Any) -> str:
    """Return the header ``Secure-Session-Response`` with a JWS: in a registration with ``jwk``, else without."""
    alg = alg or ("ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256")
    named = {"typ": "dbsc+jwt", **({} if jwk is None else {"jwk": jwk}), **header}
    return f'"{jwt.PyJWS().encode(json.dumps({"jti": challenge}).encode(), key, alg, named)}"'


class DeviceBrowser(Browser):
    """
    A visitor whose browser binds sessions.

    ``offer`` is the last that was made: the path and the challenge. ``bound`` are the instructions that the browser
    goes by; None if no session is bound. ``refreshes`` counts the requests to the refresh URL.
    """

    def __init__(self, client: Client | AsyncClient, *, algorithm: str = "ES256", registers: bool = True) -> None:
        super().__init__(client)
        self.algorithm, self.registers = algorithm, registers
        self.key: Any = None
        self.offer: tuple[str, str] | None = None
        self.bound: dict[str, Any] | None = None
        self.skipped = ""
        self.refreshes = 0

    def sign_in_as(self, user_id: int = 1) -> HttpResponse:
        """Sign in, as a user who is in no table. The session is bound after that, if the browser ``registers``."""
        return self.get(f"{self.views}/held/sign-in/{user_id}/")

    def send(self, method: str, path: str, data: Any = None, **headers: str) -> HttpResponse:
        """Send one request by HTTPS, as it is. Cookies that the response deletes are gone."""
        options = {"secure": True, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}
        response = self._ask(getattr(self.client, method), path, data, **options)
        for name, morsel in response.cookies.items():
            if morsel["max-age"] == 0:
                self.client.cookies.pop(name, None)
        return response

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self._answer("get", path, **headers)

    def post(self, path: str, data: dict[str, str] | None = None, **headers: str) -> HttpResponse:
        return self._answer("post", path, data, **headers)

    def register(self, **options: Any) -> HttpResponse:
        """Answer the last offer with a new key. ``options`` are those of :func:`sign`."""
        assert self.offer is not None
        path, challenge = self.offer
        key = options.pop("key", None) or make_key(self.algorithm)
        field = sign(key, **{"challenge": challenge, "jwk": jwk_of(key), **options})
        response = self.send("post", path, secure_session_response=field)
        if response.status_code == 200:
            self.key, self.bound = key, json.loads(response.content)
        return response

    def refresh(self) -> HttpResponse | None:
        """Prove that the browser has the key. None if no session is bound. Return the last response."""
        challenge = response = None
        for _ in range(TRIES_MAX):
            if self.bound is None:
                break
            response = self.refresh_once(challenge)
            if response.status_code != 403:
                break
            challenge, identifier = CHALLENGE.fullmatch(response["Secure-Session-Challenge"]).groups()
            assert identifier == self.bound["session_identifier"]
        return response

    def refresh_once(self, challenge: str | None = None, **options: Any) -> HttpResponse:
        """Send one request to the refresh URL, which signs ``challenge``; and forget the key if the answer says so."""
        assert self.bound is not None
        self.refreshes += 1
        headers = {"sec_secure_session_id": f'"{self.bound["session_identifier"]}"'}
        if challenge is not None:
            headers["secure_session_response"] = sign(options.pop("key", self.key), challenge, **options)
        response = self.send("post", self.bound["refresh_url"], **headers)
        status, self.skipped = response.status_code, ""
        if status >= 500:
            self.skipped = f'server_error;session_identifier="{self.bound["session_identifier"]}"'
        elif status not in (200, 403, 407, 429):
            self.bound = None
        elif status == 200:
            found = json.loads(response.content)
            self.bound = found if found.get("continue", True) else None
        return response

    def challenge(self) -> str:
        """Return a challenge of the refresh URL."""
        return CHALLENGE.fullmatch(self.refresh_once()["Secure-Session-Challenge"])[1]

    @property
    def proof(self) -> str | None:
        """The proof cookie that this browser sends, if any."""
        morsel = self.client.cookies.get(f"{settings.SESSION_COOKIE_NAME}_proof")
        return morsel.value if morsel else None

    @proof.setter
    def proof(self, value: str | None) -> None:
        self.client.cookies.pop(f"{settings.SESSION_COOKIE_NAME}_proof", None)
        if value is not None:
            self.client.cookies[f"{settings.SESSION_COOKIE_NAME}_proof"] = value

    def _answer(self, method: str, path: str, data: Any = None, **headers: str) -> HttpResponse:
        """Send a request as a browser does: it is held until the proof cookie is there. Take offers."""
        if self.bound and self.proof is None and headers.get("sec_fetch_site") != "cross-site":
            self.refresh()
            if self.skipped:
                headers["secure_session_skipped"] = self.skipped
        response = self.send(method, path, data, **headers)
        offered = OFFER.fullmatch(response.get("Secure-Session-Registration", ""))
        if offered:
            self.offer = offered[1], offered[2]
            if self.registers:
                self.register()
        return response
