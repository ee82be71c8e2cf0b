// Three findings as two settings each, which the reader clicks one after the other.

import { checked, DEFAULT } from "./setting.js";

const told = (part) => checked({ ...DEFAULT, ...part });

/** [{title, steps: [{words, setting}]}]. What the words say of stable and unstable is tested. */
export const STORIES = [
  { title: "One point, three loops", steps: [
    { words: "Sample, then make 8 updates (A): a swing dies out, 2.3 times below the threshold.", setting: told({}) },
    { words: "Now switch to a pipeline (C): the same point is unstable, and the swing grows.", setting: told({ model: "pipeline" }) },
  ] },
  { title: "A high reward is no stability", steps: [
    { words: "At η = 0.3 training from the uniform policy goes to reward 0.9, the best there is.", setting: told({ rate: 0.3, begin: "policy" }) },
    { words: "Its entropy is 0: the policy is gone. Now begin beside the fixed point: the loop is unstable.", setting: told({ rate: 0.3 }) },
  ] },
  { title: "What importance weights change", steps: [
    { words: "A pipeline with 32 updates in a block is unstable at η = 0.05.", setting: told({ model: "pipeline", interval: 32, rate: 0.05 }) },
    { words: "Now weigh the answers by importance: most of the stiffness is fresh, and the same point is stable.",
      setting: told({ model: "pipeline", interval: 32, rate: 0.05, estimator: "ratio" }) },
  ] },
];
