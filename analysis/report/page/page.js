"use strict";
// Draws each chart from the specification that stands beside it. Texts are only ever set as text, never as markup.
(() => {
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");

  const showTip = (_handler, event, _item, value) => {
    const entries = value && typeof value === "object" ? Object.entries(value).filter(([, text]) => text !== "null") : [];
    tip.hidden = entries.length === 0;
    if (tip.hidden) return;
    tip.replaceChildren(...entries.flat().map(text => {
      const cell = document.createElement("span");
      cell.textContent = String(text);
      return cell;
    }));
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 16;
    const fits = below + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${fits ? below : Math.max(8, event.clientY - tip.offsetHeight - 12)}px`;
  };
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const save = async (view, name, kind) => {
    const link = document.createElement("a");
    link.href = await view.toImageURL(kind, 2);
    link.download = `${name}.${kind}`;
    link.click();
  };

  const draw = async figure => {
    const name = figure.dataset.figure;
    const spec = JSON.parse(figure.querySelector("[data-spec]").textContent);
    const { view } = await vegaEmbed(figure.querySelector("[data-chart]"), spec, {
      actions: false, ast: true, defaultStyle: false, renderer: "svg", tooltip: showTip,
    });
    const tools = figure.querySelector(".tools");
    tools.hidden = false;
    for (const button of tools.querySelectorAll("[data-save]")) {
      button.addEventListener("click", () => save(view, name, button.dataset.save));
    }
  };

  Promise.all([...document.querySelectorAll("[data-figure]")].map(draw)).then(
    () => { document.documentElement.dataset.drawn = "yes"; },
  );

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
