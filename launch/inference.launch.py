"""Brings up the inference node alone, for the machine with the GPU.

`household.launch.py start_inference:=false` on the robot uses it.

The launch ends when the node does, or when its language model cannot be loaded.
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

PARAMETERS = [
    ("llm", "vllm", "who decides: vllm, transformers, openai, fallback, or expert (no language model)", str),
    ("model", "", "name or folder of the language model", str),
    ("base_url", "", "of an OpenAI-compatible server", str),
    ("api_key_file", "", "file with the server's key, instead of $OPENAI_API_KEY", str),
    ("models_file", "", "YAML file with every setting of one or several language models", str),
    ("dtype", "", "number type of the weights, e.g. bfloat16", str),
    ("quantization", "", "how the weights are quantized, e.g. awq", str),
    ("tensor_parallel_size", "", "GPUs that share the model", int),
    ("max_model_len", "", "tokens of prompt and reply together", int),
    ("gpu_memory_utilization", "", "share of the GPU's memory, e.g. 0.9", float),
    ("engine_args", "", "any further engine arguments as YAML, e.g. '{max_num_seqs: 64}'", str),
]
OTHERS = [
    ("params_file", "", "a parameter file; arguments given here outrank it"),
    ("namespace", "", "namespace of the node"),
    ("log_level", "info", "log level of the node"),
]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    arguments = [*(parameter[:3] for parameter in PARAMETERS), *OTHERS]
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list:
    """Start the node and bring it up."""
    file, namespace, log_level = (LaunchConfiguration(name).perform(context) for name, _, _ in OTHERS)
    if file and not Path(file).is_file():
        raise ValueError(f"params_file: there is no file '{file}'")
    chosen = {}
    for name, default, _, kind in PARAMETERS:
        value = LaunchConfiguration(name).perform(context)
        if value and not (file and value == default):
            try:
                chosen[name] = kind(value)
            except ValueError:
                raise ValueError(f"{name} is '{value}'; it must be a number") from None
    common = {
        "package": "reactree_ros",
        "namespace": namespace,
        "output": "screen",
        "ros_arguments": ["--log-level", log_level],
    }
    own = PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", "inference.yaml"])
    node = Node(
        executable="inference_node", name="inference", parameters=[own, *([file] if file else []), chosen], **common
    )
    bring_up = Node(executable="bring_up", arguments=["inference"], **common)

    def failed(event: ProcessExited, context: LaunchContext) -> list:
        return ended("the inference node could not be brought up") if event.returncode else []

    return [
        RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended("inference_node has ended"))),
        RegisterEventHandler(OnProcessExit(target_action=bring_up, on_exit=failed)),
        node,
        bring_up,
    ]


def ended(reason: str) -> list:
    """Shut down with exit code 1, unless the end has come already: launch does so where an action raises."""

    def stop(context: LaunchContext) -> None:
        if not context.is_shutdown:
            raise RuntimeError(reason)

    return [OpaqueFunction(function=stop)]
