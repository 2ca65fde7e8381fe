"""Statistics: numbers that a muscle or a brain notes beside its work."""

from __future__ import annotations

from ganglion.errors import AuthorError


class Statistics:
    """Collect numbers by key until the bus takes them."""

    _noted: dict[str, float] | None = None

    def add_statistics(self, key: str, value: float, allow_overwrite: bool = False) -> None:
        """Note a number for the table `actions`.

        A muscle's is stored with the decision that it is making, a brain's as `brain.<key>` with the decision about
        which it is thinking: of a round that is learned from at once with the first of its rows; where rounds overlap
        (`sync`: pipelined, async) with the decision whose row came next. What a brain notes before its first row
        lies with that; of what it notes behind its last answer nothing is stored.

        Args:
            key: Its name, a text.
            value: Anything that `float` takes; infinity and NaN are kept as they are.
            allow_overwrite: Whether a number that has been noted under this key since the last `pop_statistics` may
                be replaced.

        Raises:
            AuthorError: The key has been noted and may not be replaced, or is no text; the value is no number. What
                was noted before stays.
        """
        if not isinstance(key, str):
            raise AuthorError(f"statistics: expected a text as key, found {key!r:.80}")
        if self._noted is None:
            self._noted = {}
        if key in self._noted and not allow_overwrite:
            raise AuthorError(f"statistics {key!r}: noted twice; allow_overwrite=True replaces the first")
        try:
            self._noted[key] = float(value)
        except (TypeError, ValueError) as error:
            raise AuthorError(f"statistics {key!r}: expected a number, found {value!r:.80}") from error

    def pop_statistics(self) -> dict[str, float]:
        """Return what has been noted since the last call, and begin anew."""
        noted, self._noted = self._noted or {}, None
        return noted
