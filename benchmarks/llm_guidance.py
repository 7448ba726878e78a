"""The part of `llm.py` in guidance's environment: the authors' three calls per decision, through transformers.

python benchmarks/llm_guidance.py MODEL_FOLDER DECISIONS.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from guidance import gen, models, select


def main() -> None:
    folder, file = sys.argv[1:]
    nodes = json.loads(Path(file).read_text(encoding="utf-8"))
    model = models.Transformers(folder, echo=False)
    count = prompt_tokens = cached = later_tokens = later_cached = 0
    begin = time.perf_counter()
    for node in nodes:
        for number, one in enumerate(node):
            lm = model + one["prompt"]
            lm._reset_usage()
            lm += select(["Act:", "Think:", "Expand:"], name="choice")
            free = gen(stop="\n", max_tokens=one["line_tokens"], temperature=0, name="line")
            if one["kind"] == "Act":
                lm = model + f"{one['prompt']}Act:" + select([f" {skill}" for skill in one["skills"]], name="skill")
            elif one["kind"] == "Think":
                lm = model + f"{one['prompt']}Think:" + free
            else:
                flows = select([" sequence", " fallback", " parallel"], name="flow")
                lm = model + f"{one['prompt']}Expand:\n- control flow:" + flows + "\n- subgoals:" + free
            usage = lm._get_usage()
            count += 1
            prompt_tokens += usage.input_tokens
            cached += usage.cached_input_tokens
            if number:
                later_tokens += usage.input_tokens
                later_cached += usage.cached_input_tokens
    seconds = time.perf_counter() - begin
    print(json.dumps([count / seconds, (prompt_tokens - cached) / count, later_cached / later_tokens]))


if __name__ == "__main__":
    main()
