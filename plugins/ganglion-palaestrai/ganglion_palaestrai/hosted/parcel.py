"""Parcel: what palaestrAI's brains and muscles tell each other, as plain values; nothing is executed by reading it.

A torch module travels as the name of its class, its plain attributes, and its parameters and buffers as arrays. It is
made without its constructor; optimisers stay behind. Tensors travel as arrays, files in memory as bytes.
"""

from __future__ import annotations

import enum
import importlib
import io
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ganglion.sdk import AuthorError

__all__ = ["opened", "packed"]

_KIND = "$"  # the key of a map that stands for something else
_PLAIN = (bool, int, float, str, bytes, type(None))
_MODULE_OWN = frozenset(
    ("training", "_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "_is_full_backward_hook")
)


def packed(value: Any, path: str = "update") -> Any:
    """Return a value as one that travels.

    Raises:
        AuthorError: Something in it cannot; the message begins with the path to it and says what can.
    """
    if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise _refused(path, value)
        return value
    if type(value) is list:
        return [packed(part, f"{path}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, Mapping):
        pairs = [(name, packed(part, f"{path}[{name!r}]")) for name, part in value.items()]
        if all(type(name) is str and name != _KIND for name, _ in pairs):
            return dict(pairs)
        return {_KIND: "map", "pairs": [[packed(name, f"{path}: key"), part] for name, part in pairs]}
    for kind, (is_one, pack, _) in _KINDS.items():
        if is_one(value):
            return {_KIND: kind, "of": pack(value, path)}
    raise _refused(path, value)


def opened(value: Any, trusted: frozenset[str]) -> Any:
    """Return what was packed.

    Args:
        value: As it travelled.
        trusted: Packages whose modules and enumerations may be made.

    Raises:
        AuthorError: It names a class of another package, or one that is no torch module and no enumeration.
    """
    if isinstance(value, list):
        return [opened(part, trusted) for part in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {name: opened(part, trusted) for name, part in value.items()}
    if kind == "map":
        return {opened(name, trusted): opened(part, trusted) for name, part in value["pairs"]}
    return _KINDS[kind][2](value["of"], trusted)


def _refused(path: str, value: Any) -> AuthorError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    cure = "send numbers, text, bytes, lists, maps, arrays, tensors, torch modules or io.BytesIO"
    return AuthorError(f"{path}: a {kind} cannot travel; {cure}")


# -- kinds ------------------------------------------------------------------------------------------------------------
def _torch(name: str) -> Any:
    """Return a class of torch, one that has no objects while torch is not imported."""
    found: Any = sys.modules.get("torch")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found or type("Nothing", (), {})


def _is(name: str) -> Callable[[Any], bool]:
    return lambda value: "torch" in sys.modules and isinstance(value, _torch(name))


def _pack_tensor(value: Any, path: str) -> Any:
    try:
        return value.detach().cpu().numpy()
    except TypeError as error:  # a dtype that numpy has not
        raise AuthorError(f"{path}: a tensor of {value.dtype} cannot travel; send .to(torch.float32)") from error


def _open_tensor(value: Any, _: frozenset[str]) -> Any:
    import torch

    return torch.from_numpy(np.array(value))


def _open_parameter(value: Any, trusted: frozenset[str]) -> Any:
    import torch

    tensor = _open_tensor(value, trusted)
    return torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point())


def _pack_module(module: Any, path: str) -> Any:
    attributes = {
        name: packed(value, f"{path}.{name}")
        for name, value in vars(module).items()
        if name not in _MODULE_OWN and "_hooks" not in name and not _stays(value)
    }
    for name, value in vars(module).items():
        if "_hooks" in name and value:
            raise AuthorError(f"{path}.{name}: hooks of a torch module are functions and cannot travel; remove them")
    return {
        "class": _class_name(module),
        "attributes": attributes,
        "parameters": {n: None if p is None else _pack_tensor(p, f"{path}.{n}") for n, p in module._parameters.items()},
        "buffers": {n: None if b is None else _pack_tensor(b, f"{path}.{n}") for n, b in module._buffers.items()},
        "modules": {n: None if m is None else _pack_module(m, f"{path}.{n}") for n, m in module._modules.items()},
        "training": module.training,
    }


def _stays(value: Any) -> bool:
    """Say whether an attribute of a module is only for learning."""
    return _is("optim.Optimizer")(value) or _is("optim.lr_scheduler.LRScheduler")(value)


def _open_module(form: Any, trusted: frozenset[str]) -> Any:
    import torch

    cls = _class(form["class"], trusted, torch.nn.Module)
    module = cls.__new__(cls)
    torch.nn.Module.__init__(module)
    vars(module).update({name: opened(value, trusted) for name, value in form["attributes"].items()})
    for name, value in form["parameters"].items():
        module._parameters[name] = None if value is None else _open_parameter(value, trusted)
    for name, value in form["buffers"].items():
        module._buffers[name] = None if value is None else _open_tensor(value, trusted)
    for name, value in form["modules"].items():
        module._modules[name] = None if value is None else _open_module(value, trusted)
    module.training = form["training"]
    return module


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _class(name: str, trusted: frozenset[str], base: type[Any]) -> Any:
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in {*trusted, "torch"}:
        raise AuthorError(f"{name}: expected a class of {', '.join(sorted(trusted))} or torch")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise AuthorError(f"{name}: expected a subclass of {base.__name__}")
    return found


def _pack_file(value: io.BytesIO, path: str) -> Any:
    return {"bytes": value.getvalue(), "at": value.tell()}


def _open_file(form: Any, _: frozenset[str]) -> io.BytesIO:
    found = io.BytesIO(form["bytes"])
    found.seek(form["at"])
    return found


def _pack_information(value: Any, path: str) -> Any:
    kind = next(name for name in _INFORMATIONS if name in {cls.__name__ for cls in type(value).__mro__})
    return [kind, str(value.uid), packed(value.value, f"{path}.value"), value.space.to_string()]


def _open_information(form: Any, trusted: frozenset[str]) -> Any:
    from palaestrai import agent
    from palaestrai.types import Space

    kind, uid, value, space = form
    if kind not in _INFORMATIONS:
        raise AuthorError(f"{kind}: expected one of {', '.join(_INFORMATIONS)}")
    return getattr(agent, kind)(value=value, space=Space.from_string(space), uid=uid)


_INFORMATIONS = ("SensorInformation", "ActuatorInformation", "RewardInformation")


def _is_information(value: Any) -> bool:
    agent = sys.modules.get("palaestrai.agent")
    return agent is not None and isinstance(value, tuple(getattr(agent, name) for name in _INFORMATIONS))


_KINDS: dict[str, tuple[Any, Any, Any]] = {
    "tuple": (
        lambda value: isinstance(value, tuple),
        lambda value, path: [packed(part, f"{path}[{i}]") for i, part in enumerate(value)],
        lambda form, trusted: tuple(opened(part, trusted) for part in form),
    ),
    "set": (
        lambda value: isinstance(value, set | frozenset),
        lambda value, path: [packed(part, path) for part in sorted(value, key=repr)],
        lambda form, trusted: {opened(part, trusted) for part in form},
    ),
    "file": (lambda value: isinstance(value, io.BytesIO), _pack_file, _open_file),
    "parameter": (_is("nn.Parameter"), _pack_tensor, _open_parameter),
    "tensor": (_is("Tensor"), _pack_tensor, _open_tensor),
    "module": (_is("nn.Module"), _pack_module, _open_module),
    "device": (
        _is("device"),
        lambda value, _: "cpu",  # where it is heard there may be no other one
        lambda form, _: _torch("device")(form),
    ),
    "dtype": (_is("dtype"), lambda value, _: str(value).removeprefix("torch."), lambda form, _: _torch(form)),
    "enum": (
        lambda value: isinstance(value, enum.Enum),
        lambda value, _: [_class_name(value), value.name],
        lambda form, trusted: _class(form[0], trusted, enum.Enum)[form[1]],
    ),
    "information": (_is_information, _pack_information, _open_information),
}
