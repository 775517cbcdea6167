"""Signatures: who has the key can make one, and everybody can check it (RFC 8032).

Whoever imports this pays some nine megabytes for it, and milliseconds: do it late, and not in the
thread of the loop. What is signed is not known here.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def public_key(key: bytes) -> bytes:
    """What others need to check what was signed with a key of 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def signature(key: bytes, text: bytes) -> bytes:
    """64 bytes that only the owner of the key can make."""
    return Ed25519PrivateKey.from_private_bytes(key).sign(text)


def is_signed(public: bytes, text: bytes, signed: bytes) -> bool:
    """Whether the owner of a key made this for that text."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signed, text)
    except (InvalidSignature, ValueError):
        return False
    return True
