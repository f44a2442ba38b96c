// A picture that is moved and made larger: by pointer, wheel and keys.

const LEAST = 0.05;
const MOST = 40;

/** The place and scale at which a picture is seen whole, and not larger than it is. */
export function fitted(picture, frame) {
  const scale = Math.min(1, frame.width / picture.width, frame.height / picture.height);
  return centred(picture, frame, bounded(scale));
}

/** The same picture at another scale, around a point of the frame that stays where it is. */
export function zoomed(place, factor, x, y) {
  const scale = bounded(place.scale * factor);
  const change = scale / place.scale;
  return { scale, x: x - (x - place.x) * change, y: y - (y - place.y) * change };
}

/** The same place, with a part of the picture kept in the frame. */
export function kept(place, picture, frame) {
  const SEEN = 24;
  const clamp = (value, size, room) => Math.min(room - SEEN, Math.max(SEEN - size, value));
  return {
    scale: place.scale,
    x: clamp(place.x, picture.width * place.scale, frame.width),
    y: clamp(place.y, picture.height * place.scale, frame.height),
  };
}

function centred(picture, frame, scale) {
  return { scale, x: (frame.width - picture.width * scale) / 2, y: (frame.height - picture.height * scale) / 2 };
}

function bounded(scale) {
  return Math.min(MOST, Math.max(LEAST, Number.isFinite(scale) && scale > 0 ? scale : 1));
}

/**
 * Makes a picture in a frame movable. The frame is focusable; `buttons` are those of a toolbar by
 * what they do: "in", "out", "fit" and "whole" (its actual size). `changed` receives the scale.
 */
export class PanZoom {
  #frame;
  #image;
  #place = { scale: 1, x: 0, y: 0 };
  #isFitted = true;
  #changed;

  constructor(frame, image, buttons, changed = () => {}) {
    this.#frame = frame;
    this.#image = image;
    this.#changed = changed;
    image.draggable = false;
    buttons.in?.addEventListener("click", () => this.zoom(1.25));
    buttons.out?.addEventListener("click", () => this.zoom(0.8));
    buttons.fit?.addEventListener("click", () => this.fit());
    buttons.whole?.addEventListener("click", () => this.wholeSize());
    frame.addEventListener("keydown", (event) => this.#key(event));
    frame.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    frame.addEventListener("pointerdown", (event) => this.#grab(event));
    frame.addEventListener("dblclick", () => (this.#isFitted ? this.wholeSize() : this.fit()));
    new ResizeObserver(() => (this.#isFitted ? this.fit() : this.#show())).observe(frame);
  }

  /** Shows a new picture. The place is kept if the picture before was moved and has the same shape. */
  load(keepsPlace) {
    if (keepsPlace && !this.#isFitted) this.#show();
    else this.fit();
  }

  fit() {
    this.#isFitted = true;
    this.#place = fitted(this.#size(), this.#room());
    this.#show();
  }

  wholeSize() {
    this.#isFitted = false;
    this.#place = centred(this.#size(), this.#room(), 1);
    this.#show();
  }

  zoom(factor, x = this.#frame.clientWidth / 2, y = this.#frame.clientHeight / 2) {
    this.#isFitted = false;
    this.#place = zoomed(this.#place, factor, x, y);
    this.#show();
  }

  move(x, y) {
    this.#isFitted = false;
    this.#place = { ...this.#place, x: this.#place.x + x, y: this.#place.y + y };
    this.#show();
  }

  #size() {
    // An SVG without a size has that of a replaced element.
    return { width: this.#image.naturalWidth || 300, height: this.#image.naturalHeight || 150 };
  }

  #room() {
    return { width: Math.max(1, this.#frame.clientWidth), height: Math.max(1, this.#frame.clientHeight) };
  }

  #show() {
    const size = this.#size();
    this.#place = kept(this.#place, size, this.#room());
    const { scale, x, y } = this.#place;
    // Width and height, not a scale: a drawing is drawn again and stays sharp.
    this.#image.style.width = `${size.width * scale}px`;
    this.#image.style.height = `${size.height * scale}px`;
    this.#image.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
    this.#changed(scale);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 160 : 40;
    const actions = {
      ArrowLeft: () => this.move(step, 0),
      ArrowRight: () => this.move(-step, 0),
      ArrowUp: () => this.move(0, step),
      ArrowDown: () => this.move(0, -step),
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      0: () => this.fit(),
      1: () => this.wholeSize(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #wheel(event) {
    // A plain wheel scrolls the conversation around the View; with Ctrl (or a pinch on a touchpad) it zooms.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.#frame.getBoundingClientRect();
    this.zoom(
      Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 150),
      event.clientX - box.left,
      event.clientY - box.top,
    );
  }

  #grab(event) {
    if (event.button !== 0 || event.target.closest("button")) return;
    this.#frame.setPointerCapture(event.pointerId);
    this.#frame.dataset.grabbed = "";
    let { clientX, clientY } = event;
    const move = (next) => {
      this.move(next.clientX - clientX, next.clientY - clientY);
      ({ clientX, clientY } = next);
    };
    const release = () => {
      delete this.#frame.dataset.grabbed;
      this.#frame.removeEventListener("pointermove", move);
      this.#frame.removeEventListener("pointerup", release);
      this.#frame.removeEventListener("pointercancel", release);
    };
    this.#frame.addEventListener("pointermove", move);
    this.#frame.addEventListener("pointerup", release);
    this.#frame.addEventListener("pointercancel", release);
  }
}
