"""Language models behind the inference node: loading, settings, errors on their way to the planner, whole launches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from llm.asked import decide
from openai_peer import Peer
from processes import Process, Processes, need_in_nodes
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.srv import ModelReady
from ros_graph import Graph, activate

from reactree_local.small import PACKAGED
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import (
    FAILED,
    Attempt,
    DecisionRequest,
    InvalidReply,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    RequestRejected,
    ServerUnavailable,
)
from reactree_ros.llm.spec import trained_for
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.reader import read_record

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
SECRET = "sk-hush-4711"


class Failing(LanguageModel):
    """Fails with one error, whatever it is asked."""

    def __init__(self, error: LanguageModelError) -> None:
        self.error = error

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.failed(self.error)


#: One with everything, and one of which nothing is known.
ATTEMPTS = (Attempt("fly", "No.", FAILED, "regex", "a1", 9, 8, 7, 0.5), Attempt())


class Loading(LanguageModel):
    """Is ready when the test says so."""

    def __init__(self) -> None:
        self.loaded: Pending[None] = Pending()
        self.asked: list[DecisionRequest] = []

    def ready(self) -> Pending[None]:
        return self.loaded

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append(request)
        about = {"answered_by": "the loaded one", "objection": "of no use", "cached_tokens": 3, "attempts": ATTEMPTS}
        return Pending.ready(Reply("Think: so", **about))  # type: ignore[arg-type]


def readiness(graph: Graph) -> Any:
    return graph.call(ModelReady, "inference/ready")


# ---------------------------------------------------------------------- on the way to the planner


@pytest.mark.parametrize(
    "error",
    [
        PromptTooLong(17, 4096),
        ServerUnavailable("it is gone"),
        RequestRejected("it refuses"),
        InvalidReply("it says something else"),
        NoAnswerInTime("it is slow"),
        LanguageModelError("it does not want to"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_model_is_the_same_over_ros(graph: Graph, error: LanguageModelError) -> None:
    error.took = Reply("", prompt_tokens=0, output_tokens=0, attempts=ATTEMPTS)
    graph.inference(Failing(error))
    pending = graph.ros_model().decide(DecisionRequest((Told("p"),), DecisionGrammar(()), id="1"))
    graph.until(pending.done)
    with pytest.raises(type(error)) as caught:
        pending.take()
    assert (type(caught.value), str(caught.value)) == (type(error), str(error))
    assert caught.value.took is not None
    assert caught.value.took.attempts == ATTEMPTS
    if isinstance(error, PromptTooLong):
        assert (caught.value.excess, caught.value.context) == (17, 4096)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- loading, settings


def test_a_node_is_activated_when_its_model_is_loaded(graph: Graph) -> None:
    model = Loading()
    node = graph.inference(model, active=False)
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.FAILURE
    assert readiness(graph).state == ModelReady.Response.LOADING
    model.loaded.succeed(None)
    assert readiness(graph).state == ModelReady.Response.READY
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS


def test_a_model_that_cannot_be_loaded_is_named_and_can_be_tried_again(graph: Graph) -> None:
    model = Loading()
    node = graph.inference(model, active=False)
    node.trigger_configure()
    model.loaded.fail(ServerUnavailable("there is no such model"))
    assert node.trigger_activate() == TransitionCallbackReturn.FAILURE
    answer = readiness(graph)
    assert (answer.state, answer.message) == (ModelReady.Response.FAILED, "there is no such model")
    model.loaded = Pending.ready(None)
    assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    activate(node)


@pytest.mark.parametrize(
    "parameters",
    [
        {"llm": "vllm"},
        {"llm": "openai", "base_url": "nonsense"},
        {"llm": "openai", "base_url": "http://localhost", "api_key_file": "/no/such/file"},
        {"models_file": "/no/such/file"},
        {"llm": "vllm", "engine_args": "{"},
    ],
)
def test_settings_that_make_no_sense_fail_the_configuration(graph: Graph, parameters: dict[str, str]) -> None:
    node = graph.inference(active=False, **parameters)
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE


def test_a_key_is_in_no_parameter_and_no_diagnostics(graph: Graph, monkeypatch: Any, tmp_path: Path) -> None:
    pytest.importorskip("openai", reason=f"needs openai: {install_line('reactree_ros[openai]')}")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (tmp_path / "key").write_text(SECRET)
    with Peer(say=decide) as peer:
        node = graph.inference(llm="openai", base_url=peer.base_url, api_key_file=str(tmp_path / "key"), active=False)
        node.trigger_configure()
        graph.until(lambda: readiness(graph).state == ModelReady.Response.READY)
        assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
        heard = graph.listen(DiagnosticArray, "/diagnostics")
        graph.until(lambda: heard)
        assert peer.requests
        assert SECRET not in str(heard)
        names = node._parameters
        assert SECRET not in str([node.get_parameter(name).value for name in names])


# ---------------------------------------------------------------------- whole launches


def ended(process: Process, code: int) -> str:
    assert process.end() == code, process.output
    assert "Traceback" not in process.output
    assert process.left() == []
    return process.output


def test_a_server_decides_for_the_launch(processes: Processes) -> None:
    need_in_nodes("openai", "openai")
    with Peer(say=lambda prompt: decide(prompt) if "Your task is to: " in prompt else "Hello.", context=10**6) as peer:
        output = ended(
            processes.launch(f"instruction:={INSTRUCTION}", "llm:=openai", f"base_url:={peer.base_url}", "model:=tiny"),
            0,
        )
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in output
    assert "24 decisions, 16 steps" in output
    assert "Your task is to: " in peer.asked[-1].prompt


@pytest.mark.parametrize("named", [(), ("planner:=reactree_wm",)], ids=["nobody named", "named without options"])
def test_the_small_model_decides_for_the_launch_with_the_planner_that_it_was_trained_for(
    processes: Processes, tmp_path: Path, named: tuple[str, ...]
) -> None:
    need_in_nodes("small", "onnxruntime", "tokenizers", "llguidance")
    output = ended(processes.launch(f"instruction:={INSTRUCTION}", "llm:=small", f"save_to:={tmp_path}", *named), 0)
    assert "was trained for" not in output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in output
    (record,) = tmp_path.rglob("*.jsonl")
    own, *_ = trained_for(PACKAGED)
    assert read_record(record).run["planner"]["name"] == own


def test_a_planner_that_the_small_model_was_not_trained_for_is_warned_of(processes: Processes) -> None:
    need_in_nodes("small", "onnxruntime", "tokenizers", "llguidance")
    launch = (f"instruction:={INSTRUCTION}", "llm:=small", "planner:=react:questions=1", "max_decisions:=5")
    output = ended(processes.launch(*launch), 1)
    assert "planner react:questions=1: the language model was trained for " in output


def test_a_server_that_is_not_there_ends_the_launch_with_1(processes: Processes) -> None:
    need_in_nodes("openai", "openai")
    output = ended(processes.launch(f"instruction:={INSTRUCTION}", "llm:=openai", "base_url:=http://127.0.0.1:9/v1"), 1)
    assert "the server at http://127.0.0.1:9/v1 cannot be reached: nothing listens there" in output
    assert "'inference' could not be activated" in output


def test_a_parameter_file_outranks_what_the_inference_launch_hosts(processes: Processes, tmp_path: Path) -> None:
    file = tmp_path / "gpu.yaml"
    launch = ("ros2", "launch", "reactree_ros", "inference.launch.py", f"params_file:={file}")
    file.write_text("inference:\n  ros__parameters:\n    max_concurrent: 4\n", encoding="utf-8")
    assert re.search("'vllm' needs vllm: .* -m pip install .*vllm", ended(processes.start(*launch), 1))
    file.write_text("inference:\n  ros__parameters:\n    llm: expert\n", encoding="utf-8")
    processes.start(*launch).wait_for("process has finished cleanly")


def test_the_inference_node_may_run_elsewhere(processes: Processes) -> None:
    inference = processes.start("ros2", "launch", "reactree_ros", "inference.launch.py", "llm:=expert")
    inference.wait_for("process has finished cleanly")
    output = ended(processes.launch(f"instruction:={INSTRUCTION}", "start_inference:=false"), 0)
    assert "inference_node" not in output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in output
