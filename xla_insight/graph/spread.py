"""Pairs neighbours of paired instructions: what uses, or feeds, a pair is most likely a pair as well.

Owns pairing along edges. Sequences cannot cross, but parts of two graphs can: one more output makes the tracer visit
the parameters in another order, and every optimizer step moves. Only pairs without an alternative are made.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_insight.graph.canonical import Form

UNPAIRED = -1


class Spreader:
    """Spreads pairs over the edges of two forms. ``tokens`` say which nodes may be paired at all (equal ones)."""

    def __init__(
        self,
        forms: tuple[Form, Form],
        partners: tuple[list[int], list[int]],
        tokens: tuple[list[int], list[int]],
        pair: Callable[[int, int], None],
    ) -> None:
        self.forms, self.partners, self.tokens, self.pair = forms, partners, tokens, pair
        self.users = (_users(forms[0], partners[0]), _users(forms[1], partners[1]))

    def run(self) -> None:
        """Start from all pairs next to a node without partner, until nothing new is found."""
        open_ends = self._edge()
        while open_ends:
            before, after = open_ends.pop()
            for x, y in (*self._matching_users(before, after), *self._matching_operands(before, after)):
                if self.partners[0][x] == UNPAIRED and self.partners[1][y] == UNPAIRED:
                    self.pair(x, y)
                    open_ends.append((x, y))

    def _edge(self) -> list[tuple[int, int]]:
        operands, to_before = self.forms[1].operands, self.partners[1]
        found: dict[int, None] = {}
        for node, partner in enumerate(to_before):
            if partner == UNPAIRED:
                found.update((o, None) for o in operands[node] if to_before[o] != UNPAIRED)
            elif any([to_before[o] == UNPAIRED for o in operands[node]]):  # noqa: C419 - a list is faster here
                found[node] = None
        return [(to_before[node], node) for node in reversed(found)]

    def _matching_users(self, before: int, after: int) -> list[tuple[int, int]]:
        """Users of a pair that are alike in token and in all their operands, if they are the only ones."""
        ours, theirs = self.users[0].get(before), self.users[1].get(after)
        if not ours or not theirs:
            return []
        known = ({}, {})  # type: tuple[dict[tuple[int, ...], int], dict[tuple[int, ...], int]]
        for side, users in enumerate((ours, theirs)):
            for user in users:
                if self.partners[side][user] == UNPAIRED:
                    key = self._key(side, user)
                    known[side][key] = UNPAIRED if key in known[side] else user
        pairs = [(user, known[1].get(key, UNPAIRED)) for key, user in known[0].items() if user != UNPAIRED]
        return [(x, y) for x, y in pairs if y != UNPAIRED]

    def _key(self, side: int, node: int) -> tuple[int, ...]:
        """Token, and for each operand the later graph's node it stands for (-1: not known yet)."""
        operands = self.forms[side].operands[node]
        if side == 0:
            return (self.tokens[0][node], *[self.partners[0][o] for o in operands])
        return (self.tokens[1][node], *[o if self.partners[1][o] != UNPAIRED else UNPAIRED for o in operands])

    def _matching_operands(self, before: int, after: int) -> list[tuple[int, int]]:
        ours, theirs = self.forms[0].operands[before], self.forms[1].operands[after]
        # The results of two graphs correspond only by what they hold.
        if len(ours) != len(theirs) or before == self.forms[0].root:
            return []
        return [(x, y) for x, y in zip(ours, theirs, strict=True) if self.tokens[0][x] == self.tokens[1][y]]


def _users(form: Form, partners: list[int]) -> dict[int, list[int]]:
    """Users without partner of each node (the result apart)."""
    users: dict[int, list[int]] = {}
    for node, partner in enumerate(partners):
        if partner == UNPAIRED and node != form.root:
            for operand in dict.fromkeys(form.operands[node]):
                users.setdefault(operand, []).append(node)
    return users
