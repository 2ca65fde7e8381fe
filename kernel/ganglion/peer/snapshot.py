"""Snapshot: an environment within an episode, as it says itself, taken as bytes and put back into one made alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.errors import AuthorError
from ganglion.peer.failure import failure_of, show_failure
from ganglion.peer.hooks import Hooks
from ganglion.peer.judgement import Judgement
from ganglion.peer.likeness import Likeness
from ganglion.peer.portrait import NoPortrait, Portrait
from ganglion.sdk.environment import Environment, EnvironmentState

_STATE = "books.state"  # where in a likeness the environment's own words are
_EXPECTED = "expected a map of names and arrays, or other plain values"


def speaks(cls: type[Environment]) -> bool:
    """Say whether environments of a class say themselves what they are: by `save_state` and `load_state`.

    Raises:
        AuthorError: It has one of the two without the other.
    """
    names = ("save_state", "load_state")
    found = [name for name in names if callable(getattr(cls, name, None))]
    if len(found) == 1:
        (lacks,) = set(names) - set(found)
        raise AuthorError(
            f"expected save_state and load_state, or neither, found {found[0]} without {lacks} in {cls.__qualname__}"
        )
    return bool(found)


class Snapshot:
    """Take and put back an environment that speaks for itself, with its reward and transformer and all generators.

    Reward and transformer are taken as objects of other processes are: by a pair of their own, or by their attributes.
    It is made where a successor makes one too: when the first episode has been opened.
    """

    def __init__(
        self, environment: Environment, hooks: Hooks, judgement: Judgement, generators: Mapping[str, Any]
    ) -> None:
        self._environment: Any = environment
        self._hooks = hooks
        made = {"reward": judgement.reward, "transformer": judgement.transformer}
        given = {"environment": environment, "environment.reward": environment.reward}
        self._likeness = Likeness(
            {name: (one, ()) for name, one in made.items() if one is not None},
            classes=[EnvironmentState],
            given=given | {f"stream {name}": stream for name, stream in generators.items()},
        )

    def take(self, books: Mapping[str, Any], portraits: bool = True) -> list[Portrait]:
        """Return what `read` and `put` take; `books` are what the host knows beside the objects, as plain values.

        Raises:
            AuthorError: `save_state` fails, or returns something else than a map of names and plain values.
            NoPortrait: Reward or transformer cannot be taken.
        """
        saved = self._hooks("save_state", self._environment.save_state)
        if not isinstance(saved, Mapping):
            raise self._wrong(f"{_EXPECTED}, found {type(saved).__name__}")
        odd = next((name for name in saved if type(name) is not str), None)
        if odd is not None:
            raise self._wrong(f"{_EXPECTED}, found {odd!r:.60} as a name")
        try:
            return self._likeness.take({**books, "state": dict(saved)}, portraits)
        except NoPortrait as error:
            path = str(error)
            if path.startswith(_STATE):
                raise self._wrong(f"{path.removeprefix(_STATE).lstrip('.')}: {_EXPECTED}") from None
            raise

    def _wrong(self, text: str) -> AuthorError:
        error = AuthorError(f"environment {self._environment.uid}: save_state: {text}")
        error.add_note(self._hooks.place)
        return error

    def read(self, data: Sequence[Portrait]) -> tuple[Mapping[str, Any], Portrait]:
        """Return what was taken: under `books` what the host knew; all of it is for `put`.

        Raises:
            RemoteProtocolError: It is no snapshot.
        """
        return self._likeness.read(data)

    def put(self, read: tuple[Mapping[str, Any], Portrait]) -> None:
        """Put back what was read; what goes wrong in `load_state` is printed with its traceback.

        Raises:
            AuthorError: An object does not take its state.
            RemoteProtocolError: It is no snapshot.
        """
        try:
            self._hooks("load_state", self._environment.load_state, read[0]["books"]["state"])
        except AuthorError as error:
            show_failure(error, failure_of(error))
            raise AuthorError(f"environment {self._environment.uid}: load_state: {error}") from error
        self._likeness.put(read)  # generators last: whatever was drawn from them meanwhile
