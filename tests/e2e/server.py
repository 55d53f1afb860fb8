"""A real server for a test: started on a free port or socket, always stopped, its crash reported.

Promises:  `with Server("-m", "64") as server:` gives a server that accepts connections; leaving the
           block stops it with SIGTERM and fails the test when it had died, does not stop, or does
           not exit with 0, with what it wrote to stderr.
Requires:  KBF_SERVER names the binary, or BUILD the directory of kbfcached (default build). The
           command line is memcached's, so that the same tests run on Debian's memcached and say
           what it does.
Settings:  KBF_SANITIZER set: bounds on memory are not tested. KBF_SOAK set: larger sizes.
"""

import ctypes
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(
    os.environ.get("KBF_SERVER")
    or os.path.join(ROOT, os.environ.get("BUILD", "build"), "kbfcached")
)
MEMCACHED = shutil.which("memcached") or "/usr/bin/memcached"
IS_MEMCACHED = os.path.basename(BINARY).startswith("memcached")
SANITIZER = bool(os.environ.get("KBF_SANITIZER"))
SOAK = bool(os.environ.get("KBF_SOAK"))
# More options for every server under test.
OPTIONS = os.environ.get("KBF_OPTIONS", "").split()

# What keeps memcached from moving items about by itself. Its crawler and maintainer hold items for
# moments, and then incr and decr make a new item where they otherwise change the old one in place.
STILL = ("-o", "no_lru_maintainer,no_lru_crawler")

# Long enough for a sanitizer build on a busy machine; a limit for hangs, never a measurement.
PATIENCE_S = 60


class ServerError(AssertionError):
    """The server did something that no test may allow: it died, hung or did not start."""


def die_with_parent():
    """In the child: a killed test run leaves no servers behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_port():
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def raise_file_limit(wanted):
    """Raises this process's limit of open files (children inherit it); says what is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
                return wanted
            except (ValueError, OSError):
                pass
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(target, soft), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def wait_for(holds):
    """Until it holds; False when it does not within the patience of these tests."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.01)
    return False


class Wire:
    """One raw connection. All reads have a time limit, so that a silent server fails a test.

    receive_buffer: bytes that the kernel may keep for this client; small makes a slow reader.
    """

    def __init__(self, address, timeout=PATIENCE_S, receive_buffer=None):
        family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.connect(address)
            if family == socket.AF_INET:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.socket.close()
            raise
        self.buffer = bytearray()

    def connect(self, address):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.socket.connect(address)
            except BlockingIOError:  # a unix socket whose backlog is full for the moment
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def fill(self):
        """Takes what arrives next into the buffer; False when the server has closed."""
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            return False
        except socket.timeout:
            raise AssertionError(f"no answer; so far: {bytes(self.buffer[-400:])!r}") from None
        self.buffer += data
        return bool(data)

    def take(self, size):
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def read(self, size):
        """Exactly `size` bytes, or fewer when the server closes before."""
        while len(self.buffer) < size and self.fill():
            pass
        return self.take(size)

    def until(self, end):
        """Everything up to and with the bytes `end`, or up to where the server closes."""
        start = 0
        while True:
            found = self.buffer.find(end, start)
            if found >= 0:
                return self.take(found + len(end))
            start = max(0, len(self.buffer) - len(end) + 1)
            if not self.fill():
                return self.take(len(self.buffer))

    def line(self):
        return self.until(b"\n")

    def rest(self):
        """Everything until the server closes."""
        while self.fill():
            pass
        return self.take(len(self.buffer))

    def offer(self, data):
        """Sends what the server takes without waiting: bytes sent, or None when it has closed."""
        patience = self.socket.gettimeout()
        self.socket.setblocking(False)
        sent = 0
        try:
            while sent < len(data):
                sent += self.socket.send(data[sent:sent + (1 << 16)])
        except BlockingIOError:
            pass
        except OSError:
            return None
        finally:
            self.socket.settimeout(patience)
        return sent

    def sip(self, size):
        """Reads at most so many bytes that are there already, and drops them."""
        patience = self.socket.gettimeout()
        self.socket.setblocking(False)
        try:
            self.socket.recv(size)
        except OSError:
            pass
        finally:
            self.socket.settimeout(patience)

    def exchange(self, pieces, size):
        """Sends all pieces while reading, for a long request may meet long answers.

        Gives exactly `size` bytes, or fewer when the server closes before.
        """
        for piece in pieces:
            view = memoryview(piece)
            while view:
                readable, writable, _ = select.select([self.socket], [self.socket], [], PATIENCE_S)
                if not readable and not writable:
                    raise AssertionError(f"no answer; so far {len(self.buffer)} bytes")
                if readable and not self.fill():
                    return self.take(size)
                if writable:
                    sent = self.offer(view[:1 << 18])
                    if sent is None:
                        return self.rest()[:size]
                    view = view[sent:]
        return self.read(size)

    def ask(self, command, end=b"\r\n"):
        """Sends one text command and gives the answer up to `end`."""
        self.send(command.encode() + b"\r\n")
        return self.until(end)

    def closed(self):
        """True when the server closes without sending anything more."""
        return not self.buffer and not self.fill()


class Server:
    """See the head of this file. `address` goes to Wire; `process` is the running server.

    listen: "tcp" (a free port on loopback), "unix" (a socket in a directory of its own), or None
    when the arguments say where. binary: another program than the one under test. stderr: a
    descriptor that the server writes to instead of a file.
    """

    def __init__(self, *arguments, listen="tcp", binary=None, exit_codes=(0,), environment=None,
                 stderr=None):
        self.binary = binary or BINARY
        self.arguments = [str(a) for a in arguments]
        self.listen = listen
        self.exit_codes = exit_codes
        self.environment = environment
        self.stderr_to = stderr
        self.directory = None
        self.process = None
        self.port = None
        self.address = None

    def command(self):
        command = [self.binary]
        if self.binary == BINARY:
            command += OPTIONS
        if os.geteuid() == 0 and "-u" not in self.arguments:
            command += ["-u", "root"]
        if self.listen == "tcp":
            self.port = free_port()
            self.address = ("127.0.0.1", self.port)
            command += ["-l", "127.0.0.1", "-p", str(self.port)]
        elif self.listen == "unix":
            self.address = os.path.join(self.directory, "socket")
            command += ["-s", self.address]
        return command + self.arguments

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="kbf-e2e-")
        try:
            # The port may be taken between the look and the start: then another one is tried.
            for attempt in range(5):
                if self.start():
                    return self
            raise ServerError(f"{self.command()} does not start:\n{self.stderr()}")
        except BaseException:
            self.kill()
            self.clean()
            raise

    def start(self):
        with open(os.path.join(self.directory, "stderr"), "wb") as stderr:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=stderr,
                stderr=stderr if self.stderr_to is None else self.stderr_to,
                env={**os.environ, **(self.environment or {})}, preexec_fn=die_with_parent,
            )
        if self.address is None:
            return True
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                Wire(self.address).close()
                # Somebody else may own the port; then ours has failed to bind and is leaving.
                return self.process.poll() is None
            except OSError:
                time.sleep(0.005)
        raise ServerError(f"{self.command()} does not accept connections:\n{self.stderr()}")

    def __exit__(self, kind, _value, _trace):
        try:
            code = self.stop()
            # A failing test says more than the exit code, but a dead server explains the failure.
            if code not in self.exit_codes:
                message = f"{self.binary} exited with {code}:\n{self.stderr()}"
                if kind is None:
                    raise ServerError(message)
                print(message, file=sys.stderr)
        finally:
            self.kill()
            self.clean()

    def stop(self, how=signal.SIGTERM):
        """Stops the server and gives its exit code (negative: the signal that ended it)."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "no exit"

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def clean(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def stderr(self):
        try:
            with open(os.path.join(self.directory, "stderr"), errors="replace") as file:
                return file.read()[-20000:]
        except OSError:
            return ""

    def connect(self, timeout=PATIENCE_S, receive_buffer=None):
        return Wire(self.address, timeout, receive_buffer)

    def stats(self, sub=""):
        """`stats SUB` as a dict of strings, in the order of the answer."""
        with self.connect() as wire:
            return read_stats(wire, sub)

    def check_alive(self):
        """Fails unless the server runs and serves a new client."""
        if self.process.poll() is not None:
            raise ServerError(f"the server is gone: {self.process.returncode}\n{self.stderr()}")
        with self.connect() as wire:
            key = f"alive-{time.monotonic_ns()}"
            answers = [
                wire.ask(f"set {key} 7 0 5\r\nhello"),
                wire.ask(f"get {key}", b"END\r\n"),
                wire.ask(f"delete {key}"),
            ]
        expected = [b"STORED\r\n", f"VALUE {key} 7 5\r\nhello\r\nEND\r\n".encode(), b"DELETED\r\n"]
        if answers != expected:
            raise ServerError(f"after this test a normal client gets {answers}")

    def proc(self, field):
        """A number of /proc/PID/status, such as VmRSS in KiB or Threads."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.M).group(1))

    def rss_kib(self):
        return self.proc("VmRSS")

    def cpu_ticks(self):
        """CPU time of all its threads since the start, in ticks of the kernel (10 ms)."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


def read_stats(wire, sub=""):
    wire.send(f"stats {sub}".strip().encode() + b"\r\n")
    found = {}
    while True:
        line = wire.line().decode("latin-1")
        if line == "END\r\n":
            return found
        match = re.fullmatch(r"STAT (\S+) ?(.*)\r\n", line)
        if not match:
            raise AssertionError(f"stats {sub}: {line!r}")
        found[match.group(1)] = match.group(2)


def run_once(*arguments, binary=None, timeout=PATIENCE_S):
    """Runs the binary to its end, as for -h or a refused option: (code, stdout and stderr)."""
    done = subprocess.run(
        [binary or BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, timeout=timeout,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    return done.returncode, done.stdout
