// One setting of the page: its values, the address that holds it, and the command line that predicts it.

export const MODELS = { refresh: "A, refresh", lag: "B, lag", pipeline: "C, pipeline" };
export const CONVENTIONS = { heavy_ball: "sgd", ema: "sgd_ema", nesterov: "nesterov" };
export const ESTIMATORS = ["frozen", "uncorrected", "ratio"];
export const ADVANTAGES = ["grpo", "dr_grpo", "rloo"];
/** Where training begins: beside the fixed point, or at the first policy. */
export const BEGINS = ["point", "policy"];
export const LIMITS = {
  interval: [1, 128], rate: [1e-6, 1e4], momentum: [0, 0.99], weight: [0, 10], size: [2, 512], arms: [2, 6], logit: [-10, 10],
};

export const DEFAULT = {
  model: "refresh", convention: "heavy_ball", estimator: "frozen", advantage: "grpo", interval: 8, rate: 0.1, momentum: 0.9,
  weight: 1, size: 64, success: [0.9, 0.1], reference: [0, 0], initial: [0, 0], steps: 300, begin: "point",
};

const inside = (value, [low, high]) => Math.min(Math.max(value, low), high);

/** The setting with every value in range; what cannot be read is that of `fallback`. */
export function checked(setting, fallback = DEFAULT) {
  const one = (name, known) => (known.includes(setting[name]) ? setting[name] : fallback[name]);
  const number = (name) => (Number.isFinite(setting[name]) ? inside(setting[name], LIMITS[name]) : fallback[name]);
  const list = (values) => Array.isArray(values) && values.every(Number.isFinite);
  const ok = list(setting.success) && setting.success.length >= 2 && setting.success.length <= LIMITS.arms[1];
  const success = (ok ? setting.success : fallback.success).map((p) => inside(p, [0, 1]));
  const logits = (values) => {
    const fits = list(values) && values.length === success.length;
    return fits ? values.map((x) => inside(x, LIMITS.logit)) : success.map(() => 0);
  };
  const size = setting.size === Infinity ? Infinity : Math.round(number("size"));
  return {
    model: one("model", Object.keys(MODELS)), convention: one("convention", Object.keys(CONVENTIONS)),
    estimator: one("estimator", ESTIMATORS), advantage: one("advantage", ADVANTAGES), begin: one("begin", BEGINS),
    interval: Math.round(number("interval")), rate: number("rate"), momentum: number("momentum"), weight: number("weight"),
    size, success, reference: logits(setting.reference), initial: logits(setting.initial),
    steps: [100, 300, 1000, 3000].includes(setting.steps) ? setting.steps : fallback.steps,
  };
}

const WORDS = ["model", "convention", "estimator", "advantage", "begin"], NUMBERS = ["interval", "rate", "momentum", "weight", "size", "steps"];
const LISTS = ["success", "reference", "initial"];

/** The part of the address behind `#`. */
export function toHash(setting) {
  const parts = new URLSearchParams();
  for (const name of [...WORDS, ...NUMBERS]) parts.set(name, String(setting[name]));
  for (const name of LISTS) if (name === "success" || setting[name].some((x) => x !== 0)) parts.set(name, setting[name].join(","));
  return parts.toString();
}

/** The setting in an address; what is missing or cannot be read is that of `fallback`. */
export function fromHash(hash, fallback) {
  const parts = new URLSearchParams(hash.replace(/^#/, "")), found = { ...fallback };
  for (const name of WORDS) if (parts.has(name)) found[name] = parts.get(name);
  for (const name of NUMBERS) if (parts.get(name)) found[name] = Number(parts.get(name));
  for (const name of LISTS) if (parts.get(name)) found[name] = parts.get(name).split(",").map(Number);
  return checked(found, fallback);
}

/** What of an address was not taken as it stands, in one line; empty where all of it was. found: fromHash of it. */
export function refusedIn(hash, found) {
  const parts = new URLSearchParams(hash.replace(/^#/, "")), refused = [];
  for (const name of WORDS) if (parts.has(name) && parts.get(name) !== found[name]) refused.push(`${name}=${parts.get(name)}`);
  for (const name of NUMBERS) if (parts.get(name) && Number(parts.get(name)) !== found[name]) refused.push(`${name}=${parts.get(name)}`);
  for (const name of LISTS) if (parts.get(name) && parts.get(name).split(",").map(Number).join() !== found[name].join()) refused.push(`${name}=${parts.get(name)}`);
  return refused.length ? `Of this link the page does not take ${refused.join(", ")}.` : "";
}

/** `python -m bandit_lab predict ...` for the setting, as a shell reads it. */
export function commandLine(setting) {
  const two = setting.success.length === 2, list = (values) => `[${values.map(plain).join(",")}]`;
  const parts = [`bandit=${two ? "two_arm" : "k_arm"}`, `'bandit.rewards=${list(setting.success)}'`];
  if (setting.reference.some((x) => x !== 0)) parts.push(`'bandit.reference_logits=${list(setting.reference)}'`);
  if (setting.initial.some((x) => x !== 0)) parts.push(`'bandit.initial_logits=${list(setting.initial)}'`);
  parts.push(`advantage=${setting.advantage}`, `estimator=${setting.estimator}`, `staleness=${setting.model}`);
  parts.push(`optimizer=${CONVENTIONS[setting.convention]}`, `momentum=${plain(setting.momentum)}`);
  parts.push(`refresh_interval=${setting.interval}`, `learning_rate=${plain(setting.rate)}`, `kl_weight=${plain(setting.weight)}`);
  parts.push(setting.size === Infinity ? "dynamics=mean_field" : `group_size=${setting.size}`);
  return `python -m bandit_lab predict ${parts.join(" ")}`;
}

/** A number without an exponent's plus sign, which Hydra does not read. */
const plain = (value) => String(value).replace("e+", "e");
