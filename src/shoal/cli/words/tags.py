"""Tags in the terminal: a cloud of words, bars, and one tag with its days and the tags that go with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from shoal.tagcloud.cloud import Counted, RelatedTag, Shown, Trend, Word, trend
from shoal.tagcloud.contract import TagRule

_STYLES = (
    "bright_black",
    "bright_black",
    "dim",
    "dim",
    "cyan",
    "cyan",
    "bold cyan",
    "bold bright_cyan",
    "bold reverse bright_cyan",
)
"""Styles by level: a terminal has one size of letters, so brightness stands for size."""
_WIDEST = 100
_SPARKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ARROWS = {
    Trend.UP: ("↑", "bold green"),
    Trend.MORE: ("↗", "green"),
    Trend.STEADY: ("→", "bright_black"),
    Trend.LESS: ("↘", "yellow"),
    Trend.DOWN: ("↓", "red"),
}
_UNITS = {"all": "uses", "rising": "surprise"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cloud_block(shown: Shown, width: int) -> RenderableType:
    """Lay out words in alphabetical order, wrapped and centred: a name is found by its place, a heavy tag by its
    brightness.
    """
    room = min(width - 4, _WIDEST)
    lines: list[Text] = []
    line, filled = Text(justify="center"), 0
    for word in sorted(shown.words, key=lambda word: word.name):
        text = _shown(word)
        if filled and filled + 2 + text.cell_len > room:
            lines.append(line)
            line, filled = Text(justify="center"), 0
        line.append("  " if filled else "").append_text(text)
        filled += text.cell_len + (2 if filled else 0)
    return Padding(Group(*lines, line), (1, 2), expand=False)


def _shown(word: Word) -> Text:
    form = f"\u00a0{word.form}\u00a0" if word.level == len(_STYLES) else word.form
    return Text(form, style=_STYLES[word.level - 1])


def bar_lines(shown: Shown, most: int, width: int) -> Iterator[Text]:
    """Yield the first tags with their weights, and whether they go up or down."""
    first = shown.words[:most]
    names = min(max(cell_len(word.form) for word in first) + 1, 30)
    room = max(10, min(width, _WIDEST) - names - 20)
    greatest = max(word.weight for word in first)
    yield Text(f"  {'':{names}}  {_UNITS.get(shown.order, 'warmth'):>10}", style="bright_black")
    for word in first:
        form = Text(f"#{word.form}")
        form.truncate(names, overflow="ellipsis", pad=True)
        number = f"{word.weight:,.0f}" if shown.order == "all" else f"{word.weight:,.1f}"
        arrow, colour = _trend(word)
        line = Text("  ").append_text(form).append(f"  {number:>10} ").append(arrow, style=colour)
        yield line.append(" ").append(_bar(word.weight / greatest, room), style=_STYLES[word.level - 1].split()[-1])


def _bar(share: float, room: int) -> str:
    whole, eighth = divmod(round(share * room * 8), 8)
    return ("█" * whole + _EIGHTHS[eighth].strip()) or "▏"


def _trend(tag: Counted) -> tuple[str, str]:
    """Return an arrow and its style: today's uses compared with the week's own pace."""
    return _ARROWS[trend(tag)]


def tag_lines(tag: Counted, alike: Sequence[RelatedTag]) -> Iterator[Text]:
    """Yield everything about one tag."""
    arrow, colour = _trend(tag)
    yield Text()
    title = Text("  ").append(f"#{tag.form}", style="bold bright_cyan").append(f"  {_uses(tag.uses)}  ")
    yield title.append(arrow, style=colour)
    if tag.merged:
        yield Text("  with " + ", ".join(f"#{name}" for name in tag.merged), style="bright_black")
    yield Text()
    yield from _day_lines(tag)
    yield Text()
    yield from _reason_lines(tag)
    if alike:
        yield Text()
        yield Text("  goes with", style="bright_black")
        widest = max(cell_len(one.form) for one in alike)
        for one in alike:
            gap = " " * (widest - cell_len(one.form))
            line = Text("  ").append(f"#{one.form}", style="cyan").append(f"{gap}  {one.likeness:4.0%}  ")
            yield line.append(_bar(one.likeness, 24), style="blue").append(f"  {_uses(one.uses)}", style="bright_black")
    yield Text()


def _day_lines(tag: Counted) -> Iterator[Text]:
    days = tag.days[::-1]
    most = max(1, *(day.uses for day in days))
    cells = [_SPARKS[min(len(_SPARKS) - 1, len(_SPARKS) * day.uses // (most + 1))] * 5 for day in days]
    names = [f"{_EPOCH + timedelta(days=day.day):%a}" for day in days]
    yield Text("  " + " ".join(f"{cell:^6}" for cell in cells).rstrip(), style="cyan")
    yield Text("  " + " ".join(f"{day.uses:^6,}" for day in days).rstrip())
    yield Text("  " + " ".join(f"{name:^6}" for name in names).rstrip(), style="bright_black")


def _reason_lines(tag: Counted) -> Iterator[Text]:
    why = tag.reasons
    warm = ", ".join(f"{warmth:,.1f} by the {window}" for window, warmth in why.warmth.items())
    members = "1 member" if why.members == 1 else f"{why.members:,} members"
    more = "more" if why.surprise > 0.0 else "no more"
    for name, first, then in (
        ("warmth", warm, "so many uses of this moment its uses are worth"),
        (
            "recently",
            f"{_uses(why.today)} by {members}, today and yesterday",
            f"{why.loudest:.0%} of them by the loudest",
        ),
        ("surprise", f"{why.surprise:,.1f}", f"{more} than its own week lets one expect"),
    ):
        yield Text(f"  {name:8}  {first}")
        yield Text(f"  {'':8}  {then}", style="bright_black")


def rule_line(rule: TagRule) -> str:
    """Return the rule for a tag in words."""
    if rule.target:
        return f"#{rule.name}\tcounts as #{rule.target}"
    return f"#{rule.name}\t{'is denied' if rule.denied else 'is shown, and counts for itself'}"


def _uses(number: int) -> str:
    return f"{number:,} {'use' if number == 1 else 'uses'}"
