"""The files of a training; a kill or a full disk leaves earlier files intact."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from reactree_lab.out_folder import writing
from reactree_ros.errors import UserError
from reactree_ros.files import whole_file


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go; if it cannot be written, the earlier file is still there."""
    with writing(path):
        whole_file.write_whole(path, content)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    import torch

    content = io.BytesIO()
    torch.save(state, content)
    write_whole(path, content.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path}: is no checkpoint of `reactree lab train` ({type(error).__name__}); name another --out"
        ) from error
    return dict(state)
