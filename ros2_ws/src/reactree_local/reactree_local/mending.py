"""Mends tokenizers whose decoder makes llguidance misread their tokens."""

from __future__ import annotations

import json
from typing import Any

#: Decoders with which tokens that are written byte by byte are read as they are.
_RIGHT = frozenset({"ByteLevel", "Fuse"})


def mend(tokenizer: Any) -> bool:
    """Give a tokenizer of bytes the plain decoder of bytes if it has another; return whether it was mended.

    A GGUF says little of its tokenizer, so what is made of one may have the decoder of another family, too
    (ByteFallback, Replace). Texts may come out right with it, but libraries that constrain a text misread the tokens.
    """
    from tokenizers import decoders

    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return False
    decoding = _types(inner.decoder)
    if "ByteLevel" not in decoding | _types(inner.pre_tokenizer) or ("ByteLevel" in decoding and decoding <= _RIGHT):
        return False
    inner.decoder = decoders.ByteLevel()
    return True


def _types(part: Any) -> frozenset[str]:
    """Return the types of a part of a tokenizer: of a sequence, those in it."""
    if part is None:
        return frozenset()
    said = json.loads(part.__getstate__())
    several = said.get("decoders", said.get("pretokenizers", [said]))
    return frozenset(str(one["type"]) for one in several)
