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
    const isOff = (place) => panels[place].classList.contains("off");
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
        const shown = tabs.keys().filter((other) => !isOff(other)).toArray();
        const at = shown.indexOf(place);
        const to = { ArrowRight: shown[at + 1] ?? shown[0], ArrowLeft: shown.at(at - 1),
          Home: shown[0], End: shown.at(-1) }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        choose(to, true);
      });
      tab.dataset.run = panels[place].dataset.run;
    });
    document.addEventListener("runs", () => {
      const chosen = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
      if (isOff(chosen)) choose(panels.findIndex((panel) => !panel.classList.contains("off")), false);
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

  // Whatever belongs to one run says so in data-run; the last run that is shown stays.
  function chooser() {
    const box = document.getElementById("runs");
    if (!box) return;
    const inputs = all("input", box);
    const show = () => {
      const checked = inputs.filter((input) => input.checked);
      for (const input of inputs) {
        input.disabled = input.checked && checked.length === 1;
        for (const one of all(`[data-run="${input.value}"]`)) one.classList.toggle("off", !input.checked);
      }
      document.dispatchEvent(new Event("runs"));
    };
    for (const input of inputs) input.addEventListener("change", show);
    for (const entry of all("svg .entry")) {
      const input = inputs.find((one) => one.value === entry.dataset.run);
      entry.addEventListener("click", () => input.click());
    }
    box.hidden = false;
  }

  // A link into a section that is folded up opens it.
  function unfolding() {
    for (const link of all('a[href^="#"]')) {
      const folded = document.querySelector(`${link.getAttribute("href")} > details`);
      if (folded) link.addEventListener("click", () => { folded.open = true; });
    }
  }

  // A table that is wider than its place says so.
  function widened() {
    const observer = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const scroll = target.closest(".scroll");
        scroll.parentElement.classList.toggle("wide", scroll.scrollWidth > scroll.clientWidth + 1);
      }
    });
    for (const table of all(".tabled table")) { observer.observe(table); observer.observe(table.parentElement); }
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
  chooser();
  unfolding();
  widened();
  unfoldForPrinting();
})();
