#include "client/fleet/html_text.h"

namespace assay {

std::string_view FleetHtmlStyle() {
  return R"css(
.SUSPECT { color: var(--error); } .SLOW, .MISSING { color: var(--inconclusive); }
.accused { background: var(--card); border: 1px solid var(--line); border-left: 4px solid currentcolor;
  border-radius: 4px; padding: .5rem .9rem; margin: .7rem 0; break-inside: avoid; }
.accused > * { color: var(--ink); }
.accused > h3 > .badge { color: inherit; }
.accused h3 { display: flex; gap: .7rem; align-items: center; }
.accused h3.SUSPECT .badge { color: var(--error); } .accused h3.FAILED .badge { color: var(--failed); }
.accused h3.SLOW .badge { color: var(--inconclusive); }
.accused ul { margin: .3rem 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
ul.notes { margin: .2rem 0 .8rem; padding-left: 1.2rem; overflow-wrap: anywhere; }
#map table { width: auto; border-collapse: separate; border-spacing: 2px; }
#map th { border: 0; font-weight: 500; }
#map thead th { vertical-align: bottom; padding: .2rem 0; }
#map thead th span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; display: inline-block; }
#map tbody th { position: sticky; left: 0; background: var(--card); padding: .1rem .7rem; color: var(--ink); }
#map td { text-align: center; min-width: 2.5rem; padding: .1rem .25rem; border-radius: 3px; cursor: default;
  font-variant-numeric: tabular-nums; background: var(--soft); border: 0; }
#map td:focus { outline: 2px solid var(--accent); outline-offset: 0; }
#map td.good { background: color-mix(in srgb, var(--passed) 18%, var(--card)); }
#map td.s1 { background: color-mix(in srgb, var(--inconclusive) 18%, var(--card)); }
#map td.s2 { background: color-mix(in srgb, var(--inconclusive) 45%, var(--card)); }
#map td.s3 { background: color-mix(in srgb, var(--inconclusive) 75%, var(--card)); font-weight: 650; }
#map td.bad { background: color-mix(in srgb, var(--failed) 55%, var(--card)); font-weight: 650; }
#map td.sus { background: color-mix(in srgb, var(--error) 60%, var(--card)); font-weight: 650; }
#map td.none { background: none; color: var(--quiet); }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; align-items: center; padding: 0; list-style: none; }
.key b { font-weight: 500; display: inline-block; min-width: 2rem; text-align: center; border-radius: 3px; padding: 0 .3rem;
  background: var(--soft); }
.key .good { background: color-mix(in srgb, var(--passed) 18%, var(--card)); color: var(--ink); }
.key .s2 { background: color-mix(in srgb, var(--inconclusive) 45%, var(--card)); color: var(--ink); }
.key .bad { background: color-mix(in srgb, var(--failed) 55%, var(--card)); color: var(--ink); }
.key .sus { background: color-mix(in srgb, var(--error) 60%, var(--card)); color: var(--ink); }
#said { min-height: 1.5em; }
@media print {
  /* However many kernels there are, they fit the width of a page. */
  #map table { zoom: calc(min(1, 26 / var(--columns))); border-spacing: 1px; }
  #map tbody th { position: static; } #map td { min-width: 0; } #said { display: none; }
}
)css";
}

std::string_view FleetHtmlScript() {
  return R"js(
'use strict';
// One cell of the map takes the focus; arrows go from cell to cell, and what the cell
// means is said below.
const map = document.querySelector('#map table');
const said = document.getElementById('said');
function tell(cell) {
  const row = cell.parentElement;
  const kernel = map.tHead.rows[0].cells[cell.cellIndex].textContent;
  const words = cell.title || (cell.classList.contains('none') ? 'did not run' : 'nothing stands out');
  said.textContent = `${row.cells[0].textContent} · ${kernel}: ${words}`;
}
if (map) {
  let current = map.tBodies[0].rows[0]?.cells[1];
  if (current) current.tabIndex = 0;
  map.addEventListener('focusin', (event) => {
    const cell = event.target.closest('td');
    if (!cell) return;
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    tell(cell);
  });
  map.addEventListener('mouseover', (event) => {
    const cell = event.target.closest('td');
    if (cell) tell(cell);
  });
  map.addEventListener('click', (event) => event.target.closest('td')?.focus());
  map.addEventListener('keydown', (event) => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    const cell = event.target.closest('td');
    if (!cell || (!step && event.key !== 'Home' && event.key !== 'End')) return;
    const row = cell.parentElement;
    const next = event.key === 'Home' ? row.cells[1] : event.key === 'End' ? row.cells[row.cells.length - 1]
      : map.tBodies[0].rows[row.sectionRowIndex + step[0]]?.cells[cell.cellIndex + step[1]];
    if (!next || next.tagName !== 'TD') return;
    event.preventDefault();
    next.focus();
  });
}
const download = document.getElementById('download');
download.hidden = false;
download.addEventListener('click', () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([document.getElementById('fleet').textContent], {type: 'application/json'}));
  link.download = 'fleet.json';
  link.click();
  URL.revokeObjectURL(link.href);
});
performance.mark('ready');
document.documentElement.dataset.ready = 'true';
)js";
}

}  // namespace assay
