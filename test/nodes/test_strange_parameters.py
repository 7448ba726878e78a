"""What a node is given under a name that no parameter of it has: refused at the start, unless it is for any node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rclpy.node import Node
from ros_graph import Graph

from reactree_ros.errors import UserError
from reactree_ros.nodes.parameters import declare, refuse_unknown
from reactree_ros.nodes.settings import Watching


def given(graph: Graph, *args: str, name: str = "watchdog") -> Node:
    """Return a node that is given parameters, once it was looked whether it has them."""
    args = ("--ros-args", *args)
    node = graph.add(Node(name, context=graph.context, cli_args=args, use_global_arguments=False))
    declare(node, Watching)
    refuse_unknown(node, args)
    return node


@pytest.mark.parametrize(
    "args",
    [
        ("-p", "silence:=2.0"),
        ("-p", "use_sim_time:=true", "-p", "start_type_description_service:=false"),
        ("-p", "qos_overrides./tf.subscription.depth:=5"),
        ("-p", "other_node:silense:=2.0"),
    ],
)
def test_what_a_node_has_and_what_is_ros_own_is_taken(graph: Graph, args: tuple[str, ...]) -> None:
    assert given(graph, *args).has_parameter("silence")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-p", "silense:=2.0"), "watchdog has no parameter 'silense'; did you mean 'silence'? There are "),
        (("-p", "watchdog:silense:=2.0"), "watchdog has no parameter 'silense'; did you mean 'silence'?"),
        (("-p", "nosuch.deep:=1"), "watchdog has no parameter 'nosuch.deep'; use one of "),
    ],
)
def test_what_a_node_has_not_is_refused_with_the_nearest(graph: Graph, args: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError) as error:
        given(graph, *args)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(("of", "is_refused"), [("/**", False), ("/**/watchdog", True), ("/**/planner", False)])
def test_what_a_file_has_for_any_node_may_be_for_another(
    graph: Graph, tmp_path: Path, of: str, is_refused: bool, capfd: Any
) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(f"{of}:\n  ros__parameters: {{silense: 2.0}}\n")
    args = ("--params-file", str(file))
    if is_refused:
        with pytest.raises(UserError, match="did you mean 'silence'"):
            given(graph, *args)
    else:
        given(graph, *args)
        assert ("did you mean 'silence'" in capfd.readouterr().err) is (of == "/**")
