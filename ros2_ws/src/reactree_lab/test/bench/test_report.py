"""`reactree lab report`: the table, the page, its links, and benches that lack something."""

from __future__ import annotations

import html
import importlib.util
import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from bench_runs import SETTINGS, bench_of, line
from command_line import Cli

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.job_runner import GOAL, Finished
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bench.report import (
    as_html,
    bullets,
    escaped,
    heading,
    link,
    table,
)
from reactree_lab.bench.results import Condition, Goal, goal_as_json

TWO = BenchSettings(suite="generated", suite_settings={"houses": 1}, planners=("react", "reactree_wm"))


def rows(markdown: str) -> dict[str, list[str]]:
    """The cells of every table row by the row's name."""
    lines = [row.strip("| ").split(" | ") for row in markdown.splitlines() if row.startswith("|")]
    return {cells[0]: cells[1:] for cells in lines}


class Page(HTMLParser):
    """Keeps what a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.sources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name == "href" and value]
        self.sources += [value for name, value in attrs if name == "src" and value]


@pytest.mark.bench
def test_success_is_told_by_how_much_is_asked_for(tmp_path: Path, cli: Cli) -> None:
    def goal(count: int, switches: int) -> bytes:
        moved = Condition(relation="on", item="apple", target="sofa", count=count, fulfilled=0)
        turned_on = Condition(relation="turnOn", item="", target="tv", count=1, fulfilled=0)
        return goal_as_json(Goal((moved, *[turned_on] * switches), ("kitchen 1",), "kitchen 1")).encode()

    folder = tmp_path / "out"
    with closing(BenchFolder(folder, TWO, runs=8)) as opened:
        for task, (count, switches) in enumerate([(1, 0), (2, 0), (1, 1), (5, 0)], 1):
            for planner in TWO.planners:
                achieved = planner == "react" or count == 1
                files = {GOAL: goal(count, switches)} if task < 4 or planner == "react" else {}
                opened.record(Finished(line(planner, task, gsr=float(achieved)), files))
    assert cli("lab", "report", folder).code == 0
    table = rows((folder / "report.md").read_text(encoding="utf-8"))
    assert table["GSR, 1 thing"] == ["1.000 (0.207–1.000) of 1", "1.000 (0.207–1.000) of 1"]
    assert table["GSR, 2 things"] == ["1.000 (0.342–1.000) of 2", "0.500 (0.095–0.905) of 2"]
    assert table["GSR, 5 things"] == ["1.000 (0.207–1.000) of 1", "–"]
    assert table["SSR, 2 things"] == ["1.000 (1.000–1.000) of 2", "0.500 (0.000–1.000) of 2"]
    plot = (folder / "success_by_size.svg").read_text(encoding="utf-8")
    assert [text for text in ("things asked for", ">react<", ">reactree_wm<", ">5<") if text not in plot] == []


@pytest.mark.bench
def test_contenders_are_told_with_their_language_models(tmp_path: Path, cli: Cli) -> None:
    contenders = {
        "mine": {"planner": "react", "llm": {"llm": "small", "model": "there"}},
        "rules": {"planner": "react"},
    }
    settings = BenchSettings(suite="generated", planners=tuple(contenders), contenders=contenders)
    folder = bench_of(tmp_path / "out", line("mine"), line("rules"), settings=settings)
    assert cli("lab", "report", folder).code == 0
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "mine: planner react, language model llm: small, model: there" in text
    assert "rules: planner react, language model llm: expert (rules, no language model)" in text


@pytest.mark.bench
def test_the_table_has_the_values_worked_out_by_hand(tmp_path: Path, cli: Cli) -> None:
    counted = {"prompt_tokens": 1000, "cached_tokens": 900, "max_input_tokens": 300, "mean_input_tokens": 250.0}
    lines = [
        *(
            line("react", task, gsr=float(task < 6), decisions=9 + task, actions=4, executable_actions=3, **counted)
            for task in range(1, 11)
        ),
        *(
            line("reactree_wm", task, max_input_tokens=100 * task, mean_output_tokens=8.0, approximate_tokens=True)
            for task in range(1, 11)
        ),
    ]
    folder = bench_of(tmp_path / "out", *lines, settings=TWO)
    assert cli("lab", "report", folder).code == 0
    table = rows((folder / "report.md").read_text(encoding="utf-8"))
    assert table["runs"] == ["10", "10"]
    assert table["GSR"] == ["0.500 (0.237–0.763)", "1.000 (0.722–1.000)"]
    # 10, …, 19: standard deviation 3.0277, t 2.2622
    assert table["decisions"] == ["14.5 (12.3–16.7)", "10.0 (10.0–10.0)"]
    assert table["executable actions"] == ["0.750 (0.750–0.750)", "–"]
    # 100, …, 1000: standard deviation 302.77
    assert table["longest input, tokens"] == ["300 (300–300)", "≈ 550 (333–767)"]
    assert table["longest of all, tokens"] == ["300", "≈ 1000"]
    assert table["mean input, tokens"] == ["250 (250–250)", "–"]
    assert table["mean output, tokens"] == ["–", "≈ 8.0 (8.0–8.0)"]
    assert table["cached share of input"] == ["0.900 (0.900–0.900)", "–"]
    assert table["time, of react's"] == ["100%", "100%"]
    assert table["context, of react's"] == ["100%", "–"]
    assert table["seconds"] == ["0.50 (0.50–0.50)", "0.50 (0.50–0.50)"]


@pytest.mark.bench
def test_how_each_planner_asked_the_model_is_told_with_how_its_runs_ended(tmp_path: Path, cli: Cli) -> None:
    asked = {"replies": 10, "model_seconds": 5.0, "output_tokens": 200, "mean_input_tokens": 800.0}
    vain = {"attempts": 14, "refused_attempts": 4, "repeated_attempts": 7, "refused_tokens": 50}
    folder = bench_of(
        tmp_path / "out",
        line("react", 1, end="stuck", gsr=0.0, **asked, **vain),
        line("react", 2, **asked, attempts=10),
        line("reactree_wm", 1),
        settings=TWO,
    )
    assert cli("lab", "report", folder).code == 0
    table = rows((folder / "report.md").read_text(encoding="utf-8"))
    # the means of 14 / 10 and 1, of 4 / 14, 7 / 14 and 50 / 200 and 0
    names = ("requests a decision", "refused", "repeated", "tokens refused", "seconds a decision")
    assert [table[name][0].split()[0] for name in names] == ["1.20", "0.143", "0.250", "0.125", "0.50"]
    assert [table[name][1] for name in names] == ["–"] * 5
    assert table["ended"] == ["1 stuck, 1 done", "1 done"]


@pytest.mark.bench
def test_what_a_run_costs_is_told_where_somebody_says_the_prices(tmp_path: Path, cli: Cli) -> None:
    counted = {"mean_input_tokens": 500.0, "mean_output_tokens": 20.0, "requests": 4, "cached_tokens": 1000}
    prices = tmp_path / "prices.yaml"
    prices.write_text("mini: {input: 0.15, cached: 0.05, output: 0.6}")
    folder = bench_of(tmp_path / "out", line("react", 1, **counted), line("reactree_wm", 1), settings=TWO)
    assert cli("lab", "report", folder, "--prices", prices).code == 0
    table = rows((folder / "report.md").read_text(encoding="utf-8"))
    assert table["input of all requests, tokens"] == ["2000", "–"]
    assert table["output of all requests, tokens"] == ["80", "–"]
    assert table["cost by mini, thousandths of a dollar"] == ["0.25", "–"]  # 1000 * (0.15 + 0.05) + 80 * 0.6
    assert table["cost by mini, thousandths of a dollar, without a cache"] == ["0.35", "–"]
    for wrong in ("mini: {input: -1, output: 1}", "mini: {input: 1, out: 2}", "- mini"):
        prices.write_text(wrong)
        ended = cli("lab", "report", folder, "--prices", prices)
        assert (ended.code, "prices.yaml" in ended.err, "Traceback" in ended.err) == (2, True, False)


@pytest.mark.bench
def test_what_papers_have_published_stands_apart_with_its_model(tmp_path: Path, cli: Cli) -> None:
    settings = BenchSettings(suite="scienceworld", suite_settings={}, planners=("react",))
    folder = bench_of(tmp_path / "out", line("react", 1, suite="scienceworld", ssr=0.25), settings=settings)
    assert cli("lab", "report", folder).code == 0
    text = (folder / "report.md").read_text(encoding="utf-8")
    ours, _, theirs = text.partition("## Published elsewhere: ReCode")
    assert "| SSR (score) | 0.250 |" in ours
    assert "GPT-4o" not in ours
    assert "| ReCode | GPT-4o mini | 42.78 | 41.18 |" in theirs
    assert "Not from this bench." in theirs


@pytest.mark.bench
def test_the_page_needs_no_other_file_and_every_failed_run_can_be_reached_from_it(
    undisturbed: Path, tmp_path: Path, cli: Cli
) -> None:
    failed = [line("react", 7, gsr=0.0), line("reactree_wm", 7, gsr=0.5, instruction="<script>x|y</script> *z*")]
    folder = bench_of(tmp_path / "out", line("react", 8), *failed)
    ended = cli("lab", "report", folder)
    assert ended.code == 0
    assert "3 of 3 runs done, 2 failed" in ended.out
    text, markdown = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    page = Page(text)
    assert page.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert page.links == ["runs/react/0/7/", "runs/reactree_wm/0/7/"]
    assert "<script>" not in text
    pictures = re.findall(r"!\[.*\]\((.+)\)", markdown)
    assert pictures == ["success.svg", "success_by_decisions.svg"]  # these runs have no events
    for path in [*page.links, *pictures, *re.findall(r"\[react.*?\]\((.+?)\)", markdown)]:
        assert (folder / unquote(path)).exists(), path


@pytest.mark.bench
def test_the_report_has_short_names_and_says_once_what_they_stand_for(tmp_path: Path, cli: Cli) -> None:
    bare = "system_text=false:fixed_example=false:break_rounds=true"
    names = (f"react_wm:{bare}", f"reactree_wm:{bare}", f"reactree_wm:{bare}:control_flow=seq")
    settings = BenchSettings(suite="generated", suite_settings={"houses": 1}, planners=names)
    lines = [line(name, task, gsr=float(task < 9)) for name in names for task in range(10)]
    folder = bench_of(tmp_path / "out", *lines, settings=settings)
    assert (folder / "runs" / "react_wm" / "0" / "3").is_dir()
    ended = cli("lab", "report", folder)
    text, markdown = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    plots = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.svg"))
    for said in (ended.out, text, markdown, plots):
        assert "system_text=false:" not in said
    for said in (text, markdown.replace("\\", "")):
        assert said.count("All planners: system_text=false, fixed_example=false, break_rounds=true") == 1
        assert said.count("system_text=false") == 1
    assert rows(markdown)["measure"] == ["react\\_wm", "reactree\\_wm", "reactree\\_wm:control\\_flow=seq"]
    assert ">reactree_wm:control_flow=seq<" in plots
    assert Page(text).links == [
        f"runs/{name}/0/9/" for name in ("react_wm", "reactree_wm", "reactree_wm%3Acontrol_flow%3Dseq")
    ]


@pytest.mark.bench
def test_the_page_opens_with_the_result_and_folds_the_rest(undisturbed: Path, cli: Cli) -> None:
    assert cli("lab", "report", undisturbed).code == 0
    text = (undisturbed / "report.html").read_text(encoding="utf-8")
    result, *folded = text.partition("<main>")[2].split("<details>")
    assert "<p>react reaches 1.00 of 2, reactree_wm 1.00: +0.00 [0.00, 0.00], p 1.000, not significant.</p>" in result
    assert 'alt="GSR with 95 % intervals: react 1.00 (0.34–1.00), reactree_wm 1.00 (0.34–1.00)"' in result
    assert "<table" not in result
    titles = [re.findall("<summary><h2>(.*)</h2>\n</summary>", one) for one in folded]
    assert titles[:2] == [["What was run"], ["Planners"]]
    assert [len(some) for some in titles] == [1] * len(folded) == [1] * text.count("</details>")
    tables = sum(one.count("<table>") for one in folded)
    assert tables == text.count('<div class="wide" tabindex="0" role="region" aria-label="Table: ') == 3
    assert '<th scope="row">GSR</th>\n<td>' in folded[1]
    assert text.count("<th") == text.count('<th scope="') + text.count("<thead")
    assert "@media (prefers-color-scheme: dark)" in text


@pytest.mark.bench
@pytest.mark.parametrize("strange", ["x" * 200, r"<b>a_b</b> & 100% | `c` $x^2$ [l](m) {y} \z", "…" * 100 + "é"])
def test_twelve_planners_of_strange_names_stay_text_of_bounded_width(strange: str, tmp_path: Path, cli: Cli) -> None:
    names = [f"{strange}{number}" for number in range(12)]
    contenders = {name: {"planner": "react"} for name in names}
    settings = BenchSettings(suite="generated", planners=tuple(names), contenders=contenders)
    gone = [line(name, task, end="model_gone", message="no | reply") for name in names for task in range(5, 10)]
    lines = [line(name, task, gsr=float(task != number)) for number, name in enumerate(names) for task in range(5)]
    folder = bench_of(tmp_path / "out", *lines, *gone, settings=settings)
    ended = cli("lab", "report", folder)
    assert ended.code == 0
    assert "Not done: 60 runs broke off, 60 model_gone: no | reply" in ended.out
    text, markdown = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    assert "<b>" not in text
    assert "<h1>Bench of generated: 12 planners</h1>" in text
    head = next(row for row in markdown.splitlines() if row.startswith("| measure |"))
    assert len(re.findall(r"(?<!\\)\|", head)) == 14
    short = list(settings.short.values())
    assert max(map(len, short)) <= 43
    cells = [html.unescape(one) for one in re.findall('<th scope="col">(.*)</th>', text)]
    assert cells[1:13] == short
    for plot in ("success.svg", "success_by_decisions.svg"):
        drawn = html.unescape((folder / plot).read_text(encoding="utf-8"))
        assert [name for name in short if f"{name}</text>" not in drawn] == []


@pytest.mark.bench
def test_the_report_on_a_real_bench_has_every_plot_and_no_failed_run(undisturbed: Path, cli: Cli) -> None:
    assert cli("lab", "report", undisturbed).code == 0
    markdown = (undisturbed / "report.md").read_text(encoding="utf-8")
    assert "No run failed." in markdown
    assert "≈: at least in part counted by a rule of thumb" in markdown
    assert {path.name for path in undisturbed.glob("*.svg")} == {
        "success.svg",
        "success_by_decisions.svg",
        "success_by_size.svg",
        "tokens_along_the_run.svg",
        "executability_by_step.svg",
    }
    assert len(Page((undisturbed / "report.html").read_text(encoding="utf-8")).sources) == 5
    before = (undisturbed / "report.html").read_bytes()
    assert cli("lab", "report", undisturbed).code == 0
    assert (undisturbed / "report.html").read_bytes() == before


@pytest.mark.bench
def test_a_bench_of_one_planner_that_is_not_finished(tmp_path: Path, cli: Cli) -> None:
    folder = bench_of(tmp_path / "out", line("react", 1), line("react", 2), runs=4)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"task_id": 3, "ins')  # being written
    ended = cli("lab", "report", folder)
    assert ended.code == 0
    assert "2 of 4 runs done" in ended.out
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "Runs: 2 of 4 done. The bench is not finished" in markdown
    assert "Planner against planner" not in markdown


@pytest.mark.bench
def test_runs_that_broke_off_are_told_and_not_counted(tmp_path: Path, cli: Cli) -> None:
    gone = [line("react", task, gsr=0.0, end="model_gone", message="connection refused") for task in (2, 3)]
    bug = line("react", 4, gsr=0.0, end="bug", message="KeyError: 'x'")
    again = line("react", 2)
    folder = bench_of(tmp_path / "out", line("react", 1), *gone, bug, again, runs=4)
    ended = cli("lab", "report", folder)
    assert ended.code == 0
    said = ended.out
    assert "2 of 4 runs done, 0 failed" in said
    assert "2 runs broke off, 1 model_gone, 1 bug: connection refused" in said
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "Not done: 2 runs broke off, 1 model\\_gone, 1 bug: connection refused; the next start" in markdown
    assert rows(markdown)["runs"] == ["2"]
    assert rows(markdown)["GSR"] == ["1.000 (0.342–1.000)"]


def test_what_is_no_bench_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    ended = cli("lab", "report", tmp_path)
    assert ended.code == 2
    assert "holds no settings.json; name the --out folder of `reactree lab bench`" in ended.err
    bench_of(tmp_path / "out", settings=SETTINGS, runs=4)
    ended = cli("lab", "report", tmp_path / "out")
    assert ended.code == 2
    assert "no run is done yet; continue" in ended.err
    bench_of(tmp_path / "gone", line(end="model_gone", message="connection refused"), settings=SETTINGS)
    ended = cli("lab", "report", tmp_path / "gone")
    assert ended.code == 2
    assert "no run is done yet (1 runs broke off, 1 model_gone: connection refused)" in ended.err


def test_without_what_plots_need_the_report_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ended = cli("lab", "report", tmp_path)
    assert ended.code == 2
    assert "-m pip install 'markdown-it-py>=2' 'matplotlib>=3.6' 'scipy>=1.9'" in ended.err


@pytest.mark.bench
def test_what_a_model_or_a_user_said_is_no_markup() -> None:
    said = 'a|b <i> [x](y) *z* `c` "q" &lt;'
    markdown = "\n\n".join(
        [heading(said, 1), escaped(said), bullets([said]), table(["h"], [[said], [link(said, "a b/<c>")]])]
    )
    page = as_html(said, markdown, {})
    assert "<i>" not in page
    assert page.count("a|b &lt;i&gt; [x](y) *z* `c` &quot;q&quot; &amp;lt;") == 6
    assert Page(page).links == ["a%20b/%3Cc%3E"]
    written = 'a\\|b \\<i> \\[x\\](y) \\*z\\* \\`c\\` "q" \\&lt;'
    assert [line for line in markdown.splitlines() if line] == [
        f"# {written}",
        written,
        f"- {written}",
        "| h |",
        "| --- |",
        f"| {written} |",
        f"| [{written}](a%20b/%3Cc%3E) |",
    ]
