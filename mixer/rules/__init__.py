"""Diversity rules over the ordered list: small pure functions, the same output for the same input.

A rule never loses a post. Those that weigh multiply the score and order anew; those that space
move rows as little as they can, and count where they could not hold. The recipe
(`mixer.home_feed`) says which, in which order.
"""

from mixer.rules.author_decay import AuthorDecay
from mixer.rules.new_author import NewAuthor
from mixer.rules.one_original import OneOriginal
from mixer.rules.out_of_network import OutOfNetwork
from mixer.rules.seen_later import SeenLater
from mixer.rules.spacing import Limit, Spacing

__all__ = [
    "AuthorDecay",
    "Limit",
    "NewAuthor",
    "OneOriginal",
    "OutOfNetwork",
    "SeenLater",
    "Spacing",
]
