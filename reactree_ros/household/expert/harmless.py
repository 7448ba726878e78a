"""Words of an instruction that change nothing: politeness, articles, and what the robot does in any case."""

from __future__ import annotations

import re

from reactree_ros.household.lexicon import word_set

HARMLESS = word_set(
    "a an the this that these those some any my our your his her its their i you me we us it he she they them "
    "hello hi hey dear robot home house service assistant please pls kindly thanks thank can could would will shall "
    "should must may might let lets like be been is are am was were being do does did has had get going to in into "
    "inside onto on at of upon within for by with as so well and then also too just finally lastly "
    "afterwards afterward but however now immediately asap up down over away back out along together there here which "
    "who where only okay ok sure so once"
)
"""Words that say nothing of their own; most only join other words, and those are accounted for themselves."""

#: A noun that belongs to a switch, after "start" or "press".
SWITCHES = word_set("button buttons cycle machine program programme switch")

#: What a thing is said to be, although no house here tells clean things from others: it goes for either.
ASSUMED = word_set("clean cleaned dirty used washed unwashed")

_PHRASES = (
    '(?:hello|hi|hey|dear)(?: ")?(?: robot)? \\w+(?: ")?(?= [.,:!])',
    "pour (?:me|us)",
    "(?:once|when|as soon as) (?:(?:you are|youre|you have|its|it is|that is|thats|all is) )?(?:done|finished|ready)",
    "(?:do not|dont|never) forget(?: to)?",
    "make sure(?: that)?",
    "for (?:breakfast|brunch|lunch|dinner|supper|later)",
    "should always",
    "all the way",
    "(?:right|straight) away",
    "(?:first|second|third|next)(?: of all)? ,",
    "(?:^|(?<=[.\\n] )|(?<=and )|(?<=then ))(?:first|next)(?: of all)?",
    "thank you (?:so|very) much",
    "a(?= few)",
    "at once",
    "on top of",
    "if (?:you can|possible|you please|you would|you could|you dont mind|its possible|it is possible)",
    "(?:that |which )?i left(?: out)?",
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
