// Opens the page of a report as a reader would, and prints what was seen as
// JSON. Arguments: file of the page, folder for pictures.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, pictures] = process.argv.slice(2);
const profile = await mkdtemp(join(tmpdir(), "keras_txl_report_"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.EDGE_CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
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
const seen = { console: [], requests: [], views: {} };
page.on("pageerror", (error) => seen.console.push(error.message));
page.on("console", (message) => seen.console.push(message.text()));
page.on("request", (request) => seen.requests.push(request.url()));

// Figures with the size that they are shown in, and what would be cut off.
const look = () =>
  page.evaluate(() => ({
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    figures: Object.fromEntries(
      [...document.querySelectorAll("section[id]")].map((section) => {
        const box = section.getBoundingClientRect();
        const svg = section.querySelector("svg")?.getBoundingClientRect();
        return [
          section.id,
          { width: box.width, height: box.height, svg: svg?.height ?? null },
        ];
      }),
    ),
    letters: Math.min(
      ...[...document.querySelectorAll("svg text")].map(
        (text) => text.getBoundingClientRect().height,
      ),
    ),
  }));
const shades = () =>
  page.evaluate(() => [
    ...new Set(
      [...document.querySelectorAll("pre b")].map(
        (piece) => getComputedStyle(piece).backgroundColor,
      ),
    ),
  ]);

try {
  for (const [name, width, height, colorScheme] of [
    ["desktop_light", 1280, 900, "light"],
    ["desktop_dark", 1280, 900, "dark"],
    ["phone_light", 360, 740, "light"],
    ["phone_dark", 360, 740, "dark"],
  ]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    await page.goto(pathToFileURL(file).href);
    seen.views[name] = await look();
    const path = join(pictures, `${name}.png`);
    await page.screenshot({ path, fullPage: true });
  }
  seen.title = await page.title();
  seen.shades = {};
  for (const reading of ["difference", "with", "without"]) {
    await page.click(`label[for=${reading}]`);
    seen.shades[reading] = await shades();
  }
  const piece = page.locator("pre b[data-d]").nth(20);
  await piece.scrollIntoViewIfNeeded();
  await piece.click();
  seen.told = await piece.evaluate((element) => ({
    content: getComputedStyle(element, "::after").content,
    position: getComputedStyle(element, "::after").position,
    without: element.dataset.o,
  }));
  await page.screenshot({ path: join(pictures, "tapped.png") });
  console.log(JSON.stringify(seen));
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}
