'use strict';

async function main() {
  const model = await loadModel();
  const filter = new Filter();
  const table = new CaseTable(model, byId('table'), byId('pages'));
  const reveal = (c) => {
    if (!table.reveal(c)) {
      filter.clear();
      filter.changed();
      table.reveal(c);
    }
  };
  const plots = new Plots(model, reveal);
  drawOverview(model, filter);
  drawFilters(model, filter);
  drawMetadata(model);
  const update = () => {
    const cases = filter.matching(model.cases);
    byId('shown').textContent = filter.active
      ? `${cases.length.toLocaleString('en')} of ${counted(model.cases.length, 'case')}; table, plots and counts below follow the filter`
      : counted(model.cases.length, 'case');
    table.show(cases);
    drawProvenance(cases);
    drawChanges(cases, reveal);
    plots.show(cases);
  };
  filter.listeners.push(update);
  filter.changed();
  const linked = /^#case-(\d+)$/.exec(location.hash);
  if (linked && model.cases[linked[1]]) table.reveal(model.cases[linked[1]]);

  // Paper is light and has no pages.
  addEventListener('beforeprint', () => {
    document.documentElement.classList.add('print');
    table.paper(true);
    plots.restyle();
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('print');
    table.paper(false);
    plots.restyle();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plots.restyle());
  // After the first plots, which wait for a frame.
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark('ready');
    document.documentElement.dataset.ready = 'true';
  }));
}

main().catch((error) => {
  document.querySelector('header').append(h('p', {class: 'banner FAILED'}, `This page cannot show its report: ${error.message}`));
  throw error;
});
