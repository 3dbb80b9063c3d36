"""Verb `shapes`: the advice as text and as JSON, for a run with dynamic shapes, without any, and without batches."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.synthetic import HOSTILE_FORMULA, build_run
from tests.unit.report.test_text_report import REPORT
from xla_insight import cli
from xla_insight.analysis import analyze
from xla_insight.report.shapes import cause_elsewhere

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """140 steps of three widths, one graph each."""
    return build_run(tmp_path_factory.mktemp("runs") / "run", steps=140, step_ms=40, device_ms=25)


def test_the_advice_is_told_and_can_be_pasted(run: Path, capsys: Output) -> None:
    assert cli.main(["shapes", str(run)]) == 0
    text = capsys.readouterr().out
    assert "input_ids[1]" in text and "attention_mask[1]" in text
    assert "BucketCollator(" in text
    assert "as recorded" in text and "powers of two" in text
    assert '("input_ids", "attention_mask"): [' in text[text.index("To paste") :]


def test_json_holds_every_plan(run: Path, capsys: Output) -> None:
    assert cli.main(["shapes", str(run), "--json", "--horizon", "1000"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["steps"], found["future_steps"]) == (1, 140, 1000)
    plans = {plan["plan"]: plan for plan in found["plans"]}
    assert {"as_recorded", "pad_to_max", "multiples_of_8", "powers_of_two", "optimal_1", "optimal_3"} <= set(plans)
    assert sum(shape["batches"] for shape in found["shapes"]) == 140
    assert sum(found["dimensions"][0]["batches"]) == 140
    best = min(plan["total_s"] for name, plan in plans.items() if name.startswith("optimal"))
    assert all(best <= plan["total_s"] + 1e-9 for plan in found["plans"] if not plan["changes_order"])


def test_the_asked_number_of_buckets(run: Path, capsys: Output) -> None:
    assert cli.main(["shapes", str(run), "--json", "--buckets", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"] == "optimal_2"
    assert cli.main(["shapes", str(run), "--buckets", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_objective_and_all_ranks(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run", steps=60, step_ms=40, ranks=3)
    assert cli.main(["shapes", str(run), "--objective", "compiles", "--horizon", "100000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ranks"], found["steps"], found["objective"]) == (3, 60, "compiles")
    assert sum(found["dimensions"][0]["batches"]) == 180
    chosen = next(plan for plan in found["plans"] if plan["chosen"])
    assert len(chosen["buckets"][0]) == 1
    assert cli.main(["shapes", str(run)]) == 0
    text = capsys.readouterr().out
    assert "on each of 3 ranks" in text and "largest graph" in text
    assert cli.main(["shapes", str(run), "--objective", "money"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_shape_needs_nothing(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run", pattern="A", steps=30)
    assert cli.main(["shapes", str(run)]) == 0
    assert "same shape: nothing to pad" in capsys.readouterr().out
    assert analyze(run).shapes is None


def test_the_report_has_the_sentence_and_the_saving(run: Path, capsys: Output) -> None:
    facts = analyze(run).shapes
    assert facts is not None
    assert facts.plan is not None and facts.saves_s > 0
    assert cli.main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"]["summary"] == facts.summary
    assert cli.main(["report", str(run)]) == 0
    assert "xla-insight shapes" in capsys.readouterr().out


def test_exports_hold_shapes_and_plans(run: Path, tmp_path: Path) -> None:
    assert cli.main(["export", str(run), "--csv", str(tmp_path / "tables")]) == 0
    with open(tmp_path / "tables" / "shapes.csv", encoding="utf-8-sig", newline="") as file:
        assert sum(int(row["batches"]) for row in csv.DictReader(file)) == 140
    with open(tmp_path / "tables" / "plans.csv", encoding="utf-8-sig", newline="") as file:
        assert next(row["plan"] for row in csv.DictReader(file)) == "as_recorded"


def test_hostile_names_stay_text(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run", hostile=True, steps=60)
    assert cli.main(["shapes", str(run)]) == 0
    text = capsys.readouterr().out
    compile(
        text[text.index("  from xla_insight") :].split("\n\nA batch")[0].replace("\n  ", "\n").strip(), "pasted", "exec"
    )
    assert json.dumps(HOSTILE_FORMULA) in text


def test_what_recompiles_for_another_reason_is_pointed_to() -> None:
    grown = replace(
        REPORT.recompiles[1], cause="python_shape", expected=False, count=39, compile_s=20.7, summary="It grows."
    )
    told = cause_elsewhere(replace(REPORT, recompiles=(grown,)))
    assert told.startswith("What does recompile in this run (39 times, 20.7 s): It grows.")
    padded = replace(grown, cause="input_shape")
    assert cause_elsewhere(replace(REPORT, recompiles=(padded, replace(grown, expected=True)))) == ""
