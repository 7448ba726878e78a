"""Publishes the record of a planner's run while it is written; a service reads the parts before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from reactree_interfaces.msg import RecordPart
from reactree_interfaces.srv import ReadRecord

from reactree_ros.record.schema import Event

#: A late or slow subscriber gets the last ten parts, and asks for those before.
QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Longest part in one message, in bytes.
LONGEST = 1 << 18
#: Records that are kept: the run's, and the last one's, whose end a subscriber may not have heard yet.
KEPT = 2


class RecordTopic:
    """Publishes records in parts on ``~/record``, and reads from the last ones on ``~/read_record``.

    A part that is too long for a message is only announced, so that no picture waits in a queue ten times.
    """

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(RecordPart, "~/record", QOS)
        node.create_service(ReadRecord, "~/read_record", self._read)
        self._records: dict[str, bytearray] = {}
        self._latest = RecordPart()  # the current record, and how far it is published

    def begin(self, goal_id: Any) -> Callable[[Event, bytes], None]:
        self.publish(unheard=True)

        def write(event: Event, line: bytes) -> None:
            if event["e"] == "run":
                self._latest = RecordPart(run=event["id"], goal_id=goal_id)
                self._records[event["id"]] = bytearray()
                for run in list(self._records)[:-KEPT]:
                    del self._records[run]
            self._records[self._latest.run] += line + b"\n"

        return write

    def publish(self, *, unheard: bool = False) -> None:
        """Publish the new events, if somebody hears them; ``unheard``: also if nobody does.

        What is published for nobody costs as much; who comes later gets the next part, and asks for those before.
        """
        if not unheard and not self._publisher.get_subscription_count():
            return
        record, begin = self._records.get(self._latest.run, b""), self._latest.begin
        if len(record) == begin:
            return
        told = len(record) - begin <= LONGEST
        data = record[begin:].decode("ascii") if told else ""
        place = begin if told else len(record)
        self._publisher.publish(RecordPart(run=self._latest.run, goal_id=self._latest.goal_id, begin=place, data=data))
        self._latest.begin = len(record)

    def _read(self, request: ReadRecord.Request, response: ReadRecord.Response) -> ReadRecord.Response:
        record = self._records.get(request.run)
        response.found = record is not None
        if record is not None:
            response.data = record[request.begin : request.begin + LONGEST].decode("ascii")
        return response
