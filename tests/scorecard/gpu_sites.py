"""The changes of tests/mutants/sites.py, and those of the GPU kernels' language (kernels/runtime/gpu/port.h).

A function of the language becomes a lambda that holds the mutants, as in kernel_sites.py. Barriers are left out by the
rule of single statements; here they also move behind the next statement.
"""

import re

import kernel_sites
import sites

ONE, PAIR, TRIPLE = "auto a", "auto a, auto b", "auto a, auto b, auto c"
TF32, BF16 = "FloatOf(BitsOf({}) & 0xffffe000u)", "FloatOf(BitsOf({}) & 0xffff0000u)"
LESS = "(b < a ? b : a)"


def reduced(name):
    return PAIR + ", auto c", [(f"{name} left out", "a")]


# A function as it is called: its parameters, and what it is changed to (name, expression).
CALLS = {
    "Fma": (TRIPLE, [("Fma to a difference", "Fma(a, b, -c)"),
                     ("Fma of a TF32 operand", f"Fma({TF32.format('a')}, b, c)"),
                     ("Fma of a bf16 operand", f"Fma(a, {BF16.format('b')}, c)"),
                     ("Fma to a TF32 sum", TF32.format("Fma(a, b, c)"))]),
    "Product": (PAIR, [("Product of a bf16 operand", f"Product({BF16.format('a')}, b)")]),
    "Exp": (ONE, [("Exp to Exp2", "Exp2(a)"), ("Exp rounded to bf16", BF16.format("Exp(a)"))]),
    "Exp2": (ONE, [("Exp2 to Exp", "Exp(a)"), ("Exp2 rounded to bf16", BF16.format("Exp2(a)"))]),
    "Sqrt": (ONE, [("Sqrt rounded to bf16", BF16.format("Sqrt(a)"))]),
    "Max": (PAIR, [("Max to a minimum", LESS), ("Max without its second", "a")]),
    "MaxNumber": (PAIR, [("MaxNumber to a minimum", LESS), ("MaxNumber without its second", "a")]),
    "ShuffleXor": (PAIR, [("ShuffleXor left out", "a")]),
    "Ballot": (ONE, [("Ballot to none", "0")]),
    "BlockReduce<Sum>": reduced("BlockReduce"),
    "BlockReduce<Largest>": reduced("BlockReduce"),
    "BlockReduce<Smallest>": reduced("BlockReduce"),
    "Merge": (PAIR, [("Merge turned", "Merge(b, a)"), ("Merge without its second", "a")]),
    "Weight": (PAIR, [("Weight turned", "Weight(b, a)")]),
    "Beats": (PAIR, [("Beats turned", "Beats(b, a)")]),
    "In::Load": (ONE, [("Load rounded to bf16", BF16.format("In::Load(a)"))]),
    "Out::Round": (ONE, [("Round after bf16", f"Out::Round({BF16.format('a')})")]),
    "Half::Round": (ONE, [("Half to BFloat", "BFloat::Round(a)")]),
    "Half::Load": (ONE, [("Half to BFloat", "BFloat::Load(a)")]),
}
NAMES = "|".join(sorted(map(re.escape, CALLS), key=len, reverse=True))
OTHER_FORMAT = {"Half": "BFloat", "BFloat": "Half"}
NEXT_HEAD = re.compile(r"(?:for|if|while) \(")


class GpuSource(sites.Source):
    """A GPU kernel's source with its mutants."""

    def find_ranges(self):
        super().find_ranges()
        # Imported names, and the macros that declare.
        for m in re.finditer(r"\busing [^;]*;|\bASSAY_(?:SHARED|BOUNDS|UNROLL_BY)\([^)]*\)", self.code):
            self.closed.append((m.start(), m.end()))
        self.closed.sort()

    def words(self):
        self.calls()
        self.launches()
        self.indices()
        self.barriers()
        before = dict(sites.INSTEAD)
        sites.INSTEAD["DType"] = kernel_sites.FORMATS
        super().words()
        sites.INSTEAD.clear()
        sites.INSTEAD.update(before)

    def calls(self):
        for m in re.finditer(rf"(?<![\w:.>])({NAMES})(?=\()", self.code):
            name = m.group(1)
            declared = re.search(r"\b(?:ASSAY_DEVICE(?:_MEMBER)?|ASSAY_OUTLINE)\b[^;{}()]*$", self.code[:m.start()])
            braces = "{" in self.code[m.end():self.pairs.get(m.end(), m.end())]  # a lambda's parameter cannot be one
            if self.is_closed(m.start()) or declared or braces or m.start() in self.replaced:
                continue
            parameters, changes = CALLS[name]
            names = parameters.replace("auto ", "")
            text = f"([&]({parameters}) {{ using R = decltype({name}({names})); "
            for change, expression in changes:
                i = self.add(m.start(), change, [(m.start(), m.end(), f"[&]({parameters}) {{ return {expression}; }}")])
                text += f"if constexpr (requires {{ static_cast<R>({expression}); }}) {{ " \
                        f"if (mut::On({i})) return static_cast<R>({expression}); }} else {{ mut::NoChange({i}); }} "
            self.replaced[m.start()] = (m.end(), text + f"return {name}({names}); }})")

    def launches(self):
        """A launch for another format of 16 bits."""
        for m in re.finditer(r"\b(Launch\w*)<([^;()]*\b(Half|BFloat)\b[^;()]*)>(?=\()", self.code):
            if self.is_closed(m.start()):
                continue
            other = re.sub(r"\b(Half|BFloat)\b", lambda f: OTHER_FORMAT[f.group()], m.group(2))
            i = self.add(m.start(), f"{m.group(3)} to {OTHER_FORMAT[m.group(3)]}",
                         [(m.start(2), m.end(2), other)])
            self.replaced[m.start()] = (m.end(), f"[&](auto&&... p) {{ return mut::On({i}) ? {m.group(1)}<{other}>(p...) : "
                                                 f"{m.group()}(p...); }}")

    def indices(self):
        for m in re.finditer(r"\b(?:Thread|Block)\(\)\.x\b", self.code):
            if not self.is_closed(m.start()):
                i = self.add(m.start(), f"{m.group()} of the next", [(m.start(), m.end(), f"({m.group()} + 1)")])
                self.replaced[m.start()] = (m.end(), f"({m.group()} + (mut::On({i}) ? 1u : 0u))")

    def barriers(self):
        """A barrier behind the statement that it stands before."""
        for m in re.finditer(r"(?<=\s)SyncBlock\(\);\s*", self.code):
            end = self.end_of_next(m.end())
            if end is None or self.is_closed(m.start()):
                continue
            statement = m.start() + len("SyncBlock();")
            i = self.add(m.start(), "barrier after the next statement",
                         [(m.start(), statement, ""), (end, end, " SyncBlock();")])
            self.wrap(m.start(), statement, f"{{ if (!mut::On({i})) {{ ", " } }")
            self.inserts.append((end, 1, (-end, len(self.inserts)), f" {{ if (mut::On({i})) SyncBlock(); }}"))

    def end_of_next(self, at):
        """Where the statement that begins at `at` ends, or None."""
        head = NEXT_HEAD.match(self.code, at)
        if head:
            at = self.pairs[head.end() - 1] + 1
            body = re.match(r"\s*\{", self.code[at:])
            if body:
                return self.pairs[at + body.end() - 1] + 1
        if re.match(r"\s*(?:\}|return\b|ASSAY_)", self.code[at:]):
            return None
        end = self.end_of_statement(at)
        return end + 1 if end < len(self.code) and self.code[end] == ";" else None
