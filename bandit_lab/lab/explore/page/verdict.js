// The verdict in words: the same sentences as lab/predict/verdict.py, from the same facts.

const AT = 0.005, SHOWN_RANGES = 3;

/** A positive number in two digits, without an exponent below a million. */
export function amount(value) {
  const rounded = Number(value.toPrecision(2));
  return rounded >= 100 && rounded < 1e6 ? rounded.toLocaleString("en-US", { maximumFractionDigits: 0 }) : general(rounded, 6);
}

/** A number as Python's `%g` with so many digits writes it. */
export function general(value, digits = 6) {
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent >= -4 && exponent < digits) return String(Number(value.toPrecision(digits)));
  const [mantissa, power] = Number(value.toPrecision(digits)).toExponential().split("e");
  const size = String(Math.abs(Number(power))).padStart(2, "0");
  return `${mantissa}e${Number(power) < 0 ? "-" : "+"}${size}`;
}

/** `2.3 times below`, `4 % above`, `at`. */
export function beside(value, threshold) {
  const ratio = Math.max(value, threshold) / Math.min(value, threshold), side = value < threshold ? "below" : "above";
  if (ratio <= 1 + AT) return "at";
  if (ratio >= 1.095) return `${amount(ratio)} times ${side}`;
  return `${general(100 * Math.abs(value / threshold - 1), 1)} % ${side}`;
}

/**
 * One line: stable or not and by how much, how it swings, what the published law would say. facts: rate, interval, law,
 * exact (null: none found), radius, regime, bifurcation, period, islands, searched; or noFixedPoint, weight, critical.
 */
export function verdict(facts) {
  if (facts.noFixedPoint) return withoutFixedPoint(facts);
  const stable = facts.regime !== "unstable";
  const clauses = [margin(facts, stable), swing(facts, stable), ...ranges(facts), law(facts, stable)];
  return `${stable ? "stable" : "unstable"}: ${clauses.filter(Boolean).join("; ")}`;
}

function withoutFixedPoint({ weight, critical }) {
  const text = `the policy runs to a vertex: no interior fixed point at KL weight ${general(weight)}`;
  if (critical !== null) return `${text}; one exists from KL weight ${general(critical, 4)}`;
  return weight === 0 ? `${text}; any KL weight > 0 may have one` : text;
}

function margin({ rate, exact, exactReason }, stable) {
  if (exact === null) return exactReason ? `no exact threshold is known (${exactReason})` : "no threshold is known";
  if (exact === 0) return "the fixed point repels at every learning rate";
  const where = `eta is ${beside(rate, exact)} the exact threshold`;
  if (stable && rate > exact * (1 + AT)) return `${where}, in a stable window beyond it`;
  if (!stable && rate < exact * (1 - AT)) return `${where} that a scan found, in a narrow window that it passed over`;
  return where;
}

const THROUGH = {
  flip: "a multiplier passes -1 there (flip)",
  neimark_sacker: "a complex pair leaves the unit circle there (Neimark-Sacker)",
};

function swing({ period, regime, bifurcation }, stable) {
  const cycle = period === null ? "" : `a period of ${amount(period)} steps`;
  if (stable) {
    if (cycle) return `rings with ${cycle}`;
    return regime === "overdamped" ? "decays without ringing" : "rings in its stiffest direction alone";
  }
  const grows = cycle ? `swings with ${cycle} grow` : "displacements grow without swinging";
  return [THROUGH[bifurcation] ?? "", grows].filter(Boolean).join("; ");
}

const range = ([first, last]) => (first === last ? `${first}` : `${first} to ${last}`);

function ranges({ islands = [], searched = null, interval }) {
  const ends = islands.filter(([, last]) => searched === null || last < searched);
  if (ends.length === 0) return [];
  const inside = ends.find(([first, last]) => first <= interval && interval <= last);
  if (inside) return [`N = ${interval} lies in an island of unstable refresh intervals, ${range(inside)}`];
  const shown = ends.slice(0, SHOWN_RANGES).map(range).join(", ") + (ends.length > SHOWN_RANGES ? ", ..." : "");
  return [`islands of unstable refresh intervals at this eta: ${shown}`];
}

function law({ law: bound, exact, lawReason, rate }, stable) {
  if (bound === null) return exact === 0 ? "" : (lawReason ?? "").replace("the law", "the published law");
  const saysStable = rate < bound;
  if (saysStable === stable) return "the published law agrees";
  return `the published law would call it ${saysStable ? "stable" : "unstable"}`;
}
