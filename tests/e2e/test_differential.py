"""The same random commands to Debian's memcached and to the server under test: the same answers.

Seed and size: KBF_SEED, KBF_DIFF_COMMANDS. What may differ is listed in one place, `allowed`, and
nothing else may: not a byte, not a CAS number, not whether the connection closes.
"""

import os
import random
import re
import select
import time
import unittest

from binary import HEADER, OPCODES, RESPONSE, frame
from server import MEMCACHED, PATIENCE_S, SOAK, STILL, Server, Wire
from streams import GENERATORS, Command

SEED = int(os.environ.get("KBF_SEED") or (time.time_ns() % 1000000 if SOAK else 1))
COMMANDS = int(os.environ.get("KBF_DIFF_COMMANDS") or (400000 if SOAK else 20000))
# So much memory that nothing leaves the exact front, or memcached. One thread, because another one
# of memcached's may still hold the item whose answer we have, and then counting takes a new item.
OPTIONS = ("-m", "1024", "-t", "1", *STILL)

# Counters that the whole stream must have moved alike. Not here: cmd_set and cmd_flush, which
# memcached also counts for requests that it then finds malformed, and delete_misses and cas_badval,
# which with a wrong CAS depend on the protocol there.
COUNTERS = (
    "cmd_get cmd_touch get_hits get_misses delete_hits incr_misses incr_hits decr_misses decr_hits "
    "cas_misses cas_hits touch_hits touch_misses store_too_large store_no_memory"
).split()


def allowed(theirs, ours):
    """True when two different lines of text may differ.

    - ME: cls and size are about memory layout. la is when memcached last moved the item.
    - t and exp, seconds left, may be a tick apart. A t that has become negative is a large
      number in memcached. l, seconds since the last access, memcached refreshes once a minute.
    """
    a, b = theirs.split(b" "), ours.split(b" ")
    if len(a) != len(b) or a[0] != b[0] or a[0] not in (b"ME", b"HD", b"VA"):
        return False
    return all(x == y or allowed_token(x, y) for x, y in zip(a, b))


def allowed_token(theirs, ours):
    shape = re.compile(rb"(t|l|exp=|la=|cls=|size=)(-?\d+)")
    a, b = shape.fullmatch(theirs), shape.fullmatch(ours)
    if not a or not b or a[1] != b[1]:
        return False
    if a[1] in (b"l", b"la=", b"cls=", b"size="):
        return True
    return abs(int(a[2]) - int(b[2])) <= 3 or int(a[2]) >= 1 << 31


def difference(protocol, theirs, ours):
    """None when two answers are equal as far as they must be, else where they first differ."""
    if theirs == ours:
        return None
    if protocol == "binary":
        a, b = theirs, ours
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return f"from byte {at}: {a[at:at + 80]!r}\n  and {b[at:at + 80]!r}"
    a, b = theirs.split(b"\r\n"), ours.split(b"\r\n")
    for number, (x, y) in enumerate(zip(a, b)):
        if x != y and not allowed(x, y):
            return f"line {number}: {x[:200]!r}\n  and {y[:200]!r}"
    return None if len(a) == len(b) else f"{len(a)} and {len(b)} lines"


class Twins:
    """Two connections of one protocol that are sent the same and must answer the same."""

    def __init__(self, protocol, theirs, ours, meddle=None):
        self.protocol = protocol
        self.addresses = (theirs.address, ours.address)
        self.meddle = meddle or (lambda answer: answer)
        self.count = 0
        self.wires = None

    def close(self):
        for wire in self.wires or ():
            wire.close()
        self.wires = None

    def end_mark(self):
        """A request whose answer is unique: (what to send, how the answers then end)."""
        self.count += 1
        if self.protocol == "binary":
            return (frame("noop", opaque=0xf0000000 + self.count),
                    frame("noop", opaque=0xf0000000 + self.count, magic=RESPONSE))
        return b"md no-such-key O%d\r\n" % self.count, b"NF O%d\r\n" % self.count

    def send(self, data):
        """Sends to both while reading, for a large request may meet large answers."""
        for index, wire in enumerate(self.wires):
            view = memoryview(data)
            while view and not self.ended[index]:
                readable, writable, _ = select.select([wire.socket], [wire.socket], [], PATIENCE_S)
                if readable:
                    self.ended[index] = not wire.fill()
                if writable and not self.ended[index]:
                    try:
                        view = view[wire.socket.send(view[:1 << 16]):]
                    except (BrokenPipeError, ConnectionResetError):
                        view = view[:0]

    def ask(self, data):
        """Both answers to `data`, and whether both connections closed on it."""
        if self.wires is None:
            self.wires = tuple(Wire(address) for address in self.addresses)
            if self.protocol == "binary":
                data = frame("noop") + data  # the first byte decides which protocol is spoken
        self.ended = [False, False]
        question, end = self.end_mark()
        self.send(data + question)
        deadline = time.monotonic() + PATIENCE_S
        while not all(e or w.buffer.endswith(end) for e, w in zip(self.ended, self.wires)):
            waiting = {w.socket: i for i, w in enumerate(self.wires) if not self.ended[i]}
            ready, _, _ = select.select(list(waiting), [], [], 0.05)
            for sock in ready:
                self.ended[waiting[sock]] = not self.wires[waiting[sock]].fill()
            if not ready:
                # A store may have taken the question for data: ask both once more.
                if time.monotonic() > deadline:
                    break
                question, end = self.end_mark()
                self.send(question)
        theirs, ours = (wire.take(len(wire.buffer)) for wire in self.wires)
        if any(self.ended):
            self.close()
        return theirs, self.meddle(ours), tuple(self.ended)


class Differs(AssertionError):
    """The two servers do not answer alike."""


class Stream:
    """Plays random commands to two servers. `played` is everything, as (protocol, batch)."""

    def __init__(self, theirs, ours, seed, meddle=None):
        self.random = random.Random(seed)
        self.seed = seed
        self.generators = {name: make(self.random) for name, make in GENERATORS.items()}
        self.twins = {name: Twins(name, theirs, ours, meddle) for name in GENERATORS}
        self.played = []
        self.done = 0

    def close(self):
        for twins in self.twins.values():
            twins.close()

    def play(self, commands):
        while self.done < commands:
            protocol = self.random.choices(list(GENERATORS), (4, 4, 3))[0]
            self.play_batch(protocol, self.batch(protocol))

    def batch(self, protocol):
        """One command, or several that go in one packet."""
        generate = self.generators[protocol].next
        batch = [generate()]
        while not batch[-1].alone and len(batch) < 30:
            command = generate()
            if command.alone:
                break
            batch.append(command)
        return batch

    def play_batch(self, protocol, batch):
        data = b"".join(command.data for command in batch)
        self.done += len(batch)
        self.played.append((protocol, batch))
        try:
            theirs, ours, ended = self.twins[protocol].ask(data)
        except OSError as error:
            raise Differs(self.report(protocol, batch, b"", b"", f"a server is gone: {error}"))
        found = difference(protocol, theirs, ours)
        if found is None and ended[0] != ended[1]:
            found = f"memcached {'closes' if ended[0] else 'stays'}, the other does not"
        if found is not None:
            raise Differs(self.report(protocol, batch, theirs, ours, found))

    def report(self, protocol, batch, theirs, ours, found):
        short = lambda data: repr(data if len(data) < 600 else data[:300] + b"..." + data[-200:])
        before = [(p, c.data) for p, b in self.played[-9:-1] for c in b][-8:]
        return "\n".join([
            f"seed {self.seed}, after {self.done} commands, {protocol}: {found}",
            "before:", *(f"  {p:6} {short(d)}" for p, d in before),
            "sent:", *(f"  {short(command.data)}" for command in batch),
            f"memcached: {short(theirs)}", f"ours:      {short(ours)}",
        ])


def still_differs(played):
    """Whether these batches, sent to two new servers, show a difference; its report if so."""
    with Server(*OPTIONS, binary=MEMCACHED) as theirs, Server(*OPTIONS) as ours:
        stream = Stream(theirs, ours, SEED)
        try:
            for protocol, batch in played:
                stream.play_batch(protocol, batch)
            return None
        except Differs as found:
            return str(found)
        finally:
            stream.close()
            for server in (theirs, ours):
                server.exit_codes = (0, -9)
                server.kill()  # memcached takes a second to stop


def shrunk(played, report, trials=300):
    """The report of as few single commands as still show a difference."""
    played = [(protocol, [command]) for protocol, batch in played for command in batch]
    step = len(played)
    while step >= 1 and trials > 0:
        at = 0
        while at < len(played) and trials > 0:
            fewer = played[:at] + played[at + step:]
            found = still_differs(fewer) if fewer else None
            trials -= 1
            if found:
                played, report = fewer, found
            else:
                at += step
        step //= 2
    return report


@unittest.skipUnless(os.path.exists(MEMCACHED), "memcached is not installed")
class Differential(unittest.TestCase):
    def test_the_same_commands_get_the_same_answers(self):
        print(f"differential test: KBF_SEED={SEED} KBF_DIFF_COMMANDS={COMMANDS}", flush=True)
        with Server(*OPTIONS, binary=MEMCACHED) as theirs, Server(*OPTIONS) as ours:
            stream = Stream(theirs, ours, SEED)
            try:
                stream.play(COMMANDS)
            except Differs as found:
                self.fail(f"{found}\nThe same in few commands:\n"
                          f"{shrunk(stream.played, str(found))}")
            finally:
                stream.close()
            ours.check_alive()
            counted = {s: {n: s.stats().get(n) for n in COUNTERS} for s in (theirs, ours)}
            # check_alive has stored, read and deleted one item.
            for name in ("cmd_get", "get_hits", "delete_hits"):
                counted[ours][name] = str(int(counted[ours][name]) - 1)
            unequal = {name: (counted[theirs][name], counted[ours][name]) for name in COUNTERS
                       if counted[theirs][name] != counted[ours][name]}
            self.assertFalse(unequal, f"counters (memcached, ours), seed {SEED}")


@unittest.skipUnless(os.path.exists(MEMCACHED), "memcached is not installed")
class TheComparisonItself(unittest.TestCase):
    """A comparison that finds nothing would make the test above worthless."""

    def test_which_replies_count_as_equal(self):
        equal = [
            ("text", b"STORED\r\n", b"STORED\r\n"),
            ("meta", b"HD t100 k1\r\n", b"HD t99 k1\r\n"),
            ("meta", b"VA 1 l5\r\nx\r\n", b"VA 1 l0\r\nx\r\n"),
            ("meta", b"ME k exp=-1 la=3 cas=1 fetch=no cls=1 size=65\r\n",
             b"ME k exp=-1 la=0 cas=1 fetch=no cls=0 size=9\r\n"),
        ]
        different = [
            ("text", b"STORED\r\n", b"NOT_STORED\r\n"),
            ("text", b"STORED\r\n", b""),
            ("text", b"STORED\r\n", b"STORED\r\nSTORED\r\n"),
            ("text", b"VALUE k 0 1 7\r\nx\r\nEND\r\n", b"VALUE k 0 1 8\r\nx\r\nEND\r\n"),
            ("meta", b"HD t100\r\n", b"HD t90\r\n"),
            ("meta", b"HD t100\r\n", b"HD t-1\r\n"),
            ("meta", b"HD c5\r\n", b"HD c6\r\n"),
            ("meta", b"ME k exp=-1 la=3 cas=1 fetch=no cls=1 size=65\r\n",
             b"ME k exp=-1 la=0 cas=2 fetch=no cls=0 size=9\r\n"),
            ("binary", frame("get", magic=RESPONSE, cas=1), frame("get", magic=RESPONSE, cas=2)),
            ("binary", frame("noop", magic=RESPONSE), b""),
        ]
        for protocol, theirs, ours in equal:
            self.assertIsNone(difference(protocol, theirs, ours), theirs)
        for protocol, theirs, ours in different:
            self.assertIsNotNone(difference(protocol, theirs, ours), theirs)

    def test_a_single_different_reply_is_found(self):
        changes = {"text": (b"TOUCHED", b"TOUCHES"), "meta": (b"VA 2", b"VA 3"),
                   "binary": (b"Not found", b"Not fount")}
        with Server(*OPTIONS, binary=MEMCACHED) as one, \
                Server(*OPTIONS, binary=MEMCACHED) as other:
            for protocol, (old, new) in changes.items():
                meddled = Stream(one, other, 5, meddle=lambda data: data.replace(old, new))
                with self.assertRaises(Differs) as caught:
                    meddled.play(2000)
                meddled.close()
                self.assertIn("seed 5", str(caught.exception))
            # And without the change, both servers reply alike.
            for server in (one, other):
                with server.connect() as wire:
                    wire.ask("flush_all")

    def test_a_store_whose_value_swallows_the_next_request_does_not_hang(self):
        with Server(*OPTIONS, binary=MEMCACHED) as one, \
                Server(*OPTIONS, binary=MEMCACHED) as other:
            stream = Stream(one, other, 6)
            stream.play_batch("text", [Command(b"set k 0 0 50\r\nshort\r\n", True)])
            stream.play_batch("text", [Command(b"get k\r\n", True)])
            stream.close()


if __name__ == "__main__":
    unittest.main()
