"""Makers of HDF5 files that must not be read, one kind each: what they attack, and the words of the refusal.

Each maker puts its attack at ``place`` (``w`` or ``group/w``) into an open file; those that change bytes afterwards
return a function that takes and gives the file's bytes. The file is long because it is a catalogue, read entry
by entry.
"""

import struct
import zlib

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

KINDS = {}
LITTLE = np.arange(16, dtype="f4")


def kind(words, libver=("earliest", "v108")):
    def note(make):
        KINDS[make.__name__] = (make, words, libver)
        return make

    return note


def low(file, place, type_id, shape=(4,), creation=None):
    links = h5p.create(h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
    return h5d.create(file.id, place.encode(), type_id, space, creation, links)


# --- links -----------------------------------------------------------------------------------------------------------


@kind("w: a link to another file")
def external_link_absolute(file, place):
    file[place] = h5py.ExternalLink("/nowhere/other.h5", "/x")


@kind("w: a link to another file")
def external_link_relative(file, place):
    file[place] = h5py.ExternalLink("../other.h5", "/x")


@kind("w: a link to another file")
def external_link_to_a_group(file, place):
    file[place] = h5py.ExternalLink("other.h5", "/")


@kind("w: a link to another file|w2?: a soft link")
def soft_link_to_an_external_link(file, place):
    file[place + "2"] = h5py.ExternalLink("other.h5", "/x")
    file[place] = h5py.SoftLink("/" + place + "2")


@kind("w: a soft link")
def soft_link_dangling(file, place):
    file[place] = h5py.SoftLink("/nowhere")


@kind("w2?: a soft link")
def soft_link_cycle(file, place):
    file[place] = h5py.SoftLink("/" + place + "2")
    file[place + "2"] = h5py.SoftLink("/" + place)


@kind("w: a soft link")
def soft_link_to_the_root(file, place):
    file[place] = h5py.SoftLink("/")


@kind("w: another name of an object")
def hard_link_to_the_root(file, place):
    file[place] = file["/"]


@kind("w/in/again: another name of an object")
def hard_link_to_its_own_group(file, place):
    group = file.create_group(place + "/in")
    group["again"] = group


@kind("w2?: another name of an object")
def two_names_of_one_dataset(file, place):
    file[place] = LITTLE
    file[place + "2"] = file[place]


@kind("more than 64 groups deep")
def groups_2000_deep(file, place):
    group = file.create_group(place).id
    for _ in range(2000):
        group = h5py.h5g.create(group, b"g")


@kind("more than 64 groups deep")
def groups_65_deep(file, place):
    file["/".join([place] + ["g"] * 65)] = LITTLE


@kind("w/?.*: a soft link|more than 20,000 objects")
def soft_links_by_the_thousand(file, place):
    group = file.create_group(place)
    for number in range(20_001):
        group.id.links.create_soft(b"%d" % number, b"/x")


@kind("more than 20,000 objects|another name")
def hard_links_by_the_thousand(file, place):
    group = file.create_group(place)
    group["x"] = LITTLE
    for number in range(20_001):
        group.id.links.create_hard(b"%d" % number, group.id, b"x")


@kind("more than 20,000 objects")
def groups_by_the_thousand(file, place):
    group = file.create_group(place).id
    for number in range(20_001):
        h5py.h5g.create(group, b"%d" % number)


# --- storage elsewhere -----------------------------------------------------------------------------------------------


@kind("w: stored in another file")
def external_storage_absolute(file, place):
    file.create_dataset(place, shape=(16,), dtype="u1", external=[("/etc/passwd", 0, 16)])


@kind("w: stored in another file")
def external_storage_relative(file, place):
    file.create_dataset(place, shape=(16,), dtype="u1", external=[("other.bin", 0, 16)])


def virtual(file, place, source):
    layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
    layout[:] = h5py.VirtualSource(source, "x", shape=(4,), dtype="f4")
    file.create_virtual_dataset(place, layout)


@kind("w: virtual storage", libver=("latest", "latest"))
def virtual_absolute(file, place):
    virtual(file, place, "/nowhere/other.h5")


@kind("w: virtual storage", libver=("latest", "latest"))
def virtual_source_missing(file, place):
    virtual(file, place, "missing.h5")


@kind("w2?: virtual storage", libver=("latest", "latest"))
def virtual_of_itself(file, place):
    virtual(file, place, ".")


# --- sizes -----------------------------------------------------------------------------------------------------------


@kind(r"w: 4,000,000,000,000 bytes declared; at most 1,000,000 are")
def terabytes_chunked(file, place):
    file.create_dataset(place, shape=(10**6, 10**6), dtype="f4", chunks=(1000, 1000))


@kind(r"w: 4,000,000,000,000 bytes declared; at most 1,000,000 are")
def terabytes_contiguous(file, place):
    file.create_dataset(place, shape=(10**6, 10**6), dtype="f4")


@kind(r"w: 6,000,000,000 bytes declared")
def six_gigabytes(file, place):
    file.create_dataset(place, shape=(1_500_000_000,), dtype="f4", chunks=(10_000,))


@kind(r"w/\d+: 3,900,000,000 bytes declared")
def a_hundred_large_datasets(file, place):
    for number in range(100):
        file.create_dataset(f"{place}/{number}", shape=(975_000_000,), dtype="f4", chunks=(10_000,))


@kind(r"w/\d+: 400,000 bytes declared; at most 1,000,000 are expected in the file")
def a_sum_that_is_too_large(file, place):
    for number in range(3):
        file[f"{place}/{number}"] = np.zeros(100_000, "f4")


@kind("w: .* bytes declared|Error")
def two_to_the_eighty(file, place):
    file[place] = np.zeros((2, 3), "f4")
    return lambda data: data.replace(struct.pack("<QQ", 2, 3), struct.pack("<QQ", 2**40, 2**40))


@kind("w: 0 bytes declared|Error")
def nothing_of_enormous_extent(file, place):
    low(file, place, h5t.IEEE_F32LE, (2**61, 0))


@kind(r"w: 1,073,741,824 bytes declared")
def a_gigabyte_of_zeros_deflated(file, place):
    made = file.create_dataset(place, shape=(1 << 30,), dtype="u1", chunks=(1 << 30,), compression="gzip")
    chunk = zlib.compressobj(1)
    made.id.write_direct_chunk((0,), chunk.compress(bytes(1 << 20)) + chunk.flush())


@kind("w: chunks of 2,147,483,648 bytes for 4 bytes of data")
def a_large_chunk_behind_one_number(file, place):
    made = file.create_dataset(place, shape=(1,), maxshape=(None,), dtype="f4", chunks=(1 << 29,), compression="gzip")
    made.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 16)))


@kind("w: 900,000 chunks declared, 0 stored")
def a_chunk_for_each_byte(file, place):
    file.create_dataset(place, shape=(900_000,), dtype="u1", chunks=(1,))


@kind("w: 64 bytes declared, 0 stored")
def contiguous_never_written(file, place):
    file.create_dataset(place, shape=(16,), dtype="f4")


@kind("w: 4 chunks declared, 0 stored")
def chunks_never_written(file, place):
    file.create_dataset(place, shape=(16,), dtype="f4", chunks=(4,))


@kind("w: 4 chunks declared, 1 stored")
def chunks_partly_written(file, place):
    file.create_dataset(place, shape=(16,), dtype="f4", chunks=(4,))[5] = 1


@kind("w: its .* bytes are not within the file|Error|stored")
def contiguous_beyond_the_end(file, place):
    made = low(file, place, h5t.IEEE_F32LE, (1000,))
    made.write(h5s.ALL, h5s.ALL, np.ones(1000, "f4"))
    where = struct.pack("<Q", made.get_offset())
    return lambda data: data.replace(where, struct.pack("<Q", len(data) - 10))


# --- chunks and filters ----------------------------------------------------------------------------------------------


def chunk(file, place, data, **options):
    made = file.create_dataset(place, shape=(16,), dtype="f4", chunks=(16,), **options)
    made.id.write_direct_chunk((0,), data)


def filtered(file, place, *codes):
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((16,))
    for code, values in codes:
        creation.set_filter(code, h5py.h5z.FLAG_OPTIONAL, values)
    made = low(file, place, h5t.IEEE_F32LE, (16,), creation)
    made.write_direct_chunk((0,), zlib.compress(zlib.compress(LITTLE.tobytes())))


@kind(r"w: the chunk at \(0,\): a chunk of 64 bytes inflates to 4")
def a_chunk_that_inflates_to_less(file, place):
    chunk(file, place, zlib.compress(b"1234"), compression="gzip")


@kind(r"w: the chunk at \(0,\): a chunk of 64 bytes inflates to more than 64")
def a_chunk_that_inflates_to_more(file, place):
    chunk(file, place, zlib.compress(bytes(10_000)), compression="gzip")


@kind(r"w: the chunk at \(0,\): .*deflate")
def a_chunk_that_is_not_deflated(file, place):
    chunk(file, place, b"garbage!" * 8, compression="gzip")


@kind(r"w: the chunk at \(0,\): a chunk of 64 bytes inflates to")
def a_chunk_with_half_a_stream(file, place):
    chunk(file, place, zlib.compress(LITTLE.tobytes())[:20], compression="gzip")


@kind(r"w: the chunk at \(0,\) has 100,000 bytes; at most 128 are possible")
def a_chunk_of_too_many_stored_bytes(file, place):
    chunk(file, place, bytes(100_000), compression="gzip")


@kind(r"w: the chunk at \(0,\): a chunk of 64 bytes decodes to 8")
def a_plain_chunk_stored_short(file, place):
    file.create_dataset(place, data=LITTLE, chunks=(16,))
    return lambda data: data.replace(struct.pack("<IIQQ", 64, 0, 0, 0), struct.pack("<IIQQ", 8, 0, 0, 0))


@kind(r"w: the chunk at \(0,\): a chunk of 64 bytes decodes to 8")
def a_shuffled_chunk_stored_short(file, place):
    chunk(file, place, b"12345678", shuffle=True)


@kind(r"w: the chunk at \(0,\): a chunk without its checksum")
def a_checked_chunk_without_checksum(file, place):
    chunk(file, place, b"12", fletcher32=True)


@kind(r"w: the chunk at \(0,\): a chunk's checksum is wrong")
def a_wrong_checksum(file, place):
    chunk(file, place, LITTLE.tobytes() + b"1234", fletcher32=True)


@kind(r"w: filter 1 \(.*\) is used twice")
def deflate_twice(file, place):
    filtered(file, place, (1, (6,)), (1, (6,)))


@kind(r"w: filter 2 \(.*\) is used twice")
def shuffle_twice(file, place):
    filtered(file, place, (2, (4,)), (2, (4,)))


@kind(r"w: filter 3 \(.*\) is used twice")
def fletcher_twice(file, place):
    filtered(file, place, (3, ()), (3, ()))


@kind(r"w: filter 305 \(.*\) is not allowed")
def an_unknown_filter(file, place):
    filtered(file, place, (305, (1, 2)))


@kind(r"w: filter 32000 \(.*\) is not allowed")
def lzf(file, place):
    file.create_dataset(place, data=LITTLE, chunks=(16,), compression="lzf")


@kind(r"w: filter 6 \(.*\) is not allowed")
def scale_offset(file, place):
    file.create_dataset(place, data=np.arange(16), chunks=(16,), scaleoffset=0)


@kind(r"w: filter 5 \(.*\) is not allowed")
def nbit(file, place):
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((16,))
    creation.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
    low(file, place, h5t.IEEE_F32LE, (16,), creation)


@kind("w: shuffled by 3 bytes, but elements have 4")
def shuffled_by_another_size(file, place):
    file.create_dataset(place, data=LITTLE, chunks=(16,), shuffle=True)

    def change(data):
        where = data.find(b"shuffle\0")
        assert where > 0
        end = where + 8
        return data[:end] + data[end : end + 8].replace(b"\4\0\0\0", b"\3\0\0\0", 1) + data[end + 8 :]

    return change


# --- element types ---------------------------------------------------------------------------------------------------


def opaque(file, place, tag):
    made = h5t.create(h5t.OPAQUE, 8)
    made.set_tag(tag)
    low(file, place, made, (2,)).write(h5s.ALL, h5s.ALL, np.array([b"12345678"] * 2, "V8"), made)


@kind("w: elements of an opaque type")
def opaque_python_objects(file, place):
    opaque(file, place, b"NUMPY:|O")


@kind("w: elements of an opaque type")
def opaque_times(file, place):
    opaque(file, place, b"NUMPY:<M8[s]")


@kind("w: elements of an opaque type")
def opaque_plain(file, place):
    opaque(file, place, b"x")


@kind("w: elements of an reference type")
def object_references(file, place):
    file.create_dataset(place, data=np.array([file.ref], dtype=h5py.ref_dtype))


@kind("w: elements of an reference type")
def region_references(file, place):
    file["aside"] = LITTLE
    file.create_dataset(place, data=np.array([file["aside"].regionref[:2]], dtype=h5py.regionref_dtype))


@kind("w: elements of an string type")
def strings_of_any_length(file, place):
    file.create_dataset(place, data=["a", "bc"], dtype=h5py.string_dtype())


@kind("w: elements of an string type")
def strings_of_fixed_length(file, place):
    file[place] = np.array([b"abc", b"de"])


@kind("w: elements of an variable-length type")
def numbers_of_any_length(file, place):
    file.create_dataset(place, shape=(2,), dtype=h5py.vlen_dtype("f4"))[0] = [1, 2]


@kind("w: elements of an compound type")
def compound(file, place):
    file[place] = np.zeros(3, [("a", "f4"), ("b", "i4")])


@kind("w: elements of an (compound|unknown) type")
def complex_numbers(file, place):
    file[place] = np.ones(3, "c8")


@kind("w: elements of an array type")
def arrays_as_elements(file, place):
    low(file, place, h5t.array_create(h5t.IEEE_F32LE, (3,)))


@kind("w: elements of an bit field type")
def bit_fields(file, place):
    low(file, place, h5t.STD_B8LE)


@kind("w: elements of an time type")
def times(file, place):
    low(file, place, h5t.UNIX_D32LE)


@kind("w: elements of an float type .16 bytes.")
def long_doubles(file, place):
    file[place] = np.ones(3, np.longdouble)


@kind("w: elements of an float type .4 bytes.")
def odd_floats(file, place):
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(31, 20, 11, 0, 20)
    low(file, place, made)


@kind("w: elements of an integer type .2 bytes.")
def odd_integers(file, place):
    made = h5t.STD_I16LE.copy()
    made.set_precision(12)
    low(file, place, made)


@kind("w: elements of an enum type")
def enums(file, place):
    file.create_dataset(place, shape=(3,), dtype=h5py.enum_dtype({"RED": 0, "BLUE": 1}, basetype="i1"))


@kind("w: elements of an enum type")
def booleans_the_wrong_way_round(file, place):
    file.create_dataset(place, shape=(3,), dtype=h5py.enum_dtype({"FALSE": 1, "TRUE": 0}, basetype="i1"))


@kind("w: a boolean that is neither 0 nor 1")
def booleans_beyond_true(file, place):
    made = file.create_dataset(place, data=np.ones(400, bool), chunks=(400,))
    made.id.write_direct_chunk((0,), b"\7" * 400)


@kind("w: an empty dataspace")
def no_dataspace(file, place):
    file.create_dataset(place, data=h5py.Empty("f4"))


@kind("w: expected a group or dataset, found a")
def a_named_type(file, place):
    file[place] = np.dtype("f4")


# --- names -----------------------------------------------------------------------------------------------------------


def named(file, place, name):
    parent = file.require_group(place.rpartition("/")[0] or "/")
    data = h5d.create(parent.id, name, h5t.IEEE_F32LE, h5s.create_simple((16,)))
    data.write(h5s.ALL, h5s.ALL, LITTLE)


@kind("the name '..' has the part")
def a_name_of_two_dots(file, place):
    named(file, place, b"..")


@kind(r"has the control character U\+001B")
def a_name_with_an_escape(file, place):
    named(file, place, b"a\x1b[31mb")


@kind(r"has the control character U\+202E")
def a_name_that_turns_round(file, place):
    named(file, place, "a\u202eb".encode())


@kind("is not UTF-8")
def a_name_that_is_not_utf8(file, place):
    named(file, place, b"\xff\xfe")


@kind("has a part of 5,000 characters")
def a_name_of_5000_characters(file, place):
    named(file, place, b"x" * 5000)


# --- whole files -----------------------------------------------------------------------------------------------------


@kind("Error")
def truncated_in_the_middle(file, place):
    file[place] = np.ones(5000, "f4")
    return lambda data: data[: len(data) // 2]


@kind("Error")
def truncated_by_one_byte(file, place):
    file[place] = LITTLE
    return lambda data: data[:-1]


@kind("Error")
def only_a_signature(file, place):
    return lambda data: data[:8] + b"\xff" * 200


@kind("Error")
def a_root_group_elsewhere(file, place):
    file[place] = LITTLE
    return lambda data: data[:64] + b"\xff" * 24 + data[88:]
