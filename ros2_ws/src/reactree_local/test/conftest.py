"""The tiny models of the core's tests."""

from __future__ import annotations

from tiny_models import tiny_model, tiny_thinking_model

__all__ = ["tiny_model", "tiny_thinking_model"]
