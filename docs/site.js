// The theme makes a landmark without a name of the buttons of each block of code: a screen reader would list them all.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll(".md-code__nav:not([role])")) nav.setAttribute("role", "none");
}).observe(document.body, { childList: true, subtree: true });
