#!/usr/bin/python3
"""Clients that treat a server badly, each kind at a fixed rate, for the soak test of the server.

    abusers.py [tls:]HOST:PORT [--rate R] [--only KIND,...] [--without KIND,...] [--seed N] [--seconds S]
    abusers.py --list

Promises:  every kind has a fixed number of connections, and each connection starts a new action at a
           fixed interval, whatever the server does; an action that is still running makes the next
           one late, never more frequent. No key is one of kbfload's, which have no colon and more
           than 10 bytes, so that its answers can be checked meanwhile.
Requires:  SIGTERM or --seconds ends it; it then closes its connections and prints one JSON object:
           actions, late starts, and how the actions ended, by kind. Before that it prints "started"
           when SIGTERM ends it so, and "all have acted" when every kind has ended an action. Values that were read back and
           were neither absent nor the last ones written are counted as "wrong".
Costs:     about a tenth of a core at rate 1. Large payloads are made once.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import signal
import socket
import ssl
import struct
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from binary import OPCODES, frame  # noqa: E402
from certificates import client_hello, untrusting_context  # noqa: E402
from streams import GENERATORS  # noqa: E402

# An action that takes longer is given up; those that hold a connection on purpose end before.
ACTION_S_MAX = 120
BIG_BYTES = 900_000
BIG_KEYS = [b"abuse:big%d" % i for i in range(32)]
PAGE_KEYS = [b"abuse:page%d" % i for i in range(32)]
PAGE_BYTES = 3800
SMALL_KEYS = [b"abuse:small%d" % i for i in range(500)]
TINY_KEYS = [b"a%03d" % i for i in range(500)]
SET_EXTRAS = bytes(8)


class Closed(Exception):
    """The server has closed the connection, which is its right with clients such as these."""


class PlainClient:
    """One connection. Nothing here waits in the kernel; nothing is read unless asked for."""

    def __init__(self, abuse):
        self.abuse = abuse
        self.loop = asyncio.get_running_loop()
        self.socket = None
        self.buffer = bytearray()

    async def __aenter__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        # Small, so that what is not read stays the server's burden instead of the kernel's.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.abuse.receive_bytes)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self.loop.sock_connect(self.socket, self.abuse.address)
        except BaseException:
            self.socket.close()
            raise
        return self

    async def __aexit__(self, *_):
        self.socket.close()

    async def send(self, data):
        try:
            await self.loop.sock_sendall(self.socket, data)
        except (ConnectionResetError, BrokenPipeError):
            raise Closed from None

    async def send_split(self, data, pieces, pause=0.0):
        """The same bytes in up to `pieces` writes, cut at random places."""
        cuts = sorted(self.abuse.random.randrange(len(data) + 1) for _ in range(pieces - 1))
        for start, end in zip([0] + cuts, cuts + [len(data)]):
            if start < end:
                await self.send(data[start:end])
                await asyncio.sleep(pause)

    async def receive(self, size=1 << 16):
        try:
            data = await self.loop.sock_recv(self.socket, size)
        except (ConnectionResetError, BrokenPipeError):
            raise Closed from None
        if not data:
            raise Closed
        return data

    async def until(self, end):
        """Everything up to and with `end`."""
        start = 0
        while True:
            found = self.buffer.find(end, start)
            if found >= 0:
                data = bytes(self.buffer[:found + len(end)])
                del self.buffer[:found + len(end)]
                return data
            start = max(0, len(self.buffer) - len(end) + 1)
            self.buffer += await self.receive()

    async def exactly(self, size):
        while len(self.buffer) < size:
            self.buffer += await self.receive()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def discard_until(self, end):
        """The same as until() for replies of many megabytes: only the last bytes are kept."""
        tail = bytes(self.buffer[-len(end):])
        while not tail.endswith(end):
            tail = (tail + await self.receive(1 << 18))[-len(end):]
        self.buffer.clear()

    async def until_version(self):
        """Everything up to the reply to `version`, which ends a pipeline."""
        while b"VERSION " not in await self.until(b"\r\n"):
            pass

    async def ask(self, line, end=b"\r\n"):
        await self.send(line + b"\r\n")
        return await self.until(end)

    async def discard_for(self, seconds):
        """Reads whatever comes for a while; a close by the server ends it."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.receive()
        except (TimeoutError, Closed):
            pass

    async def wait_closed(self, seconds):
        """Waits without reading; ends early when the server resets the connection."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(1.0, max(0.0, end - time.monotonic())))
            if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise Closed
            state = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
            if state != 1:  # not TCP_ESTABLISHED: the server has hung up
                raise Closed

    def reset(self):
        """Closes with a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class TlsClient(PlainClient):
    """The same under TLS. What it never reads stays undecrypted in the server's socket buffers."""

    async def __aenter__(self):
        await super().__aenter__()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.abuse.tls.wrap_bio(self.incoming, self.outgoing)
        try:
            await self.carry_out(self.tls.do_handshake)
        except BaseException:
            self.socket.close()
            raise
        return self

    async def carry_out(self, step):
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await super().send(self.outgoing.read())
                self.incoming.write(await super().receive())
            except ssl.SSLError:
                raise Closed from None
            else:
                await super().send(self.outgoing.read())
                return result

    async def send(self, data):
        for start in range(0, len(data), 1 << 16):
            piece = data[start:start + (1 << 16)]
            await self.carry_out(lambda: self.tls.write(piece))

    async def receive(self, size=1 << 16):
        data = await self.carry_out(lambda: self.tls.read(size))
        if not data:
            raise Closed
        return data


def Client(abuse):  # noqa: N802: stands for either class
    return TlsClient(abuse) if abuse.tls else PlainClient(abuse)


Kind = collections.namedtuple("Kind", "name connections per_second action about")
KINDS = []


def kind(connections, per_second):
    """Registers an action; its rate is that of all its connections together."""
    def register(action):
        KINDS.append(Kind(action.__name__, connections, per_second, action,
                          action.__doc__.strip().splitlines()[0]))
        return action
    return register


class Abuse:
    """What all actions share: the address, randomness, payloads and what has been counted."""

    def __init__(self, address, tls, seed):
        self.address = address
        self.tls = untrusting_context() if tls else None
        self.seed = seed
        self.random = random.Random(seed)
        self.counts = collections.defaultdict(collections.Counter)
        self.noise = self.random.randbytes(1 << 20)
        self.unsure = set()
        self.turn = collections.Counter()
        self.receive_bytes = 4096
        self.hello = client_hello(untrusting_context())
        self.colliding = None
        # Short keys, so that 200,000 of them fit in a line of 1 MiB; the third line is longer.
        self.huge = [b"get " + b" ".join(keys) + b"\r\n" for keys in (
            TINY_KEYS * 400, [b"z%03d" % (i % 1000) for i in range(200_000)], SMALL_KEYS * 400)]

    def next(self, name):
        self.turn[name] += 1
        return self.turn[name]

    def value(self, key, version, size):
        """Bytes that follow from the key, the version and the size."""
        head = b"%s %d %d " % (key, version, size)
        start = (version * 7919) % 1000
        return (head + self.noise[start:start + size])[:size]


async def store(client, keys, size, abuse):
    """Stores one value under many keys in one go."""
    value = abuse.noise[:size]
    for key in keys:
        await client.send(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, size, value))
    await client.ask(b"mn")


# ---- clients that do not read --------------------------------------------------------------------


@kind(60, 3)
async def unread_values(abuse):
    """Ask for 32 values of 900 KB and do not read, while replace_values replaces them."""
    async with Client(abuse) as client:
        await client.send(b"get " + b" ".join(BIG_KEYS) + b"\r\n")
        await client.wait_closed(20)


@kind(20, 2)
async def half_handshake(abuse):
    """Begin a TLS handshake, which means nothing to a plain port, and say no more."""
    async with PlainClient(abuse) as client:
        await client.send(abuse.hello[:abuse.random.randrange(1, len(abuse.hello) + 1)])
        await client.wait_closed(5)


@kind(2, 8)
async def replace_values(abuse):
    """Replace the values of 900 KB that unread_values asks for."""
    key = BIG_KEYS[abuse.next("big") % len(BIG_KEYS)]
    async with Client(abuse) as client:
        await client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key, BIG_BYTES, abuse.noise[:BIG_BYTES]))
        await client.until(b"\r\n")


@kind(20, 1)
async def unread_dump(abuse):
    """Ask for `stats detail dump` twice and do not read."""
    async with Client(abuse) as client:
        await client.send(b"stats detail dump\r\nstats detail dump\r\n")
        await client.wait_closed(20)


@kind(10, 0.5)
async def unread_pipeline(abuse):
    """Send gets and never read, up to 4 MB of them or until the server takes no more."""
    request = b"get " + b" ".join([PAGE_KEYS[0]] * 200) + b"\r\n"
    async with Client(abuse) as client:
        try:
            async with asyncio.timeout(10):
                await client.send(request * (4_000_000 // len(request)))
        except TimeoutError:
            pass
        await client.wait_closed(10)


@kind(10, 0.5)
async def slow_reader(abuse):
    """Ask for 7 MB and read 2 KB every 200 ms."""
    async with Client(abuse) as client:
        await client.send(b"get " + b" ".join(BIG_KEYS[:8]) + b"\r\n")
        for _ in range(100):
            await client.receive(2048)
            await asyncio.sleep(0.2)


@kind(4, 2)
async def killed_reply(abuse):
    """Close, or reset, in the middle of a large reply."""
    async with Client(abuse) as client:
        await client.send(b"get " + b" ".join(BIG_KEYS[:4]) + b"\r\nstats detail dump\r\n")
        if abuse.random.random() < 0.8:
            await client.receive(abuse.random.randrange(1, 1 << 16))
        if abuse.random.random() < 0.5:
            client.reset()


# ---- clients that do not finish ------------------------------------------------------------------


@kind(60, 1)
async def unfinished_set(abuse):
    """Begin a set of 1 MB in one of the protocols, send a part of it, and wait."""
    key = b"abuse:half%d" % abuse.next("half")
    value = abuse.noise[:1_000_000]
    whole = (b"set %s 0 0 1000000\r\n%s\r\n" % (key, value),
             b"ms %s 1000000\r\n%s\r\n" % (key, value),
             frame("set", key, SET_EXTRAS, value))[abuse.turn["half"] % 3]
    async with Client(abuse) as client:
        await client.send(whole[:abuse.random.choice((100, 300_000, 999_000, len(whole) - 1))])
        await client.wait_closed(abuse.random.choice((5, 20, 75)))


@kind(50, 1)
async def trickle(abuse):
    """Send a request byte by byte, with up to 20 s between two bytes."""
    request = abuse.random.choice((
        b"get abuse:small1\r\n", b"mg abuse:small1 v\r\n", frame("get", b"abuse:small1"),
        b"set abuse:trickle 0 0 500000\r\n" + bytes(1000), b"get " + SMALL_KEYS[0] * 100))
    pause = abuse.random.choice((0.05, 0.5, 3, 20))
    end = time.monotonic() + 90
    async with Client(abuse) as client:
        for i in range(len(request)):
            if time.monotonic() > end:
                break
            await client.send(request[i:i + 1])
            await asyncio.sleep(pause)


# ---- clients that ask for much at once -----------------------------------------------------------


@kind(2, 0.1)
async def huge_get(abuse):
    """One get line of 200,000 keys: all hits, all misses, or of 3 MB."""
    request = abuse.huge[abuse.next("huge") % 3]
    async with Client(abuse) as client:
        await store(client, TINY_KEYS + SMALL_KEYS, 30, abuse)
        await client.send(request)
        await client.discard_until(b"END\r\n")


@kind(4, 2)
async def mixed_pipeline(abuse):
    """Pipelines of 60: gets of 8 to 32 values of 3.8 KB, mixed with touch and mn."""
    parts = []
    for _ in range(60):
        keys = abuse.random.sample(PAGE_KEYS, abuse.random.randrange(8, 33))
        parts.append(abuse.random.choice((
            b"get " + b" ".join(keys), b"touch %s 0" % keys[0], b"mn", b"mg %s v" % keys[0])))
    async with Client(abuse) as client:
        await store(client, PAGE_KEYS, PAGE_BYTES, abuse)
        await client.send_split(b"\r\n".join(parts) + b"\r\nversion\r\n", abuse.random.choice((1, 3)))
        await client.until_version()


@kind(2, 0.5)
async def long_key_pipeline(abuse):
    """The message that first overran an output: gets, 18 mn, and gets of 4,095-byte values."""
    keys = [(b"abuse:long%02d" % i).ljust(250, b"x") for i in range(32)]
    get32 = b"get " + b" ".join(keys) + b"\r\n"
    async with Client(abuse) as client:
        await store(client, keys, 4095, abuse)
        await client.send(b"get " + b" ".join(keys[:14]) + b"\r\n" + b"mn\r\n" * 18 + get32 * 2 +
                          b"version\r\n")
        await client.until_version()


@kind(4, 20)
async def sizes(abuse):
    """Store 1 B to 1 MB under keys of its own, in all protocols, and check what is read back."""
    slot = abuse.next("sizes")
    key = b"abuse:size%d" % (slot % 997)
    # A set that was cut off may still be carried out, so that its key can no longer be checked.
    if key in abuse.unsure:
        return
    abuse.unsure.add(key)
    size = int(2 ** abuse.random.uniform(0, 19.9))
    value = abuse.value(key, slot, size)
    async with Client(abuse) as client:
        form = slot % 3
        if form == 0:
            await client.send_split(b"set %s 0 0 %d\r\n%s\r\n" % (key, size, value), 3)
            stored = await client.until(b"\r\n") == b"STORED\r\n"
        elif form == 1:
            await client.send_split(b"ms %s %d\r\n%s\r\n" % (key, size, value), 3)
            stored = await client.until(b"\r\n") == b"HD\r\n"
        else:
            await client.send_split(frame("set", key, SET_EXTRAS, value), 3)
            stored = (await client.exactly(24))[6:8] == b"\x00\x00"
    async with Client(abuse) as client:
        head = await client.ask(b"mg %s v" % key)
        if head.startswith(b"VA "):
            found = (await client.exactly(int(head.split()[1]) + 2))[:-2]
            if stored and found != value:
                abuse.counts["sizes"]["wrong"] += 1
                print(f"abusers: {key} holds {found[:60]!r}, not {value[:60]!r}", file=sys.stderr)
        elif head != b"EN\r\n":
            abuse.counts["sizes"]["wrong"] += 1
            print(f"abusers: mg {key} is answered with {head[:200]!r}", file=sys.stderr)
    abuse.unsure.discard(key)


# ---- clients that come and go --------------------------------------------------------------------


@kind(2, 2)
async def storm(abuse):
    """Open 60 connections at once; close them: in order, by reset, or after a first command."""
    async def one():
        async with Client(abuse) as client:
            choice = abuse.random.randrange(4)
            if choice == 1:
                await client.send(b"get abuse:small1\r\n")
            elif choice == 2:
                await client.ask(b"version")
            elif choice == 3:
                client.reset()
    await asyncio.gather(*(one() for _ in range(60)))


@kind(4, 4)
async def half_closed(abuse):
    """Send requests, close the sending half, and read everything up to the end."""
    async with Client(abuse) as client:
        await client.send(b"mg %s v\r\n" % PAGE_KEYS[1] * 50 + b"set abuse:cut 0 0 100\r\nabc")
        client.socket.shutdown(socket.SHUT_WR)
        try:
            while True:
                await client.receive()
        except Closed:
            pass


# ---- wrong and random bytes ----------------------------------------------------------------------


@kind(4, 10)
async def garbage(abuse):
    """Random bytes; some begin like a request of one of the protocols."""
    start = abuse.random.choice((b"", b"\x80", b"get ", b"set a 0 0 ", b"mg ", b"ms x ", b"stats "))
    noise = abuse.noise
    at = abuse.random.randrange(len(noise) - 5000)
    async with Client(abuse) as client:
        await client.send_split(start + noise[at:at + abuse.random.randrange(1, 5000)], 4)
        await client.discard_for(0.2)


@kind(6, 3)
async def random_commands(abuse):
    """A hundred random commands, right and wrong, of one protocol, cut at random places."""
    generator = GENERATORS[abuse.random.choice(list(GENERATORS))](abuse.random)
    commands = [generator.next().data for _ in range(100)]
    # flush_all has a kind of its own, at its own rate.
    flushes = (b"flush_all", bytes((0x80, OPCODES["flush"])), bytes((0x80, OPCODES["flushq"])))
    data = b"".join(c for c in commands if not c.lstrip().startswith(flushes))
    async with Client(abuse) as client:
        reader = asyncio.ensure_future(client.discard_for(5))
        try:
            await client.send_split(data, abuse.random.choice((1, 10, 40)), 0.01)
            client.socket.shutdown(socket.SHUT_WR)
            await reader
        except OSError:
            raise Closed from None
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


# ---- commands that concern the whole server ------------------------------------------------------


@kind(1, 0.1)
async def verbosity(abuse):
    """`verbosity 2` for two seconds, or a huge number; then 0 again."""
    level = (b"2", b"2", b"4294967295", b"3")[abuse.next("verbosity") % 4]
    async with Client(abuse) as client:
        await client.ask(b"verbosity " + level)
        for _ in range(20):
            await client.send(b"get abuse:small1 abuse:small2\r\nfoo\r\n" * 20)
            await client.discard_for(0.1)
        await client.ask(b"verbosity 0")


@kind(2, 4)
async def many_prefixes(abuse):
    """Fifty keys with prefixes that nobody has used."""
    first = abuse.next("prefix") * 50
    keys = [b"p%d-%d:x" % (abuse.seed, i) for i in range(first, first + 50)]
    async with Client(abuse) as client:
        await client.send(b"".join(b"set %s 0 0 1 noreply\r\nx\r\n" % k for k in keys))
        await client.ask(b"get " + b" ".join(keys), b"END\r\n")


@kind(2, 2)
async def colliding_prefixes(abuse):
    """A hundred keys whose prefixes have the same std::hash."""
    if abuse.colliding is None:
        abuse.colliding = colliding_words(2000)
    first = abuse.next("colliding") * 100 % len(abuse.colliding)
    async with Client(abuse) as client:
        await client.send(b"get " + b":x ".join(abuse.colliding[first:first + 100]) + b":x\r\n")
        await client.until(b"END\r\n")


def colliding_words(count):
    """Words of 16 bytes with equal std::hash in libstdc++ (MurmurHash2, 64 bits, fixed seed).

    The hash takes 8 bytes at a time and every step can be inverted: for any first half there is a
    second half that leads to the same state.
    """
    mask, multiplier = (1 << 64) - 1, 0xc6a4a7935bd1e995
    inverse = pow(multiplier, -1, 1 << 64)

    def mix(block):
        product = block * multiplier & mask
        return (product ^ product >> 47) * multiplier & mask

    def unmix(mixed):
        product = mixed * inverse & mask
        return (product ^ product >> 47) * inverse & mask

    state = 0xc70f6907 ^ (16 * multiplier & mask)
    target = 0x0123456789abcdef
    words, number = [], 0
    while len(words) < count:
        number += 1
        first = b"%08d" % number
        middle = (state ^ mix(int.from_bytes(first, "little"))) * multiplier & mask
        second = unmix(middle ^ target).to_bytes(8, "little")
        if all(byte > 32 and byte not in (127, 58) for byte in second):
            words.append(first + second)
    return words


@kind(1, 0.02)
async def flushes(abuse):
    """Five times flush_all, in all forms, one of them for later."""
    async with Client(abuse) as client:
        for command in (b"flush_all", b"flush_all 1", b"flush_all 0", b"flush_all noreply\r\nmn"):
            await client.ask(command)
    async with Client(abuse) as client:
        await client.send(frame("flush"))
        await client.exactly(24)


@kind(1, 1)
async def memory_limit(abuse):
    """`cache_memlimit` up and down; 64 comes last."""
    async with Client(abuse) as client:
        for megabytes in (b"1", b"1000000", b"0", b"-1", b"48", b"64"):
            await client.ask(b"cache_memlimit " + megabytes)


@kind(3, 3)
async def statistics(abuse):
    """Every kind of stats one after the other, in text and binary."""
    kinds = (b"", b"settings", b"items", b"slabs", b"sizes", b"conns", b"kbf", b"errors",
             b"detail on", b"nonsense")
    turn = abuse.next("stats")
    async with Client(abuse) as client:
        if turn % 2:
            for sub in kinds:
                await client.send((b"stats " + sub).strip() + b"\r\n")
                while not (await client.until(b"\r\n")).startswith((b"END", b"OK", b"RESET", b"ERROR",
                                                                   b"CLIENT", b"SERVER", b"DISABLED")):
                    pass
        else:
            await client.send(b"".join(frame("stat", sub) for sub in kinds) + frame("noop"))
            await client.discard_for(0.3)
        if turn % 20 == 0:
            await client.send(b"stats detail off\r\nstats detail on\r\n")
        if turn % 100 == 0:
            await client.send(b"stats reset\r\n")


# ---- running -------------------------------------------------------------------------------------


async def keep_on(abuse, which, rate, offset):
    """One connection of a kind: starts its action again and again at the fixed interval."""
    interval = which.connections / (which.per_second * rate)
    counts = abuse.counts[which.name]
    due = time.monotonic() + offset * min(interval, 20)
    while True:
        delay = due - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        elif delay < -interval:
            counts["late"] += 1
            due = time.monotonic()
        due += interval
        counts["actions"] += 1
        try:
            async with asyncio.timeout(ACTION_S_MAX):
                await which.action(abuse)
            counts["completed"] += 1
        except Closed:
            counts["closed"] += 1
        except TimeoutError:
            counts["timed_out"] += 1
        except (ConnectionError, OSError):
            counts["refused"] += 1


async def tell_when_all_have_acted(abuse, kinds):
    ends = ("completed", "closed", "timed_out", "refused")
    while not all(any(abuse.counts[which.name][end] for end in ends) for which in kinds):
        await asyncio.sleep(0.1)
    print("all have acted", flush=True)
    await asyncio.Event().wait()


async def abuse_server(abuse, kinds, rate, seconds):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("started", flush=True)
    tasks = [asyncio.ensure_future(keep_on(abuse, which, rate, (i + 1) / which.connections))
             for which in kinds for i in range(which.connections)]
    tasks.append(asyncio.ensure_future(tell_when_all_have_acted(abuse, kinds)))
    stopping = asyncio.ensure_future(stop.wait())
    # A mistake in an action ends everything, so that it is seen.
    done, _ = await asyncio.wait([stopping, *tasks], timeout=seconds,
                                 return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, *tasks):
        task.cancel()
    await asyncio.gather(stopping, *tasks, return_exceptions=True)
    for task in done:
        if task is not stopping and not task.cancelled():
            task.result()


def chosen(only="", without=""):
    """The kinds to run; both lists are names with commas between them."""
    names = {which.name for which in KINDS}
    for name in filter(None, only.split(",") + without.split(",")):
        if name not in names:
            raise SystemExit(f"abusers: there is no kind {name}; see abusers.py --list")
    return [which for which in KINDS
            if (not only or which.name in only.split(",")) and which.name not in without.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", nargs="?")
    parser.add_argument("--list", action="store_true", help="names of the kinds, and what they do")
    parser.add_argument("--rate", type=float, default=1, help="factor for all rates")
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=None)
    arguments = parser.parse_args()
    if arguments.list:
        for which in KINDS:
            print(f"{which.name:20} {which.connections:3} connections {which.per_second:6}/s  "
                  f"{which.about}")
        return
    if not arguments.server:
        parser.error("give the server as HOST:PORT or tls:HOST:PORT, or --list")
    host, port = arguments.server.removeprefix("tls:").rsplit(":", 1)
    abuse = Abuse((host, int(port)), arguments.server.startswith("tls:"), arguments.seed)
    kinds = chosen(arguments.only, arguments.without)
    asyncio.run(abuse_server(abuse, kinds, arguments.rate, arguments.seconds))
    json.dump({which.name: abuse.counts[which.name] for which in kinds}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
