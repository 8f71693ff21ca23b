"""HDF5 files in a zip archive: mapped in their place where they are stored, else decompressed to a temporary file."""

from __future__ import annotations

import os
import tempfile

from prototorch.engine.storage.combined_hdf5 import CombinedLayout
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout, read_layout
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.zip_members import ZipMember, check_crc, read_member
from prototorch.errors import ModelFileError

__all__ = ["read_zipped_layout"]

_MAX_EXPANSION = 16  # bytes for each byte of a compressed member


def read_zipped_layout(file: MappedFile, member: ZipMember) -> HDF5Layout:
    """As `read_layout`, of a member of an archive. Raises ModelFileError."""
    if not member.is_compressed:
        check_crc(file, member)
        return read_layout(file.path, member.offset, member.size)
    content = read_member(file, member, _MAX_EXPANSION * member.stored_size + (1 << 20))
    handle, name = tempfile.mkstemp(suffix=".h5")
    try:
        with os.fdopen(handle, "wb") as temporary:
            temporary.write(content)
        layout = read_layout(name)
        layout.load()
    except ModelFileError as error:
        raise ModelFileError(str(error).replace(name, f"{file.path}, member {member.name!r}")) from None
    finally:
        os.unlink(name)
    whole = CombinedLayout(file.path, {}, {}, layout.identity)
    whole.add(layout)
    return whole
