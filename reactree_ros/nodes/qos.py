"""Qualities of service that several nodes offer or ask for."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile

#: Reliable, and whoever comes late hears what was said last.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
