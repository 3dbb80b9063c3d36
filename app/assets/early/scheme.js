// Sets the colour scheme before anything is painted, so that a dark page never flashes white. The toggle remembers the
// choice under the same key; without one, the system's preference counts.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("mantine-color-scheme-value");
  } catch (refused) {
    // No storage: follow the system.
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
