"""The changes of tests/mutants/sites.py, and those of vector functions and formats.

A vector function becomes a lambda that holds the mutants: `hn::Add(a, b)` may compute hn::Sub(a, b).
"""

import re

import sites

# A vector function: its parameters, and what it is changed to (name, expression).
PAIR, TRIPLE = "auto a, auto b", "auto a, auto b, auto c"
NARROW = """[]<class V>(V v) HWY_ATTR {{ if constexpr (std::is_same_v<hn::TFromV<V>, float>) {{ \
const hn::DFromV<V> d; const hn::RebindToUnsigned<decltype(d)> du; \
return hn::BitCast(d, hn::And(hn::BitCast(du, v), hn::Set(du, {mask}u))); }} else {{ return v; }} }}"""
TF32, BF16 = NARROW.format(mask="0xffffe000"), NARROW.format(mask="0xffff0000")
CALLS = {
    "Add": (PAIR, [("Add to Sub", "hn::Sub(a, b)"), ("Add without its second", "a"),
                   ("Add rounded to TF32", f"{TF32}(hn::Add(a, b))")]),
    "Sub": (PAIR, [("Sub to Add", "hn::Add(a, b)")]),
    "Mul": (PAIR, [("Mul to Add", "hn::Add(a, b)"), ("Mul of a bf16 operand", f"hn::Mul({BF16}(a), b)")]),
    "Div": (PAIR, [("Div to Mul", "hn::Mul(a, b)")]),
    "MulAdd": (TRIPLE, [("MulAdd to MulSub", "hn::MulSub(a, b, c)"),
                        ("MulAdd of a TF32 operand", f"hn::MulAdd({TF32}(a), b, c)"),
                        ("MulAdd of a bf16 operand", f"hn::MulAdd(a, {BF16}(b), c)"),
                        ("MulAdd to a TF32 sum", f"{TF32}(hn::MulAdd(a, b, c))")]),
    "NegMulAdd": (TRIPLE, [("NegMulAdd to MulAdd", "hn::MulAdd(a, b, c)"), ("NegMulAdd without its product", "c")]),
    "Max": (PAIR, [("Max to Min", "hn::Min(a, b)"), ("Max without its second", "a")]),
    "Min": (PAIR, [("Min to Max", "hn::Max(a, b)")]),
    "Lt": (PAIR, [("Lt to Le", "hn::Not(hn::Lt(b, a))"), ("Lt to Ge", "hn::Not(hn::Lt(a, b))")]),
    "Gt": (PAIR, [("Gt to Ge", "hn::Not(hn::Lt(a, b))")]),
    "Eq": (PAIR, [("Eq to Ne", "hn::Not(hn::Eq(a, b))")]),
    "And": (PAIR, [("And to Or", "hn::Or(a, b)")]),
    "Or": (PAIR, [("Or to And", "hn::And(a, b)")]),
    "IfThenElse": (TRIPLE, [("IfThenElse turned", "hn::IfThenElse(a, c, b)")]),
    "FirstN": (PAIR, [("FirstN of one more", "hn::FirstN(a, b + 1)"), ("FirstN of one fewer", "hn::FirstN(a, b - 1)")]),
    "SumOfLanes": (PAIR, [("SumOfLanes to MaxOfLanes", "hn::MaxOfLanes(a, b)"), ("SumOfLanes to its first", "b")]),
    "MaxOfLanes": (PAIR, [("MaxOfLanes to MinOfLanes", "hn::MinOfLanes(a, b)"), ("MaxOfLanes to its first", "b")]),
}
FORMATS = {"kF16": "kBF16", "kBF16": "kF16", "kE4M3FN": "kE4M3FNUZ", "kE5M2": "kE5M2FNUZ", "": "kF16"}


class KernelSource(sites.Source):
    """A kernel's source with its mutants."""

    def find_ranges(self):
        super().find_ranges()
        # Imported names, template arguments that are no plain names, and macros that take one argument.
        for m in re.finditer(r"\busing [\w:]+;|\w<[^<>;\n]*\bk[A-Z]\w*[^<>;\n]*>|\bHWY_UNLIKELY\([^;]*?\{", self.code):
            self.closed.append((m.start(), m.end()))
        self.closed.sort()

    def words(self):
        self.calls()
        before = dict(sites.INSTEAD)
        sites.INSTEAD["DType"] = FORMATS
        super().words()
        sites.INSTEAD.clear()
        sites.INSTEAD.update(before)

    def calls(self):
        for m in re.finditer(r"\bhn::(\w+)(?=\()", self.code):
            name = m.group(1)
            if name not in CALLS or self.is_closed(m.start()):
                continue
            parameters, changes = CALLS[name]
            names = re.sub(r"auto ", "", parameters)
            text = f"([]({parameters}) HWY_ATTR {{ using R = decltype(hn::{name}({names})); "
            for change, expression in changes:
                plain = [(m.start(), m.end(), f"[]({parameters}) HWY_ATTR {{ return {expression}; }}")]
                i = self.add(m.start(), change, plain)
                text += f"if constexpr (requires {{ static_cast<R>({expression}); }}) {{ " \
                        f"if (mut::On({i})) return static_cast<R>({expression}); }} else {{ mut::NoChange({i}); }} "
            self.replaced[m.start()] = (m.end(), text + f"return hn::{name}({names}); }})")
