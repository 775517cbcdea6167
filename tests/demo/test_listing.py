"""How a tool is listed."""

from anyport.demo.listing import READ_ONLY, descriptor


def test_a_title_is_the_name_as_people_write_it() -> None:
    schema = {"type": "object"}
    listed = descriptor("brew_only", "Brews.", schema, READ_ONLY, execution={"taskSupport": "x"})

    assert listed == {
        "name": "brew_only",
        "title": "Brew only",
        "description": "Brews.",
        "inputSchema": schema,
        "annotations": READ_ONLY,
        "execution": {"taskSupport": "x"},
    }
