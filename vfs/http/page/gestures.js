/**
 * What a pointer does in a picture: wheel zooms, double click shows all, dragging is offered to
 * tools in turn, and else moves the picture.
 */

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

  stage.addEventListener("pointerdown", (event) => {
    if (event.button > 1 || !picture.numbers || drag) return;
    const place = picture.under(event);
    const moves = event.shiftKey || event.button === 1;
    drag = (!moves && tools.reduce((taken, tool) => taken || tool(place, event), null)) || moving(picture, event);
    stage.focus({ preventScroll: true });
    stage.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  stage.addEventListener("pointermove", (event) => {
    const place = picture.under(event);
    drag?.move(place, event);
    hovered(place);
  });
  const end = (event) => {
    drag?.end?.(picture.under(event), event);
    drag = null;
  };
  stage.addEventListener("pointerup", end);
  stage.addEventListener("pointercancel", end);
  stage.addEventListener("pointerleave", () => hovered(null));
  stage.addEventListener("dblclick", () => picture.reset());
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!picture.numbers) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      picture.zoomBy(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * 0.002), picture.under(event));
    },
    { passive: false },
  );
}

function moving(picture, first) {
  const [cy, cx] = picture.centre();
  const [sy, sx] = picture.scale();
  return {
    move: (_, event) =>
      picture.moveTo(cy - ((event.clientY - first.clientY) / sy) * picture.down, cx - (event.clientX - first.clientX) / sx),
  };
}
