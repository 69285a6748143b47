"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme"), root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  function changed() {
    button.textContent = isDark() ? "Light" : "Dark";
    document.dispatchEvent(new Event("theme"));
  }
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; changed(); });
  dark.addEventListener("change", changed);
  changed();

  // Long tables begin with a few lines.
  for (const part of document.querySelectorAll("table[data-first]")) {
    const lines = Array.from(part.tBodies[0].rows), rest = lines.slice(Number(part.dataset.first));
    if (!rest.length) continue;
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    function show(all) {
      for (const line of rest) line.hidden = !all;
      more.textContent = all ? "Show fewer" : "Show all " + lines.length.toLocaleString("en-US");
    }
    more.addEventListener("click", () => show(rest[0].hidden));
    part.parentElement.after(more);
    show(false);
  }

  for (const copy of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard) continue;
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
  }
})();
