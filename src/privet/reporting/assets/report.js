(() => {
  "use strict";
  const root = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;

  // Charts name colours of the style; a probe asks the browser what they are in the theme of the moment.
  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };
  const resolved = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(resolved);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolved(inner)]));
    return value;
  };

  const style = (own, narrow) => {
    const font = { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 13, color: colour("var(--ink)") };
    const muted = { ...font, color: colour("var(--muted)") };
    const lines = {
      gridcolor: colour("var(--grid)"), linecolor: colour("var(--line)"), zeroline: false, showline: true, automargin: true,
      ticks: "", tickfont: { ...muted, size: 12 }, ...(narrow ? { nticks: 6 } : {}),
    };
    const axis = (given) => ({ ...lines, ...given, title: { standoff: 10, font: muted, ...(given?.title ?? {}) } });
    return {
      ...own, ...(narrow && own.annotations ? { annotations: own.annotations.map((note) => ({ ...note, text: note.name ?? note.text })) } : {}),
      font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      margin: { l: 8, r: 26, t: 8, b: 8, ...(own.margin ?? {}) },
      xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { ...font, size: 12 }, bgcolor: "rgba(0,0,0,0)", itemclick: "toggle", traceorder: "normal" },
      hoverlabel: { bgcolor: colour("var(--surface)"), bordercolor: colour("var(--line)"), font },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
  };

  const specifications = new Map();
  const draw = (chart) => {
    if (!chart.offsetWidth) return; // in a model that is not shown
    if (!specifications.has(chart))
      specifications.set(chart, JSON.parse(document.querySelector(`script[data-for="${chart.id}"]`).textContent));
    const given = resolved(specifications.get(chart));
    Plotly.react(chart, given.data, style(given.layout, chart.offsetWidth < 480), { displayModeBar: false, responsive: false });
    chart.dataset.drawn = root.dataset.theme;
  };

  // What is in sight is drawn first and the rest one by one, so that a long page opens at once. A later call replaces an earlier one.
  const inSight = (chart) => chart.getBoundingClientRect().top < 2 * innerHeight;
  let turn = 0;
  const drawAll = () => {
    const own = ++turn;
    const waiting = charts.filter((chart) => chart.offsetWidth);
    waiting.filter(inSight).forEach(draw);
    const rest = waiting.filter((chart) => !inSight(chart));
    const next = () => {
      if (own !== turn || !rest.length) return;
      draw(rest.shift());
      setTimeout(next);
    };
    setTimeout(next);
  };

  const button = document.getElementById("theme");
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    drawAll();
  };
  button.hidden = false;
  button.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
  button.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));

  // One model at a time; without scripts all of them stand below each other.
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const panel = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
  const show = (chosen) => {
    for (const tab of tabs) {
      const selected = tab === chosen;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      panel(tab).hidden = !selected;
    }
    drawAll();
  };
  const named = () => {
    const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    return place && tabs.find((tab) => panel(tab).contains(place));
  };
  if (tabs.length) {
    tabs[0].parentElement.hidden = false;
    for (const tab of tabs) {
      const own = panel(tab);
      own.setAttribute("role", "tabpanel");
      own.setAttribute("aria-labelledby", tab.id);
      own.classList.add("tabbed");
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        const places = { ArrowRight: tabs.indexOf(tab) + 1, ArrowLeft: tabs.indexOf(tab) - 1, Home: 0, End: -1 };
        if (!(event.key in places)) return;
        event.preventDefault();
        const next = tabs.at(places[event.key] % tabs.length);
        show(next);
        next.focus();
      });
    }
    addEventListener("hashchange", () => {
      const tab = named();
      if (!tab) return;
      show(tab);
      document.getElementById(decodeURIComponent(location.hash.slice(1))).scrollIntoView();
    });
    show(named() || tabs.find((tab) => tab.dataset.first === "true") || tabs[0]);
  } else {
    drawAll();
  }

  // On a phone the comparison becomes one card for each model, whose lines carry the names of the columns. Any other table that is
  // wider than the screen says that it scrolls.
  for (const table of document.querySelectorAll("table.overview")) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, column) => (cell.dataset.column = names[column]));
    table.classList.add("labelled");
  }
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) target.toggleAttribute("data-wide", target.scrollWidth > target.clientWidth + 1);
  });
  document.querySelectorAll(".scrolls").forEach((box) => sizes.observe(box));

  let resizing;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar comes and goes
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(drawAll, 120);
  });

  // Paper: all models, all of them light, at the width of a sheet.
  let before;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, hidden: tabs.filter((tab) => panel(tab).hidden) };
    root.dataset.theme = "light";
    before.hidden.forEach((tab) => (panel(tab).hidden = false));
    root.classList.add("sheet");
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("sheet");
    root.dataset.theme = before.theme;
    before.hidden.forEach((tab) => (panel(tab).hidden = true));
    drawAll();
  });
})();
