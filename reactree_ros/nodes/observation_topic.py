"""The topics of a bridge's observations: ``~/observation``, and ``~/image`` for their pictures."""

from __future__ import annotations

from rclpy.node import Node
from reactree_interfaces.msg import Observation as ObservationMsg
from sensor_msgs.msg import Image

from reactree_ros.agent.picture import PICTURES
from reactree_ros.nodes.messages import image_to_msg, observation_to_msg
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.world.port import Observation


class ObservationTopic:
    """Publishes observations."""

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()
        self._observation = node.create_publisher(ObservationMsg, "~/observation", LATCHED)
        self._image = node.create_publisher(Image, "~/image", 1)

    def message(self, observation: Observation) -> ObservationMsg:
        """Return an observation as a message, stamped now."""
        return observation_to_msg(observation, self._clock.now().to_msg())

    def publish(self, observation: Observation, msg: ObservationMsg) -> None:
        """Publish an observation that was made into a message."""
        if observation.text:
            self._observation.publish(msg)
        for picture in observation.pictures:
            if (data := PICTURES.data(picture)) is not None:
                self._image.publish(image_to_msg(picture, data, msg.stamp))
