"""Words of an instruction that change nothing: politeness, articles, and what the robot does in any case."""

from __future__ import annotations

import re

from reactree_ros.household.lexicon import word_set

HARMLESS = word_set(
    "a an the this that these those some any my our your his her its their it them hello hi hey oh dear please pls "
    "kindly thanks thank to in into inside onto on at of upon within with as so well and then also too just finally "
    "lastly afterwards afterward but however now immediately asap up down out together there here only okay ok sure "
    "once"
)
"""Words that say nothing of their own; most only join other words, and those are accounted for themselves."""

#: Verbs that state something: harmless only in what the robot is to make sure of.
STATED = word_set("are gets has have is")

#: A noun that belongs to a switch, after "start" or "press".
SWITCHES = word_set("button buttons cycle machine program programme switch")

#: What a thing is said to be, although no house here tells clean things from others: it goes for either.
ASSUMED = word_set("clean cleaned dirty used washed unwashed")

_PHRASES = (
    '(?:hello|hi|hey|dear)(?: ")?(?: robot)? \\w+(?: ")?(?= [.,:!])',
    "pour (?:me|us)",
    # A request as a question, a wish or a rule. No other question or statement asks for anything.
    "(?:can|could|will|would) you(?! have\\b)(?: please| kindly)?(?: mind| be able to| help(?: me| us)?(?: to)?)?",
    "do you mind|are you able to|(?:is it|would it be) possible(?: for you)? to",
    "(?:can|could|may|might) i(?= (?:please )?(?:get|have)\\b)",
    "(?:i|we)(?= (?:need|want)\\b)|(?:(?:i|we) would|id|wed) (?:like|love)|you to|lets|let us",
    "you (?:have to|must|need to|shall|should)(?! have\\b)",
    "(?:they )?(?:has to|have to|must|needs? to|shall|should)(?: always)? (?:be|contain|have(?! (?:been|put)))",
    "for (?:me|us)",
    "(?:away|back|over)(?= (?:at|in|inside|into|on|onto|to)\\b)|along(?= with\\b)",
    "(?:once|when|as soon as) (?:(?:you are|youre|you have|its|it is|that is|thats|all is) )?(?:done|finished|ready)",
    "(?:do not|dont|never) forget(?: to)?",
    "make sure(?: that)?",
    "for (?:breakfast|brunch|lunch|dinner|supper|later)",
    "all the way",
    "(?:right|straight) away",
    "(?:first|second|third|next)(?: of all)? ,",
    "(?:^|(?<=[.\\n] )|(?<=and )|(?<=then ))(?:first|next)(?: of all)?",
    "thank you (?:so|very) much",
    "a(?= few)",
    "a number of",
    "at once",
    "(?:(?:home|house|household|service) )*(?:robot|assistant)(?= ,| please)",
    "if (?:you can|possible|you please|you would|you could|you dont mind|its possible|it is possible)",
    "(?<=\\w )(?:that |which )?i left(?: out)?",
    "where (?:it|they)(?= belongs?)",
    "(?:their|its|the) (?:current |respective |own )?(?:location|locations|place|places)(?= and\\b| [.])",
    # What a search does in any case, told step by step.
    "(?:and )?remember (?:their|its|the) locations?",
    "(?:remove|skip|leave out|ignore) all that are already (?:in|on|at) the \\w+(?: \\w+)?(?= [.\\n])",
    "grab as much as you can hold",
    "by going to (?:the )?remembered locations",
    "if any (?:\\w+ )?(?:are not|arent) yet (?:in|on|at) the (?:\\w+ ){1,3}go to step \\d+",
)
PHRASES = re.compile(rf"\b(?:{'|'.join(_PHRASES)})(?!\S)")
"""Runs of words, joined by spaces, that say nothing of their own."""
