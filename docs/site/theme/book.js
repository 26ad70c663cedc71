// What the book does beyond being read: blocks that are copied as they are typed, and pictures that move.

/** What a reader types of a block of commands: what follows a prompt. The rest is what comes. */
const commands = (text) => text.split("\n").filter((line) => /^[$>] /.test(line)).map((line) => line.slice(2)).join("\n");

/** What a block of changes leaves in the file. */
const changed = (text) => text.split("\n").filter((line) => !line.startsWith("-")).map((line) => line.replace(/^[+ ]/, "")).join("\n");

const TYPED = { "language-console": commands, "language-diff": changed };

for (const [language, typed] of Object.entries(TYPED)) {
  for (const block of document.querySelectorAll(`.${language} code`)) block.dataset.copy = typed(block.textContent);
}

// The picture comes back with the same button.
for (const button of document.querySelectorAll("button.live")) {
  const picture = button.closest("p").previousElementSibling;
  let stage = null;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    if (stage) {
      stage.replaceWith(picture);
      stage = null;
    } else {
      stage = document.createElement("iframe");
      stage.className = "stage";
      stage.title = "The stage";
      stage.src = button.dataset.stage;
      picture.replaceWith(stage);
    }
    button.setAttribute("aria-pressed", String(stage !== null));
    button.textContent = stage ? "Back to the picture" : "See it move";
  });
}
