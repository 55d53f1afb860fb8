"""Three nodes and a real etcd on loopback: any node takes any key, slabs move with their items, and a
node that dies costs misses. Skipped where etcd is not installed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from server import (
    BINARY, IS_MEMCACHED, OPTIONS, PATIENCE_S, die_with_parent, free_port, wait_for
)

KBFCTL = os.path.join(os.path.dirname(BINARY), "kbfctl")
ETCD = shutil.which("etcd")
SLABS = 16
SECRET = "a secret of the test"


def start(arguments, log):
    with open(log, "ab") as output:
        return subprocess.Popen(
            arguments, stdout=output, stderr=output, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent
        )


class Cluster:
    """etcd and some nodes, in a temporary directory."""

    def __init__(self, nodes=3):
        self.directory = tempfile.mkdtemp(prefix="kbf-cluster-")
        self.etcd = "127.0.0.1:%d" % free_port()
        client, peer = "http://" + self.etcd, "http://127.0.0.1:%d" % free_port()
        self.etcd_process = start(
            [ETCD, "--data-dir", self.directory + "/etcd", "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer],
            self.directory + "/etcd.log")
        self.secret = self.directory + "/secret"
        with open(self.secret, "w", encoding="ascii") as file:
            file.write(SECRET)
        self.nodes = {}
        for _ in range(nodes):
            self.add()

    def command(self, port, secret=None, *more):
        return [BINARY, "-l", "127.0.0.1", "-p", str(port), "-m", "64", "-t", "2", "-u", "root",
                "--cluster", "test", "--etcd", self.etcd, "--wait-for-etcd", "--node",
                "127.0.0.1:%d" % port, "--inner-port", str(free_port()), "--secret-file",
                secret or self.secret, "--cluster-slabs", str(SLABS), *OPTIONS, *more]

    def add(self):
        port = free_port()
        name = "127.0.0.1:%d" % port
        self.nodes[name] = start(self.command(port), "%s/%d.log" % (self.directory, port))
        return name

    def ctl(self, *words):
        return subprocess.run(
            [KBFCTL, *words, "--etcd", self.etcd, "--cluster", "test"],
            capture_output=True, text=True, timeout=PATIENCE_S + 30, check=False)

    def rows(self):
        """What kbfctl says of the nodes that have slabs, by name."""
        answer = self.ctl("nodes", "--json")
        if answer.returncode != 0:
            return {}
        return {row["node"]: row for row in json.loads(answer.stdout) if row["slabs"] > 0}

    def wait_for_owners(self, names):
        """Until exactly these nodes have slabs, nothing moves and everything is served."""
        def settled():
            rows = self.rows()
            return set(rows) == set(names) and all(
                row["leaving"] == row["coming"] == 0 for row in rows.values())
        def serves():
            with Client(names[0]) as client:
                return all(client.set("probe%d" % i, "x") == "STORED" for i in range(8 * SLABS))
        assert wait_for(settled), self.logs()
        assert wait_for(serves), self.logs()

    def logs(self):
        text = self.ctl("nodes").stdout
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log") and name != "etcd.log":
                with open(os.path.join(self.directory, name), encoding="utf-8") as file:
                    text += "== %s\n%s\n" % (name, file.read()[-2000:])
        return text

    def kill(self, name):
        self.nodes[name].kill()
        self.nodes.pop(name).wait()

    def stop(self):
        codes = []
        for process in self.nodes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.nodes.values():
            try:
                codes.append(process.wait(PATIENCE_S))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(process.wait())
        self.etcd_process.kill()
        self.etcd_process.wait()
        logs = self.logs() if any(codes) else ""
        shutil.rmtree(self.directory)
        assert not any(codes), (codes, logs)


class Client:
    """The text protocol over one connection."""

    def __init__(self, name):
        host, port = name.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        return self.file.readline().decode().rstrip("\r\n")

    def ask(self, text):
        self.send(text.encode() + b"\r\n")
        return self.line()

    def set(self, key, value):
        return self.ask("set %s 0 0 %d\r\n%s" % (key, len(value), value))

    def store(self, key, value):
        """Until it is stored: on a busy machine a node may miss its reads of etcd for a while."""
        return wait_for(lambda: self.set(key, value) == "STORED")

    def get(self, *keys):
        self.send(("get %s\r\n" % " ".join(keys)).encode())
        found = {}
        while True:
            words = self.line().split()
            if words == ["END"]:
                return found
            assert words[0] == "VALUE", words
            found[words[1]] = self.file.read(int(words[3]) + 2)[:-2].decode()


@unittest.skipIf(IS_MEMCACHED or not ETCD or not os.path.exists(KBFCTL), "needs kbfcached, kbfctl and etcd")
class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.names = list(self.cluster.nodes)
        self.cluster.wait_for_owners(self.names)

    def test_any_node_takes_any_key_on_any_protocol(self):
        keys = ["key%d" % i for i in range(100)]
        with Client(self.names[0]) as a, Client(self.names[1]) as b, Client(self.names[2]) as c:
            for key in keys:
                self.assertTrue(a.store(key, "of " + key))
            for client in (a, b, c):
                self.assertTrue(wait_for(lambda c=client: c.get(*keys) == {key: "of " + key for key in keys}))
            # Replies in the order of the requests, however they are mixed.
            b.send(b"".join(b"mg key%d v k\r\nmn\r\nget key%d nothing\r\n" % (i, i) for i in range(100)))
            for i in range(100):
                size = len("of key%d" % i)
                self.assertEqual(b.line(), "VA %d kkey%d" % (size, i))
                self.assertEqual(b.line(), "of key%d" % i)
                self.assertEqual(b.line(), "MN")
                self.assertEqual([b.line() for _ in range(3)], ["VALUE key%d 0 %d" % (i, size), "of key%d" % i, "END"])
            for i in range(20):
                self.assertTrue(c.store("n%d" % i, "1"))
                self.assertEqual([a.ask("incr n%d 2" % i), b.ask("incr n%d 2" % i)], ["3", "5"])
                self.assertEqual(a.ask("delete n%d" % i), "DELETED")
                self.assertEqual(c.get("n%d" % i), {})
            # A binary key in base64, which parsing decodes in place.
            for i in range(20):
                self.assertEqual(a.ask("ms AQID%04d 2 b\r\nhi" % i), "HD")
                self.assertEqual(c.ask("mg AQID%04d b k v" % i), "VA 2 kAQID%04d b" % i)
                self.assertEqual(c.line(), "hi")
            large = "x" * (1 << 19)
            for i in range(6):
                self.assertTrue(a.store("large%d" % i, large))
                self.assertEqual(b.get("large%d" % i), {"large%d" % i: large})
            for i in range(6):
                b.send(b"set large%d 0 0 2000000\r\n%s\r\n" % (i, b"y" * 2000000))
                self.assertEqual(b.line(), "SERVER_ERROR object too large for cache")
                self.assertEqual(a.get("large%d" % i), {})
        self.check_binary()
        self.check_operators_view()

    def check_binary(self):
        header = lambda opcode, key, extras, value, magic=0x80: (
            bytes([magic, opcode]) + len(key).to_bytes(2, "big") + bytes([len(extras), 0, 0, 0])
            + (len(key) + len(extras) + len(value)).to_bytes(4, "big") + b"\0\0\0\7" + bytes(8) + extras + key + value)
        for i in range(20):
            key = b"binary %d" % i
            with Client(self.names[i % 3]) as a, Client(self.names[(i + 1) % 3]) as b:
                a.send(header(0x01, key, bytes(8), b"value"))
                self.assertEqual(a.file.read(24)[6:8], b"\0\0")
                b.send(header(0x0d, b"no " + key, b"", b"") + header(0x0c, key, b"", b"") + header(0x0a, b"", b"", b""))
                reply = b.file.read(24 + 4 + len(key) + 5 + 24)
                self.assertEqual(reply[28:28 + len(key) + 5], key + b"value")
                self.assertEqual(reply[-23], 0x0a)

    def check_operators_view(self):
        with Client(self.names[1]) as client:
            client.send(b"config get cluster\r\n")
            self.assertTrue(client.line().startswith("CONFIG cluster 0 "))
            client.line()
            nodes = client.line().split()
            self.assertEqual(sorted("%s:%s" % (n.split("|")[0], n.split("|")[2]) for n in nodes), sorted(self.names))
            self.assertEqual([client.line(), client.line()], ["", "END"])
            client.send(b"stats cluster\r\n")
            stats = {}
            while (line := client.line()) != "END":
                stats[line.split()[1]] = line.split()[2]
            self.assertEqual((stats["nodes"], stats["slabs"]), ("3", str(SLABS)))

    def test_slabs_move_with_their_items_while_they_are_written(self):
        stop = threading.Event()
        wrong = []
        acknowledged = {}

        def work(number):
            with Client(self.names[number]) as client:
                versions = 0
                while not stop.is_set():
                    versions += 1
                    for i in range(20):
                        key = "w%d-%d" % (number, i)
                        answer = client.set(key, str(versions))
                        if answer == "STORED":
                            acknowledged[key] = versions
                        elif answer.startswith("SERVER_ERROR"):
                            acknowledged.pop(key, None)  # it may have been carried out
                        else:
                            wrong.append(answer)
                        found = client.get(key)
                        # A miss is allowed: a busy machine may hold a slab for too long.
                        if key in found and int(found[key]) < acknowledged.get(key, 0):
                            wrong.append((key, acknowledged[key], found))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        moved = 0
        for i in range(24):
            answer = self.cluster.ctl("move", str(i % SLABS), self.names[i * 7 % 3])
            moved += "->" in answer.stdout
            if answer.returncode != 0:
                # A busy machine may miss the time in which a move must end; the slab stays whole.
                self.assertIn("stays at", answer.stderr)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(moved, 0)
        with Client(self.names[0]) as client:
            for key, version in acknowledged.items():
                self.assertTrue(wait_for(lambda: client.get(key)), key)
                self.assertEqual(client.get(key).get(key, str(version)), str(version))
            self.assertEqual(client.ask("flush_all"), "OK")
            for name in self.names:
                with Client(name) as other:
                    self.assertEqual(other.get(*acknowledged), {})

    def test_nodes_come_go_and_die(self):
        keys = ["key%d" % i for i in range(200)]
        with Client(self.names[0]) as client:
            for key in keys:
                self.assertTrue(client.store(key, key))
        added = self.cluster.add()
        self.cluster.wait_for_owners(self.names + [added])
        self.assertEqual(self.cluster.ctl("drain", self.names[1]).returncode, 0)
        left = [self.names[0], self.names[2], added]
        self.cluster.wait_for_owners(left)
        with Client(self.names[1]) as client:
            self.assertTrue(wait_for(lambda: client.get(*keys) == {key: key for key in keys}))
        self.cluster.kill(added)
        self.cluster.wait_for_owners([self.names[0], self.names[2]])
        with Client(self.names[2]) as client:
            found = client.get(*keys)
            self.assertTrue(all(value == key for key, value in found.items()))

    def test_who_does_not_fit_is_told_why(self):
        def refusal(*arguments):
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1)
            return done.stderr.strip().splitlines()[-1]

        other = self.cluster.directory + "/other"
        with open(other, "w", encoding="ascii") as file:
            file.write("another secret, also long enough")
        self.assertIn("is not that of the cluster", refusal(*self.cluster.command(free_port(), other)))
        self.assertIn("does not fit", refusal(*self.cluster.command(free_port(), None, "-I", "2m")))
        self.assertIn("there is no node", refusal(KBFCTL, "move", "1", "127.0.0.1:1", "--etcd", self.cluster.etcd, "--cluster", "test"))
        # Who does not know the secret gets nothing from the inner port.
        words = self.cluster.nodes[self.names[0]].args
        inner = words[words.index("--inner-port") + 1]
        with Client("127.0.0.1:" + inner) as client:
            client.send(b"KBF1" + bytes(32))
            self.assertEqual(len(client.file.read(64)), 64)
            client.send(bytes(32))
            self.assertEqual(client.file.read(), b"")


if __name__ == "__main__":
    unittest.main()
