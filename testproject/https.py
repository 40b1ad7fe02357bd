"""HTTPS for the demo: a certificate that nobody has signed, and the switches by which Chromium takes it."""

from __future__ import annotations

import base64
import hashlib
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SOFTWARE_KEYS = "DeviceBoundSessions,EnableBoundSessionCredentialsSoftwareKeysForManualTesting"
"""Features of Chromium: keys of sessions may be in a file, so that a machine without a TPM can be tried."""

DAYS = 30


def make_certificate(*hosts: str) -> tuple[bytes, str]:
    """Return a new certificate for these names and addresses with its key, and the hash by which Chromium trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "The demo shop")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([_named(host) for host in hosts]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    trusted = base64.b64encode(hashlib.sha256(public).digest()).decode()
    return private + certificate.public_bytes(serialization.Encoding.PEM), trusted


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def context_of(certificate: bytes) -> ssl.SSLContext:
    """Return the context of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        # Python loads keys from files only. Nobody else can read this folder.
        path = Path(folder, "demo.pem")
        path.write_bytes(certificate)
        context.load_cert_chain(path)
    return context
