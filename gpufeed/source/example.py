"""Reads `tf.train.Example` messages, the records of TFDS, without TensorFlow."""

from __future__ import annotations

import functools
from typing import Any

from gpufeed._util.extras import import_extra

__all__ = ["read_example"]

_SCHEMA = """
name: "gpufeed/example.proto" package: "gpufeed" syntax: "proto3"
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "b" number: 1 type: TYPE_MESSAGE type_name: "BytesList" oneof_index: 0 }
  field { name: "f" number: 2 type: TYPE_MESSAGE type_name: "FloatList" oneof_index: 0 }
  field { name: "i" number: 3 type: TYPE_MESSAGE type_name: "Int64List" oneof_index: 0 } }
message_type { name: "Features"
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: "Feature" } }
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
    type_name: "FeatureEntry" } }
message_type { name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: "Features" } }
"""
"""TensorFlow's example.proto, as protobuf describes a file."""

Values = list[bytes | float]
"""The values of a feature: bytes, floats or integers."""


def read_example(message: bytes) -> dict[str, Values]:
    """Return the features of an Example: their values by their names.

    Raises:
        ValueError: it is not an Example.
        MissingExtraError: the package protobuf is not installed.
    """
    kind, damaged = _example()
    try:
        features = kind.FromString(message).features.feature
    except damaged as error:
        raise ValueError(
            f"not a tf.train.Example: {error} (ArrayRecordSource reads records that are images)"
        ) from None
    return {name: _values(feature) for name, feature in features.items()}


def _values(feature: Any) -> Values:
    kind = feature.WhichOneof("kind")
    return [] if kind is None else list(getattr(feature, kind).value)


@functools.cache
def _example() -> tuple[Any, type[Exception]]:
    """Return the class of Examples, and the error that damaged ones raise."""
    names = "descriptor_pb2", "descriptor_pool", "message", "message_factory", "text_format"
    descriptor, pools, message, factory, text = (
        import_extra(f"google.protobuf.{name}", extra="arrayrecord") for name in names
    )
    # In a pool of its own, since TensorFlow may be there with the same messages.
    pool = pools.DescriptorPool()
    pool.Add(text.Parse(_SCHEMA, descriptor.FileDescriptorProto()))
    kind = factory.GetMessageClass(pool.FindMessageTypeByName("gpufeed.Example"))
    return kind, message.DecodeError
