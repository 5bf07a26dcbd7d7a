"""Bases, pages and hits as JSON values (spec: Knowledge-base page)."""

from __future__ import annotations

from typing import Any

from gw.knowledge.bases import Base
from gw.knowledge.reading import StoredPage


def base_entry(base: Base) -> dict[str, Any]:
    """Return a base as an entry of the list."""
    return {"kb_id": base.kb_id, "name": base.name, "pages": base.pages}


def page_body(page: StoredPage) -> dict[str, Any]:
    """Return a page with every field."""
    source = page.source and {
        "r2_key": page.source.r2_key,
        "filename": page.source.filename,
        "locator": page.source.locator,
        "compiled_at": page.source.compiled_at,
        "model": page.source.model,
    }
    return {
        "id": page.id,
        "kb_id": page.base.kb_id,
        "title": page.title,
        "summary": page.summary,
        "tags": page.tags,
        "aliases": page.aliases,
        "links": page.links,
        "body": page.body,
        "confidence": page.confidence,
        "needs_review": page.needs_review,
        "source": source,
        "outgoing_links": [
            {"id": target, "resolved": is_resolved, "title": title}
            for target, is_resolved, title in page.outgoing_links
        ],
    }
