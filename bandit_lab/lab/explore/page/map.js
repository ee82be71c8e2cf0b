// Draws tables that `predict` has computed. The only formula here is the published law, K eta N = 1 - mu.
(() => {
  const { start, words, tables, measured } = GIVEN;
  const LETTERS = { refresh: "A: new every N", lag: "B: always N old", pipeline: "C: one block behind" };
  // Ages of the copy that samples, in updates, over one period.
  const AGES = { refresh: (n) => [0, n - 1], lag: (n) => [n, n], pipeline: (n) => [n, 2 * n - 1] };
  const RUN_INTERVALS = tables.run_intervals, RATIOS = tables.ratios;
  const LEFT = 52, RIGHT = 392, TOP = 10, BOTTOM = 280;
  const state = { ...start };
  const $ = (id) => document.getElementById(id);
  const nearest = (list, value) => list.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(list[best] - value) ? i : best), 0);
  const row = () => tables.models[state.model][nearest(tables.momenta, state.momentum)];
  const law = (interval) => (1 - state.momentum) / (tables.stiffness * interval);
  const number = (x) => Number(x.toPrecision(3)).toString();

  const rates = Object.values(tables.models).flat().flatMap((one) => [...one.threshold, ...one.onset]).filter((x) => x > 0);
  const low = Math.log(Math.min(...rates) / 2), high = Math.log(Math.max(...rates) * 2);
  const last = Math.log(tables.intervals[tables.intervals.length - 1]);
  const x = (interval) => LEFT + (Math.log(interval) / last) * (RIGHT - LEFT);
  const y = (rate) => BOTTOM - ((Math.log(rate) - low) / (high - low)) * (BOTTOM - TOP);
  const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

  function svg(name, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
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
    RUN_INTERVALS.forEach((interval, i) => RATIOS.forEach((ratio, j) => {
      const rate = ratio * edge[interval - 1];
      if (ratio > 1 || !thrown(one.untrained[i][j])) return;
      picture.append(svg("text", { x: x(interval), y: y(rate) + 4, "text-anchor": "middle", class: "region" }, "\u00d7"));
    }));
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

  // Whether a run ends away from the fixed point, beyond it: not where it swings, nor where it is still on its way.
  function thrown(curve) {
    const from = (value) => value - tables.reward;
    const least = 0.15 * Math.abs(from(row().untrained[0][0][0])), first = from(curve[0]);
    return curve.slice(-50).map(from).every((d) => Math.abs(d) > least && (d * first < 0 || Math.abs(d) > Math.abs(first)));
  }

  function nearestRun() {
    const one = row(), edge = one.threshold[state.interval - 1];
    const near = nearest(RUN_INTERVALS.map(Math.log), Math.log(state.interval));
    const which = nearest(RATIOS.map(Math.log), Math.log(state.rate / (edge ?? state.rate)));
    return { near, which, beside: one.runs[near][which], untrained: one.untrained[near][which] };
  }

  function drawLoop() {
    const picture = $("loop"), [youngest, oldest] = AGES[state.model](state.interval), mean = (youngest + oldest) / 2;
    const place = (age) => 350 - (Math.log1p(age) / Math.log1p(2 * tables.intervals.length)) * 300;
    const line = (d, more) => svg("path", { d, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, ...more });
    const words = youngest === oldest ? `age ${oldest}` : `age ${youngest} to ${oldest}`;
    picture.replaceChildren(
      line(`M${place(oldest) - 4},45H${place(youngest) + 4}`, { stroke: "var(--rings)", "stroke-width": 24, "stroke-linecap": "round" }),
      line(`M350,45H${place(mean) + 8}`, { stroke: "var(--edge)", "stroke-width": 3 }),
      line(`M${place(mean)},45V95H350V58`, {}),
      line("M345,66L350,57L355,66", {}),
      line(`M${place(mean) - 2},45l14,-8v16z`, { fill: "var(--edge)", stroke: "none" }),
      svg("circle", { cx: 350, cy: 45, r: 9, fill: "var(--ink)" }),
      svg("text", { x: 8, y: 16, style: "fill: var(--edge)" }, `copy that samples: ${words} updates`),
      svg("text", { x: 392, y: 16, "text-anchor": "end" }, "trained policy"),
      svg("text", { x: 200, y: 115, "text-anchor": "middle" }, "its answers and rewards make the update"),
    );
  }

  function drawRun() {
    const picture = $("run"), { near, which, beside, untrained } = nearestRun();
    const across = (step) => LEFT + (step / (beside.length - 1)) * (RIGHT - LEFT);
    picture.replaceChildren();
    ticks(picture, [0, 50, 100, 150, 200].map((n) => [n, across(n)]), []);
    drawCurve(picture, beside, across, 24, 130, "starts beside the fixed point");
    drawCurve(picture, untrained, across, 168, BOTTOM - 4, "starts at the untrained policy");
    const words = `updates; expected reward at N = ${RUN_INTERVALS[near]}, ${RATIOS[which]} of its threshold`;
    picture.append(svg("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 34, "text-anchor": "middle" }, words));
  }

  function drawCurve(picture, curve, across, top, foot, words) {
    const least = Math.min(...curve, tables.reward), most = Math.max(...curve, tables.reward), span = Math.max(most - least, 0.01);
    const up = (value) => foot - ((value - least) / span) * (foot - top);
    ticks(picture, [], [least, most].map((value) => [number(value), up(value)]));
    picture.append(
      svg("line", { x1: LEFT, x2: RIGHT, y1: up(tables.reward), y2: up(tables.reward), stroke: "var(--law)", "stroke-dasharray": "6 4" }),
      svg("path", { d: curve.map((value, i) => `${i ? "L" : "M"}${across(i).toFixed(1)},${up(value).toFixed(1)}`).join(""), fill: "none", stroke: "var(--onset)", "stroke-width": 1.6 }),
      svg("text", { x: RIGHT, y: top - 9, "text-anchor": "end", class: "region" }, thrown(curve) ? `${words}, is thrown out` : words),
    );
  }

  function verdict() {
    const one = row(), edge = one.threshold[state.interval - 1], onset = one.onset[state.interval - 1];
    const place = `N = ${state.interval}, learning rate ${number(state.rate)}`;
    const lawSays = law(state.interval) > state.rate ? "stable" : "unstable";
    if (!(edge > 0)) return `${place}: stable at every learning rate searched; the published law says ${lawSays}.`;
    const factor = state.rate < edge ? edge / state.rate : state.rate / edge;
    const first = state.rate < edge ? `stable, ${number(factor)} times below the exact threshold` : `unstable, ${number(factor)} times above the exact threshold`;
    const rings = state.rate < edge && onset > 0 && state.rate > onset ? "; a displacement rings as it dies out" : "";
    const agrees = (lawSays === "stable") === (state.rate < edge) ? `also says ${lawSays}` : `would call it ${lawSays}`;
    return `${place}: ${first}${rings}; the published law ${agrees}.${out()}`;
  }

  function out() {
    const { beside, untrained } = nearestRun(), edge = row().threshold[state.interval - 1];
    if (!(state.rate < edge)) return "";
    if (thrown(beside)) return " But even a run that starts beside the fixed point is thrown out.";
    return thrown(untrained) ? " But an untrained policy is thrown out from here." : "";
  }

  // What the paragraphs show: model, N, the learning rate over the exact threshold, momentum.
  const SHOWN = [
    ["refresh", 32, 0.3, start.momentum], ["refresh", 1, 0.05, 0], ["refresh", 16, 0.3, start.momentum],
    ["refresh", 16, 0.95, start.momentum], ["pipeline", 16, 1.4, start.momentum],
  ];

  function show([model, interval, ratio, momentum]) {
    Object.assign(state, { model, interval, momentum });
    const edge = row().threshold[interval - 1];
    state.rate = edge > 0 ? ratio * edge : state.rate;
    draw();
  }

  function draw() {
    drawMap();
    drawRun();
    drawLoop();
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
  [...document.querySelectorAll("#steps button")].forEach((button, i) => button.addEventListener("click", () => show(SHOWN[i])));
  $("words").textContent = words;
  draw();
})();
