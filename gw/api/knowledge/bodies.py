"""Bases, pages and hits as JSON values (reference 8.3)."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from gw.knowledge.bases import Base
from gw.knowledge.reading import StoredPage

KbId = Annotated[str, Meta(description="The knowledge base.")]
PageId = Annotated[str, Meta(description="The page's id.")]
_Title = Annotated[str, Meta(description="The page's title.")]
_Summary = Annotated[str, Meta(description="What the page is about.")]
_Tags = Annotated[list[str], Meta(description="Its tags.")]


class BaseEntry(TypedDict):
    """A knowledge base that the key may read."""

    kb_id: KbId
    name: Annotated[str, Meta(description="Its name for people.")]
    pages: Annotated[int, Meta(description="The number of its pages.")]


class BaseList(TypedDict):
    """The knowledge bases that the key may read."""

    kbs: Annotated[
        list[BaseEntry], Meta(description="The personal base, own ones, then granted ones.")
    ]


class SourceEntry(TypedDict):
    """The document that a page was made of."""

    r2_key: Annotated[str, Meta(description="Its name in the store.")]
    filename: Annotated[str, Meta(description="The file's name.")]
    locator: Annotated[str | None, Meta(description="Where in the document.")]
    compiled_at: Annotated[str | None, Meta(description="When the page was made of it.")]
    model: Annotated[str | None, Meta(description="What made the page of it.")]


class SourceLink(TypedDict):
    """A document with a link to it."""

    r2_key: Annotated[str, Meta(description="Its name in the store.")]
    filename: Annotated[str, Meta(description="The file's name.")]
    locator: Annotated[str | None, Meta(description="Where in the document.")]
    url: Annotated[str, Meta(description="A link to it, without a key.")]
    url_ttl_secs: Annotated[int, Meta(description="How long the link is good, in seconds.")]


class LinkEntry(TypedDict):
    """A link of a page's body."""

    id: Annotated[str, Meta(description="The page's id, or the link as it is written.")]
    resolved: Annotated[bool, Meta(description="Whether there is such a page.")]
    title: Annotated[str | None, Meta(description="The page's title, null without a page.")]


class Page(TypedDict):
    """A page of a knowledge base."""

    id: PageId
    kb_id: KbId
    title: _Title
    summary: _Summary
    tags: _Tags
    aliases: Annotated[list[str], Meta(description="Its other names.")]
    links: Annotated[list[str], Meta(description="Its links, as they are written.")]
    body: Annotated[str, Meta(description="Its text, in Markdown.")]
    confidence: Annotated[str, Meta(description="How sure it is, in its author's words.")]
    needs_review: Annotated[bool, Meta(description="Whether somebody is to look at it.")]
    source: Annotated[SourceEntry | None, Meta(description="What it was made of, if known.")]
    outgoing_links: Annotated[list[LinkEntry], Meta(description="Where its links lead.")]
    body_truncated: NotRequired[
        Annotated[bool, Meta(description="Among several pages: whether the body was cut.")]
    ]


class PageList(TypedDict):
    """Several pages."""

    pages: Annotated[list[Page], Meta(description="The pages, in the order of their ids.")]


class Tag(TypedDict):
    """A tag."""

    tag: Annotated[str, Meta(description="The tag.")]
    count: Annotated[int, Meta(description="The number of its pages.")]


class TagList(TypedDict):
    """The tags of a knowledge base."""

    kb_id: KbId
    tags: Annotated[list[Tag], Meta(description="The tags, most frequent first.")]


class ListedPage(TypedDict):
    """A page without its text."""

    id: PageId
    title: _Title
    summary: _Summary
    tags: _Tags


class TaggedPages(TypedDict):
    """The pages that have a tag."""

    kb_id: KbId
    tag: Annotated[str, Meta(description="The tag.")]
    total: Annotated[int, Meta(description="The number of pages.")]
    pages: Annotated[list[ListedPage], Meta(description="The pages, by id.")]


class Backlink(TypedDict):
    """A page that links to another one."""

    id: PageId
    title: _Title
    summary: _Summary


class Backlinks(TypedDict):
    """The pages that link to a page."""

    id: PageId
    backlinks: Annotated[list[Backlink], Meta(description="The pages, by id.")]


def base_entry(base: Base) -> BaseEntry:
    """Return a base as an entry of the list."""
    return {"kb_id": base.kb_id, "name": base.name, "pages": base.pages}


def page_body(page: StoredPage) -> Page:
    """Return a page with every field."""
    source: SourceEntry | None = None
    if page.source is not None:
        source = {
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
