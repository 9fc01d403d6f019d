/**
 * What a pointer does in a picture: wheel and two fingers zoom, double click shows all, dragging is offered to
 * tools in turn, and else moves the picture.
 */

const PINCHED = 5; // times: browsers send two fingers on a touchpad as small turns of a wheel, with Ctrl

/**
 * Listen to the pointer.
 *
 * @param {Picture} picture
 * @param {Array<function([number, number], PointerEvent): ?{move: Function, end?: Function}>} tools each is asked, with
 *   the place under the pointer, if it takes this drag; `move` gets places, `end` the last one.
 * @param {function(?[number, number])} hovered called with the place under the pointer, and with null when it left.
 */
export function listen(picture, tools, hovered) {
  const { stage } = picture;
  let drag = null;
  let over = null; // the place under the pointer
  const fingers = new Map();
  const tell = (place) => hovered((over = place));
  picture.again = () => over && hovered(over);

  stage.addEventListener("pointerdown", (event) => {
    if (event.button > 1 || !picture.numbers) return;
    if (event.pointerType === "touch") fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      drag?.end?.(picture.under(event), event);
      drag = pinching(picture, fingers);
      return;
    }
    if (drag) return;
    const place = picture.under(event);
    const moves = event.shiftKey || event.button === 1;
    drag = (!moves && tools.reduce((taken, tool) => taken || tool(place, event), null)) || moving(picture, event);
    stage.focus({ preventScroll: true });
    stage.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  stage.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    const place = picture.under(event);
    drag?.move(place, event);
    tell(place);
  });
  const end = (event) => {
    drag?.end?.(picture.under(event), event);
    drag = null;
    fingers.delete(event.pointerId);
  };
  stage.addEventListener("pointerup", end);
  stage.addEventListener("pointercancel", end);
  stage.addEventListener("pointerleave", () => tell(null));
  stage.addEventListener("dblclick", () => picture.reset());
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!picture.numbers) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const fast = event.ctrlKey ? PINCHED : 1;
      picture.zoomBy(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines * fast)) * 0.002), picture.under(event));
    },
    { passive: false },
  );
}

/** Zoom and move a picture by two fingers: the places under them stay under them. */
function pinching(picture, fingers) {
  const both = () => {
    const [a, b] = [...fingers.values()];
    return { far: Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)), middle: { clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 } };
  };
  let before = both();
  return {
    move: () => {
      if (fingers.size < 2) return;
      const now = both();
      const [was, is] = [before.middle, now.middle].map((at) => picture.under(at));
      const [cy, cx] = picture.centre();
      picture.moveTo(cy + was[0] - is[0], cx + was[1] - is[1]);
      picture.zoomBy(now.far / before.far, picture.under(now.middle));
      before = now;
    },
  };
}

function moving(picture, first) {
  const [cy, cx] = picture.centre();
  const [sy, sx] = picture.scale().map((s) => s * picture.unit());
  return {
    move: (_, event) =>
      picture.moveTo(cy - ((event.clientY - first.clientY) / sy) * picture.down, cx - (event.clientX - first.clientX) / sx),
  };
}
