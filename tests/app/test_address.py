"""The state of a view in its URL: it survives a round trip, and nonsense is ignored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from xla_insight_app.address import Address, format_steps, parse_steps

texts = st.text(min_size=1, max_size=20)


@given(
    run=st.none() | texts,
    process=st.none() | st.integers(0, 10**6),
    steps=st.none() | st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(lambda pair: (min(pair), max(pair))),
    graph=st.none() | texts,
    cause=st.none() | texts,
)
def test_an_address_survives_its_url(
    run: str | None, process: int | None, steps: tuple[int, int] | None, graph: str | None, cause: str | None
) -> None:
    address = Address(run=run, process=process, steps=steps, graph=graph, cause=cause)
    assert Address.parse(address.search) == address


@given(st.text(max_size=60))
def test_any_text_is_an_address(text: str) -> None:
    Address.parse("?" + text)


def test_nothing_selected_is_no_query() -> None:
    assert Address().search == ""
    assert Address.parse(None) == Address()


def test_typed_steps() -> None:
    assert parse_steps("100-200") == (100, 200)
    assert parse_steps(" 200 – 100 ") == (100, 200)
    assert parse_steps("57") == (57, 57)
    assert format_steps((3, 9)) == "3-9"
    for wrong in ("", None, "-5", "a-b", "1-2-3", "9" * 40):
        assert parse_steps(wrong) is None


def test_malformed_parameters_are_ignored() -> None:
    assert Address.parse("?process=-1&steps=x&run=a") == Address(run="a")


def test_another_run_keeps_no_selection() -> None:
    before = Address(run="a", process=2, steps=(1, 2), graph="f", cause="c", sort="hits:asc", filter="{}")
    assert before.of_other_run("b") == Address(run="b", sort="hits:asc")
    assert before.for_other_page() == Address(run="a", process=2, steps=(1, 2), graph="f", cause="c")
