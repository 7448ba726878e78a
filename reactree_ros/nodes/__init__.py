"""ROS 2 nodes: the only folder that imports ROS. The method itself is in the other folders."""

from reactree_ros.nodes.start import listen, started

if _name := started():  # before anything is loaded that takes its time
    listen(_name)

from reactree_ros.plugins.installation import check_own_requirements

check_own_requirements()  # before a node or a launch imports what apt has too old
