"""`reactree lab bench`: what it writes; a kill, a Ctrl-C or a dead worker loses and repeats nothing."""

from __future__ import annotations

import dataclasses
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest
from bench_runs import (
    COMMAND,
    DISTURBED,
    KILLED,
    OPTIONS,
    SETTINGS,
    InlineWorkers,
    OneWorker,
    assert_same_bench,
    bench_here,
    in_process_of_its_own,
    line,
)
from command_line import Cli

from reactree_lab.bench import commands
from reactree_lab.bench import folder as bench_folder
from reactree_lab.bench.folder import BenchFolder, folder_of, read_broken, read_results
from reactree_lab.bench.job_runner import RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import Job
from reactree_lab.bench.results import told_by
from reactree_lab.bench.workers import Died, LocalWorkers, Slot, carry_out
from reactree_ros.background.pending import Pending
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, PromptTooLong, Reply, ServerUnavailable
from reactree_ros.record.reader import read_record

INTERRUPTED = DISTURBED.format(what="os.killpg(0, signal.SIGINT)")


@pytest.mark.slow
def test_contenders_come_from_a_file_instead_of_planners(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "contenders.yaml"
    file.write_text("tree: {planner: reactree}\nflat: {planner: react, llm: expert}\n", encoding="utf-8")
    options = ("--suite", "generated", "--houses", 1, "--limit", 1, "--contenders", file)
    assert cli("lab", "bench", *options, "--out", tmp_path / "out").code == 0
    assert [one.planner for one in read_results(tmp_path / "out")] == ["tree", "flat"]
    ended = cli("lab", "bench", *options, "--planner", "react", "--out", tmp_path / "other")
    assert (ended.code, f"--planner react and --contenders {file} exclude each other" in ended.err) == (2, True)
    ended = cli("lab", "bench", *options[:-2], "--out", tmp_path / "other")
    assert (ended.code, "--planner names no planner" in ended.err) == (2, True)


@pytest.mark.slow
def test_a_bench_that_is_killed_in_the_middle_of_a_line_goes_on_where_it_was(tmp_path: Path, undisturbed: Path) -> None:
    out = tmp_path / "out"
    # That it ends at all shows that its workers end with it: they have its output.
    killed = in_process_of_its_own(KILLED, "lab", "bench", *OPTIONS, "--workers", 2, "--out", out)
    assert killed.code == -signal.SIGKILL
    assert not (out / "results.jsonl").read_bytes().endswith(b"\n")
    assert len(read_results(out)) == 2

    resumed = in_process_of_its_own(COMMAND, "lab", "bench", *OPTIONS, "--workers", 2, "--out", out)
    assert resumed.code == 0, resumed.err
    assert "2 runs in" in resumed.out
    assert "with 2 workers, busy for" in resumed.out
    assert_same_bench(out, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--workers", "--at-once"])
def test_ctrl_c_ends_the_workers_too_and_loses_nothing(how: str, tmp_path: Path, undisturbed: Path) -> None:
    out = tmp_path / "out"
    interrupted = in_process_of_its_own(INTERRUPTED, "lab", "bench", *OPTIONS, how, 2, "--out", out)
    assert interrupted.code == 130
    assert "interrupted after 2 runs; repeat the command to continue" in interrupted.err
    assert "Traceback" not in interrupted.err
    assert len(bench_here(out)) == 2
    assert_same_bench(out, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 10, None], ids=["before the line", "in the line", "after the line"])
def test_wherever_writing_breaks_off_the_rest_is_carried_out_once(
    part: int | None, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, lines = bench_folder.append_line, []

    def broken(file, line):  # type: ignore[no-untyped-def]
        lines.append(line)
        if len(lines) < 3:
            append(file, line)
            return
        file.write(f"{line}\n".encode()[:part])
        file.flush()
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_folder, "append_line", broken)
    with pytest.raises(KeyboardInterrupt):
        bench_here(tmp_path)
    monkeypatch.undo()
    assert len(bench_here(tmp_path)) == (1 if part is None else 2)
    assert_same_bench(tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999], ids=["no byte", "half", "all but the end"])
def test_a_bench_that_is_killed_in_the_middle_of_a_record_reads_whole_ones_after_it_is_resumed(
    share: float, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, records = Path.write_bytes, []

    def killed(path: Path, content: bytes) -> int:
        if path.name != RECORD:
            return write(path, content)
        records.append(path)
        if len(records) < 3:
            return write(path, content)
        write(path, content[: int(len(content) * share)])
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # who is killed tidies nothing up
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        bench_here(tmp_path)
    monkeypatch.undo()
    assert records[2].exists()
    bench_here(tmp_path)
    assert_same_bench(tmp_path, undisturbed)
    lines = read_results(tmp_path)
    assert sorted(tmp_path.rglob(RECORD)) == sorted(tmp_path / folder_of(one, SETTINGS) / RECORD for one in lines)
    for one in lines:
        record = read_record(tmp_path / folder_of(one, SETTINGS) / RECORD)
        assert (record.torn, record.end is not None) == (False, True)
        told = told_by(record.events)
        assert len(told.sizes) == one.requests
        assert sum(event.is_action for event in told.events) == one.actions
        assert replay(record).identical


def test_a_bench_that_is_done_is_not_carried_out_again(undisturbed: Path, cli: Cli) -> None:
    before = (undisturbed / "results.jsonl").read_bytes()
    ended = cli("lab", "bench", *OPTIONS, "--out", undisturbed)
    assert ended.code == 0
    assert "4 of 4 runs done" in ended.out
    assert (undisturbed / "results.jsonl").read_bytes() == before


class StruckDown(LocalWorkers):
    """The first worker dies over the jobs that it gets."""

    def send(self, slot: Slot, job: Job) -> None:
        (process, *_), first = [one.process for one in self._processes], self._started == 1
        super().send(slot, job)
        if first and len(slot.jobs) == self.at_once:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_worker_that_dies_is_replaced_and_its_runs_carried_out_once(
    at_once: int, tmp_path: Path, undisturbed: Path
) -> None:
    deaths: list[Died] = []
    with closing(BenchFolder(tmp_path, SETTINGS)) as folder:
        all_jobs = list(SETTINGS.jobs())
        given_up = carry_out(all_jobs, folder, StruckDown(SETTINGS, 1, at_once), died=deaths.append)
    assert given_up == []
    (died,) = deaths
    assert died.reason == "killed by SIGKILL"
    assert died.jobs[-1].key == all_jobs[at_once - 1].key  # what it had done before counts as done
    assert_same_bench(tmp_path, undisturbed)


class Deadly(OneWorker):
    """A worker that dies over one run, with all its jobs, and is replaced."""

    def __init__(self, key: object, at_once: int = 1) -> None:
        super().__init__(at_once)
        self._key = key

    def wait(self) -> list[Finished | Died]:
        jobs = self.slot.jobs
        if self._key in jobs:
            self.slot = Slot(name="worker", ready=True)
            return [Died("worker", tuple(jobs.values()), "killed by SIGKILL")]
        done = (Finished(line(key.planner, key.task_id, seed=key.seed), {}) for key in list(jobs))
        return [took for one in done if (took := self.slot.take(one)) is not None]


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_run_over_which_every_worker_dies_is_given_up_and_the_others_are_carried_out(
    at_once: int, tmp_path: Path
) -> None:
    all_jobs = list(SETTINGS.jobs())
    deaths: list[Died] = []
    workers = Deadly(all_jobs[1].key, at_once)
    with closing(BenchFolder(tmp_path, SETTINGS)) as folder:
        assert carry_out(all_jobs, folder, workers, died=deaths.append) == [all_jobs[1].key]
    assert len(deaths) == 2
    assert len(read_results(tmp_path)) == 3
    assert workers.closed


def test_a_job_is_taken_when_a_worker_is_about_to_need_it(tmp_path: Path) -> None:
    taken: list[Job] = []
    workers = Deadly(None)
    send, ahead = workers.send, list[int]()

    def watched(slot: Slot, job: Job) -> None:
        send(slot, job)
        ahead.append(len(taken) - len(ahead))

    workers.send = watched  # type: ignore[method-assign]
    with closing(BenchFolder(tmp_path, SETTINGS)) as folder:
        jobs = (taken.append(job) or job for job in SETTINGS.jobs())
        assert carry_out(jobs, folder, workers) == []
    assert len(taken) == len(ahead) == len(read_results(tmp_path))
    assert max(ahead) == 1


class Dying(ExpertModel):
    """Is gone when it is asked for its third decision."""

    asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        return super().decide(request) if self.asked < 3 else Pending.failed(ServerUnavailable("connection refused"))


@pytest.mark.slow
def test_a_run_whose_model_is_gone_is_no_result_and_is_carried_out_again(
    tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: Dying())
    assert len(bench_here(tmp_path)) == 4
    monkeypatch.undo()
    assert read_results(tmp_path) == []
    broken = read_broken(tmp_path)
    assert [(one.end, one.message) for one in broken] == [("model_gone", "no reply: connection refused")] * 4
    assert (tmp_path / folder_of(broken[0], SETTINGS) / RECORD).exists()
    assert not (tmp_path / "runs").exists()

    assert len(bench_here(tmp_path)) == 4
    assert bench_here(tmp_path) == []
    assert read_broken(tmp_path) == []
    assert len((tmp_path / "broken.jsonl").read_text(encoding="utf-8").splitlines()) == 4
    assert_same_bench(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_server_that_is_gone_is_not_asked_by_every_run_that_is_left(
    tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: Dying())
    monkeypatch.setattr("reactree_lab.bench.workers.OUTAGE", 2)
    assert len(bench_here(tmp_path)) == 3  # the third was begun before the second had ended
    monkeypatch.undo()
    assert len(bench_here(tmp_path)) == 4
    assert_same_bench(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_run_that_a_bug_ended_is_no_result_and_keeps_its_traceback(
    tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.assemble", lambda *_, **__: 1 / 0)
    bench_here(tmp_path)
    monkeypatch.undo()
    assert read_results(tmp_path) == []
    (first, *others) = read_broken(tmp_path)
    assert len(others) == 3
    assert (first.end, first.message) == ("bug", "ZeroDivisionError: division by zero")
    assert "1 / 0" in (tmp_path / folder_of(first, SETTINGS) / "error.txt").read_text(encoding="utf-8")
    bench_here(tmp_path)
    assert_same_bench(tmp_path, undisturbed)


class Silent(ExpertModel):
    """Never answers; it knows how many wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: SimpleQueue[Pending[Reply]] = SimpleQueue()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.put(pending := Pending[Reply]())
        return pending


def test_closing_ends_all_runs_under_way_and_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Silent()
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: model)
    runner = JobRunner(SETTINGS)
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(runner.carry_out, job) for job in SETTINGS.jobs()]
        asked = [model.asked.get(timeout=60) for _ in runs]
        runner.close()
        ended = [run.result(timeout=60) for run in runs]
    assert all(one.cancelled() for one in asked)
    assert [isinstance(one, Finished) and one.line.status for one in ended] == ["interrupted"] * 4


class Small(ExpertModel):
    """Its context holds two decisions, and nothing after them, however much room is made."""

    decided = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self.decided == 2:
            return Pending.failed(PromptTooLong(100, 1000))
        self.decided += 1
        return super().decide(request)


def test_a_context_that_is_full_is_a_result_and_is_not_carried_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: Small())
    settings = dataclasses.replace(SETTINGS, planners=("react",))
    assert len(bench_here(tmp_path, settings)) == 2
    assert [(one.end, one.achieved) for one in read_results(tmp_path)] == [("context_full", False)] * 2
    assert bench_here(tmp_path, settings) == []


def test_what_broke_off_is_told_in_the_summary_and_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: Dying())
    monkeypatch.setattr(commands, "_workers", lambda settings, count, at_once, ray: InlineWorkers(settings))
    assert not commands.bench(SETTINGS, tmp_path, workers=1, ray=None)
    said = capsys.readouterr().out
    assert f"0 of 4 runs done in {tmp_path}, GSR –, 4 broke off (4 model_gone)" in said
    assert "Repeat the command to run the rest again." in said


def test_a_folder_that_two_benches_would_write_to_is_refused(tmp_path: Path) -> None:
    with (
        closing(BenchFolder(tmp_path, SETTINGS)),
        pytest.raises(UserError, match="another process is writing there"),
    ):
        BenchFolder(tmp_path, SETTINGS)


@pytest.mark.slow
def test_a_broken_line_is_named(tmp_path: Path) -> None:
    bench_here(tmp_path)
    results = tmp_path / "results.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
    results.write_text("".join([lines[0], "{}\n", *lines[2:]]), encoding="utf-8")
    with pytest.raises(UserError, match=r"results\.jsonl: line 2 is broken: instruction lacks: b'\{\}'"):
        BenchFolder(tmp_path, SETTINGS)


@pytest.mark.slow
def test_a_kill_right_at_the_start_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").touch()
    (tmp_path / "settings.json.unfinished").write_text('{"suite"', encoding="utf-8")
    assert len(bench_here(tmp_path)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*OPTIONS, "--seeds", 2),
            "was started with other settings: seeds was 1, now 2; use the same ones to continue it",
        ),
        ((*OPTIONS[:-1], "react,nobody"), "planner 'nobody' is unknown; use one of reactree"),
        ((*OPTIONS[:-1], "react,react"), "--planner: react is named twice"),
        ((*OPTIONS[:-1], ","), "--planner names no planner"),
        (
            (*OPTIONS, "--tasks", __file__),
            "--tasks: the task suite 'generated' takes none; name another --suite (wah_nl)",
        ),
        (("--suite", "cooking", "--planner", "react"), "task suite 'cooking' is unknown; use one of wah_nl, generated"),
        (("--suite", "wah_nl", "--planner", "react"), "--suite wah_nl needs --tasks"),
        (("--suite", "wah_nl", "--planner", "react", "--tasks", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--suite", "wah_nl", "--planner", "react", "--tasks", __file__), "is not JSON"),
        ((*OPTIONS, "--memory", "nowhere.db"), "nowhere.db: no such memory"),
        ((*OPTIONS, "--base-url", "http://x"), "--base-url: the language model 'expert' takes none"),
        ((*OPTIONS, "--suite-option", "without=fork"), "there is no object class or type of task 'fork'; did you mean"),
        ((*OPTIONS, "--workers", 0), "Invalid value for '--workers'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    arguments: tuple[object, ...],
    message: str,
    undisturbed: Path,
    cli: Cli,
) -> None:
    ended = cli("lab", "bench", *arguments, "--out", undisturbed)
    assert ended.code == 2
    err = ended.err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert message in err


def test_houses_without_such_tasks_end_the_bench_in_one_line(tmp_path: Path, cli: Cli) -> None:
    nothing = ("--suite", "generated", "--suite-option", "about=desk", "--planner", "react")
    ended = cli("lab", "bench", *nothing, "--out", tmp_path / "out")
    assert ended.code == 2
    err = ended.err.splitlines()[-1]
    assert err.startswith("error: house 0 of 5 rooms: 5000 tasks were drawn and none of them fits about=desk")


def test_a_folder_of_something_else_is_refused(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "notes.txt").touch()
    ended = cli("lab", "bench", *OPTIONS, "--out", tmp_path)
    assert ended.code == 2
    assert "is not empty and holds no settings.json of a bench" in ended.err
    ended = cli("lab", "bench", *OPTIONS, "--out", tmp_path / "notes.txt")
    assert ended.code == 2
    assert "is a file; name a folder" in ended.err


@pytest.mark.slow
def test_a_language_model_that_does_not_get_ready_ends_the_bench_in_one_line(tmp_path: Path) -> None:
    llm = ("--llm", "openai", "--base-url", "http://127.0.0.1:9/v1", "--llm-option", "api_key_file=nowhere.key")
    ended = in_process_of_its_own(COMMAND, "lab", "bench", *OPTIONS, *llm, "--out", tmp_path / "out")
    assert ended.code == 2
    (said,) = (text for text in ended.err.splitlines() if text.strip())
    assert said.startswith("error: worker 1: ")
    assert "nowhere.key" in said


def test_a_planner_that_lacks_something_ends_the_bench_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> None:
        raise UserError(f"planner '{name}' needs pydantic-monty")

    monkeypatch.setattr("reactree_ros.episode.run_spec.planner", lacking)
    runner, (job, *_) = JobRunner(SETTINGS), SETTINGS.jobs()
    assert runner.carry_out(job) == "planner 'react' needs pydantic-monty"
