"""Published figures for a suite's tasks; the report shows them apart from a bench's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Published:
    source: str
    differs: str  # differences to a bench here
    head: Sequence[str]  # the columns; the first two are the planner and the language model
    rows: Sequence[Sequence[str]]  # their values, as printed


def _pairs(values: str) -> list[tuple[str, str]]:
    numbers = values.split()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


_MODELS = ("Llama 3.1 8B", "Llama 3.1 70B", "Qwen 2.5 7B", "Qwen 2.5 72B", "Mistral 7B", "Gemma 2 9B", "Phi-4-RP 14B")
#: GSR and SSR with each of the language models.
_WAH_NL = {
    "ZSP": "1.00 13.03 0.00 14.42 0.00 8.98 0.00 14.22 0.00 11.65 1.00 13.87 0.00 17.90",
    "Tree-Planner (25 plans)": "1.00 17.00 2.00 16.72 6.00 22.23 6.00 32.41 1.00 20.43 2.00 17.58 3.00 17.52",
    "Tree-Planner (50 plans)": "4.00 21.85 4.00 23.43 8.00 28.10 9.00 36.03 6.00 23.63 3.00 23.30 4.00 20.40",
    "ReAct": "8.00 34.25 30.00 57.05 10.00 31.82 26.00 51.38 6.00 28.18 9.00 37.20 33.00 48.13",
    "ReAct+WM": "16.00 42.65 33.00 63.15 13.00 39.73 31.00 54.05 9.00 31.95 11.00 39.93 33.00 51.28",
    "ReAcTree": "21.00 51.98 32.00 60.58 18.00 50.20 48.00 75.13 11.00 37.92 26.00 60.43 49.00 67.47",
    "ReAcTree+WM": "30.00 60.77 58.00 79.27 37.00 59.63 61.00 79.58 15.00 49.57 38.00 67.08 49.00 69.30",
}
WAH_NL = Published(
    source="ReAcTree (Choi et al., 2026), table 1",
    differs="The 100 test tasks in VirtualHome, with episodic memory; in per cent.",
    head=("planner", "language model", "GSR", "SSR"),
    rows=[
        (planner, model, *pair)
        for planner, values in _WAH_NL.items()
        for model, pair in zip(_MODELS, _pairs(values), strict=True)
    ],
)
#: GSR and SSR with Qwen 2.5 7B and 72B, without and with episodic memory, each without and with working memory.
_MEMORIES = {
    "ReAct": "7.00 22.82 13.00 35.75 6.00 19.53 18.00 44.33 10.00 31.82 26.00 51.38 13.00 39.73 31.00 54.05",
    "ReAcTree": "2.00 9.32 31.00 56.82 1.00 7.45 47.00 64.72 18.00 50.20 48.00 75.13 37.00 59.63 61.00 79.58",
}
WAH_NL_MEMORIES = Published(
    source="ReAcTree (Choi et al., 2026), table 3",
    differs="The same tasks; without episodic memory all have one example, a run of a training task; in per cent.",
    head=("planner", "language model", "episodic memory", "working memory", "GSR", "SSR"),
    rows=[
        (planner, model, episodic, working, *pair)
        for planner, values in _MEMORIES.items()
        for (episodic, working, model), pair in zip(
            product(("no", "yes"), ("no", "yes"), ("Qwen 2.5 7B", "Qwen 2.5 72B")), _pairs(values), strict=True
        )
    ],
)
#: GSR and SSR of ReAcTree+WM with the first four language models.
_CONTROL_FLOWS = {
    "all": "30.00 60.77 58.00 79.27 37.00 59.63 61.00 79.58",
    "sequence, fallback": "28.00 58.77 58.00 78.52 38.00 54.83 61.00 79.08",
    "sequence": "18.00 45.65 36.00 61.17 15.00 32.18 46.00 63.22",
}
WAH_NL_CONTROL_FLOWS = Published(
    source="ReAcTree (Choi et al., 2026), table 4",
    differs="The same tasks, with episodic and working memory; in per cent.",
    head=("planner", "language model", "control flows", "GSR", "SSR"),
    rows=[
        ("ReAcTree+WM", model, flows, *pair)
        for flows, values in _CONTROL_FLOWS.items()
        for model, pair in zip(_MODELS[:4], _pairs(values), strict=True)
    ],
)
#: Success rate, progress rate, steps, context, time; STANDARD's and HiAgent's.
_AGENTBOARD = {
    "Blocksworld": ("30.00 35.00 25.00 100 100", "60.00 80.00 18.60 67.46 63.47"),
    "Gripper": ("50.00 87.75 25.20 100 100", "50.00 86.25 24.80 49.99 70.46"),
    "Tyreworld": ("10.00 39.28 28.40 100 100", "60.00 75.83 19.00 73.58 77.58"),
    "Barman": ("10.00 17.50 26.85 100 100", "30.00 40.83 24.50 67.02 95.54"),
    "Jericho": ("5.00 13.51 26.60 100 100", "10.00 29.85 26.15 66.86 95.85"),
}


def _of_agentboard(tasks: str, names: Sequence[str]) -> Published:
    return Published(
        source="HiAgent (Hu et al., 2024), table 1",
        differs=(
            f"AgentBoard's {tasks}, at most 30 steps; success and progress rate in per cent, context and time in per "
            "cent of STANDARD's, which keeps the whole history."
        ),
        head=("planner", "language model", "tasks", "success rate", "progress rate", "steps", "context", "time"),
        rows=[
            (planner, "gpt-4-turbo", name, *values.split())
            for name in names
            for planner, values in zip(("STANDARD", "HiAgent"), _AGENTBOARD[name], strict=True)
        ],
    )


PDDL = _of_agentboard("problems of each domain", ("Blocksworld", "Gripper", "Tyreworld", "Barman"))
JERICHO = _of_agentboard("games, with subgoals of its own", ("Jericho",))
#: Average rewards: ALFWorld's seen and unseen tasks, ScienceWorld's, WebShop's.
_RECODE = {
    "GPT-4o mini": {
        "ReAct": "59.29 64.18 47.02 38.91 27.62",
        "CodeAct": "72.14 85.07 22.68 18.41 21.37",
        "AdaPlanner": "75.00 92.54 28.49 26.11 29.17",
        "ADaPT": "34.29 41.04 37.53 32.94 32.79",
        "ReCode": "83.57 96.27 42.78 41.18 39.97",
    },
    "Gemini 2.5 Flash": {
        "ReAct": "85.71 85.07 24.73 25.60 39.74",
        "CodeAct": "52.86 63.43 23.89 20.64 43.67",
        "ReCode": "90.00 96.27 54.35 43.77 46.57",
    },
    "DeepSeek-V3.1": {
        "ReAct": "90.71 88.06 68.52 61.75 22.94",
        "CodeAct": "51.43 59.70 35.96 27.91 36.50",
        "ReCode": "95.71 94.78 50.20 50.21 55.07",
    },
}


def _of_recode(differs: str, columns: Sequence[str], first: int) -> Published:
    return Published(
        source="ReCode (Yu et al., 2025), table 2",
        differs=f"{differs}; average reward in per cent.",
        head=("planner", "language model", *columns),
        rows=[
            (planner, model, *values.split()[first : first + len(columns)])
            for model, planners in _RECODE.items()
            for planner, values in planners.items()
        ],
    )


_SEEN_UNSEEN = ("reward, seen", "reward, unseen")
ALFWORLD = _of_recode("140 seen and 134 unseen games of ALFWorld's own data", _SEEN_UNSEEN, 0)
SCIENCEWORLD = _of_recode(
    "194 seen and 211 unseen tasks of ETO's split, without its types 9 and 10, with teleporting and open containers "
    "(simplifications=easy)",
    _SEEN_UNSEEN,
    2,
)
WEBSHOP = _of_recode("200 tasks of MPO's split, in a shop of 1.18 million products", ("reward",), 4)
