/**
 * The page inside another one, as in the cell of a notebook: tells it what is looked at, and does what it says.
 *
 * This page sends {vfs: 1, view, detector}: the text behind # in the address, and the detector that is shown, since
 * none in the view is the automatic one; and {vfs: 1, wheel: {deltaX, deltaY, …}}, turns of a wheel that nothing here
 * takes. It takes {vfs: 1, want: {at, selection, detector, dark}}, of which any may lack. Only the page around this one
 * is listened to; the server says who may be that (frame-ancestors).
 */

const outside = window.parent === window ? null : window.parent;
let said = "";

/**
 * Tell the page around this one, if there is one, what is looked at.
 *
 * @param {string} view as text.
 * @param {string} detector as text; "" for none.
 */
export function tell(view, detector) {
  const text = `${view} ${detector}`;
  if (!outside || text === said) return;
  said = text;
  outside.postMessage({ vfs: 1, view, detector }, "*");
}

/** Tell the page around this one of turns of the wheel that nothing here takes. */
function hand(event) {
  if (event.defaultPrevented || scrolls(event.target, event.deltaY)) return;
  const { deltaX, deltaY, deltaMode, wheelDeltaX, wheelDeltaY } = event;
  outside.postMessage({ vfs: 1, wheel: { deltaX, deltaY, deltaMode, wheelDeltaX, wheelDeltaY } }, "*");
}

/** @returns {boolean} whether an element, or one around it, has yet to scroll that way. */
function scrolls(element, way) {
  if (!element) return false;
  const { scrollTop, scrollHeight, clientHeight } = element;
  const room = way < 0 ? scrollTop : scrollHeight - clientHeight - scrollTop;
  return (room >= 1 && /auto|scroll/.test(getComputedStyle(element).overflowY)) || scrolls(element.parentElement, way);
}

/**
 * Listen to the page around this one.
 *
 * @param {function(Object): void} wanted called with what is wanted.
 */
export function listen(wanted) {
  if (!outside) return;
  window.addEventListener("message", (event) => {
    const { data } = event;
    if (event.source === outside && data?.vfs === 1 && data.want) wanted(data.want);
  });
  window.addEventListener("wheel", hand, { passive: true });
}
