"""The command lines of assay and assayd, read from what `--help` prints.

`read(program, words)` runs `program words… --help`, and does the same for every
subcommand. Lists of options, positionals and subcommands are parsed; the rest is kept as text.
"""

import dataclasses
import os
import re
import subprocess

COLUMN = 30  # where CLI11 begins descriptions, in bytes


@dataclasses.dataclass
class Entry:
    """A line of a list: an option, a positional or a subcommand."""

    names: list  # ["-h", "--help"], ["job"], ["conv", "convolution"]
    argument: str  # "FILE", "LIST …", "" where the option takes none
    description: str

    @property
    def repeats(self):
        return "..." in self.argument

    @property
    def kind(self):
        """The first word of the argument, without what it may repeat or has to hold."""
        return re.split(r"[ :\[]", self.argument)[0] if self.argument else ""

    def values(self):
        """The words it takes, where the description is a plain list of them."""
        if self.kind not in ("WORD", "LEVEL"):
            return []
        text = re.sub(r" ?\([^)]*\)", "", self.description).split(": ")[-1].split("; ")[0]
        words = [word for word in re.split(r", | or ", text) if word]
        return words if len(words) > 1 and all(re.fullmatch(r"[a-z][a-z0-9_-]*", w) for w in words) else []


@dataclasses.dataclass
class Command:
    """What one `--help` says, and the commands below it."""

    words: list  # ["assay", "run", "gemm"]
    summary: str = ""
    usage: str = ""
    positionals: list = dataclasses.field(default_factory=list)
    groups: list = dataclasses.field(default_factory=list)  # (title, [Entry]) as printed
    texts: list = dataclasses.field(default_factory=list)  # paragraphs, lines as printed
    exit_status: str = ""  # the sentence "Exit codes: …", without these words
    commands: list = dataclasses.field(default_factory=list)  # Command
    aliases: list = dataclasses.field(default_factory=list)

    def options(self):
        return [entry for _, entries in self.groups for entry in entries]


def _split(line, following):
    """A list's line in two: what it names, and its description."""
    raw = line.encode()
    if len(raw) > COLUMN and raw[COLUMN - 1:COLUMN] == b" ":
        return raw[2:COLUMN].decode().strip(), raw[COLUMN:].decode().strip()
    if following is not None and following.startswith(" " * COLUMN):
        return line.strip(), following.strip()
    named, _, description = line.strip().partition("  ")
    return named, description.strip()


def _entry(named, description):
    if named.startswith("-"):
        names, _, argument = named.partition(" ")
        return Entry(names.split(","), argument.strip(), description)
    name, _, argument = named.partition(" ")
    return Entry([name], argument.strip(), description)


def _take(command, paragraph):
    """Adds a text to a command: what it says of exit codes is kept apart."""
    start = next((n for n, line in enumerate(paragraph) if line.startswith("Exit codes: ")), None)
    if start is not None:
        said = " ".join(paragraph[start:]).removeprefix("Exit codes: ")
        command.exit_status, _, rest = said.rstrip(".").partition(". ")
        _take(command, [rest + "."] if rest else [])
        paragraph = paragraph[:start]
    if paragraph:
        command.texts.append(paragraph)


def parse(words, text):
    """A Command of one help text; its subcommands are named in `commands`, not yet read."""
    command = Command(list(words))
    lines = text.splitlines()
    title, paragraph = None, []
    for number, line in enumerate(lines + [""]):
        following = lines[number + 1] if number + 1 < len(lines) else None
        if not line.strip():
            _take(command, paragraph)
            title, paragraph = None, []
        elif not command.usage and line.startswith("Usage: "):
            command.usage = line[len("Usage: "):]
            command.summary = " ".join(paragraph)
            paragraph = []
        elif title is None and not paragraph and not line.startswith(" ") and line.endswith(":") \
                and following and re.match(r"  \S", following):
            title = line[:-1]
        elif title is None:
            paragraph.append(line)
        elif not line.startswith(" " * COLUMN):
            named, description = _split(line, following)
            if title == "Subcommands":
                names = [name.strip() for name in named.split(",")]
                command.commands.append(Command([*words, names[0]], description, aliases=names[1:]))
            elif title == "Positionals":
                command.positionals.append(_entry(named, description))
            else:
                if not command.groups or command.groups[-1][0] != title:
                    command.groups.append((title, []))
                command.groups[-1][1].append(_entry(named, description))
    return command


def read(program, words):
    """The command `words`, and everything below it."""
    done = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=60)
    command = parse(words, done.stdout)
    below = []
    for named in command.commands:
        whole = read(program, named.words)
        whole.aliases = named.aliases
        below.append(whole)
    command.commands = below
    return command


def walk(command):
    yield command
    for below in command.commands:
        yield from walk(below)
