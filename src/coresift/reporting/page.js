"use strict";
(function () {
  const data = JSON.parse(document.getElementById("facts").textContent);
  const by = (id) => document.getElementById(id);
  const texts = data.texts || {}, images = data.images || {};

  function unpack(packed, Kind) {
    const raw = atob(packed), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Kind(bytes.buffer);
  }

  const rows = {
    row: unpack(data.rows.row, Float64Array),
    cluster: unpack(data.rows.cluster, Int32Array),
    weight: unpack(data.rows.weight, Float32Array),
    distance: unpack(data.rows.distance, Float32Array),
    loss: unpack(data.rows.loss, Float32Array),
    origin: unpack(data.rows.origin, Uint8Array),
  };
  const count = rows.row.length;
  const placeOf = new Map();
  rows.row.forEach((row, place) => placeOf.set(row, place));
  const clusterAt = new Map();
  if (data.clusters) data.clusters.number.forEach((number, at) => clusterAt.set(number, at));

  function number(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toPrecision(3);
    if (size >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
    return value.toPrecision(3);
  }
  const percent = (value) => (value === null ? "" : (100 * value).toFixed(1) + "%");

  // Text from the user becomes a text node here, never markup.
  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function nameOf(row) {
    const place = placeOf.get(row);
    const own = data.names && place !== undefined ? data.names[place] : null;
    return own === null || own === undefined ? "Row " + number(row) : own;
  }
  function content(row, most) {
    const fragment = document.createDocumentFragment();
    if (images[row]) {
      const picture = element("img", "thumb");
      picture.alt = "";
      picture.src = images[row];
      fragment.append(picture);
    }
    if (texts[row] !== undefined) {
      const full = texts[row], cut = full.length > most ? full.slice(0, most).trimEnd() + "…" : full;
      const span = element("span", "words", cut);
      span.dir = "auto";
      fragment.append(span);
    }
    return fragment;
  }
  function about(place) {
    const parts = [];
    if (data.weighted) parts.push("stands for " + number(rows.weight[place]) + (clusters && clusters.cover ? " rows" : ""));
    if (Number.isFinite(rows.loss[place])) parts.push("loss " + number(rows.loss[place]));
    return parts.join(", ");
  }

  const root = document.documentElement;
  document.addEventListener("theme", () => redraw());

  // ---------------------------------------------------------------- tables
  function table(id, columns, total, moreId, fill) {
    const head = by(id);
    if (!head) return null;
    const body = head.tBodies[0], more = by(moreId), first = 12;
    let order = Array.from({ length: total }, (_, i) => i), all = false, sorted = null, down = true;
    function draw() {
      body.replaceChildren(...order.slice(0, all ? total : first).map(fill));
      more.hidden = total <= first;
      more.textContent = all ? "Show fewer" : "Show all " + number(total);
    }
    function sort(key, descending) {
      sorted = key;
      down = descending;
      const values = columns[key], sign = down ? -1 : 1;
      const low = (value) => (value === null ? -Infinity : value);
      order.sort((a, b) => {
        const x = low(values[a]), y = low(values[b]);
        return (x < y ? -1 : x > y ? 1 : 0) * sign || a - b;
      });
      for (const cell of head.tHead.querySelectorAll("th")) {
        if (cell.querySelector("button").dataset.key === key) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
      draw();
    }
    for (const choice of head.tHead.querySelectorAll("button")) {
      const key = choice.dataset.key;
      const start = key !== "name" && key !== "number";
      choice.addEventListener("click", () => sort(key, sorted === key ? !down : start));
    }
    more.addEventListener("click", () => { all = !all; draw(); });
    return { sort, draw };
  }
  function numbers(line, ...values) {
    for (const value of values) line.append(element("td", "number", value));
    return line;
  }

  const clusters = data.clusters;
  if (clusters) clusters.name = clusters.number.map((n, at) => (clusters.cover ? nameOf(clusters.representative[at]) : n));
  const clusterName = (at) => (clusters.cover ? clusters.name[at] : "Cluster " + clusters.number[at]);
  const clusterTable = clusters && table("cluster-table", clusters, clusters.number.length, "more-clusters", (at) => {
    const line = document.createElement("tr"), cell = element("td", clusters.cover ? "" : "number");
    const open = element("button", "open", String(clusters.name[at]));
    open.type = "button";
    if (!clusters.cover) open.setAttribute("aria-label", "Show cluster " + clusters.number[at]);
    open.addEventListener("click", () => choose(clusters.number[at], true));
    cell.append(open);
    line.append(cell);
    if (chosen === clusters.number[at]) line.className = "chosen";
    if (clusters.cover) {
      cell.append(content(clusters.representative[at], 160));
      return numbers(line, number(clusters.size[at]), percent(clusters.share[at]));
    }
    numbers(line, number(Math.round(clusters.size[at])), number(clusters.cost[at]), number(clusters.selected[at]), percent(clusters.share[at]));
    if (clusters.loss) numbers(line, number(clusters.loss[at]), percent(clusters.total[at]));
    return line;
  });
  const classes = data.classes;
  const classTable = classes && table("class-table", classes, classes.name.length, "more-classes", (at) => {
    const line = document.createElement("tr"), name = element("th", "", classes.name[at]);
    name.scope = "row";
    name.dir = "auto";
    line.append(name);
    numbers(line, number(classes.rows[at]), number(classes.selected[at]), classes.uniform[at].toFixed(1));
    if (classes.estimated) numbers(line, number(Math.round(classes.estimated[at])));
    return line;
  });

  // ---------------------------------------------------------------- one cluster
  let chosen = null;
  const members = new Map();
  for (let place = 0; place < count; place++) {
    const at = rows.cluster[place];
    if (!members.has(at)) members.set(at, []);
    members.get(at).push(place);
  }
  const panels = [by("map-panel"), by("cluster-panel")].filter(Boolean);

  function listItem(row) {
    const item = document.createElement("li"), place = placeOf.get(row);
    const who = element("span", "who");
    who.append(element("bdi", "", nameOf(row)));
    if (place !== undefined && about(place)) who.append(", " + about(place));
    item.append(who, content(row, 240));
    return item;
  }
  function list(title, shown, most) {
    const fragment = document.createDocumentFragment(), lines = element("ul");
    fragment.append(element("h3", "", title));
    lines.append(...shown.slice(0, most).map(listItem));
    fragment.append(lines);
    if (shown.length > most) {
      const more = element("button", "", "Show all " + number(shown.length));
      more.type = "button";
      more.addEventListener("click", () => { lines.append(...shown.slice(most).map(listItem)); more.remove(); });
      fragment.append(more);
    }
    return fragment;
  }
  function describe(at) {
    const panel = element("div", "panel"), n = clusters.number[at];
    panel.append(element("p", "name", clusterName(at)));
    const about = clusters.exact ? "" : "about ";
    if (clusters.cover) return covering(panel, at);
    let summary = about + number(Math.round(clusters.size[at])) + " rows, " + number(clusters.selected[at]) + " selected";
    if (clusters.loss && clusters.loss[at] !== null) summary += ", mean loss about " + number(clusters.loss[at]);
    panel.append(element("p", "quiet", summary + "."));
    const center = clusters.representative[at];
    if (center >= 0) panel.append(list(clusters.exact ? "Its center" : "Selected row nearest to its center", [center], 1));
    const selected = (members.get(n) || []).map((place) => rows.row[place]);
    if (selected.length) panel.append(list("Selected rows", selected, 8));
    const examples = clusters.examples[at];
    if (examples.length) panel.append(list("Some of the rows that they stand for", examples, 8));
    panel.append(back());
    return panel;
  }
  function back() {
    const links = element("div", "links"), all = element("button", "", "Back to all");
    all.type = "button";
    all.addEventListener("click", () => choose(null));
    links.append(all);
    return links;
  }
  // Describe a row that was chosen to cover others, and show some of them.
  function covering(panel, at) {
    panel.append(content(clusters.representative[at], 240));
    const others = clusters.size[at] - 1;
    panel.append(element("p", "quiet", others ? "stands for " + number(others) + (others === 1 ? " other row." : " other rows.") : "stands for itself alone."));
    const examples = clusters.examples[at];
    if (examples.length) panel.append(list(examples.length < others ? "Some of the rows that it stands for" : "The rows that it stands for", examples, 8));
    panel.append(back());
    return panel;
  }
  function welcome() {
    const panel = element("div", "panel");
    panel.append(element("p", "name", clusters && !clusters.cover ? "No cluster is chosen" : "Nothing is chosen"));
    if (!clusters) {
      panel.append(element("p", "quiet", "Point at a dot to see its row."));
      return panel;
    }
    panel.append(element("p", "quiet", clusters.cover ? "Click a dot, or begin with one that stands for many rows:" : "Click a dot or a diamond, or begin with one of the largest:"));
    const largest = clusters.number.map((_, at) => at).sort((a, b) => clusters.size[b] - clusters.size[a] || a - b).slice(0, 6);
    const links = element("div", "links");
    for (const at of largest) {
      const open = element("button", "", clusterName(at));
      open.type = "button";
      open.addEventListener("click", () => choose(clusters.number[at]));
      links.append(open);
    }
    panel.append(links);
    if (data.weighted && count && !clusters.cover) panel.append(list("The largest weights", Array.from(rows.row.slice(0, 4)), 4));
    return panel;
  }
  function choose(n, fromTable) {
    chosen = n !== null && clusterAt.has(n) ? n : null;
    const [panel, other] = panels;
    if (panel) panel.replaceChildren(chosen === null ? (panel.id === "map-panel" ? welcome() : "") : describe(clusterAt.get(chosen)));
    if (panel) panel.scrollTop = 0;
    if (other) other.replaceChildren();
    if (fromTable && chosen !== null) (by("map") || by("cluster-panel")).scrollIntoView({ block: "nearest" });
    if (clusterTable) clusterTable.draw();
    redraw();
  }

  // ---------------------------------------------------------------- map
  const canvas = by("picture"), marks = by("marks"), hint = by("hint");
  const mapData = data.map && canvas ? readMap(data.map) : null;
  const view = { scale: 1, x: 0, y: 0 };
  let sprites = new Map(), density = null, shadeOf = "", hovered = -1, width = 0, height = 0, waiting = false;

  function readMap(map) {
    const unit = (packed) => Float32Array.from(unpack(packed, Uint16Array), (value) => value / 65535);
    const x = unit(map.x), y = unit(map.y), other = unpack(map.other, Float64Array);
    const otherX = unit(map.other_x), otherY = unit(map.other_y), otherAt = new Map();
    other.forEach((row, at) => otherAt.set(row, at));
    return { x, y, shades: unpack(map.shades, Uint8Array), w: map.width, h: map.height, middles: middles(), index: index(x, y) };

    function middles() {
      if (!clusters || clusters.cover) return [];
      return clusters.number.map((n, at) => {
        const center = clusters.representative[at];
        if (clusters.exact && otherAt.has(center)) return [otherX[otherAt.get(center)], otherY[otherAt.get(center)]];
        if (clusters.exact && placeOf.has(center)) return [x[placeOf.get(center)], y[placeOf.get(center)]];
        let sx = 0, sy = 0, sum = 0;
        for (const place of members.get(n) || []) {
          const weight = rows.weight[place];
          sx += weight * x[place]; sy += weight * y[place]; sum += weight;
        }
        return sum ? [sx / sum, sy / sum] : null;
      });
    }
  }

  // Put the points into the cells of a grid, so that the nearest point is searched among a few.
  function index(x, y) {
    const size = Math.max(1, Math.min(160, Math.ceil(Math.sqrt(x.length))));
    const cell = (value) => Math.min(size - 1, Math.max(0, Math.floor(value * size)));
    const starts = new Uint32Array(size * size + 1), places = new Uint32Array(x.length), at = new Uint32Array(x.length);
    for (let i = 0; i < x.length; i++) { at[i] = cell(y[i]) * size + cell(x[i]); starts[at[i] + 1]++; }
    for (let i = 0; i < size * size; i++) starts[i + 1] += starts[i];
    const next = starts.slice();
    for (let i = 0; i < x.length; i++) places[next[at[i]]++] = i;
    return { size, cell, starts, places };
  }

  const across = (x) => (x - view.x) * view.scale * width;
  const along = (y) => (y - view.y) * view.scale * height;

  function radius(place) {
    return data.weighted ? Math.min(16, Math.max(1.3, unitRadius * Math.sqrt(rows.weight[place]))) * Math.sqrt(view.scale) : 2.4 * Math.sqrt(view.scale);
  }
  let unitRadius = 1;

  function nearest(px, py) {
    const reach = 16, ix = mapData.index, w = view.scale * width, h = view.scale * height;
    const fx = px / w + view.x, fy = py / h + view.y;
    const x0 = ix.cell(fx - reach / w), x1 = ix.cell(fx + reach / w), y0 = ix.cell(fy - reach / h), y1 = ix.cell(fy + reach / h);
    let best = -1, least = reach * reach;
    for (let cy = y0; cy <= y1; cy++) {
      for (let i = ix.starts[cy * ix.size + x0]; i < ix.starts[cy * ix.size + x1 + 1]; i++) {
        const place = ix.places[i], dx = (mapData.x[place] - fx) * w, dy = (mapData.y[place] - fy) * h, away = dx * dx + dy * dy;
        if (away < least || (away === least && place < best)) { least = away; best = place; }
      }
    }
    return best;
  }

  function color(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

  function prepare() {
    const box = canvas.getBoundingClientRect(), ratio = Math.min(window.devicePixelRatio || 1, 2);
    width = box.width;
    height = box.height;
    for (const layer of [canvas, marks]) {
      if (layer.width !== Math.round(width * ratio) || layer.height !== Math.round(height * ratio)) {
        layer.width = Math.round(width * ratio);
        layer.height = Math.round(height * ratio);
      }
      layer.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    let sum = 0;
    for (let i = 0; i < count; i++) sum += rows.weight[i];
    unitRadius = Math.sqrt((0.1 * width * height) / (Math.PI * (sum || 1)));
    const shade = color("--shade");
    if (shade !== shadeOf || !density) {
      shadeOf = shade;
      sprites = new Map();
      density = document.createElement("canvas");
      density.width = mapData.w;
      density.height = mapData.h;
      const context = density.getContext("2d"), picture = context.createImageData(mapData.w, mapData.h);
      const parts = shade.split(",").map(Number);
      mapData.shades.forEach((value, i) => {
        picture.data[4 * i] = parts[0]; picture.data[4 * i + 1] = parts[1]; picture.data[4 * i + 2] = parts[2];
        picture.data[4 * i + 3] = 0.5 * value;
      });
      context.putImageData(picture, 0, 0);
    }
  }

  // Each size of dot is drawn once and then copied, so that drawing many dots is fast.
  function sprite(r) {
    const size = Math.max(1, Math.round(r * 2)) / 2;
    if (!sprites.has(size)) {
      const bitmap = document.createElement("canvas"), ratio = 2, side = Math.ceil(2 * size + 4);
      bitmap.width = bitmap.height = side * ratio;
      const context = bitmap.getContext("2d");
      context.scale(ratio, ratio);
      context.beginPath();
      context.arc(side / 2, side / 2, size, 0, 2 * Math.PI);
      context.fillStyle = color("--accent");
      context.globalAlpha = 0.62;
      context.fill();
      context.globalAlpha = 0.9;
      context.strokeStyle = color("--raised");
      context.lineWidth = size > 2 ? 0.9 : 0.3;
      context.stroke();
      sprites.set(size, { bitmap, side });
    }
    return sprites.get(size);
  }

  function draw() {
    waiting = false;
    if (!mapData) return;
    prepare();
    const context = canvas.getContext("2d");
    context.globalAlpha = 1;
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(density, across(0), along(0), view.scale * width, view.scale * height);
    const drawDot = (place) => {
      const x = across(mapData.x[place]), y = along(mapData.y[place]);
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) return;
      const dot = sprite(radius(place));
      context.drawImage(dot.bitmap, x - dot.side / 2, y - dot.side / 2, dot.side, dot.side);
    };
    context.globalAlpha = chosen === null ? 1 : 0.13;
    for (let place = 0; place < count; place++) drawDot(place);
    context.globalAlpha = 1;
    if (chosen !== null) for (const place of members.get(chosen) || []) drawDot(place);
    const many = mapData.middles.length > 150;
    context.fillStyle = color("--warm");
    context.strokeStyle = color("--raised");
    context.lineWidth = 1;
    mapData.middles.forEach((middle, at) => {
      if (!middle) return;
      const own = clusters.number[at] === chosen, half = (own ? 8 : many ? 2.4 : 5) * (width < 500 ? 0.7 : 1);
      context.globalAlpha = chosen === null ? (many ? 0.55 : 0.95) : own ? 1 : 0.25;
      diamond(context, across(middle[0]), along(middle[1]), half);
      context.fill();
      context.stroke();
    });
    context.globalAlpha = 1;
    mark();
  }
  function diamond(context, x, y, half) {
    context.beginPath();
    context.moveTo(x, y - half);
    context.lineTo(x + half, y);
    context.lineTo(x, y + half);
    context.lineTo(x - half, y);
    context.closePath();
  }
  function mark() {
    const context = marks.getContext("2d");
    context.clearRect(0, 0, width, height);
    if (hovered < 0) { hint.hidden = true; return; }
    const x = across(mapData.x[hovered]), y = along(mapData.y[hovered]);
    context.beginPath();
    context.arc(x, y, radius(hovered) + 3, 0, 2 * Math.PI);
    context.strokeStyle = color("--ink");
    context.lineWidth = 2;
    context.stroke();
    hint.hidden = false;
    const right = x > width / 2, low = y > height / 2;
    hint.style.left = right ? "auto" : x + 16 + "px";
    hint.style.right = right ? width - x + 16 + "px" : "auto";
    hint.style.top = low ? "auto" : y + 12 + "px";
    hint.style.bottom = low ? height - y + 12 + "px" : "auto";
  }
  function redraw() {
    if (!mapData || waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }
  function point(place) {
    if (place === hovered) return;
    hovered = place;
    if (place >= 0) {
      const row = rows.row[place], lines = [element("strong", "", nameOf(row))];
      lines[0].dir = "auto";
      const second = [about(place)];
      if (clusterAt.has(rows.cluster[place]) && !clusters.cover) second.push("cluster " + rows.cluster[place]);
      lines.push(element("div", "who", [...second, clusters && clusters.cover ? "" : data.origins[rows.origin[place]]].filter(Boolean).join(", ")));
      hint.replaceChildren(...lines, content(row, 160));
    }
    mark();
  }
  function zoom(factor, px, py) {
    const scale = Math.min(40, Math.max(1, view.scale * factor));
    const fx = px / (view.scale * width) + view.x, fy = py / (view.scale * height) + view.y;
    view.scale = scale;
    move(fx - px / (scale * width), fy - py / (scale * height));
  }
  function move(x, y) {
    const most = 1 - 1 / view.scale;
    view.x = Math.min(most, Math.max(0, x));
    view.y = Math.min(most, Math.max(0, y));
    canvas.classList.toggle("moved", view.scale > 1);
    redraw();
  }

  if (mapData) {
    let drag = null, traveled = 0;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (drag && view.scale > 1) {
        traveled += Math.abs(x - drag.px) + Math.abs(y - drag.py);
        move(drag.x - (x - drag.sx) / (view.scale * width), drag.y - (y - drag.sy) / (view.scale * height));
        drag.px = x; drag.py = y;
        return;
      }
      point(nearest(x, y));
    });
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = at(event);
      drag = { sx: x, sy: y, px: x, py: y, x: view.x, y: view.y };
      traveled = 0;
      if (view.scale > 1) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { point(-1); });
    canvas.addEventListener("click", (event) => {
      if (traveled > 6) return;
      const [x, y] = at(event), place = nearest(x, y);
      let cluster = place >= 0 ? rows.cluster[place] : null, least = 14 * 14;
      mapData.middles.forEach((middle, k) => {
        if (!middle) return;
        const away = (across(middle[0]) - x) ** 2 + (along(middle[1]) - y) ** 2;
        if (away < least && (place < 0 || away < 49)) { least = away; cluster = clusters.number[k]; }
      });
      point(place);
      choose(cluster);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), ...at(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) point(count ? (Math.max(hovered, step > 0 ? -1 : 0) + step + count) % count : -1);
      else if (event.key === "Enter" && hovered >= 0) choose(rows.cluster[hovered]);
      else if (event.key === "Escape") { point(-1); choose(null); }
      else if (event.key === "+" || event.key === "=") zoom(1.5, width / 2, height / 2);
      else if (event.key === "-") zoom(1 / 1.5, width / 2, height / 2);
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("blur", () => point(-1));
    by("closer").addEventListener("click", () => zoom(1.6, width / 2, height / 2));
    by("farther").addEventListener("click", () => zoom(1 / 1.6, width / 2, height / 2));
    by("whole").addEventListener("click", () => { view.scale = 1; move(0, 0); });
    new ResizeObserver(redraw).observe(canvas);
  }
  if (clusterTable) clusterTable.sort("size", true);
  if (classTable) classTable.sort("rows", true);
  choose(null);
  if (mapData) draw();
})();
