  // What to type to go on with the design in view: run it, measure it, get its Verilog.

  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'");
  /** Words of a command as a shell has them, where they are plain or within quotes. */
  const wordsOf = (command) => (command.match(/(?:[^\s'"\\]|'[^']*'|"[^"]*"|\\.)+/g) || []).map((word) => word.replace(/'([^']*)'|"([^"]*)"|\\(.)/g, (all, one, two, three) => one || two || three || ""));
  /** The networks of the study as its command names them, those that are programs: a table of layers is none. */
  function networkWords() {
    const words = wordsOf(D.command), found = [];
    words.forEach((word, i) => {
      if (word === "--network" || word === "-n") found.push(words[i + 1]);
      else if (word.startsWith("--network=")) found.push(word.slice(10));
    });
    return found.filter((word) => word && !/\.(csv|tsv|ya?ml)(:|$)/.test(word));
  }
  /** The folder of the study: that of this page, where it is a file. */
  const folder = () => (location.protocol === "file:" ? decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "") || "/" : ".");

  /** Commands for a design, each with what it does. */
  function commandsFor(id) {
    const c = D.candidates[id], study = quoted(folder());
    const machine = id === D.best ? study : c.label ? c.label : "accelerator.yaml";
    // `baco validate` takes the best mappings of each accelerator, the best accelerator first
    const rank = heads.filter((one) => !D.candidates[one].label).sort((a, b) => D.candidates[a].value - D.candidates[b].value || a - b).indexOf(id) + 1;
    const measured = c.label ? [["Measure it on its own Verilog, with the best design", "baco validate " + study + " --best 1 --spread 0 --baseline"]]
      : rank ? [["Measure it on its own Verilog" + (rank > 1 ? ", with the " + (rank === 2 ? "one" : rank - 1) + " before it" : ""), "baco validate " + study + " --best " + rank + " --spread 0"]] : [];
    return [
      ...networkWords().map((name) => ["Compile the whole network for it, run it, compare every operator's results", "baco run --network " + quoted(name) + " --accelerator " + machine + " --engine timed"]),
      ...measured,
      ["Write it as Verilog", "baco rtl " + machine + " --out accelerator.v"],
    ];
  }

  function showCommands() {
    const saved = chosen !== D.best && !D.candidates[chosen].label;
    $("next").replaceChildren(
      ...(saved ? [h("p", { class: "hint" }, "Save ", h("button", { type: "button", class: "link", onclick: saveAccelerator }, "accelerator.yaml"), " of this design first, where you type this.")] : []),
      ...commandsFor(chosen).map(([what, command]) => {
        const shown = h("pre", { tabindex: 0 }, command);
        return h("div", {}, h("p", { class: "hint" }, what + ":"), h("div", { class: "command" }, shown, copyButton("copy", () => command, () => shown)));
      }));
  }
