"""The pages in a real browser: what a person sees, keys, links, colours, narrow screens, and hostile texts."""

import json
import re
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest

from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.model.exchanges import Body
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import findings
from pytest_agentreplay.runs import pages
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.snapshots.store import reading
from tests.cli.test_drift import HISTORY
from tests.support.shown_runs import RunBuilder, bookshop_run, long_run, trip_run, write_run

CORPUS = Path(__file__).parents[1] / "corpus" / "hostile_corpus.jsonl"
CONTRAST = """(() => {
  const number = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => number(text).slice(0, 3).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const back = (node) => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor; if ((number(c)[3] ?? 1) > 0) return c; } return "rgb(255, 255, 255)"; };
  const low = [];
  for (const node of document.querySelectorAll("main *:not(title)")) {
    if (!node.checkVisibility() || ![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const style = getComputedStyle(node);
    const [x, y] = [light(node.namespaceURI.endsWith("svg") ? style.fill : style.color), light(back(node.parentElement && node.namespaceURI.endsWith("svg") ? node.closest("div, figure") : node))].sort((a, b) => b - a);
    if ((x + 0.05) / (y + 0.05) < 4.5) low.push([node.tagName, node.className.baseVal ?? node.className, node.textContent.slice(0, 20), (x + 0.05) / (y + 0.05)]);
  }
  return low;
})()"""


@pytest.fixture
def run_page(tmp_path):
    path = tmp_path / "run.html"
    path.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", bookshop_run())), encoding="utf-8")
    return path


@pytest.fixture
def pair_page(tmp_path):
    files = (
        write_run(tmp_path / "a.snapshot.json", bookshop_run()),
        write_run(tmp_path / "b.snapshot.json", bookshop_run("cheerful", "P-9")),
    )
    path = tmp_path / "pair.html"
    path.write_text(pages.render_pair(*files), encoding="utf-8")
    return path


@pytest.fixture
def index_page(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_run(tmp_path / "__agent_snapshots__" / "test_shop" / "test_a.snapshot.json", bookshop_run())
    (tmp_path / "__agent_snapshots__" / "test_shop" / "test_torn.snapshot.json").write_text("{")
    history.append(tmp_path, HISTORY)
    return pages.write_folder(tmp_path / "pages", tmp_path)


@pytest.fixture
def trip_page(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nagentreplay_prices =\n    gpt-5 = 1.25 in, 10 out\n")
    path = tmp_path / "trip.html"
    path.write_text(pages.render_run(write_run(tmp_path / "t.snapshot.json", trip_run())), encoding="utf-8")
    return path


@pytest.fixture
def diverged_page(tmp_path):
    """The page that a session writes: two words of a long system prompt differ."""
    a = write_run(tmp_path / "a.snapshot.json", bookshop_run(long_prompt("first", "dollars")))
    b = write_run(tmp_path / "b.snapshot.json", bookshop_run(long_prompt("twice", "euros")))
    runs = [reading.load(file).run for file in (a, b)]
    finding = findings.describe_comparison(next(iter(divergences(*runs, READER))), "a", "b")
    path = tmp_path / "diverged.html"
    path.write_text(pages.render_run(a, pages.TestOutcome("", "diverged", a, finding)), encoding="utf-8")
    return path


def long_prompt(order, currency):
    rules = [f"Rule {n}: look thing {n} up first, then say it in dollars." for n in range(1, 181)]
    rules[89], rules[151] = rules[89].replace("first", order), rules[151].replace("dollars", currency)
    return "\n".join(rules)


def heading(browser):
    return browser.text("article h2[tabindex]")


def texts_of(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.innerText)")


def wait_for(browser, selector, count=1):
    wanted = f"document.querySelectorAll({json.dumps(selector)}).length < {count}"
    browser.value(f"(async () => {{ while ({wanted}) await new Promise((done) => setTimeout(done, 10)); }})()")


def click_bar(browser, selector):
    box = browser.value(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, **where)


# A run -----------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_lanes_and_the_chosen_turn(browser, run_page):
    browser.open(run_page)
    header = browser.text("header")
    for part in ("test_two_late_orders", "recorded: passed", "7 turns", "12 calls", "gpt-5, gpt-5-mini"):
        assert part in header
    assert [name.strip(" \xa0▾") for name in texts_of(browser, ".names .name")] == [
        "main",
        "lane main.1",
        "lane main.2",
    ]
    bars = "[...document.querySelectorAll('.time rect[data-turn]')].map((r) => r.getBBox()).map(({x, y, width}) => [x, y, width])"
    first, lookup, other, *_ = browser.value(bars)
    assert first[0] + first[2] <= lookup[0]
    assert lookup[1] < other[1] < lookup[1] + 20  # they overlap, so one stands below the other
    article = browser.text("article")
    for part in (
        "ADDED TO THE REQUEST", "Be brief and kind.", "ANSWER", "Let me look at both.", "lookup_order", '"status":"late"',
    ):  # fmt: skip
        assert part in article
    assert (browser.errors, browser.dialogs) == ([], [])


def test_the_badge_says_what_happened_now(browser, diverged_page):
    browser.open(diverged_page)
    assert browser.text("header .badge") == "diverged now"
    assert browser.value("document.querySelectorAll('.passed, .same').length") == 0
    assert browser.text(".facts").endswith("recorded 2026-11-20 10:00, passed")


def test_a_test_that_failed_by_its_own_assertion_says_so(browser, tmp_path):
    page = tmp_path / "page.html"
    file = write_run(tmp_path / "a.snapshot.json", bookshop_run())
    page.write_text(pages.render_run(file, pages.TestOutcome("", "failed", file)), encoding="utf-8")
    browser.open(page)
    assert browser.text("header .badge") == "failed now"


def test_keys_walk_the_turns_and_the_address_follows(browser, run_page):
    browser.open(run_page)
    seen = []
    for key in "jjGkg":
        browser.press(key)
        seen.append((heading(browser), browser.value("location.hash")))
    assert seen == [
        ("turn 1 of lane main.1", "#turn-1-in-main.1"), ("turn 2 of lane main.1", "#turn-2-in-main.1"),
        ("turn 3 of lane main", "#turn-3"), ("turn 2 of lane main", "#turn-2"), ("turn 1 of lane main", "#turn-1"),
    ]  # fmt: skip
    assert browser.value("document.activeElement.getAttribute('aria-current')") == "true"
    browser.press("?")
    assert "next turn" in browser.text(".help")


def test_a_link_opens_its_turn_and_a_bar_chooses_one(browser, run_page):
    browser.open(run_page, "#turn-2-in-main.1")
    assert heading(browser) == "turn 2 of lane main.1"
    click_bar(browser, ".time rect[data-turn]")
    assert heading(browser) == "turn 1 of lane main"


def test_the_back_button_goes_through_the_turns(browser, run_page):
    browser.open(run_page)
    browser.press("G", "k")
    seen = []
    for _ in range(2):
        browser.value(
            "new Promise((done) => { addEventListener('hashchange', done, { once: true }); history.back(); })"
        )
        seen.append(heading(browser))
    assert seen == ["turn 3 of lane main", "turn 1 of lane main"]


@pytest.mark.parametrize("width", [1600, 1100, 400])
@pytest.mark.parametrize("way", ["link", "key", "list", "bar"])
def test_the_chosen_turn_is_in_view_whatever_was_clicked(browser, diverged_page, way, width):
    browser.resize(width, 800 if width == 400 else 900)
    browser.open(diverged_page, "#turn-2" if way == "link" else "")
    if way == "key":
        browser.press("G", "k")
    elif way == "list":
        browser.value("document.querySelector('[aria-label=\"turn 2 of lane main\"]').click()")
    elif way == "bar":
        browser.value("document.querySelector('.desk').scrollIntoView()")
        bars = "[...document.querySelectorAll('.time rect.model')]"
        place = browser.value(f"{bars}.at(1).dataset.turn")
        click_bar(browser, f".time rect.model[data-turn='{place}']")
    assert heading(browser) == "turn 2 of lane main"
    top, height = browser.value("[document.querySelector('article').getBoundingClientRect().top, innerHeight]")
    held = browser.value("holdDesk()")
    assert held - 1 <= top < 0.61 * height


def test_calls_that_do_not_overlap_share_a_row(browser, trip_page, tmp_path):
    rows = "new Set([...document.querySelectorAll('.time rect[data-turn]')].map((bar) => bar.getAttribute('y'))).size"
    browser.open(trip_page)
    assert browser.value(rows) == 3  # 17 turns, their tools in threads, and two specialists beside each other
    page = tmp_path / "long.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", long_run(300))), encoding="utf-8")
    browser.open(page)
    assert browser.value(rows) == 1


@pytest.mark.parametrize(
    ("milliseconds", "first"),
    [(3, "0 ms,1 ms,2 ms"), (400, "0 ms,50 ms,100 ms"), (9_000, "0 ms,1 s,2 s"), (240_000, "0 ms,30 s,60 s")],
)
def test_no_label_of_the_time_line_stands_twice(browser, tmp_path, milliseconds, first):
    builder = RunBuilder()
    builder.model(0, milliseconds, [{"role": "user", "content": "?"}], "yes")
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", builder.run())), encoding="utf-8")
    browser.open(page)
    labels = "[...document.querySelectorAll('.time text')].map((label) => label.textContent)"
    assert browser.value(labels)[:3] == first.split(",")
    for _ in range(6):
        browser.press("+")
        seen = browser.value(labels)
        assert len(seen) == len(set(seen))


def test_lanes_are_named_after_what_they_were_asked_for_and_stand_below_the_turn_that_began_them(browser, trip_page):
    browser.open(trip_page)
    names = [name.strip(" \xa0▾") for name in texts_of(browser, ".names .name")]
    assert names == ["main", "ask_specialist(visa)", "ask_specialist(hotel)"]
    assert texts_of(browser, ".fold") == ["ask_specialist(visa) 2 turns", "ask_specialist(hotel) 3 turns"]
    host = "document.querySelector('.fold').closest('li').querySelector('button').getAttribute('aria-label')"
    assert browser.value(host) == "turn 1 of lane main"


def test_strands_are_folded_in_the_list_and_in_the_time_line(browser, trip_page):
    browser.open(trip_page)
    bars = "document.querySelectorAll('.time rect[data-turn]').length"
    before = browser.value(bars)
    browser.click(".names button.name")
    assert browser.value(bars) < before
    browser.click(".fold")
    shown = "[...document.querySelectorAll('.turn')].filter((row) => row.checkVisibility()).length"
    assert browser.value(shown) == 15
    browser.press("j")  # a turn that is folded away is unfolded when it is chosen
    assert (heading(browser), browser.value(shown)) == ("turn 1 of lane main.1", 17)


def test_errors_are_red(browser, trip_page):
    browser.open(trip_page, "#turn-10")
    assert browser.value("document.querySelectorAll('.time rect.error').length") == 3  # 429, ReadTimeout, LookupError
    red = "rgb(180, 35, 24)"
    assert browser.value("getComputedStyle(document.querySelector('.time rect.error')).fill") == red
    assert browser.value("getComputedStyle(document.querySelector('.turn.error button')).color") == red
    assert browser.text("article .failed pre") == "raised ReadTimeout: The read operation timed out"
    assert browser.value("getComputedStyle(document.querySelector('article .failed pre')).color") == red


def test_a_turn_says_its_tokens_cost_and_the_time_to_its_first_token(browser, trip_page):
    browser.open(trip_page, "#turn-12")
    facts = browser.text("article .muted").split(" · ")
    assert facts[2:4] == ["900 ms", "first token after 225 ms"]
    assert facts[-1] == "began at 6.9 s"
    read, written = map(int, re.findall(r"\d+", facts[4]))
    assert float(facts[5][1:]) == pytest.approx((read * 1.25 + written * 10) / 1e6, rel=0.05)


def test_each_agent_has_its_sums(browser, trip_page):
    browser.open(trip_page)
    browser.click(".totals summary")
    rows = [row.split("\t") for row in texts_of(browser, ".totals tbody tr")]
    assert [(row[0].strip(), row[1].strip(), row[2].strip()) for row in rows] == [
        ("main", "12", "21"), ("ask_specialist", "5", "7"),
    ]  # fmt: skip


def test_turns_are_filtered_by_tool_agent_model_and_errors(browser, trip_page):
    browser.open(trip_page)
    counts = []
    for label, value in (("tool", "weather"), ("agent", "ask_specialist"), ("model", "gpt-5-mini")):
        select = f"document.querySelector('[aria-label=\"Turns of one {label}\"]')"
        for chosen in (value, ""):
            browser.value(f"{select}.value = '{chosen}'; {select}.dispatchEvent(new Event('change'))")
            counts.append(browser.text("[role=status]"))
    browser.click("input[type=checkbox]")
    counts.append(browser.text("[role=status]"))
    assert counts == ["8 of 17 turns", "", "5 of 17 turns", "", "5 of 17 turns", "", "3 of 17 turns"]


def test_a_search_leaves_the_turns_that_hold_the_text(browser, run_page):
    browser.open(run_page)
    browser.press("/")
    browser.press(*"DEPOT")
    assert browser.text("[role=status]") == "2 of 7 turns"
    browser.press("Enter")
    assert heading(browser) == "turn 1 of lane main.1"
    assert browser.value("document.querySelectorAll('.turn:not([hidden])').length") == 2


def test_hits_of_a_search_are_marked_and_followed_from_turn_to_turn(browser, run_page):
    browser.open(run_page)
    browser.press("/", *"depot")
    seen = []
    for _ in range(3):
        browser.press("Enter")
        hit = "document.querySelector('.hit.current')"
        box = browser.value(f"{hit}.getBoundingClientRect().toJSON()")
        seen.append((heading(browser), browser.value(f"{hit}.textContent"), 0 <= box["top"] <= 900))
    assert seen[0] == ("turn 1 of lane main.1", "depot", True)
    assert seen[-1] == ("turn 2 of lane main.1", "depot", True)
    browser.click("[aria-label='Previous hit']")
    assert heading(browser) == "turn 2 of lane main.1" or browser.value("document.querySelectorAll('.hit').length") > 0
    browser.value(
        "document.querySelector('input[type=search]').value = ''; document.querySelector('input[type=search]').dispatchEvent(new Event('input'))"
    )
    assert browser.value("document.querySelectorAll('.hit').length") == 0


def test_a_hit_in_a_closed_tree_or_a_folded_text_is_shown(browser, trip_page, tmp_path):
    page = tmp_path / "folded.html"
    text = "\n".join(f"line {number}" for number in range(60)) + "\nUji"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", bookshop_run(text))), encoding="utf-8")
    for path, fragment in ((trip_page, "#turn-11"), (page, "#turn-1")):
        browser.open(path, fragment)
        browser.press("/", *"uji", "Enter")
        assert browser.value("document.querySelector('.hit.current').checkVisibility()") is True
        holder = "document.querySelector('.hit.current').closest('pre, .body')"
        assert browser.value(f"{holder}.scrollHeight - {holder}.clientHeight") < 2


def test_json_is_a_tree_or_its_text(browser, trip_page):
    browser.open(trip_page, "#turn-11")
    tree = "article .tree"
    assert browser.text(tree).startswith("{3}\ncity: Kyoto\ndays: [2]\n0: {2}\n1: {2}")
    browser.value(f"document.querySelector('{tree} details details').open = true")
    wait_for(browser, f"{tree} details details details")
    browser.value("[...document.querySelectorAll('article button')].find((b) => b.textContent === 'Text').click()")
    assert '{"city": "Kyoto"' in browser.text("article").replace("\n", " ")


def test_numbers_that_a_browser_would_round_stay_a_text(browser, tmp_path):
    builder = RunBuilder()
    use = "find", {"id": 12345678901234567890}
    builder.tool(9, 1, builder.model(0, 9, [{"role": "user", "content": "?"}], uses=[use]), use, use[1])
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", builder.run())), encoding="utf-8")
    browser.open(page)
    assert "12345678901234567890" in browser.text("article")
    assert "12345678901234567000" not in browser.text("article")
    assert browser.value("document.querySelectorAll('article .tree').length") == 0


def test_texts_json_and_requests_are_copied(browser, trip_page):
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.open(trip_page, "#turn-11")

    def copy(label):
        browser.value(f"document.querySelector('[aria-label=\"{label}\"]').click()")
        wait_for(browser, f"[aria-label='{label}']")
        browser.value("new Promise((done) => setTimeout(done, 100))")
        return browser.value("navigator.clipboard.readText()")

    browser.value("window.focus()")
    assert copy("Copy the answer as text") == "كيوتو: 8 °C (EK 316)"
    assert json.loads(copy("JSON Copy asks for save_plan as JSON"))["days"][1] == {"day": 2, "see": ["Uji"]}
    browser.press("b")
    wait_for(browser, "details.bytes pre", 2)
    curl = copy("Copy as curl the request to gpt-5")
    assert curl.startswith("curl -X POST 'https://api.openai.com/v1/chat/completions'")
    assert "-H 'Authorization: Bearer YOUR_KEY'" in curl
    assert json.loads(curl.partition("--data-raw '")[2][:-1])["model"] == "gpt-5"


def test_headers_that_are_credentials_are_not_copied(browser, tmp_path):
    builder = RunBuilder()
    builder.model(0, 9, [{"role": "user", "content": "it's"}], "yes")
    run = builder.run()
    headers = (("Content-Type", "application/json"), ("X-Api-Key", "k-1"), ("Cookie", "s=2"))
    object.__setattr__(run.exchanges[0].call, "headers", headers)
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", run)), encoding="utf-8")
    browser.open(page)
    curl = browser.value("unpack(data.runs[0]).then(({ texts, calls }) => formatCurl(calls[0][0], texts))")
    assert "k-1" not in curl
    assert "s=2" not in curl
    assert subprocess.run(["bash", "-n", "-c", curl], check=False).returncode == 0


def test_pictures_of_messages_are_shown_small(browser, trip_page):
    browser.open(trip_page)
    wait_for(browser, "article .pictures img")
    loaded = "new Promise((done) => { const i = document.querySelector('.pictures img'); i.complete ? done(i.naturalWidth) : (i.onload = () => done(i.naturalWidth)); })"
    assert browser.value(loaded) == 16
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []


def test_joiners_and_directions_of_scripts_stay(browser, trip_page):
    browser.open(trip_page, "#turn-12")
    answer = browser.value("document.querySelector('article .answer pre').textContent")
    assert answer.startswith("👨\u200d👩\u200d👧 می\u200cشود")
    browser.open(trip_page, "#turn-11")
    arabic = "document.querySelector('article .answer pre')"
    assert browser.value(f"{arabic}.matches(':dir(rtl)')") is True


def test_joiners_that_hide_stay_escaped(browser, tmp_path):
    builder = RunBuilder()
    builder.model(0, 9, [{"role": "user", "content": "pay\u200cpal \u200d\u200d می\u200c\u200cخ \u202e"}], "yes")
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", builder.run())), encoding="utf-8")
    browser.open(page)
    shown = browser.value("[...document.querySelectorAll('article pre')].map((pre) => pre.textContent).join()")
    assert "pay\\u200cpal \\u200d\\u200d می\\u200c\\u200cخ \\u202e" in shown


def test_the_theme_is_kept_when_a_page_is_loaded_again(browser, run_page):
    browser.open(run_page)
    browser.press("t")
    browser.open(run_page)
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 25)"


def test_print_shows_every_turn(browser, trip_page):
    browser.open(trip_page)
    browser.value(
        "addEventListener('afterprint', () => { window.printed = true; }); addEventListener('beforeprint', () => { window.count = document.querySelectorAll('article.printed').length; })"
    )
    assert len(browser.call("Page.printToPDF")["data"]) > 10_000
    assert browser.value("window.count") == 17
    assert browser.value("document.querySelectorAll('article.printed').length") == 0


def test_the_name_of_a_turn_in_the_list_is_short(browser, trip_page):
    browser.open(trip_page)
    turns = []
    for _ in range(100):  # on a loaded machine the tree of a new page is not complete at once
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        names = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "button"]
        turns = [name for name in names if name.startswith("turn ")]
        if len(turns) == 17:
            break
        time.sleep(0.05)
    assert len(turns) == 17
    assert (turns[0], max(map(len, turns)) < 40) == ("turn 1 of lane main", True)


def test_every_place_of_a_long_difference_is_shown_in_lines_with_its_words_marked(browser, diverged_page):
    browser.open(diverged_page)
    rows = texts_of(browser, ".finding .row")
    assert [row.strip() for row in rows if row[:1] in "-+"] == [
        "-Rule 90: look thing 90 up first, then say it in dollars.",
        "+Rule 90: look thing 90 up twice, then say it in dollars.",
        "-Rule 152: look thing 152 up first, then say it in dollars.",
        "+Rule 152: look thing 152 up first, then say it in euros.",
    ]
    assert texts_of(browser, ".finding mark") == ["first", "twice", "dollars", "euros"]


def test_a_search_looks_at_texts_and_not_at_the_names_of_fields(browser, run_page, index_page):
    browser.open(run_page)
    browser.press("/", *"attempt")
    assert browser.text("[role=status]") == "0 of 7 turns"
    browser.open(index_page)
    browser.press("/", *"problem")
    assert browser.text("[role=status]").startswith("0 of ")


def test_keys_keep_the_chosen_row_in_sight_and_a_page_without_a_link_opens_at_its_top(browser, tmp_path):
    page = tmp_path / "long.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", long_run(60))), encoding="utf-8")
    for width in (1280, 400):
        browser.resize(width)
        browser.open(page)
        assert browser.value("scrollY") == 0
        browser.open(page, "#turn-50")
        seen = []
        for _ in range(8):
            browser.press("k")
            seen.append(
                browser.value(
                    "(() => { const r = document.activeElement.getBoundingClientRect(), n = document.querySelector('nav').getBoundingClientRect();"
                    " return r.top >= Math.max(0, n.top) - 1 && r.bottom <= Math.min(innerHeight, n.bottom) + 1; })()"
                )
            )
        assert seen == [True] * 8


def test_the_row_of_a_link_is_in_sight_at_the_end_of_a_list_that_reaches_below_the_window(browser, trip_page):
    browser.resize(1100)
    browser.open(trip_page, "#turn-12")
    row = "document.querySelector('.turn.chosen').getBoundingClientRect().bottom <= innerHeight"
    assert browser.value(
        f"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done({row}))))"
    )


def test_characters_stay_whole_in_a_comparison(browser, tmp_path):
    faces = "👨\u200d👩\u200d👧", "👨\u200d👩\u200d👦"
    lines = "\n".join(f"line {number}" for number in range(60))
    files = [
        write_run(tmp_path / f"{at}.snapshot.json", bookshop_run(f"{lines}\nlook: {face}"))
        for at, face in enumerate(faces)
    ]
    page = tmp_path / "pair.html"
    page.write_text(pages.render_pair(*files), encoding="utf-8")
    browser.open(page)
    marks = set(texts_of(browser, "mark"))
    assert {mark.rstrip(".") for mark in marks} == {*faces}


def test_a_long_difference_is_folded_and_its_button_shows_all_lines(browser, tmp_path):
    texts = ["\n".join(f"{word} {number}" for number in range(40)) for word in ("old", "new")]
    files = [write_run(tmp_path / f"{at}.snapshot.json", bookshop_run(text)) for at, text in enumerate(texts)]
    page = tmp_path / "pair.html"
    page.write_text(pages.render_pair(*files), encoding="utf-8")
    browser.open(page)
    assert browser.text(".finding .more").startswith("Show all ")
    height = "document.querySelector('.finding pre').clientHeight"
    before = browser.value(height)
    browser.click(".finding .more")
    assert browser.value(height) > 2 * before
    assert browser.text(".finding .more") == "Fold"


def test_long_names_do_not_widen_a_page(browser, tmp_path):
    builder = RunBuilder()
    name = "arn:aws:bedrock:" + "x" * 300
    builder.model(0, 9, [{"role": "user", "content": "?"}], "yes", model=name, lane=f"main.{name}")
    builder.model(1, 10, [{"role": "user", "content": "?"}], "yes", model=name)
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", builder.run(test=f"t.py::test[{name}]"))))
    for width in (400, 1280):
        browser.resize(width)
        browser.open(page)
        browser.value("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert browser.value("document.documentElement.scrollWidth") <= width


def test_bytes_that_are_no_text_are_spelled(browser, tmp_path):
    builder = RunBuilder()
    builder.model(0, 9, [{"role": "user", "content": "?"}], "yes", stream=True)
    run = builder.run()
    body = "日本".encode()
    object.__setattr__(run.exchanges[0].outcome, "body", Body(body))
    object.__setattr__(run.exchanges[0].outcome, "cuts", (2, 4))
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", run)), encoding="utf-8")
    browser.open(page)
    browser.press("b")
    assert (
        browser.value(
            "(async () => { while (!document.querySelector('details.bytes table')) await new Promise((r) => setTimeout(r, 10)); })()"
        )
        is None
    )
    chunks = browser.value("[...document.querySelectorAll('details.bytes td code')].map((code) => code.textContent)")
    assert chunks == ["\\xe6\\x97", "\\xa5\\xe6\\x9c\\xac"]
    assert browser.value("document.querySelectorAll('details.bytes pre')[1].textContent").endswith("日本")


def test_bytes_are_shown_to_the_byte_and_streams_as_chunks_with_their_times(browser, run_page):
    browser.open(run_page, "#turn-3")
    browser.press("b")
    assert (
        browser.value(
            "(async () => { while (document.querySelectorAll('details.bytes pre').length < 2) await new Promise((r) => setTimeout(r, 10)); })()"
        )
        is None
    )
    last = bookshop_run().exchanges[-1]
    sent, came = browser.value("[...document.querySelectorAll('details.bytes pre')].map((pre) => pre.textContent)")
    assert sent.endswith("\n\n" + last.call.body.data.decode())
    assert came.endswith("\n\n" + last.outcome.body.data.decode())
    browser.value("document.querySelectorAll('details.bytes details').forEach((d) => { d.open = true; })")
    rows = browser.value("[...document.querySelectorAll('details.bytes tr')].map((row) => row.innerText.trim())")
    assert len(rows) == 1 + len(last.outcome.cuts)
    assert rows[1].startswith("1\t313 ms")  # since the call began


def test_two_runs_stand_beside_each_other_at_the_first_divergence(browser, pair_page):
    browser.open(pair_page)
    assert browser.text(".finding h2").startswith("[AR-PROMPT] turn 1/3 of lane main")
    recorded, now = browser.value(
        "[...document.querySelectorAll('article .sides section')].map((side) => side.innerText)"
    )
    assert ("kind" in recorded, "cheerful" in now) == (True, True)
    marks = texts_of(browser, "article .sides mark")
    assert marks[:1] == ["kind"]
    assert "cheerful" in marks
    assert browser.text("header .badge") == "5 differences"
    assert texts_of(browser, ".names b") == ["recorded", "now"]
    boxes = browser.value(
        "[...document.querySelectorAll('article .sides section')].map((s) => s.getBoundingClientRect().x)"
    )
    assert boxes[0] < boxes[1]
    browser.press("n", "n")
    assert heading(browser) == "turn 2 of lane main.2"
    browser.press("p")
    assert heading(browser) == "turn 1 of lane main.2"


def test_the_index_lists_what_is_recorded_sorts_it_and_plots_live_runs(browser, index_page):
    browser.open(index_page)
    text = browser.text()
    for part in ("2 snapshots · 12 calls", "test_two_late_orders", "cannot be read", "Live runs", "pass rate"):
        assert part in text, part
    assert browser.value("document.querySelectorAll('.plot svg').length") == 4
    label = browser.value("document.querySelector('.plot svg').getAttribute('aria-label')")
    assert label == "pass rate: small 0.33 on 2026-11-15; a-model-with-a-long-name-20260801 0.90 on 2026-11-01"
    labels = "[...document.querySelectorAll('.plot:nth-child(4) text')].map((label) => label.textContent)"
    assert browser.value(labels)[:3] == ["0.0 s", "2.0 s", "4.0 s"]
    first = "document.querySelector('tbody tr').innerText"
    before = browser.value(first)
    browser.value("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'calls').click()")
    browser.value("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'calls').click()")
    assert browser.value("document.querySelector('th[aria-sort=descending]').innerText") == "calls"
    assert "\t12\t" in browser.value(first)
    assert "test_two_late_orders" in browser.value(first) + before
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["run_page", "trip_page", "diverged_page", "pair_page", "index_page"])
def test_texts_have_contrast_and_nothing_is_wider_than_a_narrow_screen(browser, page, dark, request):
    browser.resize(400, dark=dark)
    browser.open(request.getfixturevalue(page))
    assert browser.value(CONTRAST) == []
    # Everything open, and the hits of a search, which lie on colours of their own.
    browser.value("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    browser.press("?", "/", *"o")
    browser.press("Enter", "Escape")
    assert browser.value(CONTRAST) == []
    assert browser.value("document.documentElement.scrollWidth") <= 400
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") is not dark
    browser.press("t")
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") is dark


def test_texts_of_strangers_do_nothing(browser, tmp_path):
    payloads = [json.loads(line).get("payload") for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    texts = [text for text in payloads if isinstance(text, str) and len(text) < 5000]
    texts += [
        '<img src=x onerror="alert(1)">',
        "https://evil.example/x.png",
        "\u202e\x1b[31m\x9b",
        "${7*7}",
        "</style>",
    ]
    builder = RunBuilder()
    messages = [{"role": "user", "content": "\n".join(texts)}]
    for number, text in enumerate(texts):
        name = text.encode("utf-8", "replace").decode()
        messages = builder.model(number * 10, 8, messages, name, uses=[(name or "tool", {name: name})], model=name)
        messages = builder.tool(
            number * 10 + 8, 1, messages, (name, {name: name}), {name: name}, lane=name[:40] or "main"
        )
    run = builder.run(test=f"tests/test_x.py::test_x[{texts[-5]}]")
    files = [write_run(tmp_path / name, run) for name in ("a.snapshot.json", "<b>.snapshot.json")]
    page = tmp_path / "page.html"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    index = pages.write_folder(tmp_path / "pages", tmp_path).read_text(encoding="utf-8")
    for text in (pages.render_run(files[0]), pages.render_pair(*files), index):
        page.write_text(text, encoding="utf-8")
        browser.requests.clear()
        browser.open(page)
        browser.value("document.querySelectorAll('.turn button').forEach((button) => button.click())")
        browser.value("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        shown = browser.value("document.body.innerText + document.title")
        assert [url for url in browser.requests if url not in {page.as_uri(), "about:blank"}] == []
        assert (browser.dialogs, browser.errors) == ([], [])
        assert {char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs"}} <= {"\n", "\t"}
        assert (
            browser.value(
                "document.querySelectorAll('main img, main script, main iframe, main style, main a[href^=\"javascript\"]').length"
            )
            == 0
        )
