"""Snowflake-shaped post ids: 41 bits of Unix milliseconds, 10 of node, 12 of sequence."""

NODE_BITS = 10
SEQUENCE_BITS = 12


class Snowflakes:
    """Makes ids that grow within one process, also when the clock steps back."""

    def __init__(self, node: int) -> None:
        """Make ids for `node`, 0..1023, leased from Postgres (`storage.nodes`)."""
        if not 0 <= node < 1 << NODE_BITS:
            raise ValueError(f"node must be in 0..1023, it is {node}")
        self._node = node
        self._last_ms = 0
        self._sequence = 0

    def next(self, now_ms: int) -> int:
        """Return the next id for the time `now_ms`; a full millisecond borrows from the next."""
        if now_ms > self._last_ms:
            self._last_ms, self._sequence = now_ms, 0
        else:
            self._sequence += 1
            if self._sequence >> SEQUENCE_BITS:
                self._last_ms, self._sequence = self._last_ms + 1, 0
        return (
            self._last_ms << (NODE_BITS + SEQUENCE_BITS)
            | self._node << SEQUENCE_BITS
            | self._sequence
        )
