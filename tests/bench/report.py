# SPDX-License-Identifier: MIT
"""One table a measure: on the terminal, and kept for --json and --readme."""


def text(value):
    """Three digits that count."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


class Report:
    """`results`: {measure: {"title": what was done, "rows": [{column: value}]}}"""

    def __init__(self):
        self.results = {}

    def add(self, measure, title, head, rows):
        self.results[measure] = {"title": title, "rows": [dict(zip(head, row)) for row in rows]}
        print(f"\n{measure}: {title}\n")
        texts = [head] + [[text(value) for value in row] for row in rows]
        widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
        for row in texts:
            cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
            print("  " + "  ".join(cells), flush=True)
