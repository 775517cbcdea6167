"""What is shown of the gateway, its servers and its profiles."""

from typing import get_args, get_type_hints

import msgspec

from anyport.gateway.api.answers import Backend, Offer, OfferCounts, Resource
from anyport.gateway.api.views import profile_detail, profile_view, server_view, status_view
from anyport.upstream.tender import State
from tests.gateway.api.fakes import FakeGateway


def test_a_server_shows_what_it_is_and_offers(gateway: FakeGateway) -> None:
    shown = server_view(gateway, gateway.servers["docs"])

    assert (shown.slug, shown.profiles, shown.scope) == ("docs", ("default",), "auto")
    assert shown.timeout_s == 60
    assert shown.connections == 1
    assert shown.offers == OfferCounts(tools=2, resources=1, resource_templates=1, prompts=1)
    assert shown.status.revision == "2025-11-25"
    assert shown.status.tool_count == 2


def test_a_server_that_is_down_says_why(gateway: FakeGateway) -> None:
    assert server_view(gateway, gateway.servers["down"]).status.last_error == "exit code 1"
    assert server_view(gateway, gateway.servers["off"]).status.status == "disabled"


def test_a_profile_shows_where_it_is_and_how_it_names_things(gateway: FakeGateway) -> None:
    shown = profile_view(gateway.profiles["default"])

    assert (shown.path, shown.servers) == ("/mcp/default", ("docs", "down", "off"))
    assert (shown.prefix, shown.separator, shown.errors) == ("always", "__", "context")
    assert shown.offers == OfferCounts(tools=4, resources=1, resource_templates=1, prompts=1)


def test_a_profile_in_full_shows_every_offer_and_whose_it_is(gateway: FakeGateway) -> None:
    shown = profile_detail(gateway.profiles["default"])

    assert [tool.name for tool in shown.tools[:2]] == ["gateway_status", "get_events"]
    assert [tool.server for tool in shown.tools[:2]] == [None, None]
    assert shown.tools[2] == Offer(
        name="docs__read",
        server="docs",
        native_name="read",
        title="Read",
        description="Reads a page.",
    )
    assert shown.resources == (
        Resource(
            uri="doc:1", server="docs", native_uri="doc:1", name="one", mime_type="text/plain"
        ),
    )
    assert [template.uri for template in shown.resource_templates] == ["doc:{id}"]
    assert [prompt.name for prompt in shown.prompts] == ["docs__ask"]
    assert shown.servers["docs"].tool_count == 2


def test_an_offer_with_members_of_wrong_types_still_shows_its_name(gateway: FakeGateway) -> None:
    odd = profile_detail(gateway.profiles["default"]).tools[3]

    assert odd == Offer(name="docs__odd", server="docs", native_name="odd")


def test_the_status_shows_everything_at_a_glance(gateway: FakeGateway) -> None:
    gateway.now += 1.5
    gateway.draining = True
    gateway.metrics.streams = lambda: 2

    shown = status_view(gateway)

    assert (shown.gateway.name, shown.gateway.uptime_s) == ("anyport", 1.5)
    assert shown.gateway.draining
    assert shown.gateway.event_monitoring.enabled
    assert (shown.traffic.sessions, shown.traffic.streams) == (0, 2)
    assert set(shown.servers) == {"docs", "down", "off"}
    assert shown.profiles["default"].tools == 4


def test_nothing_shows_what_the_configuration_keeps_secret(gateway: FakeGateway) -> None:
    shown = [
        *(server_view(gateway, server) for server in gateway.servers.values()),
        profile_detail(gateway.profiles["default"]),
        status_view(gateway),
    ]

    assert b"hunter2" not in msgspec.json.encode(shown)


def test_every_state_of_a_server_can_be_told() -> None:
    told = set(get_args(get_type_hints(Backend)["status"]))
    assert told == {"disabled", *(state.value for state in State)}
