"""Queries over a run: they read the run and nothing else, from any thread, and give plain values."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.synthetic import build_run
from xla_insight.errors import QueryError
from xla_insight.store.reader import open_run


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{there}'",
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/*')",
        "attach '{there}'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "export database '{there}'",
        "create table x as select 1",
        "drop table steps",
        "delete from steps",
        "select 1; select 2",
        "",
        "selec",
    ],
)
def test_a_query_can_only_read_the_run(tmp_path: Path, query: str) -> None:
    there = tmp_path / "there"
    with open_run(build_run(tmp_path / "run", steps=2)) as run:
        with pytest.raises(QueryError) as caught:
            run.sql(query.format(there=there))
        assert "\n" not in str(caught.value)
        assert len(run.steps) == 2
    assert not there.exists()


def test_queries_from_several_threads(tmp_path: Path) -> None:
    with open_run(build_run(tmp_path / "run", steps=100)) as run:
        found: list[int] = []

        def look() -> None:
            found.extend(len(run.sql("select * from host_spans")) + len(run.executions) for _ in range(5))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 20
    assert len(set(found)) == 1


def test_sums_are_numbers_and_missing_values_are_missing(tmp_path: Path) -> None:
    with open_run(build_run(tmp_path / "run", steps=5)) as run:
        total = run.sql(
            "select sum(duration_ns) as total, avg(step) as mean, sum(duration_ns) * 1e30 as big from steps"
        )
        assert total["total"].dtype == "int64"
        assert run.sql("select null::integer as x")["x"].isna().all()
        assert run.sql("describe steps")["column_name"].tolist()[:2] == ["process", "rank"]
        assert not run.sql("explain select 1").empty
        with pytest.raises(AttributeError):
            _ = run.nothing
        with pytest.raises(QueryError, match="no table 'nothing'"):
            run.table("nothing")


def test_categories_hold_the_same_text(tmp_path: Path) -> None:
    with open_run(build_run(tmp_path / "run", steps=30)) as run:
        query = "select process, step, trigger, graph, duration_ns from executions order by process, time_ns"
        plain, encoded = run.sql(query), run.sql(query, categories=True)
        assert str(encoded["graph"].dtype) == "category"
        assert encoded.astype({"graph": "str", "trigger": "str"}).equals(plain)
        nothing = run.sql(f"select * from ({query}) where step < 0", categories=True)
        assert list(nothing.columns) == list(plain.columns)
        assert nothing.empty
