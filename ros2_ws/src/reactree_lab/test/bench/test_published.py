"""What papers have published is whole, and belongs to the suites that say so."""

from __future__ import annotations

from reactree_lab.bench.spec import SUITES


def test_every_row_has_a_value_in_each_column_and_names_its_model() -> None:
    tables = [table for suite in SUITES for table in suite.published]
    assert len(tables) == 8
    for table in tables:
        assert table.head[:2] == ("planner", "language model")
        assert {len(row) for row in table.rows} == {len(table.head)}
        assert all(value.strip() for row in table.rows for value in row)
        named = [tuple(value for value in row if not value[0].isdigit()) for row in table.rows]
        assert len(set(named)) == len(named)
