'use strict';
// The plots. Each shows the cases the filter lets through, those of them that have what
// it plots; a plot without any is left out.

const efficient = 0.6, lookCloser = 0.4;

// Timed for its own sake: the few launches of a validation say little of a speed.
function timed(c) {
  const bench = c.test.bench || {};
  return positive(c.seconds) && (bench.samples >= 10 || positive(bench.ceiling_bytes_per_second) ||
                                 positive(bench.ceiling_flops_per_second));
}

// Points by series, in the order of the whole report's series.
function seriesOf(points, {by, looks}) {
  const groups = new Map();
  for (const point of points) {
    const label = choiceOf(point.c, by) || '–';
    if (!groups.has(label)) groups.set(label, []);
    groups.get(label).push(point);
  }
  return [...looks.keys()].filter((label) => groups.has(label))
    .map((label) => ({label, look: looks.get(label), points: groups.get(label)}));
}

const pointTable = (x, y) => (plot) => ({
  titles: ['Case', 'Verdict', x, y],
  rows: plot.series.flatMap(({points}) => points.map((p) => [p.c.test.name, p.c.row.verdict,
    shown(p.x), shown(p.y)])),
});

// One roof a device and format; with many devices one a format, the highest.
function roofsOf(cases) {
  const roofs = (keyOf) => {
    const found = new Map();
    for (const {test, device} of cases) {
      const bytes = test.bench && test.bench.ceiling_bytes_per_second;
      if (!positive(bytes)) continue;
      const flops = test.bench.ceiling_flops_per_second;
      const key = keyOf(test, device);
      const roof = found.get(key) || {bytes: 0, flops: 0};
      roof.bytes = Math.max(roof.bytes, bytes);
      if (positive(flops)) roof.flops = Math.max(roof.flops, flops);
      found.set(key, roof);
    }
    return found;
  };
  const several = distinct(cases, 'device').length > 1;
  const each = several ? roofs((test, device) => `${test.dtype} ${device}`) : roofs((test) => test.dtype);
  return each.size <= 8 ? each : roofs((test) => test.dtype);
}

function roofline(cases, options) {
  const points = cases.filter((c) => timed(c) && positive(c.flops) && positive(c.bytes))
    .map((c) => ({x: c.flops / c.bytes, y: c.flops, c}));
  if (points.length === 0) return null;
  const roofs = [...roofsOf(points.map((p) => p.c))];
  const knees = roofs.filter(([, roof]) => roof.flops > 0).map(([, roof]) => roof.flops / roof.bytes);
  const x = rangeOf([...points.map((p) => p.x), ...knees], 2);
  const references = roofs.filter(([, roof]) => roof.flops > 0).map(([name, {bytes, flops}]) => ({
    tag: `${name} ${prefixed(flops, 'FLOP/s')}`,
    points: [{x: x[0], y: bytes * x[0]}, {x: flops / bytes, y: flops}, {x: x[1], y: flops}]}));
  // Where no compute roof is known, the memory's alone.
  const slopes = new Set(roofs.filter(([, roof]) => roof.flops > 0).map(([, roof]) => roof.bytes));
  for (const [, {bytes, flops}] of roofs) {
    if (flops > 0 || slopes.has(bytes)) continue;
    slopes.add(bytes);
    references.push({tag: `memory ${prefixed(bytes, 'B/s')}`,
                     points: [{x: x[0], y: bytes * x[0]}, {x: x[1], y: bytes * x[1]}]});
  }
  const cached = points.filter(({c}) => c.test.bench.roof === 'cache').length;
  const bandwidth = Math.max(0, ...roofs.map(([, roof]) => roof.bytes));
  const heights = [...points.map((p) => p.y), ...references.flatMap((r) => r.points.map((p) => p.y))];
  return {
    series: seriesOf(points, options), references,
    axes: {x: logAxis('FLOP per byte that must move', (v) => String(Number(v.toPrecision(2))), x),
           y: logAxis('rate reached', (v) => prefixed(v, 'FLOP/s'), rangeOf(heights, 1.5))},
    note: (bandwidth > 0 ? `The slope is the memory's ${prefixed(bandwidth, 'B/s')}.` : 'No ceiling was measured.') +
      (cached > 0 ? ` ${counted(cached, 'case')} in cache may lie above it.` : ''),
    summary: `${counted(points.length, 'case')} against measured ceilings.`,
    describe: (p) => `${prefixed(p.y, 'FLOP/s')} at ${Number(p.x.toPrecision(3))} FLOP/B` +
      (p.c.efficiency !== undefined ? `, ${p.c.row.of_roof} of its ${p.c.test.bench.roof} roof`
                                    : p.c.row.of_roof ? `, ${p.c.row.of_roof}` : ''),
  };
}

function efficiency(cases, options) {
  const rate = options.size === 'bytes' ? 'bytes' : 'flops';
  const points = cases.filter((c) => timed(c) && typeof c.efficiency === 'number' && Number.isFinite(c.efficiency) &&
                                     positive(c[rate]))
    .map((c) => ({x: c[rate] * c.seconds, y: 100 * c.efficiency, c}));
  if (points.length === 0) return null;
  const unit = options.size === 'bytes' ? 'B' : 'FLOP';
  const x = rangeOf(points.map((p) => p.x));
  const level = (share) => ({tag: `${100 * share} %`, dashed: true,
                             points: [{x: x[0], y: 100 * share}, {x: x[1], y: 100 * share}]});
  return {
    series: seriesOf(points, options), references: [level(efficient), level(lookCloser)],
    axes: {x: logAxis(unit === 'B' ? 'bytes that must move, a launch' : 'FLOP of a launch',
                      (v) => prefixed(v, unit), x),
           y: {title: 'share of the roof', word: (v) => `${v} %`,
               range: [0, Math.max(100, Math.ceil(1.05 * Math.max(...points.map((p) => p.y)) / 10) * 10)]}},
    summary: `${counted(points.length, 'case')}, ${points.filter((p) => p.y < 100 * efficient).length} below 60 %.`,
    describe: (p) => `${p.c.row.of_roof || ''} of the ${p.c.test.bench.roof} roof, ${prefixed(p.x, unit)}, ${p.c.row.time || ''}`,
  };
}

const errorMeasures = {
  rho: {title: 'largest error / bound', of: (c) => c.rho},
  max: {title: 'largest absolute error', of: (c) => c.maxAbs},
  rms: {title: 'RMS error', of: (c) => number(c.test.rms_error)},
  relative: {title: 'largest absolute error / largest reference',
             of: (c) => (positive(number(c.test.max_abs_reference)) ? c.maxAbs / c.test.max_abs_reference : undefined)},
};

function errorOverLength(cases, options) {
  const present = new Set(cases.filter((c) => positive(c.length) && c.maxAbs !== undefined).map((c) => c.test.op));
  const op = [...options.axes.keys()].find((name) =>
    (options.op === 'auto' ? present.has(name) : name === options.op));
  const measure = errorMeasures[options.measure];
  const measured = cases.filter((c) => c.test.op === op && positive(c.length) && measure.of(c) !== undefined);
  const points = measured.filter((c) => positive(measure.of(c))).map((c) => ({x: c.length, y: measure.of(c), c}));
  const exact = measured.filter((c) => measure.of(c) === 0).length;
  const others = measured.length - exact - points.length;
  // A choice of one's own stays, to be changed again.
  if (points.length === 0 && (options.op === 'auto' || present.size === 0)) return null;
  const lengths = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b);
  const series = seriesOf(points, options);
  for (const one of series) {
    const worst = new Map();
    for (const p of one.points) worst.set(p.x, Math.max(worst.get(p.x) || 0, p.y));
    one.line = [...worst].sort(([a], [b]) => a - b).map(([x, y]) => ({x, y}));
  }
  const x = rangeOf(lengths, 1.25) || [1, 10];
  const name = options.axes.has(op) ? options.axes.get(op).title : 'length';
  return {
    series, references: options.measure === 'rho' && points.length > 0
      ? [{tag: 'bound', dashed: true, points: [{x: x[0], y: 1}, {x: x[1], y: 1}]}] : [],
    axes: {x: {...logAxis(`${op || ''}: ${name}`, (v) => v.toLocaleString('en'), x),
               ticks: lengths.length > 0 && lengths.length <= 10 ? lengths : undefined,
               word: lengths.length <= 10 ? (v) => v.toLocaleString('en')
                                          : (v) => (roundDigit(v) === 1 ? v.toLocaleString('en') : null)},
           y: logAxis(measure.title, (v) => (v >= 0.01 && v < 1000 ? String(Number(v.toPrecision(2))) : v.toExponential(0)),
                      rangeOf([...points.map((p) => p.y), ...(options.measure === 'rho' ? [1] : [])]) || [0.1, 10])},
    note: [exact > 0 ? `${counted(exact, 'exact result')} not on a logarithmic axis.` : '',
           others > 0 ? `${counted(others, 'result')} not finite.` : ''].filter(Boolean).join(' '),
    summary: `${op || 'no operator'}: ${counted(points.length, 'case')} over ${counted(lengths.length, 'length')}.`,
    describe: (p) => `${measure.title} ${Number(p.y.toPrecision(3))} at ${p.x.toLocaleString('en')} ${name}`,
  };
}

// Twenty bins to the bound, then what is beyond it.
const ratioBins = [
  ...Array.from({length: 20}, (_, i) => ({label: (i / 20).toFixed(2), below: (i + 1) / 20,
                                          title: `${(i / 20).toFixed(2)} to ${((i + 1) / 20).toFixed(2)}`})),
  {label: '>1', below: 2, title: '1 to 2'}, {label: '>2', below: 10, title: '2 to 10'},
  {label: '>10', below: 100, title: '10 to 100'}, {label: '>100', below: Infinity, title: 'above 100'},
  {label: 'NaN', title: 'NaN or infinite'}];

function ratioBin(rho) {
  if (!Number.isFinite(rho)) return ratioBins.length - 1;
  return ratioBins.findIndex((bin, i) => (i < 20 ? rho < bin.below || (i === 19 && rho <= 1) : rho < bin.below));
}

function ratios(cases, options) {
  const measured = cases.filter((c) => c.rho !== undefined);
  if (measured.length === 0) return null;
  const beyond = measured.filter((c) => !(c.rho <= 1)).length;
  // Without a ratio beyond the bound there is no need for room there.
  const bins = beyond > 0 ? ratioBins : ratioBins.slice(0, 20);
  const series = seriesOf(measured.map((c) => ({c})), options).map(({label, look, points}) => {
    const counts = new Array(bins.length).fill(0);
    for (const {c} of points) ++counts[ratioBin(c.rho)];
    return {label, look, points: counts};
  });
  return {
    series, labels: bins.map((bin) => bin.label),
    axes: {x: {type: 'category', title: 'largest error / bound of a case', stacked: true},
           y: {title: 'cases', stacked: true, word: (v) => (Number.isInteger(v) ? v.toLocaleString('en') : null)}},
    divider: beyond > 0 ? {after: 19, text: 'bound'} : {},
    note: beyond > 0 ? `${counted(beyond, 'case')} beyond the bound.` : '',
    summary: `${counted(measured.length, 'case')}, ${beyond} beyond the bound.`,
    barTitle: (i) => `error/bound ${bins[i].title}`, bins,
  };
}

class Plots {
  constructor(model, onPick) {
    this.model = model;
    this.figures = [];
    if (model.cases.length === 0) return;
    byId('plots').hidden = false;
    if (typeof Chart === 'undefined') {
      byId('plots-note').textContent = 'This client was built without Chart.js, so there are no plots; the ' +
        'table and the saved JSON have every figure.';
      return;
    }
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    const figure = (options) => this.figures.push(new Figure(options, onPick));
    figure({id: 'roofline', title: 'Roofline', build: roofline, table: pointTable('FLOP/B', 'FLOP/s'),
            note: 'What each timed case reached under what the device can.'});
    figure({id: 'efficiency', title: 'Efficiency against size', build: efficiency, table: pointTable('Size', '% of roof'),
            note: 'Share of the roof that limits the case: 60 % is efficient, below 40 % look closer.',
            choices: [{name: 'size', label: 'size in', values: [['flops', 'FLOP'], ['bytes', 'bytes']]}]});
    figure({id: 'length', title: 'Error over sequence length', build: errorOverLength,
            table: pointTable('Length', 'Error'), note: 'Lines join the worst at each length.',
            choices: [{name: 'op', label: 'operator', values: [['auto', 'automatic'], ...distinct(model.cases, 'op')
              .filter((op) => model.lengthAxes.has(op)).map((op) => [op, op])]},
                      {name: 'measure', label: 'error', values: [['max', 'max abs'], ['rho', 'error/bound'],
                        ['rms', 'RMS'], ['relative', 'relative']]}]});
    figure({id: 'ratios', title: 'Error / bound', build: ratios, type: 'bar', table: (plot) => ({
      titles: ['Error/bound', ...plot.series.map((s) => s.label)],
      rows: plot.bins.map((bin, i) => [bin.title, ...plot.series.map((s) => String(s.points[i]))])}),
            note: 'How near each case came to what its arithmetic may lose; above 1 fails.'});
    byId('figures').replaceChildren(...this.figures.map((f) => f.root));
    const groups = [['provider', 'provider'], ['dtype', 'format'], ['op', 'operator'], ['device', 'device']]
      .filter(([name]) => distinct(model.cases, name).length > 0);
    this.by = (groups.find(([name]) => distinct(model.cases, name).length > 1) || groups[0])[0];
    byId('plot-options').replaceChildren(h('label', {}, 'Colour by', h('select', {id: 'colour-by', onchange: (event) => {
      this.by = event.target.value;
      this.draw();
    }}, groups.map(([value, text]) => h('option', {value, selected: value === this.by}, text)))));
  }

  show(cases) {
    this.cases = cases;
    if (this.figures.length === 0) return;
    // Typing fast draws once.
    if (this.waiting) cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => {
      this.waiting = undefined;
      this.draw();
    });
  }

  draw() {
    const looks = new Map(distinct(this.model.cases, this.by).map((label, i) => [label, lookOf(i)]));
    looks.set('–', lookOf(7));
    const options = {by: this.by, looks, axes: this.model.lengthAxes};
    const drawn = this.figures.filter((figure) => figure.show(this.cases, options));
    byId('plots-note').replaceChildren(...(drawn.length === 0 ? ['None of these cases has anything to plot.']
      : [this.cases.some(timed) ? '' : 'None of these cases was timed (assay bench, or --mode both), so there is no roofline and no efficiency. ',
         h('span', {class: 'screen'}, 'A click on a point opens its case.')]));
  }

  restyle() {
    for (const figure of this.figures) figure.restyle();
  }
}
