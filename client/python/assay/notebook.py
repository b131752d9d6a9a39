"""Results as HTML for notebooks: a table, the verdict, and the error over the length of a sequence.

Everything stands in the page itself: no script, no style from elsewhere, and the plot is SVG.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any, Iterable, Optional, Sequence

from . import problems
from .errors import visible
from .measures import time_text

_GOOD, _BAD, _QUIET = "#1a7f37", "#b42318", "#6b6b6b"
_COLOURS = {"PASSED": _GOOD, "FAILED": _BAD, "ERROR": _BAD}
_SERIES = ("#3b6fb6", "#c2571a", "#3d8b5f", "#8a5fb0", "#b0912f", "#5f6b7a")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 460, 230, 64, 42


def _text(value: Any) -> str:
    return escape(visible(str(value)))


def _number(value: Optional[float], form: str = ".3g") -> str:
    return "–" if value is None else format(value, form)


def _verdict(word: str) -> str:
    return f'<b style="color:{_COLOURS.get(word, _QUIET)}">{_text(word or "no verdict yet")}</b>'


def _row(result: Any) -> str:
    stats, bench, precision = result.stats, result.bench, result.precision
    bits = "–" if precision is None or precision.bits is None else f"{precision.bits:.1f} of {precision.declared_bits:g}"
    cells = [_verdict(result.verdict), _text(result.name), _number(stats and stats.rho), bits,
             _number(stats and stats.max_abs_error, ".2g"), time_text(bench and bench.median_seconds) or "–"]
    notes = [f.message for f in result.findings]
    notes += [f"reads as {result.reads_as}"] * bool(result.reads_as) + [f"next: {problems.in_python(result.next_step)}"] * bool(result.next_step)
    row = "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
    if notes:
        row += (f'<tr><td></td><td colspan="5" style="text-align:left;color:{_QUIET}">'
                + "<br>".join(map(_text, notes)) + "</td></tr>")
    return row


def of_results(results: Iterable[Any]) -> str:
    titles = ("verdict", "case", "error/bound", "precision [bits]", "max abs", "time")
    head = "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, results))}</tbody></table>"


def of_report(report: Any) -> str:
    job = report.job
    end = f"<p>{_verdict(report.verdict)} {_text(job.name)}: {_text(job.counts)}</p>"
    return of_results(report.results) + end + error_plot(report.results)


def error_plot(results: Sequence[Any]) -> str:
    """The largest error over its bound, over the length: SVG, or "" if fewer than two lengths have one."""
    series: dict[str, dict[int, float]] = {}
    title = ""
    for result in results:
        if result.stats is None or not result.stats.rho or not math.isfinite(result.stats.rho) or not result.length:
            continue
        axis = problems.info(result.op).length.title
        title = title or f"{result.op}: {axis}"
        if title != f"{result.op}: {axis}":
            continue  # one plot has one operator
        points = series.setdefault(f"{result.provider} {result.dtype}".strip(), {})
        points[result.length] = max(points.get(result.length, 0.0), result.stats.rho)
    lengths = sorted({length for points in series.values() for length in points})
    if len(lengths) < 2:
        return ""
    return _svg(series, lengths, title)


def _svg(series: dict[str, dict[int, float]], lengths: Sequence[int], title: str) -> str:
    values = [rho for points in series.values() for rho in points.values()] + [1.0]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    first, last = math.log(lengths[0]), math.log(lengths[-1])

    def x(length: float) -> float:
        return _LEFT + (math.log(length) - first) / (last - first) * (_WIDTH - _LEFT - 16)

    def y(value: float) -> float:
        return 12 + (high - math.log10(value)) / (high - low) * (_HEIGHT - _BOTTOM - 12)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + 16 * len(series)}" '
             f'font-family="sans-serif" font-size="11" fill="currentColor" role="img" aria-label="error over length">',
             f'<line x1="{_LEFT}" x2="{_WIDTH - 16}" y1="{y(1):.1f}" y2="{y(1):.1f}" stroke="{_BAD}" '
             f'stroke-dasharray="4 3"/><text x="{_LEFT + 4}" y="{y(1) - 4:.1f}" fill="{_BAD}">bound</text>']
    for exponent in range(math.ceil(low), math.floor(high) + 1):
        parts.append(f'<text x="{_LEFT - 6}" y="{y(10.0 ** exponent) + 4:.1f}" text-anchor="end">{10.0 ** exponent:g}</text>')
    shown = lengths if len(lengths) <= 8 else [lengths[0], lengths[-1]]
    for length in shown:
        parts.append(f'<text x="{x(length):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{length:,}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{_text(title)}</text>')
    parts.append(f'<text transform="translate(12 {(_HEIGHT - _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
                 "error / bound</text>")
    for i, (name, points) in enumerate(series.items()):
        colour = _SERIES[i % len(_SERIES)]
        line = " ".join(f"{x(length):.1f},{y(rho):.1f}" for length, rho in sorted(points.items()))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x(length):.1f}" cy="{y(rho):.1f}" r="3" fill="{colour}"><title>{_text(name)}, '
                  f"{length:,}: {rho:.3g}</title></circle>" for length, rho in points.items()]
        at = _HEIGHT + 16 * i
        parts.append(f'<circle cx="{_LEFT}" cy="{at + 6}" r="4" fill="{colour}"/>'
                     f'<text x="{_LEFT + 10}" y="{at + 10}">{_text(name)}</text>')
    return "".join(parts) + "</svg>"
