#!/usr/bin/python3
"""kbfjoin end to end: joins with `sort` as the shuffle and the reducer of docs/kbfjoin.md, and what it
refuses. BUILD (default: build) holds the program. The last line is "N passed, M failed"."""

import json
import math
import os
import random
import re
import resource
import signal
import subprocess

import program
import summary

C_LOCALE = {**os.environ, "LC_ALL": "C"}

with open(os.path.join(program.ROOT, "docs", "kbfjoin.md"), encoding="utf-8") as page:
    REDUCER = re.search(r"```awk\n(.*?)```", page.read(), re.DOTALL).group(1)


def shuffle_and_reduce(mapped):
    """What `sort | awk -f reducer` makes of the mappers' output."""
    ordered = subprocess.run(["sort"], input=mapped, stdout=subprocess.PIPE, env=C_LOCALE,
                             timeout=program.PATIENCE_S, check=True).stdout
    return subprocess.run(["awk", REDUCER], input=ordered, stdout=subprocess.PIPE, env=C_LOCALE,
                          timeout=program.PATIENCE_S, check=True).stdout


def occupied(picks, positions, increments):
    """The chance that `picks` random positions of a word are all occupied after the increments."""
    chance = [1.0] + [0.0] * picks  # of so many different positions among the picks
    for _ in range(picks):
        chance = [0.0] + [chance[d] * d / positions + chance[d - 1] * (positions - d + 1) / positions
                          for d in range(1, picks + 1)]
    return sum(share * sum((-1) ** j * math.comb(d, j) * (1 - j / positions) ** increments
                           for j in range(d + 1))
               for d, share in enumerate(chance) if share > 0)


def expected_rate(info):
    """The mean rate of [MPCBF] eq. 8, without its approximation, and its deviation by the chance
    that fills the words; written apart from the library's own formula."""
    keys, words = info["keys"], info["words"]
    k, g, positions = info["num_hashes"], info["num_accesses"], info["first_level"]
    hashes = [k // g + (1 if i < k % g else 0) for i in range(g)]
    weights = {0: 1.0}  # increments of a word -> chance
    for count in hashes:
        mean = keys / words
        arrivals = [math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)) for n in range(60)]
        more = {}
        for before, share in weights.items():
            for n, chance in enumerate(arrivals):
                more[before + n * count] = more.get(before + n * count, 0) + share * chance
        weights = more
    rate, relative = 1.0, 0.0
    for count in hashes:
        chances = {n: occupied(count, positions, n) for n in weights}
        mean = sum(share * chances[n] for n, share in weights.items())
        square = sum(share * chances[n] ** 2 for n, share in weights.items())
        rate *= mean
        relative += math.sqrt((square / mean ** 2 - 1) / words)
    return rate, rate * relative


class KbfjoinTest(program.ProgramTest):
    NAME = "kbfjoin"

    def setUp(self):
        super().setUp()
        self.filter = self.path("filter")

    def build(self, data, *arguments):
        done = self.run_program("build", "--filter", self.filter, "--seed", "20261119", *arguments, data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def info(self):
        return json.loads(self.run_program("info", "--filter", self.filter, "--json").stdout)

    def map(self, data, *arguments):
        """The records that pass, and the counters."""
        done = self.run_program("map", "--counters", *arguments, data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        counters = dict(re.findall(r"reporter:counter:kbfjoin,([a-z ]+),(\d+)",
                                   done.stderr.decode()))
        return done.stdout, {name: int(count) for name, count in counters.items()}


class Join(KbfjoinTest):
    """Both inputs have keys that come several times, in any order, and values of any bytes."""

    def setUp(self):
        super().setUp()
        chance = random.Random(20261119)
        value = lambda: bytes(chance.choices([b for b in range(256) if b not in (9, 10)],
                                             k=chance.randrange(12)))
        self.small = [(b"key%d" % chance.randrange(4000), value()) for _ in range(5000)]
        self.small += [(b"1", b"x"), (b"1.0", b"y"), (b"01", b"z")]  # not the same key
        keys = sorted({key for key, _ in self.small})
        self.others = [b"other%d" % i for i in range(60000)]
        self.large = [(chance.choice(keys), value()) for _ in range(8000)]
        self.partners = len(self.large)
        self.large += [(key, value()) for key in self.others]  # each once
        chance.shuffle(self.large)
        partners = {}
        for key, one in self.small:
            partners.setdefault(key, []).append(one)
        self.joined = sorted(key + b"\t" + one + b"\t" + two for key, two in self.large
                             for one in partners.get(key, []))

    @staticmethod
    def lines(records):
        return b"".join(key + b"\t" + value + b"\n" for key, value in records)

    def check_join(self, *sizes):
        small = self.lines(self.small)
        self.build(small, *sizes)
        info = self.info()
        self.assertEqual(info["keys"], len({key for key, _ in self.small}))
        tagged, _ = self.map(small, "--no-filter", "--tag", "0")
        unfiltered, counted = self.map(self.lines(self.large), "--no-filter", "--tag", "1")
        self.assertEqual(counted["records passed"], len(self.large))
        filtered, passed = b"", 0
        for part in range(3):  # three mappers
            records = self.lines(self.large[part::3])
            output, counted = self.map(records, "--filter", self.filter, "--tag", "1")
            filtered += output
            passed += counted["records passed"]
            self.assertEqual(counted["records read"], len(self.large[part::3]))
            self.assertEqual(counted["records passed"] + counted["records dropped"],
                             counted["records read"])
        self.assertEqual(filtered.count(b"\n"), passed)

        result = shuffle_and_reduce(tagged + filtered)
        self.assertEqual(result, shuffle_and_reduce(tagged + unfiltered))
        self.assertEqual(sorted(result.split(b"\n")[:-1]), self.joined)

        rate, filter_deviation = expected_rate(info)
        self.assertAlmostEqual(rate / info["false_positive"], 1, 2)
        asked = len(self.others)
        deviation = math.hypot(math.sqrt(rate * (1 - rate) / asked), filter_deviation)
        measured = (passed - self.partners) / asked
        self.assertLess(abs(measured - rate), 5 * deviation, (measured, rate))

    def test_filtered_join_gives_the_records_of_the_unfiltered_one_and_the_predicted_counts(self):
        self.check_join()

    def test_join_with_one_access_and_many_false_positives(self):
        self.check_join("--false-positive", "0.3", "--accesses", "1")

    def test_join_with_the_paper_s_sizes(self):
        for accesses, first_level in ((1, 31), (2, 44)):
            with self.subTest(accesses=accesses):
                self.check_join("--bits-per-key", "10", "--hashes", "3", "--accesses",
                                str(accesses), "--first-level", str(first_level))

    def test_key_in_another_field_of_another_format(self):
        keys = b"".join(b"%d\n" % i for i in range(100))
        self.build(keys)
        cited = b"".join(b"%d,%d,x\n" % (i + 10**6, i % 1000) for i in range(3000))
        output, _ = self.map(cited, "--filter", self.filter, "--field", "2", "--separator", ",",
                             "--tag", "C")
        rows = [row.split(b"\t") for row in output.split(b"\n")[:-1]]
        self.assertEqual(sum(int(row[0]) < 100 for row in rows), 300)
        self.assertIn([b"7", b"C", b"1001007,x"], rows)

    def test_same_keys_and_seed_give_the_same_file_in_any_order(self):
        keys = [b"%d\n" % i for i in range(500)]
        self.build(b"".join(keys))
        with open(self.filter, "rb") as file:
            first = file.read()
        self.build(b"".join(reversed(keys)) + keys[7])
        with open(self.filter, "rb") as file:
            self.assertEqual(file.read(), first)
        self.run_program("build", "--filter", self.filter, data=b"".join(keys))
        with open(self.filter, "rb") as file:
            self.assertNotEqual(file.read(), first)

    def test_records_from_files_and_from_standard_input(self):
        self.build(b"", self.path("keys", b"a\nb\n"), self.path("more", b"c\tx\n"))
        self.assertEqual(self.info()["keys"], 3)
        output, _ = self.map(b"b\t2\n", "--filter", self.filter, self.path("one", b"a\t1\n"), "-",
                             self.path("two", b"c\t3"))
        self.assertEqual(output, b"a\t1\nb\t2\nc\t3\n")


class BadInput(KbfjoinTest):
    def setUp(self):
        super().setUp()
        self.build(b"".join(b"key%d\n" % i for i in range(1000)))

    def test_bad_records_are_named_and_those_before_them_are_written(self):
        good = b"key1\tx\n"
        for data, pattern in (
                (b"key2\n", "standard input, line 2 has no tab; use --bare-keys"),
                (b"\n", "line 2 is empty"), (b"\tx\n", "line 2 has an empty key"),
                (b"x" * 2000 + b"\ty\n", "line 2: longer than 1000 bytes; see --line-max")):
            with self.subTest(pattern=pattern):
                arguments = ("map", "--filter", self.filter, "--line-max", "1000")
                self.assertEqual(self.refuses(pattern, *arguments, data=good + data), good)
        self.refuses("line 1 has no ','; the key is in field 2", "map", "--filter", self.filter,
                     "--separator", ",", "--field", "2", data=good)
        self.refuses("line 2 is empty", "build", "--filter", self.filter, data=b"a\n\n")
        output, counted = self.map(good + b"\n\nnothing\n" + good, "--filter", self.filter,
                                   "--skip-bad")
        self.assertEqual(output, good + good)
        self.assertEqual(counted["bad records left out"], 3)
        output, _ = self.map(b"key7\n", "--filter", self.filter, "--bare-keys")
        self.assertEqual(output, b"key7\n")

    def test_long_lines_and_any_bytes_pass_unchanged(self):
        chance = random.Random(1)
        binary = bytes(b for b in range(256) if b != 10)
        data = (b"key3\t" + binary + b"\n" + b"key4\t" + bytes([0]) * 9_000_000 + b"\n" +
                b"key5\t" + chance.randbytes(3_000_000).replace(b"\n", b"") + b"\r\n")
        output, counted = self.map(data, "--filter", self.filter)
        self.assertEqual(output, data)
        self.assertEqual(counted["records passed"], 3)

    def test_keys_of_any_bytes(self):
        keys = [bytes([a, b]) for a in range(256) for b in (0, 255) if a not in (9, 10)]
        self.build(b"".join(key + b"\n" for key in keys))
        self.assertEqual(self.info()["keys"], len(keys))
        data = b"".join(key + b"\tx\n" for key in keys)
        self.assertEqual(self.map(data, "--filter", self.filter)[0], data)

    def test_filter_files_that_are_not_whole_or_not_ours(self):
        with open(self.filter, "rb") as file:
            image = file.read()
        chance = random.Random(2)
        record = b"key1\tx\n"

        def refused(data, pattern):
            self.refuses(pattern, "map", "--filter", self.path("other", data), data=record)

        for length in [*range(0, 300, 23), *(chance.randrange(len(image)) for _ in range(20))]:
            refused(image[:length], "is cut off: it has|is no filter of kbfjoin")
        for _ in range(60):
            at = chance.randrange(8, len(image))
            refused(image[:at] + bytes([image[at] ^ 1 << chance.randrange(8)]) + image[at + 1:],
                    "damaged|has format|cut off")
        refused(image + b"x", "is damaged: it has")
        refused(image[:8] + b"\2\0\0\0" + image[12:],
                "has format 2, and this kbfjoin reads format 1; build it again")
        refused(b"key\tvalue\n" * 100, "is no filter of kbfjoin")
        for command in ("map", "info"):
            self.refuses("cannot read .*: No such file", command, "--filter", self.path("none"))
            self.refuses("cannot read .*: Is a directory", command, "--filter", "/tmp")

    def test_build_replaces_the_file_as_a_whole_or_not_at_all(self):
        with open(self.filter, "rb") as file:
            before = file.read()

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        self.refuses("cannot write .*: File too large", "build", "--filter", self.filter,
                     data=b"a\n", preexec_fn=limit_files)
        self.refuses("line 1 is empty", "build", "--filter", self.filter, data=b"\n")
        self.refuses("cannot read", "build", "--filter", self.filter, self.path("none"))
        with open(self.filter, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(os.listdir(self.directory.name), ["filter"])
        # A link stays a link, and rights stay as they are.
        os.chmod(self.filter, 0o640)
        link = self.path("link")
        os.symlink("filter", link)
        self.assertEqual(self.run_program("build", "--filter", link, data=b"a\n").returncode, 0)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(self.filter).st_mode & 0o777, 0o640)
        self.assertEqual(self.info()["keys"], 1)
        self.refuses("cannot write /nowhere/f: No such file or directory", "build", "--filter",
                     "/nowhere/f", data=b"a\n")

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([self.program(), "map", "--filter", self.filter], input=b"key1\tx\n",
                                  stdout=full, stderr=subprocess.PIPE, timeout=program.PATIENCE_S,
                                  check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, b"\\Akbfjoin: cannot write standard output: No space.*\n\\Z")
            done = subprocess.run([self.program(), "info", "--filter", self.filter], stdout=full,
                                  stderr=subprocess.PIPE, timeout=program.PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, b"\\Akbfjoin: cannot write the result: No space.*\n\\Z")
        self.refuses("cannot write /dev/full: No space", "build", "--filter", "/dev/full",
                     data=b"a\n")
        # A reader that goes away.
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([self.program(), "map", "--filter", self.filter], input=b"key1\tx\n",
                              stdout=write_end, stderr=subprocess.PIPE, timeout=program.PATIENCE_S,
                              check=False)
        os.close(write_end)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Broken pipe", done.stderr)

    def test_wrong_calls_get_one_line(self):
        for pattern, *arguments in (
                ("give a command: build, map, info", ),
                ("'join' is no command", "join"),
                ("build needs --filter FILE; see kbfjoin build --help", "build"),
                ("map needs --filter FILE", "map"),
                ("contradict each other", "map", "--filter", "f", "--no-filter"),
                ("contradict each other", "build", "--filter", "f", "--false-positive", "0.1",
                 "--bits-per-key", "10"),
                ("need --bits-per-key", "build", "--filter", "f", "--hashes", "3"),
                ("--separator needs one character", "map", "--no-filter", "--separator", "ab"),
                ("--tag needs a word", "map", "--no-filter", "--tag", "a\tb"),
                ("--field needs a whole number from 1", "map", "--no-filter", "--field", "0"),
                ("--false-positive needs a number from", "build", "--filter", "f",
                 "--false-positive", "2"),
                ("no filter has that false positive rate", "build", "--filter", self.filter,
                 "--false-positive", "1e-9", "--accesses", "1"),
                ("these sizes make no filter", "build", "--filter", self.filter, "--bits-per-key",
                 "10", "--hashes", "1"),
                ("unknown option '--no-such'", "map", "--no-such")):
            with self.subTest(arguments=arguments):
                self.refuses(pattern, *arguments, data=b"a\n")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    summary.main()
