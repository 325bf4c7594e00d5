"""Arrays and their numbers in arguments and results, where numpy or torch is loaded: dtype and values, exact.

Vectors are written as numbers, so that a diff of two recordings reads and tolerances hold; what is larger than LARGEST
elements is written as its bytes.
"""

from __future__ import annotations

import base64
import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.freeze import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Json

LARGEST = 20_000
SCALARS = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def known(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """The codecs of a test, behind those of the array libraries that are loaded: what a test says wins."""
    given = tuple(codecs)
    for library, make in (("numpy", _numpy), ("torch", _torch)):
        if (module := sys.modules.get(library)) is not None:
            given = (*make(module), *given)
    return given


@functools.cache
def _numpy(np: Any) -> tuple[Codec, ...]:
    """Arrays of numbers, and the numbers that they are made of."""

    def freeze(array: Any) -> Json:
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            msg = f"an array of dtype {array.dtype} has no exact form"
            raise ValueError(msg)
        if 0 < array.size <= LARGEST:
            return {"dtype": array.dtype.str, "values": array.tolist()}
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"dtype": array.dtype.str, "shape": list(array.shape), "base64": data}

    def thaw(data: Any) -> Any:
        if "base64" not in data:
            return np.array(data["values"], dtype=data["dtype"])
        flat = np.frombuffer(base64.b64decode(data["base64"]), dtype=data["dtype"])
        return flat.reshape(data["shape"]).copy()

    scalars = (getattr(np, name) for name in SCALARS)
    return (Codec(np.ndarray, freeze, thaw), *(Codec(kind, _number, kind) for kind in scalars))


def _number(value: Any) -> Json:
    return value.item()  # type: ignore[no-any-return]


@functools.cache
def _torch(torch: Any) -> tuple[Codec, ...]:
    """Tensors of numbers; they come back on the CPU."""

    def freeze(tensor: Any) -> Json:
        flat = tensor.detach().cpu().flatten().tolist()
        return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "values": flat}

    def thaw(data: Any) -> Any:
        return torch.tensor(data["values"], dtype=getattr(torch, data["dtype"])).reshape(data["shape"])

    return (Codec(torch.Tensor, freeze, thaw),)
