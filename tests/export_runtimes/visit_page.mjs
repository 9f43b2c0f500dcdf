// Visits the page as a reader would, and prints what was seen as JSON.
// Arguments: address, prompt, number of tokens, temperature, folder for pictures.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [address, prompt, tokens, temperature, pictures] = process.argv.slice(2);
const profile = await mkdtemp(join(tmpdir(), "keras_txl_browser_"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.EDGE_CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  viewport: { width: 1000, height: 800 },
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const page = context.pages()[0] ?? (await context.newPage());
const seen = { console: [] };
page.on("pageerror", (error) => seen.console.push(error.message));
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) {
    seen.console.push(message.text());
  }
});

const look = () =>
  page.evaluate(() => {
    const text = (id) => document.getElementById(id).textContent;
    return {
      text: text("text"),
      state: text("state"),
      position: Number(text("position")),
      speed: Number(text("speed")),
      memory: text("memory"),
    };
  });
const position = (least) =>
  page.waitForFunction(
    (least) => Number(document.getElementById("position").textContent) >= least,
    least,
    { timeout: 240000 },
  );

try {
  await page.goto(address);
  await page.waitForSelector("#start:enabled", { timeout: 60000 });
  await page.fill("#prompt", prompt);
  await page.fill("#temperature", temperature);
  await page.click("#start");
  await position(60);
  await page.waitForTimeout(1500); // a state is kept every second
  seen.before_reload = await look();
  await page.reload();
  await page.waitForSelector("#stop:enabled", { timeout: 60000 });
  seen.restored_while_running = true; // it goes on by itself
  seen.after_reload = await look();
  await position(Number(tokens) + 100);
  await page.click("#stop");
  await page.waitForSelector("#start:enabled");
  seen.at_the_end = await look();
  seen.paper = {};
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.screenshot({ path: join(pictures, `${scheme}.png`) });
    seen.paper[scheme] = await page.evaluate(
      () => getComputedStyle(document.body).backgroundColor,
    );
  }
  await page.setViewportSize({ width: 360, height: 740 });
  await page.screenshot({ path: join(pictures, "phone.png"), fullPage: true });
  seen.overflow_on_a_phone = await page.evaluate(
    () => document.documentElement.scrollWidth - window.innerWidth,
  );
  console.log(JSON.stringify(seen));
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}
