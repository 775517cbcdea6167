"""Certificates of servers that vouch for themselves, and who trusts them.

The keys protect nothing: they are here so that no test has to make one.
"""

import ssl
from pathlib import Path
from typing import Final

GOOD: Final = """\
-----BEGIN CERTIFICATE-----
MIIBaDCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGBy8nQj+Pqm1G/z
hWtEI3bTGWp/afbFWRDqgYLDx/OePsYMOEz8XNLDVr27rx8+hndHBFa0LmuPtqNC
qml9+IijTjBMMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFEc6K/rcBzQl39ik
YztJFgmkuI0wMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQD
AgNJADBGAiEAnaTi4/zTmaOp8t87WR7ajXWMo7e/aboBApEh4RiXyxUCIQCn8+c+
d+vHT8k3hhAo2ntlGmbKmUZej5jKk+UqLVVNLw==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgSgDfDKehyjfdrne+
QSRQC2HXyij6FLiyYGRQDFt/erOhRANCAARgcvJ0I/j6ptRv84VrRCN20xlqf2n2
xVkQ6oGCw8fznj7GDDhM/FzSw1a9u68fPoZ3RwRWtC5rj7ajQqppffiI
-----END PRIVATE KEY-----
"""
"""For `localhost` and 127.0.0.1, for a century."""

EXPIRED: Final = """\
-----BEGIN CERTIFICATE-----
MIIBYTCCAQegAwIBAgIBAjAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAdleHBpcmVk
MB4XDTIwMDEwMTAwMDAwMFoXDTIwMDEwMjAwMDAwMFowEjEQMA4GA1UEAwwHZXhw
aXJlZDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAxRemO8x9Sdb6kuHZqHxk6v
FZplVdcnfMKbOlmv87hyPUXOXFIPXfdghNgyZxy1pstF5vENK5Oh77SHRHKYf+aj
TjBMMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFNTr8fsQvI8IOmT0TI71wdh2
K6xXMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBF
AiEA67L8aN5OyGNYfyXSSz81XmCQDyV/3gR0HrXGx6TBgGcCIA2KNfQmOpAEQD3N
7E6P2h5MUT/a0V9DTku8VAKJ37uD
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUJdSG3zTZq6AUoAU
xL7HSN+MVg8XRVgyPPwIarbvtcehRANCAAQMUXpjvMfUnW+pLh2ah8ZOrxWaZVXX
J3zCmzpZr/O4cj1FzlxSD133YITYMmcctabLRebxDSuToe+0h0RymH/m
-----END PRIVATE KEY-----
"""
"""For the same names, on one day in 2020."""

OTHER: Final = """\
-----BEGIN CERTIFICATE-----
MIIBZTCCAQqgAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDApvdGhlci50
ZXN0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DApvdGhlci50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEujwvkkPMh6Rm
yoc6B9e6q1j0es03aJBNSHRpfkMKhIsRcYkUmdd0vlyR0CO5xGs08inLhClnPpeF
J5GPxhQ49KNJMEcwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUwmU9zSV0amg5
fvIatFAlBoYWxMUwFQYDVR0RBA4wDIIKb3RoZXIudGVzdDAKBggqhkjOPQQDAgNJ
ADBGAiEA5IqFpzeank2nschuNDTDTi3o/EeGLRXeOXEunBN19tUCIQCLUA+p3fM9
eq9fpJUCzT3Z6udnIxIy9meG4C8EWxO30w==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgh6KyLnPqSj6EGR2F
TFy6gCGEktG/RlK/OqvhQOlxQ6ShRANCAAS6PC+SQ8yHpGbKhzoH17qrWPR6zTdo
kE1IdGl+QwqEixFxiRSZ13S+XJHQI7nEazTyKcuEKWc+l4UnkY/GFDj0
-----END PRIVATE KEY-----
"""
"""For another name."""

ALL: Final = (GOOD, EXPIRED, OTHER)


def speaking_tls(folder: Path, pair: str) -> ssl.SSLContext:
    """What a server with one of these needs."""
    file = folder / "pair.pem"
    file.write_text(pair)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def trust_store(folder: Path) -> Path:
    """A file of roots, with all of these in it."""
    file = folder / "roots.pem"
    file.write_text("".join(pair.partition("-----BEGIN PRIVATE")[0] for pair in ALL))
    return file
