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
