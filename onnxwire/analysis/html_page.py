"""Self-contained HTML pages."""

from __future__ import annotations

from html import escape


def html_page(title: str, style: str, body: str, script: str = "") -> str:
    """Return an HTML page that needs no other file and no network.

    title: text. style: CSS. body: HTML. script: JavaScript. The content security policy of the page allows inline
    styles, inline scripts unless `script` is empty, and nothing else.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        policy += "; script-src 'unsafe-inline'"
        body += f"\n<script>\n{script}</script>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
