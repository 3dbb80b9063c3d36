"""A compile explained: what is compared with what, the words for it, and what is said when that is not possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.graph.modules import read
from tests.unit.report.test_text_report import REPORT, SITE
from xla_insight.analysis.explain.aligned import Fold, Mark
from xla_insight.analysis.explain.explanation import (
    explain,
    fold_sentence,
    group_sentences,
    move_sentences,
    other_cause_sentence,
    rest_sentence,
    root_facts,
    sentence_of,
)
from xla_insight.analysis.explain.targets import Target
from xla_insight.facts import numbers
from xla_insight.facts.report import Member

KEPT = {name: read(f"{name}.hlo.pb") for name in ("base", "longer", "extra")}
MEMBER = Member("longer", 4, 0, 1.0, "base")
ENTRY = replace(REPORT.recompiles[1], members=(MEMBER,))


def target(member: Member = MEMBER) -> Target:
    return Target(ENTRY, member)


def test_it_is_compared_with_its_relative_or_the_wanted_graph() -> None:
    found = explain(target(), KEPT.get)
    assert found.comparison is not None and found.comparison.against == "base" and not found.chosen
    other = explain(target(), KEPT.get, "extra")
    assert other.comparison is not None and other.comparison.against == "extra" and other.chosen


@pytest.mark.parametrize(
    ("member", "kept", "sentence"),
    [
        (replace(MEMBER, graph=None), KEPT, "has no known hash"),
        (replace(MEMBER, against=None), KEPT, "no earlier graph of the same kind"),
        (MEMBER, {}, "HLO of graphs base and longer was not kept"),
        (MEMBER, {"base": KEPT["base"]}, "HLO of graph longer was not kept"),
        (MEMBER, {"base": b"\xff nonsense", "longer": KEPT["longer"]}, "cannot be read"),
    ],
)
def test_what_is_missing_is_said(member: Member, kept: Mapping[str, bytes], sentence: str) -> None:
    found = explain(target(member), kept.get)
    assert found.comparison is None and sentence in found.missing


def test_the_rest_is_counted_to_the_last_row() -> None:
    comparison = explain(target(), KEPT.get).comparison
    assert comparison is not None
    counts = comparison.aligned.counts()
    assert sum(counts.values()) == len(comparison.aligned) and counts[Mark.ROOT] == 1
    assert rest_sentence(comparison) == (
        f"Of the other {len(comparison.aligned) - 1} instructions: {counts[Mark.FOLLOWS]} follow from it; "
        f"{counts[Mark.EQUAL]} read the same."
    )
    assert move_sentences(comparison)[0] == "12 → 16 in 49 shapes (dimension 1 of input 6)"
    assert group_sentences(comparison) == []


def test_new_instructions_are_named_by_line() -> None:
    comparison = explain(target(replace(MEMBER, graph="extra")), KEPT.get).comparison
    assert comparison is not None
    assert any(text.startswith("added at step.py:") and "aten::topk" in text for text in group_sentences(comparison))


def test_the_root_in_words() -> None:
    root = root_facts(explain(target(), KEPT.get))
    assert root is not None and root.site is not None
    assert (root.before, root.now, root.opcode, root.site.line) == ("s64[4,12]", "s64[4,16]", "parameter", 23)


def test_the_line_and_the_name_are_those_of_the_report() -> None:
    told = {
        "site": {"file": SITE.file, "line": 31, "function": "collate", "source": SITE.source}, "inferred": False,
        "kind": "shape", "operation": "xla::device_data", "opcode": "parameter", "before": "s64[8,1]",
        "now": "s64[8,2]", "input": "input_ids", "dimension": 1, "follows": 4,
    }  # fmt: skip
    reported = Target(replace(ENTRY, root=told), MEMBER)
    root = root_facts(explain(reported, KEPT.get))
    assert root is not None and root.site == SITE
    assert (root.input_name, root.dimension, root.now) == ("input_ids", 1, "s64[4,16]")
    alone = root_facts(explain(reported, lambda _graph: None))
    assert alone is not None and (alone.now, alone.input_name) == ("s64[8,2]", "input_ids")
    chosen = root_facts(explain(reported, KEPT.get, "extra"))
    assert chosen is not None and chosen.site != SITE
    assert root_facts(explain(target(), lambda _graph: None)) is None


def test_against_another_graph_the_headline_is_how_those_two_differ() -> None:
    member = replace(MEMBER, summary="Its own sentence.")
    other = explain(Target(ENTRY, member), KEPT.get, "extra")
    root = root_facts(other)
    assert root is not None and root.site is not None
    assert sentence_of(other).startswith("Compared with graph extra, as asked: ")
    assert sentence_of(other).endswith(f"differ; the earliest difference is {root.said} at step.py:{root.site.line}.")
    assert other_cause_sentence(other) == "Against graph base: Its own sentence."
    same = explain(Target(ENTRY, member), KEPT.get, "base")
    assert (sentence_of(same), other_cause_sentence(same)) == ("Its own sentence.", "")


def test_a_compile_has_its_own_sentence_and_root() -> None:
    told = {"site": {"file": SITE.file, "line": 31, "function": "collate", "source": ""}, "kind": "shape",
            "opcode": "parameter", "operation": "xla::device_data", "input": "input_ids", "dimension": 1}  # fmt: skip
    example, own = {**told, "before": "s64[8,1]", "now": "s64[8,2]"}, {**told, "before": "s64[8,2]", "now": "s64[8,3]"}
    member = replace(MEMBER, summary="Its own sentence.", root=own)
    for fetch in (KEPT.get, lambda _graph: None):
        found = explain(Target(replace(ENTRY, root=example), member), fetch)
        root = root_facts(found)
        assert root is not None and (root.before, root.now, root.input_name) == ("s64[8,2]", "s64[8,3]", "input_ids")
        assert sentence_of(found) == "Its own sentence."
    assert sentence_of(explain(target(), KEPT.get)) == ENTRY.summary
    short = replace(member, root={**told, "before": "", "now": ""})
    compared = root_facts(explain(Target(ENTRY, short), KEPT.get))
    assert compared is not None and (compared.before, compared.now) == ("s64[4,12]", "s64[4,16]")


def test_folds_in_words() -> None:
    assert fold_sentence(Fold(0, 1204, ((Mark.EQUAL, 1204),))) == f"… 1{numbers.THIN_SPACE}204 equal instructions"
    mixed = Fold(0, 9, ((Mark.INSERTED, 2), (Mark.FOLLOWS, 3), (Mark.EQUAL, 4)))
    assert fold_sentence(mixed) == "… 9 instructions: 2 new, 3 that follow, 4 equal"
