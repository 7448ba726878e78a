"""What stands in for ROS packages that no wheel has is the same as they are, wherever they are."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.time import Time

FOLDER = Path(__file__).parent / "stand_ins"
FILES = sorted(FOLDER.glob("*/*/*.*"))
#: What ROS calls these in Python.
WORDS = {"bool": "boolean", "float32": "float", "float64": "double"}
PARTS = {"msg": ("",), "action": ("Goal", "Result", "Feedback")}


def field_type(written: str, package: str) -> str:
    if written.endswith("[]"):
        return f"sequence<{field_type(written[:-2], package)}>"
    return f"{package}/{written}" if written[0].isupper() else WORDS.get(written, written)


def messages(file: Path) -> Iterator[tuple[Any, list[list[str]]]]:
    """Yield each message of an interface as it is installed, and the words of its lines in a file."""
    package, kind = file.parts[-3:-1]
    installed = getattr(importlib.import_module(f"{package}.{kind}"), file.stem)
    for part, section in zip(PARTS[kind], file.read_text(encoding="utf-8").split("---\n"), strict=True):
        lines = [line.split() for line in section.splitlines() if not line.startswith("#")]
        yield getattr(installed, part) if part else installed, lines


def test_interfaces_have_the_fields_defaults_and_constants_of_the_installed_ones() -> None:
    assert {"nav2_msgs", "tf2_msgs", "vision_msgs"} == {file.parts[-3] for file in FILES}
    for file in FILES:
        for message, lines in messages(file):
            fields = {line[1]: field_type(line[0], file.parts[-3]) for line in lines if "=" not in line}
            assert message.get_fields_and_field_types() == fields, file
            defaults = {line[1]: line[2] for line in lines if len(line) == 3}
            assert {name: str(getattr(message(), name)) for name in defaults} == defaults, file
            constants = {line[1]: int(line[3]) for line in lines if "=" in line}
            assert {name: getattr(message, name) for name in constants} == constants, file


def tf2(path: Path | None) -> Any:
    """Import the stand-in, or what is installed."""
    if path is None:
        installed = importlib.import_module("tf2_ros")
        if Path(str(installed.__file__)).resolve().is_relative_to(FOLDER.resolve()):
            pytest.skip("needs tf2_ros")
        return installed
    spec = importlib.util.spec_from_file_location("stand_in_of_tf2_ros", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(random: random.Random) -> Iterator[tuple[bool, TransformStamped]]:
    """Yield transforms of two trees of frames, and whether each is static; some frames move."""
    frames = [f"frame_{number}" for number in range(8)]
    for number, frame in enumerate(frames):
        if number in (0, 5):  # the roots
            continue
        parent = random.choice(frames[5:number] if number > 5 else frames[:number])
        static = random.random() < 0.4
        for second in [0] if static else sorted(random.sample(range(1, 11), 4)):
            message = TransformStamped(child_frame_id=frame)
            message.header.frame_id, message.header.stamp = parent, Time(seconds=second).to_msg()
            at, turn = message.transform.translation, message.transform.rotation
            at.x, at.y, at.z = (random.uniform(-3, 3) for _ in range(3))
            some = [random.gauss(0, 1) for _ in range(4)]
            turn.x, turn.y, turn.z, turn.w = (one / math.hypot(*some) for one in some)
            yield static, message


def answer(module: Any, buffer: Any, *asked: Any) -> tuple[str, list[float]]:
    """Return whether a transform is found, and its time and numbers."""
    try:
        found = buffer.lookup_transform(*asked)
    except module.TransformException:
        return "none", []
    at, turn = found.transform.translation, found.transform.rotation
    sign = math.copysign(1.0, turn.w)  # a quaternion and its negative are the same rotation
    numbers = [at.x, at.y, at.z, *(sign * one for one in (turn.x, turn.y, turn.z, turn.w))]
    assert (found.header.frame_id, found.child_frame_id) == asked[:2]
    return "found", [Time.from_msg(found.header.stamp).nanoseconds / 1e9, *numbers]


@pytest.mark.parametrize("seed", range(5))
def test_transforms_are_found_or_missed_as_by_the_installed_tf2(seed: int) -> None:
    modules = tf2(None), tf2(FOLDER / "tf2_ros.py")
    buffers = [module.Buffer() for module in modules]
    for static, message in said(random.Random(seed)):
        for buffer in buffers:
            (buffer.set_transform_static if static else buffer.set_transform)(message, "")
    frames = [*(f"frame_{number}" for number in range(8)), "nowhere"]
    times = [Time(seconds=half / 2) for half in range(24)]
    for (target, source), time in itertools.product(itertools.permutations(frames, 2), times):
        real, ours = (answer(*both, target, source, time) for both in zip(modules, buffers, strict=True))
        assert ours == (real[0], pytest.approx(real[1], abs=1e-9)), (target, source, time)
    known = [re.findall(r"^Frame (\S+) exists", one.all_frames_as_string(), re.MULTILINE) for one in buffers]
    assert set(known[0]) == set(known[1])
