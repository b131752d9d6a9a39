"""What every rule makes of mutants and of right kernels, and the table of it."""

import collections
import time

import building
import cases
import rules

SAME, REFUSED = "same bits", "refused"


def plain_errors(runner, specs):
    """The largest error of flash-attention's plain computation, by the name of the case."""
    asked = [rules.with_inputs(s) for s in specs if rules.has_plain_error(s)]
    results, _ = runner.run(asked)
    errors = {}
    for spec in asked:
        slices = {s["name"]: s["values"] for s in results.get(spec["name"], {}).get("slices", ())}
        if "expected" in slices and len(slices["q"]) < 4096 > len(slices["k"]):  # else it is a part
            errors[spec["name"].removesuffix("/inputs")] = rules.plain_error(spec, slices)
    return errors


def bits(result):
    """All that a kernel computed in a case."""
    return (result.get("digests", {}).get("raw"), result["verdict"], [p.get("digest") for p in result.get("probes", ())],
            [p["verdict"] for p in result.get("probes", ())])


def with_beside(specs):
    return [r for s in specs for r in (s, *rules.beside(s))]


class Scorecard:
    """Judges mutants by every rule."""

    def __init__(self, specs, original, errors):
        self.original, self.errors = original, errors
        self.refused = {s["name"]: rules.of_case(s, original, errors.get(s["name"])) for s in specs}
        self.seconds = 0.0

    def judge(self, mutant, specs, runner, limit):
        """(rules that find it or SAME or REFUSED, rules that were asked, what the default said)"""
        began = time.monotonic()
        results, _ = runner.run(with_beside(specs), mutant.id, limit=limit)
        self.seconds += time.monotonic() - began
        asked = set(rules.RULES) - ({"flash-attention"} if not any(s["name"] in self.errors for s in specs) else set())
        main = [results.get(s["name"]) for s in specs]
        if any(r is None for r in main):
            return asked, asked, "the process ended"
        if any(r["verdict"] == "VERDICT_UNSUPPORTED" for r in main):
            return REFUSED, asked, ""
        if all(bits(r) == bits(self.original[s["name"]]) for r, s in zip(main, specs)):
            return SAME, asked, ""
        # A rule that refuses the kernel without a change in a case finds nothing there.
        found = set().union(*(rules.of_case(s, results, self.errors.get(s["name"])) - self.refused[s["name"]] for s in specs))
        said = [f"{s['name']}: {r['verdict'][8:]} {r['findings'][0]['reason']}"
                for s, r in zip(specs, main) if r["verdict"] != "VERDICT_PASSED" and r.get("findings")]
        return found, asked, said[0] if said else ""


def right_variants(runner):
    """({rule: (false alarms, asked)}, the default's alarms)"""
    specs = list(cases.right_variants())
    results, said = runner.run(with_beside(specs))
    errors = plain_errors(runner, [s for s in specs if s["provider"] == "builtin"])
    errors |= {s["name"]: errors[own] for s in specs
               if (own := s["name"].replace(s["provider"], "builtin")) in errors and s["name"] not in errors}
    counts, alarms, ran = collections.Counter(), [], collections.Counter()
    for spec in specs:
        result = results.get(spec["name"])
        if result is None:
            raise SystemExit(f"scorecard: {spec['name']} ended the process:\n{said[-2000:]}")
        if result["verdict"] == "VERDICT_UNSUPPORTED":
            continue
        error = errors.get(spec["name"])
        refused = rules.of_case(spec, results, error)
        counts.update(refused)
        ran.update(r for r in rules.RULES if r != "flash-attention" or error is not None)
        if "default" in refused:
            alarms.append(f"{spec['name']}: {result['verdict']}: {result.get('findings')}")
    return {rule: (counts[rule], ran[rule]) for rule in rules.RULES}, alarms


def share(part, whole):
    return f"{part} / {whole}" if whole else "-"


def table(judged, false_alarms):
    """Of (mutant, rules that find it, rules that were asked) of each, and {rule: (false alarms, asked)}."""
    columns = [*building.OPERATORS, "shared"]
    kept = [c for c in columns if any(building.operator_of(m.file) == c for m, _, _ in judged)]
    lines = ["| rule | found | of 100 | " + " | ".join(kept) + " | false alarms |", "|---" * (len(kept) + 4) + "|"]
    for rule in rules.RULES:
        mine = [(building.operator_of(m.file), rule in found) for m, found, asked in judged if rule in asked]
        hits = sum(hit for _, hit in mine)
        cells = [share(sum(h for c, h in mine if c == name), sum(c == name for c, _ in mine)) for name in kept]
        lines.append(f"| {rule} | {share(hits, len(mine))} | {100 * hits / max(1, len(mine)):.1f} | " + " | ".join(cells) +
                     f" | {share(*false_alarms[rule])} |")
    return "\n".join(lines) + "\n"
