"""What README.md says is what there is: commands, options, verdicts, exit codes, files."""

import functools
import os
import re
import subprocess
import unittest

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Names of the repository's first level that the design gives a meaning.
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "proto", "server", "client",
             "kernels", "deploy", "tests"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def help_of(program, *words):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (program, words, done)
    return done.stdout


def known_options(*helps):
    return set(re.findall(r"--[a-z][a-z-]*", " ".join(helps)))


def subcommands(text):
    """The words that head a line under "Subcommands:"."""
    _, _, listed = text.partition("Subcommands:\n")
    return re.findall(r"^  (\w[\w-]*)", listed.split("\n\n")[0], re.M)


def command_lines(text):
    """Every command of this program's that README shows, in a block or between backticks."""
    blocks = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    inline = re.findall(r"`([^`]+)`", text.replace("\n", " "))
    for line in blocks + inline:
        for command in re.split(r"[;|&]", line.split("#")[0]):
            words = command.split()
            if words and words[0] in ("assay", "assayd") and "──" not in command:
                yield words


class Readme(unittest.TestCase):
    def setUp(self):
        self.readme = read("README.md")

    def test_every_command_line_is_understood(self):
        checked = 0
        for program, *words in command_lines(self.readme):
            with self.subTest(command=" ".join([program, *words])):
                checked += 1
                options = {w.split("=")[0] for w in words if w.startswith("--")} - {"--help"}
                if program == "assayd":
                    self.assertLessEqual(options, known_options(help_of(harness.ASSAYD)))
                    continue
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
                        self.assertLessEqual(
                            options, known_options(*helps, help_of(harness.ASSAY, *path, op)))
                    continue
                if path and path[0] in ("run", "submit", "bench") and len(words) > 1:
                    self.assertTrue(len(path) == 2 or "--suite" in options, "nothing to run")
                self.assertLessEqual(options, known_options(*helps))
        self.assertGreater(checked, 8)

    def test_the_verdicts_are_the_interfaces(self):
        table = set(re.findall(r"^\| ([A-Z]+) \|", self.readme, re.M))
        enum = set(re.findall(r"VERDICT_([A-Z]+) = [1-9]", read("proto", "assay", "v1",
                                                               "types.proto")))
        self.assertEqual(table, enum)

    def test_the_exit_codes_are_those_of_help(self):
        def codes(text):
            said = re.search(r"Exit codes: (.*?)\.", text.replace("\n", " ")).group(1)
            return dict(re.findall(r"(\d) (\w+)", said)), said
        in_readme, sentence = codes(self.readme)
        self.assertEqual(in_readme.keys(), {"0", "1", "2", "3", "4"}, sentence)
        in_help = codes(help_of(harness.ASSAY))[0]
        self.assertEqual(in_help.keys(), in_readme.keys())
        for code in ("0", "1", "2", "4"):  # of 3 the two say the same in another order
            self.assertEqual(in_help[code], in_readme[code])

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

    def test_formats(self):
        said = re.search(r"`--format ([a-z|]+)`", self.readme).group(1).split("|")
        for word in said:
            self.assertIn(word, help_of(harness.ASSAY))

    def test_the_two_commands_are_there(self):
        for command in ("deploy/quickstart", "tests/run"):
            self.assertIn(command, self.readme)
            self.assertTrue(os.access(os.path.join(ROOT, command), os.X_OK), command)

    def test_the_files_it_points_at_are_there(self):
        links = [target for target in re.findall(r"\]\(([^)#]+)\)", self.readme)
                 if "://" not in target]
        self.assertTrue(links)
        for path in links + ["tests/layering", "kernels/providers/registry.cc",
                             "kernels/providers/provider.h", "proto/assay/v1/problem.proto"]:
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)

    def test_every_top_level_entry_has_its_place(self):
        done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("not a git checkout")
        entries = {path.split("/")[0] for path in done.stdout.splitlines()}
        self.assertEqual({e for e in entries if not e.startswith(".")} - TOP_LEVEL, set())


if __name__ == "__main__":
    harness.main()
