"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const make = (name, attributes = {}, text = "") => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  // Pages that are opened from a disk may be refused any storage, so nothing depends on it.
  const KEY = "soar-report-theme";
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* forgotten with the page */ } };

  function theme() {
    const button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    let chosen = ["light", "dark"].includes(remembered()) ? remembered() : null;
    const show = () => {
      const isDark = chosen ? chosen === "dark" : system.matches;
      if (chosen) document.documentElement.dataset.theme = chosen;
      button.textContent = isDark ? "☀ Light" : "☾ Dark";
      button.setAttribute("aria-label", isDark ? "Switch to light colors" : "Switch to dark colors");
    };
    button.addEventListener("click", () => {
      const isDark = chosen ? chosen === "dark" : system.matches;
      chosen = isDark ? "light" : "dark";
      remember(chosen);
      show();
    });
    system.addEventListener("change", show);
    button.hidden = false;
    show();
  }

  // Numbers come before texts, and what is missing comes last whichever way a table is sorted.
  function compare(one, two, sign) {
    if (one === null || two === null) return (one === null) - (two === null);
    const [x, y] = [Number(one), Number(two)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return sign * (x - y);
    return sign * one.localeCompare(two, "en", { numeric: true });
  }

  function sortable(table) {
    const headings = all("thead th.sorts", table);
    const single = headings.filter((heading) => heading.rowSpan > 1);
    const columns = [...single, ...headings.filter((heading) => heading.rowSpan === 1)];
    columns.forEach((heading, column) => {
      const label = heading.getAttribute("aria-label");
      const button = make("button", { type: "button" }, heading.textContent);
      if (label) button.setAttribute("aria-label", `${label}, sort`);
      heading.removeAttribute("aria-label");
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const goesUp = heading.getAttribute("aria-sort") !== "ascending";
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", goesUp ? "ascending" : "descending");
        const value = (row) => row.cells[column].getAttribute("data-sort");
        const body = table.tBodies[0];
        const rows = Array.from(body.rows).sort((a, b) => compare(value(a), value(b), goesUp ? 1 : -1));
        body.append(...rows);
      });
    });
  }

  function tabbed(group) {
    const panels = all(":scope > .panel", group);
    const list = make("div", { role: "tablist", "aria-label": group.dataset.label });
    const tabs = panels.map((panel) => {
      const tab = make("button", { type: "button", role: "tab", id: `${panel.id}-tab`, "aria-controls": panel.id });
      tab.append(...panel.querySelector(".panel-title").cloneNode(true).childNodes);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      return tab;
    });
    const choose = (wanted, focus) => {
      tabs.forEach((tab, place) => {
        tab.setAttribute("aria-selected", String(place === wanted));
        tab.tabIndex = place === wanted ? 0 : -1;
        panels[place].hidden = place !== wanted;
      });
      if (focus) tabs[wanted].focus();
    };
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => choose(place, false));
      tab.addEventListener("keydown", (event) => {
        const last = tabs.length - 1;
        const to = { ArrowRight: place === last ? 0 : place + 1, ArrowLeft: place === 0 ? last : place - 1,
          Home: 0, End: last }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        choose(to, true);
      });
    });
    list.append(...tabs);
    group.prepend(list);
    group.classList.add("tabbed");
    choose(0, false);
  }

  function gallery(root) {
    const data = JSON.parse(root.querySelector("script.frames").textContent);
    const box = root.querySelector(".slider");
    const input = box.querySelector("input");
    const cards = all(".specimen", root).map((card) => ({
      prediction: card.querySelector(".prediction"), mark: card.querySelector(".mark"),
      predicted: card.querySelector(".predicted"),
      image: card.querySelector("img.attacked"), change: card.querySelector("img.change"),
      bars: all(".shares .bar > span", card), shares: all(".shares .share", card),
    }));
    const show = (step) => {
      input.value = step;
      input.setAttribute("aria-valuetext", data.steps[step]);
      box.querySelector("output").textContent = data.steps[step];
      data.images.forEach((frames, place) => {
        const frame = frames[step];
        const card = cards[place];
        card.image.src = `data:image/png;base64,${frame.image}`;
        card.change.src = `data:image/png;base64,${frame.change}`;
        card.prediction.className = `prediction ${frame.correct ? "correct" : "wrong"}`;
        card.mark.textContent = frame.correct ? "✓ correct" : "✗ misclassified";
        card.predicted.textContent = frame.predicted;
        frame.bars.forEach((share, row) => {
          card.bars[row].style.width = `${100 * share}%`;
          card.shares[row].textContent = `${(100 * share).toFixed(1)}%`;
        });
      });
    };
    input.hidden = false;
    input.setAttribute("aria-valuetext", data.steps[Number(input.value)]);
    return { input, steps: data.steps.join("|"), show };
  }

  // One slider moves all runs, as far as they have the same radii, so that tabs compare like with like.
  function galleries() {
    const made = all(".gallery").map(gallery);
    for (const one of made) {
      one.input.addEventListener("input", () => {
        const step = Number(one.input.value);
        made.filter((other) => other.steps === one.steps).forEach((other) => other.show(step));
      });
    }
  }

  function copyable(box) {
    const button = make("button", { type: "button" }, "Copy");
    const code = box.querySelector("code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2500);
    });
    box.append(button);
  }

  // What is folded up would be missing on paper.
  function unfoldForPrinting() {
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = all("details:not([open])");
      for (const one of folded) one.open = true;
    });
    addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
  }

  theme();
  all("table.sortable").forEach(sortable);
  all(".panels").forEach(tabbed);
  galleries();
  all(".copyable").forEach(copyable);
  unfoldForPrinting();
})();
