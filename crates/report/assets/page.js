// The page of a report. In: the JSON of docs/REPORT.md, compressed, in the element "data". Names in
// it come from strangers: they reach the page as text only (textContent), never as markup.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const CATEGORIES = [
    ['code', 'Machine code'], ['mercury', 'Mercury code'], ['constants', 'Constants'],
    ['data', 'Variables'], ['attributes', 'Attributes'], ['relocations', 'Relocations'],
    ['debug', 'Debug information'], ['symbols', 'Symbols and names'], ['calls', 'Calls'],
    ['notes', 'Notes'], ['other', 'Other'],
  ];
  const NO_BYTES = new Set(['zeroed', 'shared']);
  const LIMITS = { warps: 'warps', blocks: 'blocks', registers: 'registers', shared: 'shared memory', barriers: 'barriers' };
  const ROW = 26;

  // ---- Small helpers.

  const el = (tag, props, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(props || {})) {
      if (value === undefined || value === null || (value === false && !key.startsWith('aria-'))) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else if (key === 'class') node.className = value;
      else node.setAttribute(key, value === true && !key.startsWith('aria-') ? '' : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === undefined || child === null || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  };
  const clear = (node, ...children) => { node.replaceChildren(...children.flat()); return node; };
  const count = (number) => number.toLocaleString('en-US');
  const short = (bytes) => {
    if (bytes < 1000) return `${bytes} B`;
    const units = ['KB', 'MB', 'GB'];
    let value = bytes / 1000;
    let unit = 0;
    while (value >= 1000 && unit < 2) { value /= 1000; unit += 1; }
    return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  };
  const known = (number) => (number === undefined ? '–' : count(number));
  // What reorders or hides text becomes visible, as on the terminal.
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const visible = (text) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const cell = (text) => clip(visible(text), 300);

  // ---- The data.

  let report;
  let functions = [];
  let inputs = [];

  // What a function needs: absent is zero, a number is its own and the total, null is not known.
  const parts = (need) => (need === undefined ? { own: 0, total: 0 } : typeof need === 'number' ? { own: need, total: need } : need || {});

  const prepare = () => {
    inputs = report.inputs || [];
    report.images = report.images || [];
    report.images.forEach((image, place) => {
      image.at = place;
      // A section is a row: kind, offset, bytes, function, input, pieces.
      image.sections = (image.sections || []).map(([kind, offset, bytes, f, input, pieces]) => {
        const { name, of_function: ofFunction, category } = image.section_kinds[kind] || { name: '', category: 'other' };
        return { name: ofFunction ? name + image.functions[f].name : name, category, offset, bytes, function: f ?? undefined, input: input ?? undefined, pieces };
      });
      image.first = functions.length;
      const own = image.functions || [];
      own.forEach((f, index) => {
        f.registers = parts(f.registers);
        f.barriers = parts(f.barriers);
        f.stack = parts(f.stack);
        f.image = image;
        f.id = functions.length;
        f.shown = visible(f.demangled || f.name);
        f.callers = [];
        functions.push(f);
        f.index = index;
      });
      own.forEach((f) => {
        f.callees = (f.calls || []).map((to) => ({ f: own[to], indirect: false }));
        for (const prototype of f.indirect || []) {
          const text = image.prototypes[prototype];
          // A prototype with thousands of functions is named, not listed for each caller.
          for (const to of (text.functions || []).slice(0, 200)) {
            f.callees.push({ f: own[to], indirect: true });
          }
        }
        for (const { f: callee, indirect } of f.callees) callee.callers.push({ f, indirect });
      });
    });
  };
  const kernels = () => functions.filter((f) => f.kernel);
  const fileOf = (input) => (input === undefined || !inputs[input] ? '' : visible(inputs[input].name));
  const other = (f, place) => (place === undefined ? undefined : functions[f.image.first + place]);
  const occupancies = (f) => (f.kernel.occupancy === undefined ? [] : f.image.occupancies[f.kernel.occupancy]);
  const occupancy = (f, threads) => {
    const all = occupancies(f);
    if (threads === 'own') {
      const bound = f.kernel.bounds || {};
      return bound.threads || bound.most_threads ? all[all.length - 1] : undefined;
    }
    return all.find((one) => one.threads === Number(threads));
  };
  const percent = (f, one) => {
    const limits = f.image.limits;
    return one && limits ? Math.round((100 * one.warps) / limits.warps) : undefined;
  };

  // ---- The state, which the address keeps.

  const state = new Map();
  const readState = () => {
    state.clear();
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) state.set(key, value);
  };
  const go = (changes, replace) => {
    for (const [key, value] of Object.entries(changes)) {
      if (value === undefined || value === '') state.delete(key);
      else state.set(key, String(value));
    }
    const hash = `#${new URLSearchParams([...state])}`;
    if (hash !== location.hash) history[replace ? 'replaceState' : 'pushState'](null, '', hash);
    draw();
  };
  const open = (f) => go({ tab: 'function', f: f.id });
  const link = (f, extra) => el('button', { type: 'button', title: f.shown.length > 300 ? null : f.shown, onclick: () => open(f) }, clip(f.shown, 300), extra);

  // ---- Tables. Rows are drawn as they come into view.

  const table = (name, columns, rows, more = {}) => {
    const key = (what) => `${name}.${what}`;
    const filter = el('input', { type: 'search', 'aria-label': `Filter ${name}`, placeholder: 'Filter' });
    filter.value = state.get(key('q')) || '';
    const status = el('span', { class: 'soft', role: 'status' });
    const hiddenColumns = new Set((state.get(key('hide')) || '').split(',').filter(Boolean));
    const body = el('tbody');
    const head = el('tr', { role: 'row' });
    const scroller = el('div', { class: 'rows', tabindex: 0, role: 'region', 'aria-label': `Table of ${name}` }, el('table', { 'aria-label': name }, el('thead', {}, head), body));
    let shown = [];
    let at = 0;
    const used = () => columns.filter((column) => !hiddenColumns.has(column.id));
    const value = (column, row) => { const v = column.value(row); return v === undefined ? -1 : v; };
    const rowOf = (row, index) => el('tr', { 'aria-rowindex': index + 2, class: index === at && more.open ? 'at' : null, onclick: () => { at = index; } },
      used().map((column) => el('td', { class: column.number ? 'n' : null }, column.node ? column.node(row) : column.number ? known(column.value(row)) : cell(column.value(row)))));
    const drawRows = (all) => {
      const from = all ? 0 : Math.max(0, Math.floor(scroller.scrollTop / ROW) - 10);
      const to = all ? shown.length : Math.min(shown.length, from + Math.ceil((scroller.clientHeight || 600) / ROW) + 20);
      const space = (n) => { const tr = el('tr', { 'aria-hidden': true }); tr.style.height = `${n * ROW}px`; return n > 0 ? [tr] : []; };
      clear(body, space(from), shown.slice(from, to).map((row, n) => rowOf(row, from + n)), space(shown.length - to));
    };
    const refresh = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const text = (row) => columns.filter((c) => !c.number).map((c) => c.value(row)).join(' ').toLowerCase();
      shown = words.length ? rows.filter((row) => { const t = text(row); return words.every((w) => t.includes(w)); }) : rows.slice();
      const by = columns.find((c) => c.id === (state.get(key('sort')) || more.sort)) || columns[0];
      const up = (state.get(key('dir')) || more.dir || 'down') === 'up';
      const sorted = shown.map((row) => [value(by, row), row]);
      sorted.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
      shown = sorted.map((pair) => pair[1]);
      clear(head, used().map((column) => {
        const on = column === by;
        const arrow = on ? (up ? ' ▲' : ' ▼') : '';
        return el('th', { scope: 'col', class: column.number ? 'n' : null, 'aria-sort': on ? (up ? 'ascending' : 'descending') : 'none' },
          el('button', { type: 'button', title: column.help, onclick: () => go({ [key('sort')]: column.id, [key('dir')]: on && !up ? 'up' : on ? 'down' : column.number ? 'down' : 'up' }, true) }, column.label + arrow));
      }));
      status.textContent = `${count(shown.length)} of ${count(rows.length)}`;
      at = 0;
      drawRows(false);
    };
    filter.addEventListener('input', () => { go({ [key('q')]: filter.value }, true); });
    scroller.addEventListener('scroll', () => drawRows(false), { passive: true });
    scroller.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
      if (step) {
        at = Math.max(0, Math.min(shown.length - 1, at + step));
        if (at * ROW < scroller.scrollTop + ROW) scroller.scrollTop = Math.max(0, (at - 1) * ROW);
        if ((at + 3) * ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (at + 3) * ROW - scroller.clientHeight;
        drawRows(false);
        event.preventDefault();
      } else if (event.key === 'Enter' && event.target === scroller && more.open && shown[at]) more.open(shown[at]);
    });
    const csv = () => {
      // A table program takes what begins so for a formula.
      const quote = (text) => `"${String(text).replace(/^[=+\-@]/, "'$&").replaceAll('"', '""')}"`;
      const line = (row) => used().map((c) => { const v = c.value(row); return c.number ? v ?? '' : quote(v); }).join(',');
      const text = [used().map((c) => quote(c.label)).join(','), ...shown.map(line)].join('\n');
      navigator.clipboard.writeText(text).then(() => { status.textContent = `${count(shown.length)} rows copied`; }, () => { status.textContent = 'The browser does not allow copying'; });
    };
    const choose = el('details', {}, el('summary', {}, 'Columns'), el('div', {}, columns.map((column) => {
      const box = el('input', { type: 'checkbox', onchange: () => {
        if (box.checked) hiddenColumns.delete(column.id); else hiddenColumns.add(column.id);
        go({ [key('hide')]: [...hiddenColumns].join(',') }, true);
      } });
      box.checked = !hiddenColumns.has(column.id);
      return el('label', {}, box, ' ', column.label);
    })));
    const node = el('div', {}, el('div', { class: 'tools' }, el('label', {}, 'Filter ', filter), more.tools, choose, el('button', { type: 'button', onclick: csv }, 'Copy as CSV'), status), scroller);
    refresh();
    return { node, refresh, print: () => drawRows(true), focus: filter };
  };

  // ---- The map.

  const split = (name) => {
    // ns::A<B>::f(int) -> [ns, A<B>, f]: the scopes of a name in the source, without what it returns.
    let depth = 0;
    let end = name.length;
    for (let i = 0; i < name.length; i += 1) {
      const c = name[i];
      if (c === '(' && depth === 0) {
        if (name.startsWith('(anonymous namespace)', i)) { i += 20; continue; }
        if (name.slice(0, i).endsWith('operator')) { i += 1; continue; }
        end = i;
        break;
      }
      if (c === '<' || c === '[' || c === '{') depth += 1;
      else if ((c === '>' || c === ']' || c === '}') && depth > 0 && name[i - 1] !== '-') depth -= 1;
    }
    const parts = [''];
    depth = 0;
    for (let i = 0; i < end; i += 1) {
      const c = name[i];
      if (c === '<') depth += 1;
      if (c === '>' && depth > 0) depth -= 1;
      if (depth === 0 && c === ':' && name[i + 1] === ':') { parts.push(''); i += 1; continue; }
      if (depth === 0 && c === ' ' && parts.length === 1 && !/operator$/.test(parts[0])) { parts[0] = ''; continue; }
      parts[parts.length - 1] += c;
    }
    return parts.filter(Boolean);
  };
  const folderOf = (paths) => {
    const first = paths[0] || '';
    let end = first.lastIndexOf('/') + 1;
    for (const path of paths) while (end > 0 && !path.startsWith(first.slice(0, end))) end = first.lastIndexOf('/', end - 2) + 1;
    return end;
  };
  let tree;
  const makeTree = () => {
    const root = { name: 'all', children: new Map() };
    const child = (node, name) => {
      let next = node.children.get(name);
      if (!next) node.children.set(name, (next = { name, children: new Map() }));
      return next;
    };
    const add = (node, category, bytes, f) => {
      const leaf = child(node, category);
      leaf.bytes = (leaf.bytes || 0) + bytes;
      leaf.category = category;
      leaf.f = f;
    };
    const cut = folderOf(inputs.map((input) => input.file || input.name));
    const places = new Map();
    const ofInput = (base, place) => {
      const key = `${base.name}\n${place}`;
      if (places.has(key)) return places.get(key);
      const input = inputs[place];
      let node = base;
      if (input) {
        const parts = (input.file || input.name).slice(cut).split('/').filter((part) => part !== '.');
        for (const part of parts) node = child(node, visible(part) || '/');
        if (input.member) node = child(node, visible(input.member));
      } else node = child(base, report.link ? '(linker)' : '(image)');
      places.set(key, node);
      return node;
    };
    const several = report.images.length > 1;
    const scopes = new Map();
    for (const image of report.images) {
      const base = several ? child(child(root, image.target || '?'), visible(image.place || `${image.kind} ${image.at}`)) : root;
      for (const section of image.sections || []) {
        if (NO_BYTES.has(section.category) || !section.bytes) continue;
        const f = section.function === undefined ? undefined : image.functions[section.function];
        if (f) {
          let node = several || !report.link ? base : ofInput(base, section.input);
          if (!scopes.has(f.id)) scopes.set(f.id, split(f.shown).map((s) => s));
          const parts = scopes.get(f.id);
          parts.slice(0, -1).forEach((part) => { node = child(node, part); });
          node = child(node, f.shown);
          node.f = f;
          add(node, section.category, section.bytes, f);
        } else if (section.pieces) {
          let rest = section.bytes;
          for (const [input, , bytes] of section.pieces) {
            add(child(ofInput(base, input), visible(section.name)), section.category, bytes);
            rest -= bytes;
          }
          if (rest > 0) add(child(ofInput(base), visible(section.name)), section.category, rest);
        } else add(child(section.input === undefined ? ofInput(base) : ofInput(base, section.input), visible(section.name)), section.category, section.bytes);
      }
      if (!(image.sections || []).length && image.stored) add(child(base, image.kind), 'other', image.stored);
    }
    const list = (node) => {
      const children = [...node.children.values()].map(list);
      return children.length ? { name: node.name, f: node.f, children } : { name: node.name, f: node.f, bytes: node.bytes, category: node.category };
    };
    tree = d3.hierarchy(list(root)).sum((node) => node.bytes || 0).sort((a, b) => b.value - a.value);
    tree.data.name = report.link ? visible(report.link.output || 'output') : visible(report.file ? report.file.name : 'program');
  };
  const pathOf = (node) => node.ancestors().reverse().slice(1).map((n) => n.data.name);
  const nodeAt = (path) => {
    let node = tree;
    for (const name of path) {
      const next = (node.children || []).find((c) => c.data.name === name);
      if (!next) break;
      node = next;
    }
    // A row of single children says nothing.
    return node;
  };
  const zoom = () => { try { return nodeAt(JSON.parse(state.get('at') || '[]')); } catch { return tree; } };
  const label = (node) => (node.data.category && !node.children ? (CATEGORIES.find(([id]) => id === node.data.category) || ['', node.data.category])[1] : node.data.name);
  // That of the largest part.
  const categoryOf = (node) => { let n = node; while (n.children) [n] = n.children; return n.data.category || 'other'; };
  let boxes = [];
  let marked = -1;
  const mark = (place, quiet) => {
    if (boxes[marked]) boxes[marked].div.classList.remove('marked');
    marked = place;
    const box = boxes[place];
    if (!box) return;
    box.div.classList.add('marked');
    if (quiet) return;
    $('treemap').setAttribute('aria-activedescendant', box.div.id);
    const node = box.node;
    const names = node.ancestors().reverse().slice(1).map(label).join(' › ');
    $('marked').textContent = `${clip(names, 500)}: ${count(node.value)} bytes, ${((100 * node.value) / (tree.value || 1)).toFixed(2)} %`;
  };
  const enter = (node) => {
    if (node.children && !(node.data.f && node.children.every((c) => !c.children))) {
      // Nothing to see in one that has one child only.
      let target = node;
      while (target.children && target.children.length === 1 && target.children[0].children && !target.children[0].data.f) [target] = target.children;
      go({ at: JSON.stringify(pathOf(target)) });
    } else if (node.data.f) open(node.data.f);
    else if (node.parent && node.parent.data.f) open(node.parent.data.f);
  };
  const drawMap = () => {
    const holder = $('treemap');
    const root = zoom();
    const [width, height] = [holder.clientWidth, holder.clientHeight];
    if (!width || !root.value) { clear(holder); return; }
    const copy = d3.hierarchy(root, (node) => node.children).sum((node) => (node.children ? 0 : node.value)).sort((a, b) => b.value - a.value);
    d3.treemap().size([width, height]).round(true).paddingInner(1).paddingTop((n) => (n.depth && n.y1 - n.y0 > 30 && n.x1 - n.x0 > 30 ? 15 : 0)).tile(d3.treemapSquarify)(copy);
    boxes = [];
    const nodes = [];
    // What is too small to be seen is part of its group, which has its colour, but paler.
    const isSeen = (n) => { const [w, h] = [n.x1 - n.x0, n.y1 - n.y0]; return w >= 4 && h >= 4 && w * h >= 90; };
    copy.each((n) => {
      const [w, h] = [n.x1 - n.x0, n.y1 - n.y0];
      if (!n.depth || !isSeen(n)) return;
      const node = n.data;
      const group = Boolean(n.children);
      const div = el('div', { id: `box${boxes.length}`, role: 'treeitem', class: group ? 'group' : null, 'aria-label': `${clip(label(node), 200)}, ${count(node.value)} bytes` });
      Object.assign(div.style, { left: `${n.x0}px`, top: `${n.y0}px`, width: `${w}px`, height: `${h}px` });
      if (!group || w < 32 || h < 32) div.style.background = `var(--${categoryOf(node)})`;
      else if (!n.children.every(isSeen)) div.style.background = `color-mix(in srgb, var(--${categoryOf(node)}) 45%, var(--head))`;
      if (w > 34 && h > 12) div.textContent = clip(group ? label(node) : `${node.parent && node.parent.data.f ? `${clip(node.parent.data.name, 80)} ` : ''}${label(node)}`, 120);
      boxes.push({ node, div });
      nodes.push(div);
    });
    clear(holder, nodes);
    marked = -1;
    if (!$('marked').textContent) $('marked').textContent = 'Move over the map, or walk it with the arrow keys.';
    const crumbs = root.ancestors().reverse();
    clear($('crumbs'), crumbs.flatMap((node, n) => [n ? ' › ' : '', el('button', { type: 'button', 'aria-current': n === crumbs.length - 1 ? 'location' : null, onclick: () => go({ at: JSON.stringify(pathOf(node)) }) }, clip(label(node), 120))]), ` ${count(root.value)} bytes`);
    const part = (node) => `${((100 * node.value) / (root.value || 1)).toFixed(1)} %`;
    const largest = (root.children || []).slice(0, 12);
    clear($('largest'), el('table', { 'aria-label': 'Largest parts' }, el('tbody', {}, largest.map((node) => el('tr', {}, el('td', {}, el('button', { type: 'button', title: clip(label(node), 300), onclick: () => enter(node) }, clip(label(node), 200))), el('td', { class: 'n' }, short(node.value)), el('td', { class: 'n' }, part(node)))))),
      (root.children || []).length > 12 ? el('p', { class: 'soft' }, `and ${count(root.children.length - 12)} more`) : '');
  };
  const mapEvents = () => {
    const holder = $('treemap');
    const place = (event) => boxes.findIndex((box) => box.div === event.target);
    holder.addEventListener('mousemove', (event) => { const at = place(event); if (at >= 0 && at !== marked) mark(at); });
    holder.addEventListener('click', (event) => {
      const box = boxes[place(event)];
      if (!box) return;
      // The group below the shown one in which the click was.
      let node = box.node;
      if (event.detail && node.children === undefined && node.data.f) { open(node.data.f); return; }
      const top = zoom();
      while (node.parent && node.parent !== top && node.parent.depth > top.depth) node = node.parent;
      enter(node);
    });
    holder.addEventListener('keydown', (event) => {
      const at = boxes[marked];
      const index = (node) => boxes.findIndex((box) => box.node === node);
      const moves = {
        ArrowRight: () => { const s = at.node.parent.children; return index(s[Math.min(s.length - 1, s.indexOf(at.node) + 1)]); },
        ArrowLeft: () => { const s = at.node.parent.children; return index(s[Math.max(0, s.indexOf(at.node) - 1)]); },
        ArrowDown: () => (at.node.children ? index(at.node.children[0]) : marked),
        ArrowUp: () => index(at.node.parent),
        Home: () => 0,
      };
      if (moves[event.key]) {
        const to = at ? moves[event.key]() : 0;
        if (to >= 0) mark(to);
        event.preventDefault();
      } else if (event.key === 'Enter' && at) { enter(at.node); event.preventDefault(); }
    });
  };

  // ---- The views.

  const lead = (text, ...rest) => el('p', { class: 'soft' }, text, rest);
  const nameColumn = (title) => ({ id: 'name', label: title, value: (f) => f.shown, node: (f) => link(f) });
  const VIEWS = {
    kernels: {
      title: 'Kernels',
      has: () => kernels().length > 0,
      draw: () => {
        const threads = state.get('threads') || '256';
        const select = el('select', { onchange: () => go({ threads: select.value }, true) }, ['64', '128', '256', '512', '1024', 'own'].map((t) => el('option', { value: t }, t === 'own' ? 'launch bounds' : `${t} threads`)));
        select.value = threads;
        const one = (f) => occupancy(f, threads);
        const several = report.images.length > 1;
        const columns = [
          nameColumn('Kernel'),
          several && { id: 'target', label: 'Target', value: (f) => f.image.target },
          { id: 'registers', label: 'Registers', number: true, help: 'Of a thread, with all functions that it calls', value: (f) => (f.registers || {}).total },
          { id: 'by', label: 'Set by', help: 'The function that needs the most registers', value: (f) => { const g = other(f, (f.registers || {}).set_by); return g ? g.shown : ''; }, node: (f) => { const g = other(f, (f.registers || {}).set_by); return g ? link(g) : ''; } },
          { id: 'stack', label: 'Stack', number: true, help: 'Bytes of a thread on the deepest chain of calls; – where there is no limit', value: (f) => (f.stack || {}).total },
          { id: 'shared', label: 'Shared', number: true, help: 'Bytes of static shared memory of a block', value: (f) => f.kernel.shared },
          { id: 'occupancy', label: 'Occupancy %', number: true, help: 'Resident warps of those that a multiprocessor can have, without dynamic shared memory', value: (f) => percent(f, one(f)) },
          { id: 'limit', label: 'Limited by', value: (f) => (one(f) ? LIMITS[one(f).limit] : f.image.limits ? '' : 'unknown') },
          { id: 'code', label: 'Code', number: true, help: "Bytes of the kernel's own code", value: (f) => f.code },
          { id: 'own', label: 'Own', number: true, help: "Registers of the kernel's own code", value: (f) => (f.registers || {}).own },
          { id: 'barriers', label: 'Barriers', number: true, value: (f) => (f.barriers || {}).total },
          { id: 'dynamic', label: 'Dynamic', help: 'It uses shared memory whose size the launch decides', value: (f) => (f.kernel.dynamic_shared ? 'yes' : '') },
          { id: 'parameters', label: 'Parameters', number: true, help: 'Bytes', value: (f) => f.kernel.parameter_bytes || 0 },
          inputs.length > 0 && { id: 'file', label: 'File', value: (f) => fileOf(f.input) },
        ].filter(Boolean);
        return table('kernels', columns, kernels(), { sort: 'registers', open, tools: el('label', {}, 'Blocks of ', select) });
      },
    },
    functions: {
      title: 'Functions',
      has: () => functions.some((f) => !f.kernel),
      draw: () => table('functions', [
        nameColumn('Function'),
        { id: 'code', label: 'Code', number: true, help: 'Bytes', value: (f) => f.code },
        { id: 'registers', label: 'Registers', number: true, value: (f) => (f.registers || {}).own },
        { id: 'frame', label: 'Frame', number: true, help: 'Bytes of its own stack frame', value: (f) => (f.stack || {}).own },
        { id: 'stack', label: 'Stack', number: true, help: 'Bytes on the deepest chain of calls', value: (f) => (f.stack || {}).total },
        { id: 'callers', label: 'Callers', number: true, value: (f) => f.callers.length },
        { id: 'callees', label: 'Callees', number: true, value: (f) => f.callees.length },
        { id: 'what', label: 'What', value: (f) => [f.kernel && 'kernel', f.address_taken && 'address taken', f.recursive && 'recursive', f.section === undefined && 'not defined here'].filter(Boolean).join(', ') },
        inputs.length > 0 && { id: 'file', label: 'File', value: (f) => fileOf(f.input) },
      ].filter(Boolean), functions, { sort: 'code', open }),
    },
    function: { title: 'Calls', has: () => functions.length > 0, draw: () => drawFunction(functions[Number(state.get('f'))] || kernels()[0] || functions[0]) },
    variables: {
      title: 'Variables',
      has: () => report.images.some((image) => (image.variables || []).length),
      draw: () => table('variables', [
        { id: 'name', label: 'Variable', value: (v) => visible(v.demangled || v.name) },
        { id: 'space', label: 'Memory', value: (v) => v.space },
        { id: 'bytes', label: 'Bytes', number: true, value: (v) => v.bytes },
        { id: 'file', label: 'File', value: (v) => fileOf(v.input) },
      ], report.images.flatMap((image) => image.variables || []), { sort: 'bytes' }),
    },
    removed: {
      title: 'Removed',
      has: () => (report.removed || []).length > 0,
      draw: () => table('removed', [
        { id: 'name', label: 'Name', value: (r) => visible(r.demangled || r.name) },
        { id: 'kind', label: 'Kind', value: (r) => r.kind },
        { id: 'bytes', label: 'Bytes', number: true, value: (r) => r.bytes },
        { id: 'why', label: 'Why', value: (r) => (r.why === 'unused' ? 'neither the options nor host code use the kernel' : 'no kernel reaches it, and nothing takes its address') },
        { id: 'file', label: 'File', value: (r) => fileOf(r.input) },
      ], report.removed, { sort: 'bytes' }),
    },
    copies: {
      title: 'Copies',
      has: () => (report.copies || []).length > 0,
      draw: () => {
        const wasted = (c) => c.dropped.reduce((sum, d) => sum + d[1], 0);
        return table('copies', [
          { id: 'name', label: 'Name', value: (c) => visible(c.demangled || c.name) },
          { id: 'wasted', label: 'Dropped bytes', number: true, value: wasted },
          { id: 'files', label: 'Files', number: true, help: 'That define it', value: (c) => c.dropped.length + 1 },
          { id: 'kept', label: 'Kept', value: (c) => fileOf(c.kept) },
          { id: 'told', label: 'In words', value: (c) => `defined in ${c.dropped.length + 1} files, 1 kept, ${short(wasted(c))} dropped: ${c.dropped.slice(0, 40).map((d) => fileOf(d[0])).join(', ')}${c.dropped.length > 40 ? ', …' : ''}` },
        ], report.copies, { sort: 'wasted' });
      },
    },
    images: {
      title: 'Images',
      has: () => !report.link,
      draw: () => table('images', [
        { id: 'place', label: 'Place', value: (i) => visible(i.place || '') },
        { id: 'kind', label: 'Kind', value: (i) => i.kind },
        { id: 'target', label: 'Target', value: (i) => i.target },
        { id: 'compression', label: 'Compression', value: (i) => i.compression || 'none' },
        { id: 'stored', label: 'Stored', number: true, value: (i) => i.stored },
        { id: 'bytes', label: 'Unpacked', number: true, value: (i) => i.bytes },
        { id: 'kernels', label: 'Kernels', number: true, value: (i) => (i.functions || []).filter((f) => f.kernel).length },
        { id: 'defect', label: 'Defect', value: (i) => visible(i.defect || '') },
      ], report.images, { sort: 'stored' }),
    },
    inputs: {
      title: 'Inputs',
      has: () => inputs.length > 0,
      draw: () => {
        const own = inputs.map(() => ({ functions: 0, code: 0 }));
        for (const f of functions) if (own[f.input]) { own[f.input].functions += 1; own[f.input].code += f.code; }
        const why = (i) => ({ named: 'named on the command line', library: `-l${visible(i.cause || '')}`, undefined: `defines ${visible(i.cause || 'something')}, which ${fileOf(i.caused_by) || 'an input'} refers to` })[i.why] || i.why;
        return table('inputs', [
          { id: 'name', label: 'Input', value: ([i]) => visible(i.name) },
          { id: 'kind', label: 'Kind', value: ([i]) => i.kind },
          { id: 'why', label: 'Why', value: ([i]) => (i.ignored ? `not linked: ${visible(i.ignored)}` : why(i)) },
          { id: 'bytes', label: 'Bytes', number: true, value: ([i]) => i.bytes },
          { id: 'functions', label: 'Functions', number: true, value: ([, o]) => o.functions },
          { id: 'code', label: 'Code', number: true, help: 'Bytes of machine code in the output', value: ([, o]) => o.code },
        ], inputs.map((input, n) => [input, own[n]]), { sort: 'code' });
      },
    },
    messages: {
      title: 'Messages',
      has: () => (report.messages || []).length > 0,
      draw: () => ({ node: el('div', {}, report.messages.map((m) => el('div', {}, el('p', { class: m.severity }, el('strong', {}, `${m.severity}: `), cell(m.text)), (m.notes || []).length ? el('div', { class: 'notes' }, m.notes.map(visible).join('\n')) : ''))) }),
    },
    link: {
      get title() { return report.link ? 'Link' : 'File'; },
      has: () => true,
      draw: () => ({ node: drawLink() }),
    },
  };

  const drawFunction = (f) => {
    if (!f) return { node: lead('There is no function.') };
    const facts = [];
    const fact = (name, ...value) => facts.push(el('dt', {}, name), el('dd', {}, value));
    fact('Name in the object', el('code', {}, clip(visible(f.name), 2000)));
    if (f.source) fact('Source', visible(f.source));
    if (inputs.length) fact('File', fileOf(f.input) || 'no input');
    if (report.images.length > 1) fact('Image', `${visible(f.image.place || '')} ${f.image.target}`);
    fact('Code', `${count(f.code)} bytes`);
    const need = (title, n, unit) => {
      if (!n || (n.total === undefined && n.own === undefined)) return;
      const by = other(f, n.set_by);
      const own = n.own !== undefined && n.own !== n.total ? `, ${count(n.own)} of its own` : '';
      const rest = by ? [', set by ', link(by)] : n.own !== undefined && n.total !== n.own ? [', of the whole program'] : [];
      fact(title, `${known(n.total)} ${unit}${own}`, rest);
    };
    need('Registers', f.registers, 'of a thread');
    need('Barriers', f.barriers, 'of a block');
    const stack = f.stack || {};
    if (stack.own !== undefined || stack.total !== undefined) {
      fact('Stack', stack.total === undefined ? `no limit is known${stack.own === undefined ? '' : `, its own frame has ${count(stack.own)} bytes`}` : `${count(stack.total)} bytes of a thread${stack.own === undefined ? '' : `, its own frame has ${count(stack.own)}`}`);
    }
    const what = [f.address_taken && 'its address is taken', f.recursive && 'it can call itself'].filter(Boolean).join(', ');
    if (what) fact('Also', what);
    const k = f.kernel;
    if (k) {
      fact('Shared memory', `${count(k.shared)} bytes of a block${k.system_shared ? `, of which the system keeps ${count(k.system_shared)}` : ''}${k.dynamic_shared ? ', and as many as the launch asks for' : ''}`);
      if (k.local) fact('Local memory', `${count(k.local)} bytes of a thread`);
      if ((k.constants || []).length) fact('Constant banks', k.constants.map(([n, b]) => `${n}: ${count(b)} bytes`).join(', '));
      if ((k.parameters || []).length) fact('Parameters', `${k.parameters.length}, ${count(k.parameter_bytes || 0)} bytes from offset 0x${(k.parameter_offset || 0).toString(16)} of bank 0`);
      const b = k.bounds || {};
      const dims = (d) => d.join(' × ');
      if (b.threads) fact('Block', `exactly ${dims(b.threads)} threads`);
      else if (b.most_threads) fact('Block', `at most ${dims(b.most_threads)} threads`);
      if (b.registers) fact('Register limit', count(b.registers));
      if (b.cluster) fact('Cluster', `${dims(b.cluster)} blocks`);
      if (b.most_cluster) fact('Cluster', `at most ${count(b.most_cluster)} blocks`);
      const counts = ['textures', 'surfaces', 'samplers'].filter((n) => k[n]).map((n) => `${k[n]} ${n}`).join(', ');
      if (counts) fact('Legacy references', counts);
    }
    const chain = [];
    for (let at = other(f, stack.next), n = 0; at && n < 500; at = other(at, (at.stack || {}).next), n += 1) chain.push(at);
    const list = (items, none) => (items.length ? el('ul', {}, items.slice(0, 400).map(({ f: g, indirect }) => el('li', {}, link(g), g.kernel ? el('span', { class: 'soft' }, ' kernel') : '', indirect ? el('span', { class: 'soft' }, ' through a pointer') : '')), items.length > 400 ? el('li', { class: 'soft' }, `and ${count(items.length - 400)} more`) : '') : el('p', { class: 'soft' }, none));
    const path = pathFromKernel(f);
    const limits = f.image.limits;
    const rows = k ? occupancies(f) : [];
    const node = el('article', { 'aria-labelledby': 'function-title' },
      el('h2', { id: 'function-title', tabindex: -1 }, k ? 'Kernel ' : 'Function ', el('code', {}, clip(f.shown, 1000))),
      el('dl', { class: 'facts' }, facts),
      el('h3', {}, 'Calls'),
      el('div', { class: 'walk' },
        el('section', { 'aria-label': 'Callers' }, el('h3', {}, `Called by (${count(f.callers.length)})`), list(f.callers, k ? 'The host starts it.' : 'Nothing calls it directly.')),
        el('section', { class: 'here', 'aria-label': 'This function' }, el('code', {}, clip(f.shown, 300))),
        el('section', { 'aria-label': 'Callees' }, el('h3', {}, `Calls (${count(f.callees.length)})`), list(f.callees, 'It calls nothing.'))),
      chain.length ? [el('h3', {}, 'The deepest chain of calls, which makes the stack'), el('ul', { class: 'chain' }, [f, ...chain].map((g) => el('li', {}, link(g), el('span', { class: 'soft' }, ` ${known((g.stack || {}).own)} bytes`))))] : '',
      !k && path.length ? [el('h3', {}, 'Why it is in the program: a shortest way from a kernel'), el('ul', { class: 'chain' }, path.map((g) => el('li', {}, link(g))))] : '',
      rows.length ? [el('h3', {}, 'Theoretical occupancy, without dynamic shared memory'), el('div', { class: 'rows' }, el('table', { 'aria-label': 'Occupancy' }, el('thead', {}, el('tr', {}, ['Threads of a block', 'Blocks', 'Warps', '%', 'Limited by', 'Blocks by warps', 'by blocks', 'by registers', 'by shared memory', 'by barriers'].map((t) => el('th', { scope: 'col', class: t === 'Limited by' ? null : 'n' }, t)))), el('tbody', {}, rows.map((o) => el('tr', {}, [o.threads, o.blocks, o.warps, percent(f, o)].map((n) => el('td', { class: 'n' }, known(n))), el('td', {}, LIMITS[o.limit]), o.by.map((n) => el('td', { class: 'n' }, count(n)))))))), lead(`Limits of ${f.image.target}: ${limits.source}.`)]
        : k && !limits ? lead(`Nobody has published the limits of ${f.image.target}: no occupancy is known.`) : '');
    return { node };
  };
  const pathFromKernel = (f) => {
    const from = new Map([[f, null]]);
    const queue = [f];
    for (const at of queue) {
      if (at.kernel) {
        const path = [];
        for (let n = at; n; n = from.get(n)) path.push(n);
        return path;
      }
      for (const { f: g } of at.callers) if (!from.has(g)) { from.set(g, at); queue.push(g); }
    }
    return [];
  };
  const drawLink = () => {
    const facts = [];
    const fact = (name, ...value) => facts.push(el('dt', {}, name), el('dd', {}, value));
    const l = report.link;
    if (l) {
      fact('Target', l.target);
      fact('Follows', `nvlink ${l.dialect}`);
      if ((l.rules || []).length) fact('Older rules', cell(l.rules.map((rule) => rule.replaceAll('_', ' ')).join(', ')));
      fact('Options', el('code', {}, clip(visible((l.options || []).join(' ')), 4000)));
      fact('Read', `${count(l.input_bytes)} bytes of cubins`);
      fact('Written', `${count(l.output_bytes)} bytes`);
    }
    if (report.file) { fact('File', visible(report.file.name)); fact('Kind', report.file.kind); fact('Bytes', count(report.file.bytes)); fact('Device code', `${count(report.file.device_bytes)} bytes`); }
    const small = (title, heads, rows) => (rows.length ? [el('h3', {}, title), el('table', { 'aria-label': title }, el('thead', {}, el('tr', {}, heads.map((h, n) => el('th', { scope: 'col', class: n ? 'n' : null }, h)))), el('tbody', {}, rows.map((row) => el('tr', {}, row.map((value, n) => el('td', { class: n ? 'n' : null }, value))))))] : '');
    const sums = new Map();
    const kinds = new Map();
    for (const image of report.images) {
      for (const s of image.sections || []) { const at = sums.get(s.category) || [0, 0]; sums.set(s.category, [at[0] + 1, at[1] + s.bytes]); }
      for (const r of image.relocations || []) kinds.set(r.type, (kinds.get(r.type) || 0) + r.count);
    }
    const phases = (l && l.phases) || [];
    const by = (map, column) => [...map].sort((a, b) => b[1][column] - a[1][column]);
    return el('div', {}, el('dl', { class: 'facts' }, facts),
      small('Sections', ['What', 'Sections', 'Bytes'], by(sums, 1).map(([name, [n, bytes]]) => [name, count(n), count(bytes)])),
      small('Relocations that the driver applies', ['Type', 'Records'], [...kinds].sort((a, b) => b[1] - a[1]).map(([name, n]) => [cell(name), count(n)])),
      small('Phases', ['Phase', 'ms'], phases.map((p) => [p.name, p.ms.toFixed(2)])));
  };

  // ---- Search.

  const search = () => {
    const box = $('search');
    const list = $('found');
    let hits = [];
    let at = -1;
    const close = () => { list.hidden = true; box.setAttribute('aria-expanded', 'false'); box.removeAttribute('aria-activedescendant'); };
    const show = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      const matches = (text) => words.every((w) => text.includes(w));
      hits = [];
      if (words.length) {
        const add = (f) => { if (hits.length < 50 && matches(`${f.shown} ${f.name}`.toLowerCase())) hits.push({ text: f.shown, kind: f.kernel ? 'kernel' : 'function', open: () => open(f) }); };
        kernels().forEach(add);
        functions.filter((f) => !f.kernel).forEach(add);
        inputs.forEach((input) => { if (hits.length < 60 && matches(input.name.toLowerCase())) hits.push({ text: visible(input.name), kind: 'file', open: () => go({ tab: 'inputs', 'inputs.q': input.name }) }); });
      }
      at = hits.length ? 0 : -1;
      paint();
      list.hidden = !words.length;
      box.setAttribute('aria-expanded', String(!list.hidden));
    };
    const paint = () => {
      clear(list, hits.map((hit, n) => el('li', { id: `hit${n}`, role: 'option', 'aria-selected': n === at, onmousedown: (event) => { event.preventDefault(); hit.open(); close(); } }, clip(hit.text, 200), el('span', { class: 'soft' }, ` ${hit.kind}`))));
      if (!hits.length) clear(list, el('li', { class: 'soft' }, 'Nothing of that name'));
      if (at >= 0) { box.setAttribute('aria-activedescendant', `hit${at}`); list.children[at].scrollIntoView({ block: 'nearest' }); }
    };
    box.addEventListener('input', show);
    box.addEventListener('blur', close);
    box.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' && at < hits.length - 1) { at += 1; paint(); event.preventDefault(); } else if (event.key === 'ArrowUp' && at > 0) { at -= 1; paint(); event.preventDefault(); } else if (event.key === 'Enter' && hits[at]) { hits[at].open(); close(); box.blur(); $('view').focus(); } else if (event.key === 'Escape') { close(); box.blur(); event.stopPropagation(); }
    });
  };

  // ---- All of it.

  let view;
  let drawn = {};
  const draw = () => {
    const tabs = Object.entries(VIEWS).filter(([, v]) => v.has());
    const id = state.get('tab') && VIEWS[state.get('tab')] && VIEWS[state.get('tab')].has() ? state.get('tab') : tabs[0][0];
    if (drawn.at !== state.get('at')) { drawn.at = state.get('at'); drawMap(); }
    const words = JSON.stringify([id, id === 'function' ? state.get('f') : '', [...state].filter(([k]) => k.startsWith(`${id}.hide`) || k === 'threads')]);
    if (drawn.view !== words) {
      drawn.view = words;
      clear($('tabs'), tabs.map(([name, v]) => el('button', { type: 'button', role: 'tab', id: `tab-${name}`, 'aria-selected': name === id, 'aria-controls': 'view', tabindex: name === id ? 0 : -1, onclick: () => go({ tab: name }) }, v.title)));
      view = VIEWS[id].draw();
      $('view').setAttribute('aria-labelledby', `tab-${id}`);
      clear($('view'), view.node);
      if (view.refresh) view.refresh();
    } else if (view.refresh) view.refresh();
  };
  const figures = () => {
    const sum = (list) => report.images.reduce((all, image) => all + (image.sections || []).filter((s) => list.includes(s.category)).reduce((n, s) => n + s.bytes, 0), 0);
    const removed = (report.removed || []).reduce((n, r) => n + r.bytes, 0) + (report.copies || []).reduce((n, c) => n + c.dropped.reduce((m, d) => m + d[1], 0), 0);
    const figure = (name, value, title) => el('div', { title }, el('dt', {}, name), el('dd', {}, value));
    clear($('figures'), figure('code', short(sum(['code', 'mercury']))), figure('variables and constants', short(sum(['data', 'zeroed', 'constants']))), figure('kernels', count(kernels().length)), figure('functions', count(functions.length - kernels().length)),
      report.link ? figure('removed', short(removed), `${(report.removed || []).length} definitions that nothing needs, ${(report.copies || []).length} names with copies`) : figure('images', count(report.images.length)));
  };
  const start = async () => {
    const text = $('data').textContent;
    $('data').remove();
    if (typeof DecompressionStream === 'undefined') throw new Error('this browser cannot unpack the report; one of 2023 or later can');
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    report = await new Response(stream).json();
    prepare();
    const title = visible(report.link ? report.link.output || 'output' : report.file ? report.file.name : 'report');
    $('name').textContent = clip(title, 400);
    $('what').textContent = report.link ? `${report.link.target}, follows nvlink ${report.link.dialect}` : [...new Set(report.images.map((image) => image.target))].slice(0, 20).join(', ');
    $('made').textContent = `Made by ${report.producer}. Layout of the map: d3-hierarchy 3.1.2 (ISC licence).`;
    figures();
    makeTree();
    clear($('legend'), CATEGORIES.filter(([id]) => report.images.some((image) => (image.sections || []).some((s) => s.category === id))).map(([id, name]) => { const i = el('i'); i.style.background = `var(--${id})`; return el('li', {}, i, name); }));
    $('loading').remove();
    $('map').hidden = false;
    $('tabs').hidden = false;
    readState();
    mapEvents();
    search();
    draw();
    drawMap();
    addEventListener('hashchange', () => { readState(); draw(); });
    addEventListener('popstate', () => { readState(); draw(); });
    let timer;
    addEventListener('resize', () => { clearTimeout(timer); timer = setTimeout(drawMap, 100); });
    addEventListener('beforeprint', () => { if (view && view.print) view.print(); });
    addEventListener('afterprint', () => { if (view && view.refresh) view.refresh(); });
    $('tabs').addEventListener('keydown', (event) => {
      const all = [...$('tabs').children];
      const now = all.findIndex((tab) => tab.getAttribute('aria-selected') === 'true');
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined || !all[to]) return;
      all[to].click();
      $(all[to].id).focus();
      event.preventDefault();
    });
    document.addEventListener('keydown', (event) => {
      const typing = ['INPUT', 'SELECT', 'TEXTAREA'].includes(document.activeElement.tagName);
      if (event.key === '/' && !typing) { $('search').focus(); event.preventDefault(); } else if (event.key === 'Escape' && !typing) {
        const at = zoom();
        if (document.activeElement === $('treemap') || state.get('tab') !== 'function') { if (at.parent) go({ at: at.parent.parent ? JSON.stringify(pathOf(at.parent)) : undefined }); } else history.back();
      }
    });
    document.documentElement.dataset.ready = 'yes';
  };
  start().catch((error) => { const p = $('loading') || $('view'); p.textContent = `The report cannot be shown: ${error.message}`; document.documentElement.dataset.ready = 'failed'; });
})();
