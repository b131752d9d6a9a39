'use strict';
// The table of cases: sorted by any column, a page at a time, each row opening into
// everything known of its case.

// Few at first, so that the plots are near.
const pageSizes = [25, 100, 500];

// Sorting puts what was not measured last in both directions, and NaN, which no bound
// holds, at the end of the worst.
const severity = (value) => (Number.isNaN(value) ? Infinity : value);

const columns = [
  {title: 'Verdict', key: (c) => c.rank, first: 'ascending'},
  {title: 'Case', key: (c) => c.test.name, first: 'ascending'},
  {title: 'Error/bound', key: (c) => severity(c.rho), cell: 'ratio', number: true},
  {title: 'Precision', key: (c) => c.bits, cell: 'precision', number: true, first: 'ascending'},
  {title: 'Max abs', key: (c) => severity(c.maxAbs), cell: 'max_abs', number: true},
  {title: 'Time', key: (c) => c.seconds, cell: 'time', number: true},
  {title: 'Rate', key: (c) => c.flops ?? c.bytes, cell: 'rate', number: true},
  {title: 'Of roof', key: (c) => c.efficiency, cell: 'of_roof', number: true, first: 'ascending'},
  {title: 'Note', key: (c) => c.row.note, cell: 'note', first: 'ascending'},
];
const textOf = (column, c) => (column.cell ? c.row[column.cell] : c.test.name);

class CaseTable {
  constructor(model, root, pages) {
    this.model = model;
    // A column that no case has a word for would only take room.
    this.columns = columns.filter((column) => model.cases.length === 0 ||
                                              model.cases.some((c) => textOf(column, c)));
    this.root = root;
    this.pages = pages;
    this.column = 0;
    this.direction = 'ascending';  // the worst first
    this.page = 0;
    this.size = pageSizes[0];
    this.everything = false;
    this.open = new Set();
    this.collator = new Intl.Collator('en', {numeric: true});
    this.several = distinct(model.cases, 'device').length > 1;
    this.head();
    root.tBodies[0].addEventListener('keydown', (event) => this.move(event));
  }

  head() {
    this.root.tHead.replaceChildren(h('tr', {}, this.columns.map((column, i) =>
      h('th', {scope: 'col', class: column.number ? 'n' : undefined},
        this.everything ? column.title
                        : h('button', {type: 'button', onclick: () => this.sortBy(i)}, column.title)))));
  }

  // On paper all rows stand, below a head that browsers repeat only if it has no buttons.
  paper(on) {
    this.everything = on;
    this.head();
    this.draw();
  }

  sortBy(i) {
    if (this.column === i) {
      this.direction = this.direction === 'ascending' ? 'descending' : 'ascending';
    } else {
      this.column = i;
      this.direction = this.columns[i].first || 'descending';
    }
    this.page = 0;
    this.show(this.cases);
  }

  // Sorted anew; the order of the job decides among equals.
  show(cases) {
    this.cases = cases;
    const key = this.columns[this.column].key;
    const sign = this.direction === 'ascending' ? 1 : -1;
    this.sorted = cases.map((c) => [key(c), c]).sort(([a, x], [b, y]) => {
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined) || x.i - y.i;
      const order = typeof a === 'string' ? this.collator.compare(a, b) : a - b || 0;
      return sign * order || x.rank - y.rank;
    }).map(([, c]) => c);
    this.page = Math.min(this.page, Math.max(0, Math.ceil(cases.length / this.size) - 1));
    this.draw();
  }

  draw() {
    [...this.root.tHead.rows[0].cells].forEach((cell, i) => {
      if (i === this.column) cell.setAttribute('aria-sort', this.direction);
      else cell.removeAttribute('aria-sort');
    });
    const begin = this.everything ? 0 : this.page * this.size;
    const end = this.everything ? this.sorted.length : begin + this.size;
    const rows = document.createDocumentFragment();
    for (const c of this.sorted.slice(begin, end)) {
      rows.append(this.row(c));
      if (this.open.has(c.i)) rows.append(detailRow(c));
    }
    if (this.sorted.length === 0) {
      rows.append(h('tr', {}, h('td', {class: 'empty', colspan: this.columns.length},
        this.model.cases.length === 0 ? 'No case has a result.' : 'No case matches the filter.')));
    }
    this.root.tBodies[0].replaceChildren(rows);
    this.drawPages();
  }

  drawPages() {
    const last = Math.max(0, Math.ceil(this.sorted.length / this.size) - 1);
    this.pages.hidden = this.sorted.length <= pageSizes[0];
    const button = (text, label, page) => h('button', {
      type: 'button', 'aria-label': label, disabled: page < 0 || page > last || page === this.page,
      onclick: () => { this.turn(page); }}, text);
    const begin = this.page * this.size;
    this.pages.replaceChildren(
      button('« First', 'First page', 0), button('‹ Previous', 'Previous page', this.page - 1),
      h('span', {class: 'quiet'}, `${(begin + 1).toLocaleString('en')}–${Math.min(begin + this.size,
        this.sorted.length).toLocaleString('en')} of ${this.sorted.length.toLocaleString('en')}`),
      button('Next ›', 'Next page', this.page + 1), button('Last »', 'Last page', last),
      h('label', {class: 'quiet'}, 'rows ', h('select', {id: 'rows', onchange: (event) => {
        this.size = Number(event.target.value);
        this.page = 0;
        this.draw();
        byId('rows').focus();
      }}, pageSizes.map((size) => h('option', {value: size, selected: size === this.size}, size)))));
  }

  turn(page) {
    const label = document.activeElement && document.activeElement.getAttribute('aria-label');
    this.page = page;
    this.draw();
    const again = label && this.pages.querySelector(`[aria-label="${label}"]:not(:disabled)`);
    (again || this.root.querySelector('td.name button'))?.focus();
  }

  row(c) {
    const cell = (column) => {
      const text = c.row[column.cell];
      return h('td', {class: text === undefined ? 'n none' : 'n', 'data-label': column.title},
        text === undefined ? h('span', {class: 'absent'}, '–') : text);
    };
    const open = this.open.has(c.i);
    return h('tr', {class: open ? 'case open' : 'case', id: `case-${c.i}`},
      h('td', {class: `verdict ${c.row.verdict}`}, c.row.verdict),
      h('td', {class: 'name'}, h('button', {type: 'button', 'aria-expanded': String(open),
                                            onclick: () => this.toggle(c)}, c.test.name),
        this.several ? h('div', {class: 'quiet'}, c.device) : null),
      this.columns.filter((column) => column.cell).map((column) =>
        (column.number ? cell(column) : h('td', {class: 'note'}, c.row.note || ''))));
  }

  toggle(c) {
    const row = byId(`case-${c.i}`);
    const button = row.querySelector('td.name button');
    if (this.open.delete(c.i)) {
      row.nextSibling.remove();
    } else {
      this.open.add(c.i);
      row.after(detailRow(c));
      history.replaceState(null, '', `#case-${c.i}`);
    }
    row.classList.toggle('open');
    button.setAttribute('aria-expanded', String(this.open.has(c.i)));
  }

  // Shows one case, whatever page it is on. False where the filter hides it.
  reveal(c) {
    const position = this.sorted.indexOf(c);
    if (position < 0) return false;
    this.page = Math.floor(position / this.size);
    this.open.add(c.i);
    this.draw();
    const row = byId(`case-${c.i}`);
    row.scrollIntoView({block: 'center'});
    row.querySelector('td.name button').focus({preventScroll: true});
    return true;
  }

  // Up and down go from case to case.
  move(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step === undefined || !event.target.matches('td.name button')) return;
    const buttons = [...this.root.querySelectorAll('td.name button')];
    const next = buttons[buttons.indexOf(event.target) + step];
    if (next === undefined) return;
    event.preventDefault();
    next.focus();
  }
}

const shown = (value) => (typeof value === 'string' ? value
  : typeof value === 'object' ? JSON.stringify(value)
  : typeof value === 'number' && !Number.isInteger(value) ? String(Number(value.toPrecision(6)))
  : typeof value === 'number' ? value.toLocaleString('en') : String(value));

// Values with their units, by how their fields end; a unit that the value says is not said
// by the name again. The exact figures are in the case's JSON.
const integers = (test) => test.dtype === 'int8' || test.dtype === 'int32';
const unitRules = [
  [/_flops_per_second$|^flops_per_second$/, (v, test) => prefixed(v, integers(test) ? 'OP/s' : 'FLOP/s'), /_?flops_per_second$/, 'rate'],
  [/bytes_per_second$/, (v) => prefixed(v, 'B/s'), /_?bytes_per_second$/, 'bandwidth'],
  [/_seconds$/, (v) => durationText(v), /_seconds$/],
  [/_hertz$/, (v) => prefixed(v, 'Hz'), /_hertz$/],
  [/_celsius$/, (v) => `${shown(v)} °C`, /_celsius$/],
  [/_watts$/, (v) => `${shown(v)} W`, /_watts$/],
  [/_bytes$/, (v) => prefixed(v, 'B'), /_bytes$/, 'memory'],
  [/^seed$/, String],
  [/^efficiency$|^noise$/, (v) => percent(v)],
  [/^max_ulp$/, (v) => `${shown(v)} ulp`],
  [/^rho/, (v) => `${shown(v)} × bound`],
  [/^bits$/, (v) => `${shown(v)} bits`, /^bits$/, 'effective'],
  [/^declared_bits$/, (v) => `${shown(v)} bits`, /_bits$/],
  [/^rms$/, (v) => `${shown(v)} × likely`],
  [/^gain/, (v) => `${shown(v)} × reference`],
  [/^bias_z$/, (v) => `${shown(v)} σ`],
  [/^max_rel_error$|^rtol$/, (v) => `${shown(v)} × reference`],
  [/^samples$/, (v) => counted(v, 'launch', 'launches')],
  [/^launches_per_sample$/, (v) => counted(v, 'launch', 'launches')],
  [/^guard_hits$/, (v) => counted(v, 'byte')],
  [/^count$|_count$|mismatches$|^unwritten$/, (v) => counted(v, 'element')],
];

function durationText(seconds) {
  const [scale, unit] = seconds >= 1 ? [1, 's'] : seconds >= 1e-3 ? [1e-3, 'ms'] : seconds >= 1e-6 ? [1e-6, 'µs'] : [1e-9, 'ns'];
  return `${Number((seconds / scale).toPrecision(4))} ${unit}`;
}

// A heading over two columns, of the fields that are there.
function facts(title, object, names, test = object) {
  const rows = names.filter((name) => object[name] !== undefined && object[name] !== '')
    .map((name) => {
      const value = object[name];
      const rule = typeof value === 'number' ? unitRules.find(([pattern]) => pattern.test(name)) : undefined;
      const [, text, drop, rest = ''] = rule || [];
      const left = drop ? name.replace(drop, '') : name;
      const word = [left, rest].filter(Boolean).join(' ').replaceAll('_', ' ');
      return h('tr', {}, h('td', {class: 'quiet'}, word),
        h('td', {class: title === 'Case' ? undefined : 'n'},
          text ? text(value, test) : name === 'throttle_reasons' ? value.join(', ') : shown(value)));
    });
  return rows.length === 0 ? null : h('div', {}, h('h3', {}, title), h('table', {}, h('tbody', {}, rows)));
}

// A heading over a table of objects.
function list(title, objects, names) {
  if (!objects || objects.length === 0) return null;
  const used = names.filter((name) => objects.some((object) => object[name] !== undefined));
  return h('div', {}, h('h3', {}, title), h('table', {},
    h('thead', {}, h('tr', {}, used.map((name) => h('th', {}, name.replaceAll('_', ' '))))),
    h('tbody', {}, objects.map((object) => h('tr', {}, used.map((name) =>
      h('td', {}, object[name] === undefined ? '' : shown(object[name]))))))));
}

const statNames = ['rho', 'rho_proven', 'max_abs_error', 'max_rel_error', 'mean_abs_error', 'rms_error',
  'max_ulp', 'cosine', 'bias_z', 'max_abs_reference', 'max_abs_score', 'count', 'mismatches', 'nan_count',
  'inf_count', 'reference_nan_count', 'reference_inf_count', 'class_mismatches', 'zero_count', 'unwritten',
  'guard_hits'];
const precisionNames = ['bits', 'declared_bits', 'rms', 'gain', 'gain_error', 'offset', 'looks_like'];
const benchNames = ['median_seconds', 'p10_seconds', 'p90_seconds', 'samples', 'noise', 'flops_per_second',
  'bytes_per_second', 'efficiency', 'roof', 'ceiling_flops_per_second', 'ceiling_bytes_per_second',
  'launches_per_sample'];
const conditionNames = ['min_clock_hertz', 'median_clock_hertz', 'max_temperature_celsius',
  'mean_power_watts', 'throttle_reasons', 'others_bytes', 'waiting_ratio'];
const caseNames = ['op', 'provider', 'implementation', 'dtype', 'out_dtype', 'shape', 'pattern', 'seed',
  'device', 'target', 'criterion', 'atol', 'rtol', 'deterministic', 'digest', 'digest_raw', 'start_time',
  'duration_seconds'];

function detailRow(c) {
  const test = c.test;
  const lines = c.details.filter((d) => d.label !== 'repro');
  const shapeText = Object.entries(test.shape || {}).filter(([, value]) => value !== false)
    .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join('x') : value}`).join(' ');
  return h('tr', {class: 'detail'}, h('td', {colspan: columns.length}, h('div', {class: 'inside'},
    lines.length === 0 ? null : h('dl', {class: 'lines'},
      lines.map((d) => [h('dt', {}, d.label), h('dd', {class: 'mono'}, d.text)])),
    c.details.some((d) => d.label === 'reads as') || !test.reads_as ? null
      : h('dl', {class: 'lines'}, h('dt', {}, 'reads as'), h('dd', {}, test.reads_as)),
    test.repro ? h('div', {class: 'repro'}, h('code', {}, test.repro),
      h('button', {type: 'button', onclick: (event) => copyText(event.target, test.repro)}, 'Copy')) : null,
    h('div', {class: 'blocks'},
      facts('Error', test, statNames),
      facts('Precision', test.precision || {}, precisionNames),
      facts('Time', test.bench || {}, benchNames, test),
      facts('Meanwhile', (test.bench || {}).conditions || {}, conditionNames),
      facts('Case', {...test, shape: shapeText}, caseNames),
      list('Probes', test.probes, ['name', 'verdict', 'refused', 'count', 'mismatches', 'golden', 'message']),
      list('NaN and infinities', test.provenance, ['kind', 'origin', 'expected', 'count', 'first_index']),
      list('First mismatches', test.mismatch_samples,
           ['index', 'actual', 'expected', 'bound', 'actual_bits', 'expected_bits']),
      list('Criteria', test.criteria, ['criterion', 'passed', 'mismatches', 'atol', 'rtol']),
      list('Inputs', test.inputs, ['name', 'min', 'max', 'mean', 'rms', 'nan_count', 'inf_count', 'zero_count'])),
    h('details', {ontoggle: (event) => {
      const target = event.target;
      if (target.open && !target.querySelector('pre')) {
        target.append(h('pre', {}, JSON.stringify(test, null, 2)));
      }
    }}, h('summary', {}, 'JSON of this case')))));
}

function copyText(button, text) {
  const said = (word) => {
    button.textContent = word;
    button.addEventListener('blur', () => { button.textContent = 'Copy'; }, {once: true});
  };
  // A page from a file may not be allowed to write; then the line is selected.
  navigator.clipboard?.writeText(text).then(() => said('Copied'), () => {
    getSelection().selectAllChildren(button.previousSibling);
    said('Selected');
  });
}
