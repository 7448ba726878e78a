"""The LaTeX table of `reactree lab report --as latex`."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_runs import bench_of, line
from command_line import Cli
from test_headline import of

from reactree_lab.bench.comparison import pairings
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bench.latex import as_latex, escaped
from reactree_lab.bench.results import RunLine


def cells(*planners: list[RunLine]) -> dict[str, list[str]]:
    """The cells of each planner's row."""
    runs = {some[0].planner: some for some in planners}
    text = as_latex(runs, pairings(runs), []).split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = [row.removesuffix(" \\\\").split(" & ") for row in text.splitlines()]
    return {name: values for name, *values in rows}


@pytest.mark.bench
def test_the_best_is_bold_only_if_it_is_significantly_better_than_each_other() -> None:
    table = cells(of("react", 2), of("zsp", 12), of("reactree", 20))
    assert table["reactree"][:2] == ["20", r"\textbf{1.000 (0.839--1.000)}"]
    assert table["zsp"][1] == "0.600 (0.387--0.781)"
    assert "textbf" not in "".join([*table["react"], *table["zsp"]])
    for others in (of("zsp", 19), of("zsp", 20)):
        assert "textbf" not in str(cells(of("react", 2), others, of("reactree", 20)))
    assert "textbf" not in str(cells(of("reactree", 20)))


@pytest.mark.bench
def test_fewer_steps_are_not_bold_and_estimated_tokens_are_marked() -> None:
    counted = {"mean_input_tokens": 500.0, "requests": 4, "approximate_tokens": True}
    quick = [line("quick", task, gsr=0.0, steps=1, **counted) for task in range(20)]
    table = cells(quick, of("slow", 0))
    assert table["quick"][4:] == ["1.0", r"$\approx$ 2000", "--", "0.50"]
    assert table["slow"][4:] == ["8.0", "--", "--", "0.50"]


@pytest.mark.bench
def test_the_command_prints_a_table_that_booktabs_sets_and_writes_it(tmp_path: Path, cli: Cli) -> None:
    names = (r"100% & <b>|a_b|$x$#{~^\}", "reactree_wm:control_flow=seq")
    settings = BenchSettings(
        suite="generated", planners=names, contenders={names[0]: {"planner": "react", "llm": {"llm": "small"}}}
    )
    folder = bench_of(tmp_path / "out", *(line(name, 1) for name in names), settings=settings)
    ended = cli("lab", "report", folder, "--as", "latex")
    assert ended.code == 0
    assert ended.out == (folder / "report.tex").read_text(encoding="utf-8")
    comments, _, table = ended.out.partition(r"\begin{tabular}{lrrrrrrrr}")
    assert all(one.startswith("% ") for one in comments.splitlines())
    assert r"% \usepackage{booktabs}" in comments
    assert "reactree_wm: planner reactree_wm, control_flow=seq" in comments
    rows = [row for row in table.splitlines() if row.endswith(r" \\")]
    assert [row.replace(r"\&", "").count("&") for row in rows] == [8, 8, 8]
    strange = r"100\% \& \textless{}b\textgreater{}\textbar{}a\_b\textbar{}\$x\$\#\{\textasciitilde{}"
    assert rows[1].startswith(rf"{strange}\textasciicircum{{}}\textbackslash{{}}\}} & 1 & ")
    assert table.split()[-1] == r"\end{tabular}"
    assert not (folder / "report.html").exists()


def test_prices_have_no_place_in_the_latex_table(tmp_path: Path, cli: Cli) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("mini: {input: 1, output: 1}")
    ended = cli("lab", "report", tmp_path, "--as", "latex", "--prices", prices)
    assert (ended.code, "the LaTeX table has no prices; leave it out" in ended.err) == (2, True)


def test_line_breaks_and_dashes_are_set_as_text() -> None:
    assert escaped("a\n  b – c…") == r"a b -- c\ldots{}"
