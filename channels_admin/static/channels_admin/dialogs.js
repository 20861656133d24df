/* Buttons that open and close native dialogs. The dialog's form starts fresh each time it opens. */
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens-dialog]");
  if (opener) {
    const dialog = document.getElementById(opener.dataset.opensDialog);
    dialog.querySelectorAll("form").forEach((form) => form.reset());
    dialog.showModal();
    return;
  }
  const closer = event.target.closest("[data-closes-dialog]");
  if (closer) {
    closer.closest("dialog").close();
  }
});
