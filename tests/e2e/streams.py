"""Random commands for the differential test: text, meta and binary, most right, many wrong.

A generator gives Command(data, alone). `alone` asks that nothing is sent in the same packet: for
commands that may close the connection, and where memcached itself answers differently when other
answers are still waiting to be sent (it then counts in a new item instead of in place, and a get
that fails takes waiting answers with it).

Keys are few, so that commands meet each other's items. Expiry times keep away from the next
seconds, so that two servers cannot disagree by a tick of the clock.
"""

import base64
import collections
import time

from binary import OPCODES, frame

Command = collections.namedtuple("Command", "data alone")

KEYS = [b"k%d" % i for i in range(8)] + [b"counter", b"\xc3\xa9", b"L" * 250]
BAD_NUMBERS = [b"abc", b"-1", b"1x", b"0x10", b"+5", b"-0", b"0007", b"1.5", b"2147483647",
               b"18446744073709551616", b"9" * 30, b"-9223372036854775808"]
ITEM_LIMIT = 1 << 20


class Generator:
    def __init__(self, random):
        self.random = random
        self.absolute = int(time.time()) + 100000

    def chance(self, part):
        return self.random.random() < part

    def pick(self, *choices):
        return self.random.choice(choices)

    def key(self):
        return self.random.choice(KEYS)

    def number(self, bad=0.06):
        """A number or something like one. Counters never get to 2^63: from there on memcached
        looks for a minus sign in the memory behind the number."""
        if self.chance(bad):
            return self.random.choice(BAD_NUMBERS)
        return b"%d" % self.random.choice(
            [0, 1, 2, 5, 10, 99, 1000, 2**31 - 1, 2**32 - 1, self.random.randrange(1 << 32)])

    def exptime(self):
        if self.chance(0.03):
            return self.pick(b"abc", b"1x", b"-", b"100.5")
        return self.pick(b"0", b"0", b"0", b"-1", b"-1000", b"100", b"1000", b"2592000",
                         b"2592001", b"%d" % self.absolute)

    def flags(self):
        if self.chance(0.03):
            return self.pick(b"-1", b"abc", b"1x")
        return self.pick(b"0", b"0", b"1", b"65536", b"4294967295")

    def cas(self):
        if self.chance(0.3):
            return self.pick(b"18446744073709551615", self.number(0.1))
        return b"%d" % self.random.randrange(1, 400)

    def value(self):
        kind = self.random.random()
        if kind < 0.35:
            return b"%d" % self.random.choice([0, 1, 9, 10, 99, 100, 12345, 2**40])
        if kind < 0.45:
            # No value of spaces only: incr in memcached then reads on behind the item.
            return self.pick(b"", b"END\r\n", b"\x00\xff\x80", b"12 ", b" 12", b"-1", b"\r\nx")
        return bytes(self.random.choices(range(256), k=self.random.randrange(60)))

    def large_value(self):
        """Around the limit. Heads of items differ, so the last few hundred bytes are left out."""
        size = self.pick(8191, 70000, 524288, ITEM_LIMIT - 1000, ITEM_LIMIT, ITEM_LIMIT + 1)
        return self.pick(b"v", b"1") * size


class Text(Generator):
    """The classic commands."""

    STORES = (b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend", b"cas")

    def next(self):
        made = self.random.choices(
            (self.get, self.store, self.count, self.touch, self.get_and_touch, self.delete,
             self.flush, self.other, self.garbage, self.large_store),
            (30, 34, 14, 5, 5, 6, 1, 2, 3, 0.2))[0]()
        return made

    def line(self, words, noreply=True):
        """Words with spaces between; now and then one too few, too many, or too many spaces."""
        words = list(words)
        # A store changes at its end only: elsewhere some other number would become the length, and
        # both servers would wait for gigabytes.
        fixed = 5 if words[0] in self.STORES else 0
        if words[0] in (b"get", b"gets") and len(words[1]) > 250:
            fixed = 2  # memcached counts the keys before a bad one
        if self.chance(0.02):
            extra = self.pick(b"0", b"x", b"noreply")
            words.insert(self.random.randrange(fixed, len(words) + 1), extra)
        if noreply and self.chance(0.1):
            words.append(b"noreply")
        if self.chance(0.02) and len(words) > 1:
            words.pop(-1 if fixed == 5 else self.random.randrange(1, len(words)))
        # Not so long that the line gets near the limit of 2,048, where timing decides in memcached.
        space = b" " * self.random.choice((1, 1, 1, 1, 1, 1, 1, 2, 5, 70 if len(words) < 8 else 3))
        end = b"\n" if self.chance(0.05) else b"\r\n"
        return (b" " if self.chance(0.01) else b"") + space.join(words) + end

    def bad_key(self):
        return self.pick(b"K" * 251, b"K" * 251, b"a\tb", b"a\x01b", b"K" * 400)

    def keys(self):
        if self.chance(0.02):  # first: memcached has counted those before it as read
            return [self.bad_key(), self.key(), self.key()]
        return [self.key() for _ in range(self.random.choice((1, 1, 1, 2, 3, 8, 30)))]

    def get(self):
        keys = self.keys()
        return Command(self.line([self.pick(b"get", b"get", b"gets")] + keys, noreply=False),
                       alone=any(len(k) > 250 for k in keys))

    def get_and_touch(self):
        # No bad keys: memcached has touched the ones before it when it notices.
        keys = [self.key() for _ in range(self.random.choice((1, 1, 2, 5)))]
        words = [self.pick(b"gat", b"gats"), self.exptime()] + keys
        return Command(self.line(words, noreply=False), alone=False)

    def store(self):
        verb, value = self.random.choice(self.STORES), self.value()
        key = self.bad_key() if self.chance(0.02) else self.key()
        length = b"%d" % len(value)
        if self.chance(0.03):
            # A length that is none, or one that does not fit the data by a little.
            length = self.pick(b"abc", b"-1", b"2147483647", b"99999999999999999999", b"1x",
                               b"%d" % (len(value) + 3), b"%d" % max(0, len(value) - 2))
        words = [verb, key, self.flags(), self.exptime(), length]
        if verb == b"cas":
            words.append(self.cas())
        end = b"\n" if self.chance(0.01) else b"\r\n"
        return Command(self.line(words) + value + end, alone=end == b"\n" or self.chance(0.5))

    def large_store(self):
        """A good line: after a bad one the data would be taken for lines, and be too long."""
        value, verb = self.large_value(), self.random.choice(self.STORES)
        words = [verb, self.key(), b"0", b"0", b"%d" % len(value)] + [b"1"] * (verb == b"cas")
        return Command(b" ".join(words) + b"\r\n" + value + b"\r\n", alone=True)

    def count(self):
        key = self.pick(b"counter", b"counter", self.key())
        return Command(self.line([self.pick(b"incr", b"decr"), key, self.number()]), alone=True)

    def touch(self):
        return Command(self.line([b"touch", self.key(), self.exptime()]), alone=False)

    def delete(self):
        words = [b"delete", self.key()]
        if self.chance(0.2):
            words.append(self.pick(b"0", b"0", b"1", b"abc"))
        return Command(self.line(words), alone=False)

    def flush(self):
        # At once only: in memcached a later flush undoes an earlier one for items not yet freed.
        words = [b"flush_all"] + ([self.pick(b"0", b"-1", b"abc")]
                                  if self.chance(0.5) else [])
        return Command(self.line(words), alone=True)

    def other(self):
        return Command(self.pick(
            b"mn", b"version", b"verbosity 0", b"verbosity", b"verbosity x", b"shutdown",
            b"stats nonsense", b"stats detail", b"lru", b"lru mode", b"lru mode x", b"slabs",
            b"slabs automove x", b"slabs automove", b"cache_memlimit", b"mn x y", b"version 1",
        ) + b"\r\n", alone=True)

    def garbage(self):
        letters = b"gets mdav0129\x00\x01\xff:;="
        line = bytes(self.random.choices(letters, k=self.random.randrange(40)))
        return Command(self.pick(line, b" " * len(line), b"") + b"\r\n", alone=True)


class Meta(Generator):
    """mg ms md ma me mn, with every flag."""

    # What each flag takes: nothing, or a number, or something of its own. T of ma is left out: it
    # is lost in memcached when the number grows longer.
    PLAIN = {b"mg": b"bcfhklqstuv", b"ms": b"bckq", b"md": b"bkqI", b"ma": b"bckqtv", b"me": b""}
    VALUED = {b"mg": b"NRTO", b"ms": b"CFTMOI", b"md": b"CTO", b"ma": b"CNJDMO", b"me": b""}
    MODES = {b"ms": (b"E", b"A", b"P", b"R", b"S"), b"ma": (b"I", b"D", b"+", b"-")}

    def next(self):
        verb = self.random.choices((b"mg", b"ms", b"md", b"ma", b"me", b"mn"),
                                   (40, 30, 8, 17, 3, 2))[0]
        if verb == b"ms" and self.chance(0.01):
            value = self.large_value()
            return Command(b"ms %s %d c\r\n%s\r\n" % (self.key(), len(value), value), alone=True)
        if verb == b"mn":
            return Command(b"mn" + self.pick(b"", b" x") + b"\r\n", alone=False)
        flags, is_base64 = self.some_flags(verb)
        # Items stored under a base64 key remember it, so these have keys of their own.
        key = self.key()
        if verb == b"ma" and self.chance(0.6):
            key = b"counter"
        if is_base64:
            key = base64.b64encode(b"b/" + key[:100])
            if self.chance(0.05):
                key = self.pick(b"!!!!", b"abc", b"=", b"A" * 250, b"A")
        elif self.chance(0.02):
            key = self.pick(b"K" * 251, b"K" * 1000)
        words = [verb, key]
        value = None
        if verb == b"ms":
            value = self.value()
            length = b"%d" % len(value)
            if self.chance(0.03):
                length = self.pick(b"abc", b"-1", b"S2", b"", b"99999999999999999999")
            words.append(length)
        if self.chance(0.02):
            words.pop(self.random.randrange(1, len(words)))
        end = b"\n" if self.chance(0.05) else b"\r\n"
        line = self.pick(b" ", b" ", b" ", b"  ").join(words + flags) + end
        data = line if value is None else line + value + b"\r\n"
        # Long keys fail the way a get fails, and counting depends on what waits to be sent.
        alone = verb == b"ma" or len(key) > 250 or len(data) > 400 or self.chance(0.3)
        return Command(data, alone)

    def some_flags(self, verb):
        names = [bytes([c]) for c in self.PLAIN[verb] + self.VALUED[verb]]
        chosen = self.random.sample(names, min(len(names), self.random.randrange(6)))
        if self.chance(0.03) and chosen:
            chosen.append(self.random.choice(chosen))
        if self.chance(0.03):
            chosen.append(self.pick(b"!", b"Z", b"W", b"X", b"1", b"\xff", b"S", b"P", b"L"))
        # Which life a new item gets when both are given depends on their order.
        for one, other in ((b"N", b"T"),):
            if one in chosen:
                chosen = [flag for flag in chosen if flag != other]
        flags = [self.with_value(verb, flag) for flag in chosen]
        if verb == b"mg" and b"R" in chosen:  # who wins when nothing is left is its secret, too
            flags = [flag for flag in flags if flag != b"T-1"]
        return flags, b"b" in chosen

    def with_value(self, verb, flag):
        if flag not in [bytes([c]) for c in self.VALUED[verb]]:
            return flag + (b"x" if self.chance(0.01) else b"")
        if self.chance(0.04):
            return flag + self.pick(b"", b"abc", b"-", b"99999999999999999999999", b"1x")
        if flag == b"M":
            mode = self.random.choice(self.MODES[verb])
            return flag + (self.pick(mode.lower(), b"x", mode + b"x") if self.chance(0.1) else mode)
        if flag == b"R":  # never near a life that items have: a tick would decide
            return flag + self.pick(b"0", b"50", b"500", b"10000", b"-1")
        if flag in (b"N", b"T"):
            return flag + self.pick(b"0", b"100", b"1000", b"-1", b"%d" % self.absolute)
        if flag == b"O":
            return flag + self.pick(b"1", b"abc", b"o" * 31)  # longer: memcached acts, then refuses
        if flag == b"I":
            return flag
        return flag + (self.cas() if flag == b"C" else self.number(0))


class Binary(Generator):
    """Every opcode, with the right parts and with wrong ones."""

    # opcode -> length of extras, key, value
    SHAPES = {}
    for _name in ("get", "getq", "getk", "getkq", "delete", "deleteq"):
        SHAPES[_name] = (0, True, False)
    for _name in ("set", "setq", "add", "addq", "replace", "replaceq"):
        SHAPES[_name] = (8, True, True)
    for _name in ("append", "appendq", "prepend", "prependq"):
        SHAPES[_name] = (0, True, True)
    for _name in ("increment", "incrementq", "decrement", "decrementq"):
        SHAPES[_name] = (20, True, False)
    for _name in ("touch", "gat", "gatq", "gatk", "gatkq"):
        SHAPES[_name] = (4, True, False)
    for _name in ("noop", "version", "sasl_list"):
        SHAPES[_name] = (0, False, False)
    SHAPES["flush"] = SHAPES["flushq"] = (4, False, False)

    def next(self):
        if self.chance(0.02):
            return self.wrong()
        weights = [1 if n.startswith(("flush", "version", "sasl")) else 12 for n in self.SHAPES]
        name = self.random.choices(list(self.SHAPES), weights)[0]
        size, has_key, has_value = self.SHAPES[name]
        counts = name.startswith(("incr", "decr"))
        key = b"counter" if counts and self.chance(0.6) else self.key()
        value = self.value() if has_value else b""
        if has_value and self.chance(0.01):
            value = self.large_value()
        cas = self.random.randrange(1, 400) if self.chance(0.1) else 0
        extras = self.extras(size)
        if name.startswith("flush"):  # at once: see Text.flush; no extras are good too
            extras = self.pick(b"", bytes(4))
        data = frame(name, key if has_key else b"", extras, value, cas=cas,
                     opaque=self.random.randrange(1 << 32), status=self.pick(0, 0, 7))
        return Command(data, alone=counts or len(value) > 400 or self.chance(0.3))

    def extras(self, size):
        number = lambda width: int(self.number(0)) % (1 << 8 * width)
        expiry = lambda: self.pick(0, 0, 100, 100000, 2592001, self.absolute)
        if size == 8:
            return number(4).to_bytes(4, "big") + expiry().to_bytes(4, "big")
        if size == 20:
            # Only what exists is counted. A counter that memcached makes here ends in old memory.
            return number(8).to_bytes(8, "big") + number(8).to_bytes(8, "big") + b"\xff" * 4
        if size == 4:
            return expiry().to_bytes(4, "big")
        return b""

    def wrong(self):
        """A frame whose parts do not fit. memcached then answers and closes, or only answers."""
        kind = self.random.randrange(5)
        name = self.random.choice(list(self.SHAPES))
        if kind == 0:  # an opcode that nobody has
            data = frame(self.random.choice([0x1b, 0x1f, 0x25, 0x30, 0x3c, 0x7f, 0xff]), opaque=9)
        elif kind == 1:  # extras of a wrong length
            size = self.random.choice([s for s in (1, 2, 8, 20, 21) if s != self.SHAPES[name][0]])
            data = frame(name, b"k1", b"\x01" * size, opaque=9)
        elif kind == 2:  # no key where one must be
            name = self.random.choice([n for n in self.SHAPES if self.SHAPES[n][1]])
            data = frame(name, b"", b"\x00" * self.SHAPES[name][0], opaque=9)
        elif kind == 3:  # a key that is too long
            data = frame(name, b"K" * 251, b"\x00" * self.SHAPES[name][0], opaque=9)
        else:  # another magic
            data = frame("noop", magic=self.random.choice([0x00, 0x81, 0xff]))
        return Command(data, alone=True)


GENERATORS = {"text": Text, "meta": Meta, "binary": Binary}
assert all(name in OPCODES for name in Binary.SHAPES)
