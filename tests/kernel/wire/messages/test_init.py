import dataclasses
import inspect
import typing
from typing import Any

from ganglion.wire import messages
from ganglion.wire.messages import CALL_BY_NAME, CALLS, TELLS
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


def declared() -> list[type[Any]]:
    """Return the message classes that the module declares."""
    kinds = [kind for kind in vars(messages).values() if inspect.isclass(kind) and dataclasses.is_dataclass(kind)]
    return [kind for kind in kinds if kind.__module__ == messages.__name__]


def reachable() -> set[type[Any]]:
    """Return the classes that stand in a row of a table, or inside one that does."""
    todo = [kind for call in CALLS for kind in (call.request, call.reply)] + [tell.body for tell in TELLS]
    found: set[type[Any]] = set()
    while todo:
        kind = todo.pop()
        if dataclasses.is_dataclass(kind) and kind not in found:
            found.add(kind)
            todo += [field.type for field in dataclasses.fields(kind)]
        else:
            todo += typing.get_args(kind)
    return found


def test_every_message_is_in_a_row() -> None:
    """No message class lies beside the tables, and none in them comes from elsewhere."""
    assert sorted(kind.__name__ for kind in declared()) == sorted(kind.__name__ for kind in reachable())


def test_names_of_calls_are_unique_and_say_the_callee() -> None:
    """The first word of a call is the role that answers it, or the kernel."""
    assert len(CALLS) == len(CALL_BY_NAME)
    for call in CALLS:
        callee, _, verb = call.name.partition(".")
        assert (call.callee.value if call.callee else "kernel") == callee
        assert verb.isidentifier()


def test_callers_are_roles_without_repetition() -> None:
    """Each row names its callers once; nobody calls its own role."""
    for call in CALLS:
        assert len(call.callers) == len(set(call.callers)) > 0
        assert set(call.callers) <= set(Role)
        assert call.callee not in call.callers


def test_each_verb_without_calls_has_its_row() -> None:
    """Verbs that carry one kind of body have one row; TELLs are told apart by name."""
    rows = [(tell.verb, tell.name) for tell in TELLS]

    assert len(rows) == len(set(rows))
    assert set(Verb) - {Verb.CALL, Verb.REPLY} == {tell.verb for tell in TELLS}
    assert all(bool(tell.name) == (tell.verb is Verb.TELL) for tell in TELLS)
