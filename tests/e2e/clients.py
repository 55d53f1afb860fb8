"""The client libraries of Debian behind one interface, so that one table of scenarios tests all.

An adapter has the operations of OPERATIONS that its library offers. Keys and values are bytes;
stores, touch and delete answer True or False; cas is True only when it stored; incr and decr give
an int, None for a missing key. ClientFailed is what a library reports as an error.
"""

import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = (
    "get set add replace append prepend gets cas get_many incr decr touch gat delete flush stats "
    "version set_noreply delete_noreply set_typed check_typed"
).split()


class ClientFailed(Exception):
    """The library says that the operation failed."""


class Adapter:
    library = None  # the module's or package's name

    def offers(self, operation):
        return hasattr(self, operation)

    def close(self):
        pass


def guarded(errors):
    """Makes a library's exceptions ClientFailed for all methods of a class."""
    def guard(method):
        def call(*arguments, **named):
            try:
                return method(*arguments, **named)
            except errors() as error:
                raise ClientFailed(f"{type(error).__name__}: {error}") from error
        return call

    def wrap(cls):
        for name in OPERATIONS:
            if name in vars(cls):
                setattr(cls, name, guard(vars(cls)[name]))
        return cls
    return wrap


def pymemcache_errors():
    from pymemcache.exceptions import MemcacheError
    return (MemcacheError, OSError)


class FlagSerde:
    """Values are (bytes, flags), so that all 32 bits of the flags can be seen."""

    def serialize(self, _key, value):
        return value

    def deserialize(self, _key, value, flags):
        return value, flags


@guarded(pymemcache_errors)
class Pymemcache(Adapter):
    library = "pymemcache"
    FLAGS = 0xdeadbeef

    def __init__(self, port):
        from pymemcache import Client
        self.client = Client(("127.0.0.1", port), serde=FlagSerde(), default_noreply=False)
        self.close = self.client.close

    def get(self, key):
        return self.client.get(key, (None,))[0]

    def get_many(self, keys):
        return {key: value for key, (value, _) in self.client.get_many(keys).items()}

    def gets(self, key):
        found, token = self.client.gets(key)
        return (found and found[0]), token

    def set(self, key, value, expire=0):
        return self.client.set(key, (value, 0), expire)

    def add(self, key, value, expire=0):
        return self.client.add(key, (value, 0), expire)

    def replace(self, key, value, expire=0):
        return self.client.replace(key, (value, 0), expire)

    def append(self, key, value):
        return self.client.append(key, (value, 0))

    def prepend(self, key, value):
        return self.client.prepend(key, (value, 0))

    def cas(self, key, value, token):
        return bool(self.client.cas(key, (value, 0), token))

    def incr(self, key, delta):
        return self.client.incr(key, delta)

    def decr(self, key, delta):
        return self.client.decr(key, delta)

    def touch(self, key, expire):
        return self.client.touch(key, expire)

    def delete(self, key):
        return self.client.delete(key)

    def flush(self):
        self.client.flush_all()

    def stats(self):
        return {k.decode(): v for k, v in self.client.stats().items()}

    def version(self):
        return self.client.version().decode()

    def set_noreply(self, key, value):
        self.client.set(key, (value, 0), noreply=True)

    def delete_noreply(self, key):
        self.client.delete(key, noreply=True)

    def set_typed(self, key):
        return self.client.set(key, (b"typed", self.FLAGS))

    def check_typed(self, key):
        return self.client.get(key) == (b"typed", self.FLAGS)


def pylibmc_errors():
    import pylibmc
    return (pylibmc.Error,)


@guarded(pylibmc_errors)
class PylibmcText(Adapter):
    library = "pylibmc"
    binary = False
    VALUE = {"answer": 42, "list": [1, 2]}

    def __init__(self, port):
        import pylibmc
        self.errors = pylibmc
        self.client = pylibmc.Client([f"127.0.0.1:{port}"], binary=self.binary,
                                     behaviors={"cas": True, "tcp_nodelay": True})
        self.silent = None
        if not self.binary:
            self.silent = pylibmc.Client([f"127.0.0.1:{port}"], behaviors={"_noreply": True})
            self.set_noreply = lambda key, value: self.silent.set(key, value)

    def get(self, key):
        return self.client.get(key)

    def get_many(self, keys):
        found = self.client.get_multi(keys)
        return {k.encode() if isinstance(k, str) else k: v for k, v in found.items()}

    def gets(self, key):
        return self.client.gets(key)

    def set(self, key, value, expire=0):
        return self.client.set(key, value, expire)

    def add(self, key, value, expire=0):
        return self.client.add(key, value, expire)

    def replace(self, key, value, expire=0):
        try:
            return self.client.replace(key, value, expire)
        except self.errors.NotFound:  # binary only; in text it is False
            return False

    def append(self, key, value):
        return self.client.append(key, value)

    def prepend(self, key, value):
        return self.client.prepend(key, value)

    def cas(self, key, value, token):
        try:
            return bool(self.client.cas(key, value, token))
        except self.errors.NotFound:
            return False

    def incr(self, key, delta):
        return self.count(self.client.incr, key, delta)

    def decr(self, key, delta):
        return self.count(self.client.decr, key, delta)

    def count(self, change, key, delta):
        try:
            return change(key, delta)
        except self.errors.NotFound:
            return None

    def touch(self, key, expire):
        return self.client.touch(key, expire)

    def delete(self, key):
        return self.client.delete(key)

    def flush(self):
        self.client.flush_all()

    def stats(self):
        return {k: v.decode() if isinstance(v, bytes) else v
                for k, v in self.client.get_stats()[0][1].items()}

    def version(self):
        return self.stats()["version"]

    def set_typed(self, key):
        return self.client.set(key, self.VALUE)

    def check_typed(self, key):
        return self.client.get(key) == self.VALUE

    def close(self):
        self.client.disconnect_all()


class PylibmcBinary(PylibmcText):
    binary = True


class PythonMemcache(Adapter):
    """python3-memcache hides errors: what fails is a zero."""
    library = "memcache"
    VALUE = {"answer": 42, "list": [1, 2]}

    def __init__(self, port):
        import memcache
        self.client = memcache.Client([f"127.0.0.1:{port}"], cache_cas=True,
                                      server_max_value_length=64 << 20)
        self.close = self.client.disconnect_all

    def get(self, key):
        return self.client.get(key)

    def get_many(self, keys):
        return {k: v for k, v in self.client.get_multi(keys).items()}

    def gets(self, key):
        value = self.client.gets(key)
        return value, self.client.cas_ids.get(key)

    def set(self, key, value, expire=0):
        return bool(self.client.set(key, value, expire))

    def add(self, key, value, expire=0):
        return bool(self.client.add(key, value, expire))

    def replace(self, key, value, expire=0):
        return bool(self.client.replace(key, value, expire))

    def append(self, key, value):
        return bool(self.client.append(key, value))

    def prepend(self, key, value):
        return bool(self.client.prepend(key, value))

    def cas(self, key, value, token):
        self.client.cas_ids[key] = token
        return bool(self.client.cas(key, value))

    def incr(self, key, delta):
        return self.count(self.client.incr, key, delta)

    def decr(self, key, delta):
        return self.count(self.client.decr, key, delta)

    def count(self, change, key, delta):
        try:
            return change(key, delta)
        except ValueError as error:  # it reads every answer as a number
            raise ClientFailed(str(error)) from error

    def touch(self, key, expire):
        return bool(self.client.touch(key, expire))

    def delete(self, key):
        # The library takes NOT_FOUND for success, so the answer says nothing.
        present = self.client.get(key) is not None
        return bool(self.client.delete(key)) and present

    def flush(self):
        self.client.flush_all()

    def stats(self):
        return self.client.get_stats()[0][1]

    def version(self):
        return self.stats()["version"]

    def set_noreply(self, key, value):
        self.client.set(key, value, noreply=True)

    def delete_noreply(self, key):
        self.client.delete(key, noreply=True)

    def set_typed(self, key):
        return bool(self.client.set(key, self.VALUE))

    def check_typed(self, key):
        return self.client.get(key) == self.VALUE


class Subprocess(Adapter):
    """A client in another language: a script that takes JSON lines, see client_fast.pl."""
    command = ()
    missing = ()  # operations of OPERATIONS that the library does not have

    def __init__(self, port):
        self.process = subprocess.Popen(
            [*self.command, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            cwd=HERE)

    def offers(self, operation):
        return operation not in self.missing

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def call(self, *request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise ClientFailed(f"{self.command} has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientFailed(answer["error"])
        return answer["result"]

    def __getattr__(self, operation):
        if operation not in OPERATIONS:
            raise AttributeError(operation)

        def run(*arguments):
            if operation in ("set", "add", "replace") and len(arguments) == 2:
                arguments += (0,)
            return decoded(operation, self.call(operation, *map(encoded, arguments)))
        return run


def encoded(argument):
    if isinstance(argument, bytes):
        return argument.hex()
    return [encoded(a) for a in argument] if isinstance(argument, list) else argument


def decoded(operation, result):
    value = lambda text: None if text is None else bytes.fromhex(text)
    if operation in ("get", "gat"):
        return value(result)
    if operation == "get_many":
        return {bytes.fromhex(k): value(v) for k, v in result.items()}
    if operation == "gets":
        return value(result[0]), result[1]
    if operation in ("incr", "decr"):
        return None if result is None else int(result)
    return result


class PerlFast(Subprocess):
    library = "Cache::Memcached::Fast"
    command = ("perl", "client_fast.pl")
    missing = ("stats",)

    @classmethod
    def installed(cls):
        return shutil.which("perl") and subprocess.run(
            ["perl", "-MCache::Memcached::Fast", "-e", "1"], stderr=subprocess.DEVNULL
        ).returncode == 0


class RubyDalli(Subprocess):
    library = "dalli"
    command = ("ruby", "client_dalli.rb")

    @classmethod
    def installed(cls):
        return shutil.which("ruby") and subprocess.run(
            ["ruby", "-e", "require 'dalli'"], stderr=subprocess.DEVNULL).returncode == 0


def importable(cls):
    try:
        __import__(cls.library)
        return True
    except ImportError:
        return False


ADAPTERS = (Pymemcache, PylibmcText, PylibmcBinary, PythonMemcache, PerlFast, RubyDalli)


def is_installed(cls):
    return cls.installed() if hasattr(cls, "installed") else importable(cls)
