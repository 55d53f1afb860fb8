"""An approximate map from keys to values that stores no keys: about 21 bytes per key.

    users = kbf.Map(capacity=1_000_000, distinct_values=200)
    users["alice"] = "CH"
    users["alice"]                  # 'CH'
    users.get("nobody")             # None

It suits many keys that share few values. What it may get wrong: a stored key is not answered with
the chance `false_negative`, and a key that was never stored is answered with the chance
`false_positive`; <kbf/map.h> has the equations, and Map.stats() the rates at the present size. It
cannot list its keys. The values are stored once each and may not outnumber `distinct_values` by
much; a map that is full raises kbf.Error.

This module calls the shared library libkbf.so.0 by ctypes. It is looked for at the path in the
environment variable KBF_LIBRARY, in the directory that this module was installed under, and where
the system looks for libraries. Calls hold Python's global lock, so threads may share a map.

The interface is unstable until version 1.0: names and arguments may change with any release.
"""

import ctypes
import os
import pathlib

__all__ = ["Error", "Map", "Stats", "version"]

_SONAME = "libkbf.so.0"

# The numbers of enum kbf_status in <kbf/kbf.h>.
OK = 0
NOT_FOUND = 1
UNDECODABLE = 2
FULL = 4
TOO_MANY_VALUES = 5
TOO_LARGE = 6
BAD_ARGUMENT = 7
UNLIKE = 8
CANNOT_HALVE = 9
NO_MEMORY = 10
SYSTEM = 11


class Error(Exception):
    """A call that failed. `status` is one of the numbers above, such as kbf.FULL."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Options(ctypes.Structure):
    """struct kbf_map_options"""

    _fields_ = [
        ("capacity", ctypes.c_uint64),
        ("distinct_values", ctypes.c_uint64),
        ("false_negative", ctypes.c_double),
        ("false_positive", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


class Stats(ctypes.Structure):
    """What Map.stats() returns. The two rates are predicted at the present size."""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("num_values", ctypes.c_uint64),
        ("num_overrides", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64),
        ("false_negative", ctypes.c_double),
        ("false_positive", ctypes.c_double),
    ]

    def __repr__(self):
        return "Stats(" + ", ".join(f"{name}={getattr(self, name):.6g}" for name, _ in self._fields_) + ")"


def _candidates():
    """Paths of the shared library, the first that exists is taken; the last is a name to search."""
    if "KBF_LIBRARY" in os.environ:
        return [os.environ["KBF_LIBRARY"]]
    # $(libdir)/python3/dist-packages/kbf.py
    beside = pathlib.Path(__file__).resolve().parents[2:3]
    return [str(path / _SONAME) for path in beside if (path / _SONAME).exists()] + [_SONAME]


def _load():
    """The library with the types of its functions."""
    # PyDLL keeps Python's global lock during calls, because a map has one writer at a time.
    library = ctypes.PyDLL(_candidates()[0])
    bytes_in = [ctypes.c_char_p, ctypes.c_size_t]
    handle = ctypes.c_void_p
    types = {
        "kbf_version": ([], ctypes.c_char_p),
        "kbf_status_message": ([ctypes.c_int], ctypes.c_char_p),
        "kbf_map_create": ([ctypes.POINTER(_Options), ctypes.POINTER(handle), *bytes_in], ctypes.c_int),
        "kbf_map_create_like": ([handle, ctypes.POINTER(handle)], ctypes.c_int),
        "kbf_map_free": ([handle], None),
        "kbf_map_put": ([handle, *bytes_in, *bytes_in], ctypes.c_int),
        "kbf_map_get": (
            [handle, *bytes_in, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)],
            ctypes.c_int,
        ),
        "kbf_map_delete": ([handle, *bytes_in], ctypes.c_int),
        "kbf_map_join": ([handle, handle], ctypes.c_int),
        "kbf_map_compress": ([handle], ctypes.c_int),
        "kbf_map_get_stats": ([handle, ctypes.POINTER(Stats)], ctypes.c_int),
    }
    for name, (arguments, result) in types.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library


_library = _load()


def version():
    """The version of the shared library, for example "0.1.0"."""
    return _library.kbf_version().decode()


def _check(status, message=None):
    """Raises what a status stands for."""
    if status == OK:
        return
    message = message or _library.kbf_status_message(status).decode()
    if status == NO_MEMORY:
        raise MemoryError(message)
    raise Error(status, message)


class Map:
    """A map with a fixed capacity. Keys and values are str or bytes.

    capacity         keys that fit; putting another one raises Error with status FULL
    distinct_values  different values among them
    false_negative   budget: share of stored keys that may not be answered
    false_positive   budget: share of other keys that may be answered
    seed             of the hashes, for repeatable runs; 0 is random
    encoding         how str becomes bytes, and how values come back; None: values come back as bytes
    """

    def __init__(
        self, capacity, distinct_values=1000, false_negative=2e-3, false_positive=2e-5, seed=0, encoding="utf-8"
    ):
        self._handle = None
        self._encoding = encoding
        for name, number in (("capacity", capacity), ("distinct_values", distinct_values)):
            if not 0 < number < 2**64:
                raise Error(BAD_ARGUMENT, f"{name} must be at least 1 and fit 64 bits, not {number}")
        if not (false_negative > 0 and false_positive > 0):
            raise Error(BAD_ARGUMENT, "false_negative and false_positive must be above 0")
        options = _Options(capacity, distinct_values, false_negative, false_positive, seed)
        handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(300)
        status = _library.kbf_map_create(options, handle, message, len(message))
        _check(status, message.value.decode())
        self._handle = handle

    def create_like(self):
        """An empty map with the same plan and the same numbering of values, to be joined with this one."""
        other = Map.__new__(Map)
        other._handle = None
        other._encoding = self._encoding
        handle = ctypes.c_void_p()
        _check(_library.kbf_map_create_like(self._handle, handle))
        other._handle = handle
        return other

    def close(self):
        """Frees the map; calls after that raise Error. The garbage collector does it too."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _library.kbf_map_free(handle)

    def __del__(self):
        # Where __init__ failed early, or the interpreter has already cleared the module.
        if getattr(self, "_handle", None) is not None and _library is not None:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _bytes(self, text):
        if isinstance(text, str):
            return text.encode(self._encoding or "utf-8")
        if isinstance(text, (bytes, bytearray, memoryview)):
            return bytes(text)
        raise TypeError(f"keys and values are str or bytes, not {type(text).__name__}")

    def put(self, key, value):
        """Stores a value for the key, or replaces the one it has."""
        key = self._bytes(key)
        value = self._bytes(value)
        _check(_library.kbf_map_put(self._handle, key, len(key), value, len(value)))

    def _lookup(self, key):
        """(status, bytes of the value)"""
        key = self._bytes(key)
        value = ctypes.c_void_p()
        size = ctypes.c_size_t()
        status = _library.kbf_map_get(self._handle, key, len(key), value, size)
        if status not in (OK, NOT_FOUND, UNDECODABLE):
            _check(status)
        return status, ctypes.string_at(value, size.value) if status == OK else None

    def get(self, key, default=None):
        """The key's value, or `default` where it is not stored or its value cannot be told."""
        status, value = self._lookup(key)
        if status != OK:
            return default
        return value if self._encoding is None else value.decode(self._encoding)

    def may_contain(self, key):
        """False: the key is not stored, with no false negatives."""
        return self._lookup(key)[0] != NOT_FOUND

    def delete(self, key):
        """Removes the key. True if it was stored."""
        key = self._bytes(key)
        status = _library.kbf_map_delete(self._handle, key, len(key))
        if status != NOT_FOUND:
            _check(status)
        return status == OK

    def join(self, other):
        """Takes in all that `other` holds, a map made by create_like. No key may be in both."""
        _check(_library.kbf_map_join(self._handle, other._handle))

    def compress(self):
        """Halves memory and capacity, while the map is at most half full; three times at most."""
        _check(_library.kbf_map_compress(self._handle))

    def stats(self):
        """Size, capacity, memory and predicted error rates, see Stats."""
        stats = Stats()
        _check(_library.kbf_map_get_stats(self._handle, stats))
        return stats

    def __setitem__(self, key, value):
        self.put(key, value)

    def __getitem__(self, key):
        status, value = self._lookup(key)
        if status != OK:
            raise KeyError(key)
        return value if self._encoding is None else value.decode(self._encoding)

    def __delitem__(self, key):
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key):
        return self._lookup(key)[0] == OK

    def __len__(self):
        return self.stats().size

    def __repr__(self):
        if self._handle is None:
            return "<kbf.Map, closed>"
        stats = self.stats()
        return f"<kbf.Map of {stats.size} keys, {stats.memory_bytes} bytes>"
