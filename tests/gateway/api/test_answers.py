"""The shapes of answers keep up with what they are made from."""

from anyport.gateway.api.answers import Backend, EventAnswer, Monitoring
from anyport.record.event import Event
from tests.gateway.test_status import members_in_the_code


def test_no_member_of_the_status_is_left_out() -> None:
    of_others = {
        *("gateway", "backends", "capabilities", "config", "event_monitoring", "version"),
        *("uptime_s", "profile", "prefix", "separator", "errors", "backend_timeout", "log_level"),
        *("debug", "tools", "resources", "resource_templates", "prompts"),
    }
    shown = {*Backend.__struct_fields__, *Monitoring.__struct_fields__}

    assert shown == members_in_the_code() - of_others


def test_an_event_has_the_fields_that_the_journal_writes() -> None:
    assert EventAnswer.__struct_fields__ == Event.__struct_fields__
