"""Checks the lines of a record one after the other: each by itself, and against what was before it."""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError

from reactree_ros.agent.picture import ALL_PICTURES, LARGEST_PICTURE, digest_of
from reactree_ros.files.read_back import LARGEST_FILE, LONGEST_LINE, check_values, parse_json, problem_of, shown
from reactree_ros.record.events import STATUSES, check_form
from reactree_ros.record.schema import SCHEMA, Event, bytes_of_picture

#: Most events of a record, most values in them, most behaviours of its tree, and the tree's greatest depth.
MOST_EVENTS, MOST_VALUES, MOST_NODES, DEEPEST_NODE = 500_000, 4_000_000, 200_000, 5_000
_LIMITS = f"at most {LARGEST_FILE >> 20} MiB, {MOST_EVENTS:,} events and {MOST_VALUES:,} values in them"


class NoRecord(ValueError):
    """The first line does not begin a readable record; says why, if it begins a record at all."""


class Check:
    """Checks the lines of one record, in order.

    A valid event has all fields of its kind and fits the events before it: its behaviour has appeared, its request was
    made. An event of an unknown kind needs only a time.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._bytes = self._values = self._picture_bytes = 0
        self._depths: list[int] = []  # of each behaviour, by its number
        self._texts: set[int] = set()
        self._requests: set[str] = set()
        self._ended = False

    def event(self, line: bytes) -> Event:
        """Read the next line.

        Raises:
            NoRecord: It is the first, and none of a record.
            ValueError: It is no event, or cannot come here; says what is wrong.
        """
        self._bytes += len(line) + 1
        self._values += line.count(b",") + 1
        if self._bytes > LARGEST_FILE or self._values > MOST_VALUES or self.lines >= MOST_EVENTS:
            raise ValueError(f"is too much: a record has {_LIMITS}")
        if len(line) > LONGEST_LINE:
            raise ValueError(f"is longer than {LONGEST_LINE >> 20} MiB, the most that a line may have")
        try:
            event = parse_json(line, halves=True)
            kind = event["e"]
            if type(kind) is not str or not kind.isascii():
                raise TypeError
        except (ValueError, TypeError, KeyError) as error:
            why = f" ({error})" if type(error) is ValueError else ""
            raise ValueError(f"is no event: {shown(line)}{why}") if self.lines else NoRecord from None
        if not self.lines:
            self._begin(event)
        try:
            check_form(event)
            if self._ended:
                raise ValueError("comes after the end of the run")
            if "node" in event:
                self._node(event["node"])
            further = getattr(self, f"_on_{kind}", None)
            if further is not None:
                further(event)
        except ValidationError as error:
            raise ValueError(f"({kind[:20]}): {problem_of(error)}") from None
        except (ValueError, KeyError, OverflowError) as error:
            lacks = f"{error} lacks" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"({kind[:20]}): {lacks}") from None
        self.lines += 1
        return event  # type: ignore[no-any-return]

    def _begin(self, event: Event) -> None:
        if event["e"] != "run" or not isinstance(event.get("schema"), int):
            raise NoRecord
        if event["schema"] > SCHEMA:
            raise NoRecord(
                f"is a record of schema {event['schema']}, which this version (schema {SCHEMA}) does not know; "
                "install a newer reactree_ros"
            )

    def _node(self, node: object) -> None:
        if type(node) is not int or not 0 <= node < len(self._depths):
            raise ValueError(f"there is no node {shown(node)}")

    # ------------------------------------------------------------------ kind by kind

    def _on_run(self, event: Event) -> None:
        if self.lines:
            raise ValueError("begins another run")
        check_values(event)
        if datetime.fromisoformat(event["started"]).timestamp() < 0:
            raise ValueError(f"started {shown(event['started'])} is before 1970")

    def _on_grow(self, event: Event) -> None:
        for values in event["nodes"]:
            node, parent, count = values["node"], values["parent"], len(self._depths)
            if node < count:
                raise ValueError(f"the node {node} is there already")
            if node > count:
                raise ValueError(f"the node {node} comes before the node {count}")
            if parent is None and node:
                raise ValueError(f"the node {node} has no parent; the root is the node 0")
            if parent is not None and parent >= count:
                raise ValueError(f"the parent of the node {node} is the node {parent}, which is not there")
            depth = 0 if parent is None else self._depths[parent] + 1
            if depth > DEEPEST_NODE or count >= MOST_NODES:
                raise ValueError(f"a tree has at most {MOST_NODES:,} nodes, {DEEPEST_NODE:,} in one another")
            self._depths.append(depth)

    def _on_status(self, event: Event) -> None:
        for number, status, *feedback in event["of"]:
            self._node(number)
            if status not in STATUSES:
                raise ValueError(f"{shown(status)} is none of the statuses {', '.join(filter(None, STATUSES))}")
            if feedback and not isinstance(feedback[0], str):
                raise ValueError(f"what the node {number} says must be a text, not {shown(feedback[0])}")

    def _on_text(self, event: Event) -> None:
        if event["id"] in self._texts:
            raise ValueError(f"the text {event['id']} is there already")
        self._texts.add(event["id"])

    def _on_request(self, event: Event) -> None:
        if "start" in event and event["start"] not in self._texts:
            raise ValueError(f"there is no text {event['start']}")
        if "own" not in event and "turns" not in event:
            raise ValueError("turns lacks")
        self._requests.add(event["id"])

    def _on_reply(self, event: Event) -> None:
        if event["id"] not in self._requests:
            raise ValueError(f"there is no request {shown(event['id'])}")

    def _on_observation(self, event: Event) -> None:
        for picture in event.get("pictures", ()):
            if "data" not in picture:
                continue
            size = len(data := bytes_of_picture(picture))
            self._picture_bytes += size
            if size > LARGEST_PICTURE or self._picture_bytes > ALL_PICTURES:
                raise ValueError(
                    f"a picture has at most {LARGEST_PICTURE:,} bytes, those of a run together {ALL_PICTURES:,}"
                )
            if picture["id"] != digest_of(data):
                raise ValueError(f"the picture {shown(picture['id'])} has other bytes than its id says")

    def _on_failed(self, event: Event) -> None:
        if not event["type"].isidentifier():
            raise ValueError(f"the type {shown(event['type'])} is no name")
        if ("excess" in event) != ("context" in event):
            raise ValueError("excess and context belong together")

    def _on_end(self, event: Event) -> None:
        result = event["result"]
        if (result.get("gsr") is None) != (result.get("ssr") is None):
            raise ValueError("gsr and ssr of the result belong together")
        self._ended = True
