"""Shows the runs of a planner on a page in the browser, while they go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rclpy.utilities import remove_ros_args

from reactree_ros.errors import UserError
from reactree_ros.nodes.people.record_follower import RecordFollower
from reactree_ros.nodes.spinning import Spinner, interruptible
from reactree_ros.view import check_installed

PLANNER = "reactree_planner"


def serve(
    planner: str,
    *,
    say: Callable[[str], None],
    host: str = "127.0.0.1",
    port: int = 0,
    args: Sequence[str] | None = None,
) -> int:
    check_installed()
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    with interruptible(args) as asked, TemporaryDirectory() as folder:
        node = RecordFollower(planner, Path(folder))
        with (
            Spinner(node, asked) as spinner,
            ViewServer(Runs(Path(folder)), host=host, port=port, steering=node) as server,
        ):
            say(f"{server.url}#/latest")
            spinner.spin_until(lambda: False)
        return next(iter(asked), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planner-node", default=PLANNER, help="name of the planner node")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the interface; any but the loopback is open to other machines"
    )
    parser.add_argument("--port", type=int, default=0, help="the port; 0: a free one")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    try:
        serve(options.planner_node, say=_say, host=options.host, port=options.port)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _say(url: str) -> None:
    print(f"The page is at {url}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
