// The map: learning rate against refresh interval, its regions and lines, what was measured, and the point that is dragged.

/* global d3 */

const RIGHT = 10, TOP = 8, BOTTOM = 44, FEWEST = 24;
/** [width, height] of a picture in pixels: letters are as large as on the page, whatever its width. */
export function sizeOf(element) {
  const width = Math.max(element.clientWidth, 280);
  return [width, Math.round(Math.min(Math.max(0.78 * width, 290), 340))];
}

const NAMES = { unstable: "unstable", oscillates: "oscillates, decays", converges: "converges" };

/** Refresh intervals at which the map is computed: every one up to FEWEST, then even in the logarithm. */
export function columnsUpTo(most) {
  const found = Array.from({ length: Math.min(FEWEST, most) }, (_, i) => i + 1);
  for (let n = FEWEST; n < most; ) found.push((n = Math.min(most, Math.ceil(n * 1.09))));
  return found;
}

/** Order in which columns are computed, so that a coarse map is there at once: ends first, then halves. */
export function coarseFirst(count) {
  const order = [0, count - 1], seen = new Set(order);
  for (let step = 2 ** Math.ceil(Math.log2(count)); step >= 1; step /= 2) {
    for (let i = step; i < count; i += step) if (!seen.has(i)) seen.add(i) && order.push(i);
  }
  return order;
}

/** The picture. `moved(interval, rate, done)` is called while the point is dragged and once it rests. */
export function plane(element, moved) {
  const [WIDTH, HEIGHT] = sizeOf(element), LEFT = 62;
  const svg = d3.select(element).attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.selectAll("*").remove();
  const x = d3.scaleLog().range([LEFT, WIDTH - RIGHT]), y = d3.scaleLog().range([HEIGHT - BOTTOM, TOP]);
  svg.append("defs").html(`<clipPath id="inside"><rect x="${LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" height="${HEIGHT - TOP - BOTTOM}"/></clipPath>
    <pattern id="stripes" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" x2="0" y1="0" y2="9"/></pattern>`);
  const clipped = svg.append("g").attr("clip-path", "url(#inside)");
  const regions = clipped.append("g"), cells = clipped.append("g"), lines = clipped.append("g"), marks = clipped.append("g");
  const names = svg.append("g").attr("aria-hidden", "true");
  svg.append("rect").attr("class", "frame").attr("x", LEFT).attr("y", TOP).attr("width", WIDTH - LEFT - RIGHT).attr("height", HEIGHT - TOP - BOTTOM);
  const below = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${HEIGHT - BOTTOM})`);
  const beside = svg.append("g").attr("class", "axis").attr("transform", `translate(${LEFT},0)`);
  svg.append("text").attr("x", (LEFT + WIDTH - RIGHT) / 2).attr("y", HEIGHT - 8).attr("text-anchor", "middle").text("refresh interval N, steps");
  svg.append("text").attr("transform", `translate(15,${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`).attr("text-anchor", "middle").text("learning rate η");
  const guides = svg.append("g").attr("aria-hidden", "true");
  const across = guides.append("line").attr("class", "guide"), down = guides.append("line").attr("class", "guide");
  const point = svg.append("g").attr("id", "point").attr("tabindex", 0).attr("role", "slider").attr("aria-label", "setting on the map: refresh interval and learning rate");
  point.append("circle").attr("class", "ring").attr("r", 22);
  point.append("circle").attr("r", 9);
  let most = 64;

  const place = (event) => {
    const [px, py] = d3.pointer(event, svg.node());
    const interval = Math.round(Math.min(Math.max(x.invert(px), 1), most));
    const [low, high] = y.domain();
    return [interval, Number(Math.min(Math.max(y.invert(py), low), high).toPrecision(3))];
  };
  let dragged = false;
  svg.on("pointerdown", (event) => {
    if (event.button > 0) return;
    dragged = true;
    svg.node().setPointerCapture(event.pointerId);
    point.node().focus({ preventScroll: true, focusVisible: false });
    moved(...place(event), false);
    event.preventDefault();
  });
  svg.on("pointermove", (event) => dragged && moved(...place(event), false));
  svg.on("pointerup pointercancel", (event) => {
    if (dragged) moved(...place(event), true);
    dragged = false;
  });
  point.on("keydown", (event) => {
    const { interval, rate } = point.datum(), factor = event.shiftKey ? 1.01 : 1.05;
    const to = {
      ArrowRight: [interval + 1, rate], ArrowLeft: [interval - 1, rate],
      ArrowUp: [interval, rate * factor], ArrowDown: [interval, rate / factor],
      PageUp: [interval, rate * 2], PageDown: [interval, rate / 2], Home: [1, rate], End: [most, rate],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    moved(Math.min(Math.max(to[0], 1), most), Number(to[1].toPrecision(4)), true);
  });

  return {
    /** Axes: refresh intervals up to `upTo`, learning rates in `domain`. */
    frame(upTo, domain) {
      most = upTo;
      x.domain([0.93, upTo * 1.06]);
      y.domain(domain);
      const ticks = [1, 2, 4, 8, 16, 32, 64, 128].filter((n) => n <= upTo);
      below.call(d3.axisBottom(x).tickValues(ticks).tickFormat(d3.format("d")));
      beside.call(d3.axisLeft(y).ticks(6, "~g"));
    },
    /** Regions and lines, and the regions' names where the map is whole. columns: [{interval, law, exact, onset, runs?}], runs: [[region, low, high], ...] where windows are. */
    map(columns, whole = true) {
      const [low, high] = y.domain(), shapes = areas(columns, x, y), windows = columns.some((c) => c.runs);
      const striped = shapes.filter(([name]) => name === "unstable").map(([, d]) => ["stripes", d]);
      regions.selectAll("path").data([...shapes, ...striped]).join("path").attr("class", ([name]) => (name === "stripes" ? "" : `region ${name}`))
        .attr("fill", ([name]) => (name === "stripes" ? "url(#stripes)" : null)).attr("shape-rendering", windows ? "crispEdges" : null).attr("d", (d) => d[1]);
      const line = (key) => d3.line().defined((c) => c[key] > 0).x((c) => x(c.interval)).y((c) => y(c[key]))(columns);
      lines.selectAll("path").data(["onset", "law", "exact"]).join("path").attr("class", (d) => d).attr("d", line);
      if (whole) names.selectAll("text").data(labels(columns, x, y, [point.datum() ?? { interval: 1, rate: low }])).join("text").attr("class", "region-name").attr("text-anchor", "middle")
        .attr("x", (d) => d.x).attr("y", (d) => d.y + 4).text((d) => NAMES[d.name]);
    },
    /** The point of the plane. */
    at(interval, rate, words) {
      const [low, high] = y.domain(), px = x(interval), py = y(Math.min(Math.max(rate, low), high));
      point.datum({ interval, rate }).attr("transform", `translate(${px},${py})`).attr("aria-valuemin", 1).attr("aria-valuemax", most)
        .attr("aria-valuenow", interval).attr("aria-valuetext", words);
      across.attr("x1", LEFT).attr("x2", WIDTH - RIGHT).attr("y1", py).attr("y2", py);
      down.attr("y1", TOP).attr("y2", HEIGHT - BOTTOM).attr("x1", px).attr("x2", px);
    },
    /** A real run: {interval, rate, low, high}, learning rates at which this bandit has the run's kappa; null for none. */
    run(found) {
      const shown = found === null ? [] : [found], [low, high] = y.domain(), at = (rate) => y(Math.min(Math.max(rate, low), high));
      const known = shown.filter((d) => d.rate !== null);
      marks.selectAll(".run-line").data(shown.filter((d) => d.rate === null)).join("line").attr("class", "run-line")
        .attr("x1", (d) => x(d.interval)).attr("x2", (d) => x(d.interval)).attr("y1", TOP).attr("y2", HEIGHT - BOTTOM);
      marks.selectAll(".run-bar").data(known).join("path").attr("class", "run-bar").attr("d", (d) => {
        const px = x(d.interval), [a, b] = [at(d.low), at(d.high)];
        return `M${px} ${a}V${b}M${px - 6} ${b}h12${d.low > low ? `M${px - 6} ${a}h12` : ""}`;
      });
      marks.selectAll(".run-mark").data(known).join("path").attr("class", "run-mark").attr("d", "M0 -8l8 8-8 8-8-8z")
        .attr("transform", (d) => `translate(${x(d.interval)},${at(d.rate)})`);
    },
    /** Measured cells of a sweep: [{interval, rate, outcome}]. */
    cells(found) {
      const shapes = { unstable: "M-4 -4l8 8m0-8l-8 8", oscillating: "M4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0", converged: "M2.5 0a2.5 2.5 0 1 1-5 0a2.5 2.5 0 1 1 5 0" };
      cells.selectAll("path").data(found.filter((c) => c.interval > 0)).join("path").attr("class", (c) => `cell ${c.outcome}`)
        .attr("d", (c) => shapes[c.outcome] ?? "M-2 0h4M0 -2v4").attr("transform", (c) => `translate(${x(c.interval)},${y(c.rate)})`);
    },
    domain: () => y.domain(),
  };
}

/**
 * [[region, path], ...] of a map. columns: [{interval, exact, onset, runs?}], runs: [[region, low, high], ...] where windows are;
 * x, y: scales whose domains are those of the map.
 */
export function areas(columns, x, y) {
  if (!columns.length) return [];
  const [low, high] = y.domain(), at = (rate) => Math.min(Math.max(rate ?? high, low), high);
  const range = d3.area().x((d) => x(d[0])).y0((d) => y(d[1])).y1((d) => y(d[2]));
  if (columns.some((c) => c.runs)) {
    const whole = {};  // one path per region, on whole pixels: else the page shows between neighbouring columns
    columns.forEach((c, i) => {
      const left = i ? Math.sqrt(columns[i - 1].interval * c.interval) : 0.93;
      const right = i + 1 < columns.length ? Math.sqrt(columns[i + 1].interval * c.interval) : c.interval * 1.06;
      for (const [name, from, to] of c.runs ?? []) whole[name] = (whole[name] ?? "") + range([[left, at(from), at(to)], [right, at(from), at(to)]]);
    });
    return Object.entries(whole);
  }
  const wide = [{ ...columns[0], interval: 0.93 }, ...columns, { ...columns.at(-1), interval: columns.at(-1).interval * 1.06 }];
  const top = (c) => at(c.exact), middle = (c) => Math.min(at(c.onset), top(c));
  return [["converges", range(wide.map((c) => [c.interval, low, middle(c)]))],
    ["oscillates", range(wide.map((c) => [c.interval, middle(c), top(c)]))],
    ["unstable", range(wide.map((c) => [c.interval, top(c), high]))]];
}

const LETTERS = 3.7, TALL = 9, CLEAR = 26;

/** Where the regions' names stand: where their box is farthest from lines, from other regions and from the points; or nowhere. */
function labels(columns, x, y, points) {
  const [low, high] = y.domain(), [right, left] = [x.range()[1], x.range()[0]], inside = (rate) => y(Math.min(Math.max(rate ?? high, low), high));
  const lines = ["law", "exact", "onset"].map((key) => columns.filter((c) => c[key] > 0).map((c) => [x(c.interval), y(c[key])]));
  const found = [];
  for (const name of Object.keys(NAMES)) {
    const half = LETTERS * NAMES[name].length + 4;
    let best = { room: TALL };
    for (const c of columns) {
      const px = x(c.interval);
      if (px - half < left || px + half > right) continue;
      const under = columns.filter((d) => Math.abs(x(d.interval) - px) <= half + 12);
      for (const [from, to] of spans(c, name, low, high)) {
        for (const share of [0.5, 0.35, 0.65, 0.2, 0.8]) {
          const py = inside(from) + share * (inside(to) - inside(from));
          let room = CLEAR;
          for (const d of under) {
            if (!spans(d, name, low, high).some(([a, b]) => inside(b) + TALL <= py && py <= inside(a) - TALL)) room = 0;
          }
          for (const line of lines) room = Math.min(room, apart(line, px - half, px + half, py));
          for (const p of points) if (Math.abs(x(p.interval) - px) < half + 14) room = Math.min(room, Math.abs(inside(p.rate) - py) - 6);
          for (const d of found) if (Math.abs(d.x - px) < 2 * half) room = Math.min(room, Math.abs(d.y - py) - TALL);
          if (room > best.room) best = { room, x: px, y: py, name };
        }
      }
    }
    if (best.name) found.push(best);
  }
  return found;
}

/** Least vertical distance of a line [[x, y], ...] from `height` between two places; 0 where it crosses. */
function apart(line, left, right, height) {
  let least = Infinity;
  for (let i = 1; i < line.length; i++) {
    const [[xa, ya], [xb, yb]] = [line[i - 1], line[i]];
    if (xb < left || xa > right) continue;
    const at = (x) => ya + ((yb - ya) * (Math.min(Math.max(x, xa), xb) - xa)) / (xb - xa) - height;
    if (at(left) * at(right) <= 0) return 0;
    least = Math.min(least, Math.abs(at(left)), Math.abs(at(right)));
  }
  return least;
}

/** [[low, high], ...] of a region in a column. */
function spans(c, name, low, high) {
  const top = c.exact ?? high, ring = Math.min(c.onset ?? high, top);
  const runs = c.runs ?? [["unstable", top, high], ["oscillates", ring, top], ["converges", low, ring]];
  return runs.filter((run) => run[0] === name).map(([, from, to]) => [from, to]);
}
