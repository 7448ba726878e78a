"""``python -m reactree_ros.cli``."""

from reactree_ros.cli import main

if __name__ == "__main__":
    main()
