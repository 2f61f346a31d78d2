"""Certificates for a trial on one machine: an authority of your own, and a server that it vouches for.

python make_certificates.py FOLDER [HOST …]

For a real deployment use the certificates of your organisation.
"""

import ipaddress
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = timedelta(days=30)


def make_name(text: str) -> x509.Name:
    """A name for a certificate."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """What both certificates have."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + DAYS)
    )


def read_host(host: str) -> x509.GeneralName:
    """A host by its address or by its name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def make_certificates(folder: Path, hosts: list[str]) -> None:
    """Write ca.crt, server.crt and server.key. The key of the authority is not kept."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = make_name("An authority for a trial")
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    root = (
        start_certificate(name, name, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    leaf = (
        start_certificate(make_name(hosts[0]), name, server)
        .add_extension(x509.SubjectAlternativeName([read_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(signer, critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(root.public_bytes(pem))
    (folder / "server.crt").write_bytes(leaf.public_bytes(pem))
    key = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "server.key"
    path.touch(mode=0o600)
    path.write_bytes(key)


if __name__ == "__main__":
    make_certificates(Path(sys.argv[1]), sys.argv[2:] or ["localhost", "127.0.0.1"])
