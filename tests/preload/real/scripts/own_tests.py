"""Runs one of Python's own tests, and writes how each of its cases ended."""
import subprocess
import sys
from xml.etree import ElementTree

command = [sys.executable, "-m", "test", "--junit-xml", "results.xml", sys.argv[1]]
run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
# 2 says that a case has failed: a few do where Python is not installed as its authors do it, and
# do so always.
if run.returncode not in (0, 2):
    sys.stdout.buffer.write(run.stdout)
    sys.exit(f"the tests ended with {run.returncode}")
cases = ElementTree.parse("results.xml").iter("testcase")
for line in sorted({" ".join([case.get("name"), *(it.tag for it in case)]) for case in cases}):
    print(line)
