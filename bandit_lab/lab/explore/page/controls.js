// The form: what is set in it becomes a setting, and a setting that came from elsewhere is shown in it.

import { LIMITS } from "./setting.js";

const SIZES = [2, 4, 8, 16, 32, 64, 128, 256, 512], SLIDE = 1000;
const MODEL_WORDS = {
  refresh: "A: sample, then N updates on it. The acting policy is 0 to N − 1 steps old.",
  lag: "B: an asynchronous sampler. The acting policy is exactly N steps old.",
  pipeline: "C: train on what the block before sampled. The acting policy is N to 2N − 1 steps old.",
};
const NAMES = { interval: "N", rate: "η", momentum: "μ", weight: "β" };
/** Say what is not taken; an empty text when something is. */
export const say = (text) => (byId("refused").textContent = text);
const byId = (id) => document.getElementById(id);
const number = (value) => String(Number(value.toPrecision(6)));

/** `changed(part, done)` is called with what is new in the setting; `rates()` is the map's range of learning rates. */
export function controls(changed, rates) {
  let setting = null;
  const refuse = (name, field, low, high, whole = false) => say(`${name} takes ${whole ? "whole numbers" : "numbers"} from ${low} to ${high}, `
    + `not ${field.value || "that"}: it stays ${number(valueOf(field))}.`);
  const valueOf = (field) => (field.dataset.list ? setting[field.dataset.list][field.closest("tr").rowIndex - 1] : setting[field.id]);
  const size = byId("size");
  for (const one of SIZES) size.add(new Option(String(one), String(one)));
  size.add(new Option("infinite: no noise", "Infinity"));

  for (const name of ["interval", "rate", "momentum", "weight"]) {
    const field = byId(name);
    field.addEventListener("input", () => {
      const value = field.valueAsNumber, [low, high] = LIMITS[name];
      const whole = name === "interval", good = Number.isFinite(value) && value >= low && value <= high && (!whole || Number.isInteger(value));
      field.setAttribute("aria-invalid", String(!good));
      if (good) changed({ [name]: value }, true);
      else refuse(NAMES[name], field, low, high, whole);
    });
    field.addEventListener("blur", () => show(setting));
  }
  const slide = (name, read) => {
    const field = byId(`${name}-slide`);
    field.addEventListener("input", () => changed({ [name]: read(field.valueAsNumber) }, false));
    field.addEventListener("change", () => changed({ [name]: read(field.valueAsNumber) }, true));
  };
  slide("interval", (v) => v);
  slide("momentum", (v) => v);
  slide("weight", (v) => v);
  slide("rate", (v) => {
    const [low, high] = rates();
    return Number((low * (high / low) ** (v / SLIDE)).toPrecision(3));
  });
  for (const name of ["convention", "estimator", "advantage", "begin"]) byId(name).addEventListener("change", (e) => changed({ [name]: e.target.value }, true));
  for (const name of ["size", "steps"]) byId(name).addEventListener("change", (e) => changed({ [name]: Number(e.target.value) }, true));
  document.querySelectorAll("input[name=model]").forEach((one) => one.addEventListener("change", () => changed({ model: one.value }, true)));

  const arms = (part) => changed(part, true);
  byId("add-arm").addEventListener("click", () => arms({
    success: [...setting.success, 0.5], reference: [...setting.reference, 0], initial: [...setting.initial, 0],
  }));
  byId("remove-arm").addEventListener("click", () => arms({
    success: setting.success.slice(0, -1), reference: setting.reference.slice(0, -1), initial: setting.initial.slice(0, -1),
  }));

  function armRow(place) {
    const row = document.createElement("tr");
    const field = (type, label, low, high, step, list) => {
      const cell = row.insertCell(), one = document.createElement("input");
      Object.assign(one, { type, min: low, max: high, step });
      one.dataset.list = list;
      one.setAttribute("aria-label", `arm ${place + 1}, ${label}`);
      const read = (done) => {
        if (!Number.isFinite(one.valueAsNumber) || one.valueAsNumber < low || one.valueAsNumber > high) {
          one.setAttribute("aria-invalid", "true");
          refuse(`arm ${place + 1}, ${label}`, one, low, high);
          return;
        }
        one.removeAttribute("aria-invalid");
        changed({ [list]: setting[list].map((x, i) => (i === place ? one.valueAsNumber : x)) }, done);
      };
      one.addEventListener("input", () => read(type !== "range"));
      if (type === "range") one.addEventListener("change", () => read(true));
      else one.addEventListener("blur", () => show(setting));
      cell.append(one);
    };
    row.insertCell().textContent = String(place + 1);
    field("range", "success probability, slider", 0, 1, 0.01, "success");
    field("number", "success probability", 0, 1, "any", "success");
    field("number", "logit of the reference policy", ...LIMITS.logit, "any", "reference");
    field("number", "logit of the first policy", ...LIMITS.logit, "any", "initial");
    return row;
  }

  const put = (field, text) => {
    if (field !== document.activeElement || field.type === "range" || field.tagName === "SELECT") field.value = text;
    if (field !== document.activeElement) {
      field.removeAttribute("aria-invalid");
    }
  };

  /** Show a setting. A number field that is being typed into is left alone. */
  function show(now) {
    setting = now;
    const [low, high] = rates();
    byId("interval-slide").max = now.interval > 64 ? 128 : 64;
    for (const name of ["interval", "momentum", "weight"]) {
      put(byId(name), number(now[name]));
      put(byId(`${name}-slide`), String(now[name]));
    }
    put(byId("rate"), number(now.rate));
    put(byId("rate-slide"), String(Math.round((SLIDE * Math.log(now.rate / low)) / Math.log(high / low))));
    byId("rate-slide").setAttribute("aria-valuetext", number(now.rate));
    for (const name of ["convention", "estimator", "advantage", "steps", "begin"]) put(byId(name), String(now[name]));
    if (![...size.options].some((o) => o.value === String(now.size))) size.add(new Option(String(now.size), String(now.size)), 0);
    put(size, String(now.size));
    document.querySelectorAll("input[name=model]").forEach((one) => (one.checked = one.value === now.model));
    byId("model-words").textContent = MODEL_WORDS[now.model];
    const rows = byId("arms");
    while (rows.rows.length > now.success.length) rows.deleteRow(-1);
    while (rows.rows.length < now.success.length) rows.append(armRow(rows.rows.length));
    rows.querySelectorAll("tr").forEach((row, i) => {
      row.querySelectorAll("input").forEach((field) => put(field, number(now[field.dataset.list][i])));
    });
    byId("add-arm").disabled = now.success.length >= LIMITS.arms[1];
    byId("remove-arm").disabled = now.success.length <= LIMITS.arms[0];
  }
  return show;
}
