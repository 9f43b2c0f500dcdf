// The page: loads the model, streams text, keeps the stream in the browser.

import * as ort from "./ort/ort.wasm.min.mjs";
import { forget, keep, recall } from "./session_store.mjs";
import { TransformerXL } from "./transformer_xl.mjs";

const SHOWN = 20000; // characters of the text that stay on the page
const PAINT = 50; // milliseconds between two looks at the page
const KEEP = 1000; // milliseconds between two saved states
const SETTINGS = ["prompt", "temperature", "top-k", "top-p", "seed"];

const element = (id) => document.getElementById(id);
const number = (id) => Number(element(id).value);

let model;
let memory;
let text = "";
let running = false;

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
// Threads need a page that is isolated; the README says how.
ort.env.wasm.numThreads = self.crossOriginIsolated
  ? Math.min(4, navigator.hardwareConcurrency)
  : 1;

function tell(message, isError = false) {
  element("state").textContent = message;
  element("state").classList.toggle("error", isError);
}

function mebibytes(bytes) {
  return `${(bytes / 2 ** 20).toPrecision(3)} MiB`;
}

function show(speed) {
  const output = element("text");
  output.textContent = text;
  output.scrollTop = output.scrollHeight;
  element("position").textContent = memory.position;
  element("memory").textContent = mebibytes(model.memoryBytes);
  if (speed) element("speed").textContent = speed.toFixed(1);
  if (performance.memory) {
    element("heap").textContent = mebibytes(performance.memory.usedJSHeapSize);
  }
}

function enable() {
  element("start").disabled = running;
  element("start").textContent = memory.position ? "Continue" : "Start";
  element("stop").disabled = !running;
  element("anew").disabled = running || !memory.position;
  // A stream goes on from what it has read; a prompt is for a new one.
  element("prompt").disabled = running || memory.position > 0;
  element("seed").disabled = running || memory.position > 0;
}

function keepState() {
  const settings = Object.fromEntries(
    SETTINGS.map((id) => [id, element(id).value]),
  );
  return keep({ text, running, settings, memory: model.saveMemory(memory) });
}

async function run() {
  let prompt = "";
  if (!memory.position) {
    prompt = element("prompt").value || "\n";
    memory = model.newMemory(number("seed"));
    text = prompt;
  }
  running = true;
  enable();
  tell("Running.");
  let begin = performance.now();
  let kept = begin;
  let tokens = memory.position;
  try {
    const settings = {
      temperature: number("temperature"),
      topK: number("top-k"),
      topP: number("top-p"),
    };
    for await (const piece of model.generate(prompt, memory, settings)) {
      text = (text + piece).slice(-SHOWN);
      const now = performance.now();
      if (now - begin > PAINT) {
        show((1000 * (memory.position - tokens)) / (now - begin));
        if (now - kept > KEEP) {
          await keepState();
          kept = now;
        }
        await new Promise((resolve) => setTimeout(resolve));
        begin = performance.now();
        tokens = memory.position;
      }
      if (!running) break;
    }
    tell("Stopped.");
  } catch (error) {
    tell(error.message, true);
  }
  running = false;
  show();
  enable();
  await keepState();
}

async function load() {
  model = await TransformerXL.load(
    ort,
    async (name) => {
      const response = await fetch(new URL(`./model/${name}`, import.meta.url));
      if (!response.ok) throw new Error(`${name}: status ${response.status}`);
      return new Uint8Array(await response.arrayBuffer());
    },
    { executionProviders: ["wasm"] },
  );
  memory = model.newMemory();
  const kept = await recall();
  if (kept) {
    try {
      memory = model.loadMemory(kept.memory);
      text = kept.text;
      for (const id of SETTINGS) element(id).value = kept.settings[id];
    } catch {
      await forget(); // of another model
    }
  }
  show();
  enable();
  const { num_layers: layers, memory_length: length } = model.manifest.model;
  tell(`Ready: ${layers} layers, ${length} tokens of memory.`);
  if (kept?.running && memory.position) run();
}

element("settings").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
element("stop").addEventListener("click", () => {
  running = false;
});
element("anew").addEventListener("click", async () => {
  memory = model.newMemory();
  text = "";
  await forget();
  show();
  enable();
  tell("Ready.");
});
load().catch((error) => tell(error.message, true));
