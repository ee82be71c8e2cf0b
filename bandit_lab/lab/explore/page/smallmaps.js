// The three staleness models side by side: one small map each, all with the same axes and the same point.

/* global d3 */

import { areas } from "./plane.js";

const WIDTH = 112, HEIGHT = 84;

/** The pictures, by model. elements: {model: its svg}. */
export function smallMaps(elements) {
  const x = d3.scaleLog().range([0, WIDTH]), y = d3.scaleLog().range([HEIGHT, 0]);
  const parts = Object.entries(elements).map(([model, element]) => {
    const svg = d3.select(element).attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`).html("");
    const regions = svg.append("g"), lines = svg.append("g");
    svg.append("rect").attr("class", "frame").attr("width", WIDTH).attr("height", HEIGHT);
    return [model, { regions, lines, point: svg.append("circle").attr("class", "small-point").attr("r", 4.5) }];
  });
  const by = Object.fromEntries(parts);
  return {
    /** Axes, those of the large map. */
    frame(most, domain) {
      x.domain([0.93, most * 1.06]);
      y.domain(domain);
    },
    /** Regions, the law and the exact threshold of one model. */
    map(model, columns) {
      const { regions, lines } = by[model];
      regions.selectAll("path").data(areas(columns, x, y)).join("path").attr("class", ([name]) => `region ${name}`).attr("d", (d) => d[1]);
      const line = (key) => d3.line().defined((c) => c[key] > 0).x((c) => x(c.interval)).y((c) => y(c[key]))(columns);
      lines.selectAll("path").data(["law", "exact"]).join("path").attr("class", (d) => d).attr("d", line);
    },
    /** The one point, in all of them. */
    at(interval, rate) {
      const [low, high] = y.domain(), inside = Math.min(Math.max(rate, low), high);
      for (const [, { point }] of parts) point.attr("cx", x(interval)).attr("cy", y(inside));
    },
  };
}
