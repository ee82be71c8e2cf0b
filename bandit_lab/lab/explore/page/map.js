// Draws tables that `predict` has computed. The only formula here is the published law, K eta N = 1 - mu.
(() => {
  const { start, words, tables, measured } = GIVEN;
  const LETTERS = { refresh: "A: fresh batch every N updates", lag: "B: N updates late", pipeline: "C: both" };
  const RUN_INTERVALS = tables.run_intervals, RATIOS = tables.ratios;
  const LEFT = 52, RIGHT = 392, TOP = 10, BOTTOM = 280;
  const state = { ...start };
  const $ = (id) => document.getElementById(id);
  const nearest = (list, value) => list.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(list[best] - value) ? i : best), 0);
  const row = () => tables.models[state.model][nearest(tables.momenta, state.momentum)];
  const law = (interval) => (1 - state.momentum) / (tables.stiffness * interval);
  const number = (x) => Number(x.toPrecision(3)).toString();

  const known = Object.values(tables.models).flat().flatMap((one) => [...one.threshold, ...one.onset]).filter((x) => x > 0);
  const low = Math.log(Math.min(...known) / 2), high = Math.log(Math.max(...known) * 2);
  const last = Math.log(tables.intervals[tables.intervals.length - 1]);
  const x = (interval) => LEFT + (Math.log(interval) / last) * (RIGHT - LEFT);
  const y = (rate) => BOTTOM - ((Math.log(rate) - low) / (high - low)) * (BOTTOM - TOP);
  const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

  function svg(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function path(values) {
    let pen = false;
    return tables.intervals.map((interval, i) => {
      const value = values[i];
      if (!(value > 0)) { pen = false; return ""; }
      const step = `${pen ? "L" : "M"}${x(interval).toFixed(1)},${clamp(y(value), TOP, BOTTOM).toFixed(1)}`;
      pen = true;
      return step;
    }).join("");
  }

  function ticks(picture, across, upright) {
    for (const [value, place] of across) {
      picture.append(svg("text", { x: place, y: BOTTOM + 16, "text-anchor": place > RIGHT - 4 ? "end" : "middle" }, value));
    }
    for (const [value, place] of upright) {
      picture.append(svg("text", { x: LEFT - 6, y: place + 4, "text-anchor": "end" }, value));
      picture.append(svg("line", { x1: LEFT, x2: RIGHT, y1: place, y2: place, stroke: "var(--line)", "stroke-width": 0.5 }));
    }
  }

  function drawMap() {
    const picture = $("map"), one = row();
    const edge = one.threshold.map((value) => value ?? Math.exp(high)), onset = one.onset.map((value, i) => value ?? edge[i]);
    const end = `L${RIGHT},${TOP}L${LEFT},${TOP}Z`, foot = `L${RIGHT},${BOTTOM}L${LEFT},${BOTTOM}Z`;
    picture.replaceChildren(
      svg("rect", { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP, fill: "var(--rings)" }),
      svg("path", { d: path(edge) + end, fill: "var(--wild)" }),
      svg("path", { d: path(onset.map((value, i) => Math.min(value, edge[i]))) + foot, fill: "var(--calm)" }),
    );
    const decades = [];
    for (let power = Math.ceil(low / Math.LN10); power <= high / Math.LN10; power++) decades.push([`1e${power}`, y(10 ** power)]);
    ticks(picture, [1, 2, 4, 8, 16, 32, 64].map((n) => [n, x(n)]), decades);
    picture.append(
      svg("path", { d: path(tables.intervals.map(law)), fill: "none", stroke: "var(--law)", "stroke-dasharray": "6 4", "stroke-width": 1.5 }),
      svg("path", { d: path(onset), fill: "none", stroke: "var(--onset)", "stroke-dasharray": "2 3", "stroke-width": 1.5 }),
      svg("path", { d: path(one.threshold), fill: "none", stroke: "var(--edge)", "stroke-width": 2 }),
      svg("text", { x: RIGHT - 8, y: TOP + 20, "text-anchor": "end", class: "region" }, "unstable"),
      svg("text", { x: LEFT + 8, y: BOTTOM - 10, class: "region" }, "converges"),
      svg("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 34, "text-anchor": "middle" }, "refresh interval N"),
      svg("text", { x: 12, y: (TOP + BOTTOM) / 2, transform: `rotate(-90 12 ${(TOP + BOTTOM) / 2})`, "text-anchor": "middle" }, "learning rate"),
    );
    for (const point of measured) {
      if (Math.abs(point.momentum - state.momentum) > 1e-9 || point.refresh_interval < 1) continue;
      picture.append(svg("circle", { cx: x(point.refresh_interval), cy: y(point.measured_learning_rate), r: 4, fill: "none", stroke: "var(--ink)" }));
    }
    const handle = svg("circle", { id: "handle", cx: x(state.interval), cy: clamp(y(state.rate), TOP, BOTTOM), r: 9, fill: "var(--ink)", tabindex: 0 });
    handle.addEventListener("keydown", moveByKey);
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const follow = (moved) => {
        const box = picture.getBoundingClientRect();
        place(((moved.clientX - box.left) / box.width) * 400, ((moved.clientY - box.top) / box.height) * 320);
      };
      const stop = () => { removeEventListener("pointermove", follow); removeEventListener("pointerup", stop); };
      addEventListener("pointermove", follow);
      addEventListener("pointerup", stop);
    });
    picture.append(handle);
  }

  function place(across, upright) {
    const interval = Math.exp(((clamp(across, LEFT, RIGHT) - LEFT) / (RIGHT - LEFT)) * last);
    state.interval = clamp(Math.round(interval), 1, tables.intervals.length);
    state.rate = Math.exp(low + ((BOTTOM - clamp(upright, TOP, BOTTOM)) / (BOTTOM - TOP)) * (high - low));
    draw();
  }

  function moveByKey(event) {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key], up = { ArrowUp: 1.05, ArrowDown: 1 / 1.05 }[event.key];
    if (!across && !up) return;
    event.preventDefault();
    state.interval = clamp(state.interval + (across ?? 0), 1, tables.intervals.length);
    state.rate = clamp(state.rate * (up ?? 1), Math.exp(low), Math.exp(high));
    draw();
    $("handle").focus();
  }

  function drawRun() {
    const picture = $("run"), one = row(), edge = one.threshold[state.interval - 1];
    const near = nearest(RUN_INTERVALS.map(Math.log), Math.log(state.interval));
    const which = nearest(RATIOS.map(Math.log), Math.log(state.rate / (edge ?? state.rate)));
    const curve = one.runs[near][which];
    const least = Math.min(...curve, tables.reward), most = Math.max(...curve, tables.reward), span = Math.max(most - least, 0.01);
    const px = (step) => LEFT + (step / (curve.length - 1)) * (RIGHT - LEFT);
    const py = (value) => BOTTOM - ((value - least + 0.05 * span) / (1.1 * span)) * (BOTTOM - TOP);
    picture.replaceChildren();
    ticks(picture, [0, 50, 100, 150, 200].map((n) => [n, px(n)]), [least, (least + most) / 2, most].map((v) => [number(v), py(v)]));
    picture.append(
      svg("line", { x1: LEFT, x2: RIGHT, y1: py(tables.reward), y2: py(tables.reward), stroke: "var(--law)", "stroke-dasharray": "6 4" }),
      svg("path", { d: curve.map((value, i) => `${i ? "L" : "M"}${px(i).toFixed(1)},${py(value).toFixed(1)}`).join(""), fill: "none", stroke: "var(--onset)", "stroke-width": 1.6 }),
      svg("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 34, "text-anchor": "middle" }, `updates; expected reward at N = ${RUN_INTERVALS[near]}, ${RATIOS[which]} of its threshold`),
    );
  }

  function verdict() {
    const one = row(), edge = one.threshold[state.interval - 1], onset = one.onset[state.interval - 1];
    const place = `N = ${state.interval}, learning rate ${number(state.rate)}`;
    const said = law(state.interval) > state.rate ? "stable" : "unstable";
    if (!(edge > 0)) return `${place}: no learning rate is too large that was looked at; the published law says ${said}.`;
    const factor = state.rate < edge ? edge / state.rate : state.rate / edge;
    const first = state.rate < edge ? `stable, ${number(factor)} times below the exact threshold` : `unstable, ${number(factor)} times above the exact threshold`;
    const rings = state.rate < edge && onset > 0 && state.rate > onset ? "; a displacement rings as it dies out" : "";
    const agrees = (said === "stable") === (state.rate < edge) ? "agrees" : `would call it ${said}`;
    return `${place}: ${first}${rings}; the published law ${agrees}.`;
  }

  function draw() {
    drawMap();
    drawRun();
    $("verdict").textContent = verdict();
    for (const button of $("models").children) button.setAttribute("aria-pressed", String(button.value === state.model));
    $("momentum").value = String(nearest(tables.momenta, state.momentum));
  }

  for (const [model, text] of Object.entries(LETTERS)) {
    const button = document.createElement("button");
    button.value = model;
    button.textContent = text;
    button.addEventListener("click", () => { state.model = model; draw(); });
    $("models").append(button, " ");
  }
  tables.momenta.forEach((momentum, i) => {
    const option = document.createElement("option");
    option.value = String(i);
    option.textContent = String(momentum);
    $("momentum").append(option);
  });
  $("momentum").addEventListener("change", (event) => { state.momentum = tables.momenta[Number(event.target.value)]; draw(); });
  $("words").textContent = words;
  draw();
})();
