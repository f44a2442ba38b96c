// The host context of a View: theme, sizes, and the standard CSS variables.

export const DARK = matchMedia("(prefers-color-scheme: dark)");
const LEVELS = [
  "primary",
  "secondary",
  "tertiary",
  "inverse",
  "ghost",
  "info",
  "danger",
  "success",
  "warning",
  "disabled",
];
// The colours of the console for each kind, in the order of LEVELS.
const COLOURS = {
  background: ["page", "panel", "sunken", "text", "", "panel", "panel", "panel", "panel", "sunken"],
  text: ["text", "muted", "muted", "page", "muted", "accent", "bad", "ok", "warn", "muted"],
  border: ["edge", "edge", "sunken", "text", "", "accent", "bad", "ok", "warn", "sunken"],
  ring: ["accent", "edge", null, "page", null, "accent", "bad", "ok", "warn"],
};
const SIZES = {
  "font-weight": { normal: 400, medium: 500, semibold: 600, bold: 700 },
  "border-radius": { xs: "2px", sm: "4px", md: "6px", lg: "8px", xl: "12px", full: "9999px" },
  "border-width": { regular: "1px" },
};
const FONTS = {
  text: { xs: 0.75, sm: 0.85, md: 0.94, lg: 1.1 },
  heading: { xs: 0.9, sm: 0.95, md: 1.05, lg: 1.15, xl: 1.3, "2xl": 1.6, "3xl": 2 },
};
const SHADOWS = { hairline: "0 0 0 1px", sm: "0 1px 2px", md: "0 2px 6px", lg: "0 6px 18px" };

/** The 76 standard variables (MCP Apps, "Theming"), with the colours of this page for both themes. */
function variables() {
  const root = getComputedStyle(document.documentElement);
  const of = (name) => (name ? root.getPropertyValue(`--${name}`).trim() : "transparent");
  const all = { "--font-sans": "system-ui, sans-serif", "--font-mono": of("mono") };
  for (const [kind, names] of Object.entries(COLOURS))
    names.forEach((name, at) => {
      // The standard has no ring of this level.
      if (name === null) return;
      all[`--color-${kind}-${LEVELS[at]}`] = of(name);
    });
  for (const [kind, sizes] of Object.entries(SIZES))
    for (const [size, value] of Object.entries(sizes)) all[`--${kind}-${size}`] = String(value);
  for (const [kind, sizes] of Object.entries(FONTS)) {
    for (const [size, rem] of Object.entries(sizes)) {
      all[`--font-${kind}-${size}-size`] = `${rem}rem`;
      all[`--font-${kind}-${size}-line-height`] = kind === "text" ? "1.45" : "1.3";
    }
  }
  for (const [size, shape] of Object.entries(SHADOWS)) all[`--shadow-${size}`] = `${shape} ${of("edge")}`;
  return all;
}

/**
 * The fonts of this page as CSS. The policy of a View lets it fetch no font of the console, so that
 * only fonts of the system are offered.
 */
export const fonts = (sheets = document.styleSheets) =>
  [...sheets]
    .flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSFontFaceRule && !/url\(/i.test(rule.cssText))
    .map((rule) => rule.cssText)
    .join("\n");

/**
 * The host context of a View. `theme` is 'light', 'dark' or undefined for that of the page; `frame`
 * is the View's, once there is one.
 */
export function surroundings(container, { displayMode, theme, frame }) {
  const width = frame?.clientWidth || container.clientWidth || container.parentElement?.clientWidth || 600;
  return {
    theme: theme ?? (DARK.matches ? "dark" : "light"),
    styles: { variables: variables(), css: { fonts: fonts() } },
    displayMode,
    availableDisplayModes: ["inline", "fullscreen"],
    containerDimensions:
      displayMode === "fullscreen" ? { width, height: frame.clientHeight } : { width, maxHeight: 5000 },
    locale: navigator.language,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    userAgent: "marquetry-console",
    platform: "web",
    deviceCapabilities: { touch: matchMedia("(pointer: coarse)").matches, hover: matchMedia("(hover: hover)").matches },
  };
}
