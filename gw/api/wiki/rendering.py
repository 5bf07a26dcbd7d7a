"""Bases, pages and hits as JSON values (spec: Knowledge-base page)."""

from __future__ import annotations

from typing import Any

from gw.knowledge.bases import Base
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import Found, Hit


def base_entry(base: Base) -> dict[str, Any]:
    """A base in the list of those that may be read."""
    return {"kb_id": base.kb_id, "name": base.name, "pages": base.pages}


def page_body(page: StoredPage) -> dict[str, Any]:
    """A page with every field."""
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


def found_body(text: str, offset: int, found: Found) -> dict[str, Any]:
    """One window of what a search has found."""
    return {
        "query": text,
        "total_hits": found.total,
        "offset": offset,
        "returned": len(found.hits),
        "has_more": offset + len(found.hits) < found.total and bool(found.hits),
        "results": [hit_entry(hit) for hit in found.hits],
    }


def hit_entry(hit: Hit) -> dict[str, Any]:
    """A page that was found."""
    return {
        "id": hit.id,
        "title": hit.title,
        "summary": hit.summary,
        "snippet": hit.snippet,
        "tags": hit.tags,
        "confidence": hit.confidence,
        "needs_review": hit.needs_review,
        "score": hit.score,
    }
