"""The field ``device`` of ``compile``."""

from __future__ import annotations

from typing import Any

from prototorch.eager.device import Device
from prototorch.engine.backends.device_name import DEVICE_NAMES, describe_device_names, parse_device, suggest_device
from prototorch.schema import FieldType
from prototorch.schema.validation import ValidationError

__all__ = ["DeviceField"]


class DeviceField(FieldType):
    """The name of a device, or a `Device`; whether it is there is known when the model is compiled."""

    def describe(self) -> str:
        return describe_device_names()

    def label(self) -> str:
        return " | ".join((*DEVICE_NAMES, "cuda:N"))

    def convert(self, value: Any) -> str:
        if isinstance(value, Device):
            value = str(value)
        if not isinstance(value, str):
            raise ValidationError
        if parse_device(value) is None:
            raise ValidationError(hint=suggest_device(value[:60]), right_kind=True)
        return value
