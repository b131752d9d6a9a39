#!/usr/bin/env python3
"""Writes manual pages and shell completions from the programs' own help.

    generate.py --assay PROGRAM --assayd PROGRAM --version VERSION --output FOLDER

makes FOLDER/man/man1, man/man8, bash-completion, zsh and fish. It runs when Assay is
installed, so that pages and completions agree with the programs.
"""

import argparse
import datetime
import gzip
import os
import pathlib
import shutil
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "completions")]
import help as help_text  # noqa: E402
import pages  # noqa: E402
import shells  # noqa: E402

NAMES = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}  # as each shell looks for them


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assay", required=True)
    parser.add_argument("--assayd", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch \
        else datetime.datetime.now(datetime.timezone.utc)
    for part in ["man", *NAMES]:  # so that a command that is gone has no page
        shutil.rmtree(arguments.output / part, ignore_errors=True)
    for name, program, section in (("assay", arguments.assay, 1), ("assayd", arguments.assayd, 8)):
        root = help_text.read(program, [name])
        for shell, make in shells.SHELLS.items():
            write(arguments.output / shell / NAMES[shell].format(name), make(root))
        for file, text in pages.pages(root, section, day.strftime("%Y-%m-%d"), arguments.version):
            write(arguments.output / "man" / f"man{section}" / f"{file}.gz", text)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


if __name__ == "__main__":
    main()
