'use strict';
// The report's data: the JSON document, and beside it the words a table shows of each
// case. What was not measured is absent in both and stays so here.

// An element; text is only ever text. Attributes named on… are listeners.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null) element.append(child);
  }
  return element;
}

const byId = (id) => document.getElementById(id);

// A measured number, NaN and infinities included (strings in JSON); undefined where absent.
function number(value) {
  if (typeof value === 'number') return value;
  if (value === 'NaN') return NaN;
  if (value === 'Infinity') return Infinity;
  return value === '-Infinity' ? -Infinity : undefined;
}

const positive = (value) => typeof value === 'number' && value > 0 && Number.isFinite(value);

// "1.23 G", three digits and a prefix.
function prefixed(value, unit) {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  let i = 0;
  while (Math.abs(value) >= 999.5 && i + 1 < prefixes.length) {
    value /= 1000;
    ++i;
  }
  return `${Number(value.toPrecision(3))} ${prefixes[i]}${unit}`;
}

const counted = (n, one, many) => `${n.toLocaleString('en')} ${n === 1 ? one : many || one + 's'}`;

// The text of a data block; large ones are deflated.
async function dataText(id) {
  const block = byId(id);
  if (block.dataset.encoding !== 'deflate') return block.textContent;
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('this browser cannot read a compressed report (no DecompressionStream)');
  }
  const bytes = Uint8Array.from(atob(block.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).text();
}

// How long the sequence is that an operator weighs: an attention's keys, a softmax's row.
// `axis` is of view.lengths. Other operators have sums, but no sequence.
function lengthOf(test, axis) {
  const shape = test.shape || {};
  return axis && axis.fields.map((field) => shape[field]).find(Boolean);
}

// Everything the page shows, one entry a case.
async function loadModel() {
  const [reportText, viewText] = await Promise.all([dataText('report'), dataText('view')]);
  const report = JSON.parse(reportText);
  const view = JSON.parse(viewText);
  const lengthAxes = new Map(view.lengths.map((axis) => [axis.op, axis]));
  const rank = new Array(report.tests.length);
  view.order.forEach((index, position) => { rank[index] = position; });
  const cases = report.tests.map((test, i) => {
    const row = view.rows[i];
    const bench = test.bench || {};
    const seconds = number(bench.median_seconds);
    const details = row.details || [];
    return {
      i, test, row, details, rank: rank[i],
      device: [test.target, test.device].filter(Boolean).join(' '),
      rho: number(test.rho), bits: number((test.precision || {}).bits), maxAbs: number(test.max_abs_error), seconds,
      flops: number(bench.flops_per_second), bytes: number(bench.bytes_per_second),
      efficiency: number(bench.efficiency), length: lengthOf(test, lengthAxes.get(test.op)),
      text: [row.verdict, test.name, test.op, test.provider, test.dtype, test.pattern, test.target,
             test.device, test.reason, test.reads_as, row.note,
             ...details.map((d) => d.label + ' ' + d.text)].join(' ').toLowerCase(),
    };
  });
  return {report, reportText, cases, lengthAxes};
}

// Which cases are shown: all words occur, and each choice agrees.
class Filter {
  constructor() {
    this.clear();
    this.listeners = [];
  }
  clear() {
    this.words = '';
    this.verdicts = new Set();
    this.choices = {};
  }
  get active() {
    return this.words.trim() !== '' || this.verdicts.size > 0 ||
        Object.values(this.choices).some((value) => value !== '');
  }
  matching(cases) {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const choices = Object.entries(this.choices).filter(([, value]) => value !== '');
    return cases.filter((c) =>
      (this.verdicts.size === 0 || this.verdicts.has(c.row.verdict) ||
       (c.row.look_closer && this.verdicts.has('look closer'))) &&
      choices.every(([name, value]) => choiceOf(c, name) === value) &&
      words.every((word) => c.text.includes(word)));
  }
  changed() {
    for (const listener of this.listeners) listener();
  }
}

const choiceNames = [['op', 'Operator'], ['provider', 'Provider'], ['dtype', 'Format'],
                     ['pattern', 'Data'], ['device', 'Device']];
const choiceOf = (c, name) => (name === 'device' ? c.device : c.test[name] || '');

// Values of a field in the order in which they first occur.
const distinct = (cases, name) => [...new Set(cases.map((c) => choiceOf(c, name)))].filter(Boolean);
