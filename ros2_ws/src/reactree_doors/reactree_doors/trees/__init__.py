"""Routines as trees that people change: XML of BehaviorTree.CPP, and Python of py_trees."""

from reactree_ros.cli.commands import RUN_AND_WATCH, Command

COMMAND = Command(
    name="tree",
    summary="Say which behaviour trees in XML can be run, and what others lack.",
    panel=RUN_AND_WATCH,
    module="reactree_doors.trees.command",
)
