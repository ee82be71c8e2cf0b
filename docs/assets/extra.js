// What the theme makes at run time gets a name, and what scrolls can be reached with the keyboard.
const mend = () => {
  document.querySelectorAll(".md-code__nav").forEach((one, place) => one.setAttribute("aria-label", `Code ${place + 1}`));
  document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .formula, .dataframe, p:has(> img)").forEach((one) => {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  });
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();
