"""What the documents say is what there is: commands, options, verdicts, exit codes, files, functions."""

import functools
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import harness
import metrics_table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "deploy", "man"))
import help as help_text  # noqa: E402

# Names of the repository's first level that the design gives a meaning.
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "proto", "server", "client",
             "kernels", "deploy", "tests"}
FOLDERS = ("proto", "server", "client", "kernels", "deploy", "tests")
# Programs beside assay and assayd whose options the documents name.
SCRIPTS = ("tests/run", "tests/run_parts.py", "tests/fuzz/run", "tests/false_alarms", "tests/golden_digests", "tests/scorecard/run",
           "tests/gpu/check", "tests/bench/*", "tests/experiments/*", "tests/integration/fleet/*.py",
           "tests/integration/metrics_table.py",
           "deploy/slurm/*", "server/worker/worker_main.cc", "client/python/assay/pytest_plugin.py")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def pages():
    """Every document of the repository, by its path from the root."""
    found = [os.path.relpath(path, ROOT) for folder in FOLDERS
             for path in glob.glob(os.path.join(ROOT, folder, "**", "*.md"), recursive=True)]
    return ["README.md", *sorted(found)]


def blocks_of(text):
    """The lines of code blocks."""
    return [line.strip() for line in text.splitlines() if re.match(r" {4,}\S", line)]


def inline_of(text):
    """What stands between backticks in prose, line breaks as spaces."""
    prose = "\n".join("" if re.match(r" {4,}\S", line) else line for line in text.splitlines())
    return [re.sub(r"\s+", " ", code) for code in re.findall(r"`([^`]+)`", prose)]


def section(text, heading):
    """What stands under a heading, up to the next one of any level."""
    return re.split(r"^#", text.split(heading + "\n")[1], flags=re.M)[0]


@functools.lru_cache(maxsize=None)
def help_of(program, *words):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (program, words, done)
    return done.stdout


def known_options(*helps):
    return set(re.findall(r"--[a-z][a-z-]*", " ".join(helps)))


@functools.lru_cache(maxsize=None)
def all_options():
    """Options of assay, its commands, assayd, and the scripts that the documents name."""
    found = set()
    for program, name in ((harness.ASSAY, "assay"), (harness.ASSAYD, "assayd")):
        for command in help_text.walk(help_text.read(program, [name])):
            found |= {option for entry in command.options() for option in entry.names}
    for pattern in SCRIPTS:
        for path in filter(os.path.isfile, glob.glob(os.path.join(ROOT, pattern))):
            found |= known_options(read(path))
    return found


def subcommands(text):
    """The words that head a line under "Subcommands:"."""
    _, _, listed = text.partition("Subcommands:\n")
    return re.findall(r"^  (\w[\w-]*)", listed.split("\n\n")[0], re.M)


def command_lines(text):
    """Every command of this program's that a page shows, in a block or between backticks."""
    for line in blocks_of(text) + inline_of(text):
        for command in re.split(r"[;|&]", line.split("#")[0]):
            words = command.removeprefix("$ ").split()
            if not words or "──" in command or re.match(r"[A-Z]\d{3}$", words[-1] if len(words) == 2 else ""):
                continue
            if re.match(r"assay [A-Z]\d", " ".join(words)):  # the reason of a drained node
                continue
            program = os.path.basename(words[0])
            if program in ("assay", "assayd"):
                yield [program, *words[1:]]


class Commands(unittest.TestCase):
    def check(self, program, words):
        options = {w.split("=")[0] for w in words if w.startswith("--")} - {"--help"}
        if program == "assayd":
            self.assertLessEqual(options, known_options(help_of(harness.ASSAYD)))
            return
        helps = [help_of(harness.ASSAY)]
        path = []
        for word in words:
            if word not in subcommands(helps[-1]):
                break
            path.append(word)
            helps.append(help_of(harness.ASSAY, *path))
        if words and not words[0].startswith(("-", "…")):
            self.assertTrue(path, "no such subcommand")
        if "<op>" in words:  # stands for each of them
            for op in subcommands(helps[-1]):
                self.assertLessEqual(options, known_options(*helps, help_of(harness.ASSAY, *path, op)))
            return
        runs = path and path[0] in ("run", "submit", "bench") and len(words) > 1
        if runs and not {"--help", "…"} & set(words):
            self.assertTrue(len(path) == 2 or {"--suite", "--suite-file"} & options, "nothing to run")
        self.assertLessEqual(options, known_options(*helps))

    def test_every_command_line_is_understood(self):
        checked = 0
        for page in pages():
            for program, *words in command_lines(read(page)):
                with self.subTest(page=page, command=" ".join([program, *words])):
                    checked += 1
                    self.check(program, words)
        self.assertGreater(checked, 60)

    def test_every_option_exists(self):
        for page in pages():
            for code in inline_of(read(page)):
                for option in re.findall(r"^--[a-z][a-z-]*", code):
                    with self.subTest(page=page, option=option):
                        self.assertIn(option, all_options())

    def test_the_two_commands_are_there(self):
        for command in ("deploy/quickstart", "tests/run"):
            self.assertIn(command, read("README.md"))
            self.assertTrue(os.access(os.path.join(ROOT, command), os.X_OK), command)

    def test_an_unknown_suite_is_refused_before_anything_is_built(self):
        done = subprocess.run([os.path.join(ROOT, "deploy", "quickstart"), "nobody"], capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, '^deploy/quickstart: unknown suite "nobody"; known: .*kernel-lab.*smoke.*\n$')


class Sections(unittest.TestCase):
    """`tests/run NAME…` runs the sections named, as tests/README.md says."""

    @staticmethod
    def run_script(*words):
        return subprocess.run([os.path.join(ROOT, "tests", "run"), *words], capture_output=True, text=True, check=False)

    def listed(self, *words):
        """The rows that these words choose, in the order in which they would run."""
        done = self.run_script("--list", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split()[0] for line in done.stdout.splitlines()]

    def setUp(self):
        self.table = self.listed()
        self.assertGreater(len(self.table), 40)

    def test_a_row_is_a_section_and_what_it_needs_is_built_first(self):
        self.assertEqual(self.listed("integration.tls"), ["build", "integration.tls"])
        self.assertEqual(self.listed("clang-tidy", "format"), ["format", "build", "clang-tidy"])
        self.assertEqual(self.listed("packages"), ["release", "packages"])
        self.assertEqual(self.listed("asan"), ["asan"])
        for row in self.table:
            self.assertIn(row, self.listed(row))

    def test_a_first_or_last_word_is_every_row_that_has_it(self):
        for word in {part for row in self.table for part in row.split(".")}:
            rows = [row for row in self.listed(word) if row not in ("build", "release") or row == word]
            self.assertEqual(rows, [row for row in self.table if word in row.split(".")])
        self.assertEqual(self.listed("unit"), ["build", "programs.unit"])

    def test_the_page_names_sections(self):
        text = read("tests", "README.md")
        commands = [line.split("#")[0].split() for line in blocks_of(text) + inline_of(text)]
        named = [words[1:] for words in commands if words[0] == "tests/run" and words[1:]]
        self.assertGreater(len(named), 4)
        for words in named:
            self.assertEqual(self.run_script("--list", *words).returncode, 0, words)

    def test_what_cannot_be_run_is_one_line(self):
        for words, said in {("tls", "nobody"): 'unknown section "nobody"', ("integration.t",): 'unknown section "integration.t"',
                            ("",): 'unknown section ""', ("*",): 'unknown section "*"',
                            ("--al",): 'unknown option "--al"', ("--all", "tls"): "--all runs every section"}.items():
            done = self.run_script(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, "^tests/run: %s.*\n$" % re.escape(said))
        self.assertIn("integration.tls, ", self.run_script("nobody").stderr)

    def test_fuzz_takes_no_number_below_one(self):
        """libFuzzer would never end."""
        for words in ("--executions", "-1"), ("--executions", "0"), ("--seconds", "0"):
            done = subprocess.run([os.path.join(ROOT, "tests", "fuzz", "run"), *words], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(f"{words[0]}: must be at least 1, got {words[1]}", done.stderr)


def without_figures(text):
    """The same text on every machine: in what order numpy adds depends on the processor, and so do the errors."""
    return " ".join(re.sub(r"\d[\d,.]*(e[+-]\d+)?", "#", text).split())


class Words(unittest.TestCase):
    def setUp(self):
        self.readme = read("README.md")

    def test_the_verdicts_are_the_interfaces(self):
        table = set(re.findall(r"^\| ([A-Z]+) \|", section(self.readme, "## Verdicts"), re.M))
        enum = set(re.findall(r"VERDICT_([A-Z]+) = [1-9]", read("proto", "assay", "v1", "types.proto")))
        self.assertEqual(table, enum)

    def test_the_criteria_are_the_interfaces(self):
        table = set(re.findall(r"^\| `([a-z]+)` \|", section(read("kernels", "README.md"), "## Criteria"), re.M))
        enum = set(re.findall(r"CRITERION_([A-Z]+) = [1-9]", read("proto", "assay", "v1", "types.proto")))
        self.assertEqual(table, {word.lower() for word in enum})

    def test_the_exit_codes_are_those_of_help(self):
        def codes(text):
            said = re.search(r"Exit codes: (.*?)\.", text.replace("\n", " ")).group(1)
            return dict(re.findall(r"(\d) (\w+)", said)), said
        in_readme, sentence = codes(self.readme)
        self.assertEqual(in_readme.keys(), {"0", "1", "2", "3", "4"}, sentence)
        self.assertEqual(codes(help_of(harness.ASSAY))[0], in_readme)

    def test_the_exit_codes_are_those_of_commands(self):
        gemm = ["run", "gemm", "--m", "8", "--n", "8", "--k", "8"]
        with harness.Daemon() as daemon:
            for code, words in {
                    0: [*gemm, "--dtype", "fp32", "--provider", "builtin"],
                    1: [*gemm, "--dtype", "fp32", "--provider", "planted/nan"],
                    2: [*gemm, "--dtype", "fp32", "--provider", "nobody"],
                    3: ["devices", "--target", "127.0.0.1:1"],
                    4: [*gemm, "--dtype", "fp16", "--provider", "openblas"]}.items():
                run = daemon.run(*words)
                self.assertEqual(run.code, code, (words, run))

    def test_the_first_kernel_is_judged_as_shown(self):
        part = section(self.readme, "## A first kernel of your own, judged in five minutes")
        code = [line for line in blocks_of(part) if not line.startswith(("assay", "$"))]
        code = code[:next(n for n, line in enumerate(code) if line.startswith("for ")) + 1]
        with tempfile.TemporaryDirectory() as folder, harness.Daemon() as daemon:
            def judge(name, lines):
                done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, check=False,
                                      capture_output=True, text=True)
                if "No module named 'numpy'" in done.stderr:
                    self.skipTest("no numpy here")
                self.assertEqual(done.returncode, 0, done.stderr)
                a, b = (os.path.join(folder, f"{x}.npy") for x in "ab")
                run = daemon.run("compare", os.path.join(folder, name), "--inputs", f"{a},{b}", "--op", "gemm")
                for line in re.search(r"gemm\n(( .*\n)+)", part.split(f"assay compare {name} ")[1]).group(1).splitlines():
                    if line.split()[0] in ("reads", "next"):
                        self.assertIn(line.strip(), run.out)
                    if line.split()[0] in ("passed", "FAILED", "bound"):
                        self.assertIn(without_figures(line), without_figures(run.out))
            judge("d.npy", code)
            judge("tail.npy", [line.replace('"d": d', '"tail": d').replace("a.astype(", "a[:, :504].astype(")
                               .replace("b.astype(", "b[:504].astype(") for line in code])

    def test_formats(self):
        said = re.search(r"`--format ([a-z|]+)`", self.readme).group(1).split("|")
        for word in said:
            self.assertIn(word, help_of(harness.ASSAY))

    def test_codes_of_qualification_exist(self):
        done = harness.run_client("qualify", "--codes")
        known = set(re.findall(r"\bA\d{3}\b", done.out))
        self.assertGreater(len(known), 20, done)
        for page in pages():
            self.assertLessEqual(set(re.findall(r"\bA\d{3}\b", read(page))) - {"A100"}, known, page)

    def test_metrics_and_alerts_exist(self):
        families = metrics_table.in_code()
        alerts = set(re.findall(r"alert: (\w+)", read("deploy", "prometheus", "rules", "alerts.yml")))
        abi = set(re.findall(r"assay_[a-z_]+", read("kernels", "sdk", "assay", "kernel.h")))
        for page in pages():
            text = read(page)
            # Not a part of a recorded rule's name, "device:assay_health:level".
            for name in re.findall(r"(?<![:\w])assay_[a-z_]+\*?", text):
                with self.subTest(page=page, metric=name):
                    if name == "assay_providers" or name in ("assay_hip", "assay_cuda"):
                        continue  # targets and libraries
                    if name.rstrip("*") in abi:
                        continue  # of the header of users' kernels
                    self.assertTrue(any(f == name or (name.endswith(("_", "*")) and f.startswith(name.rstrip("*")))
                                        for f in families))
            for block in blocks_of(text) + inline_of(text):
                for alert in re.findall(r"^Assay[A-Z]\w+", block):
                    with self.subTest(page=page, alert=alert):
                        self.assertIn(alert, alerts | {"AssayQualified"})  # Kubernetes' condition

    def test_a_term_of_the_glossary_has_one_meaning(self):
        terms = re.findall(r"^\| ([a-z ]+) \|", section(read("kernels", "README.md"), "## Glossary"), re.M)
        self.assertGreater(len(terms), 30)
        self.assertEqual(len(terms) - 1, len(set(terms) - {"term"}))  # the head of the table


class Files(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        for page in pages():
            text = read(page)
            links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
            for link in links:
                with self.subTest(page=page, link=link):
                    path, _, heading = link.partition("#")
                    full = os.path.join(ROOT, os.path.dirname(page), path) if path else os.path.join(ROOT, page)
                    self.assertTrue(os.path.exists(full))
                    if heading:
                        with open(full, encoding="utf-8") as file:
                            heads = [re.sub(r"[^\w -]", "", head).lower().replace(" ", "-")
                                     for head in re.findall(r"^#+ (.+)$", file.read(), re.M)]
                        self.assertIn(heading, heads)

    def test_files_that_are_named_exist(self):
        checked = 0
        for page in pages():
            for code in inline_of(read(page)):
                path = code.split(" ")[0].rstrip("/")
                if not re.match(r"(%s)/" % "|".join(FOLDERS), path) or re.search(r"[<…]", path):
                    continue
                checked += 1
                with self.subTest(page=page, path=path):
                    beside = os.path.join(ROOT, os.path.dirname(page), path)
                    self.assertTrue(glob.glob(os.path.join(ROOT, path), recursive=True) or glob.glob(beside)
                                    or self.is_program(path))
        self.assertGreater(checked, 60)

    @staticmethod
    def is_program(path):
        """A program of the build that has its source's name, "tests/bench/scrape_bench"."""
        return os.path.exists(os.path.join(ROOT, path + ".cc"))

    def test_functions_that_are_named_are_in_their_files(self):
        checked = 0
        for page in pages():
            text = re.sub(r"\s+", " ", read(page))
            named = re.findall(r"\| `([\w/.-]+/[\w.-]+\.\w+)` \| `([\w:]+)` \|", text)  # a row: file, function
            named += re.findall(r"`([\w/.-]+/[\w.-]+\.\w+)`, `([\w:]+)`", text)
            for words, path in re.findall(r"((?:`[\w:]+`(?: and |, )?)+) (?:\(|in )`([\w/.-]+/[\w.-]+\.\w+)`", text):
                named += [(path, name) for name in re.findall(r"`([\w:]+)`", words)]
            for path, name in named:
                checked += 1
                with self.subTest(page=page, path=path, function=name):
                    self.assertRegex(read(path), r"\b%s\b" % re.escape(name))
        self.assertGreater(checked, 20)

    def test_what_is_walked_has_its_stops_and_steps(self):
        stops = re.findall(r"^\| (\d+) \| `[^`]+` \| `[^`]+` \|", read("tests", "CONTRIBUTING.md"), re.M)
        self.assertEqual(stops, [str(n) for n in range(1, 11)])
        for heading in ("### An operator, in five steps", "### A provider of kernels, in five steps"):
            steps = re.findall(r"^(\d)\. ", section(read("README.md"), heading), re.M)
            self.assertEqual(steps, list("12345"), heading)

    def test_every_operator_has_what_the_five_steps_name(self):
        """Walks the five steps for each operator: the places they name are those that hold it."""
        steps = section(read("README.md"), "### An operator, in five steps")
        places = {path: read(path) for path in (
            "kernels/ops/CMakeLists.txt", "kernels/backends/CMakeLists.txt", "proto/assay/v1/problem.proto",
            "proto/assay/v1/case.proto", "kernels/ops/case.h", "kernels/ops/op.h", "kernels/ops/op.cc",
            "kernels/suites/smoke.toml")}
        for path in (*places, "kernels/ops/gpu_op.h", "kernels/ops/gpu/references_gpu.cc"):
            self.assertIn(f"`{path}`", steps)
        for folder in ("kernels/providers/builtin/", "kernels/providers/planted/", "tests/unit/ops/"):
            self.assertIn(f"`{folder}`", steps)
        tests = "".join(map(read, glob.glob("tests/unit/ops/*.cc", root_dir=ROOT)))
        folders = sorted(set(os.listdir(os.path.join(ROOT, "kernels", "ops"))) - {"common", "gpu"})
        ops = [op for op in folders if os.path.isdir(os.path.join(ROOT, "kernels", "ops", op))]
        self.assertGreaterEqual(len(ops), 10)
        for op in ops:
            camel = "".join(word.capitalize() for word in op.split("_"))
            with self.subTest(op=op):
                sources = glob.glob(f"kernels/ops/{op}/*.c*", root_dir=ROOT)
                for path in (f"kernels/ops/{op}/problem.cc", f"kernels/ops/{op}/{op}_op.cc"):
                    self.assertIn(path, sources)
                listed = places["kernels/ops/CMakeLists.txt"] + places["kernels/backends/CMakeLists.txt"]
                for path in sources:
                    self.assertIn(path.removeprefix("kernels/ops/"), listed)
                self.assertRegex(places["proto/assay/v1/problem.proto"],
                                 r"message %sProblem \{\n  option \(operator_info\)" % camel)
                self.assertRegex(places["proto/assay/v1/case.proto"], rf"{camel}Problem {op} = \d+;")
                self.assertRegex(places["kernels/ops/case.h"], rf"variant<[^>]*\b{camel}Problem\b")
                self.assertIn(f"const Op& {camel}Op();", places["kernels/ops/op.h"])
                self.assertIn(f"&{camel}Op()", places["kernels/ops/op.cc"])
                if ".own_reference = true" in read("kernels", "ops", op, f"{op}_op.cc"):
                    continue  # kernel and reference are the caller's
                for path in (f"kernels/ops/{op}/{op}_reference.cu", f"kernels/ops/{op}/{op}_on_gpu.cc"):
                    self.assertIn(path, sources)
                self.assertIn(f"const GpuOp& {camel}OnGpu();", read("kernels/ops/gpu_op.h"))
                self.assertIn(f"&{camel}OnGpu()", read("kernels/ops/gpu/references_gpu.cc"))
                self.assertIn(f"r.Add(Builtin{camel}Cpu());", read("kernels/providers/register_all.cc"))
                self.assertIn(f'{{"{op}", &planted::Make{camel}}}', read("kernels/providers/planted/planted_cpu.cc"))
                self.assertIn(f'op = "{op}"', places["kernels/suites/smoke.toml"])
                self.assertIn(f"{camel}Problem", tests)

    def test_the_first_page_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), 200)

    def test_every_top_level_entry_has_its_place(self):
        done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("not a git checkout")
        entries = {path.split("/")[0] for path in done.stdout.splitlines()}
        self.assertEqual({e for e in entries if not e.startswith(".")} - TOP_LEVEL, set())


if __name__ == "__main__":
    harness.main()
