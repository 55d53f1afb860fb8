"""Frames of memcached's binary protocol, right and wrong ones, for the tests that send them."""

import struct

HEADER = struct.Struct(">BBHBBHIIQ")
REQUEST = 0x80
RESPONSE = 0x81

OPCODES = {
    "get": 0x00, "set": 0x01, "add": 0x02, "replace": 0x03, "delete": 0x04, "increment": 0x05,
    "decrement": 0x06, "quit": 0x07, "flush": 0x08, "getq": 0x09, "noop": 0x0a, "version": 0x0b,
    "getk": 0x0c, "getkq": 0x0d, "append": 0x0e, "prepend": 0x0f, "stat": 0x10, "setq": 0x11,
    "addq": 0x12, "replaceq": 0x13, "deleteq": 0x14, "incrementq": 0x15, "decrementq": 0x16,
    "quitq": 0x17, "flushq": 0x18, "appendq": 0x19, "prependq": 0x1a, "touch": 0x1c, "gat": 0x1d,
    "gatq": 0x1e, "sasl_list": 0x20, "sasl_auth": 0x21, "sasl_step": 0x22, "gatk": 0x23,
    "gatkq": 0x24, "rget": 0x30, "rdecrq": 0x3c,
}


def frame(opcode, key=b"", extras=b"", value=b"", *, magic=REQUEST, opaque=0, cas=0, datatype=0,
          status=0, key_len=None, extras_len=None, body_len=None):
    """One frame; the lengths may be made to lie. `status` is the vbucket of a request."""
    body = extras + key + value
    return HEADER.pack(
        magic, OPCODES.get(opcode, opcode), len(key) if key_len is None else key_len,
        len(extras) if extras_len is None else extras_len, datatype, status,
        len(body) if body_len is None else body_len, opaque, cas,
    ) + body


def read_frame(wire):
    """One whole frame as a dict; None when the connection closes in between."""
    head = wire.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    magic, opcode, key_len, extras_len, datatype, status, body_len, opaque, cas = (
        HEADER.unpack(head))
    body = wire.read(body_len)
    if len(body) < body_len:
        return None
    return {
        "magic": magic, "opcode": opcode, "datatype": datatype, "status": status,
        "opaque": opaque, "cas": cas, "extras": body[:extras_len],
        "key": body[extras_len:extras_len + key_len], "value": body[extras_len + key_len:],
    }
