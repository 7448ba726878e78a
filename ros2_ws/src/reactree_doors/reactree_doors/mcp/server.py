"""The server: tools, resources and elicitations of the protocol, for one robot and any number of clients.

The robot does one thing at a time, for one client. What it does is stopped when the request that began it ends early:
a robot does not go on unwatched. What comes from the world or from a language model is data, and is marked as such.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BeforeValidator, Field, WithJsonSchema

from reactree_doors.mcp.prompts import Prompts
from reactree_doors.mcp.robot import Job, Limits, Report, Robot, Shot
from reactree_doors.mcp.watching import DATA, NAME, OBSERVED, Watch, marked
from reactree_ros.agent.labels import QUOTE
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.picture import PICTURES, Picture
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.text import LONGEST_ERROR, bounded, in_one_line, shortened_line, visible
from reactree_ros.background.pending import Pending, after, asked, followed, give_up_after, mapped
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.person.desk import Open
from reactree_ros.person.port import NobodyAnswers
from reactree_ros.plugins.settings import Settings, did_you_mean, read_settings
from reactree_ros.record.verdict import Verdict
from reactree_ros.world.port import Observation, Outcome

#: Longest instruction, and longest text of an answer, in characters.
LONGEST_INSTRUCTION, LONGEST_ANSWER = 10_000, 500
#: Most characters of what was observed, and most pictures, in one result.
LONGEST_SEEN, MOST_PICTURES = 20_000, 4
#: Longest wait for what was stopped to come to rest, in seconds.
REST = 10.0
#: Longest wait of ``stop`` for the end of what it stops, in seconds.
STOPPING = 60.0
#: Longest wait for a form to be taken back, in seconds.
TAKEN_BACK = 2.0
#: What stands before the names of tools that are skills of the world.
SKILL = "skill_"
INSTRUCTIONS = (
    "One robot. `carry_out` has it do an instruction, with progress on the way; the skill_… tools do one skill each. "
    f"It does one thing at a time; `stop` ends that from any client. {OBSERVED} Only a person can allow what the skill "
    "policy wants confirmed: the client shows a form for that."
)
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")


class _Server(Server[Any]):
    """Says to clients of the older versions, too, that they hear when the list of resources changes."""

    def create_initialization_options(self, options: NotificationOptions | None = None, *more: Any) -> Any:
        return super().create_initialization_options(options or NotificationOptions(resources_changed=True), *more)


@dataclass
class Leaving:
    gone: bool = False  # whether it has
    changed: Callable[[], object] = lambda: None

    def leave(self) -> None:
        self.gone = True
        self.changed()


@dataclass(frozen=True)
class Call:
    context: Any
    params: types.CallToolRequestParams
    client: str  # what the client calls itself; anybody may say anything
    asks: bool  # whether it can show a person a form
    again: bool  # whether a form is shown by having it ask again, as newer clients do
    leaving: Leaving

    @classmethod
    def received(cls, context: Any, params: types.CallToolRequestParams) -> Call:
        scope, info = getattr(context.request, "scope", {}), context.session.client_params
        client = shortened_line(visible(info.client_info.name), 60) if info else "a client without a name"
        can = context.session.client_capabilities and context.session.client_capabilities.elicitation
        asks = can is not None and (can.form is not None or can.url is None)
        again = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(context, params, client, asks, again, scope.get("reactree.leaving") or Leaving())


Answer = types.CallToolResult | types.InputRequiredResult


def _unpacked(limits: Any) -> Any:
    with suppress(ValueError):
        limits = json.loads(limits or "{}") if isinstance(limits, str) else limits
    if not isinstance(limits, dict | None | Limits):
        raise ValueError('write an object, such as {"max_steps": 50}')
    return {name: one for name, one in dict(limits or {}).items() if one is not None}


class Tool(Settings):
    """A tool that is not a skill: its text is what the client is told of it, its fields are its arguments."""

    word: ClassVar[str]
    harmless: ClassVar[bool] = True

    async def do(self, door: Door, call: Call) -> Answer:
        raise NotImplementedError

    @classmethod
    def listed(cls) -> types.Tool:
        schema = cls.model_json_schema()
        schema.pop("description", None)
        return types.Tool(
            name=cls.word,
            description=" ".join((cls.__doc__ or "").split()),
            input_schema=schema,
            annotations=types.ToolAnnotations(read_only_hint=cls.harmless),
        )


class CarryOut(Tool):
    """Have the robot carry out an instruction in plain language, such as 'put 1 apple in the fridge'.

    The result tells how it ended. The run is stopped if this request is cancelled or its client goes, unless `wait` is
    false. If the run asks something and the client has no forms, the result is the question: call `answer`.
    """

    word = "carry_out"
    harmless = False
    instruction: str = Field(min_length=1, max_length=LONGEST_INSTRUCTION, description="what to do")
    limits: Annotated[
        Limits,  # type: ignore[valid-type]
        BeforeValidator(_unpacked),
        WithJsonSchema(Limits.model_json_schema()),  # some clients refuse the reference that stands there otherwise
    ] = Field(default_factory=Limits, description="what the run may take")
    wait: bool = Field(default=True, description="false: return at once, and let the run go on if the client goes")

    async def do(self, door: Door, call: Call) -> Answer:
        if not self.instruction.strip():
            raise UserError("the instruction is empty; say what to do, e.g. 'Put 1 apple on the coffee table'")
        job = door.begin(Job(self.instruction, call.client, alone=not self.wait))

        def start() -> Pending[Report]:
            job.run = door.robot.begin(self.instruction, self.limits, job.take)
            job.stops_by(job.run.cancel)
            return mapped(job.run.ended, lambda verdict: _of_run(verdict, job))

        if self.wait:
            return await door.follow(job, call, lambda: door.start(job, start))
        door.start(job, start)
        return _result(door.report("The run has begun; `status` tells how it fares, `stop` ends it."))


class Stop(Tool):
    """Stop whatever the robot does, for whichever client. It returns when nothing moves any more."""

    word = "stop"
    harmless = False

    async def do(self, door: Door, call: Call) -> Answer:
        job = door.busy
        others = door.robot.stop_others()
        if job is None:
            said = "Another's task was told to stop." if others else "Nothing was under way."
            return _result(door.report(said))
        job.stop("a client called `stop`")
        try:
            report = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(job.ended)), STOPPING)
        except asyncio.TimeoutError:
            return _result(Report(f"It was told to stop, and has not within {STOPPING:g} s.", well=False))
        except Exception as error:
            return _result(_of_error(error, job))
        too = " Another's task was told to stop, too." if others else ""
        return _result(Report(f"It has stopped.{too}", seen=job.what, data={"end": report.data}))


class Pause(Tool):
    """Let a run wait: what it does is cancelled, and it decides and does nothing until `go_on`."""

    word = "pause"

    async def do(self, door: Door, call: Call) -> Answer:
        door.run().pause()
        return _result(door.report("The run waits; `go_on` lets it go on."))


class GoOn(Tool):
    """Let a paused run go on; it looks around again first."""

    word = "go_on"
    harmless = False

    async def do(self, door: Door, call: Call) -> Answer:
        door.run().go_on()
        return _result(door.report("The run goes on."))


class AnswerQuestion(Tool):
    """Give a person's answer to a question that the run asks; then follow the run to its end or its next question.

    It answers no question whether a skill may be carried out: a person does that in the client's form.
    """

    word = "answer"
    harmless = False
    number: int = Field(ge=1, le=2**53, description="the question's number")
    text: str = Field(min_length=1, max_length=LONGEST_ANSWER, description="what the person says; 'stop' ends the run")

    async def do(self, door: Door, call: Call) -> Answer:
        one = next((one for one in door.robot.questions.open if one.number == self.number), None)
        if one is not None and one.question.skill:
            raise UserError(f"question {self.number} is whether a skill may be done; only a person says so, in a form")
        job = door.busy

        def answer() -> None:
            door.robot.questions.answer(self.number, self.text, by=f"MCP client {call.client}")

        if job is not None:
            return await door.follow(job, call, answer)
        answer()
        return _result(Report("The answer was given."))


class Status(Tool):
    """Tell what the robot does, for whom, what it asks, and how the last thing ended."""

    word = "status"

    async def do(self, door: Door, call: Call) -> Answer:
        report = door.report()
        lines = []
        for name, value in {**report.data, **report.observed}.items():
            lines.append(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
        return _result(replace(report, seen="\n".join(lines)))


class LookAround(Tool):
    """Tell what the robot sees, with its cameras' pictures. During a run or a skill it is what was seen last."""

    word = "look_around"

    async def do(self, door: Door, call: Call) -> Answer:
        if (busy := door.busy) is not None:
            seen = busy.last_seen
            return _result(Report("The robot is at work; this was seen last.", seen or "nothing yet"))
        job = door.begin(Job("look around", call.client))
        robot = door.robot

        def start() -> Pending[Report]:
            looks = asked(robot.observe)
            shows = followed(looks, lambda seen: Pending.ready(seen.pictures) if seen.pictures else robot.pictures())
            job.stops_by(shows.cancel)
            return mapped(
                shows,
                lambda taken: Report("The robot looked around.", looks.result().full_text, pictures=_with_bytes(taken)),
            )

        return await door.follow(job, call, lambda: door.start(job, start))


class DoSkill(Tool):
    """Carry out one skill, said as the world says it, such as 'pick up juice 1'."""

    word = "skill"
    harmless = False
    text: str = Field(min_length=1, max_length=500, description="the skill with what it is done to")

    async def do(self, door: Door, call: Call) -> Answer:
        return await door.do_skill(door.robot.household.say(self.text, {}), call)


TOOLS: Mapping[str, type[Tool]] = {
    tool.word: tool for tool in (CarryOut, Stop, Pause, GoOn, AnswerQuestion, Status, LookAround)
}


class Door:
    """The way of clients to the robot; everything but :meth:`server` is called in the event loop."""

    def __init__(self, robot: Robot, *, version: str = "") -> None:
        self.robot, self._version = robot, version
        self._lock = threading.Lock()
        self._job: Job | None = None  # the latest
        self.watch = Watch(robot)
        self._prompts = Prompts(self.watch)
        self._waiting: dict[str, tuple[Job, int, str]] = {}  # what a client asks for again, by its token
        robot.questions.objection = self._objection
        robot.questions.changed = self._changed

    def server(self) -> Server[Any]:
        return _Server(
            NAME,
            version=self._version,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self.watch.listed,
            on_list_resource_templates=self.watch.templates,
            on_read_resource=self.watch.read,
            on_subscribe_resource=self.watch.subscribe,
            on_unsubscribe_resource=self.watch.unsubscribe,
            on_subscriptions_listen=self.watch.listen,
            on_list_prompts=self._prompts.listed,
            on_get_prompt=self._prompts.get,
            on_completion=self._prompts.complete,
        )

    # ------------------------------------------------------------------ what the robot does

    @property
    def busy(self) -> Job | None:
        return None if self._job is None or self._job.ended.done() else self._job

    def begin(self, job: Job) -> Job:
        """Take the robot for a job; a UserError says who has it."""
        with self._lock:
            if (busy := self.busy) is not None:
                since = time.monotonic() - busy.began
                raise UserError(
                    f"the robot is at work since {since:.0f} s; `status` tells on what and for whom; "
                    "wait for its end, or call `stop`"
                )
            self._job = job
            job.watched = self.watch.changed
        return job

    def start(self, job: Job, start: Callable[[], Pending[Report]]) -> None:
        """Start a job: it ends with the result, when nothing of it moves any more, or at once if it cannot start."""
        try:
            result = start()
        except Exception as error:
            job.ended.succeed(_of_error(error, job))
            raise
        if job.run is not None:
            self.watch.run = job
            self.watch.changed()

        def rested(_: Future[Any]) -> None:
            if result.cancelled():
                job.ended.succeed(Report("It was stopped.", job.why, well=False, data={"end": "stopped"}))
            elif (error := result.exception()) is not None:
                job.ended.succeed(_of_error(error, job))
            else:
                report = result.result()
                if report.pictures:
                    one, data = report.pictures[-1]
                    self.watch.shot = Shot(time.monotonic(), one.id, one.media, lambda: data)
                job.ended.succeed(report)

        rest = after(result, self.robot.at_rest)
        rest.add_done_callback(rested)
        result.add_done_callback(lambda _: give_up_after(rest, REST, lambda: TimeoutError("it does not come to rest")))

    def run(self) -> Any:
        job = self.busy
        if job is None or job.run is None:
            raise UserError("a skill cannot be paused; `stop` ends it" if job else "no run goes on")
        return job.run

    async def do_skill(self, skill: str, call: Call) -> Answer:
        job = self.begin(Job(str(skill), call.client))

        def start() -> Pending[Report]:
            doing = asked(self.robot.execute, skill)
            job.stops_by(doing.cancel)
            return mapped(doing, lambda seen: _of_skill(str(skill), seen))

        return await self.follow(job, call, lambda: self.start(job, start))

    def report(self, said: str = "") -> Report:
        """Return what the robot does; what others say of it stands apart."""
        job, last = self.busy, self._job
        state: dict[str, Any] = {"state": "idle"}
        observed: dict[str, Any] = {}
        if job is not None:
            one = self.robot.questions.next
            word = "stopping" if job.why else "asking" if one else "paused" if job.paused else "at work"
            state = {"state": word, "seconds": round(time.monotonic() - job.began, 1)} | job.counts
            observed = {"what": job.what, "client": job.client}
            if one is not None:
                state["question"], observed["question"] = _question(one)
        elif last is not None:
            ended = last.ended.result()
            state["last"] = ended.data
            observed["last"] = {"what": last.what, "client": last.client, "said": ended.said}
        if halted := self.robot.halted():
            observed["halted"] = halted
        return Report(said or f"The robot is {state['state']}.", data=state, observed=observed)

    def close(self) -> Future[Any] | None:
        job = self.busy
        if job is None:
            return None
        job.stop("the server ends")
        return job.ended

    # ------------------------------------------------------------------ questions

    def _objection(self) -> str:
        job = self.busy
        if job is not None and (job.asks or any(job is waits for waits, _, _ in self._waiting.values())):
            return ""
        return "a person has to confirm it, and the client has no forms (elicitation) to ask one"

    def _changed(self) -> None:
        if self._job is not None:
            self._job.wake()

    async def follow(self, job: Job, call: Call, first: Callable[[], object]) -> Answer:
        """Call ``first``, then tell a client of a job until it ends or asks for another request.

        The client follows the job before ``first`` is called, because the job may ask something at once.
        """
        loop, changed, told = asyncio.get_running_loop(), asyncio.Event(), 0
        forms: dict[int, asyncio.Task[None]] = {}

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        call.leaving.changed = wake
        try:
            with job.followed(wake, asks=call.asks):
                first()
                while True:
                    changed.clear()
                    for number, line in job.news_after(told):
                        told = number
                        await self._progress(call, number, line)
                    if job.ended.done():
                        if forms:  # the client is told so before the result, which ends what it hears
                            await asyncio.wait(forms.values(), timeout=TAKEN_BACK)
                        return _result(job.ended.result())
                    if call.leaving.gone and not job.alone:
                        job.stop("its client has gone")
                    one = self.robot.questions.next
                    if one is not None and not call.leaving.gone:
                        if call.asks and not call.again:
                            if one.number not in forms:
                                forms[one.number] = asyncio.create_task(self._elicit(one, call))
                        elif call.asks:
                            return self._again(job, one, call)
                        elif not one.question.skill:
                            self._expect(job, one)
                            return _result(_asking(one))
                    await changed.wait()
        except asyncio.CancelledError:
            if not job.alone:
                job.stop("its client took the request back, or has gone")
            raise
        finally:
            for form in forms.values():
                form.cancel()

    async def _progress(self, call: Call, number: int, line: str) -> None:
        with suppress(Exception):  # nobody reads it any more, which the request's end will tell
            await call.context.session.report_progress(
                float(number), message=f"{QUOTE}{in_one_line(line)[:LONGEST_ERROR]}"
            )

    async def _elicit(self, one: Open, call: Call) -> None:
        watch = asyncio.get_running_loop()
        request = asyncio.create_task(call.context.session.elicit_form(*_form(one), call.context.request_id))
        one.answer.add_done_callback(lambda _: watch.call_soon_threadsafe(request.cancel))
        try:
            self._take(one, await request, call)
        except asyncio.CancelledError:
            request.cancel()
            await asyncio.wait([request])
            raise
        except Exception as error:
            self._decline(one, f"the client's form failed: {shortened_line(visible(str(error)), 200)}")

    def _take(self, one: Open, said: Any, call: Call) -> None:
        content = said.content if isinstance(said, types.ElicitResult) and said.action == "accept" else None
        by = f"a form of MCP client {call.client}"
        words = (content or {}).get("answer")
        with suppress(UserError):  # its time is over, or somebody else has answered
            if one.question.skill:
                self.robot.questions.answer(one.number, "yes" if words is True else "no", by)
            elif isinstance(words, str) and words.strip():
                self.robot.questions.answer(one.number, words[:LONGEST_ANSWER], by)
            else:
                self._decline(one, "the person gave no answer")

    def _decline(self, one: Open, why: str) -> None:
        one.answer.fail(NobodyAnswers(why))

    def _again(self, job: Job, one: Open, call: Call) -> types.InputRequiredResult:
        token = secrets.token_urlsafe(16)
        self._waiting[token] = job, one.number, call.params.name
        self._expect(job, one, token)
        message, schema = _form(one)
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        return types.InputRequiredResult(input_requests={str(one.number): form}, request_state=token)

    def _expect(self, job: Job, one: Open, token: str = "") -> None:

        def lapse() -> None:
            self._waiting.pop(token, None)
            if not (job.alone or job.is_followed):
                job.stop("no client came back after its question")

        asyncio.get_running_loop().call_later(max(0.0, one.until - time.monotonic()), lapse)

    async def _asked_again(self, token: str, call: Call) -> Answer:
        job, number, name = self._waiting.get(token, (None, 0, ""))
        if job is None or name != call.params.name:
            raise UserError("what this request goes on with is not there: its time is over, or it was taken up")

        def take() -> None:
            del self._waiting[token]
            one = next((one for one in self.robot.questions.open if one.number == number), None)
            if one is not None:
                self._take(one, (call.params.input_responses or {}).get(str(number)), call)

        return await self.follow(job, call, take)

    # ------------------------------------------------------------------ the protocol

    def _skills(self) -> Iterator[tuple[str, Offer]]:
        taken = set[str]()
        for skill in self.robot.household.skills:
            name = f"{SKILL}{_OTHER.sub('_', skill.name)}"[:60]
            while name in taken:
                name += "_"
            taken.add(name)
            yield name, Offer(skill)

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [tool.listed() for tool in TOOLS.values()]
        for name, offer in self._skills():
            said = f"One skill of the robot: {offer.skill.wording}"
            annotations = types.ToolAnnotations(read_only_hint=False)
            tools.append(types.Tool(name=name, description=said, input_schema=offer.schema(), annotations=annotations))
        if texts := self.robot.household.texts:
            one = DoSkill.listed()
            said = f"{one.description} One begins with: {', '.join(texts)}."
            tools.append(one.model_copy(update={"description": said}))
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> Answer:
        call = Call.received(context, params)
        try:
            if params.request_state is not None:
                return await self._asked_again(params.request_state, call)
            given = {name: one for name, one in (params.arguments or {}).items() if one is not None}
            offers = dict(self._skills())
            if params.name in offers:
                return await self.do_skill(_read_call(offers[params.name], given), call)
            more: Mapping[str, type[Tool]] = {DoSkill.word: DoSkill} if self.robot.household.texts else {}
            tools = {**TOOLS, **more}
            if params.name not in tools:
                known = did_you_mean(shortened_line(params.name, 80), [*tools, *offers])
                raise UserError(f"there is no tool '{shortened_line(params.name, 80)}'; {known}")
            return await read_settings(tools[params.name], given, where=params.name).do(self, call)
        except (UserError, ParameterError, OSError) as error:
            return _result(_of_error(error))


def _read_call(offer: Offer, given: Mapping[str, Any]) -> SkillCall:
    try:
        return offer.read(given)
    except (ParameterError, ValueError, TypeError) as error:
        raise UserError(f"'{offer.skill.wording}': {shortened_line(visible(str(error)), 400)}") from error


def _form(one: Open) -> tuple[str, dict[str, Any]]:
    asked, why = one.question, in_one_line(one.question.goal)
    if asked.skill:
        message = f"The robot asks whether it may do this: {in_one_line(asked.skill)} ({why})"
        answer: dict[str, Any] = {"type": "boolean", "title": "Yes, do it", "default": False}
    else:
        message = f"The robot asks: {in_one_line(asked.text)} ({why})"
        answer = {"type": "string", "title": "Answer", "minLength": 1, "maxLength": LONGEST_ANSWER}
    message = bounded(message, LONGEST_ERROR)
    return message, {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def _question(one: Open) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = one.question
    known = {"number": one.number, "seconds_left": round(max(0.0, one.until - time.monotonic()), 1)}
    return known, {"text": asked.text, "why": asked.goal, "confirms": asked.skill}


def _asking(one: Open) -> Report:
    left = max(0.0, one.until - time.monotonic())
    said = (
        f"The run waits for a person's answer to question {one.number}. Ask the person, and call `answer` with number "
        f"{one.number} within {left:.0f} s; the run is stopped otherwise."
    )
    known, words = _question(one)
    return Report(said, one.question.text, data={"state": "asking", "question": known}, observed={"question": words})


def _of_run(verdict: Verdict, job: Job) -> Report:
    said = f"{verdict.headline}. {job.counts['decisions']} decisions, {job.counts['steps']} steps."
    stopped = f" It was stopped: {job.why}." if job.why else ""
    because = "\n".join(filter(None, (verdict.because, job.last_seen)))
    told = verdict.as_dict()
    data = {name: told[name] for name in ("achieved", "claimed", "branches", "branches_done")}
    data |= {"end": verdict.end, "verdict": verdict.judgement.word} | job.counts
    untouched = {"untouched": told["untouched"]} if told["untouched"] else {}
    return Report(said + stopped, because, well=verdict.whole, data=data, observed=untouched)


def _of_skill(skill: str, seen: Observation) -> Report:
    well = seen.outcome is Outcome.DONE
    said = "The skill was done." if well else f"The skill was not done: {seen.outcome.value}."
    return Report(
        said,
        seen.full_text,
        well=well,
        data={"outcome": seen.outcome.value},
        pictures=_with_bytes(seen.pictures),
    )


def _with_bytes(pictures: Sequence[Picture]) -> list[tuple[Picture, bytes]]:
    return [(one, data) for one in pictures[:MOST_PICTURES] if (data := PICTURES.data(one)) is not None]


def _of_error(error: BaseException, job: Job | None = None) -> Report:
    if isinstance(error, CancelledError):
        return Report("It was stopped.", job.why if job else "", well=False, data={"end": "stopped"})
    said = bounded(in_one_line(redacted(str(error))) or type(error).__name__, LONGEST_ERROR)
    if isinstance(error, UserError | ParameterError):
        return Report(f"Not done: {said}", well=False, data={"end": "refused"})
    return Report("Not done: something failed.", said, well=False, data={"end": "failed"})  # the world's words, perhaps


def _result(report: Report) -> types.CallToolResult:
    said, observed = visible(report.said), dict(report.observed)
    if report.seen:
        observed["text"] = bounded(report.seen, LONGEST_SEEN)
        said = f"{said}\n{marked(observed['text'])}"
    content: list[Any] = [types.TextContent(type="text", text=said)]
    for one, shot in report.pictures:
        content.append(types.ImageContent(type="image", data=base64.b64encode(shot).decode(), mime_type=one.media))
    data = {"well": report.well, **report.data}
    if observed:
        data["observed"] = {"note": DATA, **_visible(observed)}
    return types.CallToolResult(content=content, structured_content=data, is_error=not report.well)


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_visible(one) for one in value]
    return {name: _visible(one) for name, one in value.items()} if isinstance(value, dict) else value
