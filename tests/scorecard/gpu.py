"""The mutants of the built-in GPU kernels, judged under the emulator: by the default verdict, or by every rule."""

import collections
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import time

import building
import gpu_cases
import rules
import scorecard
from equivalent import Equivalent
from scorecard import REFUSED, SAME, bits

TABLE = pathlib.Path(__file__).resolve().parent / "gpu_equivalent.tsv"
# Seeds of the order of the waves. Only changes of barriers that change no bit with the first are asked again.
SEED, OTHER_SEEDS = "1", ("2", "3")
ALIVE, EMULATOR = "alive", "emulator"
CASES_AT_ONCE = 4
COLUMNS = ("wrong", "found", "by the emulator", "by the verdict", "alive", "equivalent", SAME, REFUSED)


def place(mutant):
    """A number that stays when other lines change."""
    key = f"{mutant.file}\t{mutant.text}\t{mutant.name()}"
    return hashlib.sha256(key.encode()).hexdigest()


def chosen(found, reach, none, most, files):
    """At most so many mutants of each file, of those that the cases reach."""
    for source in found.values():
        if files and not any(source.file.endswith(f) for f in files):
            continue
        reached = sorted((m for m in source.mutants if m.id in reach and m.id not in none), key=place)
        yield from reached if most is None else reached[:most]


def cases_of(files):
    """The cases of the operators whose own sources are asked for; all if a header is."""
    operators = {building.operator_of(f) for f in files}
    if not operators or not operators <= set(building.OPERATORS):
        return gpu_cases.CASES
    return [s for s in gpu_cases.CASES if s["name"].split()[0] in operators]


def seeds_of(mutant):
    barrier = "SyncBlock" in mutant.change or "barrier" in mutant.change
    return (SEED, *(OTHER_SEEDS if barrier else ()))


class Judge:
    """Runs mutants, each in the cases that reach it, the shortest first and until one is refused."""

    def __init__(self, program, cases):
        self.program = program
        self.names = {s["name"]: s for s in cases}
        self.folders = [building.GPU.folder / f"worker{i}" for i in range(os.cpu_count() or 1)]
        self.original, self.seconds = {}, {}
        self.reach = collections.defaultdict(list)

    def trace(self):
        """Runs all cases without a change. The numbers of those that are no mutants."""
        path = building.GPU.folder / "trace" / "cases"
        results, said = self.runner(self.folders[0]).run(list(self.names.values()), trace=path)
        wrong = [name for name in self.names if results.get(name, {}).get("verdict") != "VERDICT_PASSED"]
        if wrong:
            raise SystemExit(f"scorecard: the GPU kernels without a change do not pass {wrong}:\n{said[-2000:]}")
        self.original = results  # in every order of the waves: the kernels promise the same bits
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        cases = [(float(seconds), name.removeprefix("Case."), ids) for name, seconds, ids in lines if name.startswith("Case.")]
        self.seconds = {name: seconds for seconds, name, _ in cases}
        for _, name, ids in sorted(cases):
            for i in map(int, ids.split()):
                self.reach[i].append(name)
        return {int(i) for name, _, ids in lines if name == "no change" for i in ids.split()}

    def runner(self, folder, seed=SEED, stop=False):
        more = {"ASSAY_SIMT_SEED": seed} | ({"SCORECARD_STOP": "1"} if stop else {})
        return building.Runner(self.program, folder, more)

    def limit(self, specs):
        """A mutant that hangs costs all of it; one that runs beside other processes must not reach it."""
        return 30 + 20 * sum(self.seconds[s["name"]] for s in specs)

    def judge(self, mutant, folder):
        """(what came of it, what was said)"""
        outcomes = []
        for seed in seeds_of(mutant):
            outcome, said = self.judge_order(mutant, folder, seed)
            outcomes.append(outcome)
            if outcome not in (SAME, ALIVE):
                return outcome, said
        return (ALIVE if ALIVE in outcomes else SAME), said

    def judge_order(self, mutant, folder, seed):
        specs = [self.names[name] for name in self.reach[mutant.id]]
        results, said = self.runner(folder, seed, stop=True).run(specs, mutant.id, limit=self.limit(specs))
        last = next((results[s["name"]] for s in reversed(specs) if s["name"] in results), None)
        refused = [s for s in specs if results.get(s["name"], {}).get("verdict") not in (None, "VERDICT_PASSED")]
        if refused:
            result = results[refused[0]["name"]]
            reason = result["findings"][0]["reason"] if result.get("findings") else ""
            text = f"{refused[0]['name']}: {result['verdict'][8:]} {reason}"
            if result["verdict"] == "VERDICT_UNSUPPORTED":
                return REFUSED, text
            return (EMULATOR if result["verdict"] == "VERDICT_ERROR" else reason or result["verdict"]), text
        if last is None or len(results) < len(specs):
            return EMULATOR, f"the process ended: {said[-200:]!r}"
        same = all(bits(results[s["name"]]) == bits(self.original[s["name"]]) for s in specs)
        return (SAME if same else ALIVE), ""

    def judge_all(self, mutants, show):
        """(mutant, what came of it, what was said) of each"""
        for mutant, (outcome, said) in self.beside_one_another(self.judge, mutants):
            if show:
                print(f"{where(mutant)}\n    {outcome}; {said}", flush=True)
            yield mutant, outcome, said

    def beside_one_another(self, judge, mutants):
        """(mutant, what judge(mutant, folder) gives) of each"""
        free = list(self.folders)

        def one(mutant):
            folder = free.pop()
            try:
                return mutant, judge(mutant, folder)
            finally:
                free.append(folder)

        with concurrent.futures.ThreadPoolExecutor(len(self.folders)) as pool:
            yield from pool.map(one, mutants)

    def judge_by_rules(self, mutants, show):
        """(mutant, rules that find it or SAME or REFUSED, rules that were asked) of each, and {rule: (false alarms, asked)}.

        A mutant runs in the cases that reach it, a few at a time, the shortest first, until a rule finds it; and again for
        the rules with tolerances of their own."""
        specs = list(self.names.values())
        runner = self.runner(self.folders[0])
        original, _ = runner.run(scorecard.with_beside(specs))
        errors = scorecard.plain_errors(runner, specs)
        card = scorecard.Scorecard(specs, original, errors)

        def judge(mutant, folder):
            reached, changes, all_asked = self.reach[mutant.id], False, set()
            for seed, begin in itertools.product(seeds_of(mutant), range(0, len(reached), CASES_AT_ONCE)):
                some = [self.names[name] for name in reached[begin:begin + CASES_AT_ONCE]]
                found, asked, said = card.judge(mutant, some, self.runner(folder, seed), 2 * self.limit(some))
                all_asked |= asked
                changes = changes or found != SAME
                if found and found != SAME:
                    return found, all_asked, said
            return set() if changes else SAME, all_asked, ""

        judged = []
        for mutant, (found, asked, said) in self.beside_one_another(judge, mutants):
            if show:
                print(f"{where(mutant)}\n    {said} {found if isinstance(found, str) else sorted(found)}", flush=True)
            judged.append((mutant, found, asked))
        ran = {rule: len(errors) if rule == "flash-attention" else len(specs) for rule in rules.RULES}
        return judged, {rule: (sum(rule in r for r in card.refused.values()), ran[rule]) for rule in rules.RULES}


def where(mutant):
    return f"{mutant.file}:{mutant.line}: {mutant.name()}\n    {mutant.text}"


def table(counts):
    lines = ["| kernel | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    total = sum(counts.values(), collections.Counter())
    for name, count in (*counts.items(), ("all", total)):
        lines.append(f"| {name} | " + " | ".join(str(count[c]) for c in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def count_outcome(count, outcome, reason):
    if outcome in (SAME, REFUSED):
        count[outcome] += 1
    elif outcome == ALIVE and reason:
        count["equivalent"] += 1
    else:
        count["wrong"] += 1
        kind = {ALIVE: "alive", EMULATOR: "by the emulator"}.get(outcome, "by the verdict")
        count[kind] += 1
        count["found"] += outcome != ALIVE


def by_default(judge, mutants, equivalent, show):
    """(the table, how many wrong kernels pass)"""
    counts, holes = collections.defaultdict(collections.Counter), 0
    for mutant, outcome, _ in judge.judge_all(mutants, show):
        reason = equivalent.reason(mutant)
        count_outcome(counts[building.operator_of(mutant.file)], outcome, reason)
        if outcome == ALIVE and not reason:
            holes += 1
            tell_hole(judge, mutant)
    return table(counts), holes


def by_rules(judge, mutants, equivalent, show):
    """The same of every rule."""
    judged, false_alarms = judge.judge_by_rules(mutants, show)
    wrong, holes = [], 0
    for mutant, found, asked in judged:
        if isinstance(found, str):
            continue
        if "default" not in found:
            if equivalent.reason(mutant):
                continue
            holes += 1
            tell_hole(judge, mutant)
        wrong.append((mutant, found, asked))
    return scorecard.table(wrong, false_alarms), holes


def tell_hole(judge, mutant):
    print(f"passes by default: {where(mutant)}\n    cases: {judge.reach[mutant.id][:6]}", flush=True)


def main(options):
    began = time.monotonic()
    equivalent = Equivalent(TABLE)
    program, found, left_out = building.build(building.GPU)
    print(f"built after {time.monotonic() - began:.0f} s", flush=True)
    for file, lines in left_out.items():
        for line in sorted(lines):
            print(f"not changed, because the rewritten line does not compile: {file}:{line}")
    judge = Judge(program, cases_of(options.file))
    none = judge.trace()
    most = None if options.gpu == "all" else int(options.gpu)
    mutants = list(chosen(found, judge.reach, none, most, options.file))
    reached = sum(m.id in judge.reach and m.id not in none for s in found.values() for m in s.mutants)
    print(f"{sum(len(s.mutants) for s in found.values())} mutants of GPU kernels, of which the cases reach {reached}; "
          f"{len(mutants)} are asked; after {time.monotonic() - began:.0f} s", flush=True)
    text, holes = (by_rules if options.rules else by_default)(judge, mutants, equivalent, options.show)
    print(text)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    stale = equivalent.stale(found)
    for line in stale:
        print(line)
    print(f"{len(mutants)} mutants of GPU kernels: {holes} pass by default; {time.monotonic() - began:.0f} s in all")
    return 1 if holes or stale else 0
