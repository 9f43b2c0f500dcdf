// The driver on the command line of Node.js:
//
//     npm install            (in this folder)
//     node generate.mjs MODEL_FOLDER --prompt "Once upon a time"

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import ort from "onnxruntime-node";
import { TransformerXL } from "./transformer_xl.mjs";

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
    },
  });
  if (positionals.length !== 1) {
    throw new Error("Pass one model folder: node generate.mjs MODEL_FOLDER");
  }
  const [folder] = positionals;
  const model = await TransformerXL.load(ort, (name) => readFile(join(folder, name)), {
    intraOpNumThreads: Number(values.threads),
  });
  let memory = model.newMemory(Number(values.seed));
  let prompt = values.prompt ?? "\n";
  if (values["load-memory"]) {
    memory = model.loadMemory(await readFile(values["load-memory"]));
    prompt = values.prompt ?? "";
  }
  const settings = {
    maxNewTokens: values.length === undefined ? Infinity : Number(values.length),
    temperature: Number(values.temperature),
    topK: Number(values["top-k"]),
    topP: Number(values["top-p"]),
  };
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
