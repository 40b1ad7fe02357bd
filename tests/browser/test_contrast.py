"""What our pages say can be read by those who see little: computed from what the browser shows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Page

from testproject.people import PASSWORD
from testproject.servers import free_port
from tests.helpers.browsing import Visitor, sign_in
from tests.helpers.outages import caches
from tests.helpers.shop import use_our_templates

pytestmark = pytest.mark.slow


# Of all text inside of what the selector finds: where its contrast with what is behind it is below that of WCAG's AA.
TOO_WEAK = """
selector => {
    const numbers = colour => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a] };
    const over = (top, under) => top.slice(0, 3).map((part, i) => part * top[3] + under[i] * (1 - top[3]));
    const luminance = colour => {
        const [r, g, b] = colour.map(part => part / 255).map(
            part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.backgroundColor = "Canvas";
    const canvas = numbers(getComputedStyle(probe).backgroundColor).slice(0, 3);
    probe.remove();
    const around = element => element ? [...around(element.parentElement), element] : [];
    const weak = [];
    const look = (element, text) => {
        if (!text.trim() || !element.checkVisibility({ visibilityProperty: true })) return;
        const style = getComputedStyle(element), chain = around(element);
        const behind = chain.reduce(
            (under, each) => over(numbers(getComputedStyle(each).backgroundColor), under), canvas);
        const front = numbers(element instanceof SVGElement ? style.fill : style.color);
        front[3] *= chain.reduce((product, each) => product * getComputedStyle(each).opacity, 1);
        const [low, high] = [luminance(over(front, behind)), luminance(behind)].sort((one, other) => one - other);
        const size = parseFloat(style.fontSize), contrast = (high + 0.05) / (low + 0.05);
        const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
        if (contrast < needed) weak.push(`${text.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
        seen += 1;
    };
    let seen = 0;
    for (const part of document.querySelectorAll(selector)) {
        const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) look(texts.currentNode.parentElement, texts.currentNode.data);
        for (const button of part.querySelectorAll("input[type=submit]")) look(button, button.value);
    }
    return [seen, [...new Set(weak)]];
}
"""

DARK = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def too_weak(page: Page, selector: str) -> list[str]:
    """Return the texts that are hard to read, in what the selector finds."""
    seen, weak = page.evaluate(TOO_WEAK, selector)
    assert seen
    return list(weak)


@DARK
def test_text_of_pages_that_stand_alone_has_contrast(visitor: Visitor, settings: Any, dark: bool) -> None:
    page = visitor(dark=dark)
    sign_in(page, "alice", PASSWORD)
    Client().post("/login/", {"username": "alice", "password": PASSWORD})
    use_our_templates(settings)
    page.goto("/account/sessions/")
    assert too_weak(page, "body") == []
    page.get_by_role("button", name="End all other sessions").click()
    assert too_weak(page, "body") == []
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    page.goto("/account/sessions/")
    assert too_weak(page, "body") == []
