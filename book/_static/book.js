// What is wider than its place can be scrolled with the keys; what is not stays out of the way of Tab.
function reachable() {
  for (const box of document.querySelectorAll("pre, table.docutils, .cell_output table, .cell_output div, mjx-container")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
