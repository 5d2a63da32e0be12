"""Adds up what the tests of a run say, and prints one line for all of them.

Reads logs of ctest (Testing/Temporary/LastTest.log) and JUnit files of pytest. Each program that ctest ran ends with
"N passed, N failed, N skipped"; one that has no such line, or that failed although its line says otherwise (a crash, a
leak found at exit, a time-out), is a failure of its own. Skips are printed with their reasons.

    python3 tally.py NAME=FILE ...
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

COUNTED = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
SKIPPED = re.compile(r"^skipped (.*)$", re.MULTILINE)
SECTION = re.compile(r'^\d+/\d+ Test: (\S+)$(.*?)^"\1" end time:', re.MULTILINE | re.DOTALL)


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines = []

    def fail(self, where, why):
        self.failed += 1
        self.lines.append(f"FAILED {where}: {why}")

    def skip(self, where, why):
        self.skipped += 1
        self.lines.append(f"skipped {where}: {why}")

    def add_program(self, where, text):
        counted = COUNTED.findall(text)
        is_failed = re.search(r"^Test Failed\.", text, re.MULTILINE) is not None
        if not counted:
            return self.fail(where, "ended without its counted line")
        passed, failed, skipped = map(int, counted[-1])
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        if failed:
            self.lines.append(f"FAILED {where}: {failed} cases")
        elif is_failed:
            self.fail(where, "failed after its last case (a sanitizer's report, or a time-out)")
        reasons = SKIPPED.findall(text)
        self.lines += [f"skipped {where}: {reason}" for reason in reasons]
        if len(reasons) < skipped:
            self.lines.append(f"skipped {where}: {skipped - len(reasons)} cases that gave no reason")

    def add_ctest(self, name, text):
        sections = SECTION.findall(text)
        if not sections:
            self.fail(name, "no test ran")
        for test, body in sections:
            self.add_program(f"{name}.{test}", body)

    def add_pytest(self, name, text):
        for case in ElementTree.fromstring(text).iter("testcase"):
            where = f"{name}.{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                self.fail(where, (wrong.get("message") or "").split("\n")[0])
            elif skipped is not None:
                self.skip(where, skipped.get("message"))
            else:
                self.passed += 1

    def add(self, name, path):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError as error:
            return self.fail(name, f"no results: {error}")
        if path.endswith(".xml"):
            self.add_pytest(name, text)
        elif path.endswith(".counted"):
            self.add_program(name, text)
        else:
            self.add_ctest(name, text)


def main(arguments):
    tally = Tally()
    for argument in arguments:
        tally.add(*argument.split("=", 1))
    print("\n".join(tally.lines + [f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped"]))
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
