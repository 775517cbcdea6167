"""A principal is one tuple, and every part of it counts."""

from anyport.protocol.principal import LOCAL, Principal


def test_principals_differ_by_any_of_their_parts() -> None:
    some = Principal("token", "laptop", "editor")

    assert some == Principal("token", "laptop", "editor")
    assert len({some, Principal("x", "laptop", "editor"), Principal("token", "laptop")}) == 3


def test_a_principal_is_shown_as_issuer_and_subject() -> None:
    assert str(Principal("token", "laptop", "editor")) == "token:laptop"
    assert str(LOCAL) == "local:user"
