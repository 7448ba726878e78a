"""What of a robot's world needs no ROS: poses, maps, its configuration."""
