"""Completions for bash, zsh and fish, of commands read by deploy/man/help.py.

Words and options are written into the files; what only a daemon knows (its suites,
jobs, devices) is asked of it when Tab is pressed, and is nothing where it cannot be.
"""

import sys

# What completes an argument beyond a list of words: by command, then by option, then by kind.
BY_COMMAND = {"assay suites show": "suites", "assay devices release": "devices"}
BY_NAME = {"--suite": "suites", "--device": "devices", "job": "jobs"}
BY_KIND = {"FILE": "files", "DIR": "folders"}
# Where --format takes fewer words than it lists.
FORMATS = {
    "assay qualify": ["table", "json", "markdown"],
    "assay selftest": ["table", "json", "markdown"],
    "assay explain": ["table", "json", "jsonl"],
    "assay fleet run": ["table", "json", "html"],
    "assay fleet compare": ["table", "json", "html"],
    "assay fleet status": ["table", "json"],
    "assay suites show": ["table", "json"],
    "assay version": ["table", "json"],
    "assay baseline show": ["table", "json", "jsonl", "csv"],
    "assay baseline compare": ["table", "json", "jsonl", "csv", "markdown"],
    **{f"assay {listing}": ["table", "json", "jsonl"]
       for listing in ("admin audit", "baseline list", "devices", "devices release", "jobs", "kernels", "suites")},
}
# First words of the lines of a table.
ASK = {
    "suites": "assay suites",
    "jobs": "assay jobs --limit 20",
    "devices": "assay devices",
}


def _walk(command):
    yield command
    for below in command.commands:
        yield from _walk(below)


def source(entry):
    """What completes an argument: "files", "folders", a key of ASK, a list of words, or None."""
    for name in entry.names:
        if name in BY_NAME:
            return BY_NAME[name]
    return entry.values() or BY_KIND.get(entry.kind)


def first(command):
    """What completes a command's first positional."""
    if not command.positionals:
        return None
    return BY_COMMAND.get(" ".join(command.words)) or source(command.positionals[0])


def options(command, root):
    """The options that may stand in a command: its own, and those of the program."""
    seen, found = set(), []
    for entry in command.options() + (root.options() if command is not root else []):
        names = tuple(entry.names)
        if names in seen or "--version" in names and command is not root:
            continue
        seen.add(names)
        found.append(entry)
    return found


def _paths(command):
    """Every spelling of a command's words, aliases included."""
    return [" ".join(command.words)] + [" ".join(command.words[:-1] + [a]) for a in command.aliases]


def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _sh_case(rows, indent):
    """case branches, those with one body joined."""
    bodies = {}
    for pattern, body in rows:
        bodies.setdefault(body, []).append(pattern)
    return [f"{indent}{' | '.join(patterns)}) {body} ;;" for body, patterns in bodies.items()]


def _answer(wanted, root):
    if isinstance(wanted, str):
        return f"_{root.words[0]}_ask {wanted}"
    return f"echo {_quote(' '.join(wanted))}"


def _tables(root):
    """Subcommands, options, and arguments by command path, as shell case branches."""
    words, flags, taking, arguments = [], [], set(), []
    for command in _walk(root):
        paths = " | ".join(map(_quote, _paths(command)))
        if command.commands:
            names = " ".join(n for c in command.commands for n in [c.words[-1], *c.aliases])
            words.append((paths, f"echo {_quote(names)}"))
        elif first(command):
            words.append((paths, _answer(first(command), root)))
        flags.append((paths, f"echo {_quote(' '.join(n for e in options(command, root) for n in e.names))}"))
        for entry in options(command, root):
            if not entry.argument:
                continue
            taking.update(entry.names)
            wanted = source(entry)
            if wanted:
                row = (" | ".join(entry.names), _answer(wanted, root))
                if row not in arguments:
                    arguments.append(row)
    return words, flags, sorted(taking), arguments


def _formats(root):
    """The commands of FORMATS that the program has."""
    return [command for command in _walk(root) if " ".join(command.words) in FORMATS]


def _sh_formats(root):
    rows = [(" | ".join(_quote("--format " + path) for path in _paths(command)),
             f"{_answer(FORMATS[' '.join(command.words)], root)}; return") for command in _formats(root)]
    return ['  case "$1 $2" in', *_sh_case(rows, "    "), "  esac"] if rows else []


def _shell_functions(root):
    """Functions that bash and zsh share: they print words, or @files or @folders."""
    program = root.words[0]
    words, flags, taking, arguments = _tables(root)
    lines = [f"_{program}_ask() {{", "  case $1 in", "    files) echo @files ;;",
             "    folders) echo @folders ;;"]
    if program == "assay":
        for what, command in ASK.items():
            lines.append(f"    {what}) {command} 2>/dev/null </dev/null | awk 'NR > 1 && NF {{ print $1 }}' ;;")
    lines += ["  esac", "}", f"_{program}_words() {{", "  case $1 in", *_sh_case(words, "    "), "  esac", "}",
              f"_{program}_options() {{", "  case $1 in", *_sh_case(flags, "    "), "  esac", "}",
              "# Options that take an argument.", f"_{program}_takes() {{", "  case $1 in",
              f"    {' | '.join(taking)}) return 0 ;;", "  esac", "  return 1", "}",
              "# What an option takes, of the command given.", f"_{program}_argument() {{",
            *_sh_formats(root), "  case $1 in", *_sh_case(arguments, "    "), "  esac", "}",
              "# The command among the words given.", f"_{program}_path() {{",
              f"  local at={program} skip= word", "  shift", "  for word; do",
              "    if [[ -n $skip ]]; then skip=; continue; fi",
              f"    if _{program}_takes \"$word\"; then skip=1; continue; fi",
              "    [[ $word == -* ]] && continue",
              f"    [[ \" $(_{program}_commands \"$at\") \" == *\" $word \"* ]] && at+=\" $word\"",
              "  done", "  printf '%s' \"$at\"", "}"]
    above = {" | ".join(map(_quote, _paths(command))) for command in _walk(root) if command.commands}
    commands = [(paths, body) for paths, body in words if paths in above]
    return [*lines, f"_{program}_commands() {{", "  case $1 in", *_sh_case(commands, "    "),
            *([] if commands else ["    *) ;;"]), "  esac", "}"]


HEAD = "# Completion of {program} for {shell}, made from its --help."


def bash(root):
    program = root.words[0]
    return "\n".join([
        HEAD.format(program=program, shell="bash"), *_shell_functions(root),
        f"_{program}() {{",
        "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} at offer",
        f"  at=$(_{program}_path \"${{COMP_WORDS[@]:0:COMP_CWORD}}\")",
        f"  if _{program}_takes \"$previous\"; then",
        f"    offer=$(_{program}_argument \"$previous\" \"$at\")",
        "  elif [[ $current == -* ]]; then",
        f"    offer=$(_{program}_options \"$at\")",
        "  else",
        f"    offer=$(_{program}_words \"$at\")",
        "  fi",
        "  case $offer in",
        "    @files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;",
        "    @folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;",
        "    *) mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$current\") ;;",
        "  esac", "}", f"complete -F _{program} {program}", ""])


def zsh(root):
    program = root.words[0]
    described = []
    for command in _walk(root):
        rows = [(e.names[-1], e.description) for e in options(command, root)]
        text = " ".join(_quote(f"{name}:{what}") for name, what in rows)
        described.append((" | ".join(map(_quote, _paths(command))), f"offer=({text})"))
    summaries = []
    for command in _walk(root):
        if command.commands:
            text = " ".join(_quote(f"{n}:{c.summary}") for c in command.commands
                            for n in [c.words[-1], *c.aliases])
            summaries.append((" | ".join(map(_quote, _paths(command))), f"offer=({text})"))
    return "\n".join([
        f"#compdef {program}", HEAD.format(program=program, shell="zsh"), *_shell_functions(root),
        f"_{program}() {{",
        "  local current=${words[CURRENT]} previous=${words[CURRENT-1]} at answer",
        "  local -a offer",
        f"  at=$(_{program}_path \"${{(@)words[1,CURRENT-1]}}\")",
        f"  if _{program}_takes \"$previous\"; then",
        f"    answer=$(_{program}_argument \"$previous\" \"$at\")",
        "  elif [[ $current == -* ]]; then",
        "    case $at in", *_sh_case(described, "      "), "    esac",
        "    _describe option offer", "    return",
        "  else",
        "    case $at in", *_sh_case(summaries, "      "), "    esac",
        "    if (( $#offer )); then _describe command offer; return; fi",
        f"    answer=$(_{program}_words \"$at\")",
        "  fi",
        "  case $answer in",
        "    @files) _files ;;", "    @folders) _files -/ ;;",
        "    ?*) offer=(${=answer}); compadd -a offer ;;",
        "  esac", "}",
        # Read by the completion system the file is the function's body; sourced, it defines it.
        f"if [[ $funcstack[1] == _{program} ]]; then _{program} \"$@\"; else compdef _{program} {program}; fi",
        ""])


def _fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_condition(command):
    """Holds where the words so far have the command's, and none below it."""
    program = command.words[0]
    if not command.words[1:]:
        return "__fish_use_subcommand"
    spelled = [" ".join([*command.words[1:-1], n]) for n in [command.words[-1], *command.aliases]]
    return f"__{program}_at " + " ".join(_fish_quote(s) for s in spelled)


def fish(root):
    program = root.words[0]
    names = sorted({n for c in _walk(root) if c is not root for n in [c.words[-1], *c.aliases]})
    lines = [HEAD.format(program=program, shell="fish"), f"complete -c {program} -f"]
    if names:
        taking = sorted({n for c in _walk(root) for e in options(c, root) if e.argument for n in e.names})
        lines += ["# Whether the commands among the words so far are these.", f"function __{program}_at",
                  f"    set -l commands {' '.join(names)}", f"    set -l taking {' '.join(taking)}",
                  "    set -l at", "    set -l skip 0", "    for word in (commandline -opc)[2..-1]",
                  "        if test $skip = 1", "            set skip 0",
                  "        else if contains -- $word $taking", "            set skip 1",
                  "        else if contains -- $word $commands", "            set -a at $word", "        end",
                  "    end", "    contains -- \"$at\" $argv", "end"]
    for command in _walk(root):
        where = f" -n {_fish_quote(_fish_condition(command))}" if names else ""
        for below in command.commands:
            for name in [below.words[-1], *below.aliases]:
                lines.append(f"complete -c {program}{where} -a {name} -d {_fish_quote(below.summary)}")
        if not command.commands:
            what = f" -d {_fish_quote(command.positionals[0].description)}" if command.positionals else ""
            lines += _fish_argument(f"complete -c {program}{where}{what}", first(command))
        for entry in command.options():
            flags = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in entry.names)
            here = "" if command is root else where
            if command is root and "--format" in entry.names and _formats(root):
                lines += _fish_formats(root, f"{flags} -d {_fish_quote(entry.description)}")
                spelled = " ".join(_fish_condition(c).partition(" ")[2] for c in _formats(root))
                here = f" -n {_fish_quote(f'not __{program}_at {spelled}')}"
            base = f"complete -c {program}{here}{flags} -d {_fish_quote(entry.description)}"
            if not entry.argument:
                lines.append(base)
            else:
                lines += _fish_argument(base + " -r", source(entry)) or [base + " -r -f"]
    return "\n".join(lines) + "\n"


def _fish_formats(root, flags):
    return [line for command in _formats(root) for line in _fish_argument(
        f"complete -c {root.words[0]} -n {_fish_quote(_fish_condition(command))}{flags} -r", FORMATS[" ".join(command.words)])]


def _fish_argument(base, wanted):
    if wanted == "files":
        return [f"{base} -F"]
    if wanted == "folders":
        return [f"{base} -f -a '(__fish_complete_directories)'"]
    if isinstance(wanted, str):
        ask = f"{ASK[wanted]} 2>/dev/null </dev/null | awk \"NR > 1 && NF {{ print \\$1 }}\""
        return [f"{base} -f -a {_fish_quote('(' + ask + ')')}"]
    if wanted:
        return [f"{base} -f -a {_fish_quote(' '.join(wanted))}"]
    return []


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}

if __name__ == "__main__":
    sys.exit("run deploy/man/generate.py")
