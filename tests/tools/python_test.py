"""The Python module kbf: what it adds to the C functions.

Run by tests/library_check, which says where the module and the library are.
"""

import gc
import unittest

import kbf


class MapTest(unittest.TestCase):
    def test_is_used_like_a_dict(self):
        users = kbf.Map(capacity=100, distinct_values=10, seed=1)
        users["alice"] = "CH"
        users[b"bob"] = b"KE"
        self.assertEqual(users["alice"], "CH")
        self.assertEqual(users["bob"], "KE")
        self.assertEqual(len(users), 2)
        self.assertIn("alice", users)
        self.assertNotIn("carol", users)
        self.assertTrue(users.may_contain("alice"))
        self.assertFalse(users.may_contain("carol"))
        self.assertIsNone(users.get("carol"))
        self.assertEqual(users.get("carol", "nowhere"), "nowhere")
        del users["alice"]
        self.assertFalse(users.delete("alice"))
        with self.assertRaises(KeyError):
            users["alice"]
        with self.assertRaises(KeyError):
            del users["alice"]

    def test_text_and_bytes_keep_all_characters(self):
        texts = kbf.Map(capacity=10, distinct_values=10, seed=2)
        texts["Zürich\0"] = "Größe\0"
        self.assertEqual(texts["Zürich\0"], "Größe\0")
        texts[""] = ""
        self.assertEqual(texts[""], "")
        raw = kbf.Map(capacity=10, distinct_values=10, seed=2, encoding=None)
        raw[b"\xff\0"] = bytes(range(256))
        self.assertEqual(raw[b"\xff\0"], bytes(range(256)))

    def test_joins_and_compresses(self):
        first = kbf.Map(capacity=4000, distinct_values=10, seed=3)
        second = first.create_like()
        for number in range(1000):
            first[f"a{number}"] = str(number % 10)
            second[f"b{number}"] = str(number % 10)
        first.join(second)
        first.compress()
        self.assertEqual(len(first), 2000)
        self.assertEqual(first.stats().capacity, 2000)
        self.assertLess(first.stats().false_negative, 2e-3)
        wrong = sum(first.get(f"{name}{n}", str(n % 10)) != str(n % 10) for name in "ab" for n in range(1000))
        self.assertEqual(wrong, 0)
        self.assertLess(sum(f"b{n}" not in first for n in range(1000)), 20)
        with self.assertRaises(kbf.Error) as raised:
            first.join(second)
        self.assertEqual(raised.exception.status, kbf.UNLIKE)

    def test_errors_name_what_is_wrong(self):
        for arguments, word in (
            ({"capacity": 0}, "capacity"),
            ({"capacity": -1}, "capacity"),
            ({"capacity": 2**64}, "capacity"),
            ({"capacity": 2**63}, "capacity"),
            ({"capacity": 1, "distinct_values": 0}, "distinct_values"),
            ({"capacity": 1, "false_negative": 0}, "false_negative"),
            ({"capacity": 1, "false_positive": 2}, "false-positive"),
        ):
            with self.assertRaises(kbf.Error) as raised:
                kbf.Map(**arguments)
            self.assertEqual(raised.exception.status, kbf.BAD_ARGUMENT)
            self.assertIn(word, str(raised.exception))
        full = kbf.Map(capacity=5, distinct_values=1, seed=4)
        for number in range(5):
            full[str(number)] = "x"
        with self.assertRaises(kbf.Error) as raised:
            full["another"] = "x"
        self.assertEqual(raised.exception.status, kbf.FULL)
        with self.assertRaises(TypeError):
            full[object()] = "x"
        with self.assertRaises(TypeError):
            full[5] = "x"

    def test_a_closed_map_raises_instead_of_crashing(self):
        with kbf.Map(capacity=5) as users:
            users["alice"] = "CH"
            other = users.create_like()
        self.assertIn("closed", repr(users))
        users.close()
        for call in (
            lambda: users.get("alice"),
            lambda: users.put("alice", "CH"),
            lambda: users.delete("alice"),
            lambda: other.join(users),
            users.compress,
            users.stats,
            users.create_like,
        ):
            with self.assertRaises(kbf.Error):
                call()
        del other
        gc.collect()

    def test_version(self):
        self.assertRegex(kbf.version(), r"^\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
