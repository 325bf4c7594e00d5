"""Values of libraries that need no codec of the user's, where the library is loaded: arrays, documents, nodes.

Arrays and their numbers are dtype and values, exact. Vectors are written as numbers, so that a diff of two recordings
reads and tolerances hold; what is larger than LARGEST elements is written as its bytes.
"""

from __future__ import annotations

import base64
import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.values import Codec
from pytest_agentreplay.values.objects import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Json

LARGEST = 20_000
PIECES = ("Document", "NodeWithScore", "TextNode", "ImageNode", "IndexNode", "RelatedNodeInfo", "QueryBundle")
SCALARS = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def add_library_codecs(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """The codecs of a test, behind those of the array libraries that are loaded: what a test says wins."""
    declared = tuple(codecs)
    for library, make in _LIBRARIES:
        if (module := sys.modules.get(library)) is not None:
            declared = (*make(module), *declared)
    return declared


@functools.cache
def _make_numpy_codecs(np: Any) -> tuple[Codec, ...]:
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
def _make_retrieval_codecs(module: Any) -> tuple[Codec, ...]:
    """What retrieval libraries give: documents of LangChain, nodes of llama-index, field by field."""
    classes = (getattr(module, name, None) for name in PIECES)
    kinds = [kind for kind in classes if isinstance(kind, type)]
    shapes = [(kind, shape) for kind in kinds if (shape := shape_of(kind)) is not None]
    return tuple(Codec(kind, shape.apart, functools.partial(shape.together, kind)) for kind, shape in shapes)


@functools.cache
def _make_torch_codecs(torch: Any) -> tuple[Codec, ...]:
    """Tensors of numbers; they come back on the CPU."""

    def freeze(tensor: Any) -> Json:
        flat = tensor.detach().cpu().flatten().tolist()
        return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "values": flat}

    def thaw(data: Any) -> Any:
        return torch.tensor(data["values"], dtype=getattr(torch, data["dtype"])).reshape(data["shape"])

    return (Codec(torch.Tensor, freeze, thaw),)


@functools.cache
def _make_row_codecs(row: Any) -> tuple[Codec, ...]:
    """Rows of SQLAlchemy's Core: tuples with names, which a result makes."""
    made: Any = sys.modules["sqlalchemy.engine.result"].SimpleResultMetaData

    def freeze(value: Any) -> Any:
        return [list(value._fields), list(value)]

    def thaw(data: Any) -> Any:
        names, values = data
        # SQLAlchemy 2.0: https://github.com/sqlalchemy/sqlalchemy/blob/main/lib/sqlalchemy/engine/result.py
        result_class = made(names)
        return row.Row(result_class, None, result_class._key_to_index, tuple(values))

    def of_mapping(value: Any) -> Any:
        return [list(value.keys()), list(value.values())]

    # `_mapping` is documented: https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Row._mapping
    return Codec(row.Row, freeze, thaw), Codec(row.RowMapping, of_mapping, lambda data: thaw(data)._mapping)


_LIBRARIES: tuple[tuple[str, Callable[[Any], tuple[Codec, ...]]], ...] = (
    ("numpy", _make_numpy_codecs),
    ("torch", _make_torch_codecs),
    ("sqlalchemy.engine.row", _make_row_codecs),
    ("langchain_core.documents.base", _make_retrieval_codecs),
    ("llama_index.core.schema", _make_retrieval_codecs),
)
