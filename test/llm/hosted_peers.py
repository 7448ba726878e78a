"""What hosted servers do otherwise: the words in which they refuse a parameter, and chat templates with demands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openai_peer import Behaviour, TemplateRefuses, answers, fails, written

# ---------------------------------------------------------------------- parameters


def openai_lacks(name: str, *, instead: str = "") -> Behaviour:
    """Refuse a parameter in OpenAI's words."""
    more = f" Use '{instead}' instead." if instead else ""
    message = f"Unsupported parameter: '{name}' is not supported with this model.{more}"
    return fails(400, message, type="invalid_request_error", param=name, code="unsupported_parameter")


def openai_takes_only(name: str, value: float) -> Behaviour:
    """Refuse a value in OpenAI's words."""
    message = (
        f"Unsupported value: '{name}' does not support 0.0 with this model. Only the default ({value}) is supported."
    )
    return fails(400, message, type="invalid_request_error", param=name, code="unsupported_value")


def fastapi_lacks(name: str) -> Behaviour:
    """Refuse a parameter as a server of FastAPI does."""
    return answers({"detail": [_forbidden(name)]}, 422)


def mistral_lacks(name: str) -> Behaviour:
    """Refuse a parameter in Mistral's words."""
    error = {
        "object": "error",
        "message": {"detail": [_forbidden(name)]},
        "type": "invalid_request_error",
        "param": None,
    }
    return answers(error, 422)


def _forbidden(name: str) -> dict[str, object]:
    return {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}


def groq_lacks(name: str) -> Behaviour:
    """Refuse a parameter in Groq's words."""
    return answers({"error": {"message": f"property '{name}' is unsupported", "type": "invalid_request_error"}}, 400)


def gemini_lacks(name: str) -> Behaviour:
    """Refuse a parameter in the words of Google's gateway, which sends a list."""
    message = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    return answers([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}], 400)


def xai_lacks(name: str) -> Behaviour:
    """Refuse a parameter in xAI's words: without a mark around its name."""
    error = f"Argument not supported on this model: {name}"
    return answers({"code": "Client specified an invalid argument", "error": error}, 400)


def litellm_lacks(name: str) -> Behaviour:
    """Refuse a parameter in LiteLLM's words, which names none in its fields."""
    message = f"litellm.UnsupportedParamsError: hosted does not support parameters: ['{name}'], for model=tiny."
    return fails(400, message, type="None", param="None", code="400")


def out_of_range(name: str) -> Behaviour:
    """Refuse a value as pydantic does."""
    return answers(
        {"detail": [{"type": "greater_than", "loc": ["body", name, "float"], "msg": "Input is too low"}]}, 422
    )


# ---------------------------------------------------------------------- chat templates


def takes_no_system_role(messages: Sequence[Mapping[str, str]]) -> str:
    """Refuse a system message, as Gemma's does."""
    if messages[0]["role"] == "system":
        raise TemplateRefuses("System role not supported")
    return alternates(messages)


def alternates(messages: Sequence[Mapping[str, str]]) -> str:
    """Refuse roles that do not take turns, as most do."""
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if any(role != ("user", "assistant")[number % 2] for number, role in enumerate(roles)):
        raise TemplateRefuses("Conversation roles must alternate user/assistant/user/assistant/...")
    return written(messages)


def drops_the_system_message(messages: Sequence[Mapping[str, str]]) -> str:
    """Write what is not the system's, and say nothing of the rest."""
    return written([message for message in messages if message["role"] != "system"])


def moves_the_system_message(messages: Sequence[Mapping[str, str]]) -> str:
    """Write the system text into the last message, as Mistral's does."""
    system = [message for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    return written([*others[:-1], *system, others[-1]])
