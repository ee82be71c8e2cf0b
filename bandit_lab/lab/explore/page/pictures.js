// Beside the map: training at the point, and the multipliers in the unit circle.

/* global d3 */

import { sizeOf } from "./plane.js";

const LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 38, BETWEEN = 10;

/** Expected reward, and the policy's entropy under it, against the step. */
export function trajectory(element) {
  const [WIDTH, HEIGHT] = sizeOf(element);
  const floor = HEIGHT - BOTTOM, middle = TOP + 0.62 * (floor - TOP);
  const svg = d3.select(element).attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.selectAll("*").remove();
  const x = d3.scaleLinear().range([LEFT, WIDTH - RIGHT]);
  const panels = [["reward", TOP, middle], ["entropy, nats", middle + BETWEEN, floor]].map(([name, top, bottom], i) => {
    svg.append("defs").html(`<clipPath id="inside-runs-${i}"><rect x="${LEFT}" y="${top}" width="${WIDTH - LEFT - RIGHT}" height="${bottom - top}"/></clipPath>`);
    svg.append("rect").attr("class", "frame").attr("x", LEFT).attr("y", top).attr("width", WIDTH - LEFT - RIGHT).attr("height", bottom - top);
    svg.append("text").attr("transform", `translate(15,${(top + bottom) / 2}) rotate(-90)`).attr("text-anchor", "middle").text(name);
    const inside = svg.append("g").attr("class", i ? "entropies" : "rewards").attr("clip-path", `url(#inside-runs-${i})`);
    return { y: d3.scaleLinear().range([bottom, top]), band: inside.append("rect").attr("class", "band").attr("x", LEFT).attr("width", WIDTH - LEFT - RIGHT),
      samples: inside.append("g"), rest: inside.append("line").attr("class", "rest").attr("x1", LEFT).attr("x2", WIDTH - RIGHT),
      mean: inside.append("path").attr("class", "mean"), beside: svg.append("g").attr("class", "axis").attr("transform", `translate(${LEFT},0)`), count: i ? 2 : 4 };
  });
  const below = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${floor})`);
  svg.append("text").attr("x", (LEFT + WIDTH - RIGHT) / 2).attr("y", HEIGHT - 6).attr("text-anchor", "middle").text("step");
  let drawn = "";

  const path = (values, y) => {
    const stride = Math.max(1, Math.floor(values.length / 1200)), parts = [];
    for (let t = 0; t < values.length; t += stride) {
      if (!Number.isFinite(values[t])) break;
      parts.push(`${x(t).toFixed(1)} ${y(values[t]).toFixed(1)}`);
    }
    return parts.length ? `M${parts.join("L")}` : "";
  };

  /**
   * mean: of simulate.js, meanPath; runs: rewards of sampled ones; reward, std: of the fixed point and its band, entropy: of
   * its policy, each or null; success [K]: of the arms, beyond which no reward lies.
   */
  return ({ mean, runs, reward, std, entropy, success }) => {
    const domains = [rewardsShown(mean.reward, runs, reward, std, success), [0, 1.08 * Math.max(entropy ?? 0, ...extent(mean.entropy), 1e-3)]];
    const axes = `${mean.reward.length} ${domains}`, [rewards, entropies] = panels;
    x.domain([0, mean.reward.length - 1]);
    panels.forEach((panel, i) => panel.y.domain(domains[i]));
    if (axes !== drawn) {
      below.call(d3.axisBottom(x).ticks(6));
      panels.forEach((panel) => panel.beside.call(d3.axisLeft(panel.y).ticks(panel.count)));
      drawn = axes;
    }
    rewards.samples.selectAll("path").data(runs).join("path").attr("class", "sample").attr("d", (run) => path(run, rewards.y));
    rewards.mean.attr("d", path(mean.reward, rewards.y));
    entropies.mean.attr("d", path(mean.entropy, entropies.y));
    for (const [panel, value] of [[rewards, reward], [entropies, entropy]]) {
      panel.rest.attr("visibility", value === null ? "hidden" : null);
      if (value !== null) panel.rest.attr("y1", panel.y(value)).attr("y2", panel.y(value));
    }
    entropies.band.attr("visibility", "hidden");
    rewards.band.attr("visibility", std === null ? "hidden" : null);
    if (std !== null) rewards.band.attr("y", rewards.y(reward + 2 * std)).attr("height", Math.max(0, rewards.y(reward - 2 * std) - rewards.y(reward + 2 * std)));
  };
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [];
}

/** [lowest, highest] reward on the axis: all that is drawn, with room, and no reward that the arms do not have. */
export function rewardsShown(mean, runs, reward, std, success) {
  const band = reward === null ? [] : [reward - 2 * (std ?? 0), reward + 2 * (std ?? 0)];
  const ends = [...band, ...extent(mean), ...runs.flatMap(extent)], [least, most] = [Math.min(...success), Math.max(...success)];
  const edge = 0.02 * (most - least || 1), room = 0.06 * (Math.max(...ends) - Math.min(...ends)) + 1e-6;
  return [Math.max(Math.min(...ends) - room, least - edge), Math.min(Math.max(...ends) + room, most + edge)];
}

/** Multipliers, in the plane of complex numbers. */
export function circle(element) {
  const side = 240, svg = d3.select(element).attr("viewBox", `0 0 ${side} ${side}`).html(""), reach = d3.scaleLinear().range([0, side / 2 - 6]);
  const middle = svg.append("g").attr("transform", `translate(${side / 2},${side / 2})`);
  const disc = middle.append("circle").attr("class", "unit");
  middle.append("path").attr("class", "guide").attr("d", `M${-side / 2} 0H${side / 2}M0 ${-side / 2}V${side / 2}`);
  const dots = middle.append("g");
  return (multipliers) => {
    const finite = multipliers.filter((z) => Number.isFinite(z[0])), farthest = Math.max(1, ...finite.map((z) => Math.hypot(...z)));
    reach.domain([0, Math.min(farthest * 1.08, 4)]);
    disc.attr("r", reach(1));
    const shown = (z) => {
      const size = Math.hypot(...z), scale = size > 3.9 ? 3.9 / size : 1;
      return [reach(z[0] * scale), -reach(z[1] * scale)];
    };
    dots.selectAll("circle").data(finite).join("circle").attr("class", (z) => `multiplier${Math.hypot(...z) >= 1 ? " outside" : ""}`)
      .attr("r", (z, i) => (i < 2 ? 5.5 : 3.5)).attr("cx", (z) => shown(z)[0]).attr("cy", (z) => shown(z)[1]);
  };
}
