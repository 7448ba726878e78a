"""Keeps keys out of everything written or shown: records, exports, errors, tables and the page.

An argument of a server or an engine may hold a key under any name. So an argument is written only if its name is in
:data:`HARMLESS`, and its value is a number, a switch or a word. In a text, only what has the form of a key is hidden:
what begins like one or follows its name and is not a word, an address's user, and what the environment calls a key.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_NAMES = """
    add_generation_prompt attn_implementation block_size cache_prompt cpu_offload_gb custom data_parallel_size
    date_string device device_map disable_custom_all_reduce disable_log_stats dry_allowed_length dry_base
    dry_multiplier dtype enable_chunked_prefill enable_prefix_caching enable_thinking enforce_eager
    frequency_penalty gpu_memory_utilization ignore_eos include_stop_str_in_output keep_alive kv_cache_dtype
    length_penalty load_in_4bit load_in_8bit logprobs low_cpu_mem_usage max_completion_tokens max_logprobs
    max_model_len max_num_batched_tokens max_num_seqs max_seq_len_to_capture max_tokens min_p min_tokens mirostat
    mirostat_eta mirostat_tau n_predict num_ctx num_gpu_blocks_override num_predict parallel_tool_calls
    pipeline_parallel_size presence_context_size presence_penalty quantization reasoning_budget reasoning_effort
    reasoning_format reasoning_split repeat_last_n repeat_penalty repetition_penalty seed skip_special_tokens
    spaces_between_special_tokens swap_space temperature tensor_parallel_size tfs_z think thinking thinking_budget
    thinking_token_budget top_a top_k top_logprobs top_n_sigma top_p torch_dtype truncate_prompt_tokens typical_p
    use_beam_search verbosity xtc_probability xtc_threshold
    chat_template_kwargs.custom chat_template_kwargs.enable_thinking chat_template_kwargs.reasoning_effort
    chat_template_kwargs.thinking chat_template_kwargs.thinking_budget options.min_p options.num_ctx options.num_gpu
    options.num_predict options.num_thread options.repeat_penalty options.seed options.temperature options.top_k
    options.top_p provider.allow_fallbacks provider.quantizations provider.require_parameters provider.sort
    reasoning.effort reasoning.enabled reasoning.exclude reasoning.max_tokens thinking.budget_tokens thinking.type
"""
#: Arguments of servers, engines and chat templates that never hold a key; nested names have dots.
HARMLESS = frozenset(_NAMES.split())
#: Names that only a key can have.
_REFUSED = frozenset(
    {"accesstoken", "apikey", "authorization", "hftoken", "password", "secret", "token", "useauthtoken", "xapikey"}
)
#: Parts of a key's name, in lower case and without separators.
_OF_A_KEY = re.compile(r"key|token|secret|passw|passphrase|passwd|pwd|auth|credential|bearer|cookie|jwt|^pat$")
#: Words that contain such a part but are not about keys.
_OF_NONE = re.compile(r"tokeniz\w*|tokens|keyword|keyboard|author(?!iz)|monkey|hotkey")
_BEHIND_SLASHES = re.compile(r"(?<=//)\S+")
#: A name that sounds like a key, with its value: in settings, headers, JSON, queries and options. ``$HF_TOKEN`` only
#: names a variable.
_NAMED = re.compile(
    r"""(?<![\w$.-])(?P<name>[\w.-]{0,60}(?:key|token|secret|pass|pwd|auth|credential|cookie|jwt)[\w.-]{0,60})"""
    r"""(?P<is>['"]?\s*[:=]\s*|(?:(?<=-key)|(?<=-token)|(?<=-password))\s+)"""
    r"""(?P<value>"[^"]*"|'[^']*'|['"]?(?P<scheme>(?:bearer|basic|digest|token)\s+)?"""
    r"""[^\s'",;}]+(?:;\s*[^\s'",;}]+)*)""",
    re.I,
)
#: Names that only keys have, at the end of a longer one or alone.
_ONLY_KEYS = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd|secret|(?:access|api|private|secret|subscription)key|(?:access|api|auth|hf)token"
    r"|authorization|credential|cookie|jwt)s?$"
)
#: What stands for a value in a message, such as TOKEN or $API_KEY.
_STANDS_FOR_ONE = re.compile(r"""['"]?(?:\$\{?\w+\}?|<[\w -]+>|[A-Z_]{0,20}(?:KEY|TOKEN|PASSWORD|SECRET))['"`.]{0,4}""")
_SENTENCE = re.compile(r"[A-Za-z]+[ ]+[A-Za-z(]")
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
    r"|\b(?:sk-|hf_)[A-Za-z0-9]{10}[\w-]*"
    r"|(?P<like>\b(?:(?:sk|pk|rk|gsk|xai|hf|gh[oprsu]|github_pat|glpat|xox[a-z]|nvapi|npm|r8)[-_]|AKIA|ASIA|AIza|eyJ)"
    r"[\w-]{8,}(?:\.[\w-]+)*"
    r"|(?i:\b(?:bearer|basic)\s+)[\w.+/=-]{8,}"
    # letters of both cases and digits in a row, longer than any name, with the parts around them
    r"|(?<![A-Za-z0-9])(?:[a-z0-9]{1,12}[._-]){0,3}"
    r"(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*\d[A-Za-z])[A-Za-z0-9]{18,})"
)
_RUN = re.compile(r"[A-Za-z0-9]+")
#: A name: a word or several in camel case, with numbers of a few digits, such as ``BoundingBox2DArray``.
_NAME = re.compile(r"[A-Z]{0,5}[a-z]{0,15}(?:\d{0,3}[A-Z]{1,5}[a-z]{2,15})*\d{0,3}[A-Z]{0,5}")
#: The harmless part of an address that cannot be parsed: its scheme, its host, a port in digits.
_ODD_ADDRESS = re.compile(
    r"(?P<begin>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://(?![^/]*@)(?:\[[0-9a-f:]{1,40}|[a-z][a-z.-]{0,60}(?::\d{1,8}(?!\w))?))"
)
_ADDRESS = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s'\"<>|\\^`{}]+")
#: A part of a path that consists of words, versions or a model's name, and is not a key.
_PIECE = r"(?:(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,6})(?:\d{1,2}[a-z]{0,5})?|\d{1,4}[a-z]{0,4})"
_PART = re.compile(rf"{_PIECE}(?:[._-]{_PIECE}){{0,6}}")
#: Parts that only name keys, as in ``/account/api-keys``.
_NAMING = re.compile(r"(?:(?:api|access|auth|oauth2?|keys?|tokens?)[._-]?)+", re.I)
#: Names that are also keys of mappings.
_OF_MAPPINGS = frozenset({"key", "keys"})
_WORD = re.compile(r"[A-Za-z](?:[\w:+-]|\.(?!\.)){0,40}")
#: Replaces a key.
HIDDEN = "***"
#: Parts of a record's header, or of a bench's settings, that hold settings themselves.
_OF_SETTINGS = frozenset({"world", "llm", "vision", "settings", "models", "policy"})
#: Shorter values of environment variables are switches, and may occur in any text.
_LEAST = 6


def _flat(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def is_key_name(name: object) -> bool:
    """Return whether a name is that of a key, such as ``x-goog-api-key``, ``auth`` or ``apitoken``."""
    flat = _flat(name)
    return not flat.endswith("file") and _OF_A_KEY.search(_OF_NONE.sub("", flat)) is not None


def keys_in(values: Any) -> list[str]:
    """Return the names of everything that can only be a key, at any depth; such settings are refused."""
    if isinstance(values, Mapping):
        own = [str(name) for name, value in values.items() if isinstance(value, str) and _flat(name) in _REFUSED]
        return own + [name for value in values.values() for name in keys_in(value)]
    return [name for value in values for name in keys_in(value)] if isinstance(values, list | tuple) else []


def harmless_arguments(arguments: Mapping[Any, Any], within: str = "") -> dict[str, Any]:
    """Return the arguments without a key: names from :data:`HARMLESS`, with numbers, switches and words as values."""
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        known = f"{within}{name}"
        if isinstance(value, Mapping):
            if (inner := harmless_arguments(value, f"{known}.")) or not value:
                kept |= {str(name): inner} if inner else {}
        elif known in HARMLESS and _is_word(value):
            kept[str(name)] = value
    return kept


def _is_word(value: Any) -> bool:
    if isinstance(value, str):
        return value == "" or (_WORD.fullmatch(value) is not None and redacted(value) == value)
    if isinstance(value, list | tuple):
        return all(map(_is_word, value))
    return value is None or isinstance(value, bool | int | float)


def without_credentials(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for writing, including those of a world and a language model within them.

    Keys by name are left out, and so are arguments outside of :data:`HARMLESS`; texts are redacted.
    """
    return {
        str(name): _written(str(name), value)
        for name, value in settings.items()
        if not (is_key_name(name) and isinstance(value, str | Mapping | list | tuple))
    }


def _written(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value).replace(f"//{HIDDEN}@", "//")
    if isinstance(value, Mapping):
        return without_credentials(value) if name in _OF_SETTINGS else harmless_arguments(value)
    if isinstance(value, list | tuple):
        return [_written(name, one) for one in value]
    return value


def shown(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(name, one) for one in value)}]"
    try:
        own, equals, rest = str(value).partition("=")  # of --llm-option and its like
    except ValueError:  # more digits than Python writes
        return "a very long number"
    if is_key_name(name) or isinstance(value, Mapping):
        return "(not shown)"
    if equals and (is_key_name(own) or rest.lstrip()[:1] in ("{", "[")):
        return f"{own}=(not shown)"
    return redacted(str(value)[:200])


def are_harmless(arguments: Any) -> bool:
    return isinstance(arguments, Mapping) and harmless_arguments(arguments) == dict(arguments)


def shown_address(address: str) -> str:
    """Return a URL without user, password, query, fragment, and parts of its path that may be a key."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # only kind and host can be shown
        odd = _ODD_ADDRESS.match(address)
        return f"{odd['begin']}{HIDDEN}" if odd else HIDDEN
    if parts.scheme == "file":
        return address
    where = f"[{host}]" if ":" in host else host
    path, after_key = [], False
    for part in parts.path.split("/"):
        path.append(HIDDEN if part and (after_key or not _is_plain(part)) else part)
        after_key = bool(_NAMING.fullmatch(part))
    return f"{parts.scheme}://{where}{'' if port is None else f':{port}'}{'/'.join(path)}"


def _is_plain(part: str) -> bool:
    if is_key_name(part):
        return _NAMING.fullmatch(part) is not None
    return len(part) <= 48 and _PART.fullmatch(part) is not None and _KEYS.search(part) is None


def redacted(text: str) -> str:
    """Return a text without keys, with URLs as :func:`shown_address` returns them; words and names of files stay."""
    for value in sorted(_in_the_environment(), key=len, reverse=True):
        if _is_random(value, _LEAST):
            text = text.replace(value, HIDDEN)
        else:  # a word, which may also be a part of others
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
    text = _BEHIND_SLASHES.sub(_without_user, text)
    text = _ADDRESS.sub(lambda found: _told(found[0]), text)
    return _KEYS.sub(_without_key, _NAMED.sub(_without_value, text))


def _is_random(text: str, least: int) -> bool:
    return sum(len(run) for run in _RUN.findall(text) if not _NAME.fullmatch(run)) >= least


def _without_key(found: re.Match[str]) -> str:
    return found[0] if found["like"] and not _is_random(found["like"], 8) else HIDDEN


def _without_user(found: re.Match[str]) -> str:
    _, at, rest = found[0].rpartition("@")  # the last one: a password may contain @ or a slash
    return f"{HIDDEN}@{rest}" if at else rest


def _without_value(found: re.Match[str]) -> str:
    name, value = found["name"].rpartition(".")[2], found["value"]
    stands_for_one = _STANDS_FOR_ONE.fullmatch(value.removeprefix(found["scheme"] or ""))
    if not is_key_name(name) or value.rstrip(".") == HIDDEN or stands_for_one:
        return found[0]
    if _ONLY_KEYS.search(_flat(name)):
        is_key = found["scheme"] or "=" in found["is"] or not _SENTENCE.match(found.string, found.start("value"))
    else:
        is_key = _is_random(value, 2 * _LEAST if _flat(name) in _OF_MAPPINGS else _LEAST)
    return f"{found['name']}{found['is']}{HIDDEN}" if is_key else found[0]


def _told(address: str) -> str:
    end = len(address.rstrip(".,;:)]"))
    scheme, _, rest = shown_address(address[:end]).partition("://")
    return f"{scheme}://{f'{HIDDEN}@' if '@' in address else ''}{rest}{address[end:]}"


def _in_the_environment() -> set[str]:
    names = {"KEY", "KEYS", "APIKEY", "BEARER", "COOKIE", "CREDENTIAL", "CREDENTIALS", "JWT", "PASS", "PASSPHRASE"}
    names |= {"PASSWD", "PASSWORD", "PAT", "SECRET", "SECRETS", "TOKEN", "TOKENS"}
    values = (value.strip() for name, value in os.environ.items() if not names.isdisjoint(name.upper().split("_")))
    return {value for value in values if len(value) >= _LEAST}


def is_loopback(host: str) -> bool:
    """Return whether a name or an address reaches this machine alone."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host.rstrip(".").rpartition(".")[2].lower() in ("localhost", "localdomain")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
