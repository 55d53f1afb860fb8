"""The map in Python: a country per user, then two maps that are filled apart and joined."""

import sys

import kbf

COUNTRIES = ["AR", "BR", "CH", "DE", "FR", "IN", "JP", "KE"]


def main():
    users = kbf.Map(capacity=20_000, distinct_values=200)
    users["alice"] = "CH"
    users["bob"] = "KE"
    print("alice:", users["alice"])
    del users["bob"]
    print("bob:", users.get("bob", "not stored"))

    others = users.create_like()
    for number in range(10_000):
        others[f"user:{number}"] = COUNTRIES[number % 8]
    users.join(others)
    answers = [users.get(f"user:{number}") for number in range(10_000)]
    right = sum(answer == COUNTRIES[number % 8] for number, answer in enumerate(answers))
    missing = answers.count(None)
    print(f"{right} right, {10_000 - right - missing} wrong, {missing} not found, {users}")
    return 0 if right + missing == 10_000 and missing <= 20 else 1


if __name__ == "__main__":
    sys.exit(main())
