"""What carries the blocks of a page out: what it reads, what it runs, and that it fails where a block is broken."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from docs.blocks import ROOT, SERVER, Block, Broken, Place, blocks_of, invalid, pages


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path / "place", "http://127.0.0.1:9/v1")


def read(folder: Path, text: str) -> list[Block]:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return list(blocks_of(page, folder))


def carry_out(place: Place, text: str) -> None:
    for block in read(place.folder, text):
        place.carry_out(block)


def test_every_block_of_readme_and_docs_runs_or_says_why_not() -> None:
    blocks = [block for page in pages() for block in blocks_of(page)]
    run = [block for block in blocks if not block.not_run and not block.needs and block.language != "text"]
    assert len(run) > len(blocks) / 3
    assert {block.where.partition(":")[0] for block in run} >= {"README.md", "docs/tutorials/first-run.md"}


def test_what_is_not_run_names_commands_options_and_distributions_that_exist() -> None:
    blocks = [block for page in pages() for block in blocks_of(page)]
    blocks = [block for block in blocks if block.language == "bash" and (block.not_run or block.run_by)]
    assert [fault for block in blocks for fault in invalid(block)] == []


def test_a_block_that_another_test_runs_names_a_test_that_reads_its_page() -> None:
    for block in [block for page in pages() for block in blocks_of(page) if block.run_by]:
        assert (ROOT / block.run_by).is_file(), block.where
        page = block.where.rpartition(":")[0]
        readers = (file.read_text(encoding="utf-8") for file in (ROOT / block.run_by).parent.glob("*.py"))
        assert any(page in text for text in readers), f"{block.where}: no test beside {block.run_by} reads {page}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("reactree no-such-command", "no command"),
        ("ros2 run reactree_ros reactree lab no-such-command", "no command"),
        ("reactree run --no-such-option=1 \\\n  --llm expert", "run has no --no-such-option"),
        ("reactree lab bench \\\n  --no-such-option", "lab bench has no --no-such-option"),
        ("pip install '.[no-such-extra]'", "no extra no-such-extra"),
        ("python -m pip install './ros2_ws/src/reactree_lab[train,no-such-extra]'", "no extra no-such-extra"),
        ("pip install ./ros2_ws/src/reactree_later", "is none of"),
    ],
)
def test_what_does_not_exist_is_named(text: str, fault: str) -> None:
    (told,) = invalid(Block("page.md:3", "bash", f"{text}\n"))
    assert fault in told
    assert told.startswith("page.md:3: ")


def test_the_readme_is_short_and_leads_to_pages_that_are_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 85
    links = re.findall(r"\]\((?!https?:)([^)#]+)", readme)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_page_has_one_title_and_no_section_twice() -> None:
    for page in pages():
        text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        titles = re.findall(r"^(#+ .*)$", text, flags=re.MULTILINE)
        assert [title for title in titles if title.startswith("# ")] == titles[:1], page
        assert len(set(titles)) == len(titles), page


def test_a_block_knows_its_page_its_line_and_what_the_comment_before_it_says(tmp_path: Path) -> None:
    comments = ("<!-- file: a.yaml -->\n", "<!-- not run: needs a GPU -->\n", "<!-- needs: ros -->\n", "")
    blocks = read(tmp_path, "# Title\n\n" + "\n".join(f"{comment}```yaml\na: 1\n```\n" for comment in comments))
    assert [(one.where, one.file, one.not_run, one.needs, one.text) for one in blocks] == [
        ("page.md:4", "a.yaml", "", "", "a: 1\n"),
        ("page.md:9", "", "needs a GPU", "", "a: 1\n"),
        ("page.md:14", "", "", "ros", "a: 1\n"),
        ("page.md:18", "", "", "", "a: 1\n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\nreactree list\n```\n",
        "```sh\nreactree list\n```\n",
        "<!-- not run -->\n```bash\nreactree list\n```\n",
        "<!-- needs: gpu -->\n```bash\nreactree list\n```\n",
        "```bash\nreactree list\n",
    ],
)
def test_a_block_that_does_not_say_what_it_is_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(Broken, match=r"page\.md:\d"):
        read(tmp_path, text)


def test_a_directive_of_sphinx_is_no_block(tmp_path: Path) -> None:
    assert read(tmp_path, "```{toctree}\nindex\n```\n") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bash", "false"),
        ("bash", "false | true"),
        ("bash", "false; true"),
        ("bash", "reactree run --no-such-option"),
        ("bash", "no_such_command"),
        ("bash", 'echo "$NO_SUCH_VARIABLE"'),
        ("python", "import no_such_module"),
        ("toml", "a = "),
        ("yaml", "a: [1"),
    ],
)
def test_a_broken_block_fails_with_its_page_and_line(place: Place, language: str, text: str) -> None:
    with pytest.raises(Broken, match=r"^page\.md:3: "):
        carry_out(place, f"# Title\n\n```{language}\n{text}\n```\n")


def test_what_a_broken_block_printed_is_told(place: Place) -> None:
    with pytest.raises(Broken, match=r"exit code 3:(?s:.*)out of luck"):
        carry_out(place, "```bash\necho out of luck\nexit 3\n```\n")


def test_a_block_that_does_not_end_is_ended(place: Place) -> None:
    with pytest.raises(Broken, match=r"did not end within 0\.2 s"):
        carry_out(replace(place, bound=0.2), "```bash\nread -r line < <(tail -f /dev/null)\n```\n")


SERVER_OF_ONE_LINE = "import time; print('it is up', flush=True); time.sleep(60)"


def test_a_block_that_serves_is_interrupted_once_it_is_up(place: Place) -> None:
    carry_out(place, f'<!-- serves: it is up -->\n```bash\npython -c "{SERVER_OF_ONE_LINE}"\n```\n')


def test_a_block_that_ends_before_it_serves_is_broken(place: Place) -> None:
    with pytest.raises(Broken, match=r"page\.md:\d+: it did not print 'it is up'"):
        carry_out(place, "<!-- serves: it is up -->\n```bash\necho it is down\n```\n")


def test_blocks_find_the_files_of_those_before(place: Place) -> None:
    carry_out(
        place,
        "<!-- file: some/numbers.py -->\n```python\nONE = 1\n```\n"
        '```bash\ncd some\npython -c \'import numbers, pathlib; pathlib.Path("two").write_text("2")\'\n```\n'
        "```python\nassert open('some/two').read() == '2'\n```\n",
    )


def test_what_is_not_run_is_not_run(place: Place) -> None:
    carry_out(place, "<!-- not run: it fails -->\n```bash\nfalse\n```\n")


def test_the_server_of_the_pages_is_another_one(place: Place) -> None:
    carry_out(place, f"<!-- file: here -->\n```bash\n{SERVER}\n```\n")
    assert (place.folder / "here").read_text() == "http://127.0.0.1:9/v1\n"


@pytest.mark.slow
def test_a_page_has_a_home_and_an_environment_of_its_own_that_sees_this_one(place: Place) -> None:
    carry_out(
        place,
        "```python\nimport os, sys, reactree_ros\n"
        "assert sys.prefix.startswith(os.path.dirname(os.environ['HOME']))\n```\n"
        "```bash\nreactree list planners >planners\ngrep -q reactree_wm planners\n```\n",
    )
