from anyport.gateway.mishap import mishap


def test_a_mishap_names_the_error_and_the_function_and_shows_no_trace() -> None:
    def careless() -> None:
        raise KeyError("lost")

    try:
        careless()
    except KeyError as error:
        words = mishap(error)

    assert words.startswith("KeyError: 'lost' (")
    assert words.endswith("careless)")
    assert "\n" not in words


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert mishap(ValueError("x")) == "ValueError: x"
