"""A server that speaks TLS with a certificate it made itself, for `localhost` alone.

The key protects nothing: it is here so that no test has to make one.
"""

import ssl
from pathlib import Path

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBnDCCAUGgAwIBAgIUODLGXfx3h4BstmwQ1RwrsXiahYUwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTEzMTU0OVoYDzIxMjYxMDIy
MTMxNTQ5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASPQcIeMO1rUPrSEZjcE4iBQRi7jLuWferc42EWBtvxQOICG/KmhqDE
j9vAgeHGpRb8bYY91ghK1LvxG0Fabr08o28wbTAdBgNVHQ4EFgQU09GPcLz9tu07
JeRv0gZTcBL+Hp8wHwYDVR0jBBgwFoAU09GPcLz9tu07JeRv0gZTcBL+Hp8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSQAwRgIhANXamjG7b0DBQUx/CCT64mnE+XBDSpa0VMdqa+R5PhAnAiEA
yjYCC2N7/GwokSCnydXefFWGdnf5DoFJ9/orG4ESCws=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvH3YIHApgAWCbRjb
fCoF8uzPuh1SrEV+90vKkk+fBLmhRANCAASPQcIeMO1rUPrSEZjcE4iBQRi7jLuW
ferc42EWBtvxQOICG/KmhqDEj9vAgeHGpRb8bYY91ghK1LvxG0Fabr08
-----END PRIVATE KEY-----
"""


def server_context(folder: Path) -> ssl.SSLContext:
    """What such a server needs; the files lie in the folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def trusting_context() -> ssl.SSLContext:
    """A client that trusts this certificate, and no other."""
    return ssl.create_default_context(cadata=CERTIFICATE)
