// What the browser does without asking the server: the age of the last update, the width and colour scheme to draw for, the title
// of the window, and the look of one run in the picker.
window.dash_clientside = window.dash_clientside || {};

(function () {
  const pageWidth = () => {
    const page = document.getElementById("body");
    if (!page) return window.innerWidth;
    const style = getComputedStyle(page);
    return Math.floor(page.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  };

  const screenNow = () => ({
    width: pageWidth(),
    scheme: document.documentElement.getAttribute("data-mantine-color-scheme") || "light",
  });

  const ageText = (seconds) => {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
    return `${Math.floor(seconds / 3600)} h`;
  };

  window.dash_clientside.view = {
    age: (_tick, scope) => {
      if (!scope || scope.state !== "recording" || !scope.modified_unix_s) return "";
      const seconds = Math.max(0, Math.round(Date.now() / 1000 - scope.modified_unix_s));
      return `updated ${ageText(seconds)} ago`;
    },
    screen: () => {
      setTimeout(early);
      return screenNow();
    },
    // A figure also tells when it fitted itself to the page. On a slow machine that comes after a first drag: it must not take its place.
    dragged: (relayout) =>
      relayout && ("xaxis.range[0]" in relayout || "xaxis.autorange" in relayout) ? relayout : window.dash_clientside.no_update,
    waiting: (picked, scope) => (picked && scope && picked !== scope.run ? "page waiting" : "page"),
    title: (scope, path) => {
      const word = (path || "/").replace(/^\/+/, "");
      const page = word ? word[0].toUpperCase() + word.slice(1) : "Overview";
      document.title = scope && scope.run ? `${scope.run} · ${page} · xla-insight` : "xla-insight";
      return window.dash_clientside.no_update;
    },
  };

  // Paper is narrower than most windows: figures are fitted to it while printing.
  const fit = (size) => document.querySelectorAll(".js-plotly-plot").forEach((plot) => window.Plotly.relayout(plot, size));
  window.addEventListener("beforeprint", () => fit({ width: 690 }));
  window.addEventListener("afterprint", () => fit({ width: null, autosize: true }));

  // Most pages draw figures, and the library that does so takes a while to start: it starts while the server reads the run. What draws
  // the figures waits for a promise of the library as it would for the library.
  const early = () => {
    if (window.Plotly || !window._dashPlotlyJSURL) return;
    window.Plotly = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = window._dashPlotlyJSURL;
      script.onload = () => resolve(window.Plotly);
      script.onerror = (error) => {
        window.Plotly = undefined;
        reject(error);
      };
      document.body.appendChild(script);
    });
    window.Plotly.catch(() => {});
  };

  let waiting = null;
  const tell = () => window.dash_clientside.set_props("screen", { data: screenNow() });
  new MutationObserver(tell).observe(document.documentElement, { attributeFilter: ["data-mantine-color-scheme"] });
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(tell, 150);
  });
})();

// What goes into an exported file: numbers as numbers, columns with their unit, and no text that a spreadsheet would run.
window.dashAgGridFunctions = window.dashAgGridFunctions || {};
window.dashAgGridFunctions.plainCell = ({ value }) => {
  if (value === null || value === undefined) return "";
  return typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
};
window.dashAgGridFunctions.plainHeader = ({ column }) => column.getColId();

window.dashMantineFunctions = window.dashMantineFunctions || {};
window.dashMantineFunctions.renderRun = function ({ option, checked }) {
  const text = (className, content) => window.React.createElement("span", { className }, content);
  return window.React.createElement(
    "span",
    { className: checked ? "run-option checked" : "run-option", title: option.label },
    text("run-name", option.name),
    text(`run-state run-${option.state}`, option.word),
    text("run-started", option.started),
  );
};
