// Checks pages of results in Chromium, each at four widths (or those of the variable WIDTHS), light, dark and printed, with and without scripts:
//
// - axe-core finds nothing serious or critical;
// - the page never scrolls sideways;
// - the keyboard alone sorts tables, and scrolls what is wider than the page;
// - the page says the same without scripts;
// - nothing is loaded but the file, nothing is logged, and it is open within a second.
//
// node check.mjs DIRECTORY FILE.html...
import { createRequire } from 'node:module';
import { readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const [directory, ...files] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WIDTHS = (process.env.WIDTHS ?? '360,768,1200,1600').split(',').map(Number);
const LOAD = 1000; // ms
const LARGEST = 3e6; // B

const problems = [];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
  // Chromium writes many messages where there is no D-Bus, and stops when nobody reads them.
  pipe: true,
  protocolTimeout: 60_000,
});

/** Opens a file; returns the page, and the time until it was drawn. */
async function open(file, { scripts = true, width = 1200, scheme = 'light', media = 'screen' } = {}) {
  const page = await browser.newPage();
  page.on('request', (request) => {
    if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) problems.push(`${file}: loads ${request.url()}`);
  });
  page.on('pageerror', (error) => problems.push(`${file}: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warn'].includes(message.type())) problems.push(`${file}: ${message.text()}`);
  });
  // The rules of the page forbid scripts from elsewhere, and so forbid axe-core.
  await page.setBypassCSP(true);
  await page.setJavaScriptEnabled(scripts);
  await page.setViewport({ width, height: 900 });
  // One call: each replaces what the one before has set.
  const client = await page.createCDPSession();
  await client.send('Emulation.setEmulatedMedia', { media, features: [{ name: 'prefers-color-scheme', value: scheme }] });
  const begin = performance.now();
  await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: 'load' });
  const is = await page.evaluate((media, scheme) => matchMedia(media).matches && matchMedia(`(prefers-color-scheme: ${scheme})`).matches, media, scheme);
  if (!is) problems.push(`${file}: is not shown as ${media}, ${scheme}`);
  const time = scripts
    ? await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))))
    : performance.now() - begin;
  return { page, time };
}

/** Returns the text of a page as its elements hold it. */
const textOf = (page) => page.evaluate(() => {
  const copy = document.body.cloneNode(true);
  copy.querySelectorAll('script').forEach((script) => script.remove());
  return copy.textContent.replace(/\s+/g, ' ').trim();
});

for (const file of files) {
  const name = basename(file, '.html');
  const size = statSync(file).size;
  if (size > LARGEST) problems.push(`${file}: ${size} bytes`);
  let slowest = 0;
  let minor = new Set();
  for (const width of WIDTHS) {
    for (const [scheme, media] of [['light', 'screen'], ['dark', 'screen'], ['light', 'print'], ['dark', 'print']]) {
      const { page, time } = await open(file, { width, scheme, media });
      if (media === 'screen') slowest = Math.max(slowest, time);
      const overflow = await page.evaluate(() => {
        const root = document.documentElement;
        return root.scrollWidth - root.clientWidth;
      });
      // Printers lay the page out anew, so that only screens must not scroll sideways.
      if (media === 'screen' && overflow > 0) {
        const widest = await page.evaluate(() => {
          const far = [...document.body.querySelectorAll('*')].filter((of) => of.getBoundingClientRect().right > innerWidth && !of.parentElement.closest('.scroll'));
          return far.slice(0, 3).map((of) => of.outerHTML.slice(0, 120)).join(' | ');
        });
        problems.push(`${file}: ${overflow} px too wide at ${width} px (${widest})`);
      }
      // Colours and sizes do not depend on all four widths, and axe-core takes long for large pages.
      if (width === 360 || width === 1200) {
        await page.evaluate(axe);
        const found = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
        for (const { id, impact, help, nodes } of found.violations) {
          const what = `${id} (${impact}): ${help}; ${nodes.length} times, such as ${nodes[0].html.slice(0, 200)} ${nodes[0].any[0]?.message ?? ''}`;
          if (['serious', 'critical'].includes(impact)) problems.push(`${file} at ${width} px, ${scheme}, ${media}: ${what}`);
          else minor.add(what);
        }
      }
      if (media === 'screen' || (width === 1200 && scheme === 'dark')) {
        const path = join(directory, `${name}-${width}-${scheme}-${media}.png`);
        await page.screenshot({ path, clip: { x: 0, y: 0, width, height: Math.min(6000, await page.evaluate(() => document.documentElement.scrollHeight)) } });
      }
      await page.close();
    }
  }
  if (slowest > LOAD) problems.push(`${file}: open after ${slowest.toFixed(0)} ms`);

  // Tables are sorted with the keyboard alone, and the head says so.
  const { page } = await open(file);
  const sorted = await page.evaluate(() => {
    const table = [...document.querySelectorAll('table')].find((of) => of.querySelector('button') && of.querySelector('td.n, th.n'));
    if (!table) return null;
    const heads = [...table.tHead.rows[0].cells];
    const at = Math.max(heads.findIndex((head) => head.classList.contains('n')), 0);
    heads[at].querySelector('button').focus();
    return { table: [...document.querySelectorAll('table')].indexOf(table), at };
  });
  if (sorted) {
    const read = () => page.evaluate(({ table, at }) => {
      const of = document.querySelectorAll('table')[table];
      const values = [...of.tBodies[0].rows].map((row) => Number(row.cells[at].dataset.v ?? row.cells[at].textContent)).filter(Number.isFinite);
      return { values, sort: of.tHead.rows[0].cells[at].getAttribute('aria-sort') };
    }, sorted);
    for (const [key, sort, sign] of [['Enter', 'ascending', 1], ['Space', 'descending', -1]]) {
      await page.keyboard.press(key);
      const { values, sort: found } = await read();
      if (found !== sort) problems.push(`${file}: aria-sort is ${found} after ${key}`);
      if (values.some((value, index) => index > 0 && sign * (value - values[index - 1]) < 0)) problems.push(`${file}: not ${sort}: ${values}`);
    }
  }
  // The first stop of the keyboard is the link over the head of the page.
  await page.evaluate(() => document.activeElement.blur());
  await page.reload();
  await page.keyboard.press('Tab');
  const first = await page.evaluate(() => document.activeElement.className);
  if (first !== 'skip') problems.push(`${file}: the first stop is ${first}`);
  const regions = await page.evaluate(() => [...document.querySelectorAll('.scroll')].filter((of) => of.tabIndex !== 0 || of.getAttribute('role') !== 'region' || !(of.getAttribute('aria-label') ?? of.getAttribute('aria-labelledby'))).length);
  if (regions > 0) problems.push(`${file}: ${regions} regions that scroll have no name or stop`);
  const withScripts = await textOf(page);
  await page.close();
  const { page: plain } = await open(file, { scripts: false });
  const client = await plain.createCDPSession();
  const { root } = await client.send('DOM.getDocument', { depth: -1 });
  const texts = [];
  const walk = (node) => {
    if (node.nodeName === 'SCRIPT' || node.nodeName === 'HEAD') return;
    if (node.nodeType === 3) texts.push(node.nodeValue);
    (node.children ?? []).forEach(walk);
  };
  walk(root);
  const without = texts.join('').replace(/\s+/g, ' ').trim();
  if (without !== withScripts) problems.push(`${file}: says other things without scripts`);
  await plain.close();
  const notes = [...minor].map((what) => `\n  ${what}`).join('');
  console.log(`${name}: ${(size / 1e6).toFixed(2)} MB, open after ${slowest.toFixed(0)} ms${notes}`);
}
await browser.close();
if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
console.log(`${files.length} pages: no problem`);
