"""Hedges: prose around a decision that leaves open whether the decision is meant.

Prose that announces or explains passes. Prose that denies, doubts, imagines, tells or asks does not pass. Next to the
decision, only prose that is known to be harmless passes. Nothing is guessed.
"""

from __future__ import annotations

import re


def _phrases(listed: str) -> re.Pattern[str]:
    """Return a pattern for any of some phrases, which are listed with commas; each is a regular expression."""
    phrases = (r"\s+".join(phrase.split()) for phrase in listed.split(","))
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


#: Before a decision, in whatever sentence: it is told, imagined, or refused.
_IMAGINED = _phrases(
    """
    once upon a time, story, imagine, suppose, supposing, pretend, hypothetical(?:ly)?, for instance, examples?,
    e\\.g, such as, yesterday, would have, could have, (?:can't|cannot|can not|won't|unable to|refuse to)
    (?:help|assist|comply|continue|do (?:this|that|it|so))
    """
)
#: In the sentence that leads to a decision: it is denied, told, asked, or one of several.
_DENIED = _phrases(
    """
    not, no, never, nothing, cannot, \\w+n't, without, avoid, instead of, rather than, wrong, incorrect, bad,
    worse, worst, false, mistakes?, forbidden, refuse, reject(?:ed)?, discard(?:ed)?, delete[ds]?, undo,
    cancel(?:l?ed)?, ignore, disregard, forget, skip, illegal, stop, opposite, alternatives?, drafts?, old, if,
    unless, whether, or, either, would, could, might, may, \\w+'d, should i, shall, was, were, had, did, said,
    says, told, wrote, writes?, reads?, before, earlier, last, later, previous(?:ly)?, after(?:wards)?, then, once,
    eventually, options?, possible, available, allowed, formats?, templates?, prompt, manual, they, he, she,
    someone, people
    """
)
_WORKS = "help|assist|comply|perform|execute|fulfil|interact|provide|respond"
#: Before a decision, in whatever sentence: the model declines, and perhaps lists what else it could do.
_DECLINED = _phrases(
    rf"""
    (?:can't|cannot|can not|won't|will not|can only|unable to|(?:not|\w+n't) able to) (?:\w+ )?(?:{_WORKS}),
    (?:one|any|some|either) of the following, as an? (?:\w+ )?(?:ai|assistant|language model),
    (?:don't|do not|doesn't|lack) (?:\w+ )?(?:\w+ )?(?:ability|abilities|capability|capabilities|capacity|means),
    (?:not|\w+n't) (?:\w+ )?(?:capable|designed|equipped|programmed)
    """
)
#: Signs that say nothing.
_SIGNS = r"[\s\-–*_#>().,:;!\"'`\[\]{}|=+•…]*"
#: What may stand before a decision on its line.
_OPENING = re.compile(
    rf"{_SIGNS}(?:(?:ok|okay|sure|alright|right|great|good|well|yes|yeah|certainly|of course|understood|got it|hello|hi"
    rf"|so|now|next|thus|therefore|hence|finally|thanks?|thank you)\b{_SIGNS})*",
    re.IGNORECASE,
)
_ANNOUNCES = _phrases(
    """
    decisions?, decide, acts?, actions?, answer, reply, response, step, move, choice, choose, command, output,
    json, next, now, do, proceed, go, here, expand, expansion, plan, follow(?:s|ing)?, therefore, so, thus, hence
    """
)
#: A clause that gives a reason, before the one that announces.
_REASON = re.compile(r"^\W*(?:since|as|because|given|now that|having|based on|after)\b[^,]{1,300},\s*", re.IGNORECASE)
_AHEAD = _phrases(
    """
    following, below, as follows, what follows, what comes, example of, (?:this|next)
    (?:action|act|decision|step|line), (?:do|say|try|perform|execute|take|consider|doing|saying|trying)
    (?:this|that|it)
    """
)
_ASKS_ITSELF = re.compile(r"\W*(?:what|which|where|how|who)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_ENDED = re.compile(r"[.!?…][\"')\]]*$")

#: How an explanation after a decision begins.
_EXPLAINS = _phrases(
    """
    this, that, these, it, i, i'm, i'll, i've, the, my, our, we, we'll, here, there, because, since, as, to, by,
    so, now, in, with, from, for, reason, reasoning, rationale, explanation, justification, thought, think, plan,
    note, ok, okay, great, good, let, let's, waiting, awaiting, expected, hopefully
    """
)
#: After a decision: it is taken back, doubted, or told.
_TAKEN_BACK = _phrases(
    """
    wait, actually, second thoughts?, instead, rather, alternatively, correction, mistakes?, wrong, incorrect,
    opposite, cancel(?:l?ed)?, scratch that, ignore, disregard, discard(?:ed)?, reject(?:ed)?, denied, never, not
    sure, unsure, hm+, oops, unless, only if, undo, undone, revert, forget, abort(?:ed)?, skip(?:ped)?, void,
    withdraw, retract, reconsider, rethink, postpone, refrain, hold o(?:n|ff), take (?:it|that) back, changed? my
    mind, joking, kidding, hypothetical, theoretically, in theory, examples?, for instance, story, formats?,
    placeholder, test, draft, do not, don't, did not, didn't, should not, shouldn't, must not, mustn't, cannot,
    can't, won't, will not, would, wouldn't, could have, not
    (?:do|doing|take|taking|perform|execute|carry|what|to|the right|a good|allowed|going|yet|now|actually|really),
    not (?:this|that|it|meant), (?:this|that|it) (?:was|is not|isn't), no good, said, says, told, manual, prompt,
    yesterday, forbidden, illegal, dangerous, unsafe, avoid, refuse, stop, bad
    """
)
_NO = re.compile(r"\W*no\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_EMPTY = re.compile(_SIGNS)


def doubt_before(lead: str, *, same_line: bool = False) -> str:
    """Return the words before a decision that leave open whether it is meant; nothing if it is.

    ``same_line``: whether it ends on the decision's line.
    """
    lead = lead.strip()
    if not lead:
        return ""
    if (imagined := _IMAGINED.search(lead)) is not None:
        return imagined[0]
    if said := declined(lead):
        return said
    *sentences, last = [sentence.strip() for sentence in _SENTENCE.split(lead) if sentence.strip()]
    if denied := next(filter(None, map(_denial_of_what_comes, sentences)), ""):
        return denied
    if _OPENING.fullmatch(last):
        return ""
    count = len(_WORD.findall(last))
    if _ENDED.search(last):
        asks = last.rstrip("\"')]").endswith("?") and not _ASKS_ITSELF.match(last)
        return last if asks or count < 2 else _denied(last) if count < 4 else _denial_of_what_comes(last)
    announces = _ANNOUNCES.search(last) is not None and (last.endswith(":") or not same_line)
    leads = same_line or last.endswith(":") or count < 5  # a sentence of some length on its own line leads to nothing
    return _denied(last) or (last if leads and not announces else "")


def declined(prose: str) -> str:
    """Return the words with which the model declines; nothing if there are none."""
    found = _DECLINED.search(prose)
    return "" if found is None else found[0]


def doubt_in_thought(thought: str) -> str:
    """Return the words at the end of a thought that leave open whether the decision after it is meant.

    A thought may deny and doubt whatever it likes, but not what comes next.
    """
    last = next((one.strip() for one in reversed(_SENTENCE.split(thought)) if one.strip()), "")
    return doubt_before(last) if last.endswith(":") else _denial_of_what_comes(last)


def _denial_of_what_comes(sentence: str) -> str:
    return _denied(sentence) if _AHEAD.search(sentence) is not None else ""


def _denied(sentence: str) -> str:
    denied = _DENIED.search(_REASON.sub("", sentence))
    return "" if denied is None else denied[0]


def doubt_after(tail: str, *, labelled: bool = False) -> str:
    """Return the words after a decision that leave open whether it is meant; nothing if it is.

    ``labelled``: a label announces it as a thought; otherwise it may go on with the decision's sentence.
    """
    signs = _EMPTY.match(tail)
    begin = 0 if signs is None else signs.end()
    if begin == len(tail):
        return ""
    first = _WORD.match(tail, begin)
    if first is None:
        return tail[begin]
    if not labelled and (first[0][0].islower() or not _EXPLAINS.fullmatch(first[0])):
        return first[0]
    return tail if "?" in tail or _NO.match(tail) else taken_back(tail)


def taken_back(text: str) -> str:
    """Return the words in a text after a decision that take it back; nothing if there are none."""
    found = _TAKEN_BACK.search(text)
    return "" if found is None else found[0]
