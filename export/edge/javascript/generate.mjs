// The driver on the command line of Node.js:
//
//     npm install            (in this folder)
//     node generate.mjs MODEL_FOLDER --prompt "Once upon a time"

import { readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import ort from "onnxruntime-node";
import { TransformerXL } from "./transformer_xl.mjs";

const USAGE = `node generate.mjs MODEL_FOLDER [options]
  --prompt TEXT       (default: a new line)
  --length N          tokens (default: no end)
  --temperature X     (default: 1)
  --top-k N           0: all (default)
  --top-p X           (default: 1)
  --seed N            of a new memory (default: 0)
  --threads N         0: all (default)
  --load-memory FILE
  --save-memory FILE`;

const COUNT = { pattern: /^\d+$/, words: "a whole number from 0" };
const INTEGER = { pattern: /^-?\d+$/, words: "a whole number" };
const REAL = { pattern: /^-?\d*\.?\d+(e[-+]?\d+)?$/i, words: "a number" };

function number(values, name, { pattern, words }) {
  if (!pattern.test(values[name])) {
    throw new Error(`--${name} must be ${words}. Received: ${values[name]}.`);
  }
  return Number(values[name]);
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      prompt: { type: "string" },
      length: { type: "string" },
      temperature: { type: "string", default: "1" },
      "top-k": { type: "string", default: "0" },
      "top-p": { type: "string", default: "1" },
      seed: { type: "string", default: "0" },
      threads: { type: "string", default: "0" },
      "load-memory": { type: "string" },
      "save-memory": { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  if (positionals.length !== 1) {
    throw new Error("Pass one model folder: node generate.mjs MODEL_FOLDER");
  }
  const [folder] = positionals;
  const settings = {
    maxNewTokens: values.length === undefined ? Infinity : number(values, "length", COUNT),
    temperature: number(values, "temperature", REAL),
    topK: number(values, "top-k", COUNT),
    topP: number(values, "top-p", REAL),
  };
  const seed = number(values, "seed", INTEGER);
  const threads = number(values, "threads", COUNT);
  for (const name of ["load-memory", "save-memory"]) {
    const place = dirname(values[name] ?? ".");
    const found = await stat(place).catch(() => null);
    if (!found?.isDirectory()) {
      throw new Error(`The folder of a memory must exist. Received: ${place}.`);
    }
  }
  const model = await TransformerXL.load(ort, (name) => readFile(join(folder, name)), {
    intraOpNumThreads: threads,
  });
  let memory = model.newMemory(seed);
  let prompt = values.prompt ?? "\n";
  if (values["load-memory"]) {
    memory = model.loadMemory(await readFile(values["load-memory"]));
    prompt = values.prompt ?? "";
  }
  let stopped = false;
  process.once("SIGINT", () => (stopped = true));
  process.stdout.on("error", (error) => {
    if (error.code !== "EPIPE") throw error;
    stopped = true; // `... | head`
  });
  for await (const text of model.generate(prompt, memory, settings)) {
    process.stdout.write(text);
    if (stopped) break;
  }
  process.stdout.write("\n");
  if (values["save-memory"]) {
    const partial = `${values["save-memory"]}.partial`;
    await writeFile(partial, model.saveMemory(memory));
    await rename(partial, values["save-memory"]);
  }
}

main().catch((error) => {
  console.error(`generate.mjs: ${error.message}`);
  process.exitCode = 1;
});
