"""The topics of a bridge's observations: ``~/observation``, and ``~/image`` and a compressed one for pictures."""

from __future__ import annotations

from rclpy.node import Node
from reactree_interfaces.msg import Observation as ObservationMsg
from sensor_msgs.msg import CompressedImage, Image

from reactree_ros.agent.picture import PICTURES, Picture
from reactree_ros.nodes.messages import compressed_to_msg, image_to_msg, observation_to_msg
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.world.port import Observation


class ObservationTopic:
    """Publishes observations."""

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()
        self._observation = node.create_publisher(ObservationMsg, "~/observation", LATCHED)
        self._log = node.get_logger()
        self._image = node.create_publisher(Image, "~/image", 1)
        self._compressed = node.create_publisher(CompressedImage, "~/image/compressed", 1)

    def message(self, observation: Observation) -> ObservationMsg:
        """Return an observation as a message, stamped now."""
        return observation_to_msg(observation, self._clock.now().to_msg())

    def publish(self, observation: Observation, msg: ObservationMsg) -> None:
        """Publish an observation that was made into a message."""
        if observation.text:
            self._observation.publish(msg)
        for picture in observation.pictures:
            if (data := PICTURES.data(picture)) is not None:
                self._compressed.publish(compressed_to_msg(picture, data, msg.stamp))
                self._publish_raw(picture, data, msg)

    def _publish_raw(self, picture: Picture, data: bytes, msg: ObservationMsg) -> None:
        if self._image.get_subscription_count():
            try:
                self._image.publish(image_to_msg(picture, data, msg.stamp))
            except Exception as error:  # Pillow is not there, or its readers raise what they like
                self._log.warning(f"~/image: a picture cannot be read ({error})", throttle_duration_sec=60.0)
