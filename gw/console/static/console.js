// What pages do beside being read: times in the reader's zone, live figures, copies, the playground.
"use strict";
(() => {
  const zone = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });
  for (const one of document.querySelectorAll("time[datetime]")) {
    const at = new Date(one.dateTime);
    if (!Number.isNaN(at.getTime())) {
      one.title = one.textContent;
      one.textContent = zone.format(at);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      getSelection().selectAllChildren(source); // no secure context: the reader copies
    }
  });

  // Live figures: one event a second, texts as they are to be shown.
  const board = document.getElementById("board");
  if (board) {
    const live = document.getElementById("live");
    const lines = new Map();
    const draw = (name, value) => {
      const values = lines.get(name) ?? [];
      values.push(value);
      if (values.length > 90) values.shift();
      lines.set(name, values);
      const most = Math.max(...values, 1e-9);
      const points = values.map((one, index) => `${(index * 300) / 89},${46 - (one / most) * 42}`);
      document.getElementById(`l-${name}`)?.setAttribute("points", points.join(" "));
    };
    const set = (node, text) => {
      if (node && node.textContent !== String(text)) node.textContent = text;
    };
    const source = new EventSource(board.dataset.stream);
    source.onmessage = (event) => {
      const { values, tiles } = JSON.parse(event.data);
      set(live, live.dataset.live);
      for (const [name, text] of Object.entries(values)) {
        if (name === "line") for (const [line, value] of Object.entries(text)) draw(line, value);
        else set(document.getElementById(`v-${name}`), text);
      }
      for (const tile of tiles) {
        const node = [...document.querySelectorAll("[data-channel]")].find((one) => one.dataset.channel === tile.id);
        if (!node) continue;
        node.className = `tile ${tile.state}`;
        for (const part of node.querySelectorAll("[data-part]")) {
          const name = part.dataset.part;
          if (name === "meter") { part.max = tile.slots; part.value = tile.in_use; } else set(part, tile[name]);
        }
      }
    };
    source.onerror = () => set(live, live.dataset.lost);
    addEventListener("pagehide", () => source.close());
  }

  // The playground: the response as it comes, its events beside it.
  const play = document.getElementById("play");
  if (play) {
    const [text, raw, state, cost] = ["text", "raw", "state", "cost"].map((id) => document.getElementById(`play-${id}`));
    const button = play.querySelector("button");
    const pieces = (value) => {
      if (Array.isArray(value)) return value.map(pieces).join("");
      if (!value || typeof value !== "object") return "";
      if (typeof value.delta === "string") return value.type?.endsWith("output_text.delta") ? value.delta : "";
      if (value.choices) return value.choices.map((one) => one.delta?.content ?? one.message?.content ?? "").join("");
      if (value.candidates) return value.candidates.map((one) => (one.content?.parts ?? []).map((part) => part.text ?? "").join("")).join("");
      if (value.type === "content_block_delta") return value.delta?.text ?? "";
      if (value.type === "message" && Array.isArray(value.content)) return value.content.map((one) => one.text ?? "").join("");
      if (Array.isArray(value.output)) return value.output.flatMap((one) => one.content ?? []).map((one) => one.text ?? "").join("");
      return "";
    };
    play.addEventListener("submit", async (event) => {
      event.preventDefault();
      text.textContent = raw.textContent = cost.textContent = "";
      state.textContent = play.dataset.waiting;
      button.disabled = true;
      let rest = "", whole = "";
      try {
        const response = await fetch(play.action, { method: "POST", body: new URLSearchParams(new FormData(play)) });
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          raw.append(value);
          whole += value;
          rest += value;
          const lines = rest.split("\n");
          rest = lines.pop();
          for (const line of lines) {
            if (!line.startsWith("data:") || line.includes("[DONE]")) continue;
            try { text.append(pieces(JSON.parse(line.slice(5)))); } catch { /* a piece of an event that is not JSON is shown raw */ }
          }
        }
        if (!text.textContent) {
          try {
            const body = JSON.parse(whole);
            text.textContent = pieces(body) || body.error?.message || "";
          } catch { text.textContent = response.ok ? "" : whole.slice(0, 2000); }
        }
        state.textContent = `${response.status} · ${response.headers.get("x-gateway-trace") ?? ""}`;
        const trace = response.headers.get("x-call-trace");
        if (trace) {
          const bill = await fetch(`/playground/cost?trace=${trace}`);
          if (bill.ok) {
            const found = await bill.json();
            cost.replaceChildren(Object.assign(document.createElement("a"), { href: found.href, textContent: found.text }));
          }
        }
      } catch (error) {
        state.textContent = play.dataset.failed;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
