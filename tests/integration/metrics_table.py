#!/usr/bin/env python3
"""The table of metrics in deploy/prometheus/README.md, made of server/metrics/families.h.

    tests/integration/metrics_table.py            prints the table as it must be
    tests/integration/metrics_table.py --update   writes it into the page

Names, types and help come from the code. The labels of a metric are written by hand, in the
page; metrics_test.py compares them with a scrape. A label with a question mark is one that only
some devices have.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "deploy", "prometheus", "README.md")
FAMILIES = os.path.join(ROOT, "server", "metrics", "families.h")
HEAD = "| metric | type | labels | help |\n|---|---|---|---|\n"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def in_code():
    """Metric name to its type and help, in the order of the code."""
    literal = r'"((?:[^"\\]|\\.)*)"'
    found = re.findall(r'(Counter|Gauge|Histogram)s\(\s*"(\w+)",\s*((?:%s\s*)+)\)' % literal,
                       read(FAMILIES))
    return {"assay_" + name: (kind.lower(), "".join(re.findall(literal, words)).replace('\\"', '"'))
            for kind, name, words, _ in found}


def table_in_page():
    text = read(PAGE)
    begin = text.index(HEAD)
    return text[begin:].split("\n\n")[0] + "\n"


def labels_in_page():
    """Metric name to the set of its labels."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", table_in_page(), re.M)
    return {name: set(filter(None, re.split(r",\s*", labels.strip()))) for name, labels in rows}


def table():
    """The table as it must be; a metric that is new in the code has no labels yet."""
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", table_in_page(), re.M))
    return HEAD + "".join(
        f"| `{name}` | {kind} | {rows.get(name, '').strip()} | {words.replace('|', chr(92) + '|')} |\n"
        for name, (kind, words) in in_code().items())


def main():
    if sys.argv[1:] == ["--update"]:
        text = read(PAGE).replace(table_in_page(), table())
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
    elif sys.argv[1:]:
        sys.exit(f"metrics_table.py: unknown option \"{sys.argv[1]}\"; known: --update")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
