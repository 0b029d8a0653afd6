"""Two kinds of plot, drawn as SVG that reads well on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
LABEL_WIDTH = 430
ROW = 22
HEAD = 30
MARGIN = 60  # right of the plot, for the numbers
OURS, PEER, GOOD, BAD, GREY = "#2f6fdd", "#9aa4b2", "#2e9d5b", "#d0453b", "#8b929c"


@dataclass(frozen=True)
class Whisker:
    """A median with its 10th and 90th percentiles."""

    label: str
    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Block:
    """One piece of work: a bar per contender, ours first."""

    title: str
    unit: str
    whiskers: list[Whisker]


def targets(whiskers: Sequence[Whisker]) -> str:
    """Ratios over their targets on a logarithmic axis; the line is the target."""
    span = max(1.5, *(max(1 / w.low, w.high) for w in whiskers)) if whiskers else 1.5
    plot_width = WIDTH - LABEL_WIDTH - MARGIN

    def x(value: float) -> float:
        return LABEL_WIDTH + plot_width * (0.5 + math.log(value) / (2 * math.log(span)))

    height = HEAD + ROW * len(whiskers) + 8
    parts = [_text(x(1), 16, "target", "middle", GREY)]
    parts.append(_line(x(1), HEAD - 8, x(1), height - 8, GREY, dashed=True))
    for index, whisker in enumerate(whiskers):
        y = HEAD + ROW * index + ROW / 2
        color = GOOD if whisker.mid >= 1 else BAD
        parts.append(_text(LABEL_WIDTH - 10, y + 4, whisker.label, "end"))
        parts.append(_line(x(whisker.low), y, x(whisker.high), y, color))
        parts.append(f'<circle cx="{x(whisker.mid):.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>')
        parts.append(_text(WIDTH - 6, y + 4, f"{whisker.mid:.2f}×", "end", color))
    return _document(height, parts)


def bars(blocks: Sequence[Block]) -> str:
    """Absolute figures: each block on a scale of its own, from zero."""
    parts: list[str] = []
    y = 0.0
    for block in blocks:
        parts.append(_text(8, y + 20, f"{block.title} ({block.unit})", "start", bold=True))
        y += HEAD
        y = _draw_block(block, y, parts)
        y += 10
    return _document(y, parts)


def _draw_block(block: Block, y: float, parts: list[str]) -> float:
    left = 190
    scale = (WIDTH - left - MARGIN) / max(w.high for w in block.whiskers)
    for index, whisker in enumerate(block.whiskers):
        color = OURS if index == 0 else PEER
        middle = y + ROW / 2
        length = whisker.mid * scale
        parts.append(_text(left - 10, middle + 4, whisker.label, "end"))
        box = f'x="{left}" y="{y + 3:.1f}" width="{length:.1f}" height="{ROW - 6}"'
        parts.append(f'<rect {box} fill="{color}"/>')
        low, high = left + whisker.low * scale, left + whisker.high * scale
        parts.append(_line(low, middle, high, middle, GREY))
        parts.append(_text(WIDTH - 6, middle + 4, f"{whisker.mid:.3g}", "end"))
        y += ROW
    return y


def _document(height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" font-family="system-ui, sans-serif" font-size="12">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _text(
    x: float, y: float, text: str, anchor: str, color: str = GREY, *, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} fill="{color}"{weight}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-width="2"{dash}/>'
