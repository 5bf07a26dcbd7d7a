"""Providers as they are on the wire: a file each, listed in `table.py`.

A port plays one provider: `Simulator.open_port(provider="groq")`, `PUT /_sim/providers/groq`. It
takes requests on that provider's paths alone, with the key where it belongs over there, for its
models, with the parameters it knows; answers, streams, usage, errors and headers have its forms.
Directives act as ever, and one more names a situation of the provider's own:
`[[sim {"situation": "rate_limited"}]]` (`model.py` lists them). `error_event` breaks a stream in
the way of the provider.

A key that begins with `wrong-` is refused as a wrong one, a model that is not on its list as
unknown. Of each group of facts the row says where it is from; no provider was asked itself.
"""
