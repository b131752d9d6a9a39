"""The HTML report in a real browser: it renders, sorts, filters, plots, prints, can be
used by keyboard, says nothing on the console, and carries thousands of cases."""

import copy
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

import browser
import harness

SUITE = """
name = "for-a-page"
title = "A little of everything a page shows"
version = "1"

[[case]]
op = "gemm"
mode = "both"
dtype = ["fp32", "bf16"]
provider = "builtin"
shape = { m = 64, n = 64, k = 64 }

[[case]]
op = "gemm"
mode = "both"
dtype = "fp32"
provider = "onednn"
shape = [{ m = 64, n = 64, k = 64 }, { m = 128, n = 64, k = 64 }]

[[case]]
op = "gemm"
dtype = "fp32"
provider = ["planted/wrong-tile", "planted/nan"]
shape = { m = 64, n = 64, k = 64 }

[[case]]
op = "gemm"
dtype = "fp64"
provider = "onednn"
shape = { m = 64, n = 64, k = 64 }

[[case]]
op = "attention"
dtype = ["fp32", "bf16"]
provider = "builtin"
shape = [{ heads = 2, seq = 64, dim = 32 }, { heads = 2, seq = 128, dim = 32 }, { heads = 2, seq = 256, dim = 32 }]

[[case]]
op = "softmax"
dtype = "fp32"
provider = "builtin"
shape = { rows = 4, cols = 256 }
pattern = ["normal", "all-inf"]
"""

# What a person reads in a column of the table, top to bottom.
COLUMN = """return [...document.querySelectorAll('#table tbody tr.case')].map(
    (row) => row.cells[arguments[0]].textContent)"""
# A column of the table by its title.
HEADING = """const heading = [...document.querySelectorAll('#table thead th')]
    .find((th) => th.textContent === arguments[0]);"""
# The case a row is of, top to bottom.
SHOWN = "return [...document.querySelectorAll('#table tbody tr.case')].map((row) => Number(row.id.slice(5)))"
FOCUS = "return document.activeElement.textContent"
# Points of a plot, without lines and roofs.
POINTS = """return Chart.getChart(document.querySelector('#' + arguments[0] + ' canvas')).data.datasets
    .filter((set) => !set.reference && !set.hidden).flatMap((set) => set.data.map((p) => [p.x, p.y]))"""
# Colour of a plot's words, which follows the page's.
INK = "return Chart.getChart(document.querySelector('#ratios canvas')).options.scales.x.ticks.color"
# Share of a plot's pixels that are drawn on.
PAINTED = """const canvas = document.querySelector('#' + arguments[0] + ' canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let painted = 0;
    for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
    return painted / (data.length / 4)"""
LIGHTNESS = """const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
    return (r + g + b) / 765"""


def setUpModule():
    reason = browser.missing()
    if reason:
        print(f"Skipped: {reason}", file=sys.stderr)
        sys.exit(77)
    global FOLDER, DAEMON, BROWSER, REPORT, PAGE
    FOLDER = tempfile.mkdtemp(prefix="assay-html-")
    DAEMON = harness.Daemon()
    BROWSER = browser.Browser()
    suite = os.path.join(FOLDER, "suite.toml")
    with open(suite, "w", encoding="utf-8") as file:
        file.write(SUITE)
    PAGE = os.path.join(FOLDER, "page.html")
    run = DAEMON.run("run", "--suite-file", suite, "--output", PAGE)
    assert run.code == 1, run
    with open(PAGE, encoding="utf-8") as file:
        REPORT = browser.block(file.read(), "report")


def tearDownModule():
    BROWSER.close()
    DAEMON.stop()
    shutil.rmtree(FOLDER)


class Page(unittest.TestCase):
    def setUp(self):
        BROWSER.console()
        BROWSER.open(PAGE)

    def tearDown(self):
        self.assertEqual(BROWSER.console(), [], "the console")

    def filter_text(self, text):
        BROWSER.js("const input = document.getElementById('text'); input.value = arguments[0];"
                   "input.dispatchEvent(new Event('input'))", text)
        BROWSER.settle()

    def click(self, selector):
        BROWSER.js("document.querySelector(arguments[0]).click()", selector)
        BROWSER.settle()

    def test_every_case_is_shown_the_worst_first_and_nothing_is_fetched(self):
        shown = BROWSER.js(SHOWN)
        self.assertEqual(sorted(shown), list(range(len(REPORT["tests"]))))
        verdicts = [REPORT["tests"][i]["verdict"] for i in shown]
        self.assertEqual(verdicts, sorted(verdicts, key=["FAILED", "PASSED", "UNSUPPORTED"].index))
        self.assertEqual(BROWSER.js("return performance.getEntriesByType('resource').length"), 0)
        self.assertIn("FAILED", BROWSER.js("return document.querySelector('header').textContent"))

    def test_what_was_not_measured_is_absent_and_not_zero(self):
        index = next(i for i, test in enumerate(REPORT["tests"]) if test["verdict"] == "UNSUPPORTED")
        cells = BROWSER.js("return [...document.getElementById(arguments[0]).cells].map((c) => c.textContent)",
                           f"case-{index}")
        self.assertEqual(set(cells[2:-1]), {"–"})
        self.assertGreaterEqual(len(cells), 8)
        self.assertIn("fp64", cells[-1])

    def test_sorts_by_a_column_both_ways_with_the_absent_last(self):
        for direction in ("descending", "ascending"):
            self.click("#table thead th:nth-child(3) button")
            self.assertEqual(BROWSER.js("return document.querySelector('#table th:nth-child(3)').ariaSort"),
                             direction)
            rho = [REPORT["tests"][i].get("rho") for i in BROWSER.js(SHOWN)]
            measured = [float(r) for r in rho if r is not None and r != "NaN"]
            self.assertGreater(len(measured), 8)
            self.assertEqual(measured, sorted(measured, reverse=direction == "descending"))
            absent = rho.count(None)
            self.assertGreater(absent, 0)
            self.assertEqual(rho[-absent:], [None] * absent)
        self.click("#table thead th:nth-child(2) button")
        names = BROWSER.js(COLUMN, 1)
        self.assertLess(names.index("attention 1x2x64x32 fp32 builtin"),
                        names.index("attention 1x2x128x32 fp32 builtin"), "64 comes before 128")

    def test_precision_has_a_column_and_a_place_in_the_details(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        report, view = browser.block(page, "report"), browser.block(page, "view")
        for test, row in zip(report["tests"], view["rows"]):
            test.pop("precision", None)
            row.pop("precision", None)
        for index, bits, words in ((0, 24, "24.0 bits"), (1, 9.5, "9.5 of 24"), (2, 11.4, "11.4 of 24")):
            report["tests"][index]["precision"] = {"bits": bits, "declared_bits": 24, "rms": 118, "gain": 1.5e-5,
                                                   "looks_like": "TF32 inputs"}
            view["rows"][index]["precision"] = words
        path = os.path.join(FOLDER, "precision.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(browser.with_block(browser.with_block(page, "report", report), "view", view))
        BROWSER.open(path)
        BROWSER.js(HEADING + "heading.querySelector('button').click()", "Precision")
        BROWSER.settle()
        column = BROWSER.js(HEADING + "return heading.cellIndex", "Precision")
        words = BROWSER.js(COLUMN, column)
        self.assertEqual(words[:3], ["9.5 of 24", "11.4 of 24", "24.0 bits"], "the least exact first")
        self.assertEqual(set(words[3:]), {"–"})
        BROWSER.js("document.querySelector('#case-1 td.name button').click()")
        facts = BROWSER.js("""return [...document.querySelectorAll('tr.detail h3')]
            .find((h3) => h3.textContent === 'Precision').nextSibling.textContent""")
        for fact in ("effective9.5 bits", "declared24 bits", "rms118 × likely", "gain0.000015 × reference",
                     "looks likeTF32 inputs"):
            self.assertIn(fact, facts)

    def test_filters_by_words_verdict_and_choice(self):
        tests = REPORT["tests"]
        self.filter_text("GEMM bf16 passed")
        self.assertEqual(set(BROWSER.js(SHOWN)), {i for i, t in enumerate(tests) if t["passed"] and
                                                  t["op"] == "gemm" and t["dtype"] == "bf16"})
        self.filter_text("no such case")
        self.assertEqual(BROWSER.js(SHOWN), [])
        self.assertIn("No case matches", BROWSER.js("return document.querySelector('#table tbody').textContent"))
        self.click("#clear")
        self.click("button[data-verdict=FAILED]")
        failed = {i for i, t in enumerate(tests) if t["verdict"] == "FAILED"}
        self.assertEqual(set(BROWSER.js(SHOWN)), failed)
        self.assertEqual(len(failed), 2)
        self.click("#clear")
        BROWSER.js("const s = document.querySelector('select[data-choice=provider]'); s.value = 'onednn';"
                   "s.dispatchEvent(new Event('change'))")
        self.assertEqual({tests[i]["provider"] for i in BROWSER.js(SHOWN)}, {"onednn"})
        # What stands below follows.
        BROWSER.settle()
        self.assertEqual(len(BROWSER.js(POINTS, "roofline")), 2)
        self.assertTrue(BROWSER.js("return document.getElementById('provenance').hidden"))

    def test_keyboard_alone_finds_and_opens_a_case(self):
        from selenium.webdriver.common.keys import Keys
        BROWSER.key("/")
        self.assertEqual(BROWSER.js("return document.activeElement.id"), "text")
        BROWSER.key("planted")
        self.assertEqual(len(BROWSER.js(SHOWN)), 2)
        # On to the table: every control takes the focus in turn.
        for _ in range(30):
            if BROWSER.js("return document.activeElement.closest('td.name') !== null"):
                break
            BROWSER.key(Keys.TAB)
        first = BROWSER.js(FOCUS)
        self.assertIn("planted", first)
        BROWSER.key(Keys.ARROW_DOWN)
        self.assertNotEqual(BROWSER.js(FOCUS), first)
        BROWSER.key(Keys.ARROW_UP, Keys.ENTER)
        self.assertEqual(BROWSER.js("return document.activeElement.ariaExpanded"), "true")
        detail = BROWSER.js("return document.querySelector('tr.detail').textContent")
        self.assertIn("assay run gemm", detail)
        self.assertIn("First mismatches", detail)
        BROWSER.key(Keys.ENTER)
        self.assertFalse(BROWSER.js("return document.querySelector('tr.detail')"))
        # A heading sorts, a legend hides its series.
        BROWSER.js(HEADING + "heading.querySelector('button').focus()", "Max abs")
        BROWSER.key(Keys.ENTER)
        self.assertEqual(BROWSER.js(HEADING + "return heading.ariaSort", "Max abs"), "descending")
        self.click("#clear")
        before = len(BROWSER.js(POINTS, "length"))
        BROWSER.js("document.querySelector('select#colour-by').value = 'dtype';"
                   "document.querySelector('select#colour-by').dispatchEvent(new Event('change'));"
                   "document.querySelector('#length .legend button').focus()")
        BROWSER.key(Keys.SPACE)
        self.assertEqual(len(BROWSER.js(POINTS, "length")), before // 2)
        BROWSER.key("/", Keys.ESCAPE)
        self.assertEqual(len(BROWSER.js(SHOWN)), len(REPORT["tests"]))

    def test_plots_show_what_the_report_says(self):
        tests = REPORT["tests"]
        timed = [t["bench"] for t in tests if t.get("bench", {}).get("samples", 0) >= 10]
        self.assertEqual(len(timed), 4)
        points = sorted(BROWSER.js(POINTS, "roofline"))
        expected = sorted([b["flops_per_second"] / b["bytes_per_second"], b["flops_per_second"]] for b in timed)
        for point, want in zip(points, expected, strict=True):
            self.assertAlmostEqual(point[0] / want[0], 1)
            self.assertAlmostEqual(point[1] / want[1], 1)
        roofs = BROWSER.js("""return Chart.getChart(document.querySelector('#roofline canvas')).data.datasets
            .filter((set) => set.tag).map((set) => Math.max(...set.data.map((p) => p.y)))""")
        ceilings = {b["ceiling_flops_per_second"] for b in timed if "ceiling_flops_per_second" in b}
        self.assertEqual(set(roofs) & ceilings, ceilings)
        lengths = BROWSER.js(POINTS, "length")
        self.assertEqual({x for x, _ in lengths}, {64, 128, 256})
        self.assertEqual(len(lengths), 6)
        bars = BROWSER.js("""return Chart.getChart(document.querySelector('#ratios canvas')).data.datasets
            .map((set) => set.data).flat().reduce((a, b) => a + b, 0)""")
        self.assertEqual(bars, sum("rho" in t for t in tests))
        for figure in ("roofline", "efficiency", "length", "ratios"):
            self.assertGreater(BROWSER.js(PAINTED, figure), 0.005, figure)
            # The same as a table, for those who cannot see it.
            self.assertTrue(BROWSER.js("return document.querySelector(arguments[0]).ariaLabel", f"#{figure} canvas"))
            BROWSER.js("document.querySelector(arguments[0]).open = true", f"#{figure} details")
            BROWSER.until(f"return document.querySelectorAll('#{figure} details td').length > 3", "data of a plot")

    def test_axes_say_what_they_show(self):
        titles = BROWSER.js("""return ['roofline', 'efficiency', 'length', 'ratios'].map((id) => {
            const {x, y} = Chart.getChart(document.querySelector('#' + id + ' canvas')).options.scales;
            return [x.title.text, y.title.text]; })""")
        for x, y in titles:
            self.assertTrue(x and y, titles)
        self.assertEqual(titles[2], ["attention: keys", "largest absolute error"])
        # Sums have no sequence: a product's k is not among the choices.
        choices = BROWSER.js("return [...document.querySelector('#length select').options].map((o) => o.value)")
        self.assertEqual(choices, ["auto", "attention", "softmax"])

    def test_figures_of_a_case_have_units(self):
        index = next(i for i, t in enumerate(REPORT["tests"]) if t.get("bench", {}).get("samples", 0) >= 10)
        BROWSER.js("document.querySelector(arguments[0]).click()", f"#case-{index} td.name button")
        rows = dict(BROWSER.js("""return [...document.querySelectorAll('tr.detail .blocks tr')].map(
            (row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent))"""))
        self.assertRegex(rows["median"], r"^[\d.]+ [mµn]?s$")
        self.assertRegex(rows["rate"], r"^[\d.]+ [kMGT]?FLOP/s$")
        self.assertRegex(rows["bandwidth"], r"^[\d.]+ [kMGT]?B/s$")
        self.assertRegex(rows["samples"], r"^[\d,]+ launches$")
        self.assertRegex(rows["count"], r"^4,096 elements$")
        self.assertRegex(rows["rho"], r" × bound$")

    def test_a_narrow_screen_shows_everything_without_scrolling_sideways(self):
        size = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
        BROWSER.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 400, **size})
        try:
            self.click("#table td.name button")
            wide = BROWSER.js("""return [...document.querySelectorAll(
                '#cases .scroll, #table tr.case td, #table .inside > *, figure canvas, header *')].filter(
                (e) => e.getBoundingClientRect().right > 401 || e.matches('.scroll') && e.scrollWidth > e.clientWidth + 1)
                .map((e) => e.outerHTML.slice(0, 80))""")
            self.assertEqual(wide, [])
            self.assertLessEqual(BROWSER.js("return document.documentElement.scrollWidth"), 400)
        finally:
            BROWSER.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_a_point_opens_its_case(self):
        BROWSER.js("""const chart = Chart.getChart(document.querySelector('#roofline canvas'));
            chart.canvas.scrollIntoView({behavior: 'instant', block: 'center'});""")
        BROWSER.js("""const chart = Chart.getChart(document.querySelector('#roofline canvas'));
            const point = chart.getDatasetMeta(0).data[0], box = chart.canvas.getBoundingClientRect();
            const at = {bubbles: true, clientX: box.left + point.x, clientY: box.top + point.y};
            chart.canvas.dispatchEvent(new MouseEvent('mousemove', at));
            chart.canvas.dispatchEvent(new MouseEvent('click', at));""")
        BROWSER.until("return document.querySelector('tr.case.open')", "the row opened")
        opened = BROWSER.js("return Number(document.querySelector('tr.case.open').id.slice(5))")
        self.assertIn("bench", REPORT["tests"][opened])

    def test_nan_say_who_made_them(self):
        rows = BROWSER.js("""return [...document.querySelectorAll('#provenance tbody tr')].map(
            (row) => [...row.cells].slice(0, 8).map((cell) => cell.textContent))""")
        by_provider = {row[4]: row for row in rows}
        self.assertEqual(by_provider["builtin"][:3], ["NaN", "the kernel", "yes"])
        self.assertEqual(by_provider["builtin"][6], "1,024")
        self.assertEqual(by_provider["planted/nan"][:3], ["NaN", "the kernel", "no"])
        self.assertEqual(rows[0][4], "planted/nan", "what nobody expected comes first")

    def test_dark_and_light_follow_the_reader(self):
        self.assertGreater(BROWSER.js(LIGHTNESS), 0.8)
        light = BROWSER.js(INK)
        BROWSER.prefer(dark=True)
        BROWSER.until(f"return (() => {{ {INK} }})() !== '{light}'", "the plots are dark too")
        self.assertLess(BROWSER.js(LIGHTNESS), 0.2)
        BROWSER.js("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(BROWSER.js(INK), light, "paper is light")
        BROWSER.js("dispatchEvent(new Event('afterprint'))")
        self.assertNotEqual(BROWSER.js(INK), light)
        self.assertTrue(BROWSER.print().startswith(b"%PDF"))
        self.assertNotEqual(BROWSER.js(INK), light, "printing has put everything back")

    def test_the_json_can_be_saved_from_the_page(self):
        self.assertFalse(BROWSER.js("return document.getElementById('download').hidden"))
        self.assertEqual(REPORT["schema"], "assay.report/v1")
        self.assertIn(REPORT["job"], BROWSER.js("return document.getElementById('metadata').textContent"))
        self.assertIn("assayd", BROWSER.js("return document.getElementById('metadata').textContent"))


class Huge(unittest.TestCase):
    """5,000 cases made of the real ones, with figures of their own."""

    CASES = 5000

    @classmethod
    def setUpClass(cls):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        report, view = browser.block(page, "report"), browser.block(page, "view")
        tests, rows = report["tests"], view["rows"]
        report["tests"], view["rows"] = [], []
        for i in range(cls.CASES):
            test, row = copy.deepcopy(tests[i % len(tests)]), copy.deepcopy(rows[i % len(tests)])
            test["index"] = i
            test["name"] += f" #{i}"
            for key, value in {**test}.items():
                if isinstance(value, float):
                    test[key] = value * (1 + 0.001 * (i % 997))
            for key, value in test.get("bench", {}).items():
                if isinstance(value, float) and "ceiling" not in key:
                    test["bench"][key] = value * (1 + 0.001 * (i % 991))
            report["tests"].append(test)
            view["rows"].append(row)
        report["tests"][17]["name"] = "<img src=x onerror=\"document.title='taken'\"></script>"
        report["total"], view["order"] = cls.CASES, list(range(cls.CASES))
        page = browser.with_block(browser.with_block(page, "report", report), "view", view)
        cls.path = os.path.join(FOLDER, "huge.html")
        with open(cls.path, "w", encoding="utf-8") as file:
            file.write(page)

    def setUp(self):
        BROWSER.console()

    def tearDown(self):
        self.assertEqual(BROWSER.console(), [], "the console")

    def test_is_small_and_ready_at_once(self):
        self.assertLess(os.path.getsize(self.path), 5_000_000)
        # In the processor's time: by the clock it depends on who else uses the machine.
        tries = []
        for _ in range(3):
            BROWSER.driver.get("about:blank")
            before = BROWSER.processor_seconds()
            by_clock = BROWSER.open(self.path)
            tries.append((BROWSER.processor_seconds() - before, by_clock))
        seconds, by_clock = min(tries)
        print(f"{self.CASES} cases: {os.path.getsize(self.path) / 1e6:.2f} MB, ready after {seconds:.2f} s of "
              f"processor time, {by_clock:.2f} s by the clock", file=sys.stderr)
        self.assertLess(seconds, 10)

    def test_a_page_of_the_table_at_a_time_and_all_on_paper(self):
        BROWSER.open(self.path)
        self.assertEqual(len(BROWSER.js(SHOWN)), 25)
        BROWSER.js("const rows = document.getElementById('rows'); rows.value = '100';"
                   "rows.dispatchEvent(new Event('change'))")
        self.assertEqual(len(BROWSER.js(SHOWN)), 100)
        BROWSER.js("document.querySelector('[aria-label=\"Last page\"]').click()")
        self.assertEqual(BROWSER.js(SHOWN)[-1], self.CASES - 1)
        BROWSER.js("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(len(BROWSER.js(SHOWN)), self.CASES)
        # Chromium repeats no head on every sheet that has buttons.
        self.assertFalse(BROWSER.js("return document.querySelector('#table thead button')"))
        BROWSER.js("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(len(BROWSER.js(SHOWN)), 100)
        BROWSER.js("document.getElementById('text').value = '#4999';"
                   "document.getElementById('text').dispatchEvent(new Event('input'))")
        self.assertEqual(BROWSER.js(SHOWN), [4999])

    def test_a_link_leads_to_its_case_and_names_are_only_text(self):
        BROWSER.driver.get("about:blank")
        BROWSER.open(self.path + "#case-17")
        self.assertEqual(BROWSER.js("return document.querySelector('tr.case.open').id"), "case-17")
        self.assertIn("<img src=x", BROWSER.js("return document.querySelector('#case-17').textContent"))
        self.assertEqual(BROWSER.js("return document.images.length"), 0)
        self.assertNotEqual(BROWSER.js("return document.title"), "taken")



class Changes(unittest.TestCase):
    """Times against a baseline's, made so that each reading occurs."""

    def test_changes_are_listed_the_worst_first_with_their_noise(self):
        bench = ("bench", "gemm", "--m", "96,128,160,192", "--n", "64", "--k", "64", "--dtype",
                 "fp32", "--provider", "builtin")
        run = DAEMON.run(*bench, "--format", "json")
        self.assertEqual(run.code, 0, run)
        report = run.json()
        # 96 gets so small a part of its time that no wait for processors explains it, 128 so wide
        # a spread that nothing can be told, 160 and 192 so much more that no noise changes their
        # order.
        for test, factor in zip(report["tests"], (1e-5, 1, 1e5, 1e8)):
            times = test["bench"]
            times["conditions"].pop("waiting_ratio", None)
            for key in ("median_seconds", "p10_seconds", "p90_seconds"):
                times[key] *= factor
        report["tests"][1]["bench"]["p90_seconds"] *= 50
        report["tests"][1]["bench"].pop("median_standard_error", None)
        baseline = os.path.join(FOLDER, "before.json")
        with open(baseline, "w", encoding="utf-8") as out:
            json.dump(report, out)
        page = os.path.join(FOLDER, "changes.html")
        held = DAEMON.run(*bench, "--compare", baseline, "--output", page)
        self.assertEqual(held.code, 1, held)
        BROWSER.console()
        BROWSER.open(page)
        rows = BROWSER.js("""return [...document.querySelectorAll('#changes tbody tr')].map(
            (row) => [...row.cells].map((cell) => cell.textContent))""")
        self.assertEqual([row[0] for row in rows], ["slower", "ambiguous", "faster", "faster"])
        self.assertEqual([re.search(r"gemm (\d+)", row[1]).group(1) for row in rows],
                         ["96", "128", "160", "192"])
        self.assertGreater(float(rows[0][4]), 10)
        self.assertRegex(rows[0][5], r"^± [\d.]+ %$")
        self.assertRegex(rows[0][2], r"^[\d.]+ [nµm]?s$")
        note = BROWSER.js("return document.getElementById('changes-note').textContent")
        self.assertIn("1 slower, 1 ambiguous, 2 faster, 0 same", note)
        self.assertIn(baseline, note)
        # A mark per row, which is an arrow at the edge where the ratio is beyond the axis.
        marks = BROWSER.js("""return [...document.querySelectorAll('#changes tbody .whisker')].map(
            (bar) => bar.querySelector('.beyond, .point').className)""")
        self.assertEqual(marks, ["beyond right", "point", "beyond left", "beyond left"])
        # The axis has words to both sides of 1, each above its line in every row.
        words = BROWSER.js("""return [...document.querySelectorAll('#changes .scale b')].map(
            (word) => [word.textContent, word.style.left])""")
        ratios = [float(word.rstrip("×")) for word, _ in words]
        self.assertIn(1, ratios)
        self.assertLess(min(ratios), 0.9)
        self.assertGreater(max(ratios), 1.1)
        self.assertEqual(dict(words)["1×"], "50%")
        lines = BROWSER.js("""return [...document.querySelectorAll('#changes tbody tr:first-child .tick')].map(
            (line) => line.style.left)""")
        self.assertEqual(lines, [left for _, left in words])
        # A case that failed by its time alone says so in its row.
        note = BROWSER.js("return document.querySelector('#table tr.case td.note').textContent")
        self.assertRegex(note, r"^slower: .* against .* times, above 1\.05")
        # The section follows the filter, and its names lead to their cases.
        BROWSER.js("""const input = document.getElementById('text'); input.value = '160x64';
            input.dispatchEvent(new Event('input'))""")
        BROWSER.settle()
        self.assertEqual(BROWSER.js("return document.querySelectorAll('#changes tbody tr').length"),
                         1)
        BROWSER.js("document.querySelector('#changes tbody a').click()")
        BROWSER.settle()
        self.assertIn("gemm 160x64x64", BROWSER.js(FOCUS))
        self.assertEqual(BROWSER.console(), [], "the console")

    def test_without_a_baseline_there_is_no_such_section(self):
        BROWSER.open(PAGE)
        self.assertTrue(BROWSER.js("return document.getElementById('changes').hidden"))


class States(unittest.TestCase):
    """Jobs that have not come to an end, or to nothing."""

    def page_of(self, job, name):
        path = os.path.join(FOLDER, name)
        report = DAEMON.run("report", job, "--output", path)
        self.assertEqual(report.code, 0, report)
        BROWSER.console()
        BROWSER.open(path)
        self.assertEqual(BROWSER.console(), [])
        return BROWSER.js("return document.querySelector('header').textContent")

    def test_running_queued_and_cancelled(self):
        # One case passes, the next never ends by itself.
        gemm = ["gemm", "--m", "32", "--n", "32", "--k", "32", "--dtype", "fp32", "--provider",
                "builtin,planted/hang", "--deadline", "300s"]
        running = DAEMON.run("submit", *gemm).out.strip()
        queued = DAEMON.run("submit", *gemm).out.strip()

        def job(name):
            return next(j for j in DAEMON.run("jobs", "--format", "json").json()["jobs"] if j["name"] == name)

        harness.wait_until(lambda: job(running)["passed"] == 1, 60, "a first result")
        header = self.page_of(running, "running.html")
        self.assertIn("still running when this was written; 1 of 2 cases have a result", header)
        self.assertIn("RUNNING", header)
        self.assertEqual(BROWSER.js(SHOWN), [0])

        header = self.page_of(queued, "queued.html")
        self.assertIn("not started yet; 0 of 2 cases", header)
        self.assertIn("No case has a result", BROWSER.js("return document.body.textContent"))
        self.assertTrue(BROWSER.js("return document.getElementById('plots').hidden"))
        self.assertTrue(BROWSER.js("return document.getElementById('provenance').hidden"))

        DAEMON.run("cancel", running, queued)
        harness.wait_until(lambda: job(running)["state"] == "CANCELLED", 60, "cancelled")
        header = self.page_of(running, "cancelled.html")
        self.assertIn("cancelled; ", header)
        self.assertIn("of 2 cases have a result", header)

    def test_a_client_built_without_the_plot_library_says_so(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        bare = re.sub(r"<script>\s*/\*!\s*\* Chart\.js.*?</script>", "<script></script>", page, flags=re.S)
        self.assertLess(len(bare), len(page) - 100_000)
        path = os.path.join(FOLDER, "bare.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(bare)
        BROWSER.console()
        BROWSER.open(path)
        self.assertEqual(BROWSER.console(), [])
        self.assertIn("built without Chart.js", BROWSER.js("return document.getElementById('plots').textContent"))
        self.assertEqual(len(BROWSER.js(SHOWN)), len(REPORT["tests"]))

    def test_nothing_timed_has_no_roofline_and_says_so(self):
        run = DAEMON.run("run", "softmax", "--rows", "4", "--cols", "64", "--dtype", "fp32", "--provider", "builtin",
                         "--format", "json")
        self.page_of(run.json()["job"], "validated.html")
        self.assertIn("None of these cases was timed", BROWSER.js("return document.getElementById('plots').textContent"))
        self.assertTrue(BROWSER.js("return document.getElementById('roofline').hidden"))
        self.assertFalse(BROWSER.js("return document.getElementById('ratios').hidden"))


if __name__ == "__main__":
    harness.main()
