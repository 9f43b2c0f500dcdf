// The driver in JavaScript as a worker of `run.py`, in Node.js or Chromium.
//
//     node edge_worker.mjs CONFIG
//
// CONFIG is JSON: `runtime`, `folder`, `driver`, `packages` (node_modules),
// `address` of the page in a browser, `threads` and `prompt`.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Stream } from "./edge_stream.mjs";

const config = JSON.parse(process.argv[2]);
const require = createRequire(join(config.packages, "any.js"));
const versionOf = async (name) =>
  JSON.parse(await readFile(join(config.packages, name, "package.json"))).version;
const say = (answer) => console.log("@@" + JSON.stringify(answer));

async function openInNode() {
  const ort = require("onnxruntime-node");
  const { TransformerXL } = await import(pathToFileURL(config.driver));
  const read = (name) => readFile(join(config.folder, name));
  const stream = await Stream.open(ort, TransformerXL, read, config.threads, config.prompt);
  return {
    version: `onnxruntime-node ${await versionOf("onnxruntime-node")}`,
    burst: (seconds) => stream.burst(seconds),
    said: () => stream.said,
    close: () => {},
  };
}

async function openInChromium() {
  const { chromium } = require("playwright-core");
  const browser = await chromium.launch({
    executablePath: process.env.EDGE_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
  const page = await browser.newPage();
  await page.goto(config.address + "edge_stream.mjs"); // of the same origin
  await page.evaluate(async ({ threads, prompt }) => {
    const ort = await import("/ort/ort.wasm.min.mjs");
    ort.env.wasm.wasmPaths = "/ort/";
    ort.env.wasm.numThreads = threads;
    const { Stream } = await import("/edge_stream.mjs");
    const { TransformerXL } = await import("/transformer_xl.mjs");
    const read = async (name) =>
      new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer());
    globalThis.stream = await Stream.open(ort, TransformerXL, read, threads, prompt);
  }, config);
  const version = await versionOf("onnxruntime-web");
  return {
    version: `onnxruntime-web ${version}, Chromium ${browser.version()}`,
    burst: (seconds) => page.evaluate((s) => globalThis.stream.burst(s), seconds),
    said: () => page.evaluate(() => globalThis.stream.said),
    close: () => browser.close(),
  };
}

const open = { node: openInNode, chromium: openInChromium };
const subject = await open[config.runtime]();
await subject.burst(0.1);
say({ version: subject.version, n_params: 0, tokens_per_step: 1 });
for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith("quit")) break;
  const samples = await subject.burst(Number(line));
  const step = [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)];
  say({ samples, step });
}
const megabytes = process.memoryUsage.rss() / 2 ** 20;
say({ rss_mb: config.runtime === "node" ? megabytes : null, said: await subject.said() });
await subject.close();
