"""Reads XML that somebody else may have written, within bounds, and writes XML.

The standard library's tree has no line numbers, and its parser takes in entities. Here a document type ends the
reading, so there are no entities that grow or name files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from reactree_ros.files.read_back import DEEPEST, well_formed

#: Most bytes of a file of XML, and most elements and attributes in it.
LARGEST_XML, MOST_XML = 8 << 20, 100_000


class NoXml(ValueError):
    """A text is not acceptable XML; the line is from 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True)
class Element:
    tag: str  # its name
    attributes: Mapping[str, str] = field(default_factory=dict)  # in the order in which they were written
    line: int = 0  # its line in the text, from 1; 0: it was read from none
    children: tuple[Element, ...] = ()  # the elements in it
    text: str = ""  # the words in it, without those of its children and without space around them

    def named(self, tag: str) -> Iterator[Element]:
        return (child for child in self.children if child.tag == tag)


class _Reader:
    def __init__(self) -> None:
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._words
        #: The elements that are not complete, each with those in it and its words so far.
        self._open: list[tuple[Element, list[Element], list[str]]] = [(Element(""), [], [])]
        self._count = 0

    def read(self, text: str) -> Element:
        try:
            self._parser.Parse(well_formed(text).encode(), True)
        except expat.ExpatError as error:
            raise NoXml(expat.ErrorString(error.code), error.lineno) from None
        return self._open[0][1][0]

    def _doctype(self, *_: object) -> None:
        raise NoXml("a document type and its entities are not read; take <!DOCTYPE …> out", self._line)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1 + len(attributes)
        if len(self._open) > DEEPEST:
            raise NoXml(f"elements are nested more than {DEEPEST} levels deep", self._line)
        if self._count > MOST_XML:
            raise NoXml(f"there are more than {MOST_XML:,} elements and attributes", self._line)
        self._open.append((Element(tag, attributes, self._line), [], []))

    def _end(self, _: str) -> None:
        element, children, words = self._open.pop()
        self._open[-1][1].append(replace(element, children=tuple(children), text="".join(words).strip()))

    def _words(self, words: str) -> None:
        self._open[-1][2].append(words)

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber


def parse_xml(text: str) -> Element:
    if len(text) > LARGEST_XML:
        raise NoXml(f"it is longer than {LARGEST_XML >> 20} MiB, the most that is read", 1)
    return _Reader().read(text)


def as_xml(element: Element) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    waiting: list[tuple[int, Element | str]] = [(0, element)]  # a tree may be deeper than Python calls itself
    while waiting:
        depth, one = waiting.pop()
        if isinstance(one, str):
            lines.append(f"{'  ' * depth}</{one}>")
            continue
        begun = "".join((one.tag, *(f" {name}={quoteattr(value)}" for name, value in one.attributes.items())))
        if one.children:
            lines.append(f"{'  ' * depth}<{begun}>")
            waiting += [(depth, one.tag), *((depth + 1, child) for child in reversed(one.children))]
        else:
            lines.append(f"{'  ' * depth}<{begun}{f'>{escape(one.text)}</{one.tag}>' if one.text else '/>'}")
    return "\n".join([*lines, ""])
