"""``python -m reactree_ros.cli``."""

from reactree_ros.cli import program

if __name__ == "__main__":
    program()
