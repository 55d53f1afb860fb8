"""Reads the transcripts in tests/wire and plays them to a server.

A transcript is a list of lines, each for one thing:

  === name          a scene: a new connection
  >>> text          is sent, with CR LF at the end
  >>b get key=k     a binary frame is sent
  <<< text          must come back next, with CR LF
  <<~ regex         a line that must match comes back next
  <<b get value=v   a binary frame must come back next
  +++ counter n     since the last sent line this counter of `stats` has moved by n
  !!! options -F            for the whole transcript: the server's command line
  !!! newer: why            memcached 1.6.18 does not have it: not played to memcached
  !!! memcached-drops: why  memcached itself cannot play this with all requests at once
  !!! gone key              goes on when this key has expired
  !!! closed                the server must close here, and say nothing before
  # text            says why

Within text, \\r \\n \\t \\\\ and \\x00 are bytes, {250*k} repeats, and a backslash at the end of
the line means that no CR LF follows, or after a regex that a bare LF does.
"""

import os
import random
import re
import unittest

from binary import REQUEST, RESPONSE, frame
from server import IS_MEMCACHED, PATIENCE_S, STILL, Server, read_stats, wait_for

WIRE_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "wire")


class Mismatch(AssertionError):
    """The server did not do what the transcript says."""


class Step:
    """One line of a transcript. kind: scene, send, expect, match, counter, gone, closed, drops."""

    def __init__(self, kind, number, data):
        self.kind = kind
        self.number = number
        self.data = data


def unescape(text):
    """{250*k} repeats; \\r \\n \\t \\\\ \\xHH are bytes."""
    text = re.sub(r"\{(\d+)\*([^}]+)\}", lambda m: m.group(2) * int(m.group(1)), text)
    simple = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(
        r"\\(x[0-9a-fA-F]{2}|.)",
        lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" and len(m[1]) == 3 else simple[m[1]],
        text,
    ).encode("latin-1")


def text_line(text):
    """The bytes of one line; a lone backslash at the end means: no CR LF."""
    bare = re.search(r"(?<!\\)(\\\\)*\\$", text)
    return unescape(text[:-1]) if bare else unescape(text) + b"\r\n"


def line_regex(text):
    end = rb"\n" if text.endswith("\\") else rb"\r\n"
    return re.compile(text.rstrip("\\").encode("latin-1") + end, re.S)


def binary_frame(text, magic):
    """get key=k opaque=7 ext=00000001 value="two words" keylen=3 ..."""
    name, _, fields = text.partition(" ")
    found = dict(re.findall(r'(\w+)=("[^"]*"|\S*)', fields))
    found = {k: v.strip('"') for k, v in found.items()}
    number = lambda key, default=0: int(found.pop(key), 0) if key in found else default
    made = frame(
        int(name, 0) if name.startswith("0x") else name,
        magic=number("magic", magic), opaque=number("opaque"), cas=number("cas"),
        datatype=number("type"), status=number("status"), key_len=number("keylen", None),
        extras_len=number("extlen", None), body_len=number("bodylen", None),
        key=unescape(found.pop("key", "")), extras=bytes.fromhex(found.pop("ext", "")),
        value=unescape(found.pop("value", "")),
    )
    if found:
        raise ValueError(f"unknown fields {sorted(found)}")
    return made


PARSERS = {
    "===": ("scene", str.strip),
    ">>>": ("send", text_line),
    ">>b": ("send", lambda text: binary_frame(text, REQUEST)),
    "<<<": ("expect", text_line),
    "<<b": ("expect", lambda text: binary_frame(text, RESPONSE)),
    "<<~": ("match", line_regex),
    "+++": ("counter", lambda text: (text.split()[0], int(text.split()[1]))),
}


def parse(path):
    """(options of the server, steps) of one transcript."""
    options, steps = [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            mark, text = line[:3], line[4:]
            if mark == "!!!":
                word, *rest = text.split()
                if word == "options":
                    options += rest
                elif word == "gone":
                    steps.append(Step("gone", number, rest[0]))
                elif word == "closed":
                    steps.append(Step("closed", number, None))
                elif word == "newer:":
                    steps.append(Step("newer", number, " ".join(rest)))
                elif word == "memcached-drops:":
                    steps.append(Step("drops", number, " ".join(rest)))
                else:
                    raise ValueError(f"{path}:{number}: what is {word}?")
            elif mark in PARSERS:
                kind, read = PARSERS[mark]
                steps.append(Step(kind, number, read(text)))
            else:
                raise ValueError(f"{path}:{number}: a line begins with one of {list(PARSERS)}")
    return options, steps


def whole(data):
    return [data]


def bytewise(data):
    """Every byte alone; the inside of a long value in larger pieces, to save minutes."""
    if len(data) <= 8192:
        return [data[i:i + 1] for i in range(len(data))]
    edge, inside = 2048, data[2048:-2048]
    chunks = [inside[i:i + 65536] for i in range(0, len(inside), 65536)]
    return bytewise(data[:edge]) + chunks + bytewise(data[-edge:])


def pieces_of(seed):
    """Cuts at places that the seed decides, about every 7 bytes; long data about every 5,000."""
    random_ = random.Random(seed)

    def cut(data):
        count = len(data) // 7 if len(data) < 8192 else len(data) // 5000
        places = sorted({0, len(data), *(random_.randrange(len(data)) for _ in range(count))})
        return [data[a:b] for a, b in zip(places, places[1:])]
    return cut


class Player:
    """Plays steps on connections of one server. cut(data) says in which pieces bytes are sent."""

    def __init__(self, server, path, cut, timeout=PATIENCE_S):
        self.timeout = timeout
        self.server = server
        self.name = os.path.basename(path)
        self.cut = cut
        self.watcher = server.connect()
        self.wire = None
        self.sent = b""  # what was sent last, for messages
        self.before = {}  # counters before it
        self.is_closed = False

    def fail(self, step, message):
        raise Mismatch(f"tests/wire/{self.name}:{step.number}: {message}\n"
                       f"  sent {self.sent[:300]!r}")

    def reading(self, step, read, *arguments):
        try:
            return read(*arguments)
        except AssertionError as silence:
            self.fail(step, str(silence))

    def play(self, steps):
        index = 0
        try:
            while index < len(steps):
                index += self.play_at(steps, index)
            self.end_scene(steps[-1])
        finally:
            self.watcher.close()
            if self.wire:
                self.wire.close()

    def play_at(self, steps, index):
        """Plays the step there, or the run of sends there; says how many steps that were."""
        step = steps[index]
        if step.kind == "send":
            run = index
            while run < len(steps) and steps[run].kind == "send":
                run += 1
            watched = run
            while watched < len(steps) and steps[watched].kind in ("expect", "match", "counter"):
                watched += 1
            if any(s.kind == "counter" for s in steps[run:watched]):
                self.before = read_stats(self.watcher)
            self.send(b"".join(s.data for s in steps[index:run]))
            return run - index
        getattr(self, "on_" + step.kind)(step)
        return 1

    def send(self, data):
        self.sent = data
        try:
            for piece in self.cut(data):
                self.wire.send(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may close in the middle; what it answered is still compared

    def on_scene(self, step):
        if self.wire:
            self.end_scene(step)
            self.wire.close()
        self.wire = self.server.connect(self.timeout)
        self.is_closed = False

    def on_expect(self, step):
        got = self.reading(step, self.wire.read, len(step.data))
        if got != step.data:
            got += bytes(self.wire.buffer)
            self.fail(step, f"\n  want {step.data[:300]!r}\n  got  {got[:300]!r}")

    def on_match(self, step):
        got = self.reading(step, self.wire.line)
        if not step.data.fullmatch(got):
            self.fail(step, f"\n  want {step.data.pattern!r}\n  got  {got[:300]!r}")

    def on_counter(self, step):
        name, delta = step.data
        now = read_stats(self.watcher)
        if name not in now:
            self.fail(step, f"stats has no {name}")
        moved = int(now[name]) - int(self.before[name])
        if moved != delta:
            self.fail(step, f"{name} moved by {moved}, want {delta}")

    def on_gone(self, step):
        if not wait_for(lambda: self.watcher.ask("get " + step.data, b"END\r\n") == b"END\r\n"):
            self.fail(step, f"{step.data} does not expire")
        # memcached's seconds are whole: what it stores in the second of a flush is flushed as well.
        second = read_stats(self.watcher)["time"]
        wait_for(lambda: read_stats(self.watcher)["time"] != second)

    def on_closed(self, step):
        if not self.reading(step, self.wire.closed):
            self.fail(step, f"the server says {bytes(self.wire.buffer)!r} instead of closing")
        self.is_closed = True

    def end_scene(self, step):
        """Nothing may be left over, and the connection still works."""
        if self.is_closed:
            return
        is_binary = self.sent[:1] == b"\x80"
        probe = frame("noop", opaque=0xfeed) if is_binary else b"md no-such-key Oend\r\n"
        answer = frame("noop", opaque=0xfeed, magic=RESPONSE) if is_binary else b"NF Oend\r\n"
        self.wire.send(probe)
        got = self.reading(step, self.wire.read, len(answer))
        if got != answer:
            self.fail(step, f"the scene before this line leaves {got!r}")


def sends_together(steps):
    """The same transcript with the requests of each scene sent at once, up to a wait or close.

    Counters count single exchanges, so they are left out here.
    """
    moved, sends, answers = [], [], []
    for step in steps:
        if step.kind == "send":
            sends.append(step)
        elif step.kind in ("expect", "match"):
            answers.append(step)
        elif step.kind != "counter":
            moved += sends + answers + [step]
            sends, answers = [], []
    return moved + sends + answers


def play(path, cut=whole, together=False):
    """Plays one transcript on a server of its own, so that CAS numbers begin at 1."""
    options, steps = parse(path)
    drops = [s.data for s in steps if s.kind == "drops"]
    if together and drops and IS_MEMCACHED:
        raise unittest.SkipTest("memcached: " + drops[0])
    newer = [s.data for s in steps if s.kind == "newer"]
    if newer and IS_MEMCACHED:
        raise unittest.SkipTest("memcached: " + newer[0])
    steps = [s for s in steps if s.kind not in ("drops", "newer")]
    if together:
        steps = sends_together(steps)
    with Server(*STILL, *options) as server:
        Player(server, path, cut).play(steps)
        server.check_alive()
