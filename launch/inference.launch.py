"""Brings up the inference node alone, for the machine with the GPU; `llm` is vllm by default.

`household.launch.py start_inference:=false` on the robot uses it. The launch ends when the node does, or when its
language model cannot be loaded.
"""

from dataclasses import replace

from launch import LaunchContext, LaunchDescription
from launch.actions import OpaqueFunction

from reactree_ros.nodes.launching import COMMON, INFERENCE, Arguments, Part, at_the_end_of, fail, ours, where_absent

ON_THE_GPU_MACHINE = replace(INFERENCE, hosts="vllm")


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    arguments = Arguments([ON_THE_GPU_MACHINE], COMMON)
    return arguments.described(OpaqueFunction(function=start, args=[arguments]))


def start(context: LaunchContext, arguments: Arguments) -> list:
    """Start the node and bring it up."""
    node = arguments.launched(context, Part(ON_THE_GPU_MACHINE, ["inference.yaml"]))
    common = arguments.common(context)
    bring_up = ours("bring_up", arguments=[INFERENCE.name], **common)
    return [
        arguments.supervised(context, node, INFERENCE.name),
        at_the_end_of(bring_up, fail("the inference node could not be brought up"), well=[]),
        *where_absent([INFERENCE.name], [node, bring_up], common),
    ]
