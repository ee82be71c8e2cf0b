// Beside the map: training at the point, and the multipliers in the unit circle.

/* global d3 */

import { NARROW } from "./plane.js";

const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 42;

/** Expected reward against the step. */
export function trajectory(element) {
  const narrow = element.clientWidth < NARROW, WIDTH = narrow ? 380 : 600, HEIGHT = narrow ? 260 : 312;
  const svg = d3.select(element).attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.selectAll("*").remove();
  const x = d3.scaleLinear().range([LEFT, WIDTH - RIGHT]), y = d3.scaleLinear().range([HEIGHT - BOTTOM, TOP]);
  svg.append("defs").html(`<clipPath id="inside-runs"><rect x="${LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" height="${HEIGHT - TOP - BOTTOM}"/></clipPath>`);
  svg.append("rect").attr("class", "frame").attr("x", LEFT).attr("y", TOP).attr("width", WIDTH - LEFT - RIGHT).attr("height", HEIGHT - TOP - BOTTOM);
  const inside = svg.append("g").attr("clip-path", "url(#inside-runs)");
  const band = inside.append("rect").attr("class", "band"), samples = inside.append("g");
  const rest = inside.append("line").attr("class", "rest"), mean = inside.append("path").attr("class", "mean");
  const below = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${HEIGHT - BOTTOM})`);
  const beside = svg.append("g").attr("class", "axis").attr("transform", `translate(${LEFT},0)`);
  svg.append("text").attr("x", (LEFT + WIDTH - RIGHT) / 2).attr("y", HEIGHT - 6).attr("text-anchor", "middle").text("step");
  svg.append("text").attr("transform", `translate(14,${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`).attr("text-anchor", "middle").text("expected reward");
  let drawn = "";

  const path = (values) => {
    const stride = Math.max(1, Math.floor(values.length / 1200)), parts = [];
    for (let t = 0; t < values.length; t += stride) {
      if (!Number.isFinite(values[t])) break;
      parts.push(`${x(t).toFixed(1)} ${y(values[t]).toFixed(1)}`);
    }
    return parts.length ? `M${parts.join("L")}` : "";
  };

  /** path: mean update [T + 1]; runs: sampled ones; reward, std: of the fixed point and its band, or null; domain: of rewards. */
  return ({ mean: values, runs, reward, std, domain }) => {
    const axes = `${values.length} ${domain}`;
    x.domain([0, values.length - 1]);
    y.domain(domain);
    if (axes !== drawn) {
      below.call(d3.axisBottom(x).ticks(6));
      beside.call(d3.axisLeft(y).ticks(6));
      drawn = axes;
    }
    samples.selectAll("path").data(runs).join("path").attr("class", "sample").attr("d", path);
    mean.attr("d", path(values));
    rest.attr("visibility", reward === null ? "hidden" : null);
    if (reward !== null) rest.attr("x1", LEFT).attr("x2", WIDTH - RIGHT).attr("y1", y(reward)).attr("y2", y(reward));
    band.attr("visibility", std === null ? "hidden" : null);
    if (std !== null) {
      band.attr("x", LEFT).attr("width", WIDTH - LEFT - RIGHT).attr("y", y(reward + 2 * std)).attr("height", Math.max(0, y(reward - 2 * std) - y(reward + 2 * std)));
    }
  };
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
