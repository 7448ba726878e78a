"""A quality of service that several nodes use."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile

#: Reliable; a late subscriber hears the last message.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
