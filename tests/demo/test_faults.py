"""Faults and the members they complain about."""

import pytest

from anyport.demo.faults import Fault, MissingCapability, object_member, string_member


def test_an_error_has_data_only_if_it_was_given_some() -> None:
    assert Fault(1, "a").to_json() == {"code": 1, "message": "a"}
    assert Fault(1, "a", None).to_json() == {"code": 1, "message": "a", "data": None}


def test_a_missing_capability_is_named_in_one_breath() -> None:
    assert "elicitation.url," in str(MissingCapability({"elicitation": {"url": {}}}))


def test_a_missing_capability_makes_an_error_that_names_it() -> None:
    fault = MissingCapability({"roots": {}}).fault()

    assert (fault.code, fault.data) == (-32021, {"requiredCapabilities": {"roots": {}}})


def test_a_member_of_the_wrong_type_is_named() -> None:
    with pytest.raises(Fault, match="'a' must be an object"):
        object_member({"a": None}, "a", default={})
    with pytest.raises(Fault, match="'b' must be a string"):
        string_member({}, "b")
