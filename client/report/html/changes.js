'use strict';
// Times against a baseline's: a row a case, the worst first, each ratio with its noise on
// an axis that all share.

const changeWords = ['slower', 'ambiguous', 'faster', 'same'];
const changeClasses = {slower: 'FAILED', ambiguous: 'inconclusive', faster: 'passed'};
// Cases that are the same beyond these are counted, not listed: they are in the table of
// cases. Paper and screen hold the others in full.
const mostSame = 50;

// The widest ratio of the rows, as a distance on the axis: at least twice the threshold.
function reach(rows) {
  let most = 0.02;
  for (const {change} of rows) {
    const ratio = Math.abs(Math.log(number(change.ratio)));
    const end = ratio + 2 * (number(change.noise) || 0);
    most = Math.max(most, 2 * Math.log1p(number(change.threshold) || 0), end);
  }
  return Math.min(most, Math.log(4));
}

// A point at the ratio with its noise to both sides (two standard errors), the threshold as
// a band around 1. Beyond the axis it stands at its edge.
function whisker(change, most) {
  const place = (log) => 50 + 50 * Math.max(-1, Math.min(1, log / most));
  const part = (name, from, to) => {
    const element = h('i', {class: name});
    element.style.left = `${from}%`;
    element.style.width = `${Math.max(0, to - from)}%`;
    return element;
  };
  const log = Math.log(number(change.ratio));
  const noise = 2 * (number(change.noise) || 0);
  const band = Math.log1p(number(change.threshold) || 0);
  return h('span', {class: 'whisker', 'aria-hidden': 'true'},
    part('band', place(-band), place(band)), part('noise', place(log - noise), place(log + noise)),
    part('point', place(log), place(log)));
}

function percent(share) {
  const value = 100 * share;
  return `${value >= 9.5 ? value.toFixed(0) : value.toPrecision(2)} %`;
}

// Follows the filter; absent where no case was held against a baseline.
function drawChanges(cases, reveal) {
  const rows = [];
  for (const c of cases) {
    const change = (c.test.bench || {}).baseline;
    if (change && positive(number(change.ratio))) rows.push({c, change});
  }
  const section = byId('changes');
  section.hidden = rows.length === 0;
  const rank = (row) => changeWords.indexOf(row.change.change);
  rows.sort((a, b) => rank(a) - rank(b) || b.change.ratio - a.change.ratio);
  const counts = changeWords.map((word) => [word, rows.filter((row) => row.change.change === word).length]);
  const same = counts.find(([word]) => word === 'same')[1];
  const shown = same > mostSame ? rows.slice(0, rows.length - same + mostSame) : rows;
  const names = [...new Set(rows.map((row) => row.change.baseline))].join(', ');
  const threshold = rows.length > 0 ? percent(rows[0].change.threshold) : '';
  byId('changes-note').textContent = `Against ${names}: ` +
    counts.map(([word, count]) => `${count.toLocaleString('en')} ${word}`).join(', ') +
    `. A change counts from ${threshold} (the band); lines are two standard errors of the ratio.` +
    (shown.length < rows.length ? ` ${(rows.length - shown.length).toLocaleString('en')} more that are the same are not listed.` : '');
  const most = reach(rows);
  section.querySelector('table').replaceChildren(
    h('thead', {}, h('tr', {}, ['Change', 'Case'].map((title) => h('th', {scope: 'col'}, title)),
      ['Baseline', 'Now', 'Ratio', 'Noise'].map((title) => h('th', {scope: 'col', class: 'n'}, title)),
      h('th', {scope: 'col'}, 'Faster · slower'))),
    h('tbody', {}, shown.map(({c, change}) => h('tr', {},
      h('td', {class: changeClasses[change.change]}, change.change),
      h('td', {}, h('a', {href: `#case-${c.i}`, onclick: (event) => {
        event.preventDefault();
        reveal(c);
      }}, c.test.name)),
      h('td', {class: 'n'}, c.row.baseline_time || ''), h('td', {class: 'n'}, c.row.time || ''),
      h('td', {class: 'n'}, number(change.ratio).toFixed(3)),
      h('td', {class: 'n'}, `± ${percent(number(change.noise))}`),
      h('td', {}, whisker(change, most))))));
}
