// The numbers beside the pictures, and the tables that say what the pictures show.

import { modulus } from "./algebra.js";
import { regionOf } from "./analysis.js";
import { general } from "./verdict.js";

const text = (value, digits = 4) => (value === null || value === undefined || !Number.isFinite(value) ? "none" : general(value, digits));

function fill(table, rows) {
  const body = table.tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((cell, i) => {
      const one = document.createElement(i === 0 ? "th" : "td");
      if (i === 0) one.scope = "row";
      one.textContent = cell;
      row.append(one);
    });
    return row;
  }));
}

const listed = (values) => values.map((x) => general(x, 3)).join(", ");

/** Numbers of the point. */
export function numbers(table, ready, found) {
  const { modes } = ready.stiffness, [top] = modes;
  fill(table, [
    ["policy at the fixed point", listed(ready.point.policy)],
    ["expected reward there", text(ready.point.reward)],
    ["stiffness K, fresh + stale", `${text(top.fresh + top.stale)} = ${text(top.fresh, 3)} + ${text(top.stale, 3)}`],
    ["κ = η K", text(found.kappa)],
    ["η by the law", text(found.law)],
    ["η, exact threshold", text(found.exact)],
    ["η, onset of oscillation", text(found.onset)],
    [found.steps === 1 ? "largest multiplier, per step" : `largest multiplier, per ${found.steps} steps`, text(found.radius)],
    ["decay time, steps", found.decay === null ? "grows" : text(found.decay, 3)],
    ["period, steps", text(found.period, 3)],
    ["mean age of the acting policy", text(found.age)],
    ["predicted std of the reward", text(found.std, 3)],
  ]);
}

/** Three tables: boundaries by refresh interval, the path, the multipliers. */
export function tables(root, ready, columns, found, mean, runs) {
  const places = columns.filter((c, i) => c.interval <= 8 || i % 4 === 0 || c.interval === found.interval);
  fill(root.querySelector("#boundaries"), places.map((c) => (
    [String(c.interval), text(c.law), text(c.exact), text(c.onset), regionOf(ready, c, found.rate)]
  )));
  const last = mean.reward.length - 1;
  const marks = [...new Set([...[0, 1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 1000, 2000, 3000].filter((t) => t <= last), last])];
  fill(root.querySelector("#path"), marks.map((t) => {
    const here = runs.map((run) => run[t]);
    return [String(t), text(mean.reward[t]), text(mean.entropy[t]), text(here.length ? Math.min(...here) : null), text(here.length ? Math.max(...here) : null)];
  }));
  fill(root.querySelector("#multipliers"), found.multipliers.slice(0, 16).map((z) => [text(z[0]), text(z[1]), text(modulus(z))]));
}
