"""Colours: contrast of every hue on its surface, and hues that stay apart."""

from __future__ import annotations

import pytest

from xla_insight.facts.report import HostState
from xla_insight.report.figures_colours import Scheme, blend, colours, contrast, graph_colour

GRAPHICS, TEXT = 3.0, 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == pytest.approx(1.0)


@pytest.mark.parametrize("scheme", Scheme)
def test_hues_have_aa_contrast_on_their_paper(scheme: Scheme) -> None:
    chosen = colours(scheme)
    # `outside` is drawn under the outline of the step, which carries the contrast.
    hosts = [hue for state, hue in chosen.host.items() if state is not HostState.OUTSIDE]
    for hue in (*hosts, chosen.device_busy, chosen.usual_graph, *chosen.deviants):
        assert contrast(hue, chosen.paper) >= GRAPHICS, hue
    for hue in (chosen.ink, chosen.muted, chosen.accent):
        assert contrast(hue, chosen.paper) >= TEXT, hue


@pytest.mark.parametrize("scheme", Scheme)
def test_every_host_state_has_its_own_hue(scheme: Scheme) -> None:
    chosen = colours(scheme)
    assert set(chosen.host) == set(HostState)
    hues = [*chosen.host.values(), chosen.device_busy]
    assert len(set(hues)) == len(hues)
    assert not set(chosen.deviants) & set(hues)


def test_only_the_most_frequent_graph_is_neutral() -> None:
    chosen = colours(Scheme.LIGHT)
    assert graph_colour(0, Scheme.LIGHT) == chosen.usual_graph
    odd = [graph_colour(rank, Scheme.LIGHT) for rank in range(1, 2 + len(chosen.deviants))]
    assert odd[:-1] == list(chosen.deviants)
    assert odd[-1] == chosen.deviants[0]


def test_blend_goes_from_paper_to_colour() -> None:
    assert blend("#102030", "#ffffff", 1.0) == "#102030"
    assert blend("#102030", "#ffffff", 0.0) == "#ffffff"
    assert blend("#000000", "#ffffff", 0.5) == "#808080"
