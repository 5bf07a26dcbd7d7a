"""What depends on Tornado's internals.

Handlers are `tornado.web.RequestHandler`s by interface. This package implements the part of Tornado
that an API needs: heads without forms and files, responses without templates, cookies, ETags and
transforms; the rest was a third of the cost of a request. The parts of Tornado that it replaces or
relies on are listed in `tests/unit/http/test_tornado.py`, which fails when a new version of Tornado
changes one of them.
"""
