// Comforts only: every page works without this script.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch (blocked) { chosen = null; }
  const current = () => chosen || (dark.matches ? "dark" : "light");
  const paint = () => {
    root.dataset.theme = current();
    const button = document.getElementById("theme");
    if (button) { button.hidden = false; button.setAttribute("aria-pressed", String(current() === "dark")); }
  };
  paint();
  dark.addEventListener("change", paint);
  document.addEventListener("DOMContentLoaded", () => {
    paint();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = current() === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", chosen); } catch (blocked) { /* for this page only */ }
      paint();
    });
    // Fields that a statistic does not have are put away.
    const fit = (select) => {
      for (const field of select.closest("fieldset").querySelectorAll("[data-for]")) {
        field.hidden = !field.dataset.for.split(" ").includes(select.value);
      }
    };
    for (const select of document.querySelectorAll("[data-kind]")) {
      fit(select);
      select.addEventListener("change", () => fit(select));
    }
    const modes = [...document.querySelectorAll("input[name=mode]")];
    const swap = () => {
      const isSql = modes.some((mode) => mode.checked && mode.value === "sql");
      for (const part of document.querySelectorAll(".by-form")) part.hidden = isSql;
      for (const part of document.querySelectorAll(".by-sql")) part.hidden = !isSql;
    };
    if (modes.length) { swap(); for (const mode of modes) mode.addEventListener("change", swap); }
    // Whoever types a price or an error means it.
    for (const field of document.querySelectorAll(".price input[name]")) {
      if (field.type === "radio") continue;
      field.addEventListener("input", () => {
        const radio = field.closest(".price").querySelector("input[type=radio]");
        if (field.name !== "delta") radio.checked = true;
      });
    }
    for (const form of document.querySelectorAll("form[data-once]")) {
      form.addEventListener("submit", () => {
        const button = form.querySelector("button");
        button.setAttribute("aria-busy", "true");
        button.textContent = "Asking …";
        setTimeout(() => { button.disabled = true; }, 0);
      });
    }
  });
})();
