// Everything works without this file. It adds keys to lists, moves the focus to
// what went wrong, hides the way to a decision that is in sight, and keeps a form from
// being sent twice. It never sends anything.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  const problems = document.getElementById("problems");
  if (problems) problems.focus();

  for (const form of document.querySelectorAll("form[method=post]")) {
    let sent = false;
    form.addEventListener("submit", (e) => {
      if (sent) e.preventDefault();
      sent = true;
      setTimeout(() => { sent = false; }, 4000);
    });
  }

  const jump = document.querySelector(".jump");
  const decision = document.getElementById("decide");
  if (jump && decision) new IntersectionObserver(([seen]) => { jump.classList.toggle("seen", seen.isIntersecting); }).observe(decision);

  const tasks = [...document.querySelectorAll(".task, .concern, .row-head a")];
  const help = document.getElementById("keys");
  const search = document.getElementById("q") || document.querySelector(".narrow-down input:not([type=hidden])");
  if (!help && !tasks.length) return;
  const typing = (t) => t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName) && !/^(radio|checkbox)$/.test(t.type);
  const move = (by) => {
    let at = tasks.indexOf(document.activeElement);
    if (at < 0) at = tasks.findIndex((t) => t.hasAttribute("aria-current"));
    const next = at < 0 ? tasks[0] : tasks[Math.min(Math.max(at + by, 0), tasks.length - 1)];
    if (next) next.focus();
  };
  const choose = (names) => {
    const answers = [...document.querySelectorAll("input[name=event]:not(:disabled)")];
    const answer = answers.find((a) => names.test(a.value));
    if (!answer) return;
    answer.checked = true;
    answer.focus();
  };
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    o: () => { if (tasks.includes(document.activeElement)) document.activeElement.click(); else if (tasks[0]) tasks[0].click(); },
    a: () => choose(/^(approve|accept|confirm|grant|sign|agree)/),
    r: () => choose(/^(reject|refuse|decline|deny)/),
    "/": () => {
      if (!search) return;
      const folded = search.closest("details");
      if (folded) folded.open = true;
      search.focus();
    },
    "?": () => { if (help && !help.open) help.showModal(); },
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || help && help.open && e.key !== "?") return;
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
})();
