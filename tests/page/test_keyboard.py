"""The page without a mouse: all that can be used takes the focus by Tab, has a name, and shows that it is focused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, patterns, scan_in

Browse = Callable[..., Browsed]

LISTENED = """
    window.listened = new Set();
    const add = EventTarget.prototype.addEventListener;
    EventTarget.prototype.addEventListener = function (kind, ...how) {
        if (this instanceof Element && ["click", "pointerdown", "change", "input"].includes(kind)) listened.add(this);
        return add.call(this, kind, ...how);
    };
"""
USABLE = """() => {
    const tags = "button, input, select, textarea, summary, a[href], [role=slider], [tabindex='0']";
    const seen = (one) => one.isConnected && one.checkVisibility({ visibilityProperty: true }) && !one.disabled;
    const all = [...document.querySelectorAll(tags)].filter(seen);
    const beside = (one) => !one.matches(tags) && !one.querySelector(tags) && !one.closest(tags);
    const around = [...listened].filter((one) => seen(one) && beside(one));
    [...all, ...around].forEach((one, k) => (one.dataset.usable = String(k)));
    return all.length + around.length;
}"""
OVER = """() => {
    const seen = (one) => one.checkVisibility() && !one.closest(".sheet-body");
    const tools = ":is(.tools, .side, .axes) :is(button, input, select, summary)";
    const all = [...document.querySelectorAll(tools)].filter(seen);
    const boxes = all.map((one) => [one.getAttribute("aria-label") ?? one.textContent, one.getBoundingClientRect()]);
    const beside = (p, q) => p.right < q.left + 1 || p.bottom < q.top + 1;
    const across = (p, q) => !beside(p, q) && !beside(q, p);
    return boxes.flatMap(([a, p], k) => boxes.slice(k + 1).filter(([, q]) => across(p, q)).map(([b]) => `${a}, ${b}`));
}"""
FOCUSED = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const framed = [one, one.closest(".frame-box"), one.parentElement].some((at) => {
        const { outlineStyle, outlineWidth } = at ? getComputedStyle(at) : {};
        return at && outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    });
    const label = one.labels?.length ? one.labels[0].textContent : "";
    const text = one.matches("input, select") ? "" : one.textContent;
    const name = (one.getAttribute("aria-label") || label || text).trim();
    return [one.dataset.usable ?? "", name, framed, one.outerHTML.slice(0, 120)];
}"""


def walk(page: Browsed) -> int:
    """Go through all of the page by Tab. Returns: how much of it can be used."""
    count: int = page.page.evaluate(USABLE)
    assert count
    page.page.evaluate("() => document.activeElement.blur()")
    reached: set[str] = set()
    for _ in range(2 * count):
        if len(reached) == count:
            break
        page.press("Tab")
        found = page.page.evaluate(FOCUSED)
        if found is None:
            continue
        at, name, framed, html = found
        assert name, f"without a name: {html}"
        assert framed, f"does not show that it has the focus: {html}"
        reached |= {at} if at else set()
    left = page.page.evaluate(
        """(there) => [...document.querySelectorAll("[data-usable]")]
            .filter((one) => !there.includes(one.dataset.usable))
            .map((one) => one.outerHTML.slice(0, 120))""",
        list(reached),
    )
    assert not left
    page.page.evaluate("""() => {
        document.activeElement.blur();
        for (const one of document.querySelectorAll("[data-usable]")) delete one.dataset.usable;
    }""")
    return count


def focused(page: Browsed) -> str:
    """Return the name of what has the focus."""
    return str(page.page.evaluate("() => document.activeElement.getAttribute('aria-label')"))


def steered(page: Browsed) -> None:
    """Steer panels, dialogs, lines, regions and limits by keys: what is closed gives the focus back to what had it."""
    data = ("Data: correct scan, axes, steps", "Data", ("Tab", "Escape"))
    for name, panel, keys in (data, ("Metadata", "Metadata", ("Tab", "Escape", "Escape"))):  # a field is left first
        page.named("button", name).press("Enter")
        assert focused(page) == panel
        page.wait("document.querySelector('.side.facts:not([hidden]) input')")
        page.press(*keys)
        assert focused(page) == name
        assert not page.page.locator(".side:visible").count()
    page.named("button", "Another detector, beside this one").press("Enter")
    page.named("button", "Leave this detector out").press("Enter")
    assert focused(page) == "Another detector, beside this one"
    menu = page.page.locator("summary[aria-label='Frame: take away']")
    menu.press("Enter")
    page.named("button", "Python that makes it").press("Enter")
    page.wait("document.querySelector('dialog textarea')")
    page.press("Escape")
    assert focused(page) == "Frame: take away"
    stage = page.page.locator(".frame-panel .stage")
    stage.focus()
    detector = page.state("detector")
    page.press("d", "Escape", "p", "ArrowDown", "ArrowRight", "]", "}")
    ends = page.named("textbox", "Frame profile: ends")
    assert ends.input_value() == "14.5, 5.8 to 14.5, 29.2"  # from 4.8 to 27.2 in row 15.5, of a frame drawn upwards
    assert page.named("spinbutton", "Frame profile: width in pixels").input_value() == "2"
    page.press("r", "ArrowUp", "[")
    assert page.named("textbox", "Frame region").input_value() == "rectangle(9, 8, 24, 23)"
    page.press("Escape")
    assert page.state("detector") == detector
    page.press("ArrowUp")
    assert page.state("detector") != detector
    low = page.page.get_by_role("slider", name="Frame: lower limit")
    low.press("ArrowRight")
    assert page.page.evaluate("() => vfs.frame.contrast.lo") > 0
    low.press("Home")
    assert page.page.evaluate("() => vfs.frame.contrast.lo") == 0
    across = page.page.get_by_role("slider", name="scan_x", exact=True)
    for key, at in (("End", 7), ("Home", 0), ("PageUp", 1)):
        across.press(key)
        page.wait(f"vfs.state.at[1] === {at}" if key != "PageUp" else "vfs.state.at[1] > 0")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kinds")
    scan_in(folder, patterns((6, 8)))
    with h5py.File(folder / "spectra.hspy", "w") as file:
        file["one/data"] = np.random.default_rng(3).poisson(9, (4, 5, 300))
        for k, (name, unit, step) in enumerate([("y", "nm", 1.0), ("x", "nm", 1.0), ("Energy", "eV", 2.0)]):
            about = {"name": name, "scale": step, "offset": 300.0 * (k == 2), "units": unit, "navigate": k < 2}
            file.create_group(f"one/axis-{k}").attrs.update(about)
    np.save(folder / "stack.npy", np.arange(3000.0).reshape(5, 20, 30))
    said = {"axes": "CYX", "Channel": {"Name": ["Carbon", "Oxygen"], "Color": [-16776961, 16711935]}}
    layers = np.arange(2400, dtype="u2").reshape(2, 30, 40)
    tifffile.imwrite(folder / "layers.ome.tif", layers, photometric="minisblack", metadata=said)
    np.save(folder / "image.npy", np.arange(600.0).reshape(20, 30))
    (folder / "what.bin").write_bytes(bytes(1000))
    with vfs.serve(folder, tree=True, port=0) as server:
        yield server.url


KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "folder": ("", ()),
    "scan": ("set=scan.zarr&array=data", ("n", "6", "m", "d", "s")),
    "spectrum": ("set=spectra.zarr&elements=O&detector=rectangle(0,120,1,200)", ("n", "b", "k", "d")),
    "stack": ("set=stack.zarr", ("o", "p", "r")),
    "layers": ("set=layers.zarr", ("d",)),
    "image": ("set=image.zarr", ("r", "m", "d")),
}
"""Views of each kind: where they are, and the keys that show more of them."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ("scan", "spectrum") else pytest.mark.thorough) for kind in KINDS]
)
def test_all_of_a_page_is_used_by_keys(browse: Browse, url: str, kind: str) -> None:
    place, keys = KINDS[kind]
    page = browse(url, dark=kind in ("scan", "stack"))
    page.page.add_init_script(LISTENED)
    page.open(place)
    page.wait(
        "window.vfs && (vfs.frame.status === 'exact' || document.querySelectorAll('.folder-list .entry').length > 3)"
    )
    page.wait("document.querySelector('.scan-panel').hidden || ['', 'exact'].includes(vfs.scan.status)")
    before = walk(page)
    for key in keys:
        page.press(key)
    if "d" in keys:  # what comes later takes the place of what has the focus
        page.wait("document.querySelector('.data-foot button') && !document.querySelector('.guesses > .quiet')")
    assert walk(page) > before or not keys
    for sheet in page.page.locator("details.sheet > summary").all():
        if not sheet.is_visible():
            continue
        sheet.press("Enter")
        assert walk(page) > before
        sheet.press("Escape")
        assert not page.page.locator("details.sheet[open]").count()
    if kind == "scan":
        steered(page.open(place).settled())
    if (
        kind == "scan"
    ):  # text of each size, beside panels: no tool lies over another one, and of panels the last ones stay
        page.open(place).settled().press("s", "m", "d")
        for size, panels in (("1.25", 2), ("1.5", 1), ("2", 1)):
            page.press("z")
            page.wait(f"getComputedStyle(document.documentElement).getPropertyValue('--zoom') === '{size}'")
            assert page.page.locator(".side:visible").count() == panels
            assert page.page.locator(".side.data").is_visible()
            assert not page.page.evaluate(OVER)
    page.close()
