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

// Where the axis puts the logarithm of a ratio, percent of its width.
const placeOn = (most) => (log) => 50 + 50 * Math.max(-1, Math.min(1, log / most));

// An element from one place to another.
function part(name, from, to) {
  const element = h('i', {class: name});
  element.style.left = `${from}%`;
  element.style.width = `${Math.max(0, to - from)}%`;
  return element;
}

// Ratios that have a word on the axis: 1, and to both sides of it the round ones that are
// far enough from one another to be read.
const roundRatios = [[0.99, 1.01], [0.98, 1.02], [0.95, 1.05], [0.9, 1.1], [0.8, 1.2], [0.7, 1.5], [0.5, 2],
                     [0.33, 3], [0.25, 4]];
const leastBetween = 14;  // percent of the axis
function ticksOf(most) {
  const place = placeOn(most);
  const ticks = [1];
  let last = place(0);
  for (const [faster, slower] of roundRatios) {
    const at = place(Math.log(slower));
    if (at - last < leastBetween || at > 97 || -Math.log(faster) > most) continue;
    ticks.push(faster, slower);
    last = at;
  }
  return ticks;
}

// The axis: its words above the column, a line at 1.
function scaleOf(ticks, most) {
  const place = placeOn(most);
  return h('span', {class: 'whisker scale'}, ticks.map((ratio) => {
    const word = h('b', {class: ratio === 1 ? 'one' : undefined}, `${ratio}×`);
    word.style.left = `${place(Math.log(ratio))}%`;
    return word;
  }));
}

// A point at the ratio with its noise to both sides (two standard errors), the threshold as
// a band around 1. Beyond the axis an arrow stands at its edge.
function whisker(change, ticks, most) {
  const place = placeOn(most);
  const log = Math.log(number(change.ratio));
  const noise = 2 * (number(change.noise) || 0);
  const band = Math.log1p(number(change.threshold) || 0);
  const beyond = Math.abs(log) > most * 1.001;
  return h('span', {class: 'whisker', 'aria-hidden': 'true'},
    part('band', place(-band), place(band)),
    ticks.map((ratio) => part(ratio === 1 ? 'tick one' : 'tick', place(Math.log(ratio)), 0)),
    part('noise', place(log - noise), place(log + noise)),
    beyond ? h('i', {class: log > 0 ? 'beyond right' : 'beyond left'}) : part('point', place(log), 0));
}

function percent(share) {
  const value = 100 * share;
  return `${value >= 9.5 ? value.toFixed(0) : value.toPrecision(2)} %`;
}

// "1.020", or "0.960 to 1.310" where threads waited for processors that long.
function ratioText(change) {
  const least = number(change.least_ratio ?? change.ratio), most = number(change.most_ratio ?? change.ratio);
  return change.change === 'ambiguous' && most > 1.01 * least
    ? `${least.toFixed(3)} to ${most.toFixed(3)}` : number(change.ratio).toFixed(3);
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
  const most = reach(rows);
  const ticks = ticksOf(most);
  const threshold = rows.length > 0 ? percent(rows[0].change.threshold) : '';
  byId('changes-note').textContent = `Against ${names}: ` +
    counts.map(([word, count]) => `${count.toLocaleString('en')} ${word}`).join(', ') +
    `. A change counts from ${threshold} (the band); lines are two standard errors of the ratio` +
    (rows.some(({change}) => Math.abs(Math.log(number(change.ratio))) > most * 1.001) ? '; an arrow is a ratio beyond the axis.' : '.') +
    (shown.length < rows.length ? ` ${(rows.length - shown.length).toLocaleString('en')} more that are the same are not listed.` : '');
  section.querySelector('table').replaceChildren(
    h('thead', {}, h('tr', {}, ['Change', 'Case'].map((title) => h('th', {scope: 'col'}, title)),
      ['Baseline', 'Now', 'Ratio', 'Noise'].map((title) => h('th', {scope: 'col', class: 'n'}, title)),
      h('th', {scope: 'col', class: 'axis'}, h('span', {class: 'sides'}, h('span', {}, '‹ faster'), h('span', {}, 'slower ›')),
        scaleOf(ticks, most)))),
    h('tbody', {}, shown.map(({c, change}) => h('tr', {},
      h('td', {class: `${changeClasses[change.change] || ''} word`}, change.change),
      h('td', {}, h('a', {href: `#case-${c.i}`, onclick: (event) => {
        event.preventDefault();
        reveal(c);
      }}, c.test.name)),
      [['Baseline', c.row.baseline_time || ''], ['Now', c.row.time || ''], ['Ratio', ratioText(change)],
       ['Noise', `± ${percent(number(change.noise))}`]].map(([title, text]) => h('td', {class: 'n', 'data-label': title}, text)),
      h('td', {class: changeClasses[change.change]}, whisker(change, ticks, most))))));
}
