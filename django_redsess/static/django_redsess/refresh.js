// Refreshes the list of sessions every 30 seconds, if its reader has ticked the box. The requests are passive: they
// prolong no session. Screen readers announce failures only.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const line = document.querySelector("[data-redsess-refresh]");
  if (!line) return;
  const SECONDS = 30, KEY = "redsess-refresh";
  const box = line.querySelector("input[type=checkbox]"), status = line.querySelector("[role=status]");
  const rowsOf = page => [...page.querySelectorAll("#result_list > tbody")];
  // It grows and shrinks with the list. Django's own script for the check boxes calls forEach.
  const boxes = document.getElementsByClassName("action-select");
  boxes.forEach = Array.prototype.forEach;
  let timer = 0, last = Date.now(), isActing = false, isRunning = false;

  const say = text => { if (status.textContent !== text) status.textContent = text; };

  // A reader who works in the list must not lose what they point at.
  const isBusy = () => document.hidden
    || document.querySelector("dialog[open], [aria-modal=true], input.action-select:checked")
    || document.activeElement.closest("#changelist-form, .redsess-live");

  const plan = () => {
    clearTimeout(timer);
    if (box.checked && !document.hidden && !isRunning) timer = setTimeout(refresh, Math.max(0, last + SECONDS * 1000 - Date.now()));
  };

  const stop = text => {
    box.checked = false;
    say(text);
  };

  const replaceRows = page => {
    const shown = rowsOf(document), fetched = rowsOf(page);
    const isKnown = shown.length && shown.length >= fetched.length;
    if (!shown.length !== !fetched.length) {
      const form = document.getElementById("changelist-form"), other = page.getElementById("changelist-form");
      if (form && other) form.replaceChildren(...[...other.childNodes].map(each => each.cloneNode(true)));
    } else {
      // The bodies stay, since scripts listen to them; themes have one for each row.
      const table = document.getElementById("result_list");
      fetched.forEach((body, place) => shown[place] ? shown[place].replaceChildren(...body.children) : table.append(body));
      shown.slice(fetched.length).forEach(body => body.remove());
      const texts = ".action-counter, .actions .all, .actions .question a";
      const others = page.querySelectorAll(texts);
      document.querySelectorAll(texts).forEach((each, place) => {
        if (others[place]) each.textContent = others[place].textContent;
        if (others[place] && others[place].dataset.actionsIcnt) each.dataset.actionsIcnt = others[place].dataset.actionsIcnt;
      });
    }
    // Django's script, and that of a theme, know the check boxes of the first page only. A theme asks for a parent.
    const parent = document.querySelector(".result-list-wrapper") || document;
    if (window.Actions && boxes.length && !(isActing && isKnown)) window.Actions(boxes, { parent });
    isActing = true;
  };

  const replace = page => {
    // First the rows: where a list was empty, the whole form is replaced, paginator and all.
    replaceRows(page);
    // The heading tells how many there are.
    const headings = page.querySelectorAll("h1");
    document.querySelectorAll("h1").forEach((each, place) => {
      if (headings[place] && !each.children.length) each.textContent = headings[place].textContent;
    });
    const fetched = page.querySelectorAll(".redsess-live");
    document.querySelectorAll(".redsess-live").forEach((each, place) => {
      if (fetched[place]) each.replaceChildren(...fetched[place].childNodes);
    });
  };

  const refresh = async () => {
    if (isBusy()) {
      timer = setTimeout(refresh, 1000);
      return;
    }
    isRunning = true;
    try {
      const headers = { [line.dataset.redsessRefresh]: "1" };
      const response = await fetch(location.href, { headers, signal: AbortSignal.timeout(20000), cache: "no-store" });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (response.status >= 500) {
        say(line.dataset.unreachable);
      } else if (!page.querySelector("[data-redsess-refresh]")) {
        stop(line.dataset.stopped);
      } else if (box.checked && !isBusy()) {
        replace(page);
        say("");
      }
    } catch (error) {
      say(line.dataset.unreachable);
    }
    last = Date.now();
    isRunning = false;
    plan();
  };

  const remember = isOn => { try { localStorage.setItem(KEY, isOn ? "1" : ""); } catch (error) { /* It is not remembered. */ } };
  try { box.checked = localStorage.getItem(KEY) === "1"; } catch (error) { box.checked = false; }
  box.closest("label").hidden = false;
  box.addEventListener("change", () => {
    remember(box.checked);
    say("");
    last = Date.now();
    plan();
  });
  document.addEventListener("visibilitychange", plan);
  plan();
});
