"""English words that say nothing of what a page is about, with and without their apostrophes."""

from __future__ import annotations

_WORDS = """
    a about after again all also am an and any are as at be because been before being both but by
    can cannot could did do does doing done during each either else ever every few for from get gets
    had has have having he her here hers him his how i if in into is it its itself just let may me
    might more most much must my myself no nor not now of off on once only or other our ours out
    over own please same shall she should so some such than that the their theirs them then there
    these they this those through to too under until up upon us very was we were what when where
    which while who whom whose why will with without would yes yet you your yours
    dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt hasnt havent hadnt
    im ive youre youve youll theyre theyve weve theres
    don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't hasn't
    haven't hadn't i'm i've i'd i'll you're you've you'll they're they've we've we'll
"""
STOP_WORDS = frozenset(_WORDS.split())
