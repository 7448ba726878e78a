"""Writes ``reactree lab report``: compares a bench's planners in a table, a page, Markdown and plots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reactree_lab.bench import plots
from reactree_lab.bench.comparison import (
    ASKED,
    COST,
    GSR,
    LONGEST_INPUT,
    MEAN_INPUT,
    MEASURES,
    SECONDS,
    SSR,
    Estimate,
    Measure,
    Pairing,
    costs,
    estimate,
    pairings,
)
from reactree_lab.bench.failures import RULES, Verdict, verdict
from reactree_lab.bench.folder import folder_of, read_broken, read_planned, read_results
from reactree_lab.bench.headline import headline, ranked
from reactree_lab.bench.job_runner import GOAL, RECORD
from reactree_lab.bench.jobs import Key
from reactree_lab.bench.latex import as_latex
from reactree_lab.bench.names import options_of
from reactree_lab.bench.page import as_html, bullets, escaped, heading, link, picture, table
from reactree_lab.bench.results import Event, Goal, RunLine, grouped_by_end, read_goal, told_by
from reactree_ros.agent.budget import Prices
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import write_whole
from reactree_ros.planners import spec as planners
from reactree_ros.plugins.installation import check_modules
from reactree_ros.record.reader import read_record

HTML, MARKDOWN, LATEX = "report.html", "report.md", "report.tex"
#: Characters of the terminal's first column, and of each planner's.
_FIRST, _EACH = 27, 24
_UNKNOWN = "–"
#: The note on runs without a goal condition.
UNCHECKED = "Claimed, not checked: {} runs do not count as reached, as they had no goal to be judged by"

_METHOD = (
    "Each figure is a mean with its 95 % interval. The unit is the task: runs of one task with several seeds are "
    "averaged first. GSR has Wilson's interval, with the number of tasks as sample size. Every other mean has "
    "Student's t interval over the tasks, cut at the measure's limits. GSR is the share of runs whose goal holds at "
    "the end, SSR the share of the goal's parts that hold, executable actions the share of requested skills that the "
    "world carried out. The token rows are the longest prompt of a single request, and the mean input and output of a "
    "reply, which may take several requests. A run that broke off, because the language model or the world was gone "
    "or by a bug, counts as not done."
)
_APPROXIMATE = (
    "≈: at least in part counted by a rule of thumb, not by the model's own tokenizer; compare such figures only with "
    "each other, not with other papers."
)
_ASKED = (
    "Questions are those to the simulated person. A question is needless if its answer told nothing beyond the "
    "instruction: no part of the goal, or only parts that the instruction names unambiguously. A question without an "
    "answer is needless, too. Questions in tasks done without: in tasks whose goal the same contender also reaches "
    "without asking, if the bench has that contender; the asking one cannot know this."
)
_ASKING = (
    "A decision is one reply that was asked for, also one that ends a node. Refused: the share of requests whose reply "
    "was not taken. Repeated: the share that was the same as an earlier request of the run, byte for byte. Tokens "
    "refused: the share of the generated tokens."
)
_TESTS = (
    "Two planners are compared on the runs of the same task with the same seed. Success: McNemar's exact test; SSR and "
    "steps: Wilcoxon's signed-rank test. A difference is the first planner's value minus the second one's; the "
    "mean has Student's 95 % interval over the tasks. The p values are two-sided and not corrected for the "
    "number of comparisons"
)

_CAUSES = (
    "Causes as in the ReAcTree paper's figure 4, and three more. In the paper, people judged; here, rules judge from "
    "the run's events and its goal. The first rule that applies gives the cause. "
    '"The thing" is the thing to move in the first goal condition that does not hold (or to turn on, if only such '
    "conditions are left)."
)


@dataclass(frozen=True)
class Failure:
    planner: str  # its short name
    run: RunLine
    verdict: Verdict


class BenchReport:
    def __init__(self, folder: Path, prices: Mapping[str, Prices] | None = None) -> None:
        self.folder = folder
        self.settings, self.planned = read_planned(folder)  # and the number of runs of the whole bench
        asked = ASKED if self.settings.person else ()
        results, self.broken = read_results(folder), read_broken(folder)
        cost = COST if any(run.cost is not None for run in results) else ()
        listed = (one for name, each in (prices or {}).items() for one in costs(name, each))
        self.measures = (*MEASURES, *asked, *cost, *listed)
        if not results:
            why = f" ({_broke_off(self.broken)})" if self.broken else ""
            raise UserError(f"{folder}: no run is done yet{why}; continue `reactree lab bench`")
        #: The plots by file name, once :meth:`parts` has made them.
        self.pictures: dict[str, bytes] = {}
        short = self.settings.short
        by_planner = {short[name]: [run for run in results if run.planner == name] for name in self.settings.planners}
        #: The runs of each planner that has some, by its short name.
        self.runs: dict[str, list[RunLine]] = {name: runs for name, runs in by_planner.items() if runs}
        every = [run for runs in self.runs.values() for run in runs]
        self.done = len(every)
        #: Whether some tokens were not counted by the model's tokenizer.
        self.approximate = any(run.approximate_tokens for run in every)
        #: Number of runs that are done by the planner's word only; they do not count as reached.
        self.claimed = sum(run.verdict.claimed for run in every)

    @cached_property
    def events(self) -> dict[str, list[Sequence[Event]]]:
        return {planner: [self._events(run) for run in runs] for planner, runs in self.runs.items()}

    @cached_property
    def goals(self) -> dict[Key, Goal]:
        paths = {run.key: self._of(run) / GOAL for runs in self.runs.values() for run in runs}
        return {key: read_goal(path) for key, path in paths.items() if path.exists()}

    @cached_property
    def pairings(self) -> list[Pairing]:
        return pairings(self.runs)

    @property
    def headline(self) -> str:
        return headline(self.runs, self.pairings)

    @cached_property
    def failures(self) -> list[Failure]:
        return [
            Failure(planner, run, verdict(run.instruction, run.end, self.goals.get(run.key), events))
            for planner, runs in self.runs.items()
            for run, events in zip(runs, self.events[planner], strict=True)
            if not run.whole
        ]

    def table(self) -> list[list[str]]:
        """Return the rows of the table of the planners, its head first."""
        rows = [
            [self._named(measure), *(_figure(estimate(runs, measure), measure, runs) for runs in self.runs.values())]
            for measure in self.measures
        ]
        count = ["runs", *(str(len(runs)) for runs in self.runs.values())]
        ended = ["ended", *(grouped_by_end(runs) for runs in self.runs.values())]
        longest = ["longest of all, tokens", *(_longest_input(runs) for runs in self.runs.values())]
        after = 1 + [measure.name for measure in MEASURES].index(LONGEST_INPUT.name)
        ratios = [self._against_the_first("context", MEAN_INPUT), self._against_the_first("time", SECONDS)]
        more = filter(None, [self._asked_in_vain(), *ratios])
        return [["measure", *self.runs], count, ended, *rows[:after], longest, *rows[after:], *more]

    def _named(self, measure: Measure) -> str:
        ssr = self.settings.spec.ssr
        return f"{SSR.name} ({ssr})" if measure is SSR and ssr else measure.name

    def _against_the_first(self, name: str, measure: Measure) -> list[str]:
        """Compare every planner's mean with the first one's, like HiAgent's tables; nothing for a single planner."""
        means = [known.mean if (known := estimate(runs, measure)) else None for runs in self.runs.values()]
        first = means[0]
        if len(means) < 2 or not first:
            return []
        shown = (_UNKNOWN if mean is None else f"{mean / first:.0%}" for mean in means)
        return [f"{name}, of {next(iter(self.runs))}'s", *shown]

    @property
    def title(self) -> str:
        who = ", ".join(self.runs) if len(self.runs) < 4 else f"{len(self.runs)} planners"
        return f"Bench of {self.settings.suite}: {who}"

    def parts(self) -> list[str]:
        head, *rows = self.table()
        return [
            heading(self.title, 1),
            escaped(self.headline),
            *([bullets(self.warnings())] if self.warnings() else []),
            *self._success(),
            heading("What was run"),
            bullets(self.what_was_run()),
            heading("Planners"),
            table(head, rows),
            _METHOD,
            _ASKING,
            *([_APPROXIMATE] if self.approximate else []),
            *([_ASKED] if self.settings.person else []),
            *self._published(),
            *self._by_size(),
            *self._pairings(),
            *self._plots(),
            *self._failures(),
        ]

    def _of(self, run: RunLine) -> Path:
        return self.folder / folder_of(run, self.settings)

    def _events(self, run: RunLine) -> Sequence[Event]:
        path = next(self._of(run).glob(f"{Path(RECORD).stem}*"), None)  # packed or not
        return told_by(read_record(path).events).events if path else ()

    def warnings(self) -> list[str]:
        """Say what a reader has to know of the result: what is not done yet, broke off, or was not judged."""
        unfinished = f"Runs: {self.done} of {self.planned} done. The bench is not finished; what follows may change"
        return [
            *([unfinished] if self.done < self.planned else []),
            *([f"Not done: {_broke_off(self.broken)}; the next start repeats them"] if self.broken else []),
            *([UNCHECKED.format(self.claimed)] if self.claimed else []),
        ]

    def what_was_run(self) -> list[str]:
        one = self.settings
        tasks = len({run.task_id for runs in self.runs.values() for run in runs})
        return [
            *self._names(),
            f"Runs: {self.done}",
            f"Tasks: {tasks} of {one.suite} ({_shown(one.suite_settings)})",
            f"Seeds: {one.seeds}",
            *([] if one.contenders else [f"Language model: {_shown_llm(one.llm)}"]),
            f"Episodic memory: {'; '.join(self.memories)}",
            f"Options: {_shown(one.options)}",
        ]

    def _names(self) -> list[str]:
        """Say what the names do not: the options that all planners have, and what is special to each."""
        one = self.settings
        meant = {name: options_of(one.planner_of(name)) for name in one.planners}
        each = [options for _, options in meant.values()]
        common = [option for option in each[0] if len(each) > 1 and all(option in options for options in each)]
        said = [f"All planners: {', '.join(common)}"] if common else []
        for name, (planner, options) in meant.items():
            own = [option for option in options if option not in common]
            if one.short[name] != ":".join([planner, *own]):
                longer = f"{name}, " if name in one.contenders and one.short[name] != name else ""
                model = f", language model {_shown_llm(one.llm_of(name))}" if one.contenders else ""
                said.append(f"{one.short[name]}: {longer}planner {', '.join([planner, *own])}{model}")
        return said

    @property
    def memories(self) -> list[str]:
        """Where the examples of all runs came from, or of each planner's runs if that differs."""
        by_planner = {name: ", ".join(sorted({run.memory for run in runs})) for name, runs in self.runs.items()}
        held = {self.settings.memory: f" ({self.settings.experiences} experiences)"} if self.settings.memory else {}
        shown = {name: f"{one or 'none'}{held.get(one, '')}" for name, one in by_planner.items()}
        if len(set(shown.values())) == 1:
            return list(shown.values())[:1]
        return [f"{name}: {one}" for name, one in shown.items()]

    def _asked_in_vain(self) -> list[str]:
        if not self.settings.person:
            return []
        return ["questions in tasks done without", *(self._spared(name, runs) for name, runs in self.runs.items())]

    def _spared(self, name: str, runs: Sequence[RunLine]) -> str:
        alone = next((one for one in self.runs if self._is_the_same_alone(one, name)), None)
        if alone is None:
            return _UNKNOWN
        done = {(run.task_id, run.seed) for run in self.runs[alone] if run.achieved}
        return f"{sum(run.questions for run in runs if (run.task_id, run.seed) in done) / len(runs):.2f}"

    def _is_the_same_alone(self, one: str, name: str) -> bool:
        one, name = (self.runs[each][0].planner for each in (one, name))  # the whole names
        settings = [planners.planner(self.settings.planner_of(each)) for each in (one, name)]
        alone, other = (
            (each.spec.name, each.working_memory, each.settings.model_dump(exclude={"questions"})) for each in settings
        )
        asks_nobody = not getattr(settings[0].settings, "questions", 0)
        return asks_nobody and alone == other and self.settings.llm_of(one) == self.settings.llm_of(name)

    def _published(self) -> list[str]:
        parts: list[str] = []
        for one in self.settings.spec.published:
            note = f"Not from this bench. {one.differs} Other tasks, prompts or limits give other figures."
            parts += [heading(f"Published elsewhere: {one.source}"), table(one.head, one.rows), escaped(note)]
        return parts

    def _by_size(self) -> list[str]:
        found: dict[int, dict[str, list[RunLine]]] = defaultdict(lambda: defaultdict(list))
        for planner, runs in self.runs.items():
            for run in runs:
                if goal := self.goals.get(run.key):
                    found[goal.size][planner].append(run)
        if len(found) < 2:
            return []
        sizes = sorted(found.items())
        rows = [
            [f"{measure.name}, {size} thing{'s' * (size > 1)}", *(_share(measure, runs[each]) for each in self.runs)]
            for measure in (GSR, SSR)
            for size, runs in sizes
        ]
        reached: dict[str, dict[float, Estimate]] = {
            planner: {size: known for size, runs in sizes if (known := estimate(runs[planner], GSR)) is not None}
            for planner in self.runs
        }
        return [
            heading("By size of the goal"),
            table(["asked for", *self.runs], rows),
            "With 95 % intervals, and the number of tasks. Each thing to move counts, and each to turn on.",
            self._plot("GSR by size of the goal", "success_by_size", plots.success_by("things asked for", reached)),
        ]

    def _pairings(self) -> list[str]:
        if not self.pairings:
            return []
        rows = [
            [
                f"{one.other} against {one.one}",
                one.measure.name,
                str(one.pairs),
                _difference(one),
                f"{one.median:+.{one.measure.digits}f}",
                one.test,
                one.p_shown,
            ]
            for one in self.pairings
        ]
        text = f"{_TESTS}, which are {len(rows)}."
        if self.settings.seeds > 1:
            text += " Runs of one task with different seeds are treated as independent, which makes p too small."
        head = ["planners", "measure", "pairs", "mean difference", "median difference", "test", "p"]
        return [heading("Planner against planner"), table(head, rows), escaped(text)]

    def _success(self) -> list[str]:
        shares = ranked(self.runs)
        if not shares:
            return []
        said = (f"{name} {one.mean:.2f} ({one.low:.2f}–{one.high:.2f})" for name, one in shares.items())
        return [self._plot(f"GSR with 95 % intervals: {', '.join(said)}", "success", plots.success(shares))]

    def _plots(self) -> list[str]:
        still = f"A curve ends when fewer than {plots.STILL_RUNNING:.0%} of the planner's runs continue."
        within = "The share of all runs that reached their goal within a number of decisions."
        drawn = [self._plot("Success against decisions", "success_by_decisions", plots.success_by_decisions(self.runs))]
        drawn.append(within)
        if any(event.input_tokens for runs in self.events.values() for run in runs for event in run):
            svg = plots.tokens_along_the_run(self.events)
            mark = " Approximate counts (≈)." if self.approximate else ""
            text = f"The mean length of the prompt, and the middle half of the runs. {still}{mark}"
            drawn += [self._plot("Tokens along the run", "tokens_along_the_run", svg), text]
        if any(event.is_action for runs in self.events.values() for run in runs for event in run):
            svg = plots.executability_by_step(self.events)
            text = f"The share of the actions that the world carried out, {plots.BIN} per point. {still}"
            drawn += [self._plot("Executability by step", "executability_by_step", svg), text]
        return [heading("Over the course of the runs"), *drawn]

    def _plot(self, shows: str, name: str, svg: bytes) -> str:
        self.pictures[f"{name}.svg"] = svg
        return picture(shows, f"{name}.svg")

    def _failures(self) -> list[str]:
        if not self.failures:
            return [heading("Failed runs"), "No run failed."]
        counts = Counter((one.verdict.cause, one.planner) for one in self.failures)
        causes = [cause for cause in RULES if any(counts[cause, planner] for planner in self.runs)]
        rows = [[cause.value, *(str(counts[cause, planner]) for planner in self.runs)] for cause in causes]
        sums = ["all", *(str(sum(one.planner == planner for one in self.failures)) for planner in self.runs)]
        return [
            heading("Failed runs"),
            _CAUSES,
            bullets(f"{cause.value}: {rule}" for cause, rule in RULES.items()),
            table(["cause", *self.runs], [*rows, sums]),
            table(["run", "cause", "why", "SSR", "how it ended", "instruction"], map(self._row, self.failures)),
        ]

    def _row(self, one: Failure) -> list[str]:
        run = one.run
        return [
            link(self.settings.told(run.key), f"{folder_of(run, self.settings).as_posix()}/"),
            one.verdict.cause.value,
            one.verdict.reason,
            _UNKNOWN if run.ssr is None else f"{run.ssr:.2f}",
            str(run.verdict),
            run.instruction,
        ]


def write_report(folder: Path, console: Console, prices: Mapping[str, Prices] | None = None) -> None:
    check_modules("reactree lab report", "reactree_lab[bench]", ("markdown_it", "matplotlib", "scipy"))
    report = BenchReport(folder, prices)
    markdown = "\n\n".join(report.parts()) + "\n"
    for file, svg in report.pictures.items():
        write_whole(folder / file, svg)
    write_whole(folder / HTML, as_html(report.title, markdown, report.pictures))
    write_whole(folder / MARKDOWN, markdown)
    _print(report, console)


def write_latex(folder: Path, console: Console) -> None:
    check_modules("reactree lab report", "reactree_lab[bench]", ("scipy",))
    report = BenchReport(folder)
    mark = [_APPROXIMATE] if report.approximate else []
    notes = [report.title, *report.warnings(), *report.what_was_run(), *mark]
    text = as_latex(report.runs, report.pairings, notes)
    write_whole(folder / LATEX, text)
    console.print(text, end="", markup=False, highlight=False, soft_wrap=True)


def _print(report: BenchReport, console: Console) -> None:
    console.print(report.headline, highlight=False, markup=False, soft_wrap=True)
    head, *rows = report.table()
    at_once = max(1, (console.width - _FIRST) // _EACH)
    for first in range(1, len(head), at_once):
        shown = Table(head[0], *map(escape, head[first : first + at_once]))
        for name, *cells in rows:
            shown.add_row(name, *cells[first - 1 : first - 1 + at_once])
        console.print(shown)
    console.print(f"{report.done} of {report.planned} runs done, {len(report.failures)} failed", highlight=False)
    for warning in report.warnings():
        console.print(warning, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if report.approximate:
        console.print(_APPROXIMATE, style="dim")
    console.print(f"{report.folder / HTML}, {report.folder / MARKDOWN}", highlight=False, soft_wrap=True)


def _broke_off(broken: Sequence[RunLine]) -> str:
    messages = Counter(run.message for run in broken if run.message)
    why = "".join(f": {message}" for message, _ in messages.most_common(1))
    return f"{len(broken)} runs broke off, {grouped_by_end(broken)}{why}"


def _shown(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in settings.items())


def _figure(known: Estimate | None, measure: Measure, runs: Sequence[RunLine]) -> str:
    if known is None:
        return _UNKNOWN
    mark = _mark(runs) if measure.counts_tokens else ""
    text = f"{mark}{known.mean:.{measure.digits}f}"
    if known.low is None:
        return text
    return f"{text} ({known.low:.{measure.digits}f}–{known.high:.{measure.digits}f})"


def _difference(one: Pairing) -> str:
    digits = one.measure.digits
    interval = f" ({one.interval[0]:+.{digits}f} to {one.interval[1]:+.{digits}f})" if one.interval else ""
    return f"{one.mean:+.{digits}f}{interval}"


def _longest_input(runs: Sequence[RunLine]) -> str:
    longest = max((run.max_input_tokens for run in runs if run.max_input_tokens is not None), default=None)
    if longest is None:
        return _UNKNOWN
    return f"{_mark(runs)}{longest}"


def _share(measure: Measure, runs: Sequence[RunLine]) -> str:
    known = estimate(runs, measure)
    return f"{_figure(known, measure, runs)} of {len({run.task_id for run in runs})}" if known else _UNKNOWN


def _shown_llm(llm: Mapping[str, Any]) -> str:
    return f"{_shown(llm)}{' (rules, no language model)' if llm['llm'] == 'expert' else ''}"


def _mark(runs: Sequence[RunLine]) -> str:
    return "≈ " if any(run.approximate_tokens for run in runs) else ""
