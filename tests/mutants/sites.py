"""Finds what can be changed in a C++ source, and rewrites the source so that it holds all changes.

The sources are formatted by clang-format, so that blanks tell a comparison from a template's
bracket, and a product from a pointer. Only what a function computes is changed. What it says in
messages (the arguments of Cat and StrFormat) is left alone.
"""

import bisect
import dataclasses
import re

SWITCH = "tests/mutants/mutant_switch.h"

RELATIONS = {"<": ("Lt", "<=", ">="), "<=": ("Le", "<", ">"), ">": ("Gt", ">=", "<="),
             ">=": ("Ge", ">", "<"), "==": ("Eq", None, "!="), "!=": ("Ne", None, "==")}
ARITHMETIC = {"+": ("Plus", "-"), "-": ("Minus", "+"), "*": ("Times", "/"), "/": ("Over", "*"), "%": ("Modulo", "/"),
              "+=": ("PlusTo", "-="), "-=": ("MinusTo", "+="), "*=": ("TimesTo", "/="), "/=": ("OverTo", "*=")}
# What a word of the judge is changed to.
INSTEAD = {"Verdict": {"kFailed": "kInconclusive", "kInconclusive": "kFailed", "": "kPassed"},
           "Reason": {"kSuspect": "kBound", "": "kSuspect"},
           "Gate": {"kBound": "kBoundProbable", "kBoundProbable": "kBound", "kUlp": "kBitwise", "": "kUlp"}}

BINARY = re.compile(r"(?<=\s)(<=|>=|==|!=|\+=|-=|\*=|/=|&&|\|\||[<>+\-*/%])(?=\s)")
NUMBER = re.compile(r"(?<![\w.'])(0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?|\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?)[uUlLfF]*(?![\w.])")
NAMED = re.compile(r"\bconstexpr\s+(?:[\w:]+\s+)*?([\w:]+)\s+(k[A-Z]\w*)(\[\w*\])?\s*(=|\{)")
WORDING = re.compile(r"\b(?:Cat|StrCat|StrFormat|Append|StrAppend|Skip|InvalidArgumentError)\(")
STATEMENT = re.compile(r"(?:\+\+|--|\*)?[\w:]+(?:<[^;()]*>)?(?:\(|\.|->|\[| [-+*/|&^]?= )|(?:\+\+|--)[\w*(]|(?:break|continue|return);")
NO_STATEMENT = re.compile(r"(?:return|using|case|default|static_assert|if|for|while|switch|do|else|goto|delete|throw|"
                          r"public|private|protected|std::(?:vector|optional|span|string|map)<[^()]*> \w)\b(?!;)|default:")
OPEN, CLOSE = "([{", ")]}"


@dataclasses.dataclass
class Mutant:
    """One change. `plain` are the edits (begin, end, text) that make it alone."""
    file: str
    line: int
    text: str    # of the line
    change: str
    plain: list
    id: int = -1
    which: int = 1  # of several such changes of the line

    def name(self):
        return self.change if self.which == 1 else f"{self.change} ({self.which})"


def masked(source):
    """The source with blanks for comments, strings and the preprocessor's lines."""
    out = list(source)

    def blank(begin, end):
        for i in range(begin, end):
            if out[i] != "\n":
                out[i] = " "

    for m in re.finditer(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                         source, re.S | re.M):
        begin, end = m.span()
        if source[begin] == '"':
            begin, end = begin + 1, end - 1
        blank(begin, end)
    return "".join(out)


class Source:
    """A source, its mutants, and the rewritten text."""

    def __init__(self, file, text, first_id, constants=(), only_constants=False, left_out=()):
        self.file, self.original = file, text
        self.code = masked(text)
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.lines = text.split("\n")
        self.first_id = first_id
        self.left_out = left_out  # lines whose rewriting does not compile
        self.mutants, self.inserts, self.replaced = [], [], {}
        self.constants = dict(constants)  # name: (id up, id down)
        self.own_constants = {}
        self.pairs = self.match_brackets()
        self.find_ranges()
        if not only_constants:
            self.declare_constants()
        self.use_constants()
        if not only_constants:
            for find in (self.statements, self.conditions, self.ternaries, self.chains, self.nots, self.binaries,
                         self.extremes, self.literals, self.words):
                find()
        self.count_equal_ones()

    # ---- the text

    def text_of(self, line):
        """The line as the table names it: a line of a word or two with those before it."""
        parts = []
        while line > 0:
            parts.insert(0, self.lines[line - 1].strip())
            if len(parts[0]) >= 12:
                break
            line -= 1
        return " / ".join(p for p in parts if p)

    def line_of(self, at):
        return bisect.bisect_right(self.starts, at)

    def match_brackets(self):
        pairs, stack = {}, []
        for i, c in enumerate(self.code):
            if c in OPEN:
                stack.append(i)
            elif c in CLOSE and stack:
                begin = stack.pop()
                pairs[begin], pairs[i] = i, begin
        return pairs

    def find_ranges(self):
        """Where nothing is changed: messages, types, constants, static_assert, template heads, labels, loops' steps."""
        self.closed = []
        for m in WORDING.finditer(self.code):
            self.closed.append((m.end() - 1, self.pairs.get(m.end() - 1, m.end())))
        for m in re.finditer(r"\bstatic_assert\(|\btemplate <|\bcase\b[^:\n]*(?:::\w+)*:|\boperator\b[^(]*\(|\bif constexpr \([^\n]*"
                             r"|\brequires\b[^\n]*|\busing\b[^;]*", self.code):
            end = m.end()
            if m.group().endswith("(") and m.group().startswith("static"):
                end = self.pairs.get(m.end() - 1, end)
            elif m.group() == "template <":
                end = self.code.find("\n", end)
            self.closed.append((m.start(), end))
        for m in re.finditer(r"\benum\b[^;{(]*\{", self.code):
            self.closed.append((m.start(), self.pairs.get(m.end() - 1, m.end())))
        self.tables = []
        for m in NAMED.finditer(self.code):
            end = self.end_of_statement(m.end() - (m.group(4) == "{"))
            table = m.group(3) is not None or (m.group(4) == "=" and re.match(r"\s*\{", self.code[m.end():]) is not None)
            if table and self.file.endswith(".cc"):
                self.tables.append(m)
                self.closed.append((m.start(), m.end()))
            else:
                self.closed.append((m.start(), end))
        self.closed.sort()

    def is_closed(self, at):
        return any(begin <= at < end for begin, end in self.closed) or self.line_of(at) in self.left_out

    def end_of_statement(self, at):
        while at < len(self.code) and self.code[at] != ";":
            if self.code[at] in OPEN:
                at = self.pairs.get(at, at)
            elif self.code[at] in CLOSE:
                return at
            at += 1
        return at

    def in_function(self, at):
        """Whether the innermost brace around `at` begins a block of statements."""
        depth = 0
        for i in range(at - 1, -1, -1):
            c = self.code[i]
            if c in CLOSE:
                depth += 1
            elif c in OPEN:
                if depth == 0:
                    if c != "{":
                        return False
                    before = self.code[:i].rstrip()
                    return before.endswith((")", "else", "do", "{", "}", ";", "const", "override", "]", ":", "noexcept")) or \
                        re.search(r"\)\s*(?:const|override|mutable|noexcept|HWY_ATTR|\s)*(?:->\s*[\w:<>*& ]+)?$", before) is not None
                depth -= 1
        return False

    def begin_of_operand(self, at, stops):
        i = at - 1
        while i >= 0:
            c = self.code[i]
            if c in CLOSE:
                if c == "}" and re.search(r"\n\s*$", self.code[:i]) and not re.match(r"\}\s*[)&|.]", self.code[i:]):
                    break
                i = self.pairs.get(i, 0)
            elif c in OPEN or c in ";,":
                break
            elif c.isspace():
                word = re.search(rf"(?:(?<=\s)(?:{stops})|\breturn)$", self.code[max(0, i - 8):i])
                if word:
                    break
            i -= 1
        i += 1
        return i + len(self.code[i:at]) - len(self.code[i:at].lstrip())

    def end_of_operand(self, at, stops):
        i = at
        while i < len(self.code):
            c = self.code[i]
            if c in OPEN:
                i = self.pairs.get(i, len(self.code))
            elif c in CLOSE or c in ";,":
                break
            elif c.isspace() and re.match(rf"\s+(?:{stops})\s", self.code[i:i + 200]):
                break
            i += 1
        return at + len(self.code[at:i].rstrip())

    # ---- mutants

    def add(self, at, change, plain):
        line = self.line_of(at)
        m = Mutant(self.file, line, self.text_of(line), change, plain)
        m.id = self.first_id + len(self.mutants)
        self.mutants.append(m)
        return m.id

    def wrap(self, begin, end, before, after):
        seq = len(self.inserts)
        self.inserts.append((begin, 1, (-end, seq), before))
        self.inserts.append((end, 0, (-begin, -seq), after))

    def declare_constants(self):
        for m in NAMED.finditer(self.code):
            if m in self.tables or m.group(3) or any(m.start() == t.start() for t in self.tables):
                continue
            if m.group(1) in ("auto", "char", "string_view", "std::string_view") or self.line_of(m.start()) in self.left_out:
                continue
            value_at = m.end()
            end = self.end_of_statement(value_at)
            value = self.original[value_at:end].strip().rstrip("}")
            if '"' in value or "sizeof" in value:
                continue
            flag = m.group(1) == "bool"
            if flag:
                plain = [(value_at, end, f" !({value})")]
                ids = (self.add(m.start(), f"{m.group(2)} turned", plain), -1)
            else:
                brace = "}" if m.group(4) == "{" else ""
                ids = (self.add(m.start(), f"{m.group(2)} larger", [(value_at, end, f" ({value}) * 2{brace}")]),
                       self.add(m.start(), f"{m.group(2)} smaller", [(value_at, end, f" ({value}) / 2{brace}")]))
            self.own_constants[m.group(2)] = ids
            self.constants[m.group(2)] = ids

    def use_constants(self):
        for name, (up, down) in self.constants.items():
            for m in re.finditer(rf"(?<![\w.])(?<!->)(?<!>::)(?:(?:\w+::)*)\b{name}\b(?!::)", self.code):
                closed = [c for c in self.closed if c[0] <= m.start() < c[1]]
                wording = all(WORDING.match(self.code, c[0] - 20) or self.code[c[0]] == "(" for c in closed)
                if (closed and not wording) or self.line_of(m.start()) in self.left_out:
                    continue
                if re.search(r"[\w>]<$|\w, $", self.code[:m.start()][-3:]) and self.code[m.end()] == ">":
                    continue  # a template's argument
                self.replaced[m.start()] = (m.end(), f"mut::Constant({up}, {down}, {m.group()})")

    def statements(self):
        for m in re.finditer(r"(?:[;{}):]|\belse)\s*(?=[\w*+(-])", self.code):
            at = m.end()
            before = m.group()[0]
            if self.is_closed(at) or not STATEMENT.match(self.code, at) or NO_STATEMENT.match(self.code, at):
                continue
            if before == ")":
                begin = self.pairs.get(m.start(), 0)
                if not re.search(r"\b(?:if|for|while)\s*$", self.code[:begin]):
                    continue
            if before == ":" and not re.search(r"\b(?:case [\w:]+|default):$", self.code[:m.start() + 1]):
                continue
            end = self.end_of_statement(at)
            if end >= len(self.code) or self.code[end] != ";" or not self.in_function(at):
                continue
            # A loop's head holds no statement of its own.
            what = " ".join(self.original[at:end].split())
            i = self.add(at, "without " + (what if len(what) <= 60 else what[:57] + "…"), [(at, end + 1, "{}")])
            self.wrap(at, end + 1, f"{{ if (!mut::On({i})) {{ ", " } }")

    @staticmethod
    def turned_elsewhere(condition):
        """Whether another mutant turns this condition: it is one comparison, or begins with `!`."""
        c = condition.strip()
        if re.search(r" (?:&&|\|\|) ", c):
            return False
        return len(re.findall(r"\s(?:<|>|<=|>=|==|!=)\s", c)) == 1 or re.fullmatch(r"!(?:[\w.\->:]|\(\))*(?:\([^()]*\))?", c) is not None

    def conditions(self):
        for m in re.finditer(r"\bif \(", self.code):
            begin, end = m.end(), self.pairs.get(m.end() - 1)
            if end is None or self.is_closed(m.start()):
                continue
            inside = self.code[begin:end]
            depth, cut = 0, -1
            for i, c in enumerate(inside):
                depth += (c in OPEN) - (c in CLOSE)
                if c == ";" and depth == 0:
                    cut = i
            begin += cut + 1
            begin += len(self.code[begin:end]) - len(self.code[begin:end].lstrip())
            condition = self.code[begin:end]
            if re.match(r"(?:const )?[\w:<>,]+[ *&]+\w+ = ", condition) or self.turned_elsewhere(condition):
                continue
            i = self.add(begin, "condition turned", [(begin, begin, "!("), (end, end, ")")])
            self.wrap(begin, end, f"mut::If({i}, ", ")")

    STOPS = r"=|\+=|-=|\|=|\?|:|<<"

    def ternaries(self):
        for m in re.finditer(r"\s\?\s", self.code):
            at = m.start()
            if self.is_closed(at):
                continue
            begin = self.begin_of_operand(at, self.STOPS)
            end = begin + len(self.code[begin:at].rstrip())
            if end <= begin or self.is_closed(begin) or self.turned_elsewhere(self.code[begin:end]):
                continue
            i = self.add(begin, "choice turned", [(begin, begin, "!("), (end, end, ")")])
            self.wrap(begin, end, f"mut::If({i}, ", ")")

    def chains(self):
        for op, other in (("||", "&&"), ("&&", "||")):
            stops = self.STOPS + (r"|\|\|" if op == "&&" else "")
            chains = {}
            for m in re.finditer(rf"(?<=\s){re.escape(op)}(?=\s)", self.code):
                if not self.is_closed(m.start()):
                    chains.setdefault(self.begin_of_operand(m.start(), stops), []).append(m.start())
            for begin, ops in chains.items():
                ids, ends = [], []
                for at in ops:
                    ids.append(self.add(at, f"{op} to {other}", [(at, at + 2, other)]))
                    ends.append(self.end_of_operand(at + 3, f"{stops}|{re.escape(op)}"))
                for i, at, end in reversed(list(zip(ids, ops, ends))):
                    self.wrap(begin, end, "mut::Turn(", f", mut::On({i}))")
                    left = begin + len(self.code[begin:at].rstrip())
                    self.wrap(begin, left, "mut::Turn(", f", mut::On({i}))")
                    right = at + 2 + len(self.code[at + 2:end]) - len(self.code[at + 2:end].lstrip())
                    self.wrap(right, end, "mut::Turn(", f", mut::On({i}))")

    def nots(self):
        for m in re.finditer(r"(?<=[\s(!])!(?=[\w(*])", self.code):
            if not self.is_closed(m.start()):
                i = self.add(m.start(), "! left out", [(m.start(), m.end(), "")])
                self.replaced[m.start()] = (m.end(), f"mut::Not{{{i}}} ->* ")

    def binaries(self):
        for m in BINARY.finditer(self.code):
            at, op = m.start(), m.group()
            if op in ("&&", "||") or self.is_closed(at) or (op == "*" and re.search(r"\b(?:const|auto)\s$", self.code[:at])):
                continue
            if op in RELATIONS:
                name, edge, turned = RELATIONS[op]
                edge_id = -1 if edge is None else self.add(at, f"{op} to {edge}", [(at, m.end(), edge)])
                turned_id = self.add(at, f"{op} to {turned}", [(at, m.end(), turned)])
                self.replaced[at] = (m.end(), f"{op} mut::{name}{{{edge_id}, {turned_id}}} {op}")
            else:
                name, other = ARITHMETIC[op]
                i = self.add(at, f"{op} to {other}", [(at, m.end(), other)])
                self.replaced[at] = (m.end(), f"{op} mut::{name}{{{i}}} {op}")

    def extremes(self):
        for m in re.finditer(r"\bstd::(min|max)(?:<([\w:]+)>)?\(", self.code):
            if self.is_closed(m.start()):
                continue
            name, other = ("Min", "max") if m.group(1) == "min" else ("Max", "min")
            argument = f", {m.group(2)}" if m.group(2) else ""
            i = self.add(m.start(), f"{m.group(1)} to {other}", [(m.start(1), m.end(1), other)])
            self.replaced[m.start()] = (m.end(), f"mut::{name}<{i}{argument}>(")

    def literals(self):
        for m in re.finditer(r"\b(true|false)\b", self.code):
            if not self.is_closed(m.start()):
                other = "false" if m.group() == "true" else "true"
                i = self.add(m.start(), f"{m.group()} to {other}", [(m.start(), m.end(), other)])
                self.replaced[m.start()] = (m.end(), f"mut::Constant({i}, -1, {m.group()})")
        for m in NUMBER.finditer(self.code):
            at, text = m.start(), self.original[m.start():m.end()]
            before, after = self.code[max(0, at - 40):at], self.code[m.end():m.end() + 12]
            dimension = re.search(r"(?:^|[^\w\s]|\s(?!return\b)\w[\w:]*)\s+\w+\[$|\)\[$", before) and after.startswith("]")
            argument = re.search(r"\w<(?:[\w:]+, )?$", before) or (after.startswith(">") and not after.startswith("> "))
            if self.is_closed(at) or dimension or argument or at in self.replaced:
                continue
            floating = re.search(r"[.eEpP]", text) if not text.lower().startswith("0x") else re.search(r"[.pP]", text)
            if floating:
                value = text.rstrip("fFlL").replace("'", "")
                zero = (float.fromhex(value) if "x" in value else float(value)) == 0
                up = "1.0" if zero else f"(2 * {text})"
                down = None if zero else f"({text} / 2)"
            else:
                value = int(text.rstrip("uUlL").replace("'", ""), 0)
                up, down = str(value + 1), str(value - 1) if value > 0 else None
            kind = "TableLiteral" if any(t.end() <= at < self.end_of_statement(t.end()) for t in self.tables) else "Literal"
            up_id = -1
            if not (before.endswith("[") and value_is_index(text)):
                up_id = self.add(at, f"{text} to {up}", [(at, m.end(), up)])
            down_id = -1 if down is None else self.add(at, f"{text} to {down}", [(at, m.end(), down)])
            self.replaced[at] = (m.end(), f"mut::{kind}({up_id}, {down_id}, {text})")
        for t in self.tables:  # a table of constants is filled when the program starts
            at = t.start()
            self.replaced[at] = (at + len("constexpr"), "const")

    def words(self):
        for kind, instead in INSTEAD.items():
            for m in re.finditer(rf"\b{kind}::(k\w+)\b(?!:)", self.code):
                if self.is_closed(m.start()) or m.start() in self.replaced:
                    continue
                other = f"{kind}::{instead.get(m.group(1), instead[''])}"
                if other == m.group():
                    other = f"{kind}::kFailed" if kind == "Verdict" else f"{kind}::kBitwise"
                i = self.add(m.start(), f"{m.group()} to {other}", [(m.start(), m.end(), other)])
                self.replaced[m.start()] = (m.end(), f"mut::Word({i}, {m.group()}, {other})")

    def count_equal_ones(self):
        seen = {}
        for m in self.mutants:
            key = (m.line, m.change)
            seen[key] = m.which = seen.get(key, 0) + 1

    # ---- the texts

    def rewritten(self):
        events = {}
        for at, phase, order, text in sorted(self.inserts):
            events.setdefault(at, []).append(text)
        out, at = [f'#include "{SWITCH}"\n#line 1 "{self.file}"\n'], 0
        while at < len(self.original):
            out += events.get(at, [])
            if at in self.replaced:
                at, text = self.replaced[at]
                out.append(text)
            else:
                out.append(self.original[at])
                at += 1
        return "".join(out)

    def with_only(self, mutant):
        text = self.original
        for begin, end, new in sorted(mutant.plain, reverse=True):
            text = text[:begin] + new + text[end:]
        return text


def value_is_index(text):
    return text.isdigit()
