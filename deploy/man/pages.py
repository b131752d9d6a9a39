"""Manual pages, made from the commands that help.py has read.

A program has a page, and so has each of its commands. A command below a command is a section of
that command's page.
"""

import re

FILES = {
    "assay": [("~/.config/assay/targets.toml", "named targets")],
    "assayd": [("/etc/assay/assayd.toml", "the configuration: every option is a key here, without its dashes"),
               ("/var/lib/assay", "the store of the daemon that systemd starts")],
}

# The exit codes of commands whose help does not say them. A command that judges has the exit codes of
# the program's help.
JUDGE = {"assay run", "assay bench", "assay selftest", "assay watch", "assay compare"}
DONE = "0 done, whatever verdicts are shown, 2 usage or a malformed request, " \
       "3 the daemon cannot be reached, or it refused"
ENDS = {
    "assay version": "0 every daemon answered, 2 usage, 3 a daemon cannot be reached, or it refused; the client's "
                     "version is printed all the same (without a daemon: assay --version)",
    "assay explain": DONE + ", 4 there is no result yet",
    "assay show": DONE + ", 4 the case gave no elements to show",
    "assay baseline compare": "0 nothing became slower, 1 a case became slower or fails now, 2 usage, a malformed "
                              "request or another device, 3 the daemon cannot be reached, or it refused, 4 nothing "
                              "was compared, or a case is too noisy to tell",
}


def roff(text):
    """The text in roff's notation, as ASCII."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)
    return re.sub(r"^([.])", r"\\&\1", text)


def _option(entry):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names)
    return names + (f" \\fI{roff(entry.argument.replace(' ...', ' …'))}\\fR" if entry.argument else "")


def _entries(entries):
    lines = []
    for entry in entries:
        lines += [".TP", _option(entry), roff(entry.description) or "\\&"]
    return lines


def _text(paragraph):
    if any(line.startswith("  ") for line in paragraph):  # a table, or commands
        return [".PP", ".nf", *map(roff, paragraph), ".fi"]
    return [".PP", *map(roff, paragraph)]


def _lists(command, heading, seen_texts):
    lines = []
    if command.positionals:
        lines += [f".{heading} {'ARGUMENTS' if heading == 'SH' else 'Arguments'}"]
        for entry in command.positionals:
            lines += [".TP", f"\\fI{roff(entry.names[0])}\\fR", roff(entry.description) or "\\&"]
    for title, entries in command.groups:
        shown = title.upper() if heading == "SH" else title
        lines += [f'.{heading} "{roff(shown)}"', *_entries(entries)]
    for paragraph in command.texts:
        if paragraph in seen_texts:
            continue
        seen_texts.append(paragraph)
        notes = f".{heading} {'NOTES' if heading == 'SH' else 'Notes'}"
        if notes not in lines:
            lines += [notes, *_text(paragraph)[1:]]  # the heading begins a paragraph by itself
            continue
        lines += _text(paragraph)
    return lines


def _page(command, section, date, version, root):
    name = "-".join(command.words)
    summary = command.summary.rstrip(".") or name
    lines = [f'.TH {roff(name.upper())} {section} {date} "assay {roff(version)}" "Assay"', ".SH NAME",
             f"{roff(name)} \\- {roff(summary)}", ".SH SYNOPSIS"]
    usage = command.usage.split(" ")
    lines.append(f"\\fB{roff(' '.join(command.words))}\\fR " + roff(" ".join(usage[len(command.words):])))
    if command is root and command.commands:
        lines.append(".SH COMMANDS")
        for below in command.commands:
            lines += [".TP", f"\\fB{roff(name)}\\-{roff(below.words[-1])}\\fR({section})",
                      roff(below.summary)]
    seen = []
    lines += _lists(command, "SH", seen)
    if command is not root:
        for below in command.commands:
            lines += [f'.SH "{roff(" ".join(below.words).upper())}"', roff(below.summary), ".PP",
                      f"\\fB{roff(' '.join(below.words))}\\fR "
                      + roff(" ".join(below.usage.split(' ')[len(below.words):]))]
            common = command.options()
            own = [(title, [e for e in entries if e not in common]) for title, entries in below.groups]
            below.groups = [(title, entries) for title, entries in own if entries]
            # "Options of every case" stand above, once.
            below.texts = [t for t in below.texts if len(t) > 1 or not t[0].startswith("Options of")]
            lines += _lists(below, "SS", seen)
    return lines, name


def _exit_status(command, root):
    if command.exit_status or command is root:
        return command.exit_status
    if " ".join(command.words[:2]) in JUDGE:
        return root.exit_status
    return ENDS.get(" ".join(command.words), DONE)


def _exit_section(command, root):
    """The exit codes of a command, or of each command below it if these differ."""
    acting = [command] if command is root or not command.usage.endswith(" SUBCOMMAND") else []
    acting += command.commands if command is not root else []
    said = [_exit_status(each, root) for each in acting]
    if not any(said):
        return []
    if len(set(said)) == 1:
        return [".SH EXIT STATUS", roff(said[0] + ".")]
    lines = [".SH EXIT STATUS"]
    for each, what in zip(acting, said):
        lines += [".TP", f"\\fB{roff(' '.join(each.words))}\\fR", roff(what + ".")]
    return lines


def _ending(command, root, section, name):
    lines = _exit_section(command, root)
    said = " ".join(e.description for e in root.options())
    names = sorted(set(re.findall(r"\bASSAY_[A-Z]+\b", said)))
    if names:
        lines.append(".SH ENVIRONMENT")
        for variable in names:
            option = next(e for e in root.options() if variable in e.description)
            lines += [".TP", f"\\fB{variable}\\fR", f"the value of \\fB{roff(option.names[-1])}\\fR if the option is not given"]
    files = FILES.get(root.words[0], [])
    if files:
        lines.append(".SH FILES")
        for path, what in files:
            lines += [".TP", f"\\fI{roff(path)}\\fR", roff(what)]
    others = [page for page in ("assay(1)", "assayd(8)") if page != f"{name}({section})"]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{roff(p[:-3])}\\fR{p[-3:]}" for p in others)]
    return lines


def pages(root, section, date, version):
    """(file name, text) of every page of a program."""
    made = []
    for command in [root, *root.commands]:
        lines, name = _page(command, section, date, version, root)
        lines += _ending(command, root, section, name)
        made.append((f"{name}.{section}", "\n".join(line.rstrip() for line in lines) + "\n"))
    return made
