'use strict';
// What stands around the table: counts, filters, provenance, metadata.

const verdictWords = ['FAILED', 'ERROR', 'inconclusive', 'passed', 'unsupported', 'skipped'];

function drawOverview(model, filter) {
  const counts = new Map();
  for (const c of model.cases) counts.set(c.row.verdict, (counts.get(c.row.verdict) || 0) + 1);
  const words = [...verdictWords.filter((word) => counts.has(word)),
                 ...[...counts.keys()].filter((word) => !verdictWords.includes(word))];
  byId('bar').replaceChildren(...words.map((word) => {
    const part = h('i', {class: word, title: `${counts.get(word)} ${word}`});
    part.style.flex = `${counts.get(word)} 0 0`;
    return part;
  }));
  const slow = model.cases.filter((c) => c.row.look_closer).length;
  if (slow > 0) {
    words.push('look closer');
    counts.set('look closer', slow);
  }
  byId('chips').replaceChildren(...words.map((word) => h('button', {
    type: 'button', class: word === 'look closer' ? 'inconclusive' : word, 'aria-pressed': 'false',
    'data-verdict': word, onclick: () => {
      if (!filter.verdicts.delete(word)) filter.verdicts.add(word);
      filter.changed();
    }}, h('b', {}, counts.get(word).toLocaleString('en')), word)));
}

function drawFilters(model, filter) {
  const input = byId('text');
  const selects = choiceNames.map(([name, label]) => {
    const values = distinct(model.cases, name);
    if (values.length < 2) return null;
    return h('label', {}, label, h('select', {'data-choice': name, onchange: (event) => {
      filter.choices[name] = event.target.value;
      filter.changed();
    }}, h('option', {value: ''}, 'all'), values.map((value) => h('option', {value}, value))));
  });
  byId('selects').replaceChildren(...selects.filter(Boolean));
  input.addEventListener('input', () => {
    filter.words = input.value;
    filter.changed();
  });
  byId('filters').addEventListener('submit', (event) => event.preventDefault());
  byId('clear').addEventListener('click', () => {
    filter.clear();
    filter.changed();
  });
  document.addEventListener('keydown', (event) => {
    const typing = event.target.matches('input, select, textarea');
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === 'Escape' && event.target === input) {
      filter.words = '';
      filter.changed();
    }
  });
  filter.listeners.push(() => {
    if (input.value !== filter.words) input.value = filter.words;
    for (const chip of byId('chips').children) {
      chip.setAttribute('aria-pressed', String(filter.verdicts.has(chip.dataset.verdict)));
    }
    for (const select of byId('selects').querySelectorAll('select')) {
      select.value = filter.choices[select.dataset.choice] || '';
    }
    byId('clear').disabled = !filter.active;
  });
}

// NaN and infinities of the cases, by who made them.
function drawProvenance(cases) {
  const groups = new Map();
  for (const c of cases) {
    for (const origin of c.test.provenance || []) {
      if (!(origin.count > 0)) continue;
      const key = [c.test.op, c.test.provider, c.test.dtype, origin.kind, origin.origin,
                   Boolean(origin.expected)];
      const group = groups.get(key.join('\n')) || {key, count: 0, cases: 0, first: c, index: origin.first_index};
      group.count += origin.count;
      group.cases += 1;
      groups.set(key.join('\n'), group);
    }
  }
  const section = byId('provenance');
  section.hidden = groups.size === 0;
  const rows = [...groups.values()].sort((a, b) => a.key[5] - b.key[5] || b.count - a.count);
  const most = Math.max(...rows.map((row) => row.count));
  const origins = {input: 'an input', kernel: 'the kernel', unwritten: 'never written'};
  section.querySelector('table').replaceChildren(
    h('thead', {}, h('tr', {}, ['Kind', 'From', 'Expected', 'Operator', 'Provider', 'Format']
      .map((title) => h('th', {scope: 'col'}, title)),
      ['Elements', 'Cases'].map((title) => h('th', {scope: 'col', class: 'n'}, title)),
      h('th', {scope: 'col'}), h('th', {scope: 'col'}, 'First'))),
    h('tbody', {}, rows.map((row) => {
      const [op, provider, dtype, kind, origin, expected] = row.key;
      const meter = h('i');
      meter.style.width = `${Math.max(2, 100 * Math.log1p(row.count) / Math.log1p(most))}%`;
      return h('tr', {}, h('td', {}, kind === 'nan' ? 'NaN' : 'Inf'), h('td', {}, origins[origin] || origin),
        h('td', {class: expected ? 'passed' : 'failed'}, expected ? 'yes' : 'no'),
        h('td', {}, op), h('td', {}, provider), h('td', {}, dtype),
        h('td', {class: 'n'}, row.count.toLocaleString('en')), h('td', {class: 'n'}, String(row.cases)),
        h('td', {class: expected ? 'passed' : 'failed'}, h('span', {class: 'meter', 'aria-hidden': 'true'}, meter)),
        h('td', {}, `${row.first.test.name} [${(row.index || []).join(',')}]`));
    })));
}

function drawMetadata(model) {
  const report = model.report;
  const rows = [];
  const add = (name, value) => {
    if (value !== undefined && value !== '' && value !== null) rows.push(h('dt', {}, name), h('dd', {}, value));
  };
  const list = (text) => String(text || '').split(',').join(', ');
  add('Job', list(report.job));
  add('Suite', list(report.suite));
  add('State', report.state && String(report.state).toLowerCase());
  add('Verdict', report.verdict);
  add('Device', list(report.device));
  add('Model', report.gpu);
  add('Backend', list(report.backend));
  add('Daemon', list(report.target));
  add('Seed', report.seed === undefined ? undefined : String(report.seed));
  add('Took', report.duration_seconds === undefined ? undefined : `${Number(report.duration_seconds.toPrecision(3))} s`);
  add('Generated', String(report.generated_at || '').replace('T', ' ').replace(/\.\d+Z$/, ' UTC'));
  add('Versions', Object.entries(report.versions || {}).map(([name, version]) => `${name} ${version}`).join(', '));
  add('Document', report.schema);
  byId('metadata').querySelector('dl').replaceChildren(...rows);
  const button = byId('download');
  button.hidden = false;
  button.addEventListener('click', () => {
    const name = `assay-${(report.job || 'report').replace(/^jobs\//, '').replace(/[^\w.-]+/g, '-')}.json`;
    const url = URL.createObjectURL(new Blob([model.reportText], {type: 'application/json'}));
    h('a', {href: url, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}
