"""Stories of a few instructions, put together byte by byte: what no well-made game does."""

from __future__ import annotations

#: Where the parts are: the dictionary, objects, global variables, what is read into, and the program.
_WORDS, _OBJECTS, _GLOBALS, _LINE, _PARSED, _STATIC, _PROGRAM = 0x40, 0x50, 0x100, 0x300, 0x380, 0x400, 0x410
_LENGTH = 0x800

READ = bytes([0xE4, 0x0F, *_LINE.to_bytes(2, "big"), *_PARSED.to_bytes(2, "big"), 0x00])
READ_KEY = bytes([0xF6, 0x7F, 0x01, 0x00])
FOR_EVER = bytes([0x8C, 0xFF, 0xFF])  # a jump to itself
END = bytes([0xBA])
UNKNOWN = bytes([0x00])  # no instruction
BY_ZERO = bytes([0x17, 0x01, 0x00, 0x00])  # one divided by nothing


def printed(text: str) -> bytes:
    """Print a text, letter by letter."""
    return b"".join(bytes([0xE5, 0x7F, 13 if letter == "\n" else ord(letter)]) for letter in text)


def again(since: bytes) -> bytes:
    """Do all of these anew."""
    return bytes([0x8C, *((-len(since) - 1) % (1 << 16)).to_bytes(2, "big")])


def story(*program: bytes, version: int = 5) -> bytes:
    """Return a story file of a program."""
    content = bytearray(_LENGTH)
    content[0] = version
    for at, value in (
        (0x04, _PROGRAM),
        (0x06, _PROGRAM),
        (0x08, _WORDS),
        (0x0A, _OBJECTS),
        (0x0C, _GLOBALS),
        (0x0E, _STATIC),
        (0x1A, _LENGTH // 4),
    ):
        content[at : at + 2] = value.to_bytes(2, "big")
    content[_WORDS : _WORDS + 4] = bytes([0, 9, 0, 0])
    content[_LINE], content[_PARSED] = 100, 20
    code = b"".join(program)
    content[_PROGRAM : _PROGRAM + len(code)] = code
    return bytes(content)
