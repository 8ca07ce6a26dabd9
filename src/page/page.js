// Makes the heads of tables buttons that sort the rows. Without this script tables are whole, in their first order.
for (const table of document.querySelectorAll('table')) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  const first = [...body.rows];
  const key = (row, at) => {
    const cell = row.cells[at];
    const text = cell.dataset.v ?? cell.textContent;
    const number = Number(text);
    return text.trim() !== '' && Number.isFinite(number) ? number : text;
  };
  // Numbers come before texts, whichever way they are sorted.
  const compare = (a, b, sign) => {
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    return sign * (typeof a === 'number' ? a - b : a.localeCompare(b));
  };
  heads.forEach((head, at) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute('aria-sort', 'none');
    button.addEventListener('click', () => {
      const sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      heads.forEach((other) => other.setAttribute('aria-sort', 'none'));
      head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      const keyed = first.map((row) => [key(row, at), row]);
      keyed.sort((a, b) => compare(a[0], b[0], sign));
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
