"""Part: what every object of a plugin has before its constructor runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from ganglion.sdk.mode import Mode

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["Part"]


class Part:
    """Be the base of the classes that plugins offer.

    The attributes are set before `__init__` runs, and again after it. The constructor gets the `params` of the
    document by keyword, and of `uid`, `seed` and `broker_uri` (always empty) those that its signature names. This
    base accepts and ignores any arguments.

    A class may have `save_state() -> Mapping[str, Any]` and `load_state(state)`. They are for runs that last for hours:
    what a lost process has to hear again is bounded only where the state of its objects can be taken between two
    episodes. `save_state` returns names and arrays, or other plain values (numbers, text, bytes, lists, tuples, maps,
    sets, generators of numpy); `load_state` is called with an equal map, in another process, on an object that was
    made and set up in the same way, and has to put it where the first one stood. The generator `rng`, `memory`, and
    all else that the bus has given are seen to. Objects of a class that has neither are taken by their attributes,
    where these are plain values, or objects of which the same holds that the constructor or `setup` has made.
    Environments are asked within an episode, too, and have to say themselves what they are: both methods may be
    `async def`, and one without the other is refused. Their rewards and transformers are taken with them, as above.
    Where an environment has neither method, nobody of the three is asked: who takes the place of a lost one opens the
    episode by `reset` with the same draws and is led through it again. What they keep from one episode for the next is
    not there then; where that shows, the run goes back to its last cut.

    Attributes:
        uid: The object's name within the run, with the worker where each has one (`scout/0`).
        name: The name in the document.
        worker: Number of the worker, from 0; 0 also where workers share the object.
        mode: Of the phase.
        seed: One integer of the object's own stream, in [0, 2**63).
        rng: The generator of the object's own stream. An object made by hand has none until somebody sets it.
        params: The parameters of the document, read-only.
    """

    takes_params: ClassVar[bool] = False
    """Whether a constructor that names `params` gets all parameters there, as one map."""

    uid: str = ""
    name: str = ""
    worker: int = 0
    mode: Mode = Mode.TRAIN
    seed: int = 0
    rng: Generator
    params: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept and ignore any arguments."""
