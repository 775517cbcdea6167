from anyport.record.ed25519 import is_signed, public_key, signature

# RFC 8032, section 7.1, test 2.
KEY = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNED = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_a_signature_is_the_one_of_the_standard() -> None:
    assert public_key(KEY) == PUBLIC
    assert signature(KEY, b"\x72") == SIGNED
    assert is_signed(PUBLIC, b"\x72", SIGNED)


def test_nothing_else_is_signed() -> None:
    assert not is_signed(PUBLIC, b"\x73", SIGNED)
    assert not is_signed(PUBLIC, b"\x72", SIGNED[:-1] + b"\x01")
    assert not is_signed(PUBLIC, b"\x72", b"short")
    assert not is_signed(public_key(b"\x01" * 32), b"\x72", SIGNED)
    assert not is_signed(b"no key", b"\x72", SIGNED)
