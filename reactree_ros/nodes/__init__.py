"""ROS 2 nodes: the only folder that imports ROS. The method itself is in the other folders."""
