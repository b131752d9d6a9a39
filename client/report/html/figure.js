'use strict';
// One plot: a chart, a legend that works by keyboard, and its points as a table. What is
// plotted comes from `build`; colours come from the page's style, so that a chart is
// dark, light or on paper as the page is.

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const shapes = ['circle', 'triangle', 'rect', 'rectRot'];
const shapePaths = {circle: 'M8 2a6 6 0 1 0 .01 0z', triangle: 'M8 2 14.5 14h-13z', rect: 'M2.5 2.5h11v11h-11z',
                    rectRot: 'M8 1l7 7-7 7-7-7z'};

// A series keeps its colour and shape whatever is filtered.
const lookOf = (position) => ({colour: `s${position % 8}`, shape: shapes[position % shapes.length]});

function legendIcon(look) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', shapePaths[look.shape]);
  path.setAttribute('fill', `var(--${look.colour})`);
  svg.append(path);
  return svg;
}

// Words at the end of a reference line: "fp32 338 GFLOP/s", "60 %".
const tags = {
  id: 'tags',
  afterDatasetsDraw(chart) {
    const {ctx, chartArea} = chart;
    ctx.save();
    ctx.font = '11px system-ui, sans-serif';
    ctx.fillStyle = styleOf('quiet');
    ctx.textBaseline = 'bottom';
    ctx.textAlign = 'right';
    ctx.strokeStyle = styleOf('card');
    ctx.lineWidth = 4;
    ctx.lineJoin = 'round';
    const used = [];
    chart.data.datasets.forEach((dataset, i) => {
      if (!dataset.tag || !chart.isDatasetVisible(i)) return;
      const points = chart.getDatasetMeta(i).data;
      const point = points[points.length - 1];
      if (!point) return;
      let y = Math.max(point.y - 2, chartArea.top + 12);
      while (used.some((other) => Math.abs(other - y) < 12)) y += 12;
      used.push(y);
      const x = Math.min(point.x, chartArea.right) - 2;
      ctx.strokeText(dataset.tag, x, y);
      ctx.fillText(dataset.tag, x, y);
    });
    ctx.restore();
  },
};

// A dashed line between two bars of a histogram, with a word beside it.
const divider = {
  id: 'divider',
  afterDatasetsDraw(chart, _arguments, options) {
    if (options.after === undefined) return;
    const scale = chart.scales.x;
    const x = (scale.getPixelForValue(options.after) + scale.getPixelForValue(options.after + 1)) / 2;
    const {ctx, chartArea} = chart;
    ctx.save();
    ctx.strokeStyle = styleOf('failed');
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.fillStyle = styleOf('failed');
    ctx.font = '11px system-ui, sans-serif';
    ctx.textAlign = 'right';
    ctx.fillText(options.text, x - 4, chartArea.top + 10);
    ctx.restore();
  },
};

// 1, 2 or 5 at the front of a round number; 0 for others.
function roundDigit(value) {
  const [digits] = value.toExponential(6).split('e');
  return [1, 2, 5].find((digit) => Number(digits) === digit) || 0;
}

// A logarithmic axis: a word at each power of ten, at 2 and 5 too where there are few.
function logAxis(title, word, range) {
  const few = range && range[1] / range[0] < 1e3;
  return {type: 'logarithmic', title, word: (value) =>
    (roundDigit(value) === 1 || (few && roundDigit(value) > 0) ? word(value) : null), range};
}

// The lowest and highest of positive values, with room around; undefined of none.
function rangeOf(values, room = 1.6) {
  let low = Infinity, high = 0;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high > 0 ? [low / room, high * room] : undefined;
}

const mostPointsInTable = 500;

class Figure {
  // build(cases, options) gives {series: [{label, look, points: [{x, y, c}]}], references,
  // axes: {x, y}, note, summary} or null where there is nothing to plot.
  constructor({id, title, note, build, table, choices, type = 'scatter'}, onPick) {
    Object.assign(this, {id, title, note, build, table, type, onPick});
    this.hidden = new Set();
    this.choices = choices || [];
    this.chosen = {};
    this.selects = this.choices.map(({name, label, values}) => {
      this.chosen[name] = values[0][0];
      return h('select', {'aria-label': `${title}: ${label}`, onchange: (event) => {
        this.chosen[name] = event.target.value;
        this.show(this.cases, this.options);
      }}, values.map(([value, text]) => h('option', {value}, text)));
    });
    this.canvas = h('canvas', {role: 'img'});
    this.legend = h('div', {class: 'legend', role: 'group', 'aria-label': `${title}: series`});
    this.caption = h('figcaption', {});
    this.data = h('details', {ontoggle: () => this.fillTable()}, h('summary', {}, 'Data'));
    this.root = h('figure', {id, hidden: true},
      h('div', {class: 'figure-head'}, h('h3', {}, title), h('span', {}, this.selects)),
      this.caption, h('div', {class: 'canvas'}, this.canvas), this.legend, this.data);
  }

  // False where there is nothing to plot.
  show(cases, options) {
    this.cases = cases;
    this.options = options;
    this.plot = this.build(cases, {...options, ...this.chosen});
    this.root.hidden = !this.plot;
    if (!this.plot) return false;
    this.caption.textContent = [this.note, this.plot.note].filter(Boolean).join(' ');
    this.canvas.setAttribute('aria-label', `${this.title}. ${this.plot.summary}`);
    this.drawLegend();
    this.restyle();
    this.fillTable();
    return true;
  }

  drawLegend() {
    this.legend.hidden = this.plot.series.length < 2;
    this.legend.replaceChildren(...this.plot.series.map((series) => h('button', {
      type: 'button', 'aria-pressed': String(!this.hidden.has(series.label)), onclick: (event) => {
        if (!this.hidden.delete(series.label)) this.hidden.add(series.label);
        event.currentTarget.setAttribute('aria-pressed', String(!this.hidden.has(series.label)));
        this.restyle();
      }}, legendIcon(series.look), series.label)));
  }

  datasets() {
    const failed = styleOf('failed');
    const series = this.plot.series.flatMap(({label, look, points}) => {
      const colour = styleOf(look.colour);
      const dataset = {label, hidden: this.hidden.has(label), backgroundColor: colour, borderColor: colour};
      if (this.type === 'bar') {
        return {...dataset, data: points, borderWidth: 0, barPercentage: 1, categoryPercentage: 0.94};
      }
      // Failures are ringed, and in a dataset of their own: points that look alike are fast.
      const bad = ({c}) => c.row.verdict === 'FAILED' || c.row.verdict === 'ERROR';
      const many = points.length > 600;
      const dots = {...dataset, pointStyle: look.shape, showLine: false, pointHoverRadius: 7, order: 1,
                    backgroundColor: colour + (many ? '99' : 'd0')};
      return [{...dots, data: points.filter((p) => !bad(p)), pointBorderWidth: 1, pointRadius: many ? 2.5 : 4},
              {...dots, data: points.filter(bad), pointBorderColor: failed, pointBorderWidth: 2.5, pointRadius: 6,
               order: 0}].filter(({data}) => data.length > 0);
    });
    const lines = this.plot.series.filter(({line}) => line && line.length > 1).map(({label, look, line}) => ({
      label, data: line, reference: true, showLine: true, pointRadius: 0, hitRadius: 0, borderWidth: 1.25,
      hidden: this.hidden.has(label), borderColor: styleOf(look.colour) + 'b0', order: 2}));
    const references = (this.plot.references || []).map(({points, tag, dashed}) => ({
      label: tag, tag, data: points, reference: true, showLine: true, pointRadius: 0, hitRadius: 0, borderWidth: 1.5,
      borderDash: dashed ? [5, 4] : [], borderColor: styleOf('quiet'), order: 3}));
    return [...series, ...lines, ...references];
  }

  axis({type = 'linear', title, word, range, ticks, stacked}) {
    const [min, max] = range || [];
    // A callback that is not there would still take the place of the usual words.
    const words = word ? {callback: (value) => word(value)} : {};
    return {
      type, min, max, stacked, title: {display: true, text: title, color: styleOf('quiet')},
      grid: {color: styleOf('grid'), borderColor: styleOf('line')},
      ticks: {color: styleOf('quiet'), maxRotation: 0, autoSkipPadding: 8, ...words},
      afterBuildTicks: ticks && ((scale) => { scale.ticks = ticks.map((value) => ({value})); }),
    };
  }

  // Draws with the colours that hold now.
  restyle() {
    if (!this.plot) return;
    const config = {
      animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
      interaction: {mode: this.type === 'bar' ? 'index' : 'nearest', intersect: this.type !== 'bar'},
      scales: {x: this.axis(this.plot.axes.x), y: this.axis(this.plot.axes.y)},
      onClick: (_event, hits) => {
        const hit = hits.find(({datasetIndex}) => !this.chart.data.datasets[datasetIndex].reference);
        const point = hit && this.chart.data.datasets[hit.datasetIndex].data[hit.index];
        if (point && point.c) this.onPick(point.c);
      },
      plugins: {
        legend: {display: false}, divider: this.plot.divider || {},
        tooltip: {
          filter: (item) => !item.dataset.reference && (this.type !== 'bar' || item.raw > 0),
          callbacks: {
            title: (items) => (this.type === 'bar' && items[0] ? this.plot.barTitle(items[0].dataIndex) : ''),
            label: (item) => (item.raw.c ? [item.raw.c.test.name, this.plot.describe(item.raw)]
                                         : `${item.dataset.label}: ${counted(item.raw, 'case')}`)},
        },
      },
    };
    const data = {labels: this.plot.labels, datasets: this.datasets()};
    if (this.chart) {
      this.chart.data = data;
      this.chart.options = config;
      this.chart.update('none');
    } else {
      this.chart = new Chart(this.canvas, {type: this.type, data, options: config, plugins: [tags, divider]});
    }
  }

  fillTable() {
    if (!this.data.open || !this.plot) return;
    const {titles, rows} = this.table(this.plot);
    const left = rows.length - mostPointsInTable;
    this.data.querySelector('.scroll')?.remove();
    this.data.append(h('div', {class: 'scroll', tabindex: '0'}, h('table', {},
      h('thead', {}, h('tr', {}, titles.map((title) => h('th', {scope: 'col'}, title)))),
      h('tbody', {}, rows.slice(0, mostPointsInTable).map((row) => h('tr', {}, row.map((cell) => h('td', {}, cell)))))),
      left > 0 ? h('p', {class: 'quiet'}, `and ${counted(left, 'more point')}`) : null));
  }
}
